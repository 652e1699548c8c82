"""A dataset is retired at the very moment its worker writes: neither is told of a failure, and nobody stops."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest
import sqlalchemy as sa

from discretion import database, errors, runs
from tests import services
from tests.api import wards
from tests.api.wards import Ward
from tests.services import Service

LEASE = timedelta(minutes=1)


@pytest.fixture
def engine(unattended: Service) -> Iterator[sa.Engine]:
    """The service's own database, as a worker beside it has it."""
    made = database.engine(unattended.database)
    yield made
    made.dispose()


@pytest.fixture
def ward(unattended: Service) -> Ward:
    return wards.build(unattended, "2", "1")


def claim(engine: sa.Engine, ward: Ward) -> runs.Claim:
    """The training that this test has submitted: older ones wait before it, left by other tests."""
    made = services.submit(ward.analyst, ward.dataset).json()["id"]
    while True:
        with database.transaction(engine) as connection:
            held = runs.claim(connection, actor="worker", at=datetime.now(UTC), lease=LEASE)
        assert held is not None
        if held.training == made:
            return held


class TestRetiring:
    def test_a_dataset_whose_training_ends_meanwhile_succeeds(self, engine: sa.Engine, ward: Ward) -> None:
        held = claim(engine, ward)
        with ThreadPoolExecutor(1) as pool:
            with database.transaction(engine) as connection:
                runs.fail(connection, held)
                retired = pool.submit(ward.custodian.delete, f"/v1/datasets/{ward.dataset}")
                if engine.dialect.name == "postgresql":  # there it comes as far as the row that is being written
                    services.wait_until(lambda: waits(engine))
            assert retired.result(60).status_code == 200
        assert ward.analyst.get(f"/v1/trainings/{held.training}").json()["state"] == "failed"

    def test_a_dataset_whose_training_was_just_claimed_does_not_stop_the_worker(
        self, engine: sa.Engine, ward: Ward
    ) -> None:
        held = claim(engine, ward)
        assert ward.custodian.delete(f"/v1/datasets/{ward.dataset}").status_code == 200
        with database.transaction(engine) as connection:
            _, asked, paid = runs.work(connection, held)
            assert (asked.cost.nano, paid.training) == (500_000_000, held.training)
            with pytest.raises(errors.LeaseLost):
                runs.keep(connection, held, at=datetime.now(UTC), lease=LEASE, done=0)
        assert ward.budget()["charged"] == "0.5"


def waits(engine: sa.Engine) -> bool:
    """Whether somebody waits for a lock."""
    with engine.connect() as connection:
        question = (
            "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
        )
        return bool(connection.execute(sa.text(question)).scalar_one())
