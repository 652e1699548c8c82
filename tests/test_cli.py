"""The command line, as a person calls it."""

import re

import pytest
from typer.testing import CliRunner

import discretion
from discretion import cli

PNG = b"\x89PNG\r\n\x1a\n"
SMALL = ["--episodes", "5,20", "--rho", "1,10", "--instances", "1", "--repetitions", "1"]


def run(*arguments: str):
    return CliRunner().invoke(cli.app, list(arguments))


class TestVersion:
    def test_is_the_packages(self):
        assert run("--version").output.strip() == f"discretion {discretion.__version__}"


class TestSimulate:
    @pytest.mark.parametrize("calibration", ["paper", "tight"])
    def test_writes_the_numbers_and_both_panels(self, tmp_path, calibration):
        done = run("simulate", "--out", str(tmp_path / "new" / "folder"), *SMALL, "--calibration", calibration)
        assert done.exit_code == 0, done.output
        folder = tmp_path / "new" / "folder"
        assert len((folder / "suboptimality.csv").read_text().splitlines()) == 1 + 2 * 4
        for panel in ("figure-1a.png", "figure-1b.png"):
            assert (folder / panel).read_bytes().startswith(PNG)
        assert re.search(r"dp-vapvi\s.*10", done.output)

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
        assert "Cannot write" in done.output
