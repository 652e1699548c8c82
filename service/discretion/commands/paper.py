"""The paper's simulation, drawn again."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import MofNCompleteColumn, Progress, TimeElapsedColumn
from rich.table import Table

from discretion import errors, simulation
from discretion.commands import terminal
from discretion.privacy.rho import Rho

app = typer.Typer()


@app.command()
def simulate(
    out: Annotated[Path, typer.Option(help="Folder for the figures and the numbers behind them.")],
    episodes: Annotated[str, typer.Option(help="Numbers of episodes.")] = "5,10,20,50,100,200,500,1000",
    rho: Annotated[str, typer.Option(help="Privacy budgets ρ.")] = "1,10,100",
    instances: Annotated[int, typer.Option(help="Problems drawn.")] = 2,
    repetitions: Annotated[int, typer.Option(help="Datasets drawn for each problem.")] = 5,
    calibration: Annotated[str, typer.Option(help="How DP-VAPVI spends its budget: paper or tight.")] = "paper",
) -> None:
    """Draw Figure 1 of the paper again: PEVI, VAPVI and DP-VAPVI on its simulated linear MDP."""
    try:
        from discretion import figures
    except ImportError:
        terminal.refuse("Drawing needs matplotlib; install discretion[plots].")
    with terminal.told():
        budgets = tuple(Rho.parse(part) for part in rho.split(","))
        design = simulation.Design(_numbers(episodes), budgets, instances, repetitions, calibration)  # type: ignore[arg-type]
        out.mkdir(parents=True, exist_ok=True)
        rows = _simulated(design)
        simulation.write(rows, out / "suboptimality.csv")
        figures.draw(rows, calibration, out)
    Console().print(_summary(rows))


def _simulated(design: simulation.Design) -> list[simulation.Row]:
    columns = (*Progress.get_default_columns()[:2], MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True)) as progress:
        return list(progress.track(simulation.run(design), total=design.runs, description="policies learned"))


def _summary(rows: list[simulation.Row]) -> Table:
    """A line for each number of episodes, so that it fits a narrow terminal."""
    table = Table("K", title="mean loss v* − v^π; columns with ρ are dp-vapvi")
    kinds = list(dict.fromkeys((row.algorithm, row.rho) for row in rows))
    for algorithm, rho in kinds:
        table.add_column(f"ρ = {rho}" if rho else algorithm, justify="right")
    gaps: dict[tuple[int, str, str], list[float]] = {}
    for row in rows:
        gaps.setdefault((row.episodes, row.algorithm, row.rho), []).append(row.suboptimality)
    for count in sorted({row.episodes for row in rows}):
        cells = (gaps[count, algorithm, rho] for algorithm, rho in kinds)
        table.add_row(str(count), *(f"{sum(cell) / len(cell):.3f}" for cell in cells))
    return table


def _numbers(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise errors.InvalidParameter(f"episodes must be whole numbers between commas, not {text!r}.") from None
