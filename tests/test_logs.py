"""Lines of the log, for people and for machines."""

import json
import logging
from collections.abc import Iterator

import pytest

from discretion import logs
from tests import services

CANARY = "lactate-of-Mrs-Canary-17.25"


@pytest.fixture(params=["text", "json"])
def said(request: pytest.FixtureRequest) -> Iterator[list[str]]:
    """What a logger writes in one of the two forms."""
    lines: list[str] = []

    class Keep(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(self.format(record))

    handler = Keep()
    handler.setFormatter(logs._Json() if request.param == "json" else logs._Text())
    logger = logging.getLogger("discretion.somewhere")
    logger.addHandler(handler)
    yield lines
    logger.removeHandler(handler)


class TestFormat:
    def test_of_an_exception_only_its_kind_is_written(self, said):
        try:
            raise ValueError(CANARY)
        except ValueError:
            logging.getLogger("discretion.somewhere").exception("It failed: %s", CANARY)
        assert "ValueError" in said[0]
        assert CANARY not in said[0]

    def test_a_line_stays_one_line_whatever_it_says(self, said):
        logging.getLogger("discretion.somewhere").warning("a\nb\r\nc")
        assert "\n" not in said[0]
        assert "\r" not in said[0]

    def test_knows_the_request_it_belongs_to(self, said):
        token = logs.request_id.set("req_12345678")
        logging.getLogger("discretion.somewhere").warning("x", extra={"status": 200, "other": CANARY})
        logs.request_id.reset(token)
        assert "req_12345678" in said[0]
        assert CANARY not in said[0]

    def test_a_warning_of_a_library_is_not_quoted(self):
        record = logging.LogRecord("py.warnings", logging.WARNING, "", 0, "%s", (CANARY,), None)
        assert CANARY not in logs._Json().format(record) + logs._Text().format(record)

    def test_json_has_its_fields_and_no_other(self):
        record = logging.LogRecord("a.b", logging.INFO, "", 0, "x %s", ("y",), None)
        record.route = "/v1/datasets/{dataset}"
        line = json.loads(logs._Json().format(record))
        assert set(line) == {"time", "level", "logger", "event", "route"}
        assert (line["level"], line["logger"], line["event"]) == ("INFO", "a.b", "x y")


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[services.Service]:
    folder = tmp_path_factory.mktemp("logged")
    with services.serve(folder, workers=0, log_format="json") as running:
        yield running


class TestRequests:
    def lines(self, service: services.Service) -> list[dict[str, object]]:
        return [json.loads(line) for line in service.log.splitlines()]

    def test_every_line_is_an_object_and_every_answer_carries_its_id(self, service):
        custodian = service.key("custodian")
        del service.clients[-1].headers["X-Request-ID"]  # the service makes one for each
        dataset = services.new_dataset(custodian)
        seen = set()
        for path in (f"/v1/datasets/{dataset}?secret={CANARY}", "/v1/datasets/ds_none", f"/{CANARY}", "/v1/keys"):
            answer = custodian.get(path)
            seen.add(answer.headers["x-request-id"])
            if answer.status_code >= 400:
                assert answer.json()["request"] == answer.headers["x-request-id"]
        logged = {line["request"]: line for line in self.lines(service) if "request" in line}
        assert seen <= set(logged)
        assert CANARY not in service.log
        assert custodian.token not in service.log
        (found,) = [line for line in logged.values() if line.get("key") == custodian.id and line["method"] == "POST"]
        assert (found["route"], found["status"]) == ("/v1/datasets", 201)

    @pytest.mark.parametrize(
        ("given", "taken"),
        [
            ("abcd-1234_EFGH", True),
            ("x" * 64, True),
            ("x" * 65, False),
            ("short", False),
            ("with space 1", False),
            ("<script>alert(1)</script>", False),
            ("äöüäöüäöü".encode(), False),
        ],
    )
    def test_an_id_is_taken_over_only_if_it_is_a_plain_word(self, service, given, taken):
        answer = service.client(None).get("/healthz", headers={"X-Request-ID": given})
        assert (answer.headers["x-request-id"] == given) is taken

    def test_an_upload_leaves_a_line_when_it_begins_and_none_when_it_ends(self, service):
        custodian = service.key("custodian")
        good, bad = services.new_dataset(custodian), services.new_dataset(custodian)
        before = len(self.lines(service))
        assert services.upload(custodian, good, services.csv(3)).status_code == 201
        assert services.upload(custodian, bad, services.csv(3) + b"\np1,1,999,0,0.5").status_code == 422
        lines = self.lines(service)[before:]
        shown = [{name: value for name, value in line.items() if name not in ("time", "request")} for line in lines]
        assert len(shown) == 2
        assert shown[0] == shown[1]
        assert "status" not in shown[0]


class TestConfigure:
    def test_may_be_done_twice(self, capsys):
        root = logging.getLogger()
        before, level = list(root.handlers), root.level
        try:
            for _ in range(2):
                logs.configure("json")
            logging.getLogger("x").warning("once")
        finally:
            for handler in list(root.handlers):
                root.removeHandler(handler)
            for handler in before:
                root.addHandler(handler)
            root.setLevel(level)
            logging.captureWarnings(False)
        assert capsys.readouterr().err.count("once") == 1
