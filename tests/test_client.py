"""The Python client against a real service: it says what the API says, and raises what the API refuses."""

import contextlib
import http.server
import io
import json
import threading
from collections.abc import Callable, Iterator

import pyarrow.csv
import pyarrow.parquet
import pytest

from discretion import certificates
from discretion.client import Client, Refused
from tests import services

ROWS = services.csv(50)


@pytest.fixture
def people(service: services.Service):
    """A client for each role, and the analyst's key."""
    made = {role: service.key(role) for role in ("custodian", "analyst", "auditor")}
    clients = {role: Client(service.url, key.token) for role, key in made.items()}
    clients["admin"] = Client(service.url, service.token)
    yield clients, made["analyst"].id
    for client in clients.values():
        client.close()


def ready(people, rho: str = "2") -> str:
    """A dataset of fifty patients with a budget of 2, of which the analyst may use some."""
    clients, key = people
    dataset = clients["custodian"].add_dataset("icu", budget={"rho": "2"}, **services.TABULAR)["id"]
    clients["custodian"].upload(dataset, [ROWS], "text/csv")
    clients["custodian"].add_grant(dataset, key, rho)
    return dataset


@contextlib.contextmanager
def something_else(
    answer: Callable[[http.server.BaseHTTPRequestHandler], tuple[int, bytes] | None],
) -> Iterator[str]:
    """A server that is not the service: it answers as it is told, or hangs up."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            self._answer()

        def do_GET(self):
            self._answer()

        def _answer(self):
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            if (told := answer(self)) is not None:
                self.send_response(told[0])
                self.end_headers()
                self.wfile.write(told[1])

        def log_message(self, *_):
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


class TestJourney:
    def test_from_an_upload_to_a_verified_policy_and_one_derived_from_it(self, people):
        clients, _ = people
        analyst, auditor = clients["analyst"], clients["auditor"]
        wanted = {"dataset": (dataset := ready(people))} | services.APVI
        assert analyst.plan(wanted)["rho"] == "0.5"
        seen = list(analyst.watch(analyst.train(wanted)["id"]))
        assert seen[-1]["state"] == "released"
        assert all(event["state"] in ("queued", "running") for event in seen[:-1])
        assert analyst.training(seen[-1]["id"]).items() >= seen[-1].items()

        derived = analyst.derive(seen[-1]["id"], {"c1": 0, "c2": 0})["id"]
        assert {found["id"] for found in analyst.policies()} == {seen[-1]["policy"], derived}
        assert analyst.budget(dataset)["charged"] == "0.5"
        for policy, further in ((seen[-1]["policy"], "0.5"), (derived, "0")):
            text = auditor.policy(policy)
            found = certificates.verify(text, auditor.certificate(policy), auditor.certificate_keys())
            assert found.payload["privacy"]["further_rho"] == further
            decided = analyst.decide(policy, step=2, state=1)
            assert decided["action"] == json.loads(text)["decisions"][1][1]
        ledger = auditor.ledger(dataset)
        assert [row["kind"] for row in ledger["rows"]] == ["open", "reserve", "charge"]
        assert ledger["intact"]

    def test_public_keys_need_no_token(self, service):
        with Client(service.url) as nobody:
            assert json.loads(nobody.certificate_keys())["keys"]


class TestUpload:
    @pytest.mark.parametrize("ending", [".csv", ".ndjson", ".parquet"])
    def test_a_files_ending_says_what_it_is(self, people, tmp_path, ending):
        clients, _ = people
        dataset = clients["custodian"].add_dataset("icu", budget={"rho": "1"}, **services.TABULAR)["id"]
        path = tmp_path / f"rows{ending}"
        path.write_bytes(_as(ending))
        assert clients["custodian"].upload(dataset, path) == {"units": 50, "trajectories": 50, "transitions": 150}
        assert clients["custodian"].dataset(dataset)["state"] == "ready"

    def test_chunks_are_streamed_as_they_come(self, people):
        clients, _ = people
        dataset = clients["custodian"].add_dataset("icu", budget={"rho": "1"}, **services.TABULAR)["id"]
        chunks = (ROWS[start : start + 100] for start in range(0, len(ROWS), 100))
        assert clients["custodian"].upload(dataset, chunks, "text/csv")["units"] == 50

    def test_a_bad_row_is_refused_with_its_place(self, people):
        clients, _ = people
        dataset = clients["custodian"].add_dataset("icu", budget={"rho": "1"}, **services.TABULAR)["id"]
        with pytest.raises(Refused) as refused:
            clients["custodian"].upload(dataset, [b"unit,step,state,action,reward\na,1,99,0,0\n"], "text/csv")
        assert (refused.value.status, refused.value.code) == (422, "invalid_upload")
        assert refused.value.problem["problems"][0]["column"] == "state"

    def test_a_file_of_no_known_kind_is_refused_by_the_service(self, people, tmp_path):
        clients, _ = people
        dataset = clients["custodian"].add_dataset("icu", budget={"rho": "1"}, **services.TABULAR)["id"]
        path = tmp_path / "rows.xlsx"
        path.write_bytes(ROWS)
        with pytest.raises(Refused, match="Content-Type"):
            clients["custodian"].upload(dataset, path)


def _as(ending: str) -> bytes:
    if ending == ".csv":
        return ROWS
    table = pyarrow.csv.read_csv(io.BytesIO(ROWS))
    if ending == ".ndjson":
        return "".join(json.dumps(row) + "\n" for row in table.to_pylist()).encode()
    pyarrow.parquet.write_table(table, made := io.BytesIO())
    return made.getvalue()


class TestLists:
    def test_go_on_over_every_page(self, people):
        clients, _ = people
        names = [f"population {number:03d}" for number in range(103)]  # a page has a hundred
        for name in names:
            clients["custodian"].add_population(name, {"rho": "1"})
        assert sorted(found["name"] for found in clients["custodian"].populations()) == names

    def test_name_what_was_made(self, people):
        clients, key = people
        dataset = ready(people)
        assert [found["id"] for found in clients["custodian"].datasets()] == [dataset]
        assert [grant["key"] for grant in clients["custodian"].grants(dataset)] == [key]
        assert key in [found["id"] for found in list(clients["admin"].keys())]


class TestTrain:
    def test_the_same_idempotency_key_is_the_same_training(self, people):
        clients, _ = people
        wanted = {"dataset": ready(people)} | services.APVI
        first, again = (clients["analyst"].train(wanted, "mine")["id"] for _ in range(2))
        assert first == again

    def test_each_call_without_one_is_a_training_of_its_own(self, people):
        clients, _ = people
        wanted = {"dataset": ready(people)} | services.APVI
        first, other = (clients["analyst"].train(wanted)["id"] for _ in range(2))
        assert first != other

    def test_a_broken_connection_is_tried_again_under_the_same_key(self):
        seen = []

        def answer(asked: http.server.BaseHTTPRequestHandler) -> tuple[int, bytes] | None:
            seen.append(asked.headers["Idempotency-Key"])
            return None if len(seen) == 1 else (202, b'{"id": "tr_1"}')

        with something_else(answer) as url, Client(url, "token") as analyst:
            assert analyst.train({}) == {"id": "tr_1"}
        assert len(seen) == 2
        assert seen[0] == seen[1]


class TestWatch:
    def test_a_stream_that_breaks_off_is_taken_up_again(self):
        states = iter(("running", "released", "never asked for"))

        def answer(asked: http.server.BaseHTTPRequestHandler) -> tuple[int, bytes]:
            assert asked.path == "/v1/trainings/tr_1/events"
            return 200, f'event: training\ndata: {{"state": "{next(states)}"}}\n\n: still here\n\n'.encode()

        with something_else(answer) as url, Client(url, "token") as analyst:
            assert [seen["state"] for seen in analyst.watch("tr_1")] == ["running", "released"]


class TestRefused:
    def test_carries_status_code_and_detail_and_what_remains(self, people):
        clients, _ = people
        wanted = {"dataset": ready(people, "1")} | services.APVI | {"privacy": {"rho": "1.5"}}
        with pytest.raises(Refused) as refused:
            clients["analyst"].train(wanted)
        assert (refused.value.status, refused.value.code) == (402, "grant_exhausted")
        assert refused.value.problem["remaining"] == "1"
        assert "1 left" in refused.value.detail
        assert str(refused.value) == f"402 grant_exhausted: {refused.value.detail}"

    def test_somebody_elses_dataset_is_not_found(self, people, service):
        dataset = ready(people)
        with Client(service.url, service.key("analyst").token) as stranger, pytest.raises(Refused) as refused:
            stranger.dataset(dataset)
        assert (refused.value.status, refused.value.code) == (404, "not_found")

    def test_a_stream_of_events_is_refused_like_anything_else(self, people):
        clients, _ = people
        with pytest.raises(Refused) as refused:
            next(clients["analyst"].watch("tr_0000000000000000000000"))
        assert (refused.value.status, refused.value.code) == (404, "not_found")

    def test_what_is_no_problem_document_is_refused_too(self):
        with (
            something_else(lambda _: (502, b"<html>Bad gateway</html>")) as url,
            Client(url, "token") as client,
            pytest.raises(Refused) as refused,
        ):
            client.dataset("ds_1")
        assert (refused.value.status, refused.value.code) == (502, "unknown")
        assert refused.value.problem == {}
