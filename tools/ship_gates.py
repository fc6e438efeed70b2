#!/usr/bin/env python3
"""Puts verdicts into data/gates.json, from the output of `tessera gate --json`, one file a model.

Usage: tools/ship_gates.py FILE...
"""
import json
import pathlib
import sys

SHIPPED = pathlib.Path(__file__).resolve().parent.parent / "data" / "gates.json"


def main():
    shipped = json.loads(SHIPPED.read_text())
    for name in sys.argv[1:]:
        report = json.loads(pathlib.Path(name).read_text())
        if "+changes" in report["gate"]["program"]:
            sys.exit(f"{name} - it was measured by a build of changed sources - commit, build and measure again")
        shipped[report["model_digest"]] = report["gate"]
    SHIPPED.write_text(json.dumps(shipped, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
