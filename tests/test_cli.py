"""The command line, as a person calls it."""

import json
import re
import subprocess
import sys
from datetime import UTC, datetime
from fractions import Fraction

import numpy as np
import pytest
import sqlalchemy as sa
from typer.testing import CliRunner

import discretion
from discretion import cli, database, ledger
from discretion.commands import terminal
from discretion.learning import vapvi
from discretion.learning.curator import Concentrated, Curator
from discretion.learning.features import Blocks, one_hot
from discretion.learning.schemas import Discrete, Schema, Vector
from discretion.learning.trajectories import Trajectories, block_of
from discretion.privacy.rho import Rho
from tests import certified

PNG = b"\x89PNG\r\n\x1a\n"
SMALL = ["--episodes", "5,20", "--rho", "1,10", "--instances", "1", "--repetitions", "1"]


def run(*arguments: str):
    return CliRunner().invoke(cli.app, list(arguments))


class TestVersion:
    def test_is_the_packages(self):
        assert run("--version").output.strip() == f"discretion {discretion.__version__}"


def completed(line: str) -> list[str]:
    """What a shell offers after a line, its last word begun or empty."""
    words = line.split(" ")
    given = {"COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1), "_DISCRETION_COMPLETE": "complete_bash"}
    return CliRunner().invoke(cli.app, env=given, prog_name="discretion").output.split()


# In a process of its own: other tests have loaded the rooms already.
LOADED = (
    "import sys, typer; from discretion import cli; made = typer.main.get_command(cli.app)",
    "context = made.make_context('discretion', [], resilient_parsing=True)",
    "print(*[one.value for one in made.shell_complete(context, '')])",
    "print([name for name in sys.modules if name.startswith('discretion.commands')])",
)


class TestCompletion:
    @pytest.mark.parametrize(
        ("line", "offered"),
        [
            ("discretion ver", ["verify"]),
            ("discretion --ver", ["--version"]),
            ("discretion keys re", ["replace", "revoke", "reopen"]),
            ("discretion keys create --role a", ["admin", "analyst", "auditor"]),
            ("discretion train --algorithm dp-", ["dp-apvi", "dp-vapvi", "dp-pae"]),
            ("discretion train --half ", ["first", "second"]),
        ],
    )
    def test_offers_commands_options_and_words_that_are_one_of_a_few(self, line, offered):
        assert completed(line) == offered

    def test_of_a_command_loads_none(self):
        """Every room together takes more than a second."""
        asked = "\n".join(LOADED)
        done = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True)
        names, loaded = done.stdout.splitlines()
        assert {"login", "verify", "serve", "simulate"} <= set(names.split())
        assert loaded == "[]"


class TestSimulate:
    @pytest.mark.parametrize("calibration", ["paper", "tight"])
    def test_writes_the_numbers_and_both_panels(self, tmp_path, calibration):
        done = run("simulate", "--out", str(tmp_path / "new" / "folder"), *SMALL, "--calibration", calibration)
        assert done.exit_code == 0, done.output
        folder = tmp_path / "new" / "folder"
        assert len((folder / "suboptimality.csv").read_text().splitlines()) == 1 + 2 * 4
        for panel in ("figure-1a.png", "figure-1b.png"):
            assert (folder / panel).read_bytes().startswith(PNG)
        assert re.search(r"pevi.*vapvi.*ρ = 1 .*ρ = 10 ", done.output)
        assert len(re.findall(r"\d+\.\d{3}\b", done.output)) == 2 * 4

    @pytest.mark.parametrize(
        ("option", "value", "named"),
        [
            ("--rho", "0", "ρ"),
            ("--rho", "-1", "ρ"),
            ("--rho", "nan", "ρ"),
            ("--rho", "1e3", "ρ"),
            ("--rho", "0.0000000001", "ρ"),
            ("--rho", "1,,2", "ρ"),
            ("--episodes", "five", "episodes"),
            ("--episodes", "0", "episodes"),
            ("--episodes", "", "episodes"),
            ("--instances", "0", "instances"),
            ("--repetitions", "0", "repetitions"),
            ("--calibration", "loose", "calibration"),
        ],
    )
    def test_refuses_bad_options_by_name_and_writes_nothing(self, tmp_path, option, value, named):
        done = run("simulate", "--out", str(tmp_path / "out"), option, value)
        assert done.exit_code == 2
        assert named in done.output
        assert "Traceback" not in done.output
        assert not (tmp_path / "out").exists()

    def test_says_where_it_cannot_write(self, tmp_path):
        (tmp_path / "file").write_text("in the way")
        done = run("simulate", "--out", str(tmp_path / "file"), *SMALL)
        assert done.exit_code == 2
        assert "Cannot use" in done.output


def learned(discrete: bool) -> bytes:
    vector, draw = Vector(("age", "a=b"), ((0.0, 1.0), (0.0, 1.0))), np.random.default_rng(0)
    schema = Schema(2, Discrete(3), 2) if discrete else Schema(2, vector, 2)
    features = one_hot(3, 2) if discrete else Blocks(vector, 2, ("1", "age", "a=b"))
    states = draw.integers(3, size=(2, 50)) if discrete else draw.random((2, 50, 2))
    block = block_of(states, draw.integers(2, size=(2, 50)), draw.random((2, 50)))
    curator = Curator(Trajectories(schema, 50, [block]), Fraction(1))
    return vapvi.learn(curator, Concentrated(Fraction(1)), vapvi.Parameters(features)).canonical()


class TestDecide:
    def test_says_what_the_policy_does(self, tmp_path):
        (tmp_path / "p.json").write_bytes(learned(discrete=True))
        done = run("decide", str(tmp_path / "p.json"), "--step", "1", "--state", "2")
        assert done.exit_code == 0, done.output
        assert json.loads(done.stdout).keys() == {"action", "label", "source", "pessimistic_score"}

    def test_is_a_table_for_people_without_what_there_is_not(self, tmp_path, monkeypatch):
        (tmp_path / "p.json").write_bytes(learned(discrete=True))
        asked = ("decide", str(tmp_path / "p.json"), "--step", "1", "--state", "2")
        decided = json.loads(run(*asked).stdout)
        monkeypatch.setattr(terminal, "for_people", lambda as_json: not as_json)
        assert json.loads(run(*asked, "--json").stdout) == decided
        rows = dict(re.findall(r"│ (\w+) +│ (.*?) +│", run(*asked).stdout))
        del decided["label"]
        assert rows == {name: str(value) for name, value in decided.items()}

    def test_takes_the_columns_of_a_vector_state_by_name(self, tmp_path):
        (tmp_path / "p.json").write_bytes(learned(discrete=False))
        done = run("decide", str(tmp_path / "p.json"), "--step", "2", "--state", "age=0.5", "--state", "a=b=0.25")
        assert json.loads(done.stdout)["action"] in (0, 1)

    @pytest.mark.parametrize("state", [["3"], ["x"], ["-1"], ["age=1"], ["1", "2"], ["age=x"]])
    def test_refuses_a_state_that_is_none(self, tmp_path, state):
        (tmp_path / "p.json").write_bytes(learned(discrete=True))
        done = run("decide", str(tmp_path / "p.json"), "--step", "1", *(w for s in state for w in ("--state", s)))
        assert done.exit_code == 2
        assert "state" in done.output

    def test_refuses_a_file_that_is_no_policy_or_is_not_there(self, tmp_path):
        (tmp_path / "p.json").write_text("{}")
        for name, words in (("p.json", "not a policy"), ("q.json", "Cannot use")):
            done = run("decide", str(tmp_path / name), "--step", "1", "--state", "1")
            assert done.exit_code == 2
            assert words in done.output


class TestVerify:
    def files(self, folder):
        made = certified.made("gaussian")
        (folder / "policy.json").write_text(json.dumps(made.policy.document(), indent=4))
        (folder / "certificate.json").write_text(json.dumps(made.certify()))
        (folder / "keys.json").write_text(certified.KEYS)
        return [str(folder / name) for name in ("policy.json", "certificate.json")] + [
            "--keys",
            str(folder / "keys.json"),
        ]

    def test_a_true_certificate_holds_and_can_be_read_out(self, tmp_path):
        done = run("verify", *self.files(tmp_path), "--explain")
        assert done.exit_code == 0, done.output
        assert "Everything holds" in done.output
        assert "patient" in done.output

    def test_a_report_is_read_out_with_its_certificate(self, tmp_path):
        report, certificate = certified.judged()
        (tmp_path / "report.json").write_bytes(report.canonical())
        (tmp_path / "certificate.json").write_text(certificate)
        (tmp_path / "keys.json").write_text(certified.KEYS)
        files = [str(tmp_path / name) for name in ("report.json", "certificate.json")]
        told = run("verify", *files, "--keys", str(tmp_path / "keys.json"), "--explain")
        assert told.exit_code == 0, told.output
        for words in ("this estimate", "pol_1", f"Value: {report.found['value']:.6g}", "Caution", "Everything holds"):
            assert words in told.output
        quiet = run("verify", *files, "--keys", str(tmp_path / "keys.json"))
        assert json.loads(quiet.output)["holds"] is True

    def test_says_what_is_missing(self, tmp_path):
        self.files(tmp_path)
        (tmp_path / "keys.json").unlink()
        assert run("verify", str(tmp_path)).exit_code == 2
        assert run("verify", str(tmp_path / "policy.json")).exit_code == 2

    def test_a_changed_policy_does_not(self, tmp_path):
        files = self.files(tmp_path)
        document = json.loads((tmp_path / "policy.json").read_text())
        document["decisions"][0][0] = 1 - document["decisions"][0][0]
        (tmp_path / "policy.json").write_text(json.dumps(document))
        done = run("verify", *files)
        assert done.exit_code == 1
        assert "holds" not in done.output

    def test_a_file_that_is_not_there_is_a_request_that_cannot_be_meant(self, tmp_path):
        files = self.files(tmp_path)
        (tmp_path / "policy.json").unlink()
        assert run("verify", *files).exit_code == 2


SCHEMA = {
    "horizon": 2,
    "states": {"kind": "discrete", "count": 3},
    "actions": {"count": 2},
    "reward": {"low": 0, "high": 1},
}


class TestRehearse:
    def test_tries_twins_of_a_schema_offline(self, tmp_path):
        (tmp_path / "schema.json").write_text(json.dumps(SCHEMA))
        done = run("rehearse", str(tmp_path / "schema.json"), "--units", "500", "--rho", "1", "--twins", "2")
        assert done.exit_code == 0, done.output
        assert [found["twin"] for found in json.loads(done.stdout)] == [0, 1]

    def test_needs_to_know_how_many_there_are(self, tmp_path):
        (tmp_path / "schema.json").write_text(json.dumps(SCHEMA))
        done = run("rehearse", str(tmp_path / "schema.json"), "--rho", "1")
        assert done.exit_code == 2
        assert "--units" in done.output

    def test_refuses_a_schema_that_is_none_or_is_not_there(self, tmp_path):
        (tmp_path / "schema.json").write_text("no JSON")
        for name, words in (("schema.json", "holds no JSON"), ("other.json", "No such file")):
            done = run("rehearse", str(tmp_path / name), "--units", "5", "--rho", "1")
            assert done.exit_code == 2
            assert words in done.output


class TestMigrateAndLedger:
    def test_a_new_folder_gets_a_database_whose_ledger_adds_up_until_it_is_touched(self, tmp_path, monkeypatch):
        monkeypatch.setenv("DISCRETION_DATA", str(tmp_path / "data"))
        assert run("ledger", "verify").exit_code == 2  # there is none yet, and a check makes none
        assert run("migrate").exit_code == 0
        assert (tmp_path / "data").stat().st_mode & 0o077 == 0
        engine = database.engine(f"sqlite:///{tmp_path / 'data' / 'discretion.db'}")
        with database.transaction(engine) as connection:
            ledger.open_account(
                connection, "pop_1", Rho.parse("1"), name="a clinic", actor="key_1", at=datetime.now(UTC)
            )
        done = run("ledger", "verify")
        assert (done.exit_code, done.output) == (0, "1 ledger adds up.\n")
        with database.transaction(engine) as connection:
            connection.execute(sa.text("UPDATE populations SET total = 7"))
        engine.dispose()
        done = run("ledger", "verify")
        assert done.exit_code == 1
        assert "pop_1" in done.output

    def test_keys_are_made_listed_and_revoked(self, tmp_path, monkeypatch):
        monkeypatch.setenv("DISCRETION_DATA", str(tmp_path))
        run("migrate")
        made = run("keys", "create", "--role", "admin", "--name", "Ada")
        (token,) = made.stdout.split()
        assert re.fullmatch(r"[A-Za-z0-9_]{24,}", token)
        shown = run("keys", "list")
        assert "Ada" in shown.output
        assert token not in shown.output
        (key,) = re.findall(r"key_\w+", made.stderr)
        assert run("keys", "revoke", key).exit_code == 0
        assert run("keys", "revoke", key).exit_code == 2
        assert run("keys", "create", "--role", "king").exit_code == 2

    def test_an_unsafe_setting_is_refused_with_the_reason(self, monkeypatch):
        monkeypatch.setenv("DISCRETION_DATABASE_URL", "mysql://x")
        done = run("migrate")
        assert done.exit_code == 2
        assert "PostgreSQL" in done.output
