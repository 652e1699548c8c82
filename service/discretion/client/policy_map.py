"""A policy as a picture: what it does at each step, in each state, and where it falls back. Needs the extra `plots`."""

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import BoundaryNorm, ListedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.text import Text
from numpy.typing import NDArray

from discretion import errors
from discretion.learning.policy import Policy
from discretion.learning.schemas import BoolArray, Discrete, FloatArray, IntArray, Vector

_POINTS = 60  # along a measurement
_NAMED = 12  # more actions than these have a scale in place of a legend


def draw(policy: Policy, scores: bool = False, column: str | None = None) -> Figure:
    """Steps to the right, states upwards; of a vector state, `column` moves and the others stand in their middle."""
    states, heights, name = _states(policy, column)
    judged = [policy.judge(step, states) for step in range(1, policy.horizon + 1)]
    actions = np.stack([decisions for decisions, _, _ in judged], axis=1)  # (S, H), like the two below
    learned = np.stack([known for _, known, _ in judged], axis=1)
    scored = np.stack([worth for _, _, worth in judged], axis=1)
    figure = Figure(figsize=(12 if scores else 7, 5), dpi=150, layout="constrained")
    panels = figure.subplots(1, 2 if scores else 1, squeeze=False)[0]
    _decisions(figure, panels[0], policy, heights, actions, learned)
    if scores:
        mesh = panels[1].pcolormesh(_edges(policy.horizon), heights, scored, cmap="viridis")
        figure.colorbar(mesh, ax=panels[1], label="pessimistic score, an estimate and no bound")
    for panel in panels:
        panel.set(xlabel="step", ylabel=name)
    for text in figure.findobj(Text):
        text.set_parse_math(False)  # a label may hold dollar signs
    return figure


def _states(policy: Policy, column: str | None) -> tuple[NDArray[np.generic], FloatArray, str]:
    """The states to ask about, the edges between them, and what to call them."""
    states = policy.states
    if isinstance(states, Discrete):
        if column is not None:
            raise errors.InvalidParameter("This policy's states are numbers and have no columns; leave `column` out.")
        return np.arange(states.count), _edges(states.count, 0), "state"
    column = column or states.columns[0]
    if column not in states.columns:
        raise errors.InvalidParameter(f"column must be one of {', '.join(states.columns)}.")
    return *_measured(states, states.columns.index(column)), _described(states, column)


def _measured(states: Vector, index: int) -> tuple[FloatArray, FloatArray]:
    edges = np.linspace(*states.bounds[index], _POINTS + 1)
    asked = np.tile([(low + high) / 2 for low, high in states.bounds], (_POINTS, 1))
    asked[:, index] = (edges[1:] + edges[:-1]) / 2
    return asked, edges


def _described(states: Vector, column: str) -> str:
    others = [f"{name} = {sum(bounds) / 2:g}" for name, bounds in zip(states.columns, states.bounds, strict=True)]
    fixed = [said for name, said in zip(states.columns, others, strict=True) if name != column]
    return column if not fixed else f"{column}, where {', '.join(fixed[:4])}{' …' if len(fixed) > 4 else ''}"


def _edges(count: int, first: int = 1) -> FloatArray:
    return np.arange(first, first + count + 1, dtype=np.float64) - 0.5


def _decisions(
    figure: Figure, panel: Axes, policy: Policy, heights: FloatArray, actions: IntArray, learned: BoolArray
) -> None:
    steps, few = _edges(policy.horizon), policy.actions <= _NAMED
    colours = matplotlib.colormaps["Paired" if few else "turbo"]
    chosen = [colours(index if few else index / max(1, policy.actions - 1)) for index in range(policy.actions)]
    norm = BoundaryNorm(_edges(policy.actions, 0).tolist(), policy.actions)
    mesh = panel.pcolormesh(steps, heights, actions, cmap=ListedColormap(chosen), norm=norm)
    if not learned.all():
        clear, fallen = ListedColormap(["none"]), np.ma.masked_array(actions, learned)  # alpha=0 would hide the hatches
        panel.pcolor(steps, heights, fallen, hatch="////", cmap=clear, edgecolor="black", linewidth=0)
    panel.set_title(f"{policy.algorithm}: {learned.mean():.0%} learned")
    names = policy.labels or tuple(f"action {index}" for index in range(policy.actions))
    fallback = Patch(facecolor="white", edgecolor="black", hatch="////", label="fallback")
    if few:
        shown = [Patch(color=colour, label=name) for colour, name in zip(chosen, names, strict=True)]
        figure.legend(handles=[*shown, fallback], loc="outside lower center", ncols=4, fontsize=8)
    else:
        figure.colorbar(mesh, ax=panel, label="action; hatched is fallback")
