"""Notebooks as pages: their text as it stands, their code in blocks, what they printed and drew below it."""

import json
from collections.abc import Iterator
from typing import Any, Final

from docutils import nodes
from myst_parser.parsers.sphinx_ import MystParser
from sphinx.application import Sphinx

Document = dict[str, Any]

_KIND: Final = "notebook"


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_source_suffix(".ipynb", _KIND)
    app.add_source_parser(NotebookParser)
    return {"parallel_read_safe": True}


class NotebookParser(MystParser):
    supported = (_KIND,)

    def parse(self, inputstring: str, document: nodes.document) -> None:
        super().parse(written(json.loads(inputstring)), document)


def written(notebook: Document) -> str:
    return "\n".join(line for cell in notebook["cells"] for line in _cell(cell))


def _cell(cell: Document) -> Iterator[str]:
    text = "".join(cell["source"])
    yield from (text, "") if cell["cell_type"] == "markdown" else ("```python", text, "```", "")
    for output in cell.get("outputs", []):
        yield from _output(output)


def _output(output: Document) -> Iterator[str]:
    """A picture stands in the page itself, so that no file has to be written beside the sources."""
    data = output.get("data", {})
    if "image/png" in data:
        encoded = "".join(data["image/png"].split())
        yield from (f"![what the cell above drew](data:image/png;base64,{encoded})", "")
    elif text := "".join(output.get("text", data.get("text/plain", []))):
        yield from ("```text", text.rstrip(), "```", "")
