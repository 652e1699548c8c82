"""A downloaded ledger and its signed head, checked without the service."""

import copy
import json
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from discretion import database, errors, ledger, statements
from discretion.privacy.rho import Rho

NOW = datetime(2026, 1, 2, tzinfo=UTC)


@pytest.fixture
def movements(engine):
    """A ledger with every kind of row, and its head after each of them."""
    heads = []

    def act(do):
        with database.transaction(engine) as connection:
            do(connection)
            heads.append(ledger.head(connection, "pop_1") | {"at": "then"})

    act(lambda c: ledger.open_account(c, "pop_1", Rho(10), name="a", actor="key_1", at=NOW))
    for training in ("tr_1", "tr_2"):
        act(lambda c, training=training: ledger.reserve(c, "pop_1", training, Rho(3), actor="key_2", at=NOW))
    act(lambda c: ledger.charge(c, "tr_1", actor="worker", at=NOW))
    act(lambda c: ledger.give_back(c, "tr_2", actor="key_2", at=NOW))
    act(lambda c: ledger.adjust(c, "pop_1", Rho(4), actor="key_1", at=NOW, reason="less"))
    act(lambda c: ledger.draw(c, "pop_1", "tr_1", actor="worker", at=NOW, reason="a row"))
    with database.transaction(engine) as connection:
        rows = [statements.row_document(row) for row in ledger.statement(connection, "pop_1")]
    return {"population": "pop_1", "rows": rows, "intact": True, "next": None}, heads


class TestReckon:
    def test_every_head_there_ever_was_is_part_of_the_ledger(self, movements):
        document, heads = movements
        assert len(heads) == 7
        for head in heads:
            found = statements.reckon(json.dumps(document).encode(), head)
            assert (found.sequence, found.balance.charged, found.balance.total) == (7, Rho(3), Rho(4))

    def test_whatever_is_changed_in_a_row_is_found(self, movements):
        document, heads = movements
        for index, row in enumerate(document["rows"]):
            for name, value in row.items():
                changed = copy.deepcopy(document)
                changed["rows"][index][name] = f"1{value}" if isinstance(value, str) else 99
                with pytest.raises(errors.LedgerDamaged):
                    statements.reckon(json.dumps(changed).encode(), heads[-1])

    def test_a_ledger_that_was_rolled_back_lacks_a_head_that_somebody_kept(self, movements):
        document, heads = movements
        document["rows"] = document["rows"][:4]
        statements.reckon(json.dumps(document).encode(), heads[3])
        with pytest.raises(errors.LedgerDamaged, match="rolled back"):
            statements.reckon(json.dumps(document).encode(), heads[5])

    def test_another_populations_head_is_refused(self, movements):
        document, heads = movements
        with pytest.raises(errors.LedgerDamaged, match="another population"):
            statements.reckon(json.dumps(document).encode(), heads[-1] | {"population": "pop_2"})

    @pytest.mark.parametrize("text", ["", "[]", "{}", '{"population": "pop_1", "rows": [1]}', '{"rows": []}'])
    def test_what_is_no_ledger_is_refused(self, movements, text):
        with pytest.raises(errors.LedgerDamaged):
            statements.reckon(text.encode(), movements[1][0])


def chained(*moves):
    """Rows that are linked as they must be, whatever they say."""
    rows, head = [], "0" * 64
    for number, (kind, rho, training, reason) in enumerate(moves, start=1):
        row = ledger.Row("pop_1", number, "2026", kind, rho, training, "key_1", reason, head, "")
        rows.append(replace(row, hash=ledger.hash_of(row)))
        head = rows[-1].hash
    return rows


OPEN = ("open", 10, None, None)
RESERVE = ("reserve", 3, "tr_1", None)


class TestSense:
    def test_of_what_the_service_writes_is_seen(self):
        moves = [OPEN, RESERVE, ("charge", 3, "tr_1", None), ("draw", 0, "tr_1", None), ("adjust", -7, None, "less")]
        assert ledger.reckon("pop_1", chained(*moves)).balance.charged == Rho(3)

    @pytest.mark.parametrize(
        "moves",
        [
            [],
            [RESERVE],
            [("open", 0, None, None)],
            [OPEN, OPEN],
            [OPEN, ("charge", 3, "tr_1", None)],
            [OPEN, ("charge", -1, None, None)],
            [OPEN, ("reserve", -3, "tr_1", None)],
            [OPEN, ("reserve", 3, None, None)],
            [OPEN, RESERVE, RESERVE],
            [OPEN, RESERVE, ("charge", 1, "tr_1", None)],
            [OPEN, RESERVE, ("charge", 3, "tr_1", None), ("give_back", 3, "tr_1", None)],
            [OPEN, RESERVE, ("give_back", 3, "tr_1", None), RESERVE],
            [OPEN, ("adjust", 5, None, None)],
            [OPEN, ("draw", 1, "tr_1", None)],
            [OPEN, ("refund", 1, "tr_1", None)],
            [OPEN, ("reserve", 11, "tr_1", None)],
        ],
    )
    def test_is_asked_of_every_row_and_not_only_its_hash(self, moves):
        with pytest.raises(errors.LedgerDamaged):
            ledger.reckon("pop_1", chained(*moves))
