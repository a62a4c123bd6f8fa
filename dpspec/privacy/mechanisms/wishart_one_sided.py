"""One-sided Wishart noise: positive semi-definite, (epsilon, delta)-DP, and never pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np

from dpspec.privacy.mechanisms.protocol import Drawn, check_level, check_positive
from dpspec.privacy.mechanisms.symmetric import Neighbours, check_square
from dpspec.privacy.noise import Array, NoiseSource, add_rounded
from dpspec.privacy.schedule import Family, Norm

_MARGIN = 1e-7  # share of delta kept back for the rounding of two incomplete gamma functions
_BLURRED = 1e-4  # share of delta kept back for noise that is too short in some direction to hide the rounding of M


def tail_delta(q: int, c: float, epsilon: float, neighbours: Neighbours = "replace-one") -> float:
    """A proved bound of the delta at ``epsilon`` of M + W_d(d - 1 + q, c*B^2*I) when one record v v^T of M, |v| <= B, is replaced by
    another one (or appears, or disappears); q > 2 and c >= 1/(2*epsilon).

    Let B = 1. For records v and v' the loss at X = W + v v^T is
    (q-2)/2*[log(1 - v'X^-1v) - log(1 - v''X^-1v')] + (|v|^2 - |v'|^2)/(2c), with v'X^-1v the quadratic form. The first logarithm
    is <= 0. X >= W, so the second form is at most |v'|^2/(c*Q) with Q chi-square of q degrees. The loss is thus at most 1/(2c) +
    g(|v'|^2) with
    g(s) = -(q-2)/2*log(1 - s/(cQ)) - s/(2c), which is convex with g(0) = 0, so at most max(1/(2c), -(q-2)/2*log(1 - 1/(cQ))), infinite
    for Q <= 1/c. Hence delta <= E(1 - e^(epsilon - loss))_+ = F(Q*) - e^(epsilon - 1/(2c)) F(Q* - 1/c), F the law of Q and
    1/(c Q*) = 1 - e^(-2 epsilon/(q-2)). Without a record v (add-remove, zero-out) the bound is lower by 1/(2c).
    """
    from scipy.special import gammainc

    if q <= 2 or c * 2 * epsilon < 1 - 1e-12:
        return 1.0
    slack = 0.0 if neighbours == "replace-one" else 1 / (2 * c)
    edge = 1 / (c * -math.expm1(-2 * (epsilon + slack) / (q - 2)))
    inside = gammainc(q / 2, max(edge - 1 / c, 0.0) / 2)
    return float(gammainc(q / 2, edge / 2) - math.exp(epsilon + slack - 1 / (2 * c)) * inside)


@dataclass(frozen=True, slots=True)
class Blur:
    """Rounding of M: what neighbours' matrices differ by besides the two records' terms, G, which has full rank.

    ``size``: |G|_F before the noise's grid, in units of B^2; 0 stands for exact arithmetic. With it, the noise's grid of at most 2^-26 c a
    step counts, each of d^2 entries being off by half a step in both runs: |G|_F <= g = size + d*c*2^-26. ``kept``: a probability.

    As in :func:`tail_delta`, let B = 1. (W^-1)_jj is 1/(c*Q_j) with Q_j chi-square of q degrees, so, but for a probability of at most
    ``kept``, all Q_j are at least y = F^-1(kept/d) and |G|_F*tr(W^-1) <= h = g*d/(c*y). Let h < 1. Then A = W^-1/2 G W^-1/2 has
    nuclear norm at most |G|_F*|W^-1|_F <= h, so W + G >= (1 - h)W and log det W - log det(W + G) <= h/(1 - h). The loss of W against
    W + G + v v^T - v'v'^T is thus at most (q-2)/2*h/(1 - h) + tr(G)/(2c) and what :func:`tail_delta` bounds, W there replaced by W + G: the
    second form is at most |v'|^2/((1 - h)cQ). That is the loss of the scale (1 - h)c and x = (q-2)/2*h/(1 - h) + sqrt(d)*g/(2c)
    more, and delta(epsilon) <= tail_delta(q, (1 - h)c, epsilon - x) + kept.
    """

    dim: int
    size: float
    kept: float

    def least(self, q: int) -> float:
        """y, rounded down."""
        from scipy.special import gammaincinv

        return 2.0 * float(gammaincinv(q / 2, self.kept / self.dim)) * (1 - 1e-6) if self.size > 0 else math.inf

    def within(self, q: int, c: float, least: float) -> tuple[float, float]:
        """((1 - h)c, x); a scale of 0 where h is not below 1/2."""
        if not self.size > 0:
            return c, 0.0
        g = self.size + self.dim * c * 2.0**-26
        h = g * self.dim / (c * least) * (1 + 1e-9) if c * least > 0 else 1.0
        if not h < 0.5:
            return 0.0, math.inf
        return (1 - h) * c, ((q - 2) / 2 * h / (1 - h) + math.sqrt(self.dim) * g / (2 * c)) * (1 + 1e-9)


@lru_cache(maxsize=64)
def least_noise(dim: int, epsilon: float, delta: float, neighbours: Neighbours = "replace-one", rounding: float = 0.0) -> tuple[int, float]:
    """(q, c) of least trace c*(dim - 1 + q) with :func:`tail_delta` at most ``delta``; with ``rounding``, that of :class:`Blur`."""
    blur = Blur(dim, rounding, _BLURRED * delta)
    target = (delta - (blur.kept if rounding > 0 else 0.0)) * (1 - _MARGIN)

    def scale_for(q: int) -> float | None:
        """The least c for q degrees, None when the constraint c >= 1/(2*epsilon) alone decides (then fewer degrees do as well)."""
        least = blur.least(q)

        def enough(c: float) -> bool:
            scale, more = blur.within(q, c, least)
            return scale * 2 * (epsilon - more) >= 1

        def private(c: float) -> bool:
            scale, more = blur.within(q, c, least)
            return scale > 0 and tail_delta(q, scale, epsilon - more, neighbours) <= target

        def smallest(holds: Any, low: float) -> float:
            high = 2 * low
            while not holds(high):
                high *= 2
                if high > 1e12:
                    return math.inf
            for _ in range(80):
                middle = (low + high) / 2
                low, high = (low, middle) if holds(middle) else (middle, high)
                if high - low <= 1e-13 * high:
                    break
            return high

        low = 1 / (2 * epsilon)
        if rounding > 0 and not enough(low):
            low = smallest(enough, low)
            if low == math.inf:
                return math.inf
        if not private(low):
            return smallest(private, low)
        return None if low * 2 * epsilon <= 1.01 else low  # few degrees ask for more, next to rounding

    best: tuple[float, int, float] | None = None
    q, step = 3, 1
    while q < 10_000_000:
        c = scale_for(q)
        if c is None:
            if step == 1 or best is None:
                break
            q, step = q - step + 1, 1  # the last long step passed the end: go on singly
            continue
        trace = c * (dim - 1 + q)
        if best is None or trace < best[0]:
            best = (trace, q, c)
        elif trace > 3 * best[0]:
            break
        step = max(1, q // 16)
        q += step
    if best is None:
        raise ValueError(f"no Wishart noise in dimension {dim} is found for epsilon {epsilon:.3g} and delta {delta:.3g}")
    return best[1], best[2]


@dataclass(frozen=True, slots=True)
class Wishart(Drawn):
    """M + W_d(m, c*B^2*I), M a sum of x x^T with |x|_2 <= B: (level, ``delta``)-DP. Level = epsilon.

    ``sensitivity``: B^2 (radius^2/n for a second moment), the largest trace of one record's term. m and c are those of
    :func:`least_noise`; the proof is at :func:`tail_delta`. ``parties``: how many players share the noise, each adding the same whole
    number of vectors; ``missing``: how many of them may drop out or pool what they know (the rest alone supply m degrees). More
    degrees than m are independent noise on top: post-processing. ``rounding``: by how much neighbours' computed matrices differ besides
    those terms (:class:`Blur`; Frobenius norm in units of B^2; 0: M is exact, and so is the noise).

    Source: 000, Lemma 6.3.1 and Theorem 6.3.6 (m >= d + 14/epsilon^2*ln(4/delta) and c = 1, for epsilon < 1). Never pure: the output
    exceeds M in the Loewner order, so neighbours have different supports.
    """

    sensitivity: float
    dim: int
    delta: float
    neighbours: Neighbours = "replace-one"
    parties: int = 1
    missing: int = 0
    server: bool = False
    rounding: float = 0.0
    kind: ClassVar[str] = "wishart"
    family: ClassVar[Family] = "approx"
    norm: ClassVar[Norm] = "none"
    reference: ClassVar[str] = "000 Lemma 6.3.1, Theorem 6.3.6; degrees and scale from a proved tail of the loss"

    def __post_init__(self) -> None:
        check_positive(sensitivity=self.sensitivity, dim=self.dim, delta=self.delta, parties=self.parties)
        if not 0 <= self.rounding < math.inf:
            raise ValueError(f"rounding must be a number of at least 0, not {self.rounding!r}")
        if not 0 <= self.missing < self.parties:
            raise ValueError("fewer parties may be missing than there are")

    @property
    def size(self) -> int:
        return self.dim * (self.dim + 1) // 2

    def _least(self, level: float) -> tuple[int, float]:
        return least_noise(self.dim, check_level(level), self.delta, self.neighbours, self.rounding)

    def degrees(self, level: float) -> int:
        """The degrees of freedom that are drawn. ``server``: one vector a party, and the server adds what lacks."""
        least = self.dim - 1 + self._least(level)[0]
        if self.server:
            return max(least, self.parties)
        return self.parties * math.ceil(least / (self.parties - self.missing))

    def scale(self, level: float) -> float:
        """c*B^2, the scale matrix being this times I."""
        return self._least(level)[1] * self.sensitivity

    def numbers(self, level: float) -> dict[str, float]:
        return {"scale": self.scale(level), "degrees": self.degrees(level)}

    def _drawn(self, noise: Mapping[str, float]) -> tuple[int, float]:
        """(q, c) of what is left of the noise when ``missing`` parties take theirs away."""
        degrees = int(noise["degrees"])
        if degrees != noise["degrees"] or not 1 <= degrees <= 2**53 or noise["scale"] <= 0:
            raise ValueError("the degrees are a whole number and the scale is positive")
        left = degrees - self.missing if self.server else degrees // self.parties * (self.parties - self.missing)
        return left - self.dim + 1, noise["scale"] / self.sensitivity

    def spent(self, noise: Mapping[str, float]) -> float:
        """epsilon at ``delta`` by quadrature of the bounding loss and root finding; infinite where the bound says nothing."""
        q, c = self._drawn(noise)
        if q <= 2:
            return math.inf
        c, more, kept = self._blurred(q, c)
        if c <= 0:
            return math.inf
        delta = self.delta - kept
        low, high = 1 / (2 * c), 1 / (2 * c) + 1.0
        while _quadrature(q, c, high, self.neighbours) > delta:
            low, high = high, 2 * high
            if high > 1e3:
                return math.inf
        if _quadrature(q, c, low, self.neighbours) <= delta:
            return low + more
        from scipy.optimize import brentq

        def excess(epsilon: float) -> float:
            return math.log(max(_quadrature(q, c, epsilon, self.neighbours), 1e-300) / delta)

        over = brentq(excess, low, high, rtol=1e-10)
        return (float(over) + more) * (1 + 1e-9)

    def _blurred(self, q: int, c: float) -> tuple[float, float, float]:
        """((1 - h)c, x, kept) of :class:`Blur`."""
        blur = Blur(self.dim, self.rounding, _BLURRED * self.delta)
        return *blur.within(q, c, blur.least(q)), blur.kept if self.rounding > 0 else 0.0

    def sure(self, noise: Mapping[str, float]) -> float:
        """Probability of outputs that only one of two neighbours can give (a record of length B against none, or against 0): W - x x^T is
        not positive definite, which is c*Q < 1. No epsilon is finite below this delta."""
        from scipy.special import chdtr

        q, c = self._drawn(noise)
        return 1.0 if q <= 0 else float(chdtr(q, 1 / c))

    def check(self, value: Any) -> str | None:
        return check_square(value, self.dim)

    def distance(self, level: float, one: Any, other: Any, slack: float = 0.0) -> float:
        """The trace of what one record adds: the positive or the negative part of the difference, whichever is more."""
        values = np.linalg.eigvalsh(np.asarray(one) - np.asarray(other))
        return float(max(values[values > 0].sum(), -values[values < 0].sum()))

    def apply(self, value: Any, level: float, noise: NoiseSource) -> Array:
        """Only the upper triangle of the value is read. Secure source: value and noise are rounded to one public grid."""
        c, left = self.scale(level), self.degrees(level)
        draw = np.zeros((self.dim, self.dim))
        while left > 0:
            g = noise.gaussian(1.0, (self.dim, min(left, 4096)))
            draw += g @ g.T
            left -= g.shape[1]
        i, j = np.triu_indices(self.dim)
        upper = add_rounded(np.asarray(value, dtype=float)[i, j], c * draw[i, j], c, noise)
        out = np.empty((self.dim, self.dim))
        out[i, j] = upper
        out[j, i] = upper
        return out

    def delta_by_quadrature(self, level: float, epsilon: float) -> float:
        """The same bound at ``epsilon`` for the noise of ``level``, by quadrature of the hockey-stick: for a second accountant."""
        q, c = self._least(level)
        c, more, kept = self._blurred(q, c)
        return _quadrature(q, c, epsilon - more, self.neighbours) + kept


def _quadrature(q: int, c: float, epsilon: float, neighbours: Neighbours) -> float:
    """The bound of :func:`tail_delta` by quadrature of the hockey-stick; epsilon at least 1/(2c)."""
    from scipy import integrate, special

    slack = 0.0 if neighbours == "replace-one" else 1 / (2 * c)
    constant = math.lgamma(q / 2) + q / 2 * math.log(2)

    def integrand(x: float) -> float:
        loss = max(1 / (2 * c), -(q - 2) / 2 * math.log1p(-1 / (c * x)) - slack)
        return max(0.0, -math.expm1(epsilon - loss)) * math.exp((q / 2 - 1) * math.log(x) - x / 2 - constant)  # chi-square's density

    top = 1 / (c * -math.expm1(-2 * (epsilon + slack) / (q - 2)))
    cuts = [1 / c + (top - 1 / c) * u for u in (0.01, 0.1, 0.25, 0.5, 0.75)]
    return float(special.chdtr(q, 1 / c) + integrate.quad(integrand, 1 / c, top, points=cuts, limit=400, epsabs=0, epsrel=1e-9)[0])
