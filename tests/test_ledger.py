"""The ledger: exact, append-only, and never overspent, on both databases."""

import hashlib
import threading
from datetime import UTC, datetime
from typing import Any

import pytest
import rfc8785
import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from discretion import database, errors, ledger, tables
from discretion.privacy.rho import Rho

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
WHO: dict[str, Any] = {"actor": "key_1", "at": NOW}
ONE = Rho.parse("1")


@pytest.fixture
def account(engine):
    with database.transaction(engine) as connection:
        ledger.open_account(connection, "pop_1", ONE, name="a clinic", **WHO)
    return engine


def balance(engine, population="pop_1"):
    with database.transaction(engine) as connection:
        assert ledger.verify(connection, population) == ledger.balance(connection, population)
        found = ledger.balance(connection, population)
        return str(found.total), str(found.reserved), str(found.charged), str(found.remaining)


class TestReserve:
    def test_sets_aside_and_is_charged_once(self, account):
        with database.transaction(account) as connection:
            ledger.reserve(connection, "pop_1", "tr_1", Rho.parse("0.3"), **WHO)
        assert balance(account) == ("1", "0.3", "0", "0.7")
        with database.transaction(account) as connection:
            assert ledger.charge(connection, "tr_1", **WHO) == Rho.parse("0.3")
        assert balance(account) == ("1", "0", "0.3", "0.7")
        for again in (ledger.charge, ledger.give_back):
            with pytest.raises(errors.NotReserved), database.transaction(account) as connection:
                again(connection, "tr_1", **WHO)
        assert balance(account) == ("1", "0", "0.3", "0.7")

    def test_a_tenth_and_two_tenths_of_three_tenths_fit(self, engine):
        with database.transaction(engine) as connection:
            ledger.open_account(connection, "pop_2", Rho.parse("0.3"), name="a clinic", **WHO)
            for training, rho in (("tr_1", "0.1"), ("tr_2", "0.2")):
                ledger.reserve(connection, "pop_2", training, Rho.parse(rho), **WHO)
        assert balance(engine, "pop_2") == ("0.3", "0.3", "0", "0")

    def test_a_billionth_too_much_is_refused_with_what_remains(self, account):
        with pytest.raises(errors.BudgetExhausted, match="has 1 left"), database.transaction(account) as connection:
            ledger.reserve(connection, "pop_1", "tr_1", Rho(ONE.nano + 1), **WHO)
        assert balance(account) == ("1", "0", "0", "1")

    def test_what_comes_back_can_be_reserved_again(self, account):
        with database.transaction(account) as connection:
            ledger.reserve(connection, "pop_1", "tr_1", ONE, **WHO)
            ledger.give_back(connection, "tr_1", **WHO)
            ledger.reserve(connection, "pop_1", "tr_2", ONE, **WHO)
        assert balance(account) == ("1", "1", "0", "0")

    def test_a_training_reserves_once(self, account):
        with database.transaction(account) as connection:
            ledger.reserve(connection, "pop_1", "tr_1", Rho(1), **WHO)
        with pytest.raises(sa.exc.IntegrityError), database.transaction(account) as connection:
            ledger.reserve(connection, "pop_1", "tr_1", Rho(1), **WHO)
        assert balance(account) == ("1", "0.000000001", "0", "0.999999999")

    def test_nothing_cannot_be_reserved_and_nobody_has_a_budget(self, account):
        with pytest.raises(errors.InvalidRho), database.transaction(account) as connection:
            ledger.reserve(connection, "pop_1", "tr_1", Rho(0), **WHO)
        with pytest.raises(errors.NoSuchPopulation), database.transaction(account) as connection:
            ledger.reserve(connection, "pop_9", "tr_1", Rho(1), **WHO)

    def test_a_grant_is_a_cap_inside_the_budget(self, account):
        grant = {"id": "gr_1", "population": "pop_1", "dataset": "ds_1", "holder": "key_2"}
        key = {"id": "key_2", "name": "an analyst", "role": "analyst", "token_hash": "0", "created_at": "2026"}
        dataset = {"id": "ds_1", "population": "pop_1", "owner": "key_1", "name": "icu", "state": "ready"}
        with database.transaction(account) as connection:
            connection.execute(tables.keys.insert().values(**key))
            connection.execute(tables.datasets.insert().values(**dataset, schema="{}", created_at="2026"))
            connection.execute(
                tables.grants.insert().values(**grant, cap=500_000_000, used=0, revoked=False, created_at="")
            )
            ledger.reserve(connection, "pop_1", "tr_1", Rho.parse("0.4"), grant="gr_1", **WHO)
        with pytest.raises(errors.GrantExhausted, match=r"0\.1 left"), database.transaction(account) as connection:
            ledger.reserve(connection, "pop_1", "tr_2", Rho.parse("0.2"), grant="gr_1", **WHO)
        with database.transaction(account) as connection:
            ledger.give_back(connection, "tr_1", grant="gr_1", **WHO)
            ledger.reserve(connection, "pop_1", "tr_3", Rho.parse("0.5"), grant="gr_1", **WHO)
        assert balance(account) == ("1", "0.5", "0", "0.5")
        with database.transaction(account) as connection:
            connection.execute(tables.grants.update().values(revoked=True))
        with pytest.raises(errors.GrantExhausted), database.transaction(account) as connection:
            ledger.reserve(connection, "pop_1", "tr_4", Rho(1), grant="gr_1", **WHO)


class TestAdjust:
    def test_raises_and_lowers_with_a_reason_but_not_below_what_is_used(self, account):
        with database.transaction(account) as connection:
            ledger.reserve(connection, "pop_1", "tr_1", Rho.parse("0.6"), **WHO)
            ledger.adjust(connection, "pop_1", Rho.parse("3"), reason="second study", **WHO)
            ledger.adjust(connection, "pop_1", Rho.parse("0.6"), reason="study cancelled", **WHO)
        assert balance(account) == ("0.6", "0.6", "0", "0")
        with pytest.raises(errors.BudgetInUse), database.transaction(account) as connection:
            ledger.adjust(connection, "pop_1", Rho.parse("0.599999999"), reason="less", **WHO)
        with pytest.raises(errors.InvalidParameter, match="reason"), database.transaction(account) as connection:
            ledger.adjust(connection, "pop_1", Rho.parse("2"), reason=" ", **WHO)
        with database.transaction(account) as connection:
            kinds = [(row.kind, row.rho, row.reason) for row in ledger.statement(connection, "pop_1")]
        assert kinds[2:] == [("adjust", 2_000_000_000, "second study"), ("adjust", -2_400_000_000, "study cancelled")]


class TestHash:
    @given(
        st.builds(
            ledger.Row,
            population=st.text(),
            sequence=st.integers(1, 2**53 - 1),
            at=st.text(),
            kind=st.text(),
            rho=st.integers(-(10**15), 10**15),
            training=st.none() | st.text(),
            actor=st.text(),
            reason=st.none() | st.text(),
            previous_hash=st.text(),
            hash=st.text(),
        )
    )
    def test_is_over_canonical_json(self, row):
        content = {name: value for name, value in vars(row).items() if name != "hash"}
        assert ledger.hash_of(row) == hashlib.sha256(rfc8785.dumps(content)).hexdigest()


class TestStatement:
    def test_lists_every_movement_with_its_place_in_the_chain(self, account):
        with database.transaction(account) as connection:
            ledger.reserve(connection, "pop_1", "tr_1", Rho(5), **WHO)
            ledger.charge(connection, "tr_1", **WHO)
            ledger.draw(connection, "pop_1", "tr_1", reason="a further row of tr_1", **WHO)
            rows = ledger.statement(connection, "pop_1")
            assert ledger.statement(connection, "pop_1", after=2, limit=1) == rows[2:3]
        assert [row.kind for row in rows] == ["open", "reserve", "charge", "draw"]
        assert [row.sequence for row in rows] == [1, 2, 3, 4]
        assert [row.previous_hash for row in rows[1:]] == [row.hash for row in rows[:-1]]
        assert {row.at for row in rows} == {"2026-01-02T03:04:05.000000+00:00"}


class TestAppendOnly:
    @pytest.mark.parametrize("change", ["UPDATE ledger SET rho = 0", "DELETE FROM ledger"])
    def test_the_database_refuses_to_change_a_row(self, account, change):
        with pytest.raises(sa.exc.DBAPIError, match="append-only"), database.transaction(account) as connection:
            connection.execute(sa.text(change))
        assert balance(account) == ("1", "0", "0", "1")


def tamper(engine, statement: str) -> None:
    """What somebody with the database's own keys could do."""
    with engine.begin() as connection:
        if engine.dialect.name == "sqlite":
            for change in ("update", "delete"):
                connection.execute(sa.text(f"DROP TRIGGER IF EXISTS ledger_no_{change}"))
            connection.execute(sa.text("PRAGMA ignore_check_constraints = ON"))
        else:
            connection.execute(sa.text("ALTER TABLE ledger DISABLE TRIGGER ALL"))
            connection.execute(sa.text("ALTER TABLE populations DROP CONSTRAINT ck_populations_within_total"))
        connection.execute(sa.text(statement))


class TestVerify:
    @pytest.mark.parametrize(
        "statement",
        [
            "UPDATE ledger SET rho = rho - 1 WHERE sequence = 2",
            "UPDATE ledger SET rho = rho + 1 WHERE sequence = 1",
            "UPDATE ledger SET kind = 'draw' WHERE sequence = 3",
            "UPDATE ledger SET actor = 'key_2' WHERE sequence = 2",
            "UPDATE ledger SET at = '2026-01-02T03:04:06+00:00' WHERE sequence = 2",
            "UPDATE ledger SET training = 'tr_9' WHERE sequence = 2",
            "UPDATE ledger SET reason = 'x' WHERE sequence = 1",
            "UPDATE ledger SET hash = previous_hash WHERE sequence = 2",
            "UPDATE ledger SET previous_hash = hash WHERE sequence = 2",
            "DELETE FROM ledger WHERE sequence = 2",
            "DELETE FROM ledger WHERE sequence = 3",
            "DELETE FROM ledger",
            "UPDATE populations SET charged = charged - 1",
            "UPDATE populations SET total = total + 1",
            "UPDATE populations SET reserved = reserved + 1",
            "UPDATE populations SET head = ''",
            "UPDATE populations SET charged = -5",
        ],
    )
    def test_finds_any_change(self, account, statement):
        with database.transaction(account) as connection:
            ledger.reserve(connection, "pop_1", "tr_1", Rho(5), **WHO)
            ledger.charge(connection, "tr_1", **WHO)
        with database.transaction(account) as connection:
            assert ledger.verify_all(connection) == 1
        tamper(account, statement)
        with pytest.raises(errors.LedgerDamaged), database.transaction(account) as connection:
            ledger.verify_all(connection)

    def test_a_ledger_longer_than_a_batch_adds_up(self, account, monkeypatch):
        monkeypatch.setattr(ledger.statement, "__kwdefaults__", {"after": 0, "limit": 7})
        with database.transaction(account) as connection:
            for number in range(20):
                ledger.reserve(connection, "pop_1", f"tr_{number}", Rho(1), **WHO)
        assert balance(account) == ("1", "0.00000002", "0", "0.99999998")


class TestRace:
    def test_of_many_who_want_the_last_of_it_exactly_the_right_number_get_it(self, make_engine):
        engines = [make_engine() for _ in range(64)]
        gate = threading.Barrier(len(engines))
        for round_ in range(20):
            population = f"pop_{round_}"
            with database.transaction(engines[0]) as connection:
                ledger.open_account(connection, population, Rho(10), name="a clinic", **WHO)
            admitted: list[int] = []

            def client(number, population=population, admitted=admitted):
                gate.wait()
                try:
                    with database.transaction(engines[number]) as connection:
                        ledger.reserve(connection, population, f"{population}_tr_{number}", Rho(3), **WHO)
                    admitted.append(number)
                except errors.BudgetExhausted:
                    return

            threads = [threading.Thread(target=client, args=(number,)) for number in range(len(engines))]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert len(admitted) == 3
            assert balance(engines[0], population) == ("0.00000001", "0.000000009", "0", "0.000000001")

    def test_a_charge_and_a_return_of_the_same_reservation_never_both_happen(self, make_engine):
        engine = make_engine()
        with database.transaction(engine) as connection:
            ledger.open_account(connection, "pop_1", ONE, name="a clinic", **WHO)
        for number in range(10):
            with database.transaction(engine) as connection:
                ledger.reserve(connection, "pop_1", f"tr_{number}", Rho(1), **WHO)
            won: list[str] = []

            def leave(act, number=number, won=won):
                try:
                    with database.transaction(make_engine()) as connection:
                        act(connection, f"tr_{number}", **WHO)
                    won.append(act.__name__)
                except errors.NotReserved:
                    return

            threads = [threading.Thread(target=leave, args=(act,)) for act in (ledger.charge, ledger.give_back) * 2]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert len(won) == 1
        balance(engine)


class LedgerMachine(RuleBasedStateMachine):
    """Any sequence of movements, failures and restarts: total = remaining + reserved + charged, and the chain holds."""

    engine: sa.Engine
    held = Bundle("held")

    @initialize(total=st.integers(1, 50))
    def begin(self, total):
        self.population = f"pop_{datetime.now(UTC).timestamp()}_{id(self)}"
        self.model = {"total": total, "reserved": 0, "charged": 0}
        self.count = 0
        with database.transaction(self.engine) as connection:
            ledger.open_account(connection, self.population, Rho(total), name="a clinic", **WHO)

    @rule(target=held, rho=st.integers(1, 30), crash=st.booleans())
    def reserve(self, rho, crash):
        self.count += 1
        training = f"{self.population}_{self.count}"
        fits = self.model["reserved"] + self.model["charged"] + rho <= self.model["total"]
        try:
            with database.transaction(self.engine) as connection:
                ledger.reserve(connection, self.population, training, Rho(rho), **WHO)
                assert fits
                if crash:
                    raise InterruptedError
        except InterruptedError:
            return training, 0
        except errors.BudgetExhausted:
            assert not fits
            return training, 0
        self.model["reserved"] += rho
        return training, rho

    @rule(holding=consumes(held), act=st.sampled_from(["charge", "give_back"]))
    def leave(self, holding, act):
        training, rho = holding
        try:
            with database.transaction(self.engine) as connection:
                getattr(ledger, act)(connection, training, **WHO)
        except errors.NotReserved:
            assert rho == 0
            return
        self.model["reserved"] -= rho
        self.model["charged"] += rho if act == "charge" else 0

    @rule(total=st.integers(1, 60))
    def adjust(self, total):
        fits = self.model["reserved"] + self.model["charged"] <= total
        try:
            with database.transaction(self.engine) as connection:
                ledger.adjust(connection, self.population, Rho(total), reason="because", **WHO)
        except errors.BudgetInUse:
            assert not fits
            return
        assert fits
        self.model["total"] = total

    @rule()
    def restart(self):
        self.engine.dispose()

    @invariant()
    def adds_up(self):
        if not hasattr(self, "model"):
            return
        with database.transaction(self.engine) as connection:
            found = ledger.verify(connection, self.population)
        assert (found.total.nano, found.reserved.nano, found.charged.nano) == tuple(self.model.values())
        assert found.remaining.nano == self.model["total"] - self.model["reserved"] - self.model["charged"] >= 0


class TestMachine:
    def test_no_sequence_of_events_breaks_the_balance_or_the_chain(self, engine):
        machine = type("Machine", (LedgerMachine,), {"engine": engine})
        checks = [HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
        run_state_machine_as_test(
            machine,
            settings=settings(max_examples=25, stateful_step_count=20, deadline=None, suppress_health_check=checks),
        )
