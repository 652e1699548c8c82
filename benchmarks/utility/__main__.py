"""Measure what the policies are worth; with --sample a small part that writes nothing. Exits 1 if a promise fails."""

import argparse

from benchmarks.utility import promises, served, study


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sample", action="store_true", help="minutes instead of hours")
    parser.add_argument("--only", choices=("served", "study"), help="one of the two parts")
    parser.add_argument("--problem", help="of the study: measure this one again, keep what is stored of others")
    asked = parser.parse_args()
    broken = [] if asked.only == "served" else promises.check(study.run(asked.sample, asked.problem))
    for wrong in broken:
        print(f"BAD {wrong}")
    held = asked.only == "study" or served.run(asked.sample)
    return 0 if held and not broken else 1


if __name__ == "__main__":
    raise SystemExit(main())
