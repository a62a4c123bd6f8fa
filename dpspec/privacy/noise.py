"""Sources of randomness: one for studies, one for releases, one for public objects.

* :class:`StudyNoise` is seeded and fast: the same (seed, path) gives the same numbers whatever engine runs and however many workers.
* :class:`SecureNoise` is for private data: bytes come from a stream cipher keyed by the operating system (:mod:`dpspec.privacy.entropy`),
  it takes no seed, and noise that is added to a private number goes through an exact integer sampler (:mod:`dpspec.privacy.exact`), so no
  floating-point artefact of the noise reaches the output (Mironov 2012 shows what plain floating-point Laplace noise gives away).
* :class:`PublicRandomness` makes public objects (projections, hashes). Its seed is part of the record.

The grid. ``add_gaussian`` and ``add_laplace`` of the secure source work on multiples of a power of two g, chosen from public numbers
only: the sensitivity, the scale and how many numbers ``dim`` one release holds. Each coordinate of the private value is rounded to a
multiple of g, which moves a value by at most g/2 and so the difference of two neighbours by at most g*sqrt(dim) (l2) or g*dim (l1).
With that excess at most 2^-26 of the sensitivity, the noise is scaled up by 1 + 2^-24 and to a whole number of steps; the rest of the
slack covers the rounding of norms and quotients in a clip. The sum is an integer until the last step, and its conversion to a float is
post-processing.

* Laplace: the integer noise has P(z) proportional to exp(-|z|*g/b), so the likelihood ratio of two neighbours is at most
  exp(l1 distance/b): exactly the claim, no tail term.
* Gaussian: the discrete Gaussian satisfies the same concentrated bound as the continuous one (Canonne, Kamath, Steinke 2020, Theorem
  4). Its total-variation distance from a continuous Gaussian rounded to the grid (exactly mu-GDP, as post-processing) is at most
  about dim*(g/scale)^2/40 <= 2^-57, because within a cell the linear term of the density cancels; that is the only thing to add to delta.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Any, Literal, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from dpspec.numeric.norms import directions
from dpspec.privacy import exact
from dpspec.privacy.entropy import drawn_ahead

Array: TypeAlias = npt.NDArray[np.float64]
Bools: TypeAlias = npt.NDArray[np.bool_]
Integers: TypeAlias = npt.NDArray[np.int64]
Size: TypeAlias = int | tuple[int, ...]

_GRID_SHARE = 26  # the excess of rounding is at most 2^-26 of the sensitivity
_INFLATE = 1.0 + 2.0**-24
_LIMIT = 2.0**61


class NoiseSource(Protocol):
    """What mechanisms and channels draw from. ``add_*`` are the methods for noise that hides a private value."""

    @property
    def secure(self) -> bool: ...

    def add_gaussian(self, values: Array, scale: float, *, sensitivity: float, dim: int) -> Array:
        """``values`` plus independent N(0, scale^2) noise. One release holds ``dim`` numbers and has l2 sensitivity ``sensitivity``."""
        ...

    def add_laplace(self, values: Array, scale: float, *, sensitivity: float, dim: int) -> Array:
        """``values`` plus independent Laplace(scale) noise. One release holds ``dim`` numbers, of l1 sensitivity ``sensitivity``."""
        ...

    def gaussian(self, scale: float, size: Size) -> Array: ...

    def laplace(self, scale: float, size: Size) -> Array: ...

    def discrete_gaussian(self, scale: float, size: Size) -> Integers:
        """P(z) proportional to exp(-z^2/(2 scale^2)) on the integers."""
        ...

    def discrete_laplace(self, scale: float, size: Size) -> Integers:
        """P(z) proportional to exp(-|z|/scale) on the integers."""
        ...

    def gumbel(self, scale: float, size: Size) -> Array: ...

    def exponential(self, scale: float, size: Size) -> Array: ...

    def gamma(self, shape: int, scale: float, size: Size) -> Array:
        """The sum of ``shape`` independent exponentials of mean ``scale``."""
        ...

    def binomial(self, n: Integers, p: float | Fraction, size: Size) -> Integers:
        """Heads among n coins, entry by entry; the coins of :meth:`bernoulli`."""
        ...

    def uniform(self, size: Size) -> Array:
        """On [0, 1)."""
        ...

    def bernoulli(self, p: float | Fraction | Array, size: Size) -> Bools:
        """True with probability p. The secure source rounds p toward 1/2, in steps of 2^-64."""
        ...

    def bernoulli_exp(self, t: Array) -> Bools:
        """True with probability exp(-t), t >= 0, one trial an entry; exact in the secure source."""
        ...

    def keep(self, epsilon: float, size: Size) -> Bools:
        """True with probability e^epsilon/(1 + e^epsilon); the secure source never exceeds it."""
        ...

    def sign(self, size: Size) -> Array:
        """+1 or -1, each with probability 1/2."""
        ...

    def integers(self, high: int, size: Size) -> Integers:
        """Uniform on 0 .. high - 1."""
        ...

    def permutation(self, n: int) -> Integers: ...

    def directions(self, count: int, dim: int) -> Array:
        """``count`` independent uniform points of the unit sphere, shape (count, dim); u and -u are exactly equally likely."""
        ...


def keep_threshold(epsilon: float) -> int:
    """t such that a uniform 64-bit integer lies below t with a probability p <= e^epsilon/(1 + e^epsilon), and p >= 1/2.

    p = 1/2 + tanh(epsilon/2)/2. The hyperbolic tangent is taken down by 2^-48 of itself, more than its rounding, before it is cut to
    64 bits, so p/(1 - p) <= e^epsilon always.
    """
    if not epsilon >= 0:
        raise ValueError("epsilon must be at least 0")
    excess = math.tanh(epsilon / 2.0) * (1.0 - 2.0**-48)
    return 2**63 + math.floor(math.ldexp(excess, 63))


def down(p: float) -> Fraction:
    """The probability p, which carries a few rounding errors, cut by 2^-48 of itself and then to 64 bits: never above the true one, and a
    probability that every source uses as it is."""
    return Fraction(math.floor(Fraction(p) * (2**48 - 1) / 2**48 * 2**64), 2**64)


def _count(size: Size) -> int:
    return int(size) if isinstance(size, int | np.integer) else math.prod(size)


def _check_scale(scale: float) -> None:
    if not (math.isfinite(scale) and scale > 0):
        raise ValueError(f"the noise scale must be positive and finite, not {scale!r}")


def _key(part: int | str) -> int:
    """A path element as an integer: numbers as they are, words by a stable hash."""
    if isinstance(part, str):
        import hashlib  # a tenth of the time in which a client starts

        return int.from_bytes(hashlib.blake2b(part.encode(), digest_size=8).digest(), "little")
    if part < 0:
        raise ValueError("path elements are not negative")
    return int(part)


class StudyNoise:
    """Seeded noise for synthetic and public data: a Philox stream of ``SeedSequence(seed, spawn_key=path)``.

    ``path`` names a cell of the study, say (point, trial, "release"); words are hashed. Never accepted by a release on private data.
    """

    __slots__ = ("_path", "_rng", "_seed")
    secure = False

    def __init__(self, seed: int, *path: int | str) -> None:
        self._seed = int(seed)
        self._path = path
        sequence = np.random.SeedSequence(self._seed, spawn_key=tuple(_key(part) for part in path))
        self._rng = np.random.Generator(np.random.Philox(sequence))

    def child(self, *path: int | str) -> StudyNoise:
        """A fresh stream below this one; independent of what has been drawn here."""
        return StudyNoise(self._seed, *self._path, *path)

    def bulk(self) -> StudyNoise:
        """Another stream each time, seeded from what is drawn here, for very many numbers: SFC64 takes two thirds of the time for each."""
        out = StudyNoise.__new__(StudyNoise)
        out._seed, out._path = self._seed, self._path
        out._rng = np.random.Generator(np.random.SFC64(self._rng.integers(0, 2**32, 8, dtype=np.uint32).tolist()))
        return out

    def add_gaussian(self, values: Array, scale: float, *, sensitivity: float, dim: int) -> Array:
        return np.asarray(values, dtype=float) + self.gaussian(scale, np.shape(values))

    def add_laplace(self, values: Array, scale: float, *, sensitivity: float, dim: int) -> Array:
        return np.asarray(values, dtype=float) + self.laplace(scale, np.shape(values))

    def gaussian(self, scale: float, size: Size) -> Array:
        _check_scale(scale)
        out: Array = np.asarray(self._rng.standard_normal(size))
        if scale != 1.0:
            out *= scale
        return out

    def laplace(self, scale: float, size: Size) -> Array:
        _check_scale(scale)
        return self._rng.laplace(0.0, scale, size)

    def discrete_gaussian(self, scale: float, size: Size) -> Integers:
        """Rejection from the discrete Laplace law (Canonne, Kamath, Steinke 2020, Algorithm 3), vectorised."""
        _check_scale(scale)
        t = math.floor(scale) + 1
        need = _count(size)
        found: list[Integers] = []
        while need > 0:
            y = self.discrete_laplace(float(t), 2 * need + 16)
            kept = y[self.bernoulli_exp((np.abs(y) - scale**2 / t) ** 2 / (2.0 * scale**2))][:need]
            found.append(kept)
            need -= kept.size
        return np.concatenate([*found, np.empty(0, dtype=np.int64)]).reshape(size)

    def discrete_laplace(self, scale: float, size: Size) -> Integers:
        """The difference of two independent geometric counts with ratio exp(-1/scale)."""
        _check_scale(scale)
        p = -math.expm1(-1.0 / scale)
        out: Integers = self._rng.geometric(p, size) - self._rng.geometric(p, size)
        return out

    def gumbel(self, scale: float, size: Size) -> Array:
        _check_scale(scale)
        return self._rng.gumbel(0.0, scale, size)

    def exponential(self, scale: float, size: Size) -> Array:
        _check_scale(scale)
        return self._rng.standard_exponential(size) * scale

    def gamma(self, shape: int, scale: float, size: Size) -> Array:
        _check_scale(scale)
        return self._rng.standard_gamma(shape, size) * scale

    def binomial(self, n: Integers, p: float | Fraction, size: Size) -> Integers:
        out: Integers = np.asarray(self._rng.binomial(n, float(p), size), dtype=np.int64)
        return out

    def uniform(self, size: Size) -> Array:
        return self._rng.random(size)

    def bernoulli(self, p: float | Fraction | Array, size: Size) -> Bools:
        chance = float(p) if isinstance(p, Fraction) else p
        out: Bools = self._rng.random(size) < chance
        return out

    def bernoulli_exp(self, t: Array) -> Bools:
        out: Bools = self._rng.random(np.shape(t)) < np.exp(-np.asarray(t, dtype=float))
        return out

    def keep(self, epsilon: float, size: Size) -> Bools:
        return self.bernoulli(keep_threshold(epsilon) / 2.0**64, size)

    def sign(self, size: Size) -> Array:
        return self._rng.integers(0, 2, size).astype(float) * 2.0 - 1.0

    def integers(self, high: int, size: Size) -> Integers:
        return self._rng.integers(0, high, size)

    def permutation(self, n: int) -> Integers:
        return self._rng.permutation(n)

    def directions(self, count: int, dim: int) -> Array:
        """Normalised Gaussian vectors. The generator draws the sign of a normal apart from its size, so u and -u are equally likely."""
        out = self._rng.standard_normal((count, dim))
        return _normalise(out, lambda: self._rng.standard_normal(dim))


def _normalise(rows: Array, again: Any) -> Array:
    """Each row over its l2 norm; a row of zeros (probability 0 on paper) is drawn again."""
    out, found = directions(rows)
    for i in np.flatnonzero(found.part == 0):
        while not out[i].any():
            out[i] = directions(again()[None, :])[0][0]
    return out


class SecureNoise:
    """Cryptographic randomness keyed by the operating system; no seed, no repetition. See the module for the grid and its proof.

    ``gaussian`` and ``laplace`` return grid noise, for use where no private value is added to it. ``gumbel``, ``exponential`` and
    ``uniform`` are plain floats made from random bytes: they must not perturb private scores, and no mechanism here uses them for
    that (selection goes through ``bernoulli_exp``, which is exact, or through discrete noise).
    """

    __slots__ = ()
    secure = True

    def add_gaussian(self, values: Array, scale: float, *, sensitivity: float, dim: int) -> Array:
        return self._add(values, scale, sensitivity, math.sqrt(dim), "gaussian")

    def add_laplace(self, values: Array, scale: float, *, sensitivity: float, dim: int) -> Array:
        return self._add(values, scale, sensitivity, float(dim), "laplace")

    def _add(self, values: Array, scale: float, sensitivity: float, spread: float, kind: Literal["gaussian", "laplace"]) -> Array:
        value = np.asarray(values, dtype=float)
        largest = float(np.maximum.reduce(np.abs(value), axis=None, initial=0.0))
        if not math.isfinite(largest):
            raise ValueError("a private value is not finite; nothing is released")
        exponent, steps = _grid(scale, sensitivity, spread)
        noise = _grid_noise(kind, steps, value.shape)
        if math.frexp(largest)[1] - exponent <= 60 and abs(exponent) < 1000:
            total = np.rint(value * 2.0**-exponent).astype(np.int64)
            total += noise
            held: Array = total.astype(float)
            held *= 2.0**exponent  # a power of two: exact, as `ldexp` is
            return held
        with np.errstate(over="ignore"):
            scaled = np.rint(np.ldexp(value, -exponent))
        if value.size == 0 or float(np.max(np.abs(scaled))) < _LIMIT:
            total = scaled.astype(np.int64) + noise
            out: Array = np.ldexp(total.astype(float), exponent)
            return out
        if not np.isfinite(scaled).all():
            raise ValueError("a private value is too large for the noise grid; clip it to its declared domain first")
        sums = [int(a) + int(b) for a, b in zip(scaled.ravel().tolist(), noise.ravel().tolist(), strict=True)]
        return np.array([math.ldexp(float(a), exponent) for a in sums]).reshape(value.shape)

    def gaussian(self, scale: float, size: Size) -> Array:
        return self.add_gaussian(np.zeros(size), scale, sensitivity=scale, dim=1)

    def laplace(self, scale: float, size: Size) -> Array:
        return self.add_laplace(np.zeros(size), scale, sensitivity=scale, dim=1)

    def discrete_gaussian(self, scale: float, size: Size) -> Integers:
        return _exact_noise("gaussian", scale, size)

    def discrete_laplace(self, scale: float, size: Size) -> Integers:
        return _exact_noise("laplace", scale, size)

    def gumbel(self, scale: float, size: Size) -> Array:
        _check_scale(scale)
        return -np.log(-np.log(self._open_uniform(size))) * scale

    def exponential(self, scale: float, size: Size) -> Array:
        _check_scale(scale)
        return -np.log(self._open_uniform(size)) * scale

    def gamma(self, shape: int, scale: float, size: Size) -> Array:
        _check_scale(scale)
        n, total = _count(size), np.zeros(_count(size))
        for rows in _blocks(shape, max(1, 1_000_000 // max(1, n))):
            total -= np.log(self._open_uniform((rows, n))).sum(axis=0)
        return (total * scale).reshape(size)

    def binomial(self, n: Integers, p: float | Fraction, size: Size) -> Integers:
        trials = np.broadcast_to(np.asarray(n, dtype=np.int64), size)
        heads = [int(self.bernoulli(p, int(count)).sum()) for count in trials.ravel()]
        return np.array(heads, dtype=np.int64).reshape(size)

    def uniform(self, size: Size) -> Array:
        out: Array = (exact.words(_count(size)) >> np.uint64(11)).astype(float) * 2.0**-53
        return out.reshape(size)

    def _open_uniform(self, size: Size) -> Array:
        """On (0, 1), symmetric about 1/2."""
        return self.uniform(size) + 2.0**-54

    def bernoulli(self, p: float | Fraction | Array, size: Size) -> Bools:
        words = exact.words(_count(size)).reshape(size)
        if isinstance(p, np.ndarray):
            if not ((p >= 0) & (p <= 1)).all():
                raise ValueError("a probability lies outside [0, 1]")
            # beyond 1/2 round down, below it up; 2^-53 steps are exact in a float
            steps = np.where(p > 0.5, np.floor(np.ldexp(p, 53)), np.ceil(np.ldexp(p, 53))).astype(np.uint64)
            out: Bools = (words >> np.uint64(11)) < steps
            return out
        chance = Fraction(p)
        if not 0 <= chance <= 1:
            raise ValueError("a probability lies outside [0, 1]")
        return _below(words, math.floor(chance * 2**64) if chance > Fraction(1, 2) else math.ceil(chance * 2**64))

    def bernoulli_exp(self, t: Array) -> Bools:
        """Exact: see :func:`dpspec.privacy.exact.bernoulli_exp`."""
        t = np.asarray(t, dtype=float)
        return exact.bernoulli_exp(t.ravel()).reshape(t.shape)

    def keep(self, epsilon: float, size: Size) -> Bools:
        return _below(exact.words(_count(size)).reshape(size), keep_threshold(epsilon))

    def sign(self, size: Size) -> Array:
        return exact.signs(_count(size)).astype(float).reshape(size) * 2.0 - 1.0

    def integers(self, high: int, size: Size) -> Integers:
        """By rejection, so exactly uniform."""
        return exact.uniform_below(high, _count(size)).reshape(size)

    def permutation(self, n: int) -> Integers:
        """Fisher and Yates with exactly uniform choices."""
        import secrets

        order = list(range(n))
        for i in range(n - 1, 0, -1):
            j = secrets.randbelow(i + 1)
            order[i], order[j] = order[j], order[i]
        return np.array(order, dtype=np.int64)

    def directions(self, count: int, dim: int) -> Array:
        """Normalised normals (Box and Muller on random bytes), times a fair sign a row, so u and -u are exactly equally likely.

        Plain floats are safe here: a direction is drawn without looking at any record and is published or reflected as a whole.
        """
        out = self._normals((count, dim))
        return _normalise(out, lambda: self._normals((1, dim))[0]) * self.sign((count, 1))

    def _normals(self, size: tuple[int, ...]) -> Array:
        n = math.prod(size)
        half = (n + 1) // 2
        radius = np.sqrt(-2.0 * np.log(self._open_uniform(half)))
        angle = 2.0 * math.pi * self.uniform(half)
        return np.concatenate([radius * np.cos(angle), radius * np.sin(angle)])[:n].reshape(size)


def grid_exponent(scale: float, sensitivity: float, spread: float) -> int:
    """e such that the grid g = 2^e has g*spread <= 2^-26*min(scale, sensitivity). ``spread``: sqrt(dim) for l2, dim for l1."""
    fine = min(scale, sensitivity) / max(spread, 1.0)
    if fine < 2.0**-900:
        raise ValueError("the sensitivity is too small to represent")
    return math.frexp(fine)[1] - 1 - _GRID_SHARE


def grid_steps(scale: float, exponent: int) -> int:
    """The scale of the integer noise on the grid 2^``exponent``. Raises ``ValueError`` where it does not fit the samplers."""
    share = scale * _INFLATE
    steps = math.ldexp(share, -exponent) if math.frexp(share)[1] - exponent <= 60 else math.inf
    if not steps < 2.0**53:
        raise ValueError("the noise is too large for its grid: scale/sensitivity or the dimension is out of range")
    return math.ceil(steps)


@lru_cache(maxsize=256)
def _grid(scale: float, sensitivity: float, spread: float) -> tuple[int, int]:
    """The exponent of the grid and the steps of the noise on it."""
    _check_scale(scale)
    _check_scale(sensitivity)
    exponent = grid_exponent(scale, sensitivity, spread)
    return exponent, grid_steps(scale, exponent)


def add_rounded(values: Array, draw: Array, step: float, noise: NoiseSource) -> Array:
    """``values + draw`` for a continuous draw that has no exact grid sampler (Gamma lengths, Wishart matrices).

    Secure source: both are rounded to multiples of one public power of two, at most 2^-26 of the public number ``step``, and added as
    integers, so the low-order bits of the sum tell nothing about the value. What remains is that the draw itself was computed in
    floating point: its law on the grid is right up to relative errors of about 2^-20 a cell, a bound that is argued, not proved.
    """
    if not noise.secure:
        return np.asarray(values, dtype=float) + draw
    exponent = math.frexp(step)[1] - 1 - _GRID_SHARE
    with np.errstate(over="ignore"):
        a, b = np.rint(np.ldexp(np.asarray(values, dtype=float), -exponent)), np.rint(np.ldexp(draw, -exponent))
    if max(float(np.max(np.abs(a), initial=0.0)), float(np.max(np.abs(b), initial=0.0))) < _LIMIT:
        out: Array = np.ldexp((a.astype(np.int64) + b.astype(np.int64)).astype(float), exponent)
        return out
    if not (np.isfinite(a).all() and np.isfinite(b).all()):
        raise ValueError("a private value is too large for the noise grid; clip it to its declared domain first")
    sums = [int(u) + int(v) for u, v in zip(a.ravel().tolist(), b.ravel().tolist(), strict=True)]
    return np.array([math.ldexp(float(s), exponent) for s in sums]).reshape(a.shape)


def _below(words: npt.NDArray[np.uint64], threshold: int) -> Bools:
    if threshold >= 2**64:
        return np.ones(words.shape, dtype=bool)
    out: Bools = words < np.uint64(threshold)
    return out


_SAMPLERS: dict[str, Callable[[float, int], Integers]] = {"gaussian": exact.discrete_gaussian, "laplace": exact.discrete_laplace}
#: Numbers that are drawn at once where a law is asked for again, twice as many each time: a call costs some fifty steps of NumPy, whatever
#: its size.
_AHEAD, _AHEAD_AT_MOST = 1024, 1 << 15
#: Laws of which a process keeps numbers for later.
_LAWS = 64


def _exact_noise(kind: str, scale: float, size: Size) -> Integers:
    """Discrete noise by the exact samplers. Of a law that was asked for before, numbers are drawn ahead and each is handed out once; they
    are kept with the stream of random bytes, so that no process that ``fork`` makes has its parent's."""
    _check_scale(scale)
    n = _count(size)
    sampler = _SAMPLERS[kind]
    kept = drawn_ahead()
    key = (kind, scale)
    if n > _AHEAD_AT_MOST // 2 or key not in kept:
        if len(kept) >= _LAWS:
            kept.clear()
        kept.setdefault(key, (np.empty(0, dtype=np.int64), _AHEAD))
        return sampler(scale, n).reshape(size)
    left, more = kept[key]
    if left.size < n:
        left, more = sampler(scale, max(more, n)), min(2 * more, _AHEAD_AT_MOST)
    kept[key] = (left[n:], more)
    out: Integers = left[:n].reshape(size).copy()
    return out


def _grid_noise(kind: Literal["gaussian", "laplace"], steps: int, shape: tuple[int, ...]) -> Integers:
    return _exact_noise(kind, steps, shape)


def _blocks(n: int, most: int) -> Sequence[int]:
    return [min(most, n - start) for start in range(0, n, most)]


class PublicRandomness:
    """Seeded randomness for public objects (projection matrices, hash functions), apart from all noise. What it made is recorded.

    Each object depends on (seed, name) alone, so a reader of the record can rebuild it.
    """

    __slots__ = ("_made", "seed")

    def __init__(self, seed: int) -> None:
        self.seed = int(seed)
        self._made: list[dict[str, object]] = []

    def generator(self, name: str, *path: int | str) -> np.random.Generator:
        """A generator for the object ``name``; the request is recorded."""
        self._made.append({"name": name, "path": list(path), "seed": self.seed})
        sequence = np.random.SeedSequence(self.seed, spawn_key=(_key("public"), _key(name), *(_key(part) for part in path)))
        return np.random.Generator(np.random.Philox(sequence))

    def gaussian_matrix(self, name: str, rows: int, columns: int) -> Array:
        """Independent standard normal entries."""
        return self.generator(name).standard_normal((rows, columns))

    def sign_matrix(self, name: str, rows: int, columns: int) -> Array:
        """Independent fair signs."""
        return self.generator(name).integers(0, 2, (rows, columns)).astype(float) * 2.0 - 1.0

    def record(self) -> list[dict[str, object]]:
        return [dict(entry) for entry in self._made]
