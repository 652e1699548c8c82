"""How the documentation is built: `make docs`."""

import sys
from pathlib import Path

import discretion

sys.path.insert(0, str(Path(__file__).parents[1]))

project = "Discretion"
version = release = discretion.__version__

extensions = ["myst_parser", "docs.building.reference", "docs.building.notebook"]
exclude_patterns = ["building"]
myst_heading_anchors = 4

html_theme = "furo"
html_title = f"Discretion {version}"
html_copy_source = False
html_show_copyright = False
