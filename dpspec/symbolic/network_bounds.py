"""The certificate of a network of two layers (:mod:`dpspec.symbolic.network`): bounds propagated from the leaves to the loss.

The weights theta are the vectors w_k and, where they are weights, the numbers v_k; the loss of a record is phi(z, y) with z_k = <w_k, x>
and z_(K+k) = v_k. The map from theta to z has the orthogonal rows x (K times) and 1, so with D = diag(R, ..., R, 1, ..., 1), |x| <= R,

    |gradient| <= |D grad phi|,   |Hessian| <= |D (Hess phi) D|,   |third derivative| <= sup over |t| <= 1 of |phi'''(D t, D t, D t)|

for |h| = 1, in the l2, the operator (or Frobenius) and again the l2 norm; a symmetric trilinear form is largest on its diagonal (Banach
1938), so the last bounds how fast the Hessian changes in the operator norm: the Hessian-Lipschitz constant.

For each node f of the expression, over a box of z and y, four numbers bound these: G the gradient, H and F the Hessian in the operator and
the Frobenius norm, T the third derivative, all after D; a ball encloses its value. They follow from those below it:

* a variable: G its entry of D; numbers and labels: nothing.
* g(f): with bounds of |g'|, |g''|, |g'''| over the ball of f, Faa di Bruno gives G = |g'| G, H = |g''| G^2 + |g'| H, F likewise, and
  T = |g'''| G^3 + 3 |g''| G H + |g'| T. A jump of g' leaves H, F and T without a bound, one of g'' leaves T.
* c f + e g: sums of the parts' bounds. Parts with no variable in common, such as hidden units, have derivatives in orthogonal coordinates:
  G and F are then roots of sums of squares, H and T maxima, as for t = (s, r) T_f |s|^3 + T_g |r|^3 <= max(T_f, T_g).
* f g: Leibniz; H = |g| H_f + |f| H_g + 2 G_f G_g and T = |g| T_f + |f| T_g + 3 (H_f G_g + G_f H_g). With no variable in common G and F are
  roots of squares as above, H the norm of the matrix of the blocks' norms, [[|g| H_f, G_f G_g], [G_f G_g, |f| H_g]], and T at most
  max(|g| T_f, |f| T_g) + (2/sqrt 3)(H_f G_g + G_f H_g), since 3 s^2 r <= 2/sqrt 3 on the circle.

Over the whole box that is crude: the residual is large where the activations are flat. So boxes are split where the bound is greatest, many
at a time, and those that no weights of the set reach, sum_k (z_k/R)^2 + |v|^2 > r^2, are dropped, and of units that may change
places one order is looked at. G tends to the gradient's norm as boxes
shrink; H and T do not see opposite signs and stay up to a small factor above.

Rigour: what a function of one number and its derivatives are on a cell of its argument is enclosed in ball arithmetic, once for a network
(:class:`_Table`); between them stand sums, products and roots of doubles, each rounded outwards.

Margins without a bound (R^d) are searched up to 2^124, beyond which the functions of :func:`dpspec.symbolic.network.saturating` and their
derivatives are closer to their limits than enclosures are wide.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, Final, TypeAlias

import numpy as np
from flint import ctx
from numpy.typing import NDArray

from dpspec.numeric.rounding import down, up
from dpspec.symbolic.balls import Balls, hull, lower, upper
from dpspec.symbolic.network import Apply, Input, Label, Network, Node, Number, Product, Sum, children, exchangeable, places

Vector: TypeAlias = NDArray[np.float64]

#: Boxes that are looked at for one constant, how many are split at a time, and the gap relative to the constant at which no more are.
BOXES: Final = 60_000
_BATCH: Final = 3_000
TOLERANCE: Final = 1e-2
#: When so many boxes have left one without a bound, more will not help.
_HOPELESS: Final = 4_000
_PREC: Final = 80
#: Cells of a table, and the middle part of long ranges that gets them.
_CELLS: Final = 1024
_NEAR: Final = 24.0
#: Unbounded margins.
FAR: Final = Fraction(2**124)
#: Where sides of unbounded boxes are cut.
_TAIL: Final = 16.0
_OUT, _TINY = 1.0 + 2.0**-50, 2.0**-1000
_CUBE: Final = 2 / math.sqrt(3.0) * _OUT


@dataclass(frozen=True, slots=True)
class Region:
    """Where a network is evaluated: ``ranges`` of its variables, ``labels`` of y (intervals, or points of a finite set), ``scale`` (R) of
    its margins, and the l2 norm of all weights (None: no bound)."""

    ranges: tuple[tuple[Fraction, Fraction], ...]
    labels: tuple[tuple[Fraction, Fraction], ...]
    scale: Fraction
    norm: Fraction | None


@dataclass(frozen=True, slots=True)
class Bounds:
    """Of a node over boxes, each (boxes,): the range of its value, and upper bounds G, H, F, T (infinite: none)."""

    low: Any
    high: Any
    G: Any
    H: Any
    F: Any
    T: Any


def _above(v: Any) -> Any:
    """Not below the exact result of one sum, product or root that rounded to ``v``, which is not negative."""
    return v * _OUT + _TINY


def _outwards(low: Any, high: Any) -> tuple[Any, Any]:
    return low - np.abs(low) * 2.0**-50 - _TINY, high + np.abs(high) * 2.0**-50 + _TINY


def _root(*parts: Any) -> Any:
    total: Any = 0.0
    for p in parts:
        total = _above(total + _above(p * p))
    return _above(np.sqrt(total))


# -------------------------------------------------------------------------------------------------------------------- tables


class _Table:
    """A function of one number over cells of a range: the range of its value, and bounds of three derivatives, of any run of cells."""

    def __init__(self, node: Apply, low: Fraction, high: Fraction) -> None:
        a, b = down(low), up(high)
        a, b = a - abs(a) * 1e-6 - 1e-9, b + abs(b) * 1e-6 + 1e-9
        near = (max(a, -_NEAR), min(b, _NEAR))
        inner = np.linspace(*near, _CELLS + 1) if near[0] < near[1] else np.empty(0)
        outer = np.linspace(a, b, _CELLS // 4 + 1) if b - a > 2 * _NEAR else np.empty(0)
        tail = 2.0 ** np.arange(5, 125)
        ends = np.concatenate([inner, outer, tail, -tail, [a, b]])
        self.edges = np.unique(ends[(ends >= a) & (ends <= b)])
        rows = [self._cell(node, Fraction(p), Fraction(q)) for p, q in zip(self.edges[:-1], self.edges[1:], strict=True)]
        columns = np.array(rows).T  # (5, cells): minus the least value, the greatest, and bounds of the three derivatives
        self.levels = [columns]
        self.size = columns.shape[1]
        while 2 ** len(self.levels) <= self.size:
            last, half = self.levels[-1], 2 ** (len(self.levels) - 1)
            self.levels.append(np.maximum(last[:, :-half], last[:, half:]))

    @staticmethod
    def _cell(node: Apply, low: Fraction, high: Fraction) -> tuple[float, ...]:
        alg, z = Balls(), hull(low, high)
        outer = alg.power(z, node.params[0]) if node.name == "power" else alg.unary(node.name, (), z)
        bottom, top = lower(outer.g[0]), upper(outer.g[0])
        found = [math.inf if bottom is None else up(-bottom), math.inf if top is None else up(top)]
        for order in (1, 2, 3):
            jumps = (order >= 2 and outer.kink) or (order == 3 and outer.rough)
            most = None if jumps else upper(abs(outer.g[order]))
            found.append(math.inf if most is None else up(most))
        return tuple(found)

    def over(self, low: Vector, high: Vector) -> Vector:
        """(5, boxes): the maxima over the cells that [low, high] meets."""
        i = np.clip(np.searchsorted(self.edges, low, side="right") - 1, 0, self.size - 1)
        j = np.clip(np.searchsorted(self.edges, high, side="left") - 1, i, self.size - 1)
        level = np.floor(np.log2(j - i + 1)).astype(int)
        out = np.empty((5, len(low)))
        for k in np.unique(level):
            at = level == k
            values, start, stop = self.levels[k], i[at], j[at] + 1 - 2**k
            out[:, at] = np.maximum(values[:, start], values[:, stop])
        inside = (low >= self.edges[0]) & (high <= self.edges[-1]) & (low <= high)
        out[:, ~inside] = math.inf
        return out


@lru_cache(maxsize=64)
def _tables(net: Network, region: Region) -> Mapping[Node, _Table]:
    """Tables of the functions in a network, from the leaves on, each over the range of its argument in the whole region."""
    found: dict[Node, _Table] = {}
    sides = (*region.ranges, (min(a for a, _ in region.labels), max(b for _, b in region.labels)))
    box = [(np.array([down(a)]), np.array([up(b)])) for a, b in sides]

    def visit(node: Node) -> None:
        for c in children(node):
            visit(c)
        if isinstance(node, Apply) and node not in found:
            z = _node(node.inner, net.width, box, up(region.scale), found)
            low, high = float(z.low[0]), float(z.high[0])
            if math.isfinite(low) and math.isfinite(high):
                found[node] = _Table(node, Fraction(low), Fraction(high))

    with ctx.workprec(_PREC), np.errstate(all="ignore"):
        visit(net.form)
    return found


# ------------------------------------------------------------------------------------------------------------------ the rules


def _node(node: Node, width: int, box: Sequence[tuple[Vector, Vector]], R: float, tables: Mapping[Node, _Table]) -> Bounds:
    zero = np.zeros(len(box[0][0]))
    match node:
        case Number(value=v):
            return Bounds(zero + down(v), zero + up(v), zero, zero, zero, zero)
        case Label():
            return Bounds(*box[-1], zero, zero, zero, zero)
        case Input(place=k):
            return Bounds(*box[k], zero + (R if k < width else 1.0), zero, zero, zero)
        case Sum():
            return _sum(node, width, box, R, tables)
        case Product(left=a, right=b):
            return _product(_node(a, width, box, R, tables), _node(b, width, box, R, tables), bool(places(a) & places(b)))
        case Apply(inner=inner):
            return _applied(tables.get(node), _node(inner, width, box, R, tables), bool(places(node)))


def _sum(node: Sum, width: int, box: Sequence[tuple[Vector, Vector]], R: float, tables: Mapping[Node, _Table]) -> Bounds:
    low, high = down(node.constant) + np.zeros(len(box[0][0])), up(node.constant) + np.zeros(len(box[0][0]))
    apart: list[tuple[frozenset[int], list[Any]]] = []  # bounds of parts that share no variable with the others
    for part, factor in node.terms:
        b, where = _node(part, width, box, R, tables), places(part)
        below, above = _times((b.low, b.high), (down(factor), up(factor)))
        low, high = _outwards(low + below, high + above)
        size = up(abs(factor))
        found = [_above(size * v) for v in (b.G, b.H, b.F, b.T)]
        for other in [o for o in apart if o[0] & where]:
            apart.remove(other)
            where, found = where | other[0], [_above(v + o) for v, o in zip(found, other[1], strict=True)]
        apart.append((where, found))
    G, F = (_root(*(o[1][i] for o in apart)) for i in (0, 2))
    H, T = (np.maximum.reduce([o[1][i] for o in apart]) for i in (1, 3))
    return Bounds(low, high, G, H, F, T)


def _times(a: tuple[Any, Any], b: tuple[Any, Any]) -> tuple[Any, Any]:
    corners = [p * q for p in a for q in b]
    return _outwards(np.minimum.reduce(corners), np.maximum.reduce(corners))


def _product(a: Bounds, b: Bounds, shared: bool) -> Bounds:
    f, g = (np.maximum(np.abs(v.low), np.abs(v.high)) for v in (a, b))
    both = _above(a.G * b.G)
    cross = _above(_above(a.H * b.G) + _above(a.G * b.H))
    parts = [(_above(g * p), _above(f * q)) for p, q in ((a.G, b.G), (a.H, b.H), (a.F, b.F), (a.T, b.T))]
    if shared:
        G, H, F, T = (_above(p + q) for p, q in parts)
        H, F, T = _above(H + 2 * both), _above(F + 2 * both), _above(T + _above(3 * cross))
    else:
        p, q = parts[1]
        G, F = _root(*parts[0]), _root(*parts[2], both, both)
        H = _above(_above((p + q) / 2) + _root(_above(np.abs(p - q) / 2), both))
        T = _above(np.maximum(*parts[3]) + _above(_CUBE * cross))
    return Bounds(*_times((a.low, a.high), (b.low, b.high)), G, H, F, T)


def _applied(table: _Table | None, z: Bounds, varies: bool) -> Bounds:
    if table is None:
        none = np.full(len(z.G), math.inf)
        return Bounds(-none, none, none, none, none, none)
    minus, top, g1, g2, g3 = table.over(z.low, z.high)
    zero = np.zeros(len(z.G))
    if not varies:
        return Bounds(-minus, top, zero, zero, zero, zero)
    square = _above(z.G * z.G)
    bend = _above(g2 * square)
    H, F = (_above(bend + _above(g1 * v)) for v in (z.H, z.F))
    T = _above(_above(_above(g3 * _above(square * z.G)) + _above(3 * _above(g2 * _above(z.G * z.H)))) + _above(g1 * z.T))
    return Bounds(-minus, top, _above(g1 * z.G), H, F, T)


# ------------------------------------------------------------------------------------------------------------------ the search


@dataclass(frozen=True, slots=True)
class Found:
    """An upper bound, how many boxes prove it, and whether it is within the tolerance of what the rules say at a point."""

    upper: float
    boxes: int
    tight: bool


class _Search:
    """``what`` of :class:`Bounds` over boxes (boxes, variables and the label, 2) of a region."""

    def __init__(self, net: Network, region: Region, what: str) -> None:
        self.net, self.what, self.R, self.tables = net, what, up(region.scale), _tables(net, region)
        self.radii = np.array([self.R] * net.width + [1.0] * (net.variables - net.width))
        self.square = math.inf if region.norm is None else up(region.norm**2) * (1 + 1e-9)
        self.ordered = net.width - 1 if exchangeable(net) else 0  # among units that may change places, margins rise
        self.start = np.array([[(down(a), up(b)) for a, b in (*region.ranges, label)] for label in region.labels])
        self.sides = (self.start[:, :, 1] - self.start[:, :, 0]).max(axis=0)
        self.endless = self.sides > float(FAR) / 2  # where units have levelled out beyond the tails
        self.sides[self.endless] = 2 * _TAIL

    def rated(self, boxes: Vector) -> Vector:
        box = [(boxes[:, k, 0], boxes[:, k, 1]) for k in range(boxes.shape[1])]
        with np.errstate(all="ignore"):
            found = _node(self.net.form, self.net.width, box, self.R, self.tables)
            out = -found.low if self.what == "low" else getattr(found, self.what)
        return np.where(np.isnan(out), math.inf, out)

    def reached(self, boxes: Vector) -> NDArray[np.bool_]:
        """False where no weights of the set have these margins with any record, or only after units have changed places."""
        low, high = boxes[:, :-1, 0], boxes[:, :-1, 1]
        near = np.where((low <= 0) & (high >= 0), 0.0, np.minimum(np.abs(low), np.abs(high))) / self.radii
        found = np.einsum("ij,ij->i", near, near) <= self.square
        for k in range(self.ordered):
            found &= low[:, k] <= high[:, k + 1]
        return np.asarray(found)

    def at_points(self, boxes: Vector) -> float:
        """The largest rate at the middles of boxes."""
        points = np.repeat(boxes.mean(axis=2)[:, :, None], 2, axis=2)
        found = self.rated(points[self.reached(points)])
        return float(np.max(found[np.isfinite(found)], initial=-math.inf))

    def halves(self, boxes: Vector) -> Vector:
        """Each box cut across the side that is longest relative to the region's, a half-line where its tail begins."""
        low, high = boxes[:, :, 0], boxes[:, :, 1]
        flat = self.endless & ((low >= _TAIL) | (high <= -_TAIL))
        long = (high - low > 4 * _TAIL) & (low < _TAIL) & (high > -_TAIL)
        k = np.where(long, math.inf, np.where(flat, 0.0, high - low) / np.where(self.sides > 0, self.sides, 1.0)).argmax(axis=1)
        rows = np.arange(len(boxes))
        a, b = low[rows, k], high[rows, k]
        cut = np.where(long[rows, k], np.where((a < -_TAIL) & (b > -_TAIL), -_TAIL, np.where(b > _TAIL, _TAIL, (a + b) / 2)), (a + b) / 2)
        left, right = boxes.copy(), boxes.copy()
        left[rows, k, 1] = cut
        right[rows, k, 0] = cut
        return np.concatenate([left, right])


@lru_cache(maxsize=512)
def supremum(net: Network, region: Region, what: str, limit: int = BOXES) -> Found:
    """An upper bound of ``G``, ``H``, ``F`` or ``T``, of the value (``high``) or of minus the value (``low``), over the region."""
    search = _Search(net, region, what)
    boxes, seen = search.start, len(search.start)
    rates, best = search.rated(boxes), search.at_points(boxes)
    while True:
        top = float(rates.max(initial=0.0 if what in "GHFT" else -math.inf))
        enough = best + TOLERANCE * abs(best) if best > -math.inf else -math.inf
        if top <= enough or seen >= (_HOPELESS if top == math.inf else limit):
            return Found(top, len(rates), top <= enough)
        worst = np.zeros(len(rates), dtype=bool)
        worst[np.argsort(rates)[-_BATCH:]] = True
        worst &= rates > enough
        new = search.halves(boxes[worst])
        new = new[search.reached(new)]
        seen += len(new) + 1
        best = max(best, search.at_points(new))
        boxes, rates = np.concatenate([boxes[~worst], new]), np.concatenate([rates[~worst], search.rated(new)])
