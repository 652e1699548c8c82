"""Measure what the policies are worth; with --sample a small part that writes nothing. Exits 1 if a promise fails."""

import argparse

from benchmarks.utility import served, study


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sample", action="store_true", help="minutes instead of hours")
    parser.add_argument("--only", choices=("served", "study"), help="one of the two parts")
    asked = parser.parse_args()
    if asked.only != "served":
        study.run(asked.sample)
    held = asked.only == "study" or served.run(asked.sample)
    return 0 if held else 1


if __name__ == "__main__":
    raise SystemExit(main())
