"""The one evaluator of formulas that cards state as text: defaults of tunables, bounds, regimes, probabilities, costs.

A formula is an expression of the spec's language over names with values: public facts, numeric tunables, and the noise scale of each
draw. ``A else B`` is A where all of its names have values, else B.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import lru_cache

from dpspec.lang.source import parse_expr
from dpspec.privacy.schedule import Tree, draws
from dpspec.spec.expr import Expr, NotANumber, Unbound, evaluate, names

#: The constant that an order bound leaves open.
UNKNOWN = "C"

parsed = lru_cache(maxsize=4096)(parse_expr)


def choose(formula: str, known: Mapping[str, object]) -> tuple[Expr, str]:
    """The first alternative of ``A else B`` whose names all have values here; the last one when none has them all."""
    alternatives = [part.strip() for part in formula.split(" else ")]
    for text in alternatives:
        e = parsed(text)
        if names(e) <= known.keys() | {"pi"}:
            return e, text
    return parsed(alternatives[-1]), alternatives[-1]


def value(formula: str, known: Mapping[str, float]) -> float | None:
    """The number of a formula; None where a name has no value or there is no finite number."""
    try:
        return float(evaluate(choose(formula, known)[0], known))
    except (Unbound, NotANumber, ArithmeticError):
        return None


def positive(formula: str, known: Mapping[str, float]) -> float | None:
    """The same, None unless it is finite and above 0."""
    found = value(formula, known)
    return found if found is not None and math.isfinite(found) and found > 0 else None


def numeric(settings: Mapping[str, object]) -> dict[str, float]:
    """The settings that are numbers."""
    return {k: float(v) for k, v in settings.items() if isinstance(v, (int, float))}


def environment(facts: Mapping[str, float], settings: Mapping[str, object], tree: Tree, levels: Mapping[str, float]) -> dict[str, float]:
    """Names that a formula about a calibrated release may use: facts, numeric ``settings``, and each draw's noise scale as
    ``<draw>_scale`` (``scale`` when there is one draw)."""
    known: dict[str, float] = {**facts, **numeric(settings)}
    found = draws(tree)
    for name, leaf in found.items():
        scale = leaf.draw.mechanism.scale(levels[name])
        known[f"{name}_scale".replace("-", "_")] = scale
        if len(found) == 1:
            known["scale"] = scale
    return known
