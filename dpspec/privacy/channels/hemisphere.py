"""The hemisphere channel: a pure LDP release of a vector of the l2 ball.

Source: Duchi, Jordan, Wainwright 2018; 004, Appendix C, equation (6) and Lemma 8; 000, section 5.3.3, equation (5.75), Lemma 5.3.1.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dpspec.numeric.norms import check_size, directions, lengths
from dpspec.privacy.channels.protocol import Records, block_rows, check_level, check_positive, check_scale, from_coth, plain, rows
from dpspec.privacy.mechanism import Family, Norm
from dpspec.privacy.noise import Array, NoiseSource, keep_threshold


@dataclass(frozen=True, slots=True)
class Hemisphere:
    """epsilon-LDP for any two records (replace-one); level = epsilon.

    The client scales x into the ball of radius r, draws b = +1 with probability 1/2 + |x|/(2r), s = +1 with probability
    e^eps/(1 + e^eps), a uniform direction u, and answers B*w with w = s*b*sgn(<u, x>)*u and

        B = r*(e^eps + 1)/(e^eps - 1)*sqrt(pi)*Gamma((p + 1)/2)/Gamma(p/2),     p = dim.

    Unbiased for the clipped x; E|R - x|^2 = B^2 - |x|^2. The documents print the scale as O(r*sqrt(p)), without the factor
    (e^eps + 1)/(e^eps - 1), and then E[R(x)] = x is false; B above is exact. The variance tends to about (pi/2)*p*r^2, not to 0,
    as epsilon grows: for epsilon above about 2 prefer PrivUnit.

    Privacy does not depend on floating point. Let {u, -u} be the line that was drawn. Both signs were equally likely before the
    reflection, the computed <u, x> (of x/|x|, so that tiny records keep their direction) changes its sign exactly with u, and b, s are
    independent of u. So given the line, w is one of its two ends, and the end is chosen by a sign whose probability lies between
    1/(1 + e^eps) and e^eps/(1 + e^eps), whatever x is and however |x| and b were rounded (if the computed product is 0 the sign is that
    of u and each end has probability 1/2). The ratio over two records is at most e^eps; B*w is a function of w.
    """

    dim: int
    radius: float
    kind: ClassVar[str] = "hemisphere"
    family: ClassVar[Family] = "pure"
    norm: ClassVar[Norm] = "none"
    sensitivity: ClassVar[float] = math.nan
    reference: ClassVar[str] = "004 Appendix C eq. (6), Lemma 8; 000 eq. (5.75), Lemma 5.3.1 (scale corrected)"

    def __post_init__(self) -> None:
        check_positive(dim=self.dim)
        check_size(radius=self.radius)

    @property
    def size(self) -> int:
        return self.dim

    def scale(self, level: float) -> float:
        """The length B of every report."""
        gamma = math.exp(math.lgamma((self.dim + 1) / 2.0) - math.lgamma(self.dim / 2.0))
        return check_scale(self.radius / math.tanh(check_level(level) / 2.0) * math.sqrt(math.pi) * gamma)

    def spent(self, noise: Mapping[str, float]) -> float:
        """epsilon from the length of a report, which is set by the probability of its sign: coth(epsilon/2) = scale/factor."""
        factor = self.radius * math.sqrt(math.pi) * math.exp(math.lgamma((self.dim + 1) / 2.0) - math.lgamma(self.dim / 2.0))
        return from_coth(noise["scale"] / factor)

    def variance(self, level: float, norm: float = 0.0) -> float:
        """E|R - x|_2^2 for a record of l2 norm ``norm`` (at most the radius)."""
        return self.scale(level) ** 2 - norm**2

    def _signed(self, x: Array, level: float, noise: NoiseSource) -> tuple[Array, Array]:
        """Directions u (users, dim) and the sign of each report along its direction."""
        v, norms = directions(x)
        users = v.shape[0]
        u = noise.directions(users, self.dim)
        b = noise.bernoulli(0.5 + norms.shares(self.radius) / 2.0, users)
        s = noise.keep(level, users)
        inner = np.einsum("ij,ij->i", u, v)
        return u, np.where((b == s) == (inner >= 0), 1.0, -1.0)

    def encode(self, records: Records, level: float, noise: NoiseSource) -> Array:
        x, single = rows(records, self.dim)
        u, sign = self._signed(x, level, noise)
        u *= (sign * self.scale(level))[:, None]
        return np.asarray(u[0]) if single else u

    def aggregate(self, reports: Array, level: float) -> Array:
        mean: Array = np.atleast_2d(reports).mean(axis=0)
        return mean

    def sample_mean(self, records: Records, level: float, noise: NoiseSource) -> Array:
        """The mean of n reports from its law, of which no report is drawn by itself.

        Given the record, the density of a report is (1 + q sgn<w, x>)/area with q = (2 P(s = 1) - 1)*|x|/r: with probability 1 - q it is
        uniform, whatever the record, otherwise uniform on the hemisphere of x, where <w, x/|x|> is the absolute value of a
        cosine of uniform directions. :mod:`dpspec.privacy.channels._sphere` adds both kinds.
        """
        from dpspec.privacy.channels import _sphere

        x = plain(records, self.dim)
        total, free, step = np.zeros(self.dim), 0, block_rows(self.dim, 1 << 21)
        excess = 2.0 * (keep_threshold(check_level(level)) / 2.0**64) - 1.0
        for start in range(0, x.shape[0], step):
            block = x[start : start + step]
            found = lengths(block)
            drawn = noise.bernoulli(np.where(found.finite, excess * found.shares(self.radius), 0.0), len(block))
            if found.scaled.any():
                z = directions(block[drawn])[0]
            else:
                z = block[drawn]
                z /= found.part[drawn][:, None]
            total += _sphere.sum_around(z, np.abs(_sphere.cosines(self.dim, len(z), noise)), noise)
            free += len(block) - len(z)
        total += _sphere.isotropic_sum(free, self.dim, noise)
        return np.asarray(total * (self.scale(level) / x.shape[0]))
