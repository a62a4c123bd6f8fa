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

**Measured**: mean error of three trials of the gallery spec over the bound (below 1 a bound holds with room; a true explicit bound in
expectation is above the mean). An order bound has an unspecified C: what stands is the *fitted C*, mean error over the expression at
C = 1, which says how large C is at one point and nothing of a rate. Where three trials at the gallery's n take longer than the benchmark
allows, the numbers are those of a smaller n, which stands beside them. The ratio to a lower bound, a worst case over laws, is shown too; a
value below 1 refutes nothing. A bound without a number says why it has none: it does not hold at the gallery's numbers, it is refuted, it
is of a mechanism, a reference or a cited algorithm that no gallery spec runs, or one of its names has no value there.

**At most t from**: the n, or the epsilon, at which a bound in the data and the budget alone reaches t, solved by sympy with all other names
fixed; where there is no closed form the line is missing, and a plan finds the least n of its target by compiling at other n.

Names that a bound does not define itself are settings of the algorithm (its page lists them), `scale` or `<draw>_scale`, the noise
scale of a draw, or one of these:

"""


def cell(text: object) -> str:
    return str(text).replace("|", "\\|")


def latex(expression: str, kind: Any) -> str:
    from dpspec.lang.source import parse_expr
    from dpspec.symbolic.bounds import BoundExpr

    return BoundExpr(parse_expr(expression), kind).latex()


def least(b: Any) -> list[tuple[str, str]]:
    """n and epsilon at which an upper bound in the data and the budget alone is t, where that has a closed form."""
    from dpspec.lang.source import parse_expr
    from dpspec.spec.expr import names
    from dpspec.symbolic.inversion import inverted, text
    from dpspec.theory.glossary import GLOSSARY

    e = parse_expr(b.expression)
    if b.type != "upper" or b.status == "refuted" or not names(e) <= set(GLOSSARY):
        return []
    return [(name, text(found)) for name in ("n", "epsilon") if (found := inverted(e, name)) is not None]


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


#: Why a card of another role has no ratio.
ROLES = {
    "mechanism": "no ratio: it speaks of the noise alone, which the mechanism's own tests hold against its law",
    "primitive": "no ratio: it speaks of a step inside of algorithms, whose own tests hold it against the step",
    "reference": "no ratio: a reference is not private and has no gallery spec; it runs beside private algorithms (`study --compare`)",
    "cited": "no ratio: of an algorithm that is cited for comparison and not built",
}


def ratio(card: Any, b: Any, rows: Sequence[Mapping[str, Any]]) -> str:
    """What was measured of a bound, or why nothing was."""
    if b.status == "refuted":
        return "no ratio: it is refuted, and compared with nothing"
    if card.role != "algorithm":
        return ROLES[card.role]
    found = [one_ratio(b, r) for r in rows]
    numbers = [text for text, number in found if number]
    texts = numbers or [text for text, _ in found]
    return cell("; ".join(dict.fromkeys(texts))) or "no ratio: no gallery spec of this card is of its question"


def one_ratio(b: Any, r: Mapping[str, Any]) -> tuple[str, bool]:
    """(text, whether it is a number) of one spec."""
    if r["outside"]:
        return "no ratio, as it does not hold at the gallery's numbers: " + "; ".join(r["outside"]), False
    if r["number"] is None:
        names = ", ".join(f"`{name}`" for name in r.get("unknown") or ()) or ("one of its names" if b.kind == "order" else "")
        if names:
            return f"no ratio: {names} has no value in the gallery spec", False
        return "no ratio: the code gives it no value at these settings", False
    if r["mean"] is None:
        return f"no ratio: {r['why'] or 'not measured'}", False
    if not (r["number"] > 0 and math.isfinite(r["number"])):
        return f"no ratio: its value is {r['number']:g}, the mean error {r['mean']:.2g}", True
    empty = b.kind == "explicit" and b.type == "upper" and r["trivial"] is not None and 0 < r["trivial"] <= r["number"]
    full = r.get("n_of_spec")
    at = f" at n = {r['n']:,}" if r.get("n") and full and r["n"] != full else ""
    word = "fitted C = " if b.kind == "order" else ""
    return f"{word}{r['mean'] / r['number']:.2g}" + at + (" (vacuous)" if empty else ""), True


def counted(families: Mapping[str, Sequence[Any]], results: Mapping[tuple[str, str, str], Sequence[Mapping[str, Any]]]) -> str:
    """How many bounds have a number, and how many of the others for which kind of reason."""
    from dpspec.measures.measure import normal

    tally: dict[str, int] = {}
    for card in (c for cards in families.values() for c in cards):
        for b in card.bounds:
            rows = results.get((card.id, b.theorem, normal(b.measure)), ())
            text = ratio(card, b, rows)
            short = text.removeprefix("no ratio").lstrip(":, ")
            word = (
                "a ratio or a fitted C"
                if not text.startswith("no ratio")
                else KINDS.get(next((k for k in KINDS if short.startswith(k)), ""), OTHER)
            )
            tally[word] = tally.get(word, 0) + 1
    lines = [f"| {word} | {count} |" for word, count in sorted(tally.items(), key=lambda item: -item[1])]
    return "\n".join(["| what stands beside a bound | bounds |", "| --- | --- |", *lines, ""])


KINDS = {
    "as it does not hold": "its conditions fail at the gallery's numbers",
    "it is refuted": "refuted",
    "it speaks of": "of a mechanism or a step, no algorithm",
    "a reference": "of a reference",
    "of an algorithm": "of a cited algorithm",
    "takes too long": "its trials take too long at every n that was tried",
    "its data": "its data are not at hand",
    "the code gives": "no value at the gallery's settings",
    "its value": "a value of 0",
    "not measured": "not measured yet",
    "no study measures": "of a measure that no study has",
}
OTHER = "a name without a value in the gallery, or no gallery spec"


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
    out += [counted(families, results)]
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
    if found := least(b):
        lines.append("    - at most t from " + " or from ".join(f"{name} = `{text}`" for name, text in found) + " on")
    if b.kind == "explicit":
        lines.append(f"    - tied: {tie(b, rows)}")
    lines.append(f"    - measured over bound: {ratio(card, b, rows)}")
    return [*lines, ""]


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs" / "bounds.md"
    target.write_text(document(), encoding="utf-8")
