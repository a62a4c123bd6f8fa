"""Writes docs/bounds.md from the cards and benchmarks/results/bounds.json: ``python docs/gen_bounds.py [OUT]``.

Nothing is measured here: ``python -m benchmarks.bounds`` does that.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "bounds.json"
TIE = "tests/theory/test_bounds_of_cards.py"

HEAD = """# Bounds

Every bound of every card: what it bounds, whether it is proved, when it holds, what it says, and how far measured errors are from it. This
page is written by `python docs/gen_bounds.py` from the cards and `benchmarks/results/bounds.json`.

**Status**: *proved* bounds are re-derived here and tested; *claimed* ones are printed in a document and not re-derived; *refuted* ones
are printed and false, and are compared with nothing. **Kind**: an *explicit* bound has every constant, and its number is a promise;
an *order* bound has an unspecified constant C.

**One source.** The number that a plan shows is evaluated from the expression that stands here, with the names below it; the algorithm's
code computes it a second time, and `{tie}` demands that both agree, bound by bound, at the gallery's numbers and at further
settings.

**When it holds**: what stands as code is data that the compiler evaluates at every plan and every point of a study. A statement
(`sub-gaussian of y`) has to be made or proved, a setting (`psd = off`) chosen, a budget of the right kind given, a comparison
(`epsilon <= 1`) true; `from n =` is where the bound begins. C in such a condition is unspecified and taken as 1. A bound whose condition
fails is compared with nothing: a study takes the first bound whose conditions hold, leaves points outside of a range out of
rates, and calls a rate that has fewer than three points left *outside the regime*. An explicit bound that is above the error of the
answer without data, or above the largest possible error, is *vacuous*: true, and no guarantee.

**Measured**: mean error of three trials of the gallery spec over the bound, over the expression at C = 1 for order bounds. Below one a
bound holds with room; a true explicit bound in expectation is above the mean.

Names that a bound does not define itself are settings of the algorithm (its page lists them), `scale` or `<draw>_scale`, the noise
scale of a draw, or one of these:

"""


def cell(text: object) -> str:
    return str(text).replace("|", "\\|")


def latex(expression: str, kind: Any) -> str:
    from dpspec.lang.source import parse_expr
    from dpspec.symbolic.bounds import BoundExpr

    return BoundExpr(parse_expr(expression), kind).latex()


def holds(b: Any) -> str:
    """The conditions, data first."""
    from dpspec.compiler.conditions import condition_words

    found = [f"`{text}`" for text in condition_words(b)]
    if b.regime:
        found.append(f"from n = `{b.regime}`")
    return cell("; ".join([*found, *([b.conditions] if b.conditions else [])]))


def tie(b: Any, rows: Sequence[Mapping[str, Any]]) -> str:
    if b.kind == "order":
        return "-"
    same = [r for r in rows if r["code"] is not None and r["number"] is not None]
    if not same:
        return "no value at the gallery's numbers"
    off = max(abs(r["number"] - r["code"]) / max(abs(r["code"]), 1e-300) for r in same)
    return f"expression = code, relative distance {off:.0e}" if off else "expression = code"


def ratio(b: Any, rows: Sequence[Mapping[str, Any]]) -> str:
    found = []
    for r in rows:
        if b.type == "lower" or b.status == "refuted":
            continue
        if r["outside"]:
            found.append("its conditions fail in the gallery")
        elif r["mean"] is None:
            found.append(r["why"] or "not measured")
        elif r["number"] is None:
            found.append("no value at these settings" if b.kind == "explicit" else "a name has no value here")
        elif r["number"] > 0 and math.isfinite(r["number"]):
            empty = b.kind == "explicit" and r["trivial"] is not None and 0 < r["trivial"] <= r["number"]
            found.append(f"{r['mean'] / r['number']:.2g}" + (" (vacuous)" if empty else ""))
    return cell(", ".join(dict.fromkeys(found))) or "-"


def document() -> str:
    from dpspec.algorithms.registry import all_modules

    results: dict[tuple[str, str, str], list[Mapping[str, Any]]] = {}
    for row in json.loads(RESULTS.read_text(encoding="utf-8")):
        results.setdefault((row["card"], row["theorem"], row["measure"]), []).append(row)
    families: dict[str, list[Any]] = {}
    for module in all_modules():
        families.setdefault(module.CARD.family, []).append(module.CARD)
    from dpspec.theory.glossary import GLOSSARY

    out = [HEAD.format(tie=TIE), "| name | meaning |", "| --- | --- |", *(f"| `{n}` | {cell(m)} |" for n, m in GLOSSARY.items()), ""]
    for family, cards in sorted(families.items()):
        out += [f"## {family}", ""]
        for card in sorted(cards, key=lambda c: str(c.id)):
            if not card.bounds:
                out += [f"**{card.id}**: no bound. {card.no_bound}".rstrip(), ""]
                continue
            out += [f"### {card.id}", ""]
            for b in card.bounds:
                out += one(card, b, results)
    return "\n".join(out).rstrip("\n") + "\n"


def one(card: Any, b: Any, results: Mapping[tuple[str, str, str], Sequence[Mapping[str, Any]]]) -> list[str]:
    from dpspec.measures.measure import normal

    rows = results.get((card.id, b.theorem, normal(b.measure)), ())
    sign = "at most" if b.type == "upper" else "at least"
    chance = f", with probability `{b.probability}`" if b.probability else ", in expectation" if b.kind == "explicit" else ""
    lines = [f"- **{b.measure}** {sign} `{b.expression}`{chance} ({b.kind}, {b.status}; {b.theorem})"]
    lines.append(f"    - $ {latex(b.expression, b.kind)} $")
    if b.where:
        lines.append("    - where " + "; ".join(f"`{name}` is {text}" for name, text in b.where.items()))
    if b.floor:
        lines.append(f"    - no n removes `{b.floor}`")
    if text := holds(b):
        lines.append(f"    - holds when: {text}")
    if b.kind == "explicit":
        lines.append(f"    - tied: {tie(b, rows)}")
    if card.role == "algorithm" and b.type == "upper" and b.status != "refuted":
        lines.append(f"    - measured over bound: {ratio(b, rows)}")
    return [*lines, ""]


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs" / "bounds.md"
    target.write_text(document(), encoding="utf-8")
