"""Reports as they travel: how a channel's report becomes bytes, what bytes are a report, and the sum that a server keeps.

A report is, beside public numbers, a few integers: a sign, a category, bits, or steps of a public grid. A :class:`Codec` knows which. Its
integers are what travels and what is summed, so a sum is exact, whatever the order and the blocks in which reports arrive: the executor
(:class:`dpspec.privacy.meter.Release`) and a collector that adds the same reports have the same bits.

Every function here is a public map of single reports, thus post-processing. Lengths depend on the channel alone. Decoding is strict: an
integer out of range, a padding bit, a direction that is none make a report invalid, so what one report can move is bounded whatever its
sender does (:meth:`Codec.reach`).

Reports with real entries are rounded to whole steps:

* Gaussian, Laplace and Wishart reports are on their noise's grid already (:mod:`dpspec.privacy.noise`). An entry is cut at ``radius``
  plus what noise exceeds with probability below 1e-30. Gaussian vectors whose noise is longer than sqrt(d) + 12 scales, of probability
  below 1e-31, are invalid;
* directions (hemisphere, PrivUnit) are rounded to steps of 2^-30: at most 2^-31 of the length in a coordinate.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from dpspec.privacy.channels.protocol import Channel
from dpspec.privacy.noise import _GRID_SHARE, Array, Bools, Integers, grid_exponent

Bytes: TypeAlias = npt.NDArray[np.uint8]

#: Reports whose statistic is summed at a time, so that int64 sums of 32-bit halves stay exact.
MOST_USERS = 2**31
_HALF = 32
_FINE = 30
#: In standard deviations of a normal; in means of an exponential. Beyond, a probability below 1e-30 an entry.
NORMAL, EXPONENTIAL = 12.0, 75.0


class WireError(ValueError):
    """A channel whose reports have no wire form."""


class Codec(Protocol):
    """``bits``: of one report. ``width``: how many integers :meth:`statistic` keeps."""

    @property
    def bits(self) -> int: ...

    @property
    def width(self) -> int: ...

    def numbers(self, reports: Any) -> Integers:
        """The integers of encoded reports, (users, entries)."""
        ...

    def pack(self, numbers: Integers) -> Bools:
        """Bits, (users, bits); little end first."""
        ...

    def unpack(self, bits: Bools) -> tuple[Integers, Bools]:
        """The integers, and which rows are valid reports."""
        ...

    def statistic(self, numbers: Integers) -> Integers:
        """The sum over users of what the estimate needs, (width,)."""
        ...

    def estimate(self, sums: Integers, users: int) -> Array:
        """What ``aggregate`` of the channel estimates, from exact sums."""
        ...

    def reach(self) -> float:
        """The largest l2 distance of two valid reports' unbiased values: one report moves the estimate by at most reach/users."""
        ...


# ------------------------------------------------------------------------------------------------------------------ the kinds


def _int_bits(values: Integers, bits: int) -> Bools:
    """Each non-negative integer in ``bits`` bits, little end first: (users, entries*bits)."""
    raw = np.ascontiguousarray(values.astype("<u8")).view(np.uint8).reshape(*values.shape, 8)
    found = np.unpackbits(raw, axis=-1, bitorder="little", count=bits).astype(bool)
    return np.asarray(found.reshape(values.shape[0], values.shape[1] * bits))


def _bits_int(bits: Bools, each: int) -> Integers:
    rows = bits.reshape(bits.shape[0], bits.shape[1] // each, each)
    return whole(np.packbits(rows, axis=-1, bitorder="little"))


def whole(raw: Bytes) -> Integers:
    """The integers of bytes, little end first: (users, entries) of (users, entries, at most 8)."""
    if raw.shape[2] == 4:
        return np.ascontiguousarray(raw).view("<u4")[..., 0].astype(np.int64)
    full = np.zeros((*raw.shape[:2], 8), dtype=np.uint8)
    full[..., : raw.shape[2]] = raw
    return full.view("<u8")[..., 0].astype(np.int64)


def _norms(numbers: Integers, exponent: int) -> Array:
    """l2 norms of rows of steps of 2^``exponent``."""
    values = numbers.astype(float)
    with np.errstate(over="ignore"):
        return np.asarray(np.ldexp(np.sqrt(np.einsum("ij,ij->i", values, values)), exponent))


@dataclass(frozen=True, slots=True)
class Steps:
    """``size`` multiples of 2^``exponent``, each of magnitude at most ``limit`` steps, with norm at most ``norm`` (a number like the
    report's; infinite where only entries are bounded)."""

    size: int
    exponent: int
    limit: int
    norm: float
    shape: str = "vector"  # or "symmetric": the upper triangle of a (dim, dim) matrix

    @property
    def each(self) -> int:
        """Bits of an entry, whole bytes."""
        return (((2 * self.limit).bit_length() + 7) // 8) * 8

    @property
    def bits(self) -> int:
        return self.size * self.each

    @property
    def width(self) -> int:
        return 2 * self.size

    def numbers(self, reports: Any) -> Integers:
        steps = np.rint(np.ldexp(np.asarray(reports, dtype=float).reshape(-1, self.size), -self.exponent))
        return np.asarray(np.clip(steps, -float(self.limit), float(self.limit)), dtype=np.int64)

    def pack(self, numbers: Integers) -> Bools:
        return _int_bits(numbers + self.limit, self.each)

    def unpack(self, bits: Bools) -> tuple[Integers, Bools]:
        return self.checked(_bits_int(bits, self.each))

    def checked(self, raw: Integers) -> tuple[Integers, Bools]:
        """The numbers of the integers as they travel, and which rows are valid."""
        good: Bools = np.asarray((raw <= 2 * self.limit).all(axis=1))
        numbers = raw - self.limit
        if math.isfinite(self.norm):
            good &= np.asarray(_norms(numbers, self.exponent) <= self.norm * (1 + 2.0**-30))
        return numbers, good

    def statistic(self, numbers: Integers) -> Integers:
        return np.concatenate([(numbers >> _HALF).sum(axis=0), (numbers & (2**_HALF - 1)).sum(axis=0)])

    def estimate(self, sums: Integers, users: int) -> Array:
        """The exact mean, rounded once."""
        totals = [(int(high) << _HALF) + int(low) for high, low in zip(sums[: self.size], sums[self.size :], strict=True)]
        mean: Array = np.ldexp(np.array([total / users for total in totals]), self.exponent)
        if self.shape == "vector":
            return mean
        from dpspec.privacy.channels.gaussian_outer import symmetric

        return symmetric(mean, (math.isqrt(8 * self.size + 1) - 1) // 2)

    def reach(self) -> float:
        each = math.ldexp(float(self.limit), self.exponent)
        root = 2.0 if self.shape == "symmetric" else 1.0  # entries off the diagonal count twice
        return 2.0 * math.sqrt(root) * min(self.norm, each * math.sqrt(self.size))


@dataclass(frozen=True, slots=True)
class Direction:
    """A unit vector in steps of 2^-30, of ``length`` B."""

    dim: int
    length: float

    @property
    def bits(self) -> int:
        return self.dim * 32

    @property
    def width(self) -> int:
        return self.dim

    def numbers(self, reports: Any) -> Integers:
        unit = np.asarray(reports, dtype=float).reshape(-1, self.dim) / self.length
        return np.rint(np.ldexp(np.clip(unit, -1.0, 1.0), _FINE)).astype(np.int64)

    def pack(self, numbers: Integers) -> Bools:
        return _int_bits(numbers + 2**_FINE, 32)

    each: ClassVar[int] = 32

    def unpack(self, bits: Bools) -> tuple[Integers, Bools]:
        return self.checked(_bits_int(bits, 32))

    def checked(self, raw: Integers) -> tuple[Integers, Bools]:
        """The numbers of the integers as they travel, and which rows are valid."""
        numbers = raw - 2**_FINE
        slack = math.sqrt(self.dim) * 2.0**-_FINE + 2.0**-40
        return numbers, np.asarray(np.abs(_norms(numbers, -_FINE) - 1.0) <= slack)

    def statistic(self, numbers: Integers) -> Integers:
        return np.asarray(numbers.sum(axis=0))

    def estimate(self, sums: Integers, users: int) -> Array:
        return np.array([math.ldexp(int(s) / users, -_FINE) for s in sums]) * self.length

    def reach(self) -> float:
        return 2.0 * self.length * (1 + math.sqrt(self.dim) * 2.0**-_FINE + 2.0**-40)


@dataclass(frozen=True, slots=True)
class Signs:
    """``dim`` signs, of magnitude ``length`` each."""

    dim: int
    length: float

    @property
    def bits(self) -> int:
        return self.dim

    @property
    def width(self) -> int:
        return self.dim

    def numbers(self, reports: Any) -> Integers:
        return (np.asarray(reports, dtype=float).reshape(-1, self.dim) > 0).astype(np.int64)

    def pack(self, numbers: Integers) -> Bools:
        return numbers.astype(bool)

    def unpack(self, bits: Bools) -> tuple[Integers, Bools]:
        return bits.astype(np.int64), np.ones(len(bits), dtype=bool)

    def statistic(self, numbers: Integers) -> Integers:
        return np.asarray(numbers.sum(axis=0))

    def estimate(self, sums: Integers, users: int) -> Array:
        return self.length * ((2 * sums - users) / users)

    def reach(self) -> float:
        return 2.0 * self.length * math.sqrt(self.dim)


@dataclass(frozen=True, slots=True)
class Bits:
    """``k`` bits, ``ones`` of them set where that is fixed (-1 where not). The estimate is (share - ``other``)*``scale``."""

    k: int
    other: float
    scale: float
    ones: int = -1

    @property
    def bits(self) -> int:
        return self.k

    @property
    def width(self) -> int:
        return self.k

    def numbers(self, reports: Any) -> Integers:
        return np.asarray(reports).reshape(-1, self.k).astype(np.int64)

    def pack(self, numbers: Integers) -> Bools:
        return numbers.astype(bool)

    def unpack(self, bits: Bools) -> tuple[Integers, Bools]:
        good = np.ones(len(bits), dtype=bool) if self.ones < 0 else bits.sum(axis=1) == self.ones
        return bits.astype(np.int64), good

    def statistic(self, numbers: Integers) -> Integers:
        return np.asarray(numbers.sum(axis=0))

    def estimate(self, sums: Integers, users: int) -> Array:
        return np.asarray((sums / users - self.other) * self.scale)

    def reach(self) -> float:
        differ = self.k if self.ones < 0 else 2 * min(self.ones, self.k - self.ones)
        return self.scale * math.sqrt(differ)


@dataclass(frozen=True, slots=True)
class Category:
    """One of ``k`` codes; ``of`` says how counts become the estimate."""

    k: int
    of: Any  # the channel
    level: float
    distance: float

    @property
    def bits(self) -> int:
        return (self.k - 1).bit_length()

    @property
    def width(self) -> int:
        return self.k

    def numbers(self, reports: Any) -> Integers:
        return np.asarray(reports, dtype=np.int64).reshape(-1, 1)

    def pack(self, numbers: Integers) -> Bools:
        return _int_bits(numbers, self.bits)

    def unpack(self, bits: Bools) -> tuple[Integers, Bools]:
        numbers = _bits_int(bits, self.bits)
        return numbers, numbers[:, 0] < self.k

    def statistic(self, numbers: Integers) -> Integers:
        return np.bincount(numbers[:, 0], minlength=self.k).astype(np.int64)

    def estimate(self, sums: Integers, users: int) -> Array:
        found: Array = self.of.from_counts(sums, self.level)
        return found

    def reach(self) -> float:
        return self.distance


@dataclass(frozen=True, slots=True)
class OneEntry:
    """A coordinate j and a sign: the vector sign*``length``*e_j."""

    dim: int
    length: float

    @property
    def bits(self) -> int:
        return max(1, (self.dim - 1).bit_length()) + 1

    @property
    def width(self) -> int:
        return self.dim

    def numbers(self, reports: Any) -> Integers:
        pairs = np.asarray(reports, dtype=float).reshape(-1, 2)
        return np.stack([pairs[:, 0].astype(np.int64), (pairs[:, 1] > 0).astype(np.int64)], axis=1)

    def pack(self, numbers: Integers) -> Bools:
        return np.concatenate([_int_bits(numbers[:, :1], self.bits - 1), numbers[:, 1:].astype(bool)], axis=1)

    def unpack(self, bits: Bools) -> tuple[Integers, Bools]:
        j = _bits_int(bits[:, :-1], self.bits - 1)
        return np.concatenate([j, bits[:, -1:].astype(np.int64)], axis=1), j[:, 0] < self.dim

    def statistic(self, numbers: Integers) -> Integers:
        up = np.bincount(numbers[numbers[:, 1] == 1, 0], minlength=self.dim)
        return (up - np.bincount(numbers[numbers[:, 1] == 0, 0], minlength=self.dim)).astype(np.int64)

    def estimate(self, sums: Integers, users: int) -> Array:
        return np.asarray(sums / users * self.length)

    def reach(self) -> float:
        return 2.0 * self.length


# --------------------------------------------------------------------------------------------------------- which channel is which


def codec(channel: Channel, level: float) -> Codec:
    """The codec of a channel at a level. Raises :class:`WireError` for a channel that has none, which names it."""
    make = _MAKERS.get(channel.kind)
    if make is None:
        raise WireError(f"reports of the channel {channel.kind} have no wire form")
    found: Codec = make(channel, level)
    return found


def _gaussian(channel: Any, level: float) -> Steps:
    scale, size = channel.scale(level), channel.size
    longest = channel.sensitivity if channel.kind == "gaussian-outer" else channel.sensitivity / 2.0  # of a clipped statistic
    exponent = grid_exponent(scale, channel.sensitivity, math.sqrt(size))
    shape = "symmetric" if channel.kind == "gaussian-outer" else "vector"
    norm = longest + scale * (1 + 2.0**-20) * (math.sqrt(size) + NORMAL)
    return Steps(size, exponent, _limit(longest + NORMAL * scale * (1 + 2.0**-20), exponent), norm, shape)


def _laplace(channel: Any, level: float) -> Steps:
    scale = channel.scale(level)
    exponent = grid_exponent(scale, channel.sensitivity, float(channel.dim))
    return Steps(channel.dim, exponent, _limit(channel.radius + EXPONENTIAL * scale * (1 + 2.0**-20), exponent), math.inf)


def _wishart(channel: Any, level: float) -> Steps:
    """An entry of either Wishart matrix is at most the mean of two chi-squares of dim + 1 degrees, whose tail is Laurent and Massart's."""
    t, degrees = channel.scale(level), channel.dim + 1
    exponent = math.frexp(t)[1] - 1 - _GRID_SHARE
    far = channel.radius**2 + t * (degrees + 2 * math.sqrt(EXPONENTIAL * degrees) + 2 * EXPONENTIAL)
    return Steps(channel.size, exponent, _limit(far, exponent), math.inf, "symmetric")


def _limit(far: float, exponent: int) -> int:
    limit = math.ceil(math.ldexp(far, -exponent))
    if limit >= 2**53:
        raise WireError("reports of this channel span more than 2^53 steps of their grid: scale over sensitivity is out of range")
    return limit


def _subset(channel: Any, level: float) -> Bits:
    p, q = channel._chances(level)
    return Bits(channel.k, q, 1.0 / (p - q), channel.width(level))


def _kary(channel: Any, level: float) -> Category:
    return Category(channel.k, channel, level, math.sqrt(2.0) * channel.scale(level))


def _binary(channel: Any, level: float) -> Category:
    return Category(2, channel, level, channel.scale(level))


def _hadamard(channel: Any, level: float) -> Category:
    return Category(channel.order, channel, level, 2.0 * math.sqrt(channel.k) * channel.scale(level))


_MAKERS: dict[str, Any] = {
    **dict.fromkeys(("gaussian-vector", "gaussian-product", "gaussian-ball-product", "gaussian-outer"), _gaussian),
    "laplace-vector": _laplace,
    "wishart-outer": _wishart,
    **dict.fromkeys(("hemisphere", "priv-unit"), lambda c, level: Direction(c.dim, c.scale(level))),
    "one-bit-mean": lambda c, level: Signs(1, c.scale(level)),
    "cube": lambda c, level: Signs(c.dim, c.scale(level)),
    "sampled-coordinate": lambda c, level: OneEntry(c.dim, c.scale(level)),
    "subset-selection": _subset,
    **dict.fromkeys(
        ("optimised-unary-encoding", "symmetric-unary-encoding"),
        lambda c, level: Bits(c.k, float(c.chances(level)[1]), c.scale(level)),
    ),
    "kary-response": _kary,
    "binary-response": _binary,
    "hadamard-response": _hadamard,
}


# ---------------------------------------------------------------------------------------------------------------------- tallies


@dataclass(slots=True)
class Tally:
    """What a server keeps of the reports of one draw: exact sums, and of how many users."""

    codec: Codec
    sums: Integers
    users: int = 0

    @classmethod
    def empty(cls, codec: Codec) -> Tally:
        return cls(codec, np.zeros(codec.width, dtype=np.int64))

    def add(self, numbers: Integers) -> None:
        users = self.users + len(numbers)
        if users > MOST_USERS:
            raise ValueError("more than 2^31 reports in one draw")
        self.sums += self.codec.statistic(numbers)
        self.users = users

    def mean(self) -> Array:
        """The estimate of the mean. Raises ``ValueError`` without a report."""
        if self.users == 0:
            raise ValueError("no user answers")
        return self.codec.estimate(self.sums, self.users)
