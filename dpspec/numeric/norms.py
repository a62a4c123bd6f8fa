"""Norms of records, and records scaled into a ball. Nothing else in the product divides by the norm of a record.

A plain sum of squares is wrong twice in doubles. Squares of entries below about 1.5e-162 are subnormal or 0, so a norm may come out 30 %
too small, or as 0, and what is divided by it is not clipped; squares of entries above 1.3e154 are infinite. Here a row whose plain norm
leaves [2^-450, 2^500] is multiplied by a power of two that brings its largest entry into [1/2, 1), which is exact but for entries that
are 2^-1074 times as small as that one. Only such rows are copied; the others cost one pass, as before.

What is proved, u = 2^-53 and k the entries of a row (its stored ones in a CSR matrix), k*u < 2^-10:

1. *The norm.* A row is represented as part*2^power, and ``part`` is off by at most (k/2 + 2)u of itself. Plain rows: no square rounds to a
   subnormal number that matters, because the k underflows are together below k*2^-1074 (k*2^-1022 where a processor flushes them to 0)
   and the sum is at least 2^-900; k products, k - 1 sums in any order and a root add k/2 + 1 rounding errors. Scaled rows: the same with
   a sum of at least 1/4. Sums of magnitudes (l1) never underflow, and l_inf is exact.
2. *Scaling into the ball* of radius r, 1e-250 <= r <= 1e150. With s = 2(k + 8)u rows whose computed norm is at most r(1 - s) stay, the
   others are multiplied to r(1 - 2s). Those that stay are at most r(1 - s)(1 + (k + 3)u) < r(1 - s/3) long. For the others, quotient and
   product add 2u each, and an entry that becomes subnormal is off by 2^-1075 < r*2^-240: at most r(1 - 2s)(1 + (k + 6)u) < r(1 - s). So
   **the exact norm of every row is at most r, and so is its norm as any order of summation computes it** (another factor 1 + (k + 2)u);
   scaling twice changes nothing. l_inf needs no margin: s = 0 and a last clamp.
3. *The largest factor* c with |c*x| <= r (:meth:`Lengths.limits`): |c|*|x| <= r exactly, for the same reasons; a limit that is subnormal
   is taken down by one step of 2^-1074, which is more than the two roundings that it went through, and an infinite one stands for a limit
   above every double. :attr:`Lengths.upper` is a number that the exact norm does not exceed.

Callers thus need no allowance for clipping itself (k = 0 in "radius*(1 + k*eps)"); what sensitivities allow for is the rounding of sums
and products after it. Sizes outside 1e-250 .. 1e150 are refused (:class:`OutOfRange`): their squares, or a noise scale made of them,
would leave the doubles.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

Vector: TypeAlias = NDArray[np.float64]
Mask: TypeAlias = NDArray[np.bool_]
Norm: TypeAlias = Literal["l1", "l2", "linf"]

#: Radii, bounds and their products that the proofs above are for.
SMALLEST: Final = 1e-250
LARGEST: Final = 1e150
_LOW: Final = 2.0**-450
_HIGH: Final = 2.0**500


class OutOfRange(ValueError):
    """A radius, a clip, a sensitivity or a noise scale that doubles cannot carry: a fact about public numbers, known before records are."""


def check_size(**sizes: float) -> None:
    """Raises :class:`OutOfRange` for a size outside [SMALLEST, LARGEST], for which the proofs of this module are not made."""
    for name, size in sizes.items():
        if not SMALLEST <= size <= LARGEST:
            raise OutOfRange(f"{name} must lie between {SMALLEST:g} and {LARGEST:g}, not at {size!r}: rescale the records")


@dataclass(frozen=True, slots=True)
class Entries:
    """A block's values: dense (m, k), or the stored entries of a CSR block with its row pointer. ``width``: how many entries each row has,
    (m,): a number of the row alone, so that what a record becomes does not depend on how sparse the others are."""

    v: Vector
    indptr: NDArray[Any] | None = None

    @property
    def rows(self) -> int:
        return len(self.v) if self.indptr is None else len(self.indptr) - 1

    @property
    def width(self) -> Vector:
        if self.indptr is None:
            return np.full(self.rows, float(self.v.shape[1]))
        return np.asarray(np.diff(self.indptr), dtype=np.float64)

    def reduce(self, f: Any, v: Any) -> Any:
        """``f`` (np.add, np.maximum, np.logical_or) over the entries of each row of ``v``; 0 for a row without entries."""
        if self.indptr is None:
            return f.reduce(v, axis=1, initial=0)
        out = np.zeros(self.rows, dtype=v.dtype)
        full = np.diff(self.indptr) > 0
        if full.any():
            out[full] = f.reduceat(v, self.indptr[:-1][full])
        return out

    def spread(self, per_row: Any) -> Any:
        """One value a row, laid out against the entries."""
        return per_row[:, None] if self.indptr is None else np.repeat(per_row, np.diff(self.indptr))

    def where(self, rows: Mask) -> Any:
        """Index of all entries of the rows."""
        return rows if self.indptr is None else self.spread(rows)

    def sub(self, rows: Mask) -> Entries:
        """A copy of the rows."""
        if self.indptr is None:
            return Entries(self.v[rows])
        counts = np.diff(self.indptr)[rows]
        return Entries(self.v[self.spread(rows)], np.concatenate([[0], np.cumsum(counts)]))


def entries(x: Any) -> Entries:
    """Of a dense block (m, k) or a scipy CSR one in canonical form (no position stored twice)."""
    return Entries(x) if isinstance(x, np.ndarray) else Entries(x.data, x.indptr)


@dataclass(frozen=True, slots=True, eq=False)
class Lengths:
    """Norms of rows as part*2^power, both (m,): a subnormal or overflowing norm keeps its relative accuracy. Rows with a NaN or an infinity
    have an infinite ``part``. ``scaled``: the rows that were multiplied by 2^-power to be measured; ``margin``: s of the module's text."""

    part: Vector
    power: NDArray[np.int64]
    scaled: Mask
    margin: Vector

    @property
    def values(self) -> Vector:
        """As plain numbers: infinite beyond the doubles, rounded to a multiple of 2^-1074."""
        with np.errstate(over="ignore", under="ignore"):
            return np.asarray(np.ldexp(self.part, self.power))

    @property
    def upper(self) -> Vector:
        """Upper bounds of the norms."""
        with np.errstate(over="ignore", under="ignore"):
            return np.asarray(np.where(self.part > 0, np.nextafter(np.ldexp(self.part * (1 + self.margin), self.power), np.inf), 0.0))

    @property
    def finite(self) -> Mask:
        """Rows without a NaN or an infinity (their norm may still exceed every double)."""
        return np.isfinite(self.part)

    def shares(self, radius: float) -> Vector:
        """min(1, norm/radius)."""
        with np.errstate(over="ignore", under="ignore"):
            return np.minimum(np.ldexp(self.part / radius, self.power), 1.0)

    def limits(self, radius: float) -> Vector:
        """The largest |c| with c*row in the ball, rounded down; infinite where every double serves, 0 for rows that are not finite.
        Raises OutOfRange."""
        check_size(radius=radius)
        some = self.part > 0
        with np.errstate(over="ignore", under="ignore"):
            limit = np.ldexp(radius * (1 - 2 * self.margin) / np.where(some, self.part, 1.0), -self.power)
        small = limit < 2.0**-1000
        limit[small] = np.maximum(np.nextafter(limit[small], 0.0), 0.0)
        return np.asarray(np.where(some, limit, np.inf))


def _plain(e: Entries, norm: Norm) -> Vector:
    """Row norms as plain arithmetic gives them."""
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        if norm == "linf":
            return np.asarray(e.reduce(np.maximum, np.abs(e.v)))
        if norm == "l1":
            return np.asarray(e.reduce(np.add, np.abs(e.v)))
        squares = np.einsum("ij,ij->i", e.v, e.v) if e.indptr is None else e.reduce(np.add, e.v * e.v)
        return np.asarray(np.sqrt(squares))


def _unit(part: Entries, power: NDArray[np.int64]) -> Entries:
    """Rows times 2^-power."""
    with np.errstate(under="ignore"):
        return Entries(np.ldexp(part.v, part.spread(-power)), part.indptr)


def lengths(x: Any, norm: Norm = "l2", *, low: float = _LOW, high: float = _HIGH) -> Lengths:
    """The norms of the rows of a dense (m, k) array, a CSR array or :class:`Entries`. ``low``, ``high``: rows whose plain norm lies outside
    are measured scaled (the least ``low`` and the greatest ``high`` for which a relative error is proved are the defaults)."""
    e = x if isinstance(x, Entries) else entries(x)
    size = _plain(e, norm)
    power = np.zeros(e.rows, dtype=np.int64)
    odd = ~((size >= low) & (size <= high))
    if odd.any():
        part = e.sub(odd)
        top = np.asarray(part.reduce(np.maximum, np.abs(part.v)), dtype=np.float64)
        usable = np.isfinite(top) & (top > 0)
        exponent = np.where(usable, np.frexp(np.where(usable, top, 1.0))[1], 0).astype(np.int64)
        size[odd] = np.where(np.isfinite(top), _plain(_unit(part, exponent), norm), np.inf)
        power[odd] = exponent
    margin = np.zeros(e.rows) if norm == "linf" else (e.width + 8) * 2.0**-52
    return Lengths(size, power, odd, margin)


def plainly_finite(v: Vector) -> bool:
    """True only where every entry is finite, by their sum of squares, half the time of looking at each; large entries may give False."""
    flat = v.reshape(-1)
    with np.errstate(over="ignore", invalid="ignore"):
        return math.isfinite(float(flat @ flat))


def length(v: Vector, norm: Norm = "l2") -> float:
    """The norm of all entries of ``v``, rounded to a double; infinite beyond the doubles and where an entry is not finite."""
    flat = np.asarray(v, dtype=np.float64).ravel()
    if norm == "l2":
        with np.errstate(over="ignore", invalid="ignore"):
            square = float(flat @ flat)
        if _LOW**2 <= square <= _HIGH**2:
            return math.sqrt(square)
        if square == 0.0 and not flat.any():  # the start of most methods
            return 0.0
    return float(lengths(flat[None, :], norm).values[0])


def group_lengths(v: Vector, starts: NDArray[np.intp]) -> Vector:
    """l2 norms of consecutive groups of coordinates that begin at ``starts``, shape (groups,)."""
    return lengths(Entries(v, np.append(starts, v.size))).values


def scale_into(e: Entries, radius: float, norm: Norm, *, reject: bool = False) -> tuple[Vector, Mask]:
    """Rows x*min(1, radius/|x|), with every rounding inwards (2 of the module's text), and the rows that lay outside by more than rounding.

    With ``reject`` those become 0. ``e.v`` is overwritten. Rows that are not finite become 0. Raises OutOfRange.
    """
    check_size(radius=radius)
    # rows below 2^-450 are inside a larger ball, whatever their norm; of far longer rows radius/norm would be subnormal
    found = lengths(e, norm, low=_LOW if radius < 2 * _LOW else 0.0, high=min(_HIGH, radius * 1e280))
    size, s, odd, v = found.part, found.margin, found.scaled, e.v
    keep, goal = radius * (1 - s), radius * (1 - 2 * s)
    outside = size > radius * (1 + s)
    bad = ~found.finite
    if odd.any():
        part = e.sub(odd)
        power, q = found.power[odd], size[odd]
        unit = _unit(part, power)
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            beyond, move = q > np.ldexp(radius * (1 + s[odd]), -power), q > np.ldexp(keep[odd], -power)
            onto = np.where(bad[odd] | (beyond & reject), 0.0, goal[odd] / np.where(q > 0, q, 1.0))
            new = np.where(part.spread(move), unit.v * part.spread(onto), part.v)
        v[e.where(odd)] = new
        outside[odd] = beyond
        if bad.any():
            v[e.where(bad)] = 0.0
    move = ~odd & (size > keep)
    if move.any():
        factor = np.ones_like(size)
        with np.errstate(under="ignore"):
            factor[move] = goal[move] / size[move]
            if reject:
                factor[move & outside] = 0.0
            v *= e.spread(factor)
    if norm == "linf":
        np.clip(v, -radius, radius, out=v)
    return v, outside


def clip_rows(x: Vector, radius: float, norm: Norm = "l2") -> Vector:
    """The rows of a dense array scaled into the ball, in place; rows that are not finite become 0."""
    return scale_into(Entries(x), radius, norm)[0]


def directions(x: Vector) -> tuple[Vector, Lengths]:
    """x/|x|_2 row by row, a new array (m, k) whose rows have length 1 up to (k/2 + 4)u, and the norms. Rows that are 0 or not
    finite give 0."""
    e = Entries(x)
    found = lengths(e)
    out = np.array(x)
    if found.scaled.any():
        out[found.scaled] = _unit(e.sub(found.scaled), found.power[found.scaled]).v
    usable = found.finite & (found.part > 0)
    with np.errstate(under="ignore"):
        out /= np.where(usable, found.part, 1.0)[:, None]
    out[~usable] = 0.0
    return out, found


def project_each(points: Vector, radius: float) -> Vector:
    """:func:`project` of each row of an (m, d) array, to rounding."""
    found = lengths(points)
    outside, out = found.values > radius, np.array(points)
    with np.errstate(under="ignore"):
        out[outside] = _unit(Entries(points[outside]), found.power[outside]).v * (radius / found.part[outside])[:, None]
    return out


def project(v: Vector, radius: float) -> Vector:
    """v*min(1, radius/|v|_2) to rounding, ``v`` itself where it is inside: for vectors that were released already, or are public."""
    if length(v) <= radius:
        return v
    found = lengths(v[None, :])
    with np.errstate(under="ignore"):
        return np.asarray(_unit(Entries(v[None, :]), found.power).v[0] * (radius / found.part[0]))
