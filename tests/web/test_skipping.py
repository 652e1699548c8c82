"""Where there is no browser: who runs the tests is told of each one that was not run."""

import re
import subprocess
import sys
from pathlib import Path

from tests.web.test_extremes import PAGES

ROOT = Path(__file__).parents[2]
NAME = "tests/web/test_extremes.py::TestEveryPage::test_holds_the_longest_that_may_be_written"


def skipped(folder: Path) -> list[str]:
    """What `.ci/run` looks for at the end of a run, where nothing is on the PATH."""
    command = [sys.executable, "-m", "pytest", NAME, "-p", "no:cacheprovider", f"--basetemp={folder / 'run'}"]
    environment = {"PATH": str(folder), "HOME": str(folder), "LANG": "C.UTF-8", "TERM": "dumb"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return re.findall(r"^SKIPPED .*", done.stdout, re.MULTILINE)


class TestWithoutChromium:
    def test_each_test_that_was_not_run_is_named_with_what_to_do(self, tmp_path: Path):
        lines = skipped(tmp_path)
        assert len(lines) == len(PAGES) > 1
        for role, line in zip(PAGES, lines, strict=True):
            assert f"{NAME}[{role}] - " in line
            assert "put `chromium` or `google-chrome` on the PATH" in line
