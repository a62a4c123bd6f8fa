"""Losses of two records, phi(<w, x1 - x2>, y1, y2): how far apart the gradients of two pairs that share a record are.

The gradient of a pair is s (x1 - x2), s = phi'. Let x1 - x2 have length at most X. Two pairs that share a record have gradients

    s (x1 - x2) - t (x1 - x3) = (s - t)(x1 - x2) + t (x3 - x2),

for s, t of one sign and |s| >= |t| no longer than (|s| - |t|) X + |t| X = |s| X, for others no longer than (|s| + |t|) X: at most X times
the length of the shortest interval that holds 0, s and t. So where the label that the pairs share leaves slopes between l and h, they are
at most X (max(h, 0) - min(l, 0)) apart. The Lipschitz constant alone gives 2 sup|s| X, twice as much for the losses of bipartite ranking,
in which the label of a record decides the sign of its slopes.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from dpspec.domains.domain import Domain, Margin, finite
from dpspec.symbolic.extrema import Result
from dpspec.symbolic.losses import constants, drop_free, recognise
from dpspec.symbolic.normal import Poly, const, substitute, variables
from dpspec.symbolic.parts import Case

#: Named losses f(y u) that fall: their slope in u has the sign of -y.
_FALLING = frozenset({"logistic", "hinge", "squared-hinge", "smoothed-hinge", "exponential", "linear", "sigmoid"})
_ZERO = Fraction(0)
Range = tuple[Fraction, Fraction]


def pair_case(form: Poly, every: Sequence[Case], a: Fraction, b: Fraction) -> tuple[int, Fraction]:
    """Which of the ``cases`` of ``form`` (in u, y1, y2) a pair with the labels a and b belongs to, and the label that it has there."""
    if len(every) == 1:
        return 0, a - b if every[0].y.values != (_ZERO,) else _ZERO
    own = drop_free(substitute(form, {"y1": const(a), "y2": const(b)}))
    return next(k for k, case in enumerate(every) if case.form == own), _ZERO


def spread(form: Poly, y: Domain, results: Sequence[tuple[Case, Result]], margin: Margin, x: Fraction | None) -> Fraction | None:
    """A bound of the distance of two pairs' gradients, at one w, where the pairs share their first or their second record; None: none is
    proved. ``form``: the data part in u, y1, y2; ``results``: the constants of its cases; ``x``: X."""
    slopes = [r.bounds.slope for _, r in results]
    if x is None or None in slopes:
        return None
    cap = max(s for s in slopes if s is not None)
    every = [case for case, _ in results]
    if len(every) == 1 and every[0].y.values == (_ZERO,):
        return _wide([_range(*results[0], _ZERO, margin, cap)]) * x
    if not y.values:
        return 2 * cap * x
    table: dict[tuple[Fraction, Fraction], Range] = {}
    for a in y.values:
        for b in y.values:
            k, label = pair_case(form, every, a, b)
            table[a, b] = _range(*results[k], label, margin, cap)
    shared = [[table[a, b] for b in y.values] for a in y.values] + [[table[a, b] for a in y.values] for b in y.values]
    return max(_wide(ranges) for ranges in shared) * x


def _wide(ranges: Sequence[Range]) -> Fraction:
    return max(max(h for _, h in ranges), _ZERO) - min(min(low for low, _ in ranges), _ZERO)


def _range(case: Case, result: Result, label: Fraction, margin: Margin, cap: Fraction) -> Range:
    """Ends of the slopes of a case at a label: by the sign of a falling loss, else by the ends of a convex one, else +-cap."""
    if "u" not in variables(case.form):
        return _ZERO, _ZERO
    named = recognise(case.form)
    if named is not None and named.family == "product" and named.name in _FALLING:
        own = constants(named, margin, finite(label)).slope
        most = cap if own is None else min(cap, own)
        return (_ZERO if label <= 0 else -most), (_ZERO if label >= 0 else most)
    if not result.convex or margin.low is None or margin.high is None:
        return -cap, cap
    from dpspec.symbolic.enclose import derivative_at

    low, high = derivative_at(case.form, margin.low, label, 1)[0], derivative_at(case.form, margin.high, label, 1)[1]
    return (max(-cap, Fraction(low)) if low > -float("inf") else -cap), (min(cap, Fraction(high)) if high < float("inf") else cap)
