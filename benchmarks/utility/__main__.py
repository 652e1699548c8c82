"""Measure what the policies are worth; with --sample a small part that writes nothing. Exits 1 if a promise fails."""

import argparse

from benchmarks.utility import coverage, cql, promises, served, study


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sample", action="store_true", help="minutes instead of hours")
    parts = ("study", "uploads", "served", "coverage", "received")
    parser.add_argument("--only", choices=parts, help="one of the parts")
    parser.add_argument("--problem", help="measure this one again, keep what is stored of others")
    asked = parser.parse_args()
    kept = True
    if asked.only in (None, "study"):
        broken = promises.check(study.run(asked.sample, asked.problem))
        for wrong in broken:
            print(f"BAD {wrong}")
        kept = not broken
    if asked.only == "uploads" or (asked.only is None and not asked.sample):  # a sample makes no environment for d3rlpy
        kept = cql.uploads() and kept
    if asked.only in (None, "served"):
        kept = served.run(asked.sample, asked.problem) and kept
    if asked.only in (None, "coverage"):
        kept = coverage.run(asked.sample, asked.problem) and kept
    if asked.only in (None, "received"):
        kept = coverage.run_received(asked.sample, asked.problem) and kept
    return 0 if kept else 1


if __name__ == "__main__":
    raise SystemExit(main())
