"""Wishart noise for second moments: the pure form that is private, and the exact privacy of the one-sided form."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from dpspec.numeric.norms import length
from dpspec.privacy.mechanisms.protocol import Drawn, check_level, check_positive
from dpspec.privacy.mechanisms.symmetric import Neighbours, check_square
from dpspec.privacy.noise import Array, NoiseSource, add_rounded
from dpspec.privacy.schedule import Family, Norm


def second_moment_nuclear_sensitivity(radius: float, n: int, neighbours: Neighbours = "replace-one") -> float:
    """Nuclear-norm sensitivity of (1/n)*sum x x^T for |x|_2 <= radius: 2*radius^2/n (replace-one, attained by orthogonal records),
    radius^2/n (add-remove, zero-out, public n). In dimension 1 replace-one is radius^2/n; the bound here does not use that."""
    check_positive(radius=radius, n=n)
    return (2.0 if neighbours == "replace-one" else 1.0) * radius**2 / n


@dataclass(frozen=True, slots=True)
class SymmetrisedWishart(Drawn):
    """M + W1 - W2 with W1, W2 independent Wishart(d + 1 degrees, t*I), t = sensitivity/(2*epsilon): epsilon-DP. Level = epsilon.

    ``sensitivity``: nuclear norm of M - M' (:func:`second_moment_nuclear_sensitivity`). Proof: with c = 1/(2t) the density of N is
    proportional to the integral of exp(-c(2 tr W - tr N)) over W > 0, W > N; shifting by D >= 0, substituting W = U + D or enlarging
    the domain, changes it by a factor of at least exp(-c tr D); split D into its positive and its negative part. Mean 0, not positive
    semi-definite: project afterwards. It replaces 000, Lemma 6.3.2, whose one-sided noise W_d(d + 1, .) is not pure DP for any epsilon:
    neighbours have different supports, and the failure has probability 1 - exp(-epsilon/3) for one more record.
    """

    sensitivity: float
    dim: int
    degrees: int = 0  # of each Wishart matrix; at least dim + 1, more is independent noise on top (0: dim + 1)
    kind: ClassVar[str] = "wishart-symmetrised"
    family: ClassVar[Family] = "pure"
    norm: ClassVar[Norm] = "none"  # the nuclear norm
    reference: ClassVar[str] = "repair of 000 Lemma 6.3.2: difference of two Wishart matrices, nuclear-norm sensitivity"

    def __post_init__(self) -> None:
        check_positive(sensitivity=self.sensitivity, dim=self.dim)

    @property
    def size(self) -> int:
        return self.dim * (self.dim + 1) // 2

    def scale(self, level: float) -> float:
        """t, the scale matrix of both Wishart laws being t*I."""
        return self.sensitivity / (2.0 * check_level(level))

    def numbers(self, level: float) -> dict[str, float]:
        return {"scale": self.scale(level), "degrees": max(self.degrees, self.dim + 1)}

    def spent(self, noise: Mapping[str, float]) -> float:
        """epsilon: shifting the noise by D costs tr|D|/(2t), and tr|D| is at most the sensitivity."""
        if noise["degrees"] < self.dim + 1:
            raise ValueError("symmetrised Wishart noise has at least dim + 1 degrees of freedom")
        return self.sensitivity / (2.0 * noise["scale"])

    def check(self, value: Any) -> str | None:
        return check_square(value, self.dim)

    def distance(self, level: float, one: Any, other: Any, slack: float = 0.0) -> float:
        """The nuclear norm of the difference."""
        return length(np.linalg.eigvalsh(np.asarray(one) - np.asarray(other)), "l1")

    def apply(self, value: Any, level: float, noise: NoiseSource) -> Array:
        """Only the upper triangle of the value is read. Secure source: value and noise are rounded to one public grid."""
        t = self.scale(level)
        i, j = np.triu_indices(self.dim)
        g = noise.gaussian(1.0, (2, self.dim, max(self.degrees, self.dim + 1)))
        draw = t * (g[0] @ g[0].T - g[1] @ g[1].T)
        upper = add_rounded(np.asarray(value, dtype=float)[i, j], draw[i, j], t, noise)
        out = np.empty((self.dim, self.dim))
        out[i, j] = upper
        out[j, i] = upper
        return out


def wishart_delta(degrees: float, dim: int, epsilon: float) -> float:
    """The exact delta of A^T A + W_d(m, B^2 I) at epsilon under add-remove, worst case |v| = B: what one more row v can do.

    With q = m - d + 1, Q chi-square with q degrees and |v| = B: removing v shows for certain on Q <= 1 (the output could not have come
    from the data with v), and else the losses are 1/2 - (q - 2)/2*log(1 + 1/Q) one way and -1/2 - (q - 2)/2*log(1 - 1/Q) the other.
    Returns the larger of the two hockey-stick divergences, by quadrature. It is a lower bound of the delta under replace-one. Source:
    000, Lemma 6.3.1 (m >= d + 14/epsilon^2*ln(4/delta), safe with much slack).
    """
    from scipy import integrate, stats

    q = degrees - dim + 1.0
    if q <= 0:
        raise ValueError("a Wishart law has more than dim - 1 degrees of freedom")
    law = stats.chi2(q)

    def adding(x: float) -> float:  # the world with v; loss log p_with/p_without at Q = x
        loss = 0.5 - (q - 2.0) / 2.0 * math.log1p(1.0 / x)
        return float(max(0.0, -math.expm1(epsilon - loss)) * law.pdf(x))

    def removing(x: float) -> float:
        loss = -0.5 - (q - 2.0) / 2.0 * math.log1p(-1.0 / x)
        return float(max(0.0, -math.expm1(epsilon - loss)) * law.pdf(x))

    top = law.isf(1e-18) + 10.0
    cuts = sorted({min(max(c, 1.0), top) for c in (1.5, 3.0, q / 2, q, 2 * q)})
    one = integrate.quad(adding, 0.0, top, points=[c for c in cuts if 0 < c < top], limit=500)[0]
    other = law.cdf(1.0) + integrate.quad(removing, 1.0, top, points=[c for c in cuts if 1 < c < top], limit=500)[0]
    return float(max(one, other))
