"""A certificate as one page that an ethics board can read."""

import math
import re
import textwrap
from collections.abc import Sequence

from discretion import certificates, errors, signatures
from discretion.learning.report import Report
from discretion.learning.trajectories import Discrete
from discretion.privacy import events


def explain(certificate_text: bytes | str, jwks: bytes | str | None = None) -> str:
    """One page for an ethics board. What contradicts itself is refused; without keys the signature is not checked."""
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
    page = [
        "CERTIFICATE OF A PRIVATE RELEASE",
        "",
        "What was released",
        f"  {_subject(payload, request)}{chosen or ''}{derived or ''}",
        "About whom",
        f"  {request.units} patients of population {row.population}{half}, with at most {schema.per_unit} recorded "
        f"trajectories each. {certificates.PROMISE['unit']} {certificates.PROMISE['neighbours']}",
        "What the noise is",
        *(f"  - {line}" for line in _noise_lines(request.mechanisms)),
        "What it costs",
        f"  ρ = {privacy['rho']} in total; {row.charged} was charged to the population (ledger row {row.sequence}). "
        f"{certificates.COMPOSITION}",
        "What that means",
        f"  {_meaning(thing, privacy['epsilon'][certificates.DELTAS.index('1e-6')]['epsilon'])}",
        "What is not covered",
        *(f"  - {sentence}" for sentence in certificates.NOT_COVERED),
        "How to check",
        f"  discretion verify {file} CERTIFICATE --keys JWKS checks all of this without a network. {signature} The "
        f"ledger's row has the hash {row.hash}; an auditor can compare it.",
    ]
    return "\n".join(line for text in page for line in _wrapped(text)) + "\n"


def findings(made: Report) -> str:
    """What a report says, in a few lines; that it is what was certified is checked elsewhere."""
    try:
        page = ["WHAT THE REPORT SAYS", "", *_found_lines(made.document())]
    except (KeyError, TypeError, ValueError):
        raise errors.InvalidCertificate("The report lacks a number that every report has.") from None
    return "\n".join(line for text in page for line in _wrapped(text)) + "\n"


def _found_lines(document: certificates.Document) -> list[str]:
    judged, found = document["policy"], document["found"]
    return [
        "What was judged",
        f"  The policy {judged['id'] or 'without an id'}, whose SHA-256 digest is {judged['sha256']}.",
        "What was found",
        f"  Value: {found['value']:.6g}, what a stay would earn under it on average. Interval: {found['low']:.6g} to "
        f"{found['high']:.6g}, at level {found['level']:g}. supported_share: {found['supported_share']:.4g}.",
        "Caution",
        f"  {document['caution']}",
    ]


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


def _wrapped(text: str) -> list[str]:
    indent = "    " if text.startswith("  - ") else "  "
    return textwrap.wrap(text, 100, subsequent_indent=indent, break_on_hyphens=False) or [""]


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
    width = f"{widths[0]:.3g}" if widths[0] == widths[-1] else f"{widths[0]:.3g} to {widths[-1]:.3g}"
    times = f", {len(group)} times" if len(group) > 1 else ""
    shape = " × ".join(map(str, group[0].shape))
    kind = "Laplace" if laplace else "Gaussian"
    units = part if part == events.EVERYONE else f"the {part} of the units"
    diagonal = " (√2 times that on the diagonal)" if mechanism == events.SYMMETRIC_GAUSSIAN else ""
    cost = float(sum(map(events.cost, group)))
    return (
        f"{stem} ({shape} numbers{times}; from {units}): every number has discrete {kind} noise of standard "
        f"deviation {width}{diagonal}" + ("." if laplace else f"; ρ = {cost:.3g}.")
    )


def _meaning(thing: str, epsilon: str) -> str:
    factor = f"{math.exp(float(epsilon)):.3g}" if float(epsilon) < 13 else "far more than a hundred thousand"
    return (
        f"At δ = 1e-6 (one in a million) ε is {epsilon}: whatever is done with {thing}, a conclusion about one "
        f"patient becomes at most e^ε = {factor} times as likely as if that patient's records had been others, apart "
        "from an exception of probability at most one in a million. Smaller is better; ε = 0 would mean that nothing "
        "at all can be learned about one patient."
    )
