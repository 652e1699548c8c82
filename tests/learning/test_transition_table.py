"""The table of transitions that a policy is judged with: only rows that something stands for are drawn and held, and it
says what the whole table would."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from benchmarks.utility import coverage, problems

from discretion.learning import denoising, evaluators, followed, fqe, judgements, occupancy, outcomes, policy, sums
from discretion.learning import potential as potentials
from discretion.learning import transition_table as tables
from discretion.learning.asking import Asker, deviation
from discretion.learning.curator import Answer, Concentrated, Curator, Query
from discretion.learning.occupancy import Counts, Estimate, MeanSizes
from discretion.learning.schemas import FloatArray, IntArray, Schema
from discretion.learning.trajectories import Trajectories
from tests.curators import Coupled, ZeroNoise
from tests.learning.test_fqe import ONE, by_step, judged_policy, world
from tests.learning.test_journal import Crash, Interrupted, Notebook

TABLE = fqe.Parameters(way="table")


# --- the whole table, as a reference -----------------------------------------------------------------------------


def dense(asker: Asker, counts: Counts, sizes: MeanSizes, settled: potentials.Potential | None = None) -> Estimate:
    """Every row drawn and held, also of cells that nothing stands for."""
    cells, states, schema = counts.cells, asker.schema.count, asker.schema
    live, visits = cells > 0, np.maximum(cells, 1.0)
    standing = float(cells[states * schema.actions :].sum()) / asker.units
    radius = math.sqrt(counts.judged.limits.followed + occupancy.VISITED_LIMIT * standing)
    moved = asker.ask(outcomes.Transitions(counts.judged, radius))
    assert moved.grid.shape == moved.event.shape == (len(cells), states + 2)
    kernel, doubt = np.zeros((2, len(cells), states + 2))
    if live.any():
        some = np.repeat(visits[live], states + 2)
        found = shares((moved.values * radius)[live].ravel(), some, deviation(moved) * radius, columns=states + 2)
        doubt[live] = found[1].reshape(-1, states + 2)
        kernel[live] = denoising.closed(found[0].reshape(-1, states + 2), doubt[live])
    expected = np.zeros(len(cells))
    if settled is not None:
        kernel[:, -2] *= cells[-1] > 0
        often = float((counts.recorded * kernel[counts.stands[0], -1]).sum())
        kernel[:, -1] *= min(1.0, settled.ended(asker.units) / max(often, 1e-300))
        kernel /= np.maximum(kernel.sum(axis=1, keepdims=True), 1e-300)
        on = kernel[:, :-1].sum(axis=1)
        expected = kernel[:, :-1] @ occupancy.phi_by_place(counts.judged) / np.maximum(on, 1e-300)
        expected -= occupancy.phi_by_cell(counts.judged)
    _, length = occupancy.centred(asker, counts, sizes, None)
    paid = asker.ask(outcomes.Targets(counts.judged, None, 0.0, length))
    reward = np.full(len(cells), 2 * float(paid.values[-1]) * length / max(float(cells.sum()), 1.0))
    unsure = np.zeros(len(cells))
    if live.any():
        either, rest = settled is not None, (paid.values[:-1] * length - visits * expected)[live]
        signs = {"below": either or schema.idle > 0, "above": either or schema.idle < 1}
        found = shares(rest, visits[live], deviation(paid) * length, **signs)
        reward[live], unsure[live] = expected[live] + found[0], found[1]
    starts = asker.ask(outcomes.Arrivals(counts.judged, np.zeros(states + 1), 1.0)).values
    start = tables._on_simplex(starts / max(float(starts.sum()), 1.0))
    steps = followed.pooled_steps(schema)
    values, here = np.zeros((steps + 1, states + 2)), [start]
    for step in reversed(range(steps)):
        score = np.clip(reward + kernel @ values[step + 1], *occupancy.possible_range(counts.judged))
        values[step, :-1] = score[counts.stands[step]]
    for step in range(steps):
        here.append((here[-1] @ kernel[counts.stands[step]])[:-1])
    variance = unsure + (doubt * (values[0] - kernel @ values[0][:, None]) ** 2).sum(axis=1)
    place = np.arange(states) if counts.judged.place is None else counts.judged.place
    by_state = values[:, np.append(place, states + 1)]
    return Estimate(np.array(here[:-1]), by_state, variance, variance, last=here[-1])


def shares(found: FloatArray, visits: FloatArray, noise: float, columns: int = 1, **signs: bool) -> Any:
    levels = denoising.levels(float(np.clip(noise / 2 / np.median(visits), 1e-3, 0.5)), **signs)
    group, variance = np.zeros(len(found), dtype=np.int64), np.full(len(found), noise**2)
    cells = denoising.Noised(found, visits, variance, group, sampled=False)
    start = np.append(0.5, np.full(len(levels) - 1, 0.5 / (len(levels) - 1)))
    some = cells.only(denoising.sampled(len(cells), columns))
    mass = 1 / columns if columns > 1 else None
    return denoising.posterior(cells, denoising.fit(some, start, levels, mass=mass))


class Both:
    """Asks for either, and holds them beside each other."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, changed: Callable[[Counts], Counts] = lambda found: found):
        self.counts: list[Counts] = []
        rows = tables.estimate

        def estimate(asker: Asker, counts: Counts, sizes: MeanSizes, settled: Any = None) -> Estimate:
            self.counts.append(changed(counts))
            mine, theirs = (each(asker, self.counts[-1], sizes, settled) for each in (rows, dense))
            for name in ("occupancy", "values", "noise", "unsure", "last"):
                one, other = getattr(mine, name), getattr(theirs, name)
                assert one.shape == other.shape
                assert np.allclose(one, other, rtol=1e-9, atol=1e-12), name
            assert (mine.doubt, mine.moved) == (theirs.doubt, theirs.moved)
            return mine

        monkeypatch.setattr(tables, "estimate", estimate)

    @property
    def live(self) -> int:
        return int((self.counts[0].cells > 0).sum())


def crowded(units: int = 200) -> Trajectories:
    """In a world of 40 states, most of which are rare."""
    public = world(states=40)
    rare = replace(public, kernel=public.kernel * np.append(0.01 + 1.0 / np.arange(1, 41) ** 2, 0.1))
    rare = replace(rare, kernel=rare.kernel / rare.kernel.sum(axis=2, keepdims=True))
    (block,) = rare.data(units, 3).blocks
    begun = np.array(block.states)
    begun[0] %= 3
    return Trajectories(public.schema, units, [replace(block, states=begun)])


def seeded(schema: Schema, units: int, rho: Fraction, seed: int) -> dict[str, IntArray]:
    """Noise of the right size for everything that is asked."""
    draw = np.random.default_rng(seed)
    planned = evaluators.mechanisms(schema, units, Concentrated(rho), TABLE)
    return {
        event.statistic: np.round(draw.normal(scale=math.sqrt(event.grid_scale), size=event.shape)).astype(np.int64)
        for event in planned
    }


class TestEstimate:
    @pytest.mark.parametrize("changing", [False, True])
    def test_without_noise_it_is_what_the_whole_table_says(
        self, changing: bool, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        public, both = world(), Both(monkeypatch)
        decisions = by_step(public.schema)
        decisions = decisions if changing else np.broadcast_to(decisions[0], decisions.shape)
        fqe.evaluate(ZeroNoise(public.data(2000, 3)), ONE, TABLE, judged_policy(public.schema, decisions))
        assert 6 < both.live <= 18 if changing else both.live == 6  # of 25

    @pytest.mark.parametrize("changing", [False, True])
    def test_with_a_pool_too(self, changing: bool, monkeypatch: pytest.MonkeyPatch) -> None:
        data, both = crowded(), Both(monkeypatch)
        decisions = by_step(data.schema)
        decisions = decisions if changing else np.broadcast_to(decisions[0], decisions.shape)
        fqe.evaluate(ZeroNoise(data), ONE, TABLE, judged_policy(data.schema, decisions))
        (counts,) = both.counts
        assert counts.judged.place is not None
        assert counts.judged.trusted is not None
        assert counts.cells[-1] > 0
        assert 0 < (counts.judged.place == 40).sum() < 40
        assert ((counts.judged.place < 40) & ~counts.judged.trusted.any(axis=1)).any()  # everyone stands in there
        assert both.live <= (80 if changing else 41)  # of 161

    @pytest.mark.parametrize("seed", range(3))
    @pytest.mark.parametrize("rho", [Fraction(1, 100), Fraction(1)])
    def test_with_the_noise_of_the_whole_table_too(
        self, seed: int, rho: Fraction, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        data, both = crowded(2000), Both(monkeypatch)
        curator = Coupled(data, seeded(data.schema, 2000, rho, seed))
        fqe.evaluate(curator, Concentrated(rho), TABLE, judged_policy(data.schema, by_step(data.schema)))
        assert 0 < both.live < 161

    @pytest.mark.parametrize("noisy", [False, True])
    def test_where_stays_earn_once_too(self, noisy: bool, monkeypatch: pytest.MonkeyPatch) -> None:
        problem, both = problems.windows(1000), Both(monkeypatch)
        data = problem.data(2000, 1)
        curator = Coupled(data, seeded(data.schema, 2000, Fraction(1), 1)) if noisy else ZeroNoise(data)
        judged = coverage._written(problem, "best", coverage.best(problem))
        evaluators.evaluate(curator, ONE, TABLE, judged)
        assert both.counts[0].judged.potential is not None
        assert both.live < data.schema.count * (data.schema.actions + 1)

    def test_a_policy_that_nothing_stands_for_too(self, monkeypatch: pytest.MonkeyPatch) -> None:
        public, both = world(), Both(monkeypatch, lambda counts: replace(counts, cells=np.zeros(len(counts.cells))))
        judged = judged_policy(public.schema, by_step(public.schema))
        found = fqe.evaluate(ZeroNoise(public.data(500, 3)), ONE, TABLE, judged)
        assert both.live == 0
        assert found.low <= found.value <= found.high

    def test_in_pieces_of_a_few_rows_it_is_the_same(self, monkeypatch: pytest.MonkeyPatch) -> None:
        data, judged = crowded(), judged_policy(world(states=40).schema, by_step(world(states=40).schema))
        whole = fqe.evaluate(ZeroNoise(data), ONE, TABLE, judged)
        monkeypatch.setattr(tables, "_ENTRIES", 100)
        assert fqe.evaluate(ZeroNoise(data), ONE, TABLE, judged) == whole


# --- what is drawn -----------------------------------------------------------------------------------------------


class Listening(Curator):
    """Keeps what it answered, with what it was asked."""

    answered: dict[str, tuple[Any, Answer]]

    def ask(self, *queries: Query) -> list[Answer]:
        found = super().ask(*queries)
        self.answered = getattr(self, "answered", {}) | {
            query.statistic.name: (query.statistic, answer) for query, answer in zip(queries, found, strict=True)
        }
        return found


class TestTransitions:
    @pytest.mark.parametrize("rows", [[], [0], [1, 7, 24], list(range(25)), [24, 3, 3, -1, 99]])
    def test_chosen_rows_are_those_of_the_whole_table(self, rows: list[int]) -> None:
        """Also where patients are shortened for what they have in other rows."""
        public = world()
        trusted = np.arange(18).reshape(6, 3) % 2 == 0
        trusted[4:] = False
        judged = followed.Judged(
            public.schema, by_step(public.schema), followed.Limits(9, 9), trusted, np.array([0, 1, 2, 3, 4, 6])
        )
        chosen = np.array(rows, dtype=np.int64)
        whole, some = (outcomes.Transitions(judged, 2.0, each) for each in (None, chosen))
        table, part = sums.totals([whole, some], public.data(300, 1))
        assert table.shape == whole.shape == some.shape
        assert part.shape == (len(rows), 8)
        if rows == sorted(rows):
            assert (part == table[chosen]).all()
        else:  # what a learner may not hand over: nobody counts twice all the same
            assert int((part.astype(object) ** 2).sum()) <= int((table.astype(object) ** 2).sum())

    def test_only_rows_that_something_stands_for_are_drawn_and_the_price_is_the_whole_tables(self) -> None:
        public = world(states=30)
        decisions = np.broadcast_to(by_step(public.schema)[0], (8, 30))
        curator = Listening(public.data(2000, 1), Fraction(1))
        fqe.evaluate(curator, ONE, TABLE, judged_policy(public.schema, decisions))
        statistic, answer = curator.answered[outcomes.Transitions.name]
        assert len(answer.grid) == len(statistic.rows) <= 31
        planned = evaluators.mechanisms(public.schema, 2000, ONE, TABLE)
        assert answer.event in planned
        assert answer.event.shape == (30 * 4 + 1, 32)

    def test_every_number_that_is_drawn_has_noise(self) -> None:
        public = world(states=30)
        decisions = np.broadcast_to(by_step(public.schema)[0], (8, 30))
        curator = Listening(public.data(2000, 1), Fraction(1))
        fqe.evaluate(curator, ONE, TABLE, judged_policy(public.schema, decisions))
        statistic, answer = curator.answered[outcomes.Transitions.name]
        (exact,) = sums.totals([statistic], public.data(2000, 1))
        assert (answer.grid == exact).sum() <= 1  # σ is 2²⁰ steps and more: of a thousand numbers hardly ever one


# --- interrupted -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Run:
    """The same evaluation, as often as it is begun."""

    data: Trajectories
    judged: policy.Policy

    def begin(self, notebook: Notebook) -> judgements.Evaluation:
        return fqe.evaluate(Curator(self.data, Fraction(1), notebook), ONE, TABLE, self.judged)


class TestJournal:
    run = Run(crowded(), judged_policy(world(states=40).schema, by_step(world(states=40).schema)))

    def test_a_crash_at_any_moment_repeats_or_fails_and_never_draws_twice(self) -> None:
        whole = Notebook()
        self.run.begin(whole)
        ended = []
        for moment in range(1, whole.moments + 1):
            notebook = Notebook(moment)
            with pytest.raises(Crash):
                self.run.begin(notebook)
            before = {number: value.copy() for number, value in notebook.values.items()}
            try:
                resumed = self.run.begin(notebook)
            except Interrupted:
                ended.append("failed")
            else:
                ended.append("resumed")
                assert self.run.begin(notebook) == resumed
            for number, value in before.items():
                assert (notebook.values[number] == value).all()
        assert set(ended) == {"failed", "resumed"}

    def test_a_run_that_drew_the_whole_table_goes_on_from_it(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """As before rows were chosen."""
        notebook, both = Notebook(), []
        rows = outcomes.Transitions.__init__

        def listen(self: Any, *given: Any, **named: Any) -> None:
            rows(self, *given, **named)
            both.append(self.rows)

        monkeypatch.setattr(outcomes.Transitions, "__init__", listen)
        found = self.run.begin(notebook)
        (number,) = (index for index, event in notebook.intents.items() if event.statistic == outcomes.Transitions.name)
        table = np.random.default_rng(0).integers(-(2**30), 2**30, notebook.intents[number].shape)
        table[both[-1]] = notebook.values[number]
        notebook.values[number] = table
        assert self.run.begin(notebook) == found
