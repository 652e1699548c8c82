"""What a page of the documentation shows: its blocks, the commands in them, and what they are said to print.

`…` stands for whatever differs from run to run, within a line or, alone on its line, for any lines.
"""

import itertools
import json
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

RUN = ("bash", "console", "python")
PROGRAMS = (
    "discretion ",
    "make ",
    "docker ",
    "docker/check ",
    "dc ",
    "curl ",
    "sudo ",
    "openssl ",
    "pip ",
    "python ",
    "python3 ",
)
_FENCE = re.compile(r"^(?P<indent> *)```(?P<language>[^\n`]*)\n(?P<text>.*?)^(?P=indent)```$", re.DOTALL | re.MULTILINE)
_SPAN = re.compile(r"(?<!`)`([^`]+)`(?!`)")
_COMMENT = re.compile(r"\s{2,}# .*$")
_PAIR = re.compile(r'"(\w+)": ?("[^"…]*"|-?[0-9][0-9.e+-]*|true|false|null)')
MARK = "\x1e"


@dataclass(frozen=True)
class Block:
    language: str
    text: str


@dataclass(frozen=True)
class Step:
    """Something to run, and what the page shows of its output, in which language."""

    code: str
    shown: str = ""
    language: str = "text"


def blocks(page: str) -> list[Block]:
    return [
        Block(found["language"].strip(), re.sub(f"^{found['indent']}", "", found["text"], flags=re.MULTILINE))
        for found in _FENCE.finditer(page)
    ]


def named(page: str) -> list[str]:
    """The commands that sentences name: of more than one word, the first of which is a program."""
    found = [" ".join(span.split()) for span in _SPAN.findall(_FENCE.sub("", page))]
    return [span for span in found if re.sub(r"^([A-Z_]+=\S* )+", "", span).startswith(PROGRAMS)]


def names(command: str, line: str) -> bool:
    """Whether a line that is run has a command's words, one after the other, and its options; values may differ."""
    wanted, options = _told(command)
    plain = list(itertools.takewhile(lambda word: not re.search(r"^-|…|^[A-Z|]+$", word), wanted))
    run, given = _told(line)
    return options <= given and any(run[at : at + len(plain)] == plain for at in range(len(run)))


def _told(command: str) -> tuple[list[str], set[str]]:
    """Its words, settings without their values; and those of them that are options."""
    try:
        words = shlex.split(command)
    except ValueError:  # a part of something longer
        words = command.split()
    words = [re.sub(r"^((?:--[a-z-]+|[A-Z_]+)=).*", r"\1", word, flags=re.DOTALL).strip("();") for word in words]
    return words, {word.rstrip("=") for word in words if word.startswith("-")}


def steps(page: str) -> list[Step]:
    """Everything that a page lets its reader do, in order."""
    made: list[Step] = []
    before = ""
    for block in blocks(page):
        if block.language == "console":
            made += commands(block.text)
        elif block.language == "bash":
            made.append(Step(block.text))
        elif block.language == "python":
            made.append(Step(f"python - <<'END_OF_BLOCK'\n{block.text}END_OF_BLOCK\n"))
        elif block.language in ("json", "text") and before in ("bash", "python"):
            made[-1] = Step(made[-1].code, block.text.strip(), block.language)
        before = block.language
    return made


def commands(text: str) -> Iterator[Step]:
    """Of a console: `$ ` begins a command, which goes on after a backslash or in lines that begin with `> `."""
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        lines = part.splitlines()
        taken = [lines.pop(0)]
        while lines and (taken[-1].endswith("\\") or lines[0].startswith("> ")):
            taken.append(lines.pop(0).removeprefix("> "))
        yield Step(_COMMENT.sub("", "\n".join(taken)), "\n".join(lines).strip())


def script(wanted: list[Step]) -> str:
    """One bash script, whose output can be told apart step by step."""
    marked = (f"printf '\\n{MARK}\\n'\n{step.code}\n" for step in wanted)
    leaving = "trap 'jobs -p | xargs --no-run-if-empty kill' EXIT"  # also what a page has started and not ended
    return f"set -euo pipefail\nexec 2>&1\n{leaving}\n" + "".join(marked)


def outputs(printed: str) -> list[str]:
    return [part.strip() for part in printed.split(f"\n{MARK}\n")[1:]]


def agrees(step: Step, printed: str) -> bool:
    """JSON is shown in another order and shortened, so its fields count; other text counts to the letter."""
    if not step.shown:
        return True
    if step.language == "json":
        return all(f'"{name}":' in printed for name in json.loads(step.shown))
    if step.shown.startswith("{") and "\n" in step.shown:
        return _pairs(step.shown) <= _pairs(json.dumps(json.loads(printed), ensure_ascii=False))
    pattern = r".*?".join(re.escape(part) for part in _unwrapped(step.shown).split("…"))
    return re.fullmatch(pattern, _unwrapped(printed), re.DOTALL) is not None


def _unwrapped(text: str) -> str:
    """Without what only fills up a line: how much there is depends on what stands for `…`."""
    return "\n".join(re.sub(r" +", " ", line).rstrip() for line in text.strip().splitlines())


def _pairs(text: str) -> set[tuple[str, Any]]:
    """Names with the plain values beside them; numbers are compared as numbers."""
    return {(name, json.loads(value)) for name, value in _PAIR.findall(text)}


def has_steps(path: Path) -> bool:
    return any(block.language in RUN for block in blocks(path.read_text(encoding="utf-8")))
