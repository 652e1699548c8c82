"""The commands that speak to a service, as a person and as a script call them."""

import json
import os
import pty
import re
import stat
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner, Result

from discretion import cli, settings
from discretion.client import Refused, client
from discretion.commands import connection, login, terminal
from tests import services

SCHEMA = services.TABULAR
RHO = ("--rho", "0.5")


@dataclass(frozen=True)
class Person:
    """Somebody at a shell, with a home of their own."""

    client: services.Client
    service: services.Service
    home: Path

    @property
    def environment(self) -> dict[str, str]:
        return {"XDG_CONFIG_HOME": str(self.home), "HOME": str(self.home)}

    def run(self, *arguments: str, typed: str = "", **more: str) -> Result:
        """Piped; no token may show, whatever happens."""
        done = CliRunner().invoke(cli.app, list(arguments), input=typed, env=self.environment | more)
        assert self.client.token not in done.output
        return done

    def said(self, *arguments: str) -> Any:
        """The one JSON document on standard output."""
        done = self.run(*arguments)
        assert done.exit_code == 0, done.output
        return json.loads(done.stdout)

    def sign_in(self) -> Result:
        return self.run("login", self.service.url, typed=self.client.token + "\n")

    def at_a_terminal(self, *arguments: str, typed: str = "", piped: bool = False) -> tuple[int, str]:
        """What a person would see; every stream is a terminal, unless the output goes elsewhere."""
        ours, theirs = pty.openpty()
        environment = os.environ | self.environment | {"COLUMNS": "200", "TERM": "xterm"}
        command = [sys.executable, "-m", "discretion", *arguments]
        out = subprocess.DEVNULL if piped else theirs
        with subprocess.Popen(command, stdin=theirs, stdout=out, stderr=theirs, env=environment) as process:
            os.close(theirs)
            seen = _seen(ours, process, typed)
            os.close(ours)
        assert self.client.token not in seen
        return process.returncode, seen


def _seen(terminal: int, process: subprocess.Popen[bytes], typed: str) -> str:
    seen = b""
    while True:
        try:
            if not (part := os.read(terminal, 65536)):
                break
        except OSError:  # the other side is gone
            break
        seen += part
        if typed and seen.endswith(b": "):  # with the space: what is typed before a hidden prompt is ready is dropped
            assert typed not in Path(f"/proc/{process.pid}/cmdline").read_text().split("\0")
            os.write(terminal, f"{typed}\n".encode())
            typed = ""
    return seen.decode()


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    """One of our own: commands do not see which database is behind the API."""
    with services.serve(tmp_path_factory.mktemp("service"), requests_per_second=100_000) as running:
        yield running


@pytest.fixture
def people(service, tmp_path):
    """A custodian, an analyst and an auditor, all signed in."""
    made = {}
    for role in ("custodian", "analyst", "auditor"):
        made[role] = Person(service.key(role), service, tmp_path / role)
        made[role].home.mkdir()
        assert made[role].sign_in().exit_code == 0
    return made


@pytest.fixture
def dataset(people, tmp_path):
    """Fifty patients, uploaded and granted from the shell."""
    (tmp_path / "schema.json").write_text(json.dumps(SCHEMA))
    (tmp_path / "rows.csv").write_bytes(services.csv(50))
    custodian = people["custodian"]
    made = custodian.said("datasets", "create", "icu", str(tmp_path / "schema.json"), "--rho", "2")["id"]
    assert custodian.said("upload", made, str(tmp_path / "rows.csv"))["units"] == 50
    grant = custodian.said("grants", "add", made, people["analyst"].client.id, "1.5")
    assert [found["id"] for found in custodian.said("grants", "list", made)] == [grant["id"]]
    return made


class TestLogin:
    def test_keeps_the_token_where_only_its_owner_reads_it(self, people):
        folder = people["analyst"].home / "discretion"
        (kept,) = folder.iterdir()
        assert stat.S_IMODE(kept.stat().st_mode) == 0o600
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        assert json.loads(kept.read_text())["token"] == people["analyst"].client.token

    def test_asks_for_it_without_showing_it(self, people):
        analyst = people["analyst"]
        analyst.run("logout")
        code, seen = analyst.at_a_terminal("login", analyst.service.url, typed=analyst.client.token)
        assert code == 0, seen
        assert analyst.run("datasets").exit_code == 0

    def test_takes_no_token_as_an_argument(self, people):
        analyst = people["analyst"]
        done = CliRunner().invoke(
            cli.app, ["login", analyst.service.url, analyst.client.token], env=analyst.environment
        )
        assert done.exit_code == 2

    @pytest.mark.parametrize("typed", ["dk_nonsense\n", "\n", "", "tökén\n"])
    def test_a_token_that_opens_nothing_is_not_kept(self, people, typed):
        analyst = people["analyst"]
        analyst.run("logout")
        assert analyst.run("login", analyst.service.url, typed=typed).exit_code == 3
        assert list((analyst.home / "discretion").iterdir()) == []

    def test_a_role_without_datasets_can_sign_in(self, service, tmp_path):
        auditor = Person(service.key("auditor"), service, tmp_path)
        assert auditor.sign_in().exit_code == 0
        assert auditor.run("datasets").exit_code == 3

    def test_after_logout_nothing_is_left(self, people):
        analyst = people["analyst"]
        assert analyst.run("logout").exit_code == 0
        done = analyst.run("datasets")
        assert done.exit_code == 3
        assert done.stdout == ""
        assert "discretion login" in done.stderr

    def test_a_file_that_others_can_read_is_refused(self, people):
        (kept,) = (people["analyst"].home / "discretion").iterdir()
        kept.chmod(0o644)
        done = people["analyst"].run("datasets")
        assert done.exit_code == 2
        assert "chmod 600" in done.stderr


class TestEnvironment:
    def test_goes_before_what_is_kept(self, service, tmp_path):
        custodian = service.key("custodian")
        stranger = Person(custodian, service, tmp_path)
        named = {"DISCRETION_URL": service.url, "DISCRETION_TOKEN": custodian.token}
        assert stranger.run("datasets", **named).exit_code == 0
        (tmp_path / "token").write_text(custodian.token)
        filed = {"DISCRETION_URL": service.url, "DISCRETION_TOKEN_FILE": str(tmp_path / "token")}
        assert stranger.run("datasets", **filed).exit_code == 0

    def test_a_kept_token_is_shown_to_no_other_address(self, people):
        done = people["analyst"].run("datasets", DISCRETION_URL="http://127.0.0.1:9")
        assert done.exit_code == 3

    def test_its_names_do_not_keep_a_service_from_starting(self):
        assert settings.read({"DISCRETION_URL": "http://x", "DISCRETION_TOKEN_FILE": "/x"}).port == 8000

    def test_a_login_never_shows_its_token(self):
        assert "secret" not in repr(login.Login("http://x", "secret"))


class TestExitCodes:
    def test_say_why(self, people, dataset):
        analyst = people["analyst"]
        assert analyst.run("datasets", "show", "ds_0000000000000000000000").exit_code == 2
        assert analyst.run("plan", dataset, "--rho", "much").exit_code == 2
        assert analyst.run("grants", "add", dataset, "key_1", "1").exit_code == 3
        greedy = analyst.run("train", dataset, "--rho", "1.75", "--yes")
        assert (greedy.exit_code, greedy.stdout) == (4, "")
        assert "1.5 left" in greedy.stderr
        away = {"DISCRETION_URL": "http://127.0.0.1:9", "DISCRETION_TOKEN": "dk_x"}
        assert analyst.run("datasets", **away).exit_code == 5
        assert analyst.run("datasets", **(away | {"DISCRETION_URL": "ftp://x"})).exit_code == 2

    def test_spending_needs_a_yes_where_nobody_can_be_asked(self, people, dataset):
        done = people["analyst"].run("train", dataset, *RHO)
        assert done.exit_code == 2
        assert "costs ρ = 0.5" in done.stderr
        assert "1.5 left" in done.stderr
        assert "--yes" in done.stderr
        assert people["analyst"].said("budget", dataset)["charged"] == "0"

    def test_an_upload_that_is_refused_names_its_rows(self, people, tmp_path):
        (tmp_path / "schema.json").write_text(json.dumps(SCHEMA))
        (tmp_path / "rows.csv").write_text("unit,step,state,action,reward\na,1,9,0,0\n")
        made = people["custodian"].said("datasets", "create", "x", str(tmp_path / "schema.json"), "--rho", "1")["id"]
        done = people["custodian"].run("upload", made, str(tmp_path / "rows.csv"))
        assert done.exit_code == 2
        assert "row 1, column state" in done.stderr
        assert "--column" not in done.stderr

    def test_a_header_of_a_hospitals_own_is_told_how_to_say_which_is_which(self, people, tmp_path):
        (tmp_path / "rows.csv").write_text("stay,hour\n1,1\n")
        made = services.new_dataset(people["custodian"].client)
        said = people["custodian"].run("upload", made, str(tmp_path / "rows.csv")).stderr
        assert "--column unit=COLUMN" in said
        named = [line.split(":")[0].removeprefix("  header, column ") for line in said.splitlines()[1:]]
        assert named == ["unit", "step", "state", "action", "reward", "stay", "hour"]

    @pytest.mark.parametrize(
        ("header", "more", "keys"),
        [
            ("hour,stay,cluster,act,gain", (), "-t, -k2,2 -k1,1n"),
            ("hour;stay;nth;cluster;act;gain", ("--column", "trajectory=nth"), "-t';' -k2,2 -k3,3 -k1,1n"),
        ],
    )
    def test_a_file_in_the_order_of_time_is_told_the_command_that_sorts_it(self, people, tmp_path, header, more, keys):
        several = bool(more)
        sign, nth = (";", ";1") if several else (",", "")
        lines = [f"{hour}{sign}{stay}{nth}{sign}1{sign}1{sign}0.5" for hour in (1, 2) for stay in "ab"]
        file = tmp_path / "by time.csv"
        file.write_text("\n".join([header, *lines]) + "\n")
        custodian = people["custodian"]
        names = ("unit=stay", "step=hour", "state=cluster", "action=act", "reward=gain")
        asked = ("upload", services.new_dataset(custodian.client), str(file), *more)
        asked += tuple(word for name in names for word in ("--column", name))
        said = custodian.run(*asked).stderr
        command = re.search(r"This sorts it: (.*)$", said, re.MULTILINE)
        assert command is not None, said
        assert keys in command[1]
        subprocess.run(["bash", "-c", command[1]], check=True, cwd=tmp_path)
        assert custodian.said(*asked[:2], str(tmp_path / "sorted.csv"), *asked[3:])["units"] == 2

    def test_a_token_in_place_of_an_id_and_an_id_in_place_of_a_token_are_told(self, people):
        custodian, analyst = people["custodian"], people["analyst"]
        dataset = services.new_dataset(custodian.client)
        done = custodian.run("grants", "add", dataset, f"dk_{'x' * 43}", "1")
        assert (done.exit_code, "secret token" in done.stderr, "xxx" in done.stderr) == (2, True, False)
        done = analyst.run("login", analyst.service.url, typed="key_3PsjCfhXSZhSxBqw8frCee\n")
        assert (done.exit_code, done.stderr) == (3, "That is the id of a key. Its token begins with dk_.\n")

    def test_a_schema_that_is_none_is_shown_one(self, people, tmp_path):
        (tmp_path / "schema.json").write_text('{"horizon": 3, "states": 4}')
        done = people["custodian"].run("datasets", "create", "x", str(tmp_path / "schema.json"), "--rho", "1")
        assert done.exit_code == 2
        assert 'A schema looks like this: {"horizon": 6, "states": {"kind": "discrete"' in done.stderr


class TestJourney:
    def test_from_a_plan_to_a_policy_that_decides_and_verifies(self, people, dataset, tmp_path):
        analyst = people["analyst"]
        assert [found["id"] for found in analyst.said("datasets")] == [dataset]
        assert analyst.said("datasets", "show", dataset, "--json")["units"] == 50
        assert analyst.said("plan", dataset, *RHO)["rho"] == "0.5"
        assert [found["twin"] for found in analyst.said("rehearse", dataset, *RHO, "--twins", "2")] == [0, 1]
        trained = analyst.said("train", dataset, *RHO, "--half", "first", "--yes", "--key", "mine")
        assert trained["state"] == "released"
        again = analyst.said("train", dataset, *RHO, "--half", "first", "--yes", "--key", "mine", "--no-wait")
        assert again["id"] == trained["id"]
        assert analyst.said("budget", dataset)["charged"] == "0.5"

        policy = trained["policy"]
        assert [found["id"] for found in analyst.said("policies")] == [policy]
        papers = analyst.said("policies", "download", policy, "--out", str(tmp_path / "papers"))
        asked = ("--step", "1", "--state", "2")
        assert analyst.said("decide", policy, *asked) == analyst.said("decide", papers["policy"], *asked)
        verified = analyst.said("verify", papers["policy"], papers["certificate"], "--keys", papers["keys"])
        assert verified == analyst.said("verify", str(tmp_path / "papers"))
        assert (verified["holds"], verified["rho"]) == (True, "1/2")
        judged = analyst.said(
            "evaluate", policy, "--rho", "0.25", "--half", "second", "--yes", "--out", str(tmp_path / "r")
        )
        assert judged["report"]["found"]["low"] <= judged["report"]["found"]["high"]
        assert analyst.said("verify", str(tmp_path / "r"))["rho"] == "1/4"
        assert [found["state"] for found in analyst.said("trainings")] == ["released", "released"]
        assert people["custodian"].said("datasets", "retire", dataset, "--yes")["state"] == "retired"

    def test_what_is_known_of_visits_is_planned_with(self, people, dataset, tmp_path):
        analyst = people["analyst"]
        (tmp_path / "known.json").write_text('{"steps": 2, "states": [1, 1, 1, 1], "actions": [0.9, 0.1]}')
        (tmp_path / "wrong.json").write_text('{"actions": [1]}')
        planned = analyst.said("plan", dataset, *RHO, "--visiting", str(tmp_path / "known.json"))
        assumed = analyst.said("plan", dataset, *RHO)
        assert planned["assumption"] == "Stays of 2 steps on average; states as typed in, actions as typed in."
        assert planned["assumption"] != assumed["assumption"]
        assert (planned["rho"], planned["mechanisms"]) == (assumed["rho"], assumed["mechanisms"])
        refused = analyst.run("plan", dataset, *RHO, "--visiting", str(tmp_path / "wrong.json"))
        assert (refused.exit_code, "visiting.actions" in refused.stderr) == (2, True), refused.stderr

    def test_what_waits_can_be_cancelled_and_costs_nothing(self, people, dataset):
        """Behind one that runs: a worker takes nothing else meanwhile."""
        analyst = people["analyst"]
        _, waiting = (analyst.said("train", dataset, *RHO, "--yes", "--no-wait")["id"] for _ in range(2))
        assert analyst.said("trainings", "cancel", waiting)["state"] == "cancelled"
        assert analyst.run("trainings", "cancel", waiting).exit_code == 2
        assert analyst.said("budget", dataset)["remaining"] == "1.5"

    def test_an_auditor_takes_a_ledger_along(self, people, dataset, tmp_path):
        auditor = people["auditor"]
        (found,) = (each for each in auditor.said("ledgers") if dataset in each["datasets"])
        assert (found["name"], found["budget"]["total"]) == ("icu", "2")
        papers = auditor.said("ledgers", "download", dataset, "--out", str(tmp_path / "books"))
        checked = auditor.run("ledger", "check", papers["ledger"], papers["head"], "--keys", papers["keys"])
        assert checked.exit_code == 0, checked.output
        ledger = json.loads(Path(papers["ledger"]).read_text())
        ledger["rows"][0]["amount"] = "3"
        Path(papers["ledger"]).write_text(json.dumps(ledger))
        assert auditor.run("ledger", "check", *list(papers.values())[:2], "--keys", papers["keys"]).exit_code == 1
        assert people["analyst"].run("ledgers").exit_code == 3

    def test_a_payment_whose_end_was_not_seen_can_be_asked_for_again(self, people, dataset, tmp_path):
        analyst = people["analyst"]
        (tmp_path / "in the way").write_text("no folder")
        asked = ("train", dataset, *RHO, "--yes", "--out", str(tmp_path / "in the way"))
        lost = analyst.run(*asked)
        assert lost.exit_code == 2
        key = re.search(r"--key (once_\w+)", lost.stderr)
        assert key is not None, lost.stderr
        analyst.said(*asked[:-1], str(tmp_path / "policy"), "--key", key[1])
        assert (tmp_path / "policy" / "certificate.json").exists()
        assert analyst.said("budget", dataset)["charged"] == "0.5"
        refused = analyst.run("train", dataset, "--rho", "1.9", "--yes")
        assert refused.exit_code == 4
        assert "--key" not in refused.stderr

    def test_a_table_of_a_hospitals_own_is_uploaded(self, people, tmp_path):
        (tmp_path / "schema.json").write_text(json.dumps(SCHEMA | {"actions": {"count": 4}}))
        (tmp_path / "rows.csv").write_text("bloc,cluster,iv,vaso,died\n1,0,0,1,0\n2,1,1,1,0\n1,3,0,0,1\n")
        custodian = people["custodian"]
        made = custodian.said("datasets", "create", "x", str(tmp_path / "schema.json"), "--rho", "1")["id"]
        named = ("--column", "step=bloc", "--column", "state=cluster", "--column", "action=iv,vaso", "--levels", "2,2")
        ended = ("--outcome", "died", "--good", "0")
        found = custodian.said("upload", made, str(tmp_path / "rows.csv"), *named, *ended)
        assert found == {"units": 2, "trajectories": 2, "transitions": 3}


class TestTerminal:
    def test_shows_tables_and_asks_before_it_spends(self, people, dataset):
        analyst = people["analyst"]
        code, seen = analyst.at_a_terminal("datasets")
        assert code == 0
        assert dataset in seen
        assert "│" in seen
        code, seen = analyst.at_a_terminal("train", dataset, *RHO, typed="n")
        assert code == 1
        assert "This costs ρ = 0.5 for good. You have 1.5 left, 1.0 after it." in re.sub(r"\s+", " ", seen)
        assert analyst.said("budget", dataset)["charged"] == "0"
        code, seen = analyst.at_a_terminal("train", dataset, *RHO, typed="y")
        assert code == 0, seen
        assert "released" in seen
        assert analyst.said("budget", dataset)["charged"] == "0.5"

    def test_shows_how_far_a_training_is(self, people, dataset):
        code, seen = people["analyst"].at_a_terminal("train", dataset, *RHO, "--yes")
        assert code == 0, seen
        shown = [int(share) for share in re.findall(r"training[^%]*?(\d+)%", seen)]
        assert shown, seen
        assert (shown[0], shown[-1]) == (0, 100)
        assert shown == sorted(shown)

    def test_shows_what_a_policy_decides(self, people, dataset):
        analyst = people["analyst"]
        asked = ("decide", analyst.said("train", dataset, *RHO, "--yes")["policy"], "--step", "1", "--state", "2")
        decided = analyst.said(*asked)
        code, seen = analyst.at_a_terminal(*asked)
        assert code == 0, seen
        rows = dict(re.findall(r"│ (\w+) +│ (.*?) +│", seen))
        assert rows == {name: str(value) for name, value in decided.items()}
        code, seen = analyst.at_a_terminal(*asked, "--json")
        assert (code, json.loads(seen)) == (0, decided)

    def test_shows_how_far_an_upload_is(self, people, tmp_path):
        rows, own = tmp_path / "rows.csv", tmp_path / "own.csv"
        rows.write_bytes(services.csv(50))
        own.write_bytes(services.csv(50).replace(b"unit,", b"stay,"))
        custodian = people["custodian"]
        for file, more in ((rows, ()), (own, ("--column", "unit=stay"))):
            code, seen = custodian.at_a_terminal("upload", services.new_dataset(custodian.client), str(file), *more)
            assert code == 0, seen
            assert re.search(r"upload.* 0%", seen), seen
            assert "transitions" in seen

    def test_shows_no_bar_to_a_program(self, people, dataset, tmp_path):
        (tmp_path / "again.csv").write_bytes(services.csv(50))
        custodian, analyst = people["custodian"], people["analyst"]
        sent = ("upload", services.new_dataset(custodian.client), str(tmp_path / "again.csv"))
        code, seen = custodian.at_a_terminal(*sent, "--json")
        assert (code, json.loads(seen)["units"]) == (0, 50)
        sent = ("upload", services.new_dataset(custodian.client), str(tmp_path / "again.csv"))
        assert custodian.at_a_terminal(*sent, piped=True) == (0, "")
        code, seen = analyst.at_a_terminal("train", dataset, *RHO, "--yes", "--json")
        assert (code, json.loads(seen)["state"]) == (0, "released")
        code, seen = analyst.at_a_terminal("rehearse", dataset, *RHO, "--twins", "2", "--json")
        assert (code, len(json.loads(seen))) == (0, 2)

    def test_shows_how_far_rehearsals_are(self, people, dataset):
        code, seen = people["analyst"].at_a_terminal("rehearse", dataset, *RHO, "--twins", "2")
        assert code == 0, seen
        assert re.search(r"rehearsals.* 0%", seen), seen
        assert "learned" in seen

    @pytest.mark.parametrize("columns", ["80", "200"])
    def test_an_id_is_whole_however_narrow_it_is(self, columns, capsys, monkeypatch):
        monkeypatch.setenv("COLUMNS", columns)
        row = {"id": f"tr_{'a' * 22}", "dataset": f"ds_{'b' * 22}", "state": "cancelled", "rho": "0.123456789"}
        rows = [row | {"created_at": "2026-11-17T10:09:11.575229+00:00"}] * 2
        terminal.show_table(terminal.listed(rows, list(rows[0])))
        shown = capsys.readouterr().out
        assert all(shown.count(cell) == 2 for cell in rows[0].values())
        assert max(map(len, shown.splitlines())) <= int(columns)

    def test_gives_json_there_too_if_it_is_asked_for(self, people, dataset):
        _, seen = people["analyst"].at_a_terminal("budget", dataset, "--json")
        assert json.loads(seen)["total"] == "2"

    def test_a_name_is_shown_as_it_is_written(self, people, tmp_path):
        """A tag in it would be obeyed, and a closing one would end the command."""
        (tmp_path / "schema.json").write_text(json.dumps(SCHEMA))
        name = "[/]ward [red]7[/red] :skull:"
        custodian = people["custodian"]
        custodian.said("datasets", "create", name, str(tmp_path / "schema.json"), "--rho", "2")
        code, seen = custodian.at_a_terminal("datasets")
        assert code == 0, seen
        assert name in seen

    @pytest.mark.parametrize("sign", ["\x1b", "\x9b", "\x7f", "\x07", "\r", "\u202e", "\ud800"])
    def test_nothing_from_elsewhere_is_obeyed_by_the_terminal(self, sign, capsys, monkeypatch):
        hostile = f"a{sign}[2Jb"
        table = terminal.listed([{"id": hostile}], ("id",))
        monkeypatch.setattr(terminal, "for_people", lambda as_json: not as_json)
        terminal.show([hostile], False, table)
        terminal.show([hostile], False, terminal.facts({hostile: [hostile], "b": hostile}))
        terminal.show([hostile], True, table)
        with pytest.raises(typer.Exit), terminal.told():
            raise Refused(422, "invalid", hostile, {})
        shown = capsys.readouterr()
        assert sign not in shown.out + shown.err
        assert shown.out.count("b") >= 5


class TestCompletion:
    def test_offers_the_ids_that_the_service_has(self, people, dataset, monkeypatch):
        for name, value in people["analyst"].environment.items():
            monkeypatch.setenv(name, value)
        assert connection.offer_datasets(dataset[:5]) == [(dataset, "icu")]
        assert connection.offer_datasets("pol_") == []

    @pytest.mark.parametrize("hostile", ["\\$(id)", "\\`id`", '\\"<(id)', "';id;'", "a\x1b[2J"])
    def test_offers_nothing_that_a_shell_would_run(self, hostile, monkeypatch):
        """zsh evaluates what it is offered, and a custodian chooses what a dataset is called."""
        rows = [{"id": "ds_1", "name": f"ward {hostile}"}, {"id": f"ds_{hostile}", "name": "ward"}]
        monkeypatch.setattr(client.Client, "datasets", lambda _: iter(rows))
        monkeypatch.setenv("DISCRETION_URL", "http://127.0.0.1:9")
        monkeypatch.setenv("DISCRETION_TOKEN", "dk_x")
        ((offered, said),) = connection.offer_datasets("ds_")
        assert offered == "ds_1"
        assert re.fullmatch(r"ward [\w ]*", said)

    def test_is_silent_where_there_is_none(self, monkeypatch, tmp_path):
        monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
        assert connection.offer_policies("") == []
        monkeypatch.setenv("DISCRETION_URL", "http://127.0.0.1:9")
        monkeypatch.setenv("DISCRETION_TOKEN", "dk_x")
        assert connection.offer_policies("") == []
