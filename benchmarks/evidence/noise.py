"""Evidence that the noise follows its law: the tests' own goodness of fit, at 10^8 draws for each law.

    python -m benchmarks.evidence.noise [--draws N]

writes noise.json next to this file. Samples that are wrong on purpose must be told apart, or the evidence is void.
"""

import argparse
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from fractions import Fraction
from pathlib import Path

import numpy as np
from tests import goodness

from discretion.privacy import noise

_SIGMAS = ["0.3", "1", "6.3", "50", "126", "127", "1000", "1000000"]  # 126 is the last with a table of its own
_SCALES = ["0.3", "1", "6.5", "20", "21", "1000", "100000"]  # 20 likewise
SUMMARY = Path(__file__).with_suffix(".json")


@dataclass(frozen=True)
class Case:
    name: str
    draw: goodness.Draw
    reference: goodness.Reference
    genuine: bool


def cases() -> Iterator[Case]:
    for sigma in _SIGMAS:
        variance = Fraction(sigma) ** 2
        draw, reference = (lambda n, v=variance: noise.gaussian(v, n)), goodness.gaussian(variance)
        yield Case(f"discrete Gaussian, σ = {sigma}", draw, reference, genuine=True)
    for scale in _SCALES:
        draw, reference = (lambda n, s=Fraction(scale): noise.laplace(s, n)), goodness.laplace(Fraction(scale))
        yield Case(f"discrete Laplace, scale {scale}", draw, reference, genuine=True)
    yield from impostors()


def impostors() -> Iterator[Case]:
    """Samples that look right and are not."""
    rng = np.random.default_rng()
    one, million = goodness.gaussian(Fraction(1)), goodness.gaussian(Fraction(10**12))
    yield Case(
        "rounded continuous Gaussian, σ = 1", lambda n: np.rint(rng.normal(size=n)).astype(np.int64), one, genuine=False
    )
    yield Case("discrete Gaussian, σ 1 % too large", lambda n: noise.gaussian(Fraction(101**2, 100**2), n), one, False)
    yield Case("the same at σ = 10^6", lambda n: noise.gaussian(Fraction(1_010_000**2), n), million, False)


def examine(case: Case, draws: int) -> dict[str, object]:
    fit = goodness.fit(case.draw, case.reference, draws)
    passed = fit.accepted == case.genuine
    return {"name": case.name, "genuine": case.genuine, "passed": passed, "p": fit.p, **asdict(fit)}


def run(draws: int, output: Path) -> bool:
    """Examine every law, write the summary, and say whether all is as it should be."""
    rows = []
    for case in cases():
        rows.append(examine(case, draws))
        print(f"{'ok ' if rows[-1]['passed'] else 'BAD'} {case.name}: p = {rows[-1]['p']:.3g}", flush=True)
    passed = all(row["passed"] for row in rows)
    summary = {"draws": draws, "alarm": goodness.ALARM, "passed": passed, "laws": rows}
    output.write_text(json.dumps(summary, indent=2, ensure_ascii=False) + "\n")
    return passed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=10**8, help="draws for each law")
    parser.add_argument("--output", type=Path, default=SUMMARY, help="where the summary goes")
    options = parser.parse_args()
    return 0 if run(options.draws, options.output) else 1


if __name__ == "__main__":
    raise SystemExit(main())
