"""The queue: charged once, claimed by one, never drawn twice, on both databases."""

import threading
import tracemalloc
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import sqlalchemy as sa

from discretion import database, errors, ledger, runs, tables, trainings
from discretion.learning.policy import Policy, Table
from discretion.learning.schemas import Discrete
from discretion.privacy import events
from discretion.privacy.rho import Rho

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
LEASE = timedelta(seconds=30)
WORKER: dict[str, Any] = {"actor": "worker", "lease": LEASE}
TABLE = Table(np.zeros((1, 2), dtype=np.int64), np.ones((1, 2), dtype=bool), np.zeros((1, 2)))
POLICY = Policy("dp-apvi", 1, Discrete(2), 2, TABLE, id="pol_1")
SCHEMA = '{"horizon":1,"states":{"kind":"discrete","count":2},"actions":{"count":2},"reward":{"low":0,"high":1}}'
EVENT = events.Event(events.GAUSSIAN, "visits", (2,), Fraction(2), Fraction(4))


def state(engine, training="tr_1"):
    with database.transaction(engine) as connection:
        ledger.verify_all(connection)
        return connection.execute(sa.select(tables.trainings.c.state).where(tables.trainings.c.id == training)).scalar()


def spent(engine):
    with database.transaction(engine) as connection:
        found = ledger.balance(connection, "pop_1")
        return found.reserved.nano, found.charged.nano


def submit(engine, training="tr_1", *, key=None, request=None, rho=3):
    with database.transaction(engine) as connection:
        return trainings.submit(
            connection,
            training,
            dataset="ds_1",
            request=request or {"algorithm": "dp-apvi"},
            rho=Rho(rho),
            stages=2,
            actor="key_2",
            idempotency_key=key or training,
            at=NOW,
        )


def claim(engine, at=NOW):
    with database.transaction(engine) as connection:
        return runs.claim(connection, at=at, **WORKER)


@pytest.fixture
def ready(engine):
    with database.transaction(engine) as connection:
        ledger.open_account(connection, "pop_1", Rho(10), name="a clinic", actor="key_1", at=NOW)
        values = {"id": "ds_1", "population": "pop_1", "owner": "key_1", "name": "icu", "state": "ready", "units": 4}
        connection.execute(tables.datasets.insert().values(**values, schema=SCHEMA, created_at=NOW.isoformat()))
    return engine


class TestSubmit:
    def test_queues_and_reserves_together_or_not_at_all(self, ready):
        assert submit(ready) == "tr_1"
        assert (state(ready), spent(ready)) == ("queued", (3, 0))
        with pytest.raises(errors.BudgetExhausted):
            submit(ready, "tr_2", rho=8)
        assert (state(ready, "tr_2"), spent(ready)) == (None, (3, 0))

    def test_the_same_key_and_request_is_the_same_training(self, ready):
        assert submit(ready, "tr_1", key="k") == submit(ready, "tr_2", key="k") == "tr_1"
        assert spent(ready) == (3, 0)
        with pytest.raises(errors.IdempotencyConflict):
            submit(ready, "tr_3", key="k", request={"algorithm": "dp-vapvi"})

    def test_needs_a_dataset_with_data(self, ready):
        with database.transaction(ready) as connection:
            connection.execute(tables.datasets.update().values(state="retired"))
        with pytest.raises(errors.DatasetNotReady):
            submit(ready)
        assert spent(ready) == (0, 0)


class TestClaim:
    def test_takes_the_oldest_and_charges_it(self, ready):
        for name in ("tr_1", "tr_2"):
            submit(ready, name)
        first, second, none = claim(ready), claim(ready), claim(ready)
        assert (first.training, second.training, none) == ("tr_1", "tr_2", None)
        assert spent(ready) == (0, 6)

    def test_a_training_is_claimed_again_after_its_lease_and_charged_once(self, ready):
        submit(ready)
        first = claim(ready)
        assert claim(ready, NOW + LEASE) is None
        second = claim(ready, NOW + LEASE + timedelta(microseconds=1))
        assert (second.training, second.fence) == ("tr_1", first.fence + 1)
        assert spent(ready) == (0, 3)

    def test_a_lease_that_is_kept_does_not_run_out(self, ready):
        submit(ready)
        held = claim(ready)
        with database.transaction(ready) as connection:
            runs.keep(connection, held, at=NOW + LEASE, lease=LEASE, done=0)
        assert claim(ready, NOW + LEASE + timedelta(seconds=1)) is None

    def test_one_that_was_let_go_with_a_pause_is_nobodys_until_then_and_keeps_nobody_waiting(self, ready):
        submit(ready)
        held, pause = claim(ready), timedelta(seconds=600)
        with database.transaction(ready) as connection:
            runs.let_go(connection, held, at=NOW, told=False, pause=pause)
        submit(ready, "tr_2")
        assert claim(ready).training == "tr_2"
        assert claim(ready, NOW + pause - timedelta(microseconds=1)) is not None  # whose lease has run out
        assert claim(ready, NOW + pause - timedelta(microseconds=1)) is None
        again = claim(ready, NOW + pause)
        assert (again.training, again.attempts, again.elapsed) == ("tr_1", 2, 600)
        assert spent(ready) == (0, 6)

    def test_one_that_pauses_can_be_cancelled(self, ready):
        submit(ready)
        held, pause = claim(ready), timedelta(seconds=600)
        with database.transaction(ready) as connection:
            runs.let_go(connection, held, at=NOW, told=False, pause=pause)
            trainings.cancel(connection, "tr_1", actor="key_2", at=NOW)
        assert (claim(ready, NOW + 2 * pause), state(ready), spent(ready)) == (None, "cancelled", (0, 3))

    def test_many_workers_get_one_training_each(self, make_engine, ready):
        for number in range(3):
            submit(ready, f"tr_{number}")
        got: list[str] = []
        gate = threading.Barrier(16)

        def worker():
            engine = make_engine()
            gate.wait()
            for _ in range(3):
                if (held := claim(engine)) is not None:
                    got.append(held.training)

        threads = [threading.Thread(target=worker) for _ in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(got) == ["tr_0", "tr_1", "tr_2"]
        assert spent(ready) == (0, 9)


class TestFence:
    def test_a_worker_that_lost_its_lease_can_write_nothing(self, ready):
        submit(ready)
        old, new = claim(ready), claim(ready, NOW + 2 * LEASE)
        acts = [
            lambda c: runs.keep(c, old, at=NOW, lease=LEASE, done=0),
            lambda c: runs.intend(c, old, 0, [EVENT]),
            lambda c: runs.record(c, old, 0, [np.zeros(2, dtype=np.int64)]),
            lambda c: runs.release(c, old, POLICY, "{}", at=NOW),
        ]
        for act in acts:
            with pytest.raises(errors.LeaseLost), database.transaction(ready) as connection:
                act(connection)
        with database.transaction(ready) as connection:
            runs.release(connection, new, POLICY, "{}", at=NOW)
        assert state(ready) == "released"
        with pytest.raises(errors.LeaseLost), database.transaction(ready) as connection:
            runs.fail(connection, new)


class TestDraws:
    def test_what_was_recorded_is_recalled_bit_for_bit(self, ready):
        submit(ready)
        held = claim(ready)
        noised = [np.array([[-(2**61), 5]]), np.zeros((0, 3), dtype=np.int64)]
        with database.transaction(ready) as connection:
            assert runs.recall(connection, held.training, 0, [EVENT, EVENT]) is None
            runs.intend(connection, held, 0, [EVENT, EVENT])
            runs.record(connection, held, 0, noised)
        again = claim(ready, NOW + 2 * LEASE)
        with database.transaction(ready) as connection:
            recalled = runs.recall(connection, again.training, 0, [EVENT, EVENT])
        assert recalled is not None
        for one, other in zip(recalled, noised, strict=True):
            assert one.dtype == other.dtype
            np.testing.assert_array_equal(one, other)

    def test_one_piece_is_held_beside_what_is_recalled(self, ready, monkeypatch):
        monkeypatch.setattr(runs, "_PIECE", 2**17)
        submit(ready)
        held, noised = claim(ready), np.arange(2**19)
        with database.transaction(ready) as connection:
            runs.intend(connection, held, 0, [EVENT])
            runs.record(connection, held, 0, [noised])
        with database.snapshot(ready) as connection:
            tracemalloc.start()
            recalled = runs.recall(connection, "tr_1", 0, [EVENT])
            _, most = tracemalloc.get_traced_memory()
            tracemalloc.stop()
        np.testing.assert_array_equal(recalled, [noised])
        assert most < noised.nbytes + 4 * runs._PIECE

    def test_pieces_that_do_not_add_up_are_not_recalled(self, ready, monkeypatch):
        monkeypatch.setattr(runs, "_PIECE", 2**10)
        whole = list(runs._pieces(np.arange(2**9)))
        objects, floats = (next(runs._pieces(np.zeros(3, kind))) for kind in (object, np.float64))
        damaged = [
            whole[:-1],
            whole[1:],
            [*whole, b"0"],
            [*whole[:2], whole[2][:-1], *whole[3:]],
            [objects, b"0" * 24],
            [floats, b"0" * 24],
            [],
        ]
        submit(ready)
        held = claim(ready)
        for number, pieces in enumerate([whole, *damaged]):
            monkeypatch.setattr(runs, "_pieces", lambda noised, pieces=pieces: pieces)
            with database.transaction(ready) as connection:
                runs.intend(connection, held, number, [EVENT])
                runs.record(connection, held, number, [np.zeros(1, dtype=np.int64)])
        with database.snapshot(ready) as connection:
            assert runs.recall(connection, "tr_1", 0, [EVENT]) is not None
            for number in range(1, 1 + len(damaged)):
                with pytest.raises(errors.DrawInterrupted, match="not stored as it was recorded"):
                    runs.recall(connection, "tr_1", number, [EVENT])

    def test_an_intent_without_values_is_never_drawn_again(self, ready):
        submit(ready)
        held = claim(ready)
        with database.transaction(ready) as connection:
            runs.intend(connection, held, 0, [EVENT])
        again = claim(ready, NOW + 2 * LEASE)
        with pytest.raises(errors.DrawInterrupted), database.transaction(ready) as connection:
            runs.recall(connection, again.training, 0, [EVENT])
        with pytest.raises(sa.exc.IntegrityError), database.transaction(ready) as connection:
            runs.intend(connection, again, 0, [EVENT])

    def test_a_recorded_draw_cannot_be_replaced(self, ready):
        submit(ready)
        held = claim(ready)
        with database.transaction(ready) as connection:
            runs.intend(connection, held, 0, [EVENT])
            runs.record(connection, held, 0, [np.array([1, 2])])
        with pytest.raises(errors.DrawInterrupted), database.transaction(ready) as connection:
            runs.record(connection, held, 0, [np.array([3, 4])])

    def test_another_question_than_the_recorded_one_is_not_answered_with_its_values(self, ready):
        submit(ready)
        held = claim(ready)
        other = events.Event(events.GAUSSIAN, "visits", (2,), Fraction(2), Fraction(5))
        with database.transaction(ready) as connection:
            runs.intend(connection, held, 0, [EVENT])
            runs.record(connection, held, 0, [np.array([1, 2])])
        for asked in ([other], [EVENT, EVENT]):
            with pytest.raises(errors.DrawInterrupted), database.transaction(ready) as connection:
                runs.recall(connection, held.training, 0, asked)


class TestCancel:
    def test_before_it_started_the_reservation_comes_back(self, ready):
        submit(ready)
        with database.transaction(ready) as connection:
            trainings.cancel(connection, "tr_1", actor="key_2", at=NOW)
        assert (state(ready), spent(ready)) == ("cancelled", (0, 0))
        assert claim(ready) is None

    def test_after_it_started_nothing_does_and_the_worker_is_out(self, ready):
        submit(ready)
        held = claim(ready)
        with database.transaction(ready) as connection:
            trainings.cancel(connection, "tr_1", actor="key_2", at=NOW)
        assert (state(ready), spent(ready)) == ("cancelled", (0, 3))
        with pytest.raises(errors.LeaseLost), database.transaction(ready) as connection:
            runs.release(connection, held, POLICY, "{}", at=NOW)

    def test_what_has_ended_cannot_be_cancelled(self, ready):
        for name in ("tr_9", "tr_1"):
            if name == "tr_1":
                submit(ready)
                held = claim(ready)
                with database.transaction(ready) as connection:
                    runs.fail(connection, held)
            with pytest.raises(errors.TrainingEnded), database.transaction(ready) as connection:
                trainings.cancel(connection, name, actor="key_2", at=NOW)

    def test_a_cancellation_and_a_claim_at_once_leave_one_winner(self, make_engine, ready):
        for number in range(8):
            submit(ready, f"tr_{number}", rho=1)
            before = spent(ready)[1]
            outcomes: list[str] = []

            def cancelling(number=number, outcomes=outcomes):
                with database.transaction(make_engine()) as connection:
                    trainings.cancel(connection, f"tr_{number}", actor="key_2", at=NOW)
                outcomes.append("cancelled")

            def claiming(outcomes=outcomes):
                if claim(make_engine()) is not None:
                    outcomes.append("claimed")

            threads = [threading.Thread(target=act) for act in (cancelling, claiming)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert state(ready, f"tr_{number}") == "cancelled"
            assert spent(ready) == (0, before + ("claimed" in outcomes))
