"""The command line."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import MofNCompleteColumn, Progress, TimeElapsedColumn
from rich.table import Table

import discretion
from discretion import errors, simulation
from discretion.privacy.rho import Rho

app = typer.Typer(name="discretion", no_args_is_help=True, add_completion=False)


def show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"discretion {discretion.__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", callback=show_version, is_eager=True, help="Show the version and leave.")
    ] = False,
) -> None:
    """Policies learned from treatment histories, with a privacy promise that can be checked."""


def _numbers(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise errors.InvalidParameter(f"episodes must be whole numbers between commas, not {text!r}.") from None


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
        _refuse("Drawing needs matplotlib; install discretion[plots].")
    try:
        budgets = tuple(Rho.parse(part) for part in rho.split(","))
        design = simulation.Design(_numbers(episodes), budgets, instances, repetitions, calibration)  # type: ignore[arg-type]
        out.mkdir(parents=True, exist_ok=True)
        rows = _simulated(design)
        simulation.write(rows, out / "suboptimality.csv")
        figures.draw(rows, calibration, out)
    except errors.Refusal as refusal:
        _refuse(str(refusal))
    except OSError as trouble:
        _refuse(f"Cannot write to {out}: {trouble.strerror}.")
    Console().print(_summary(rows))


def _simulated(design: simulation.Design) -> list[simulation.Row]:
    columns = (*Progress.get_default_columns()[:2], MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True)) as progress:
        return list(progress.track(simulation.run(design), total=design.runs, description="policies learned"))


def _summary(rows: list[simulation.Row]) -> Table:
    table = Table(title="mean sub-optimality v* − v^π")
    table.add_column("algorithm")
    table.add_column("ρ", justify="right")
    counts = sorted({row.episodes for row in rows})
    for count in counts:
        table.add_column(f"K = {count}", justify="right")
    for algorithm, rho in dict.fromkeys((row.algorithm, row.rho) for row in rows):
        gaps: dict[int, list[float]] = {count: [] for count in counts}
        for row in rows:
            if (row.algorithm, row.rho) == (algorithm, rho):
                gaps[row.episodes].append(row.suboptimality)
        table.add_row(algorithm, rho or "–", *(f"{sum(g) / len(g):.3f}" for g in gaps.values()))
    return table


def _refuse(reason: str) -> None:
    typer.echo(reason, err=True)
    raise typer.Exit(2)
