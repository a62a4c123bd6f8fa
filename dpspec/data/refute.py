"""Tests of assumptions on a sample: what a simulated law, or public records, refute.

Each procedure takes records and the constants that an author declares, and returns the reason why the declaration is false, or None. It
never confirms: None is "not refuted". A direction, a coordinate or a pair that looks worst is *chosen* on one half of the records and
*judged* on the other, so that the judgement is about one fixed quantity and the choice costs no level:

- a mean is judged by its distance from what is declared in standard errors, :data:`STANDARD_ERRORS` of them (2.9e-7 for a normal mean), and
  more where the numbers are skewed (:func:`_beyond`);
- a probability is judged by the exact binomial tail at :data:`LEVEL`;
- what may never happen (noise beyond its bound, a sparse vector with too many entries) is refuted by one case.

A declared assumption that is true is called false with probability at most about :data:`LEVEL` a quantity. Where tails are heavy the
standard error is itself an estimate, and a mean that is too small by luck has a small one: that errs to silence for upper bounds, and for
lower ones more is asked for where few large numbers carry the spread. Records have to be independent draws for any of it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[np.float64]

STANDARD_ERRORS: Final = 5.0
LEVEL: Final = 1e-6
#: From this share of sqrt(n) on, the skewness of n numbers says that a few of them may decide their mean.
SKEWED: Final = 0.1
#: Numbers that were not seen reach this many times as far as those that were.
RANGE: Final = 4.0
#: Where n numbers are all the same, others reach this many times as far as they or as what is declared of their mean.
OF_ONE_VALUE: Final = 100.0
#: Coordinates of a record that the tests look at, the first ones: eigenvalues of a principal submatrix lie between those of the whole.
WIDEST: Final = 256


@dataclass(frozen=True, slots=True)
class Sample:
    """Records of a law: ``x`` (n, d), ``y`` (n,) or None, the law's ``parameters`` by name, and the model's ``noise`` (n,) where it is
    known."""

    x: Array
    y: Array | None
    parameters: Mapping[str, Any]
    noise: Array | None = None

    def of(self, name: str | None) -> Array | None:
        """The rows that a statement ``of name`` speaks of, (n, columns); None where the sample does not show them."""
        if name in ("x", "public"):
            return self.x[:, :WIDEST]
        rows = self.y if name == "y" else self.noise if name == "noise" else None
        return None if rows is None else rows[:, None]


class Unseen(Exception):
    """The sample does not show what the statement is about: nothing was tested."""


def _halves(v: Array) -> tuple[Array, Array]:
    return v[0::2], v[1::2]


def _beyond(values: Array, *, above: float | None = None, below: float | None = None) -> float | None:
    """The mean of ``values`` where it lies beyond what is declared by more than chance; None otherwise.

    Mean and standard error of skewed numbers err together: of numbers with a tail to the right a mean that is too small has a standard
    error that is too small. To first order the quantile z of such a mean moves by (2 z^2 + 1) skew/(6 sqrt(n)) (the Cornish-Fisher term of
    a studentised mean; P. Hall, The Bootstrap and Edgeworth Expansion, 1992, section 2.6), which is added on that side. Where skewness is
    so large that this is no small term (:data:`SKEWED`), the room is that of Maurer and Pontil's empirical Bernstein bound (COLT 2009,
    Theorem 4) for numbers whose range is :data:`RANGE` times the one that was seen. A guess of the range is needed: what happens with a
    small probability may have any weight, and no sample refutes a lower bound of a mean without one."""
    n, mean = len(values), float(values.mean())
    if n < 100 or not math.isfinite(mean):
        return None
    deviation = float(values.std(ddof=1))
    skew = float((((values - mean) / deviation) ** 3).mean()) / math.sqrt(n) if deviation > 0 else 0.0

    log = math.log(2 / LEVEL)

    def room(tail: float) -> float:
        if not deviation > 0:  # others are a share of log/n at most
            return log * OF_ONE_VALUE * max(abs(mean), abs(above or 0.0), abs(below or 0.0)) / n
        if not tail < SKEWED:
            return deviation * math.sqrt(2 * log / n) + 7 * log * RANGE * float(np.ptp(values)) / (3 * (n - 1))
        errors = STANDARD_ERRORS + (2 * STANDARD_ERRORS**2 + 1) / 6 * max(tail, 0.0)
        return errors * deviation / math.sqrt(n) + 1e-12 * max(abs(mean), 1e-300)

    if (above is not None and mean - room(-skew) > above) or (below is not None and mean + room(skew) < below):
        return mean
    return None


def _extremes(half: Array) -> tuple[Array, Array]:
    """Directions of the least and the largest variance."""
    centred = half - half.mean(axis=0)
    _, vectors = np.linalg.eigh(centred.T @ centred / len(half))
    return vectors[:, 0], vectors[:, -1]


def eigenvalues(rows: Array, least: float, most: float) -> str | None:
    """The covariance has its eigenvalues in [least, most]: the variance along any direction lies between them."""
    first, second = _halves(rows)
    low, high = _extremes(first)
    squares = [((second @ u) - float((second @ u).mean())) ** 2 * (len(second) / (len(second) - 1)) for u in (low, high)]
    found = _beyond(squares[0], below=least)
    if found is not None:
        return f"along one direction the variance is {found:.4g}, below {least:g}"
    found = _beyond(squares[1], above=most)
    if found is not None:
        return f"along one direction the variance is {found:.4g}, above {most:g}"
    found = _beyond(squares[1], below=least)
    return None if found is None else f"along one direction the variance is {found:.4g}, below {least:g}"


def isotropic(rows: Array) -> str | None:
    """The covariance is the identity."""
    return eigenvalues(rows, 1.0, 1.0)


def eigengap(rows: Array, gap: float) -> str | None:
    """Two eigenvalues that follow each other are ``gap`` apart: by Weyl's inequality no gap of the covariance is larger than the sample's
    plus twice the error of the sample's covariance, which is taken as the distance of those of the two halves."""
    if rows.shape[1] < 2 or rows.shape[1] == WIDEST:  # of a submatrix gaps say nothing
        raise Unseen
    first, second = (np.atleast_2d(np.cov(h, rowvar=False)) for h in _halves(rows))
    values = np.linalg.eigvalsh((first + second) / 2)
    largest, error = float(np.diff(values).max()), float(np.abs(np.linalg.eigvalsh(first - second)).max())
    return None if largest + 2 * error >= gap else f"no two neighbouring eigenvalues are further apart than {largest + 2 * error:.4g}"


def _tails(rows: Array, chance: Callable[[float], float], grid: tuple[float, ...], scale: float) -> str | None:
    """Too many records beyond t*scale, for a law under which a share ``chance(t)`` may be."""
    from scipy.special import bdtrc

    first, second = _halves(rows)
    fourth = (first - first.mean(axis=0)) ** 4
    directions = [np.eye(rows.shape[1])[int(fourth.mean(axis=0).argmax())]]
    if rows.shape[1] > 1:
        directions += [_extremes(first)[1]]
    for u in directions:
        along = np.abs(second @ u)
        for t in grid:
            p = min(1.0, chance(t))
            seen = int(np.count_nonzero(along > t * scale))
            if seen and float(bdtrc(seen - 1, len(along), p)) < LEVEL / (len(directions) * len(grid)):
                return (
                    f"{seen} of {len(along):,} records are beyond {t * scale:.4g} along one direction, where at most {p:.2g} of them may be"
                )
    return None


def _too_wide(rows: Array, s: float) -> str | None:
    first, second = _halves(rows)
    moments = first.T @ first / len(first)
    u = np.linalg.eigh(moments)[1][:, -1]
    found = _beyond((second @ u) ** 2, above=s * s)
    return None if found is None else f"along one direction the second moment is {found:.4g}, above {s * s:.4g}"


def sub_gaussian(rows: Array, s: float) -> str | None:
    """E exp(<u, x>) <= exp(s^2/2 |u|^2): means are 0, second moments at most s^2, and P(|<u, x>| > t s) <= 2 exp(-t^2/2)."""
    return centred(rows) or _too_wide(rows, s) or _tails(rows, lambda t: 2 * math.exp(-t * t / 2), (2.0, 3.0, 4.0, 5.0, 6.5), s)


def sub_exponential(rows: Array, s: float) -> str | None:
    """The same for |u| <= 1/s: P(|<u, x>| > t s) <= 2 exp(1/2 - t)."""
    return centred(rows) or _too_wide(rows, s) or _tails(rows, lambda t: 2 * math.exp(0.5 - t), (3.0, 5.0, 8.0, 12.0, 20.0), s)


def moment(rows: Array, order: float, bound: float) -> str | None:
    """E |x_j|^order <= bound for every coordinate."""
    first, second = _halves(np.abs(rows))
    with np.errstate(over="ignore"):
        j = int((first**order).mean(axis=0).argmax())
        found = _beyond(second[:, j] ** order, above=bound)
    return None if found is None else f"of coordinate {j + 1} the moment of order {order:g} is {found:.4g}, above {bound:g}"


def centred(rows: Array) -> str | None:
    """The mean is 0."""
    first, second = _halves(rows)
    mean = first.mean(axis=0)
    length = float(np.linalg.norm(mean))
    if not 0 < length < math.inf:
        return None
    found = _beyond(second @ (mean / length), above=0.0)
    return None if found is None else f"along one direction the mean is {found:.4g}"


def symmetric(rows: Array) -> str | None:
    """x and -x have one law: every odd function has mean 0. Judged on tanh of the centred rows' third moment, too."""
    if (reason := centred(rows)) is not None:
        return reason
    scale = float(np.median(np.abs(rows))) or 1.0
    odd = np.tanh(rows / scale) ** 3
    return None if centred(odd) is None else "an odd function of the record has a mean other than 0"


def incoherence(rows: Array, most: float) -> str | None:
    """Two coordinates correlate by at most ``most`` in absolute value."""
    first, second = _halves(rows)
    if rows.shape[1] < 2:
        return None
    with np.errstate(invalid="ignore", divide="ignore"):
        seen: Array = np.atleast_2d(np.nan_to_num(np.corrcoef(first, rowvar=False)))
    np.fill_diagonal(seen, 0.0)
    i, j = (int(v) for v in np.unravel_index(int(np.abs(seen).argmax()), seen.shape))
    a, b = (second[:, k] - second[:, k].mean() for k in (i, j))
    spread = float(a.std() * b.std())
    found = None if spread == 0 else _beyond(np.sign(seen[i, j]) * a * b / spread, above=most)
    return None if found is None else f"coordinates {min(i, j) + 1} and {max(i, j) + 1} correlate by {found:.4g}, above {most:g}"


def rip(rows: Array, delta: float) -> str | None:
    """(1 - delta) |w|^2 <= E <w, x>^2 <= (1 + delta) |w|^2, judged along single coordinates, which are sparse for every k"""
    first, second = _halves(rows**2)
    means = first.mean(axis=0)
    for j, limit in ((int(means.argmin()), {"below": 1 - delta}), (int(means.argmax()), {"above": 1 + delta})):
        found = _beyond(second[:, j], **limit)
        if found is not None:
            return f"the mean square of coordinate {j + 1} is {found:.4g}"
    return None


def restricted_eigenvalue(rows: Array, least: float) -> str | None:
    """E <w, x>^2 >= m |w|^2, judged along single coordinates, which are sparse for every k"""
    first, second = _halves(rows**2)
    j = int(first.mean(axis=0).argmin())
    found = _beyond(second[:, j], below=least)
    return None if found is None else f"the mean square of coordinate {j + 1} is {found:.4g}, below {least:g}"


def small_ball(rows: Array, p: float, r: float) -> str | None:
    """P(|<u, x>| >= r) >= p for every unit u, judged along the direction of the least variance."""
    from scipy.special import bdtr

    first, second = _halves(rows)
    along = np.abs(second @ _extremes(first)[0])
    seen = int(np.count_nonzero(along >= r))
    if p <= 0 or float(bdtr(seen, len(along), min(p, 1.0))) >= LEVEL or seen >= p * len(along):
        return None
    return f"along one direction {seen} of {len(along):,} records reach {r:g}, a share below {p:g}"


def margin(sample: Sample, least: float) -> str | None:
    """y <w, x>/|w| >= least for every record, at the law's own w."""
    w = next((np.asarray(sample.parameters[k], dtype=np.float64) for k in ("theta", "w") if k in sample.parameters), None)
    if w is None or sample.y is None or w.shape != (sample.x.shape[1],) or not np.linalg.norm(w) > 0:
        raise Unseen
    margins = sample.y * (sample.x @ w) / float(np.linalg.norm(w))
    short = int(np.count_nonzero(margins < least * (1 - 1e-9)))
    return None if not short else f"{short} of {len(margins):,} records have a smaller margin, the least {float(margins.min()):.4g}"


def sparse(sample: Sample, k: float) -> str | None:
    """The law's theta has at most k entries that are not 0."""
    theta = sample.parameters.get("theta")
    if theta is None or np.ndim(theta) != 1:
        raise Unseen
    found = int(np.count_nonzero(theta))
    return None if found <= k else f"theta has {found} entries that are not 0"


def noise_bounded(sample: Sample, most: float) -> str | None:
    """No record's noise exceeds ``most``."""
    if sample.noise is None:
        raise Unseen
    found = float(np.abs(sample.noise).max())
    return None if found <= most * (1 + 1e-9) + 1e-12 else f"one record's noise is {found:.4g}"


#: Procedures on the rows that a statement speaks of, and on the whole sample, by the names of the registry.
ON_ROWS: Final[Mapping[str, Callable[..., str | None]]] = {
    f.__name__: f
    for f in (
        eigenvalues,
        isotropic,
        eigengap,
        sub_gaussian,
        sub_exponential,
        moment,
        centred,
        symmetric,
        incoherence,
        rip,
        restricted_eigenvalue,
        small_ball,
    )
}
ON_SAMPLE: Final[Mapping[str, Callable[..., str | None]]] = {f.__name__: f for f in (margin, sparse, noise_bounded)}
