"""64 clients, two API processes, one budget: exactly as many are admitted as there is ρ for."""

import threading
from pathlib import Path
from typing import Any

import pytest

from tests import services

CLIENTS = 64
ROUNDS = {"budget": 20, "grant": 3}
ADMITTED = 5


class TestRace:
    @pytest.mark.parametrize("capped", ["budget", "grant"])
    def test_exactly_the_right_number_is_admitted_whichever_process_is_asked(
        self, url: str, tmp_path: Path, capped: str
    ) -> None:
        quiet: dict[str, Any] = {"workers": 0, "requests_per_second": 1_000_000}
        with (
            services.serve(tmp_path / "one", url, **quiet) as one,
            services.serve(tmp_path / "two", url, token=one.token, **quiet) as two,
        ):
            custodian, analyst = one.key("custodian"), one.key("analyst")
            both = [one.client(analyst.token), two.client(analyst.token)]
            for number in range(ROUNDS[capped]):
                rho = {"budget": ("1", "100"), "grant": ("100", "1")}[capped]
                dataset = services.ready_dataset(custodian, rho=rho[0], units=20)
                services.grant(custodian, dataset, analyst, rho[1])
                answers = race(both, dataset, number)
                assert sorted(answers) == [(202, None)] * ADMITTED + [(402, f"{capped}_exhausted")] * (
                    CLIENTS - ADMITTED
                )
                budget = analyst.get(f"/v1/datasets/{dataset}/budget").json()
                assert (budget["reserved"], budget["charged"]) == ("1", "0")
                ledger = custodian.get(f"/v1/datasets/{dataset}/ledger").json()
                assert ledger["intact"]
                assert [row["kind"] for row in ledger["rows"]] == ["open"] + ["reserve"] * ADMITTED


def race(clients: list[services.Client], dataset: str, number: int) -> list[tuple[int, str | None]]:
    body = services.APVI | {"privacy": {"rho": "0.2"}}
    answers: list[tuple[int, str | None]] = []
    gate = threading.Barrier(CLIENTS)

    def ask(index: int) -> None:
        gate.wait()
        answer = services.submit(clients[index % len(clients)], dataset, f"{number}-{index}", body)
        answers.append((answer.status_code, answer.json().get("code")))

    threads = [threading.Thread(target=ask, args=(index,)) for index in range(CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return answers
