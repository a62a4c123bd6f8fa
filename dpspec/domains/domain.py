"""Where records, labels and parameters live, as far as a certificate needs to know: norms, coordinate ranges, finite values.

Everything is an outer bound in exact rationals; ``None`` stands for "no bound".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Literal

from dpspec.numeric.rounding import padded_down, padded_up, sqrt_up
from dpspec.spec.expr import Expr, evaluate
from dpspec.spec.model import Ball, Box, Finite, Polytope, Reals, Set, Simplex, Sparse

Shape = Literal["l1", "l2", "linf", "box", "simplex", "reals", "finite", "intercept", "other"]
Values = Mapping[str, Fraction | int | float]


@dataclass(frozen=True, slots=True)
class Domain:
    """A set of vectors (or of numbers), described from outside.

    ``l1``, ``l2``, ``linf``: the largest norm of a member. ``low``, ``high``: range of every coordinate (of the number itself for a
    scalar). ``values``: the members of a finite set of numbers. ``dimension``: d, when known. ``shape`` says which set it is, so that
    a witness can be placed on its boundary; ``other`` is always allowed and only gives up witnesses.
    """

    l1: Fraction | None = None
    l2: Fraction | None = None
    linf: Fraction | None = None
    low: Fraction | None = None
    high: Fraction | None = None
    values: tuple[Fraction, ...] = ()
    dimension: int | None = None
    shape: Shape = "other"

    @property
    def bounded(self) -> bool:
        return self.linf is not None or self.l2 is not None

    @property
    def magnitude(self) -> Fraction | None:
        """The largest absolute value of a scalar domain."""
        if self.low is None or self.high is None:
            return None
        return max(abs(self.low), abs(self.high))


UNBOUNDED = Domain(shape="reals")


def _ends(e: Expr, names: Values) -> tuple[Fraction, Fraction]:
    """A rational below and one above the value of ``e``; equal when the value is rational."""
    value = evaluate(e, names)
    if isinstance(value, float):
        return padded_down(value), padded_up(value)
    return value, value


def _least(*candidates: Fraction | None) -> Fraction | None:
    known = [c for c in candidates if c is not None]
    return min(known) if known else None


def closed(domain: Domain) -> Domain:
    """The same domain with every norm bound that follows from the others."""
    l1, l2, linf = domain.l1, domain.l2, domain.linf
    if domain.low is not None and domain.high is not None:
        linf = _least(linf, max(abs(domain.low), abs(domain.high)))
    root = None if domain.dimension is None else sqrt_up(Fraction(domain.dimension))
    for _ in range(2):
        linf = _least(linf, l2, l1)
        mixed = sqrt_up(l1 * linf) if l1 is not None and linf is not None else None
        l2 = _least(l2, l1, mixed, root * linf if root is not None and linf is not None else None)
        l1 = _least(
            l1,
            root * l2 if root is not None and l2 is not None else None,
            domain.dimension * linf if domain.dimension is not None and linf is not None else None,
        )
    return replace(domain, l1=l1, l2=l2, linf=linf)


def meet(a: Domain, b: Domain) -> Domain:
    """An outer description of what lies in both; of ``a`` itself, shape and all, where ``b`` adds no bound."""
    low = a.low if b.low is None else b.low if a.low is None else max(a.low, b.low)
    high = a.high if b.high is None else b.high if a.high is None else min(a.high, b.high)
    both = replace(a, l1=_least(a.l1, b.l1), l2=_least(a.l2, b.l2), linf=_least(a.linf, b.linf), low=low, high=high)
    return a if both == a else replace(closed(both), values=(), shape="other")


def _with_norm(domain: Domain, norm: str, radius: Fraction) -> Domain:
    if norm == "l1":
        return replace(domain, l1=radius)
    return replace(domain, l2=radius) if norm == "l2" else replace(domain, linf=radius)


def domain_of_set(s: Set, names: Values | None = None, *, dimension: int | None = None) -> Domain:
    """The domain of a set of the language: ``ball(l2, 1)``, ``box(a, b)``, ``simplex``, ``{-1, 1}``, ``R^d``...

    ``names`` gives values to the names in radii and ends; ``dimension`` is d (it turns an l_inf bound into an l2 bound; None when
    unknown). Irrational ends are widened outwards. Raises :class:`dpspec.spec.expr.Unbound` or ``NotANumber`` as ``evaluate`` does and
    ValueError for an empty set.
    """
    env = names or {}
    match s:
        case Ball(norm=norm, radius=radius):
            r = _ends(radius, env)[1]
            if r < 0:
                raise ValueError("a ball with a negative radius is empty")
            base = Domain(low=-r, high=r, dimension=dimension, shape=norm)
            return closed(_with_norm(base, norm, r))
        case Box(low=low, high=high):
            a, b = _ends(low, env)[0], _ends(high, env)[1]
            if a > b:
                raise ValueError("a box whose lower end exceeds its upper end is empty")
            return closed(Domain(low=a, high=b, dimension=dimension, shape="box"))
        case Simplex():
            one = Fraction(1)
            return Domain(l1=one, l2=one, linf=one, low=Fraction(0), high=one, dimension=dimension, shape="simplex")
        case Finite(values=values):
            # an irrational member has no exact place: the interval is kept and the list is dropped
            ends = [_ends(v, env) for v in values]
            exact = tuple(sorted({a for a, b in ends})) if all(a == b for a, b in ends) else ()
            bounds = Domain(low=min(a for a, _ in ends), high=max(b for _, b in ends), dimension=dimension)
            return closed(replace(bounds, values=exact, shape="finite" if exact else "other"))
        case Reals():
            return Domain(dimension=dimension, shape="reals")
        case Sparse() | Polytope():
            return Domain(dimension=dimension)


def interval(low: Fraction | int, high: Fraction | int) -> Domain:
    """Numbers between ``low`` and ``high``."""
    return closed(Domain(low=Fraction(low), high=Fraction(high), dimension=1, shape="box"))


def finite(*values: Fraction | int) -> Domain:
    """A finite set of numbers."""
    members = tuple(sorted({Fraction(v) for v in values}))
    return closed(Domain(values=members, low=members[0], high=members[-1], dimension=1, shape="finite"))


def ball(norm: Literal["l1", "l2", "linf"], radius: Fraction | int | str, dimension: int | None = None) -> Domain:
    """The ball of a norm."""
    r = Fraction(radius)
    return closed(_with_norm(Domain(low=-r, high=r, dimension=dimension, shape=norm), norm, r))


def with_intercept(domain: Domain) -> Domain:
    """The domain of (x, 1) for x in ``domain``: what a record becomes when an intercept column is appended."""
    one = Fraction(1)
    return Domain(
        l1=None if domain.l1 is None else domain.l1 + 1,
        l2=None if domain.l2 is None else sqrt_up(domain.l2**2 + 1),
        linf=None if domain.linf is None else max(domain.linf, one),
        low=None if domain.low is None else min(domain.low, one),
        high=None if domain.high is None else max(domain.high, one),
        dimension=None if domain.dimension is None else domain.dimension + 1,
        shape="intercept" if domain.shape == "l2" else "other",
    )


@dataclass(frozen=True, slots=True)
class Margin:
    """The range of u = <w, x>. ``attained`` margins are reached by some w of the set together with some record x of the largest l2
    norm; a false claim is only ever called false at an attained margin. ``reason`` says which inequality gave the range."""

    low: Fraction | None
    high: Fraction | None
    attained_low: Fraction | None
    attained_high: Fraction | None
    attained: bool
    reason: str

    @property
    def bounded(self) -> bool:
        return self.low is not None and self.high is not None


def margin_range(over: Domain, x: Domain) -> Margin:
    """|<w, x>| <= |w|_p |x|_q for the conjugate pairs (2, 2), (1, inf), (inf, 1), whichever is least; signs are used when both sets
    lie in the positive orthant or one of them is the simplex."""
    pairs = (
        (over.l2, x.l2, "|w|_2 |x|_2"),
        (over.l1, x.linf, "|w|_1 |x|_inf"),
        (over.linf, x.l1, "|w|_inf |x|_1"),
    )
    best: Fraction | None = None
    reason = "no bound on the product of the norms"
    for a, b, words in pairs:
        if a == 0 or b == 0:
            best, reason = Fraction(0), words
        elif a is not None and b is not None and (best is None or a * b < best):
            best, reason = a * b, words
    if best is None:
        free = over.shape == "reals" and x.l2 is not None and x.l2 > 0
        return Margin(None, None, None, None, free, reason)
    low, high = -best, best
    if over.shape == "simplex" and x.low is not None and x.high is not None:
        low, high, reason = max(low, x.low), min(high, x.high), "w is a convex combination of coordinates"
    if over.low is not None and over.low >= 0 and x.low is not None and x.low >= 0:
        low = max(low, Fraction(0))
    inner = _inner(over, x, low, high)
    if inner is None:
        return Margin(low, high, None, None, False, reason)
    return Margin(low, high, inner[0], inner[1], True, reason)


def _inner(over: Domain, x: Domain, low: Fraction, high: Fraction) -> tuple[Fraction, Fraction] | None:
    """Margins reached by a record of the largest l2 norm. Conservative: None when the shapes are not both understood.

    For two norm balls the aligned vectors reach both ends of the Hoelder bound: equal coordinates, or one coordinate, whichever the
    pair of norms calls for, and all margins between follow by shrinking w. The same vector has the largest l2 norm of its ball.
    """
    balls = ("l1", "l2", "linf")
    if x.l2 is None:
        return None
    if x.shape in balls and over.shape in balls:
        return low, high
    if x.shape in balls and over.shape == "simplex" and x.linf is not None:
        return -x.linf, x.linf
    if x.shape in balls and over.shape == "box" and over.low is not None and over.high is not None and over.low <= 0 <= over.high:
        c = min(-over.low, over.high)
        outer = max(-over.low, over.high)
        return (-high * c / outer, high * c / outer) if outer else (Fraction(0), Fraction(0))
    if x.shape == "box" and over.shape in balls:
        return low, high
    if x.shape == "intercept" and over.shape == "l2":
        return low, high
    return None
