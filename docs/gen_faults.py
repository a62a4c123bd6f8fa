"""Writes the table of faults of privacy in docs/faults.md from the cards and tests/leaks.json: ``python docs/gen_faults.py [OUT]``.

What stands before the table is written by hand. The numbers are those that the witnesses said when ``python -m tests.leak`` ran them.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "faults.md"
FOUND = ROOT / "tests" / "leaks.json"
MARK = "## Faults of privacy and their witnesses\n"

HEAD = """
Every fault that a card grades *privacy* has a witness: two neighbours, and a lower bound on what the printed version spends on them where
it states something smaller. The bound is computed by the test in the last column, from exact laws of an event or of a pair, never from an
upper bound. A fault for which no such pair is known (a proof that fails, a guarantee that promises little) is graded *text* or *utility* on
its card, and the card says why. `python -m tests.leak` runs the witnesses, `python docs/gen_faults.py` writes this table.

*infinite* without a statement means: what is shown differs between two neighbours for certain, so that delta is 1 whatever is stated;
*given* names what is shown beside it. Where a promise about the data is not enforced, the neighbour is a record that breaks the promise,
and the noise is calibrated exactly for the promised range. Where a setting is taken from the data, the two data sets have different
settings.

| card | printed | stated | at least | witness |
| --- | --- | --- | --- | --- |
"""


def cell(text: object) -> str:
    return str(text).replace("|", "\\|")


def stated(row: Mapping[str, Any]) -> str:
    if row["epsilon"] is None:
        return "any"
    return f"epsilon {row['epsilon']:g}" + (f", delta {row['delta']:g}" if row["delta"] else "")


def least(row: Mapping[str, Any]) -> str:
    if "delta_at_least" in row:
        return f"delta {row['delta_at_least']:g} at that epsilon"
    found = row["at_least"]
    words = found if isinstance(found, str) else f"epsilon {found:g}"
    return words + (f", given {row['given']}" if row.get("given") else "")


def table() -> str:
    from dpspec.algorithms.registry import all_modules

    known = json.loads(FOUND.read_text(encoding="utf-8"))
    lines = []
    for card in sorted((m.CARD for m in all_modules()), key=lambda c: (c.family, c.id)):
        for fault in card.faults:
            if fault.severity == "privacy":
                row = known[fault.evidence]
                test = fault.evidence.removeprefix("tests/algorithms/")
                lines.append(f"| {card.id} | {cell(fault.claim)} | {stated(row)} | {least(row)} | `{test}` |")
    return MARK + HEAD + "\n".join(lines) + "\n"


def document() -> str:
    return PAGE.read_text(encoding="utf-8").partition(MARK)[0].rstrip("\n") + "\n\n" + table()


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    (Path(sys.argv[1]) if len(sys.argv) > 1 else PAGE).write_text(document(), encoding="utf-8")
