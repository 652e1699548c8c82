"""The Python client against a real service: it says what the API says, and raises what the API refuses."""

import contextlib
import dataclasses
import http.server
import io
import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from decimal import Decimal

import httpx
import pyarrow
import pyarrow.csv
import pyarrow.parquet
import pytest

from discretion import calls, errors
from discretion.client import Client, Failed, Policy, Refused
from discretion.privacy.rho import Rho
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
    clients["custodian"].upload(dataset, [ROWS], media_type="text/csv")
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

        def do_DELETE(self):
            self._answer()

        def do_PUT(self):
            while size := int(self.rfile.readline(), 16):  # in chunks
                self.rfile.read(size + 2)
            self.rfile.readline()
            self._answer()

        def _answer(self):
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            if (told := answer(self)) is not None:
                self.send_response(told[0])
                if told[0] == 429:
                    self.send_header("Retry-After", "1")
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


@contextlib.contextmanager
def never_asked() -> Iterator[Client]:
    """A client that has nobody to talk to, and would say so at once."""
    with Client("http://127.0.0.1:9", "token", patience=0) as client:
        yield client


class TestImport:
    def test_the_package_alone_brings_no_http_client(self):
        program = "import sys, discretion; light = 'httpx' not in sys.modules; print(light, discretion.Client.__name__)"
        done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
        assert done.stdout.split() == ["True", "Client"]


class TestJourney:
    def test_from_an_upload_to_a_verified_policy_and_one_derived_from_it(self, people):
        clients, _ = people
        analyst, auditor = clients["analyst"], clients["auditor"]
        dataset = ready(people)
        assert analyst.plan(dataset, **services.APVI)["rho"] == "0.5"
        training = analyst.train(dataset, **services.APVI, wait=False)["id"]
        *seen, ended = analyst.watch(training)
        assert ended["state"] == "released"
        assert all(event["state"] in ("queued", "running") for event in seen)
        assert analyst.training(training).items() >= ended.items()

        derived = analyst.derive(training, {"c1": 0, "c2": 0})["id"]
        assert {found["id"] for found in analyst.policies()} == {ended["policy"], derived}
        assert analyst.budget(dataset).charged == Decimal("0.5")
        for name, further in ((ended["policy"], "0.5"), (derived, "0")):
            policy = auditor.policy(name)
            assert policy.verify().payload["privacy"]["further_rho"] == further
            decided = analyst.decide(name, step=2, state=1)
            assert decided["action"] == json.loads(policy.text)["decisions"][1][1]
            assert decided == dataclasses.asdict(policy.decide(step=2, state=1))
        ledger = auditor.ledger(dataset)
        assert [row["kind"] for row in ledger["rows"]] == ["open", "reserve", "charge"]
        assert ledger["intact"]

    def test_train_and_evaluate_wait_for_what_was_paid_for(self, people, tmp_path):
        clients, _ = people
        analyst, dataset = clients["analyst"], ready(people)
        policy = analyst.train(dataset, rho="0.5", algorithm="dp-apvi", parameters={"c2": 0}, half="first")
        assert policy.decide(step=1, state=0).action in (0, 1)
        assert analyst.plan_evaluation(policy.id, rho="0.25", half="second")["patients"] == "other half"
        report = analyst.evaluate(policy.id, rho="0.25", half="second")
        assert report.low <= report.value <= report.high
        assert report.verify().charged_rho == Rho.parse("0.25")
        assert analyst.budget(dataset).left == Decimal("1.25")
        assert Policy.load(policy.save(tmp_path / "kept")) == policy
        assert {path.name for path in (tmp_path / "kept").iterdir()} == {"policy.json", "certificate.json", "keys.json"}
        assert analyst.rehearse(dataset, rho="0.5", twin=2)["twin"] == 2

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
        assert clients["custodian"].upload(dataset, chunks, media_type="text/csv")["units"] == 50

    def test_a_bad_row_is_refused_with_its_place(self, people):
        clients, _ = people
        dataset = clients["custodian"].add_dataset("icu", budget={"rho": "1"}, **services.TABULAR)["id"]
        rows = b"unit,step,state,action,reward\na,1,99,0,0\na,3,0,0,0\n"
        with pytest.raises(Refused) as refused:
            clients["custodian"].upload(dataset, [rows], media_type="text/csv")
        assert (refused.value.status, refused.value.code) == (422, "invalid_upload")
        assert refused.value.problem["problems"][0]["column"] == "state"
        first, second = str(refused.value).splitlines()[1:]
        assert first == "  row 1, column state: The value is not from 0 to 3."
        assert second == "  row 2, column step: The steps of a trajectory count up by one."

    def test_a_file_of_no_known_kind_is_refused_before_anything_is_sent(self, tmp_path):
        path = tmp_path / "rows.xlsx"
        path.write_bytes(ROWS)
        with never_asked() as client, pytest.raises(errors.InvalidSource, match=r"\.csv, \.ndjson, \.parquet"):
            client.upload("ds_1", path)

    def test_a_frame_arrives_under_the_services_names(self, people):
        clients, _ = people
        custodian = clients["custodian"]
        dataset = custodian.add_dataset("icu", budget={"rho": "1"}, **services.TABULAR)["id"]
        table = pyarrow.csv.read_csv(io.BytesIO(ROWS)).rename_columns(["stay", "hour", "cluster", "dose", "gain"])
        columns = {"unit": "stay", "step": "hour", "state": "cluster", "action": "dose", "reward": "gain"}
        assert custodian.upload(dataset, table, columns) == {"units": 50, "trajectories": 50, "transitions": 150}

    def test_what_cannot_be_meant_leaves_the_dataset_empty(self, people):
        clients, _ = people
        custodian = clients["custodian"]
        dataset = custodian.add_dataset("icu", budget={"rho": "1"}, **services.TABULAR)["id"]
        table = pyarrow.csv.read_csv(io.BytesIO(ROWS))
        with pytest.raises(errors.InvalidSource, match="no column 'cluster'; it has unit, step"):
            custodian.upload(dataset, table, {"state": "cluster"})
        late = pyarrow.concat_tables([table] * 500).set_column(1, "step", pyarrow.array([1, 2, 3] * 24999 + [1, 2, 2]))
        with pytest.raises(errors.InvalidSource, match="Row 75000: 'step'"):  # in the second slice, half-way
            custodian.upload(dataset, late, {"unit": None})
        services.wait_until(lambda: custodian.upload(dataset, table)["units"] == 50)

    def test_chunks_whose_answer_is_lost_are_not_sent_again(self):
        seen = []
        with (
            something_else(lambda asked: seen.append(asked.command)) as url,
            Client(url, "token") as custodian,
            pytest.raises(httpx.TransportError),
        ):
            custodian.upload("ds_1", iter([ROWS]), media_type="text/csv")
        assert seen == ["PUT"]

    def test_a_file_whose_answer_is_lost_is_sent_again_and_what_is_there_already_is_said_clearly(self, tmp_path):
        (tmp_path / "rows.csv").write_bytes(ROWS)
        answers = iter([None, (409, b'{"code": "dataset_not_empty", "detail": "This dataset has its data."}')])
        with (
            something_else(lambda _: next(answers)) as url,
            Client(url, "token") as custodian,
            pytest.raises(Refused, match="most likely arrived whole") as refused,
        ):
            custodian.upload("ds_1", tmp_path / "rows.csv")
        assert (refused.value.status, refused.value.code) == (409, "dataset_not_empty")
        assert next(answers, "none left") == "none left"

    def test_a_file_is_sent_again_as_long_as_there_is_patience_and_no_longer(self, tmp_path):
        (tmp_path / "rows.csv").write_bytes(ROWS)
        answers = iter([None, None, (201, b'{"units": 50}')])
        with something_else(lambda _: next(answers)) as url:
            with Client(url, "token") as custodian:
                assert custodian.upload("ds_1", tmp_path / "rows.csv") == {"units": 50}
            answers = iter([None, (201, b'{"units": 50}')])
            with Client(url, "token", patience=0) as hasty, pytest.raises(httpx.TransportError):
                hasty.upload("ds_1", tmp_path / "rows.csv")


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
        dataset = ready(people)
        first, again = (
            clients["analyst"].train(dataset, **services.APVI, wait=False, key="mine")["id"] for _ in range(2)
        )
        assert first == again

    def test_each_call_without_one_is_a_training_of_its_own(self, people):
        clients, _ = people
        dataset = ready(people)
        first, other = (clients["analyst"].train(dataset, **services.APVI, wait=False)["id"] for _ in range(2))
        assert first != other
        assert {first, other} == {found["id"] for found in clients["analyst"].trainings()}

    def test_one_that_is_cancelled_ends_without_a_policy(self):
        seen = []

        def answer(asked: http.server.BaseHTTPRequestHandler) -> tuple[int, bytes]:
            seen.append((asked.command, asked.path))
            return 200, b'{"state": "cancelled"}'

        with something_else(answer) as url, Client(url, "token") as analyst:
            assert analyst.cancel("tr_1") == analyst.cancel("ev_1") == {"state": "cancelled"}
        assert seen == [("DELETE", "/v1/trainings/tr_1"), ("DELETE", "/v1/evaluations/ev_1")]

    @pytest.mark.parametrize(
        "trouble",
        [
            None,
            (429, b"{}"),
            (503, b'{"code": "database_unavailable", "detail": "x"}'),
            (503, b"<html>"),
            (502, b"<html>"),
        ],
    )
    def test_what_may_pass_is_tried_again_under_the_same_key(self, trouble):
        seen = []

        def answer(asked: http.server.BaseHTTPRequestHandler) -> tuple[int, bytes] | None:
            seen.append(asked.headers["Idempotency-Key"])
            return trouble if len(seen) == 1 else (202, b'{"id": "tr_1"}')

        with something_else(answer) as url, Client(url, "token") as analyst:
            assert analyst.train("ds_1", rho="1", wait=False) == {"id": "tr_1"}
        assert len(seen) == 2
        assert seen[0] == seen[1] is not None

    def test_what_does_not_pass_and_what_is_no_repetition_is_asked_once(self):
        seen = []

        def answer(asked: http.server.BaseHTTPRequestHandler) -> tuple[int, bytes] | None:
            seen.append(asked.path)
            return (503, b'{"code": "ledger_damaged", "detail": "x"}') if asked.path == "/v1/trainings" else None

        with something_else(answer) as url, Client(url, "token") as client:
            with pytest.raises(Refused, match="ledger_damaged"):
                client.train("ds_1", rho="1", wait=False)
            with pytest.raises(httpx.TransportError):  # perhaps it was made: who knows must look
                client.add_population("clinic", {"rho": "1"})
        assert seen == ["/v1/trainings", "/v1/populations"]

    @pytest.mark.parametrize("privacy", [{}, {"rho": "1", "privacy": {"rho": "1"}}])
    def test_what_it_may_cost_is_said_once(self, privacy):
        with never_asked() as client, pytest.raises(errors.InvalidPrivacy):
            client.train("ds_1", **privacy)

    @pytest.mark.parametrize("trouble", [None, (429, b"{}"), (502, b"<html>")])
    def test_a_service_that_is_away_for_a_moment_is_waited_for(self, trouble):
        answers = iter([trouble, (200, b'data: {"id": "tr_1", "state": "released", "progress": 1.0}\n\n')])
        with something_else(lambda _: next(answers)) as url, Client(url, "token") as client:
            assert [found["state"] for found in client.watch("tr_1")] == ["released"]

    @pytest.mark.parametrize("trouble", [None, (502, b"<html>")])
    def test_a_service_that_stays_away_is_not_waited_for_longer_than_was_said(self, trouble):
        with (
            something_else(lambda _: trouble) as url,
            Client(url, "token", patience=0.1) as client,
            pytest.raises((httpx.TransportError, Refused)),
        ):
            next(client.watch("tr_1"))

    def test_a_training_that_failed_is_no_policy(self):
        ended = b'data: {"id": "tr_1", "state": "failed", "progress": 1.0}\n\n'
        with (
            something_else(lambda _: (200, ended)) as url,
            Client(url, "token") as client,
            pytest.raises(Failed, match="tr_1 ended as failed"),
        ):
            client.wait("tr_1")


class TestWatch:
    def test_a_stream_that_breaks_off_is_taken_up_again(self):
        states = iter(("running", "released", "never asked for"))

        def answer(asked: http.server.BaseHTTPRequestHandler) -> tuple[int, bytes]:
            assert asked.path == "/v1/trainings/tr_1/events"
            return 200, f'event: training\ndata: {{"state": "{next(states)}"}}\n\n: still here\n\n'.encode()

        with something_else(answer) as url, Client(url, "token") as analyst:
            assert [seen["state"] for seen in analyst.watch("tr_1")] == ["running", "released"]

    def test_a_stream_without_events_is_not_asked_for_again_and_again(self):
        asked = []
        with (
            something_else(lambda _: asked.append(1) or (200, b"<html>Welcome</html>")) as url,
            Client(url, "token", patience=0) as analyst,
            pytest.raises(httpx.TransportError),
        ):
            list(analyst.watch("tr_1"))
        assert len(asked) < 3


class TestRefused:
    def test_carries_status_code_and_detail_and_what_remains(self, people):
        clients, _ = people
        dataset = ready(people, "1")
        with pytest.raises(Refused) as refused:
            clients["analyst"].train(dataset, rho="1.5")
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

    @pytest.mark.parametrize(
        ("status", "body"),
        [
            (200, b"<html>Welcome</html>"),
            (200, b"[]"),
            (200, b"[" * 200_000),
            (200, b'"\xff"'),
            (302, b""),
            (500, b"[" * 200_000),
            (422, b'{"code": "c", "detail": "d", "problems": [1, {}]}'),
            (429, b'{"code": "c", "detail": "d", "retry_after": -5}'),
            (429, b'{"code": "c", "detail": "d", "retry_after": "soon"}'),
        ],
    )
    def test_what_is_no_answer_of_the_service_is_refused_too(self, status, body):
        with something_else(lambda _: (status, body)) as url, Client(url, "token", patience=0) as client:
            for ask in (lambda: client.dataset("ds_1"), lambda: list(client.datasets())):
                with pytest.raises(Refused) as refused:
                    ask()
                assert refused.value.status == status
                assert str(status) in str(refused.value)
                assert refused.value.problem.get("retry_after", 1) == 1  # the header's, which is 1

    @pytest.mark.parametrize("after", ["9" * 5000, "-1", "\u0663", "Wed, 21 Oct 2099 07:28:00 GMT"])
    def test_a_time_to_wait_that_is_none_is_not_believed(self, after):
        answer = httpx.Response(429, headers={"Retry-After": after.encode()}, json={"code": "c", "detail": "d"})
        with pytest.raises(Refused) as refused:
            calls.checked(answer)
        assert "retry_after" not in refused.value.problem

    def test_what_is_no_problem_document_is_refused_too(self):
        with (
            something_else(lambda _: (502, b"<html>Bad gateway</html>")) as url,
            Client(url, "token", patience=0) as client,
            pytest.raises(Refused) as refused,
        ):
            client.dataset("ds_1")
        assert (refused.value.status, refused.value.code) == (502, "unknown")
        assert refused.value.problem == {}
