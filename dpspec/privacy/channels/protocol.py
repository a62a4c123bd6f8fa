"""What a local channel is: a client, a server, and the law of the aggregate.

``records`` is an array of shape (users, dim), or one record of shape (dim,), or for channels of pairs a tuple (x, y) of such arrays
with y of shape (users,) or a number. A channel enforces its own domain inside :meth:`Channel.encode`, whatever comes in: a
record with a NaN or an infinity is read as the record 0 (that mapping looks at one record only, so it is part of the client).
The client never raises, abstains or retries because of what a record holds: such an event would be visible.
"""

from __future__ import annotations

import math
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np

from dpspec.numeric.norms import SMALLEST, OutOfRange, clip_rows, lengths
from dpspec.privacy.mechanism import Mechanism
from dpspec.privacy.noise import Array, NoiseSource

Records: TypeAlias = Any  # Array, or (Array, Array) for channels of pairs


@runtime_checkable
class Channel(Mechanism, Protocol):
    def encode(self, records: Records, level: float, noise: NoiseSource) -> Any:
        """The client: one report a record, shape (users, ...) for many records and (...) for one."""
        ...

    def aggregate(self, reports: Any, level: float) -> Array:
        """The server: an unbiased estimate of the mean of the (clipped) records from their reports."""
        ...

    def sample_mean(self, records: Records, level: float, noise: NoiseSource) -> Array:
        """A draw from the law of ``aggregate(encode(records, level, noise), level)`` at less cost. For studies."""
        ...


@runtime_checkable
class Accumulator(Protocol):
    """Sufficient statistic of the aggregate, block by block; records are never stored."""

    @property
    def count(self) -> int: ...

    def add(self, x: Array, y: Array | None = None) -> None: ...

    def finish(self, level: float, noise: NoiseSource) -> Array: ...


def check_level(level: float) -> float:
    if not (math.isfinite(level) and level > 0):
        raise ValueError(f"the level must be positive and finite, not {level!r}")
    return float(level)


def check_positive(**values: float) -> None:
    for name, value in values.items():
        if not (math.isfinite(value) and value > 0):
            raise ValueError(f"{name} must be positive and finite, not {value!r}")


def check_scale(scale: float) -> float:
    """The size of a report or of noise: finite, and above what the grids of secure noise can hold; otherwise the level does not go with the
    radius. A fact about public numbers."""
    if not SMALLEST <= scale < math.inf:
        raise OutOfRange(f"this level needs reports or noise of size {scale!r}: take another level or rescale the records")
    return scale


def from_coth(value: float) -> float:
    """epsilon with coth(epsilon/2) = ``value`` > 1: log((value + 1)/(value - 1))."""
    if not value > 1:
        raise ValueError("a report of this length is no randomised response")
    return math.log1p(2.0 / (value - 1.0))


def rows(records: Any, dim: int) -> tuple[Array, bool]:
    """The records as a new (users, dim) array, rows with a NaN or an infinity set to 0, and whether it was a single record. Of a pair
    (x, y) it is x."""
    x = np.array(records[0] if isinstance(records, tuple) else records, dtype=float)
    single = x.ndim == 0 if dim == 1 and x.ndim == 0 else x.ndim == 1 and x.shape == (dim,)
    if dim == 1 and x.ndim == 1 and x.size != 1:
        x = x.reshape(-1, 1)
        single = False
    x = x.reshape(1, dim) if single else x
    if x.ndim != 2 or x.shape[1] != dim:
        raise ValueError(f"records of shape {np.shape(records)} do not have {dim} columns")
    bad = ~np.isfinite(x).all(axis=1)
    if bad.any():
        x[bad] = 0.0
    return x, single


def plain(records: Any, dim: int) -> Array:
    """The records as a (users, dim) array to be read alone: the caller's own where it is one already, NaN and infinity as they are."""
    if isinstance(records, np.ndarray) and records.ndim == 2 and records.dtype == np.float64 and records.shape[1] == dim:
        return records
    return rows(records, dim)[0]


def numbers(records: Any, users: int) -> Array:
    """One number a user, shape (users,), NaN and infinity read as 0."""
    y = np.array(records, dtype=float).reshape(-1)
    if y.size != users:
        raise ValueError(f"{y.size} numbers for {users} users")
    y[~np.isfinite(y)] = 0.0
    return y


def clip_l2(x: Array, radius: float) -> tuple[Array, Array]:
    """Rows of ``x`` scaled into the l2 ball, in place, and their norms afterwards, as plain numbers (a channel that needs a direction or a
    share of the radius takes them from :mod:`dpspec.numeric.norms`, where subnormal norms keep their accuracy)."""
    norms = np.minimum(lengths(x).values, radius)
    return clip_rows(x, radius), norms


def clip_cube(x: Array, radius: float) -> Array:
    """sign(v)*min(|v|, radius), coordinate by coordinate."""
    return np.clip(x, -radius, radius)


def message_bits(channel: Mechanism) -> int:
    """How many bits one report has, 64 for every number that is not from a finite set. What a user is asked (its batch, its question) is
    public and no part of it."""
    k, size = getattr(channel, "k", 0), channel.size
    match channel.kind:
        case "one-bit-mean" | "binary-response":
            return 1
        case "kary-response":
            return max(1, (k - 1).bit_length())
        case "hadamard-response":
            return max(1, k.bit_length())  # one of the next power of two above k
        case "subset-selection" | "cube" | "symmetric-unary-encoding" | "optimised-unary-encoding":
            return size  # a bit for every category, or for every coordinate
        case "sampled-coordinate":
            return (size - 1).bit_length() + 1  # which coordinate, and its sign
        case "genprot":
            return max(1, (getattr(channel, "length", 2) - 1).bit_length())
        case _:
            return 64 * size


def block_rows(dim: int, numbers_in_block: int = 1 << 20) -> int:
    """How many records of ``dim`` numbers to treat at a time."""
    return max(1, numbers_in_block // max(1, dim))
