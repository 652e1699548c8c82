"""What the documentation shows is what happens."""

import contextlib
import json
import os
import pty
import re
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from docs.building import play, reference, sample, tables

from discretion import certificates, settings
from tests import services, shown

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "docker" / "README.md", *sorted(DOCS.rglob("*.md"))]
SHOWING = [page for page in PAGES if shown.has_steps(page)]
STARTING = ("docs/operations.md", "docs/tutorial.md")  # a service of their own
PORT = "http://127.0.0.1:8000"  # what pages say; a test takes a free one
SCHEDULER = "tls://scheduler.hospital.example:8786"  # likewise, and this machine for all hosts of a cluster
ENDLESS = ("DISCRETION_HOST=0.0.0.0 discretion cluster schedule", "discretion cluster work")
AWAITED = "discretion cluster check"  # holds once both of these have begun

_DOCKER = "needs Docker; docker/check walks through such a deployment"
_HOURS = "takes hours; tests/test_utility.py and the tests of the evidence run samples"
NOT_RUN = {
    "README.md": {
        "make demo": "tests/test_demo.py tells the same story",
        "make test": "is what runs this",
        ". .venv/bin/activate": "what is tested may be installed elsewhere, and is on the path already",
    },
    "docs/cluster.md": dict.fromkeys(
        (
            "docker/make-secrets",
            "docker compose --file docker/compose.yaml up --detach --wait",
            "docker compose --file docker/compose.yaml exec scheduler discretion cluster check",
        ),
        _DOCKER,
    ),
    "docs/guide.md": {"discretion serve": "goes on for ever; every test of a page starts it"},
    "docs/utility.md": {"make utility": _HOURS, "make evidence": _HOURS},
    "docker/README.md": dict.fromkeys(
        (
            "docker compose --file docker/compose.yaml build",
            "docker pull postgres:17",
            "docker/make-secrets discretion.hospital.example",
            "docker compose --file docker/compose.yaml up --detach --wait",
            "docker/check https://discretion.hospital.example",
            'alias dc="docker compose --file docker/compose.yaml"',
            "dc logs --no-log-prefix api",
            'dc exec api discretion keys create --role admin --name "Your Name"',
            "dc exec api discretion keys list",
            "dc exec api discretion keys revoke key_…",
            "docker save discretion discretion-proxy postgres:17 | gzip > discretion-images.tar.gz",
            "sha256sum discretion-images.tar.gz",
            "docker load --input discretion-images.tar.gz",
            "docker compose --file docker/compose.yaml --file docker/external-database.yaml up --detach --wait",
            "docker build --file docker/Dockerfile --tag discretion .",
            "docker run --detach --init --name discretion --volume discretion:/data --publish 127.0.0.1:8000:8000 "
            "discretion",
            "docker logs discretion",
            "docker run --rm --entrypoint cat discretion /opt/discretion/sbom.cdx.json > sbom.cdx.json",
            "dc stop api worker",
            "dc exec -T api discretion backup /data/monday",
            "dc exec -T api tar --create --directory /data monday > monday.tar",
            "dc exec -T api rm -r /data/monday",
            "dc up --detach --wait postgres",
            "dc run --rm --no-deps -T --entrypoint tar worker --extract --directory /data < monday.tar",
            "dc run --rm --no-deps -T worker restore /data/monday",
            "dc up --detach --wait",
            "docker tag discretion:latest discretion:before",
            "docker tag discretion-proxy:latest discretion-proxy:before",
        ),
        _DOCKER,
    ),
}


def name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def to_run(page: Path) -> list[shown.Step]:
    left_out = NOT_RUN.get(name(page), {})
    return [step for step in shown.steps(page.read_text(encoding="utf-8")) if step.code not in left_out]


def environment(folder: Path, **more: str) -> dict[str, str]:
    """`discretion` and `python` are the ones that are being tested; nothing else is set."""
    binaries = f"{Path(sys.executable).parent}:/usr/bin:/bin"
    plain = {"TERM": "dumb", "COLUMNS": "100", "LANG": "C.UTF-8"}
    return plain | {"PATH": binaries, "HOME": str(folder), "PYTHONPATH": str(ROOT)} | more


def run(wanted: list[shown.Step], folder: Path, **more: str) -> list[str]:
    """What each step printed, on a terminal: some commands speak otherwise to a program."""
    (folder / "docs").symlink_to(DOCS)
    terminal, side = pty.openpty()
    command = ["bash", "-mc", shown.script(wanted)]
    reader = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=side, stderr=side, env=environment(folder, **more), cwd=folder
    )
    os.close(side)
    printed = _everything(terminal).replace("\r\n", "\n")
    assert reader.wait() == 0, printed
    return shown.outputs(printed)


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


class TestPages:
    @pytest.mark.parametrize("page", [page for page in SHOWING if to_run(page)], ids=name)
    def test_what_is_shown_is_run_and_prints_what_is_shown(self, page, tmp_path):
        wanted, folder = to_run(page), tmp_path / "reader"
        folder.mkdir()
        if name(page) in STARTING:
            port = str(free())
            printed = self.printed(wanted, folder, f"http://127.0.0.1:{port}", {"DISCRETION_PORT": port})
        else:
            with services.serve(tmp_path / "service") as service:
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

    def test_nothing_is_left_out_that_no_page_shows(self):
        """A reason for what is gone would one day excuse something else."""
        for page, left_out in NOT_RUN.items():
            codes = {step.code for step in shown.steps((ROOT / page).read_text(encoding="utf-8"))}
            assert set(left_out) <= codes, page

    @pytest.mark.parametrize("page", PAGES, ids=name)
    def test_every_target_of_make_exists(self, page):
        targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
        for target in re.findall(r"(?:`|\$ )make ([a-z-]+)", page.read_text(encoding="utf-8")):
            assert target in targets


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


class TestNotebook:
    def test_it_runs_and_prints_what_it_shows(self, tmp_path):
        """Cells that show what noise decides are tagged `noisy`; the others print the same in every run."""
        made = tmp_path / "played.ipynb"
        command = [sys.executable, "-m", "docs.building.play", str(made)]
        done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
        assert done.returncode == 0, done.stderr
        before, after = (json.loads(path.read_text(encoding="utf-8"))["cells"] for path in (play.NOTEBOOK, made))
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


class TestSite:
    def test_it_builds_without_a_warning_and_asks_nobody_for_anything(self, tmp_path):
        command = [sys.executable, "-m", "sphinx", "--fail-on-warning", "--nitpicky", "--quiet"]
        command += ["--doctree-dir", str(tmp_path / "doctrees"), str(DOCS), str(tmp_path / "site")]
        done = subprocess.run(command, capture_output=True, text=True, env=os.environ | {"PYTHONPATH": str(ROOT)})
        assert done.returncode == 0, done.stderr
        pages = list((tmp_path / "site").rglob("*.html"))
        assert len(pages) > len(list(DOCS.rglob("*.md")))
        assert (tmp_path / "site" / "notebook.html").read_text(encoding="utf-8").count("data:image/png") == 2
        for page in pages:
            fetched = re.findall(r"<(?:script|link|img|iframe|source)\b[^>]*>", page.read_text(encoding="utf-8"))
            assert not [tag for tag in fetched if re.search(r"(?:src|href)=\"(?:https?:)?//", tag)], page
        for style in (tmp_path / "site").rglob("*.css"):
            assert not re.search(r"(?:url\(|@import )['\"]?(?:https?:)?//", style.read_text(encoding="utf-8")), style


class TestLinks:
    @pytest.mark.parametrize("page", PAGES, ids=name)
    def test_lead_somewhere(self, page):
        for target in re.findall(r"\]\(([^)#]+)\)", page.read_text(encoding="utf-8").replace("\n", " ")):
            if "://" not in target:
                assert (page.parent / target).exists(), target
