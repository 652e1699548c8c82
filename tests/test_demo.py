"""The demonstration, run as a person runs it, on fewer patients; and the clinic it is about."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import httpx
import numpy as np
import pytest

from discretion import certificates, demo, embedded, simulation
from discretion.learning import policy as policies
from discretion.learning.schemas import Discrete, Schema
from tests import services

CLINIC = simulation.clinic()


def start(folder: Path, *arguments: str, **environment: str) -> subprocess.Popen[str]:
    """`discretion demo` in a session of its own, so that whatever it leaves behind can be found."""
    return subprocess.Popen(
        [sys.executable, "-m", "discretion", "demo", *arguments],
        cwd=folder,
        env=os.environ | {"TMPDIR": str(folder), "COLUMNS": "80"} | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def left_of(session: int) -> list[str]:
    """The commands of the processes in a session that have not ended."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            _, _, fields = (folder / "stat").read_text().rpartition(") ")
            state, number = fields.split()[0], int(fields.split()[3])
            if number == session and state != "Z":
                found.append((folder / "cmdline").read_text().replace("\0", " "))
        except (FileNotFoundError, ProcessLookupError):
            continue  # ended while we looked
    return found


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """One demonstration with other settings around it, which it must not see."""
    folder = tmp_path_factory.mktemp("demo")
    elsewhere = {"DISCRETION_DATA": str(folder / "real"), "DISCRETION_DATABASE_URL": "postgresql://nowhere/real"}
    process = start(folder, "--patients", "600", **elsewhere)
    output, complaints = process.communicate(timeout=300)
    assert process.returncode == 0, output + complaints
    return folder, output, complaints, process.pid


class TestDemo:
    def test_ends_well_and_leaves_no_process_and_no_data(self, told):
        folder, _, complaints, session = told
        assert complaints == ""
        assert left_of(session) == []
        assert [path.name for path in folder.iterdir()] == ["build"]

    def test_its_certificates_are_verified_and_stay_verifiable(self, told):
        folder, output, _, _ = told
        assert len(re.findall(r"^ *(dp-apvi|sparing|dp-vapvi) +holds ", output, re.MULTILINE)) == 3
        papers = folder / "build" / "demo"
        keys = (papers / "keys.json").read_text()
        costs = []
        for name in ("dp-apvi", "sparing", "dp-vapvi"):
            policy, certificate = ((papers / f"{name}.{kind}.json").read_text() for kind in ("policy", "certificate"))
            costs.append(certificates.verify(policy, certificate, keys).payload["privacy"]["further_rho"])
        assert costs == ["0.25", "0", "0.75"]
        assert [row["kind"] for row in json.loads((papers / "ledger.json").read_text())["rows"]] == [
            "open",
            *("reserve", "charge") * 2,
        ]

    def test_the_command_it_prints_works_as_shown(self, told):
        folder, output, _, _ = told
        _, command = output.split("Check one yourself:\n")
        done = subprocess.run(command, shell=True, cwd=folder, capture_output=True, text=True, check=True)
        assert json.loads(done.stdout)["rho"] == "1/4"

    def test_overspending_and_a_strangers_look_are_refused(self, told):
        _, output, _, _ = told
        assert re.search(r"spend ρ = 1 more +402 budget_exhausted\s+The budget has 0.5 left", output)
        assert re.search(r"read the dataset +404 not_found", output)

    def test_shows_the_budget_before_and_after(self, told):
        _, output, _, _ = told
        assert re.search(r"before +1\.5 +0 +1\.5 +0\.000", output)
        assert re.search(r"after two trainings +1\.5 +1 +0\.5 +7\.7\d\d", output)

    def test_is_plain_text_of_eighty_columns_when_piped(self, told):
        _, output, _, _ = told
        assert "\x1b" not in output
        assert "\r" not in output
        story, _ = output.split("Check one yourself:\n")  # a command is not wrapped
        assert max(map(len, story.splitlines())) <= 80

    def test_a_folder_that_cannot_be_written_is_exit_code_1_and_one_sentence(self, tmp_path):
        (tmp_path / "file").write_text("in the way")
        process = start(tmp_path, "--out", "file/folder")
        output, _ = process.communicate(timeout=240)
        assert process.returncode == 1
        assert "This was not expected." in output
        assert "Traceback" not in output

    def test_takes_its_service_along_when_it_is_killed(self, tmp_path):
        process = start(tmp_path, "--patients", "600")
        assert process.stdout is not None
        for line in process.stdout:
            if "The custodian" in line:
                break
        services.wait_until(lambda: any(" work " in command for command in left_of(process.pid)), 60)
        process.send_signal(signal.SIGKILL)
        process.communicate(timeout=240)
        try:
            services.wait_until(lambda: left_of(process.pid) == [], 60)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


class TestSurprises:
    def test_fail_the_demonstration(self, tmp_path, capsys, monkeypatch):
        monkeypatch.setattr(demo, "_PRICES", {"dp-apvi": "1", "dp-vapvi": "1"})  # more than the budget has
        assert demo.run(tmp_path, 50) is False
        shown = capsys.readouterr().out
        assert "This was not expected." in shown
        assert "402 budget_exhausted" in shown


class TestEmbedded:
    def test_a_service_that_cannot_start_says_why(self, tmp_path):
        (tmp_path / "data").write_text("in the way")
        with (
            pytest.raises(embedded.ServiceFailed, match="DISCRETION_DATA must name a folder"),
            embedded.service(tmp_path),
        ):
            pass

    def test_is_gone_after_its_block(self, tmp_path):
        with embedded.service(tmp_path) as (url, token):
            headers = {"Authorization": f"Bearer {token}"}
            assert httpx.get(f"{url}/v1/keys", headers=headers).status_code == 200
        with pytest.raises(httpx.ConnectError):
            httpx.get(f"{url}/healthz")


class TestClinic:
    def test_is_a_problem_of_chances(self):
        np.testing.assert_allclose(CLINIC.kernel.sum(axis=2), 1.0)
        np.testing.assert_allclose(CLINIC.habit.sum(axis=1), 1.0)
        assert CLINIC.first.sum() == pytest.approx(1.0)
        assert min(CLINIC.kernel.min(), CLINIC.habit.min(), CLINIC.stable.min()) >= 0
        assert CLINIC.stable.max() <= 1

    def test_the_best_choices_differ_from_the_habit_and_are_worth_more(self):
        best = CLINIC.best(CLINIC.stable)
        habit = np.repeat(CLINIC.habit[None], CLINIC.horizon, axis=0)
        copied = np.eye(3)[habit.argmax(axis=2)]
        worth = [CLINIC.value(chosen, CLINIC.stable) for chosen in (habit, copied, best)]
        assert worth == sorted(worth)
        assert CLINIC.alive(best) > CLINIC.alive(habit)
        assert (best.argmax(axis=2) != copied.argmax(axis=2)).any()
        draw = np.random.default_rng(0)
        for _ in range(20):
            other = np.eye(3)[draw.integers(3, size=best.shape[:2])]
            assert CLINIC.value(other, CLINIC.stable) <= worth[-1]

    def test_values_agree_with_the_patients_drawn_from_it(self):
        drawn = simulation.patients(CLINIC, 20_000)
        habit = np.repeat(CLINIC.habit[None], CLINIC.horizon, axis=0)
        assert drawn["reward"].sum() / 20_000 == pytest.approx(CLINIC.value(habit, CLINIC.stable), abs=0.05)
        seen_last = (drawn["step"] == CLINIC.horizon).sum() / 20_000
        assert CLINIC.alive(habit) < seen_last < 1  # some die in the last step

    def test_patients_are_the_same_every_time_and_lie_in_their_levels(self):
        first, again, other = (simulation.patients(CLINIC, 100, seed) for seed in (1, 1, 2))
        assert all((first[name] == again[name]).all() for name in first)
        assert any(len(first[name]) != len(other[name]) or (first[name] != other[name]).any() for name in first)
        lactate = np.digitize(first["lactate"], simulation.LACTATE[1:-1])
        pressure = np.digitize(first["pressure"], simulation.PRESSURE[1:-1])
        inside = (lactate * 3 + pressure) == first["state"]
        assert inside.mean() > 0.99  # rounding may move a value onto an edge
        assert (np.diff(first["patient"]) >= 0).all()

    def test_choices_of_a_table_are_its_decisions(self):
        schema = Schema(CLINIC.horizon, Discrete(12), 3)
        scores = np.random.default_rng(3).random((CLINIC.horizon, 12, 3))
        made = policies.tabular("any", schema, scores, np.zeros((CLINIC.horizon, 12), dtype=np.int64))
        assert (simulation.choices(CLINIC, made).argmax(axis=2) == scores.argmax(axis=2)).all()
        assert (simulation.choices(CLINIC, made).sum(axis=2) == 1).all()
