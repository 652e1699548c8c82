"""The notebook, run from its first cell to its last: `python -m docs.building.play` writes into it what it printed.

With a path it writes the result there and leaves the notebook alone.
"""

import sys
import tempfile
from pathlib import Path
from typing import Final

import nbformat
from nbclient import NotebookClient

NOTEBOOK: Final = Path(__file__).parents[1] / "notebook.ipynb"
_SECONDS: Final = 600  # for one cell, on a slow machine


def played(source: Path) -> nbformat.NotebookNode:
    """In a folder of its own; a cell that fails raises."""
    notebook = nbformat.read(source, as_version=4)  # type: ignore[no-untyped-call]
    with tempfile.TemporaryDirectory() as folder:
        client = NotebookClient(notebook, timeout=_SECONDS, resources={"metadata": {"path": folder}})
        client.startup_timeout = _SECONDS
        client.coalesce_streams = True  # else what a cell prints comes in as many pieces as the moment will have it
        client.execute()
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)  # when it ran is nobody's business
    return notebook


if __name__ == "__main__":
    place = Path(sys.argv[1]) if len(sys.argv) > 1 else NOTEBOOK
    nbformat.write(played(NOTEBOOK), place)  # type: ignore[no-untyped-call]
