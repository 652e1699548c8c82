"""Everybody at once on one population: whoever waits is served, and nobody is chosen to fail."""

import contextlib
import itertools
import threading
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from discretion import catalogue, database, errors, keys, ledger, runs, trainings
from discretion.learning.documents import schema_of
from discretion.learning.policy import Policy, Table
from discretion.learning.schemas import Discrete
from discretion.privacy.rho import Rho

ROUNDS = 12
LEASE = timedelta(seconds=30)
SCHEMA, _ = schema_of(
    {
        "horizon": 1,
        "states": {"kind": "discrete", "count": 2},
        "actions": {"count": 2},
        "reward": {"low": 0, "high": 1},
    }
)
TABLE = Table(np.zeros((1, 2), dtype=np.int64), np.ones((1, 2), dtype=bool), np.zeros((1, 2)))
# What a request may be told; anything else, a deadlock first of all, is a failure.
TOLD = (errors.TrainingEnded, errors.LeaseLost, errors.DatasetNotReady, errors.GrantExists, errors.NotReserved)


def now() -> datetime:
    return datetime.now(UTC)


class Ward:
    """A population with a dataset, its owner, and analysts."""

    def __init__(self, engine) -> None:
        with database.transaction(engine) as connection:
            self.owner, _ = keys.create(connection, "owner", "custodian", at=now())
            self.analysts = [keys.create(connection, "analyst", "analyst", at=now())[0] for _ in range(2)]
            self.population = catalogue.add_population(connection, "ward", Rho(10**9), owner=self.owner, at=now())

    def dataset(self, engine) -> catalogue.Dataset:
        with database.transaction(engine) as connection:
            made = catalogue.add_dataset(connection, "icu", self.population, SCHEMA, None, owner=self.owner, at=now())
            catalogue.begin_upload(connection, made, made)
            catalogue.fill(connection, made, units=4, folder=made)
            return catalogue.dataset(connection, self.owner, made)

    def submit(self, connection, dataset, training: str, key: str, grant: str | None = None) -> str:
        return trainings.submit(
            connection,
            training,
            dataset=dataset.id,
            request={"algorithm": "dp-apvi"},
            rho=Rho(1),
            stages=2,
            actor=self.analysts[0].id,
            idempotency_key=key,
            at=now(),
            grant=grant,
        )


class TestContention:
    def test_submitting_claiming_releasing_cancelling_granting_and_retiring_at_once_never_deadlock(self, make_engine):
        ward = Ward(make_engine())
        numbers = itertools.count()
        surprises: list[BaseException] = []

        def submit(connection, dataset):
            number = next(numbers)
            grant = catalogue.own_grant(connection, dataset.id, ward.analysts[0].id)
            ward.submit(connection, dataset, f"tr_{number}", str(number), None if grant is None else grant.id)

        def cancel(connection, _):
            trainings.cancel(connection, f"tr_{max(0, next(numbers) - 3)}", actor="key_x", at=now())

        def claim_and_release(connection, _):
            held = runs.claim(connection, actor="worker", at=now(), lease=LEASE)
            if held is not None:
                named = Policy("dp-apvi", 1, Discrete(2), 2, TABLE, id=f"pol_{held.training}")
                runs.release(connection, held, named, "{}", at=now())

        def grant(connection, dataset):
            for analyst in ward.analysts:
                catalogue.grant(connection, dataset, analyst.id, Rho(1000), at=now())

        def adjust(connection, _):
            ledger.adjust(connection, ward.population, Rho(10**9), actor="key_x", at=now(), reason="again")

        def retire(connection, dataset):
            catalogue.dataset(connection, ward.owner, dataset.id, lock=True)
            for training in catalogue.pending(connection, dataset.id):
                trainings.cancel(connection, training, actor="key_x", at=now())
            catalogue.retire(connection, dataset.id)

        acts = [grant, submit, submit, submit, claim_and_release, claim_and_release, cancel, adjust, retire]
        engines = [make_engine() for _ in acts]

        def run(index: int, datasets: list, gate: threading.Barrier) -> None:
            gate.wait()
            for dataset in datasets:
                try:
                    with contextlib.suppress(*TOLD), database.transaction(engines[index]) as connection:
                        acts[index](connection, dataset)
                except BaseException as surprise:
                    surprises.append(surprise)

        datasets = [ward.dataset(engines[0]) for _ in range(ROUNDS)]
        gate = threading.Barrier(len(acts))
        threads = [threading.Thread(target=run, args=(index, datasets, gate)) for index in range(len(acts))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert surprises == []
        with database.snapshot(engines[0]) as connection:
            ledger.verify_all(connection)


class TestSubmitted:
    @pytest.mark.parametrize("clients", [8])
    def test_the_same_key_at_once_is_one_training(self, make_engine, clients):
        ward = Ward(make_engine())
        dataset = ward.dataset(make_engine())
        made: list[str] = []
        gate = threading.Barrier(clients)

        def submit(index: int) -> None:
            engine = make_engine()
            gate.wait()
            with database.transaction(engine) as connection:
                made.append(ward.submit(connection, dataset, f"tr_{index}", "k"))

        threads = [threading.Thread(target=submit, args=(index,)) for index in range(clients)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert (len(made), len(set(made))) == (clients, 1)
