"""PrivUnit with the optimal cap: the best known pure channel for vectors of the l2 ball."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np

from dpspec.numeric.norms import check_size, directions
from dpspec.privacy.channels.protocol import Records, block_rows, check_level, check_positive, check_scale, plain, rows
from dpspec.privacy.mechanism import Family, Norm
from dpspec.privacy.noise import Array, Bools, NoiseSource, down, keep_threshold


@dataclass(frozen=True, slots=True)
class Cap:
    """``height`` gamma of the cap {<u, v> >= gamma} of the unit sphere, its probability ``mass``, ``inside``: how often a report comes
    from it, ``mean``: E<u, v> of a report."""

    height: float
    mass: float
    inside: Fraction
    mean: float


@functools.lru_cache(maxsize=512)
def best_cap(dim: int, epsilon: float) -> Cap:
    """The cap that maximises E<u, v> (and so minimises the variance) at ratio e^epsilon between its inside and its outside.

    With P = P(<u, v> >= gamma): inside with probability e^eps*P/(1 + (e^eps - 1)*P), and
    E<u, v> = c*(1 - gamma^2)^((d-1)/2)/(d - 1)*(e^eps - 1)/(1 + (e^eps - 1)*P), c = Gamma(d/2)/(sqrt(pi)*Gamma((d-1)/2)).
    Maximised over gamma in [-1, 1) (unimodal). gamma = 0 is the hemisphere channel, and is taken below epsilon 2^-10: the best cap gains
    less than 1e-6 there, while the half sphere has mass 1/2 without rounding.
    """
    from scipy.optimize import minimize_scalar
    from scipy.special import betainc

    shape = (dim - 1) / 2.0
    log_c = math.lgamma(dim / 2.0) - math.lgamma(shape) - 0.5 * math.log(math.pi)
    grow = math.expm1(min(epsilon, 700.0))

    def mass(gamma: float) -> float:
        return float(betainc(shape, shape, (1.0 - gamma) / 2.0))

    def mean(gamma: float) -> float:
        return math.exp(log_c + shape * math.log1p(-gamma * gamma)) / (dim - 1) * grow / (1.0 + grow * mass(gamma))

    top = min(1.0 - 1e-9, 6.0 * math.sqrt((epsilon + 2.0) / dim))  # the best cap has a mass of about e^-eps, at gamma^2 below 2*epsilon/d
    found = minimize_scalar(lambda gamma: -mean(gamma), bounds=(0.0, top), method="bounded", options={"xatol": 1e-10})
    gamma = float(found.x) if -found.fun >= mean(0.0) and epsilon >= 2.0**-10 else 0.0
    if gamma == 0.0:
        return Cap(0.0, 0.5, Fraction(keep_threshold(epsilon), 2**64), mean(0.0))
    p = mass(gamma)
    least = mass(min(gamma + (2 * dim + 16) * 2.0**-53, 1.0))
    share = (grow + 1.0) * least / (1.0 + grow * least)
    return Cap(gamma, p, down(share * (1.0 - 2.0**-40)), mean(gamma))


@dataclass(frozen=True, slots=True)
class PrivUnit:
    """epsilon-LDP for vectors of the l2 ball of radius r, dim at least 2; level = epsilon.

    The client scales x into the ball, takes v = +-x/|x| with mean x/r (a sign of probability 1/2 + |x|/(2r)), and answers B*u with u
    uniform on the cap {<u, v> >= gamma} with the probability of :func:`best_cap`, otherwise uniform on the rest; B = r/E<u, v>.
    Unbiased; E|R - x|^2 = B^2 - |x|^2. At small epsilon the cap is nearly the half sphere; for large epsilon B tends to r, where the
    hemisphere channel stays at r*sqrt(pi*dim/2). Source: Bhowmick, Duchi, Freudiger, Kapoor and Rogers 2018; optimal cap: Asi, Feldman
    and Talwar 2022.

    The density takes two values with ratio e^eps. Secure source: u is drawn by rejection from directions that were made without the
    record, so every float vector has the probability of its direction times one of two factors. The direction v has length 1 up to
    (d/2 + 4)*2^-53 for every finite record (:func:`dpspec.numeric.norms.directions`), as has u, and the product is rounded by d*2^-53 at
    most, so the region that is really drawn from lies between the caps at gamma -+ (2 d + 16)*2^-53, whatever the record. The chance of
    the inside is the one for the smaller cap, lowered by 2^-40 of itself for the rounding of its mass (1e-13 or so): two records with
    regions of mass P' and P'', both at least that of the smaller cap, have inside/P' over (1 - inside)/(1 - P'') at most e^eps. The number
    of tries, about e^eps, is not part of the report, but takes time: epsilon above 9 is refused there.
    """

    dim: int
    radius: float
    kind: ClassVar[str] = "priv-unit"
    family: ClassVar[Family] = "pure"
    norm: ClassVar[Norm] = "none"
    sensitivity: ClassVar[float] = math.nan
    reference: ClassVar[str] = "Bhowmick et al. 2018; Asi, Feldman and Talwar 2022"

    def __post_init__(self) -> None:
        check_positive(dim=self.dim)
        check_size(radius=self.radius)
        if self.dim < 2:
            raise ValueError("a cap needs dimension 2; use the hemisphere or the one-bit channel for numbers")

    @property
    def size(self) -> int:
        return self.dim

    def cap(self, level: float) -> Cap:
        """The cap of a level."""
        return best_cap(self.dim, check_level(level))

    def scale(self, level: float) -> float:
        """The length B of every report."""
        return check_scale(self.radius / self.cap(level).mean)

    def numbers(self, level: float) -> dict[str, float]:
        cap = self.cap(level)
        return {"scale": self.scale(level), "height": cap.height, "inside": float(cap.inside)}

    def spent(self, noise: Mapping[str, float]) -> float:
        """epsilon: the density is inside/P in the cap and (1 - inside)/(1 - P) outside it, P the mass of the cap."""
        from scipy.special import betainc

        p, shape = noise["inside"], (self.dim - 1) / 2.0
        if not (0 < p < 1 and -1 < noise["height"] < 1):
            raise ValueError("a cap has a height in (-1, 1), and a probability lies in (0, 1)")
        mass = float(betainc(shape, shape, (1.0 - noise["height"]) / 2.0))
        return abs(math.log(p / mass * (1.0 - mass) / (1.0 - p)))

    def variance(self, level: float, norm: float = 0.0) -> float:
        """E|R - x|_2^2 for a record of l2 norm ``norm``."""
        return self.scale(level) ** 2 - norm**2

    def _reports(self, x: Array, level: float, noise: NoiseSource) -> Array:
        """Unit vectors, one a row of x."""
        cap = self.cap(level)
        users = x.shape[0]
        v, norms = directions(x)
        zero = ~v.any(axis=1)  # a record that is 0 takes the first axis, with a fair sign
        v[zero, 0] = 1.0
        v *= np.where(noise.bernoulli(0.5 + norms.shares(self.radius) / 2.0, users), 1.0, -1.0)[:, None]
        inside = noise.bernoulli(cap.inside, users)
        return self._reject(v, inside, cap, noise) if noise.secure else self._direct(v, inside, cap, noise)

    def _direct(self, v: Array, inside: Bools, cap: Cap, noise: NoiseSource) -> Array:
        """<u, v> by inversion of its law, the rest of u uniform in the orthogonal sphere."""
        uniform = noise.uniform(v.shape[0])
        t = self._heights(np.where(inside, uniform * cap.mass, cap.mass + uniform * (1.0 - cap.mass)))
        u = noise.directions(v.shape[0], self.dim)
        u = directions(u - np.einsum("ij,ij->i", u, v)[:, None] * v)[0]
        u *= np.sqrt(np.maximum(0.0, 1.0 - t * t))[:, None]
        u += t[:, None] * v
        return u

    def _reject(self, v: Array, inside: Bools, cap: Cap, noise: NoiseSource) -> Array:
        if cap.height == 0.0:  # the line is drawn first and one of its ends chosen, as in the hemisphere channel: no rounding enters
            u = noise.directions(v.shape[0], self.dim)
            u[(np.einsum("ij,ij->i", u, v) >= 0) != inside] *= -1.0
            return u
        if 1.0 / cap.mass > 1e4:
            raise ValueError("this epsilon needs caps too small to draw exactly; use a smaller epsilon or a Gaussian channel")
        out = np.empty_like(v)
        left = np.arange(v.shape[0])
        while left.size:
            u = noise.directions(left.size, self.dim)
            fits = (np.einsum("ij,ij->i", u, v[left]) >= cap.height) == inside[left]
            out[left[fits]] = u[fits]
            left = left[~fits]
        return out

    def encode(self, records: Records, level: float, noise: NoiseSource) -> Array:
        x, single = rows(records, self.dim)
        u = self._reports(x, level, noise) * self.scale(level)
        return np.asarray(u[0]) if single else u

    def aggregate(self, reports: Array, level: float) -> Array:
        mean: Array = np.atleast_2d(reports).mean(axis=0)
        return mean

    def sample_mean(self, records: Records, level: float, noise: NoiseSource) -> Array:
        """The mean of n reports from its law, of which no report is drawn by itself.

        A report's density is inside/P in the cap and (1 - inside)/(1 - P) <= inside/P outside it: with probability
        (1 - inside)/(1 - P) it is uniform on the sphere, whatever the record, otherwise uniform on the cap.
        :mod:`dpspec.privacy.channels._sphere` adds both kinds.
        """
        from dpspec.privacy.channels import _sphere

        x, cap = plain(records, self.dim), self.cap(level)
        total, free, step = np.zeros(self.dim), 0, block_rows(self.dim, 1 << 21)
        everywhere = min(1.0, float(1 - cap.inside) / (1.0 - cap.mass))
        for start in range(0, x.shape[0], step):
            block = x[start : start + step]
            drawn = noise.bernoulli(1.0 - everywhere, len(block))
            z, norms = directions(block[drawn])
            z[~z.any(axis=1), 0] = 1.0  # a record that is 0 takes the first axis, with a fair sign
            shares = np.where(norms.finite, norms.shares(self.radius), 0.0)
            sign = np.where(noise.bernoulli(0.5 + shares / 2.0, len(z)), 1.0, -1.0)
            z *= sign[:, None]
            total += _sphere.sum_around(z, self._inside(len(z), cap, noise), noise)
            free += len(block) - len(z)
        total += _sphere.isotropic_sum(free, self.dim, noise)
        return np.asarray(total * (self.scale(level) / x.shape[0]))

    def _inside(self, users: int, cap: Cap, noise: NoiseSource) -> Array:
        """<u, v> of uniform points of the cap, (users,): by rejection where one of five fits, otherwise by inversion."""
        from dpspec.privacy.channels import _sphere

        if cap.height < 0 or cap.mass < 0.1:
            return self._heights(noise.uniform(users) * cap.mass)
        found = np.abs(_sphere.cosines(self.dim, users, noise))
        left = np.flatnonzero(found < cap.height)
        while left.size:
            found[left] = np.abs(_sphere.cosines(self.dim, left.size, noise))
            left = left[found[left] < cap.height]
        return np.asarray(found)

    def _heights(self, mass: Array) -> Array:
        """The heights above which caps have these probabilities: (1 - <u, v>)/2 of a uniform u is Beta(shape, shape)."""
        from scipy.special import betaincinv

        shape = (self.dim - 1) / 2.0
        return np.asarray(1.0 - 2.0 * betaincinv(shape, shape, mass))
