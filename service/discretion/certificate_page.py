"""A certificate as one page that an ethics board can read."""

import math
import re
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from discretion import certificates, errors, signatures
from discretion.learning import learners, pae, vapvi_stationary
from discretion.learning.report import Report
from discretion.learning.schemas import Discrete
from discretion.privacy import events

TITLE: Final = "CERTIFICATE OF A PRIVATE RELEASE"
WIDTH: Final = 100  # of a page


@dataclass(frozen=True)
class Section:
    title: str
    lines: tuple[str, ...]
    listed: bool = False  # points of a list, however many there are


def explain(certificate_text: bytes | str, jwks: bytes | str | None = None, width: int = WIDTH) -> str:
    """One page for an ethics board. What contradicts itself is refused; without keys the signature is not checked."""
    return _printed(TITLE, sections(certificate_text, jwks)[0], width)


def sections(certificate_text: bytes | str, jwks: bytes | str | None = None) -> tuple[list[Section], str]:
    """What the page says, and the key that signed it."""
    payload, kid = signatures.read(certificate_text, jwks)
    request, row = certificates.checked(payload)
    file, thing = ("REPORT", "this estimate") if "evaluation" in payload else ("POLICY", "this policy")
    schema, privacy = request.schema, payload["privacy"]
    signature = "The signature was not checked here." if jwks is None else f"The signature of key {kid} holds."
    derived = request.origin and (
        f" It was computed from noisy numbers that training {request.origin.training} had released before, and no "
        "patient was read again: further ρ: 0."
    )
    half = f" (the {request.half} half of the dataset, drawn at random)" if request.half else ""
    chosen = request.chosen and f" It was chosen by a public rule: {request.chosen.reason}"
    usual = _usual(request)
    whom = (
        f"{request.units} patients of population {row.population}{half}, with {_stays(schema.per_unit)} each. "
        f"{certificates.PROMISE['unit']} {certificates.PROMISE['neighbours']}"
    )
    cost = (
        f"ρ = {Fraction(privacy['rho'])} in total; {row.charged} was charged to the population (ledger row "
        f"{row.sequence}). {certificates.COMPOSITION}"
    )
    meaning = _meaning(thing, privacy["epsilon"][certificates.DELTAS.index("1e-6")]["epsilon"])
    check = (
        f"discretion verify {file} CERTIFICATE --keys JWKS checks all of this without a network. {signature} The "
        f"ledger's row has the hash {row.hash}; an auditor can compare it."
    )
    return [
        Section("What was released", (f"{_subject(payload, request)}{chosen or ''}{usual}{derived or ''}",)),
        Section("About whom", (whom,)),
        Section(
            "What the noise is", (*_noise_words(request.mechanisms), *_noise_lines(request.mechanisms)), listed=True
        ),
        Section("What it costs", (cost,)),
        Section("What that means", (meaning,)),
        Section("What is not covered", tuple(certificates.NOT_COVERED), listed=True),
        Section("How to check", (check,)),
    ], kid


def findings(made: Report, width: int = WIDTH) -> str:
    """What a report says, in a few lines; that it is what was certified is checked elsewhere."""
    return _printed("WHAT THE REPORT SAYS", found_sections(made), width)


def found_sections(made: Report) -> list[Section]:
    try:
        return _found(made.document())
    except (KeyError, TypeError, ValueError):
        raise errors.InvalidCertificate("The report lacks a number that every report has.") from None


def _found(document: certificates.Document) -> list[Section]:
    judged, found = document["policy"], document["found"]
    policy = f"The policy {judged['id'] or 'without an id'}, whose SHA-256 digest is {judged['sha256']}."
    value = (
        f"Value: {found['value']:.6g}, what a stay would earn under it on average. Interval: {found['low']:.6g} to "
        f"{found['high']:.6g}, at level {found['level']:g}. supported_share: {found['supported_share']:.4g}."
    )
    return [
        Section("What was judged", (policy,)),
        Section("What was found", (value,)),
        Section("Caution", (document["caution"],)),
    ]


def _printed(title: str, content: Sequence[Section], width: int) -> str:
    page = [title, ""]
    for section in content:
        page += [section.title, *(f"  - {line}" if section.listed else f"  {line}" for line in section.lines)]
    return "\n".join(line for text in page for line in _wrapped(text, width)) + "\n"


def _subject(payload: certificates.Document, request: certificates.Request) -> str:
    schema = request.schema
    if "evaluation" in payload:
        made = payload["evaluation"]
        what = f"An estimate ({made['id']}) of what a policy is worth, by {request.algorithm}"
    else:
        made = payload["policy"]
        states = f"{schema.states.count} states" if isinstance(schema.states, Discrete) else "any state"
        what = (
            f"A treatment policy ({made['id'] or 'without an id'}) learned by {request.algorithm}: for each of "
            f"{schema.horizon} steps and {states}, one of {schema.actions} actions"
        )
    return f"{what}. Its SHA-256 digest is {made['sha256']}."


def _stays(most: int) -> str:
    return "at most one recorded trajectory" if most == 1 else f"at most {most} recorded trajectories"


def _usual(request: certificates.Request) -> str:
    """What `auto`'s reason does not say of the smallest trainings: for these learners, that hardly anything is learned
    means that hardly anything else was asked for."""
    if request.chosen is None or request.algorithm not in (pae.NAME, vapvi_stationary.NAME):
        return ""
    if learners.hopeless(request.schema, request.units, request.privacy, request.parameters) is None:
        return ""
    return " For so few patients, little more than what is usually done was asked for: every decision is a fallback."


def _noise_words(done: Sequence[events.Event]) -> list[str]:
    """What the lines of noise speak of."""
    laplace = any(event.mechanism == events.LAPLACE for event in done)
    words = [
        "Each line is about sums over patients with discrete noise on every number. Standard deviations are in the "
        "unit of these numbers, and so is what one patient moves: how far all of them together change at most, by "
        f"the root of the sum of squares{' (with Laplace noise the sum)' if laplace else ''}, if that patient's "
        "records are replaced."
    ]
    if any("feature" in event.statistic for event in done):
        words.append(
            "Features are numbers that a public formula in the certified request makes of a patient's state; those of "
            "one state have a length of at most 1. A Gram matrix sums the products of every two of them."
        )
    return words


def _wrapped(text: str, width: int) -> list[str]:
    """Digests and ids longer than a line stay whole, to be copied."""
    indent = "    " if text.startswith("  - ") else "  "
    lines = textwrap.wrap(text, width, subsequent_indent=indent, break_on_hyphens=False, break_long_words=False)
    return lines or [""]


def _noise_lines(done: Sequence[events.Event]) -> list[str]:
    """One line for what is released at several steps."""
    groups: dict[tuple[str, str, str], list[events.Event]] = {}
    for event in done:
        stem = re.sub(r", (step|round) [0-9]+$", "", event.statistic)
        groups.setdefault((stem, event.mechanism, event.part), []).append(event)
    return [_noise_line(stem, mechanism, part, group) for (stem, mechanism, part), group in groups.items()]


def _noise_line(stem: str, mechanism: str, part: str, group: list[events.Event]) -> str:
    laplace = mechanism == events.LAPLACE
    widths = sorted(math.sqrt(2) * float(e.scale) if laplace else math.sqrt(e.scale) for e in group)
    times = f", {len(group)} times" if len(group) > 1 else ""
    shape = " × ".join(map(str, group[0].shape))
    kind = "Laplace" if laplace else "Gaussian"
    units = "" if part == events.EVERYONE else f"; from the {part} of the units"
    diagonal = " (√2 times that on the diagonal)" if mechanism == events.SYMMETRIC_GAUSSIAN else ""
    cost = float(sum(map(events.cost, group)))
    moves = sorted(float(e.sensitivity) if laplace else math.sqrt(e.sensitivity) for e in group)
    return (
        f"{stem} ({shape} numbers{times}{units}): {kind} noise of standard deviation {_range(widths)}{diagonal}; one "
        f"patient moves at most {_range(moves)}" + ("." if laplace else f"; ρ = {cost:.3g}.")
    )


def _range(ascending: Sequence[float]) -> str:
    low, high = f"{ascending[0]:.3g}", f"{ascending[-1]:.3g}"
    return low if low == high else f"{low} to {high}"


def _meaning(thing: str, epsilon: str) -> str:
    factor = (
        f"{float(f'{math.exp(float(epsilon)):.3g}'):g}" if float(epsilon) < 13 else "far more than a hundred thousand"
    )
    return (
        f"At δ = 1e-6 (one in a million) ε is {epsilon}: whatever is done with {thing}, a conclusion about one "
        f"patient becomes at most e^ε = {factor} times as likely as if that patient's records had been others, apart "
        "from an exception of probability at most one in a million. Smaller is better; ε = 0 would mean that nothing "
        "at all can be learned about one patient."
    )
