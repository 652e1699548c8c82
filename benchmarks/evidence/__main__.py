"""Rebuild the evidence, or with --sample a small part of it that writes nothing; exits 1 if a claim does not hold."""

import argparse
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.evidence import attack, cluster, neighbours, noise, simulation, workers


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sample", action="store_true", help="a few minutes instead of hours")
    parser.add_argument("--missing", action="store_true", help="only attacks and neighbours that no row is stored of")
    asked = parser.parse_args()
    if asked.missing:
        return 0 if _missing() else 1
    sample = asked.sample
    with tempfile.TemporaryDirectory() as folder:
        fits = noise.run(10**6, Path(folder) / "noise.json") if sample else noise.run(10**8, noise.SUMMARY)
    held = attack.run(10**5, 1000, None) if sample else attack.run(10**6, 4000, attack.SUMMARY)
    moved = neighbours.run(40, None) if sample else neighbours.run(10**4, neighbours.SUMMARY)
    ended = cluster.run(0, None) if sample else cluster.run(1, cluster.SUMMARY)
    taken = workers.run(0, None) if sample else workers.run(1, workers.SUMMARY)
    studies = simulation.run(sample)
    claims = {
        "noise follows its law, impostors are caught": fits,
        "no release gives an attacker more than its share, and half the sensitivity would": held,
        "no patient costs any learner more than it claims, along its whole transcript": moved,
        "whatever a cluster loses, a training ends, was charged once and made the same integers": ended,
        "whatever a worker's host loses, its training is released, was charged once and drew each number once": taken,
        "without privacy, VAPVI is close to optimal at K = 1000": _gap(studies, "tight", "vapvi", "", 1000) < 0.3,
        "the tight calibration at ρ = 1 beats the paper's": _gap(studies, "tight", "dp-vapvi", "1", 1000)
        < _gap(studies, "paper", "dp-vapvi", "1", 1000),
        "ten thousand times the budget is closer to VAPVI": _gap(studies, "paper", "dp-vapvi", "10000", 1000)
        < _gap(studies, "paper", "dp-vapvi", "1", 1000),
    }
    for claim, holds in claims.items():
        print(f"{'ok ' if holds else 'BAD'} {claim}")
    return 0 if all(claims.values()) else 1


def _missing() -> bool:
    """The rows that are stored stay; whoever wants one again takes it out."""
    held = attack.run(10**6, 4000, attack.SUMMARY, missing=True)
    moved = neighbours.run(10**4, neighbours.SUMMARY, missing=True)
    return held and moved


def _gap(studies: dict[str, Any], calibration: str, algorithm: str, rho: str, episodes: int) -> float:
    (mean,) = (
        row["mean"]
        for row in studies[calibration]["suboptimality"]
        if (row["algorithm"], row["rho"], row["episodes"]) == (algorithm, rho, episodes)
    )
    return float(mean)


if __name__ == "__main__":
    raise SystemExit(main())
