"""How far something is, as a bar on a terminal; anywhere else, nothing."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import Progress

Show = Callable[[float | None], None]  # told the share that is done, or None while nobody knows how long it takes


@contextmanager
def bar(name: str, wanted: bool = True) -> Iterator[Show]:
    console = Console(stderr=True)
    still = not wanted or not console.is_terminal or console.is_dumb_terminal  # nothing there can move
    with Progress(console=console, disable=still, transient=True) as progress:
        known, unknown = progress.add_task(name, total=1.0), progress.add_task(name, total=None, visible=False)

        def show(done: float | None) -> None:
            progress.update(known, completed=done or 0.0, visible=done is not None)
            progress.update(unknown, visible=done is None)

        yield show


def counted(chunks: Iterable[bytes], parts: int | None, show: Show) -> Iterator[bytes]:
    """The same chunks; of so many, the share that has left is shown. Afterwards the service still checks rows."""
    show(None if parts is None else 0.0)
    for gone, chunk in enumerate(chunks, 1):
        yield chunk  # and whoever asks for the next has sent this one
        if parts is not None:
            show(min(gone / max(parts, 1), 1.0))
    show(None)
