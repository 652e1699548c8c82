"""Shares of a sum: the same integers for any partition, nothing raised, nothing secret told."""

import errno
import pickle
import platform
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from discretion import blocks, datasets, errors, settings, shares
from discretion.learning import counts, evaluators, features, learners, sums, vapvi, vapvi_stationary
from discretion.learning.curator import Concentrated, Curator
from discretion.learning.schemas import Discrete, IntArray, Schema, Vector
from discretion.learning.trajectories import Trajectories
from tests import certified, services, uploading, worlds
from tests.learning import test_journal
from tests.learning.test_journal import RHO

CANARY = "4711.0815"


class Elsewhere:
    """Sums as a cluster makes them: packed, dealt out in any way, added in any tree; and checked against ours."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, world: worlds.World, seed: int) -> None:
        self.rng, self.made = np.random.default_rng(seed), 0
        self.blocks = list(replace(world, blocks=int(self.rng.integers(1, 12))).trajectories.blocks)
        monkeypatch.setattr(shares, "_read", self._read)

    def _read(self, wanted: shares.Wanted, blocks: Sequence[int]) -> Trajectories:
        return Trajectories(wanted.schema, wanted.units, [self.blocks[i] for i in blocks], wanted.first)

    def totals(self, statistics: Sequence[sums.Statistic], trajectories: Trajectories) -> list[IntArray]:
        owners = self.rng.integers(self.rng.integers(1, 5), size=len(self.blocks))
        here = trajectories.first, trajectories.units, tuple(statistics)
        wanted = shares.Wanted("line", 0, True, "d", trajectories.schema, *here)
        parts = [shares.add(wanted.packed(), tuple(np.flatnonzero(owners == owner))) for owner in np.unique(owners)]
        while len(parts) > 1:
            taken = [parts.pop(int(self.rng.integers(len(parts)))) for _ in range(2)]
            parts.append(shares.together(*taken))
        assert not isinstance(parts[0], int)
        assert [sums.form(each) for each in statistics] == [sums.Form(each.shape, each.dtype) for each in parts[0]]
        self.made += 1
        theirs, ours = sums.finished(statistics, parts[0]), sums.totals(statistics, trajectories)
        for one, other in zip(theirs, ours, strict=True):
            assert one.dtype == other.dtype
            assert np.array_equal(one, other)
        return theirs


def problems() -> list[tuple[worlds.World, learners.Parameters]]:
    found = test_journal.problems()
    plane = found[-1][0]
    assert isinstance(plane.schema.states, Vector)
    blocks = features.Blocks(plane.schema.states, 2, ("1", "y"))
    return [*found, (plane, vapvi.Parameters(blocks)), (plane, vapvi_stationary.Parameters(blocks, rounds=2))]


class TestPartitions:
    @pytest.mark.parametrize("seed", range(3))
    @pytest.mark.parametrize("kind", range(7))
    def test_any_partition_gives_the_same_integers(self, kind: int, seed: int, monkeypatch) -> None:
        world, parameters = problems()[kind]
        elsewhere = Elsewhere(monkeypatch, world, seed)
        learners.learn(Curator(world.trajectories, RHO.rho, None, elsewhere.totals), RHO, parameters)
        assert elsewhere.made > 0

    @pytest.mark.parametrize("kind", range(7))
    def test_rewards_that_all_differ_too_which_a_single_process_keeps_rounded(self, kind: int, monkeypatch) -> None:
        world, parameters = problems()[kind]
        draw = np.random.default_rng(kind)
        earned = [draw.uniform(*world.schema.reward, len(each.rewards)).tolist() for each in world.episodes]
        paired = zip(world.episodes, earned, strict=True)
        world = replace(world, episodes=[replace(each, rewards=rewards) for each, rewards in paired])
        elsewhere = Elsewhere(monkeypatch, world, kind)
        kept = [replace(each, rewards=world.schema.rounded(each.rewards)) for each in world.trajectories.blocks]
        learners.learn(
            Curator(replace(world.trajectories, blocks=kept), RHO.rho, None, elsewhere.totals), RHO, parameters
        )
        assert elsewhere.made > 0

    def test_a_half_of_the_units_too(self, monkeypatch) -> None:
        world, parameters = problems()[0]
        elsewhere = Elsewhere(monkeypatch, world, 5)
        half = world.trajectories.part(world.units // 2, world.units - world.units // 2)
        learners.learn(Curator(half, RHO.rho, None, elsewhere.totals), RHO, parameters)
        assert elsewhere.made > 0

    @pytest.mark.parametrize("vector", [False, True])
    def test_judgements_too(self, vector: bool, monkeypatch) -> None:
        world, privacy = certified.discrete(), Concentrated(Fraction(1, 2))
        policy, parameters = certified.made("gaussian").policy, evaluators.Parameters()
        if vector:
            world, learned = problems()[-1]
            assert isinstance(learned, vapvi_stationary.Parameters)
            policy = learners.learn(Curator(world.trajectories, RHO.rho), RHO, learned)
            parameters = evaluators.Parameters(features=learned.features)
        elsewhere = Elsewhere(monkeypatch, world, 7)
        asked = evaluators.resolved(world.schema, world.units, privacy, parameters)
        evaluators.evaluate(Curator(world.trajectories, Fraction(10), None, elsewhere.totals), privacy, asked, policy)
        assert elsewhere.made > 0


class TestAdd:
    def packed(self) -> bytes:
        world, _ = problems()[0]
        return shares.Wanted("line", 0, True, "gone", world.schema, 0, world.units, ()).packed()

    @pytest.mark.parametrize(
        ("raised", "code"),
        [
            (errors.StoreUnavailable(CANARY), shares.NO_STORE),
            (errors.InvalidSetting(CANARY), shares.NO_STORE),
            (MemoryError(CANARY), shares.NO_MEMORY),
            (RuntimeError("can't start new thread"), shares.NO_MEMORY),
            (OSError(errno.ENOMEM, CANARY), shares.NO_MEMORY),
            (OSError(errno.EIO, CANARY), shares.FAILED),
            (RuntimeError(CANARY), shares.FAILED),
            (ValueError(CANARY), shares.FAILED),
            (KeyError(CANARY), shares.FAILED),
        ],
    )
    def test_what_goes_wrong_is_a_number(self, raised: Exception, code: int, monkeypatch) -> None:
        def refuse(wanted: shares.Wanted, blocks: Sequence[int]) -> Trajectories:
            raise raised

        monkeypatch.setattr(shares, "_read", refuse)
        assert shares.add(self.packed(), (0,)) == code
        assert shares.together(code, [np.zeros(1, np.int64)]) == code

    def test_what_cannot_be_read_is_a_number(self) -> None:
        assert shares.add(b"nonsense", (0,)) == shares.FAILED


class TestHere:
    """What a machine keeps from one sum of a training to the next."""

    @pytest.fixture
    def here(self) -> shares.Here:
        made = shares.Here()
        made.most = 1000
        return made

    def full(self, here: shares.Here, line: str = "one") -> blocks.Kept:
        kept = here.kept(line, 0, whole=True)
        kept.remember((0, "key"), "something")
        return kept

    def test_is_as_much_as_it_has_beside_what_sums_need(self, here: shares.Here) -> None:
        kept = here.kept("one", 600, whole=True)
        assert (kept.reserve(401), kept.reserve(400)) == (False, True)
        assert here.kept("one", 600, whole=True) is kept

    @pytest.mark.parametrize(("most", "need"), [(0, 0), (1000, 1000), (1000, 2000)])
    def test_is_nothing_where_that_is_nothing(self, most: int, need: int, here: shares.Here) -> None:
        here.most = most
        kept = here.kept("one", need, whole=True)
        assert (kept.room, kept.reserve(1)) == (False, False)

    def test_is_no_more_than_a_training_keeps_by_itself(self, here: shares.Here) -> None:
        here.most = 2 * blocks.KEPT
        kept = here.kept("one", 0, whole=True)
        assert (kept.reserve(blocks.KEPT + 1), kept.reserve(blocks.KEPT)) == (False, True)

    def test_is_nothing_while_there_are_several_and_the_last_ones_again(self, here: shares.Here) -> None:
        first = self.full(here)
        assert not here.kept("two", 0, whole=True).room
        assert not here.kept("one", 0, whole=True).room
        here.forget("two")
        again = here.kept("one", 0, whole=True)
        assert again is not first
        assert (again.room, again.is_empty) == (True, True)

    def test_is_gone_when_the_training_takes_its_leave(self, here: shares.Here) -> None:
        self.full(here)
        here.forget("another")
        assert not here.kept("one", 0, whole=True).is_empty
        here.forget("one")
        assert here.kept("one", 0, whole=True).is_empty

    def test_is_gone_when_it_has_not_asked_for_long(self, here: shares.Here, monkeypatch: pytest.MonkeyPatch) -> None:
        now = 0.0
        monkeypatch.setattr(time, "monotonic", lambda: now)
        self.full(here)
        now = shares._LEFT
        here.tidy()
        assert not here.kept("one", 0, whole=True).is_empty
        now += shares._LEFT + 1
        here.tidy()
        assert here._kept is None
        assert here.kept("two", 0, whole=True).room  # it is the only one

    def test_gives_way_and_comes_back_for_the_next_training(self, here: shares.Here) -> None:
        self.full(here)
        here.give_way()
        kept = here.kept("one", 0, whole=True)
        assert (kept.room, kept.is_empty) == (False, True)
        here.forget("one")
        assert here.kept("two", 0, whole=True).room

    @pytest.mark.parametrize("enough", [True, False])
    def test_gives_way_to_what_has_too_little_memory(
        self, enough: bool, here: shares.Here, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Once: who has too little then has too little."""
        full = []

        def hungry(*given: object, **named: object) -> list[IntArray]:
            assert here._kept is not None
            full.append(not here._kept.is_empty)
            if full[-1] or not enough:
                raise MemoryError
            return []

        world, _ = problems()[0]
        packed = shares.Wanted("one", 0, True, "d", world.schema, 0, world.units, ()).packed()
        monkeypatch.setattr(shares, "HERE", here)
        for name in ("_read", "functools"):
            monkeypatch.setattr(shares, name, SimpleNamespace(reduce=hungry) if name == "functools" else hungry)
        monkeypatch.setattr(sums, "partials", lambda *given, threads: [])
        one = [np.ones(1, np.int64)]
        for make in (lambda: shares.add(packed, (0,)), lambda: shares.together(one, one)):
            self.full(here)
            assert isinstance(make(), int) != enough
            assert full == [True, False]
            here.forget("one")
            full.clear()


class TestVersions:
    def test_another_kind_of_processor_is_another_version(self, monkeypatch: pytest.MonkeyPatch) -> None:
        ours = shares.versions()  # before, because it is found once
        monkeypatch.setattr(platform, "machine", lambda: "another")
        assert dict(shares.versions.__wrapped__().items() - ours.items()) == {"processor": "another"}


class TestWhyNot:
    def test_a_dataset_that_lacks_a_file_is_said_before_anything_is_charged(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        place = uploading.place(tmp_path / "set")
        rows = uploading.written(uploading.some_rows(9), uploading.CSV)
        datasets.accept([rows], uploading.CSV, uploading.SCHEMA, place)
        monkeypatch.setattr(shares, "_shelf", lambda: place.shelf)
        assert shares.why_not("set") is None
        (tmp_path / "set" / "0000.parquet").unlink()
        assert "files of the dataset are missing from the store" in str(shares.why_not("set"))


class TestForm:
    def test_what_a_table_will_be_is_said_without_one(self, monkeypatch) -> None:
        def refuse(*given: object) -> IntArray:
            raise MemoryError

        monkeypatch.setattr(counts, "_zeros", refuse)
        schema = Schema(4, Discrete(100_000), 25)
        table = counts.TransitionCounts(schema, rows=np.arange(10**5), narrow=True)
        assert sums.form(table).bytes == table.bytes == 4 * (10**5 + 1) ** 2
        assert "_index" not in vars(table)  # which would be sent to every machine


class TestWanted:
    def test_no_key_and_no_setting_is_sent(self, tmp_path: Path) -> None:
        world, _ = problems()[0]
        packed = shares.Wanted("line", 0, True, "folder", world.schema, 0, world.units, ()).packed()
        told = {"line", "need", "whole", "dataset", "schema", "first", "units", "statistics"}
        assert set(vars(pickle.loads(packed))) == told


class TestImports:
    def test_dask_is_imported_by_nobody_who_has_no_cluster(self, tmp_path: Path) -> None:
        rooms = [path.stem for path in Path(shares.__file__).parent.glob("*.py")]
        wanted = sorted(set(rooms) - {"__init__", "__main__", "cluster", "machines", "hosting", "figures"})
        lines = ["import sys", *(f"import discretion.{room}" for room in wanted)]
        lines += ["import discretion.api.app, discretion.commands.cluster, discretion.commands.operations"]
        lines += ["from discretion import settings, summing"]
        lines += ["with summing.of(settings.read({}), None, None) as totals: pass"]
        lines += ["assert not {'dask', 'distributed', 'tornado'} & set(sys.modules)"]
        environment = services.environment(tmp_path)
        done = subprocess.run([sys.executable, "-c", "\n".join(lines)], env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr

    @pytest.mark.parametrize("command", ["schedule", "work", "check"])
    def test_not_by_a_command_about_a_cluster_that_is_not_set_either(self, command: str, tmp_path: Path) -> None:
        lines = ["import sys", "from discretion import cli"]
        lines += [f"try: cli.app(['cluster', '{command}'])", "except SystemExit as ended: assert ended.code == 2"]
        lines += ["assert not {'dask', 'distributed', 'tornado'} & set(sys.modules)"]
        environment = services.environment(tmp_path)
        done = subprocess.run([sys.executable, "-c", "\n".join(lines)], env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert "DISCRETION_CLUSTER is not set" in done.stderr


class TestSettings:
    @pytest.mark.parametrize(
        ("given", "said"),
        [
            ({"CLUSTER": "tcp://host:8786"}, "tls://host:port"),
            ({"CLUSTER": "tls://host"}, "tls://host:port"),
            ({"CLUSTER": "tls://host:8786"}, "CLUSTER_CA_FILE"),
            ({"CLUSTER": "tls://host:8786", "CLUSTER_CA_FILE": "ca", "CLUSTER_KEY_FILE": "key"}, "CERTIFICATE_FILE"),
            ({"CLUSTER_CA_FILE": "ca"}, "tls://host:port"),
        ],
    )
    def test_what_cannot_be_meant_is_refused(self, given: dict[str, str], said: str) -> None:
        with pytest.raises(errors.InvalidSetting, match=said):
            settings.read({f"DISCRETION_{name}": value for name, value in given.items()})
