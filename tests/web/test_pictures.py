"""The program that takes the documentation's pictures of the dashboard still finds what it points at."""

from pathlib import Path

import pytest
from docs.building import pictures
from PIL import Image
from playwright.sync_api import Browser

pytestmark = pytest.mark.long


def seen(folder: Path) -> dict[str, tuple[int, int]]:
    """How wide each picture is, and how many colours it has."""
    found = {}
    for file in folder.glob("*.png"):
        with Image.open(file) as picture:
            found[file.name] = (picture.width, len(picture.getcolors() or []))
    return found


class TestTake:
    def test_takes_every_picture_that_the_documentation_has(self, browser: Browser, tmp_path: Path):
        with pictures.clinic() as clinic:
            pictures.take(browser, clinic, tmp_path)
        taken, kept = seen(tmp_path), seen(pictures.FIGURES)
        assert taken.keys() == kept.keys()
        assert {wide for wide, _ in taken.values()} == {wide for wide, _ in kept.values()}
        assert min(colours for _, colours in taken.values()) > 20  # something was there to be seen
