"""What a client does when nobody answers, or somebody who is not the service; nothing is paid for twice."""

import contextlib
import http.server
import threading
from collections.abc import Callable, Iterator

import httpx
import pytest

from discretion.client import Client, Failed, Refused, calls
from tests import services

ROWS = services.csv(50)


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


class TestUpload:
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


class TestTrain:
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
        answers = iter([(200, b"<html>Welcome</html>")] * 2)
        with (
            something_else(lambda _: next(answers)) as url,
            Client(url, "token", patience=0) as analyst,
            pytest.raises(httpx.TransportError),
        ):
            list(analyst.watch("tr_1"))
        assert next(answers, None) is not None


class TestRefused:
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
            (422, b'{"code": "c", "detail": "d", "problems": [{"column": [], "reason": {}, "own": [1]}]}'),
        ],
    )
    def test_what_is_no_answer_of_the_service_is_refused_too(self, status, body):
        with something_else(lambda _: (status, body)) as url, Client(url, "token", patience=0) as client:
            for ask in (lambda: client.dataset("ds_1"), lambda: list(client.datasets())):
                with pytest.raises(Refused) as refused:
                    ask()
                assert refused.value.status == status
                assert str(status) in str(refused.value)

    @pytest.mark.parametrize("after", ["9" * 5000, "-1", "\u0663", "Wed, 21 Oct 2099 07:28:00 GMT"])
    def test_a_time_to_wait_that_is_none_is_not_believed(self, after):
        body = {"code": "c", "detail": "d", "retry_after": -5}  # nor is one that a body names
        answer = httpx.Response(429, headers={"Retry-After": after.encode()}, json=body)
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
