"""What the dashboard is written in: ES2020, which the browsers of hospitals that are years behind still read."""

import re
from pathlib import Path

import pytest

import discretion

WEB = Path(discretion.__file__).parent / "web"
NEWER = {  # what came after ES2020, and a line of it
    "logical assignment": (r"(?:\?\?|\|\||&&)=", "found ??= 1;"),
    "numeric separators": (r"(?<![\w.])\d+_\d", "const most = 1_000;"),
    "private members": (
        r"\.#\w|#\w+ in\b|^\s*(?:static\s+|async\s+|get\s+|set\s+)*#\w+\s*[=;(]",
        "return this.#count;",
    ),
    "fields of classes": (r"^\s*static\s+\w+\s*[=;]", "  static most = 3;"),
    "static blocks": (r"\bstatic\s*\{", "static { begin(); }"),
    "top-level await": (r"^(?:(?:export\s+)?(?:const|let|var)\s.*=\s*)?await\b", "const found = await ask();"),
    "flags d and v": (r"[=(,:]\s*/(?:\\.|[^/\\\n])+/[gimsuy]*[dv][dgimsuvy]*(?!\w)", "found = text.match(/a+/dg);"),
    "import attributes": (
        r"\bfrom\s+[\"'][^\"']+[\"']\s+(?:with|assert)\b",
        'import one from "./one.json" with { type: "json" };',
    ),
    "newer methods": (
        r"\.(?:at|replaceAll|findLast|findLastIndex|toSorted|toReversed|toSpliced|with|groupBy|isWellFormed"
        r"|toWellFormed|fromAsync|withResolvers|union|intersection|difference)\(",
        "return rows.at(-1);",
    ),
    "newer names": (
        r"\b(?:Object\.hasOwn|Promise\.any|Promise\.try|structuredClone|AggregateError|WeakRef|FinalizationRegistry"
        r"|Iterator\.from)\b",
        "if (Object.hasOwn(found, name)) return;",
    ),
    "causes of errors": (r"new \w*Error\(.*\{\s*cause\b", "throw new Error(text, { cause: problem });"),
}
OLDER = """
export * as words from "/assets/words.js";
export async function show(rows) {
  const first = rows[0]?.name ?? "none";
  const all = await Promise.allSettled(asked);
  const [most, found] = [1000n, [...text.matchAll(/v1.d/gu)]];
  const page = await import("/assets/pages/v.js");
  [location.hash, colour, globalThis.at] = ["#/policies", "#0072b2", 3 / most / data];
}
"""


def newer(text: str) -> list[str]:
    return [name for name, (pattern, _) in NEWER.items() if re.search(pattern, text, re.MULTILINE)]


class TestScripts:
    def test_are_all_of_2020(self):
        scripts = sorted(WEB.rglob("*.js"))
        assert len(scripts) > 30
        assert {str(one.relative_to(WEB)): found for one in scripts if (found := newer(one.read_text()))} == {}

    @pytest.mark.parametrize("name", NEWER)
    def test_of_later_years_would_be_found(self, name: str):
        assert newer(NEWER[name][1]) == [name]

    def test_of_2020_are_not_taken_for_newer(self):
        assert newer(OLDER) == []
