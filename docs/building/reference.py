"""The API reference, written from openapi/openapi.json while the documentation is built.

The page `api.md` has a line `<!-- routes -->`; what stands here takes its place.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from sphinx.application import Sphinx

Document = dict[str, Any]

_OPENAPI: Final = Path(__file__).parents[2] / "openapi" / "openapi.json"
_PAGE: Final = "api"
_PLACE: Final = "<!-- routes -->"
_PREFIX: Final = "#/components/schemas/"
_ROLES: Final = re.compile(r"^For [a-z, ]+\. ?")  # said again in a line of its own
_REFUSED: Final = 400
_TYPES: Final = {"string": "text", "object": "JSON object", "integer": "whole number"}


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("source-read", _fill)
    return {"parallel_read_safe": True}


def _fill(app: Sphinx, page: str, source: list[str]) -> None:
    if page == _PAGE:
        app.env.note_dependency(str(_OPENAPI))
        source[0] = source[0].replace(_PLACE, written(json.loads(_OPENAPI.read_text(encoding="utf-8"))))


def written(openapi: Document) -> str:
    """Every route, noun by noun, and then every shape that a body or an answer has."""
    nouns: dict[str, list[str]] = {}
    for path, methods in openapi["paths"].items():
        for method, route in methods.items():
            nouns.setdefault(route["tags"][0], []).extend(_route(f"{method.upper()} {path}", route))
    lines = [line for noun, routes in nouns.items() for line in (f"## {noun.capitalize()}", "", *routes)]
    lines += ["## Shapes", ""]
    for name, shape in sorted(openapi["components"]["schemas"].items()):
        lines += _shape(name, shape)
    return "\n".join(lines)


def _route(title: str, route: Document) -> Iterator[str]:
    said = _ROLES.sub("", route.get("description", ""))
    yield from (f"### `{title}`", "", said, "")
    yield f"* **Role**: {_roles(route)}"
    for parameter in route.get("parameters", []):
        needed = "" if parameter["required"] or parameter["in"] == "header" else ", optional"
        yield f"* **{parameter['name']}** ({parameter['in']}{needed}): {_kind(parameter['schema'])}{_said(parameter)}"
    if "requestBody" in route:
        yield f"* **Body**: {_content(route['requestBody']['content'])}"
    refusals = []
    for status, answer in sorted(route["responses"].items()):
        if int(status) < _REFUSED:
            yield f"* **Answer** {status}: {_content(answer.get('content', {}))}"
        else:
            refusals.append(f"{status} {answer['description'].lower()}")
    yield f"* **Refusals**: {' · '.join(refusals) or 'none'}"
    yield ""


def _roles(route: Document) -> str:
    return ", ".join(route.get("x-roles", [])) or ("see above" if "security" in route else "anybody, without a token")


def _content(content: Document) -> str:
    """A shape for each media type; JSON goes without saying."""
    found = []
    for media_type, body in content.items():
        shape = _kind(body.get("schema", {}))
        plain = media_type in ("application/json", "application/problem+json")
        found.append(shape if plain else f"`{media_type}`")
    return ", ".join(found) or "nothing"


def _shape(name: str, shape: Document) -> Iterator[str]:
    yield from (f"### {name}", "", shape.get("description", ""), "", "| field | what it is | |", "|---|---|---|")
    required = shape.get("required", [])
    for field, found in shape.get("properties", {}).items():
        default = "" if found.get("default") is None else f", else {json.dumps(found['default'])}"
        needed = "" if field in required else f"optional{default}"
        yield f"| `{field}` | {_kind(found)}{_said(found)} | {needed} |"
    yield ""


def _said(found: Document) -> str:
    return f": {found['description']}".replace("|", "\\|") if "description" in found else ""


def _kind(schema: Document) -> str:
    """A type in a word or two."""
    if "$ref" in schema:
        name = schema["$ref"].removeprefix(_PREFIX)
        return f"[{name}](#{name.lower()})"
    if "anyOf" in schema:
        return " or ".join(_kind(one) for one in schema["anyOf"])
    if "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema["enum"])
    if schema.get("type") == "array":
        return f"list of {_kind(schema.get('items', {}))}"
    limits = [f"{word} {schema[key]:g}" for key, word in (("minimum", "from"), ("maximum", "to")) if key in schema]
    kind = str(schema.get("type", "anything"))
    return " ".join([_TYPES.get(kind, kind), *limits])
