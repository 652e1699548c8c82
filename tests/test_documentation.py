"""What the documentation shows is what happens."""

import contextlib
import json
import os
import pty
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from docs.building import reference, sample, tables

from discretion import certificates, settings
from tests import providers, services, shown, walk

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "docker" / "README.md", *sorted(DOCS.rglob("*.md"))]
SHOWING = [page for page in PAGES if shown.has_steps(page)]
STARTING = ("docs/guide.md", "docs/operations.md", "docs/tutorial.md")  # a service of their own
PORT = "http://127.0.0.1:8000"  # what pages say; a test takes a free one
SCHEDULER = "tls://scheduler.hospital.example:8786"  # likewise, and this machine for all hosts of a cluster
ENDLESS = ("DISCRETION_HOST=0.0.0.0 discretion cluster schedule", "discretion cluster work")
SERVE = "discretion serve"  # likewise; its reader copies the token that it prints
AWAITED = "discretion cluster check"  # holds once both of these have begun

# What is executed elsewhere, and where: by the walk through the pages about containers, or as a line of CI.
CI = ".ci/run"
IN_CI = {
    "README.md": ["make test"],  # which is what runs this
    "docs/utility.md": ["make utility SAMPLE=1", "make evidence SAMPLE=1"],  # minutes
}
# What sentences name and no block shows.
OF_CI = ["make test-long", "make test-deployment"]
OF_TEST = ["make setup", "make lint"]  # which `make test` begins with
OF_TESTS = ["make serve", "make docs-build", "make docs", "make bench ONLY=noise", "make clean"]  # below: TestMake
OF_NOBODY = ["make lock"]  # asks the package index; what it has written is what every run installs
ELSEWHERE = [*OF_CI, *OF_TEST, *OF_TESTS, *OF_NOBODY]


def name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def to_run(page: Path) -> list[shown.Step]:
    elsewhere = IN_CI.get(name(page), []) + [step.code for step in in_walk(page)]
    return [step for step in shown.steps(page.read_text(encoding="utf-8")) if step.code not in elsewhere]


def in_walk(page: Path) -> list[shown.Step]:
    return walk.walked(name(page)) if name(page) in walk.PAGES else []


def environment(folder: Path, **more: str) -> dict[str, str]:
    """`discretion` and `python` are the ones that are being tested; nothing else is set."""
    binaries = f"{Path(sys.executable).parent}:/usr/bin:/bin"
    plain = {"TERM": "dumb", "COLUMNS": "100", "LANG": "C.UTF-8"}
    return plain | {"PATH": binaries, "HOME": str(folder), "PYTHONPATH": str(ROOT)} | more


def run(wanted: list[shown.Step], folder: Path, **more: str) -> list[str]:
    """What each step printed, on a terminal: some commands speak otherwise to a program."""
    lay_out(folder)
    terminal, side = pty.openpty()
    command = ["bash", "-mc", shown.script(wanted)]
    reader = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=side, stderr=side, env=environment(folder, **more), cwd=folder
    )
    os.close(side)
    printed = _everything(terminal).replace("\r\n", "\n")
    assert reader.wait() == 0, printed
    return shown.outputs(printed)


def lay_out(folder: Path) -> None:
    """This repository's files, as far as commands name them. What is tested stands for what `make` would install."""
    for file in ("service", "tests", "Makefile", "README.md", "pyproject.toml", "requirements.lock"):
        (folder / file).symlink_to(ROOT / file)
    for copied in ("benchmarks", "docker", "docs", "openapi"):  # what is written, or looks about where it lies
        shutil.copytree(ROOT / copied, folder / copied, ignore=shutil.ignore_patterns("secrets", ".env", "__pycache__"))
    (folder / ".venv").mkdir()
    for part in ("bin", "lib", "pyvenv.cfg"):
        (folder / ".venv" / part).symlink_to(Path(sys.prefix) / part)
    for stamp in ("locked", "ready"):
        (folder / ".venv" / stamp).touch()


def _everything(terminal: int) -> str:
    """Until the last who could write to it has gone, which Linux tells by an error."""
    found = b""
    with contextlib.suppress(OSError):
        while more := os.read(terminal, 2**16):
            found += more
    os.close(terminal)
    return found.decode()


def free() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])


def carried_out(code: str) -> str:
    """What goes on for ever does so beside the rest; what needs it is asked until it answers."""
    if code in ENDLESS:
        return f"{code.replace('0.0.0.0', '127.0.0.1')} > /dev/null 2>&1 &"
    if code == SERVE:
        awaited = f"until curl --silent --fail {PORT}/readyz > ready; do sleep 0.1; done"
        return f"{code} > admin.token 2> service.log &\n{awaited}\ncat admin.token\nADMIN=$(cat admin.token)"
    if code == AWAITED:
        return f"for _ in {{1..100}}; do {code} > said 2>&1 && break; sleep 0.1; done; cat said"
    return code


def a_ready_dataset(service: services.Service) -> dict[str, str]:
    """For a page that begins in the middle of the story, the dataset and the token that it speaks of."""
    custodian, analyst = service.key("custodian"), service.key("analyst")
    schema: dict[str, Any] = {
        "horizon": 4,
        "states": {"kind": "discrete", "count": 5},
        "actions": {"count": 2},
        "reward": {"low": 0, "high": 1},
    }
    dataset = services.new_dataset(custodian, schema=schema, rho="2")
    assert services.upload(custodian, dataset, services.csv(3000, schema=schema)).status_code == 201
    services.grant(custodian, dataset, analyst, "1")
    return {"ANALYST": analyst.token, "DATASET": dataset}


@contextlib.contextmanager
def provided(page: str, folder: Path) -> Iterator[dict[str, Any]]:
    """For the page about identities, a provider, and a token of it for one of its people; for the others nothing."""
    if page != "docs/identity.md":
        yield {}
        return
    with providers.provider() as real:
        (folder / "ada.token").write_text(real.token("ada", preferred_username="Dr. Ada"), encoding="utf-8")
        yield real.environment()


class TestPages:
    @pytest.mark.long
    @pytest.mark.parametrize("page", [page for page in SHOWING if to_run(page)], ids=name)
    def test_what_is_shown_is_run_and_prints_what_is_shown(self, page, tmp_path):
        wanted, folder = to_run(page), tmp_path / "reader"
        folder.mkdir()
        if name(page) in STARTING:
            port = str(free())
            printed = self.printed(wanted, folder, f"http://127.0.0.1:{port}", {"DISCRETION_PORT": port})
        else:
            with provided(name(page), folder) as said, services.serve(tmp_path / "service", **said) as service:
                given = {"URL": service.url, "ADMIN": service.token, "DISCRETION_DATA": str(service.folder / "data")}
                given |= a_ready_dataset(service)
                printed = self.printed(wanted, folder, service.url, given)
        for step, found in zip(wanted, printed, strict=True):
            assert shown.agrees(step, found), f"{step.code}\nis said to print\n{step.shown}\nand prints\n{found}"

    def printed(self, wanted: list[shown.Step], folder: Path, url: str, given: dict[str, str]) -> list[str]:
        """Under the address and the id of this run; read back as the page has them."""
        moved, scheduler = [], f"tls://127.0.0.1:{free()}"
        for step in wanted:
            code = carried_out(step.code).replace(PORT, url).replace(SCHEDULER, scheduler)
            code = re.sub(r"ds_[A-Za-z0-9]{22}", given.get("DATASET", ""), code)
            moved.append(shown.Step(code, step.shown, step.language))
        return [found.replace(url, PORT) for found in run(moved, folder, **given)]

    @pytest.mark.parametrize("page", PAGES, ids=name)
    def test_what_a_sentence_names_is_run_as_well(self, page):
        steps = [step.code for each in PAGES for step in shown.steps(each.read_text(encoding="utf-8"))]
        lines = [line for step in steps for line in step.replace("\\\n", " ").splitlines()]
        run = [line for line in lines if not line.startswith("#")] + ELSEWHERE
        for command in shown.named(page.read_text(encoding="utf-8")):
            assert any(shown.names(command, line) for line in run), f"nobody runs {command}"


class TestElsewhere:
    """What is not run here is run there, and there is no third place."""

    def test_what_ci_is_to_run_it_runs_and_a_page_shows(self):
        """Whatever else happens: at the beginning of a line, under nothing but a limit of its time."""
        lines = (ROOT / CI).read_text(encoding="utf-8").splitlines()
        run = {re.sub(r"^timeout \S+ \S+ | 2>&1 \| tee .*$", "", line) for line in lines}
        for page, codes in IN_CI.items():
            assert set(codes) <= {step.code for step in shown.steps((ROOT / page).read_text(encoding="utf-8"))}
            assert set(codes) <= run
        assert all(any(line.endswith(code) for line in run) for code in OF_CI)
        assert re.search(r"^test: lint ", *_makefile())
        assert re.search(r"^lint: \$\(VENV\)/ready ", *_makefile())

    def test_the_walk_is_part_of_the_test_of_the_deployment_and_that_of_ci(self):
        ways = re.search(r"^test-deployment: ##.*?\n((?:\t.*\n|ifdef .*\n|else\n|endif\n)+)", *_makefile())
        assert ways is not None
        docker, stand_in = (way for way in reversed(ways[1].split("else\n")))
        assert docker.count("-m tests.walk $(READER)") == stand_in.count("-m tests.walk $(READER)") == 1
        assert (ROOT / CI).read_text(encoding="utf-8").count(" make test-deployment") == 2

    def test_the_walk_takes_every_command_of_its_pages_but_one_where_no_registry_is(self, monkeypatch):
        monkeypatch.delenv("DC", raising=False)
        assert self.walked() == [step.code for page in walk.PAGES for step in in_walk(ROOT / page)]
        monkeypatch.setenv("DC", "docker-compose")
        left = [step.code for page in walk.PAGES for step in in_walk(ROOT / page)]
        left.remove("docker pull postgres:17")
        assert self.walked() == left

    def walked(self) -> list[str]:
        """What the walk runs, without what it arranges for it."""
        arranged = {walk.filled(code) for code in (*walk.BEFORE.values(), *walk.AFTER.values())}
        return [step.code for step in walk.script(moved=()) if step.code not in arranged]

    def test_the_walk_arranges_nothing_for_what_no_page_shows(self):
        """A reason for what is gone would one day excuse something else."""
        shown_there = {(page, step.code) for page in walk.PAGES for step in walk.walked(page)}
        assert {*walk.BEFORE, *walk.AFTER} <= shown_there
        assert all(any(there in code for _, code in shown_there) for there, _ in walk.MOVED)

    @pytest.mark.parametrize(
        ("code", "wrong"),
        [("echo all is well", 0), ("echo all is lost", 1), ("echo all is well && false", 1)],
        ids=["as shown", "other output", "ends badly"],
    )
    def test_the_walk_finds_what_is_not_as_it_is_shown(self, code, wrong, tmp_path, monkeypatch):
        for setting in ("COMPOSE_PROJECT_NAME", "HTTPS_PORT", "SUBNET"):
            monkeypatch.setenv(setting, "unused")
        steps = [shown.Step(code, "all is well"), shown.Step("echo end", "end")]
        assert len(walk.Reader(tmp_path, steps).walk()) == wrong

    @pytest.mark.parametrize("page", PAGES, ids=name)
    def test_no_command_hides_in_a_block_of_another_kind(self, page):
        for block in shown.blocks(page.read_text(encoding="utf-8")):
            assert block.language in (*shown.RUN, "ini", "json", "text", "yaml") or block.language.startswith("{")
            assert block.language in shown.RUN or not re.search(r"^\$ ", block.text, re.MULTILINE)


def _makefile() -> tuple[str, int]:
    return (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE


class TestShown:
    """The checks themselves can fail."""

    @pytest.mark.parametrize("said", ["4 rows add up.", "3 rows", '{\n"rho": "0.5"}'])
    def test_other_output_than_shown_is_found(self, said):
        assert not shown.agrees(shown.Step("x", said), '{"rho": "0.25"}' if "rho" in said else "3 rows add up.")

    def test_what_differs_from_run_to_run_may_be_left_open(self):
        assert shown.agrees(shown.Step("x", "key_…, admin\n…\nend"), "key_12, admin\na\nb\nend")

    def test_a_console_is_read_command_by_command(self):
        (first, second) = shown.commands("$ one \\\n  two\nsaid\n$ three    # why\n")
        assert (first.code, first.shown, second.code) == ("one \\\n  two", "said", "three")

    def test_a_block_in_a_list_is_read_as_any_other(self):
        assert shown.steps("- this\n\n  ```console\n  $ one\n  said\n  ```\n") == [shown.Step("one", "said")]

    def test_of_what_stands_in_a_sentence_commands_are_taken(self):
        page = "Run `make\nserve`, or `A=1 discretion work`.\n```console\n$ make demo\n```\nSee `docker/.env`, `--yes`."
        assert shown.named(page) == ["make serve", "A=1 discretion work"]

    @pytest.mark.parametrize(
        ("command", "run"),
        [
            ("discretion keys revoke key_…", True),
            ("keys revoke", True),
            ("discretion keys", True),
            ("discretion keys replace key_…", False),
            ("discretion keys revoke --force", False),
            ("discretion revoke", False),
            ("B=2 discretion keys", False),
            ("make bench", False),
        ],
    )
    def test_a_command_is_run_by_a_line_that_has_its_words_and_options(self, command, run):
        assert shown.names(command, 'A=1 discretion keys revoke "$KEY" --quiet') == run

    def test_a_missing_field_of_json_is_found(self):
        assert not shown.agrees(shown.Step("x", '{"gone": 1}', "json"), '{"here": 1}')


class TestComputed:
    @pytest.mark.parametrize("page", tables.PAGES, ids=lambda page: page.name)
    def test_tables_are_what_the_program_says(self, page):
        text = page.read_text(encoding="utf-8")
        assert text == tables.filled(text), "run: python -m docs.building.tables"

    def test_a_wrong_figure_is_found(self):
        text = (DOCS / "choosing-rho.md").read_text(encoding="utf-8").replace("2.15", "1.15")
        assert text != tables.filled(text)


class TestCertificatePage:
    def test_the_sample_holds(self):
        files = [(sample.SAMPLES / f"{part}.json").read_text("utf-8") for part in ("policy", "certificate", "keys")]
        assert certificates.verify(*files).charged_rho.nano == 500_000_000

    def test_every_field_of_a_fresh_certificate_is_explained(self, tmp_path):
        page = (DOCS / "certificate.md").read_text(encoding="utf-8")
        explained = set(re.findall(r"`(\w+)`", re.sub(r"```.*?```", "", page, flags=re.DOTALL)))
        fresh = sample.papers(tmp_path)["certificate"]
        fields = set(json.loads(fresh)) | _names(sample.payload(fresh))
        assert fields <= explained, f"not explained: {sorted(fields - explained)}"


def _names(document: object) -> set[str]:
    if isinstance(document, dict):
        return set(document).union(*map(_names, document.values()))
    return set().union(*map(_names, document)) if isinstance(document, list) else set()


@pytest.mark.long
class TestNotebook:
    def test_it_runs_and_prints_what_it_shows(self, tmp_path):
        """Cells that show what noise decides are tagged `noisy`; the others print the same in every run."""
        made = tmp_path / "played.ipynb"
        command = [sys.executable, "-m", "docs.building.play", str(made)]
        done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
        assert done.returncode == 0, done.stderr
        pages = (DOCS / "notebook.ipynb", made)
        before, after = (json.loads(page.read_text(encoding="utf-8"))["cells"] for page in pages)
        for cell, again in zip(before, after, strict=True):
            kinds = [[output["output_type"] for output in one.get("outputs", [])] for one in (cell, again)]
            assert kinds[0] == kinds[1]
            if "noisy" not in cell["metadata"].get("tags", []):
                assert cell == again, "run: python -m docs.building.play"


class TestSettings:
    def test_every_setting_stands_on_the_page_with_its_default(self):
        page = (DOCS / "operations.md").read_text(encoding="utf-8")
        listed = dict(re.findall(r"^\| `([A-Z0-9_]+)` \| ([^|]*) \|", page, re.MULTILINE))
        assert set(listed) == set(settings._NAMES)
        for number, (default, *_) in settings._NUMBERS.items():
            assert listed[number] == str(default)
        for choice, (usual, *_) in settings._CHOICES.items():
            assert listed[choice] == f"`{usual}`"
        for other in (*(f"{secret}_FILE" for secret in settings._SECRETS), *settings._CLIENT):
            assert f"`DISCRETION_{other}`" in page


class TestReference:
    def test_every_route_role_and_refusal_is_in_it(self):
        openapi = json.loads((ROOT / "openapi" / "openapi.json").read_text(encoding="utf-8"))
        page = reference.written(openapi)
        sections = dict(re.findall(r"^### `([A-Z]+ [^`]+)`\n(.*?)(?=^##)", page, re.DOTALL | re.MULTILINE))
        for path, methods in openapi["paths"].items():
            for method, route in methods.items():
                section = sections.pop(f"{method.upper()} {path}")
                for said in [*route.get("x-roles", []), *route["responses"]]:
                    assert said in section
        assert not sections

    def test_every_shape_and_field_is_in_it(self):
        openapi = json.loads((ROOT / "openapi" / "openapi.json").read_text(encoding="utf-8"))
        page = reference.written(openapi)
        for shape, found in openapi["components"]["schemas"].items():
            assert f"### {shape}\n" in page
            for field in found.get("properties", {}):
                assert f"| `{field}` |" in page


class TestMake:
    """What sentences name, in a folder where nothing is lost."""

    @pytest.fixture
    def folder(self, tmp_path):
        (tmp_path / "reader").mkdir()
        lay_out(tmp_path / "reader")
        return tmp_path / "reader"

    def make(self, folder: Path, *wanted: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(["make", *wanted], cwd=folder, env=environment(folder), capture_output=True, text=True)

    @contextlib.contextmanager
    def beside(self, folder: Path, target: str, url: str, **more: str) -> Iterator[str]:
        """What the address answers while the target runs, until somebody presses Control-C."""
        with (folder / "said").open("w") as said:
            program = ["make", target]
            running = subprocess.Popen(
                program, cwd=folder, env=environment(folder, **more), stdout=said, stderr=said, start_new_session=True
            )
            try:
                yield self.answer(url, running)
            finally:
                os.killpg(running.pid, signal.SIGINT)
                running.wait(60)

    def answer(self, url: str, running: subprocess.Popen[bytes]) -> str:
        while running.poll() is None:
            with contextlib.suppress(httpx.TransportError):
                found = httpx.get(url)
                if found.status_code == 200:
                    return found.text
            time.sleep(0.1)
        pytest.fail("it has ended")

    def test_serve_leaves_a_service_running(self, folder):
        port = str(free())
        with self.beside(folder, "serve", f"http://127.0.0.1:{port}/readyz", DISCRETION_PORT=port) as said:
            assert json.loads(said)["status"] == "ready"
        assert "dk_" in (folder / "said").read_text(encoding="utf-8")

    @pytest.mark.long
    def test_docs_are_built_without_a_warning_ask_nobody_for_anything_and_are_shown(self, folder):
        done = self.make(folder, "docs-build")
        assert done.returncode == 0, done.stderr
        site = folder / "build" / "docs"
        pages = list(site.rglob("*.html"))
        assert len(pages) > len(list(DOCS.rglob("*.md")))
        assert (site / "notebook.html").read_text(encoding="utf-8").count("data:image/png") == 2
        for page in pages:
            fetched = re.findall(r"<(?:script|link|img|iframe|source)\b[^>]*>", page.read_text(encoding="utf-8"))
            assert not [tag for tag in fetched if re.search(r"(?:src|href)=\"(?:https?:)?//", tag)], page
        for style in site.rglob("*.css"):
            assert not re.search(r"(?:url\(|@import )['\"]?(?:https?:)?//", style.read_text(encoding="utf-8")), style
        port = str(free())
        with self.beside(folder, "docs", f"http://127.0.0.1:{port}/tutorial.html", DOCS_PORT=port) as said:
            assert "From a CSV file" in said

    @pytest.mark.long
    def test_bench_measures_and_says_what_has_fallen_or_misses_its_goal(self, folder):
        """How fast it is, is nobody's business here."""
        before = (folder / "benchmarks" / "history.jsonl").read_text(encoding="utf-8").count("\n")
        done = self.make(folder, "bench", "ONLY=noise")
        assert "Gaussian" in done.stdout, done.stderr
        assert (done.returncode != 0) == bool(re.search("^(FELL|MISSED) ", done.stdout, re.MULTILINE)), done.stderr
        assert (folder / "benchmarks" / "history.jsonl").read_text(encoding="utf-8").count("\n") == before + 1

    def test_clean_removes_what_was_made_and_nothing_else(self, folder):
        (folder / "build").mkdir()
        kept = {path.name for path in folder.iterdir()} - {".venv", "build"}
        assert self.make(folder, "clean").returncode == 0
        assert {path.name for path in folder.iterdir()} == kept
        assert Path(sys.executable).exists()


class TestLinks:
    @pytest.mark.parametrize("page", PAGES, ids=name)
    def test_lead_somewhere(self, page):
        for target in re.findall(r"\]\(([^)#]+)\)", page.read_text(encoding="utf-8").replace("\n", " ")):
            if "://" not in target:
                assert (page.parent / target).exists(), target
