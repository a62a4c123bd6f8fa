"""When a bound holds, evaluated at a release: what its card states as data against what is stated, proved, chosen and given here.

A condition that fails stands in ``BoundValue.outside``, so that nothing is compared with the bound or promised by it; one that cannot be
read here (a number that nobody states) is a condition that the bound goes on to name.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

from dpspec.algorithms.card import Bound
from dpspec.compiler.draft import Calibrated, Draft
from dpspec.spec.assumptions import gives
from dpspec.theory import formulas

_COMPARED = re.compile(r"^(?P<left>.+?)\s*(?P<sign><=|>=|<|>|=)\s*(?P<right>.+)$")


def compared(text: str) -> tuple[str, str, str]:
    """The sides of a condition and its sign. Raises ValueError for what is no comparison."""
    found = _COMPARED.match(text)
    if found is None:
        raise ValueError(f"{text!r} is no comparison")
    return found["left"], found["sign"], found["right"]


def failing(draft: Draft[Calibrated], release: Calibrated, b: Bound, env: Mapping[str, float]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The conditions of a bound that do not hold here, and those that nothing here decides, in words."""
    open_: list[str] = []
    outside = [f"it needs {need}, which is neither stated nor proved" for need in b.needs if not stated(draft, release, need)]
    outside += _options(release, b)
    kind = None if draft.budget is None else draft.budget.kind
    if b.guarantees and kind is not None and kind not in b.guarantees:
        outside.append(f"it is of {' and '.join(b.guarantees)} budgets, and this one is {kind}")
    for text in b.when:
        left, sign, right = compared(text)
        one, other = (formulas.value(side, {**env, formulas.UNKNOWN: 1.0}) for side in (left, right))
        if one is None or other is None:
            open_.append(text)
        elif not holds(one, sign, other):
            unit = "" if formulas.UNKNOWN not in re.findall(r"\w+", text) else ", C taken as 1"
            outside.append(f"it needs {text} (it is {one:.4g} against {other:.4g}{unit})")
    return tuple(outside), tuple(open_)


def holds(one: float, sign: str, other: float) -> bool:
    """A comparison, equality and the ends of ranges up to rounding."""
    near = math.isclose(one, other, rel_tol=1e-9)
    match sign:
        case "<=":
            return one <= other or near
        case ">=":
            return one >= other or near
        case "<":
            return one < other and not near
        case ">":
            return one > other and not near
        case _:
            return near


def stated(draft: Draft[Calibrated], release: Calibrated, need: str) -> bool:
    """Whether the spec states, the data section enforces or a certificate proves what a bound needs (``word`` or ``word of target``)."""
    word, _, target = need.partition(" of ")
    loss = release.problem.loss
    if loss is not None and not target and word in ("convex", "strongly-convex"):
        return loss.convex if word == "convex" else loss.strongly_convex > 0
    if any(gives(a.name, a.of, word, (target,) if target else ()) for a in draft.analysis.assume):
        return True
    return any(s.name == need and s.status in ("proved", "enforced") for s in release.assumptions)


def _options(release: Calibrated, b: Bound) -> Iterator[str]:
    chosen: Mapping[str, Any] = dict(release.tunables)
    if hasattr(release.module, "resolved_options"):  # what `auto` stands for here
        chosen = {**chosen, **release.module.resolved_options(release.problem, release.tunables)}
    for name, wanted in b.options.items():
        found = chosen.get(name)
        same = found == wanted if isinstance(wanted, str) else found is not None and math.isclose(float(found), wanted, rel_tol=1e-12)
        if not same:
            yield f"it is of {name} = {_shown(wanted)}, and here {name} = {_shown(found)}"


def _shown(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def condition_words(b: Bound) -> tuple[str, ...]:
    """The conditions that are data, in words, for pages and plans."""
    found = [*b.needs, *(f"{name} = {_shown(value)}" for name, value in b.options.items()), *b.when]
    if b.guarantees:
        found.append(f"{' or '.join(b.guarantees)} budget")
    return tuple(found)
