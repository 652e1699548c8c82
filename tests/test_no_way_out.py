"""Behind a firewall that lets nothing out: the whole product works, and does not even try."""

import contextlib
import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests import confined, conftest, services

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module", autouse=True)
def _possible():
    if (reason := confined.missing()) is not None:
        pytest.skip(reason)


def run(folder: Path, routes: str, *wanted: str) -> dict[str, Any]:
    """What was seen of a command that ended well."""
    found = folder / "found.json"
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path]), "TMPDIR": str(folder)}
    environment["RES_OPTIONS"] = "timeout:1 attempts:1"  # nobody answers, so nobody need be waited for
    done = subprocess.run(
        confined.command(found, routes, *wanted), cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return dict(json.loads(found.read_text()))


def calls(name: str, *arguments: str) -> tuple[str, ...]:
    """A function of this file, in a process of its own."""
    text = f"import sys; from tests import test_no_way_out as it; it.{name}(*sys.argv[1:])"
    return sys.executable, "-c", text, *arguments


def strays() -> None:
    """What is not allowed: a connection, a datagram and a question for a name."""
    with contextlib.suppress(OSError), socket.create_connection(("198.51.100.1", 443), 0.2):
        pass
    with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as datagram:
        datagram.sendto(b"x", ("2001:db8:1::1", 4000))
    with contextlib.suppress(OSError):
        socket.getaddrinfo("telemetry.example", 443)


def story(folder: str, url: str) -> None:
    """What people of every role do, pages and descriptions included."""
    with services.serve(Path(folder), url, workers=1) as service:
        custodian, analyst, auditor = (service.key(role) for role in ("custodian", "analyst", "auditor"))
        dataset = services.ready_dataset(custodian)
        services.grant(custodian, dataset, analyst)
        for path in ("/", "/docs", "/openapi.json", "/v1/certificate-keys", "/readyz"):
            assert analyst.get(path).status_code == 200, path
        assert service.admin.get("/metrics").status_code == 200
        asked = {"dataset": dataset} | services.APVI
        assert analyst.post("/v1/plans", json=asked).status_code == 200
        assert analyst.post("/v1/rehearsals", json=asked).status_code == 200
        training = services.submit(analyst, dataset).json()["id"]
        assert services.events(analyst, training)[-1]["state"] == "released"
        policy = analyst.get(f"/v1/trainings/{training}").json()["policy"]
        assert analyst.get(f"/v1/policies/{policy}/certificate").status_code == 200
        assert auditor.get(f"/v1/datasets/{dataset}/ledger/head").status_code == 200
        assert custodian.delete(f"/v1/datasets/{dataset}").status_code == 200


class TestConfined:
    def test_finds_whoever_tries_to_leave(self, tmp_path):
        """Without this, finding nothing would mean nothing."""
        seen = run(tmp_path, "trap", *calls("strays"))["leaving"]
        assert "trap: tcp 198.51.100.1 443" in seen
        assert "trap: udp 2001:db8:1::1 4000" in seen
        assert [each for each in seen if each.endswith(" 53")]


class TestTheProduct:
    def test_shows_itself_on_a_machine_that_nothing_leads_away_from(self, tmp_path):
        command = (sys.executable, "-m", "discretion", "demo", "--out", str(tmp_path / "out"), "--patients", "600")
        seen = run(tmp_path, "none", *command)
        assert seen["packets"] > 100
        assert (seen["leaving"], seen["dropped"]) == ([], 0)

    @pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
    def test_does_not_look_for_a_way_out_where_there_seems_to_be_one(self, tmp_path, request, kind):
        request.param = kind
        seen = run(tmp_path, "trap", *calls("story", str(tmp_path / "service"), conftest.new_url(request, tmp_path)))
        assert seen["packets"] > 100
        assert (seen["leaving"], seen["dropped"]) == ([], 0)
