"""Gaussian and Laplace noise for symmetric matrices, and the sensitivities of a second moment."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from dpspec.numeric.norms import length
from dpspec.privacy.mechanisms.protocol import Drawn, check_level, check_numbers, check_positive
from dpspec.privacy.noise import Array, NoiseSource
from dpspec.privacy.samplers import Neighbours
from dpspec.privacy.schedule import Family, Norm

__all__ = ["Neighbours"]


def second_moment_sensitivity(radius: float, n: int, dim: int, neighbours: Neighbours = "replace-one") -> float:
    """l2 sensitivity of (1/n)*sum x x^T for |x|_2 <= radius and public n: in the Frobenius norm and of the upper triangle alike.

    Replace-one: sqrt(2)*radius^2/n, attained by orthogonal records (radius^2/n in dimension 1); add-remove and zero-out (with the same
    public n): radius^2/n. Proof for the upper triangle at :class:`dpspec.privacy.channels.gaussian_outer.GaussianOuter`; in the
    Frobenius norm |x x^T - z z^T|^2 = |x|^4 + |z|^4 - 2<x, z>^2 <= 2*radius^4. The documents (000, section 6.3) print 1/n for unit
    records under replace-one: the sqrt(2) is missing.
    """
    check_positive(radius=radius, n=n, dim=dim)
    factor = math.sqrt(2.0) if neighbours == "replace-one" and dim > 1 else 1.0
    return factor * radius**2 / n


def second_moment_l1_sensitivity(radius: float, n: int, dim: int, neighbours: Neighbours = "replace-one") -> float:
    """A bound of the l1 sensitivity of the upper triangle of (1/n)*sum x x^T for |x|_2 <= radius.

    For signs s, sum_{i<=j} s_ij (x_i x_j - z_i z_j) = x^T A x - z^T A z with A_ii = s_ii and A_ij = s_ij/2, so the distance is at
    most radius^2*(lmax(A) - lmin(A)) <= radius^2*sqrt(2)*|A|_F = radius^2*sqrt(dim*(dim + 3)/2) (Mirsky), attained for dim = 2.
    Add-remove: (|x|_1^2 + |x|_2^2)/2 <= (dim + 1)/2*radius^2, attained at equal coordinates.
    """
    check_positive(radius=radius, n=n, dim=dim)
    if dim == 1:
        factor = 1.0
    elif neighbours == "replace-one":
        factor = math.sqrt(dim * (dim + 3) / 2.0)
    else:
        factor = (dim + 1) / 2.0
    return factor * radius**2 / n


def check_square(value: Any, dim: int) -> str | None:
    problem = check_numbers(value, dim * dim)
    if problem is None and np.shape(value) != (dim, dim):
        return f"the value has shape {np.shape(value)} and the plan releases a symmetric ({dim}, {dim}) matrix"
    return problem


def fill(upper: Array, dim: int) -> Array:
    """The symmetric matrix of an upper triangle given row by row."""
    out = np.empty((dim, dim))
    i, j = np.triu_indices(dim)
    out[i, j] = upper
    out[j, i] = upper
    return out


@dataclass(frozen=True, slots=True)
class GaussianSymmetric(Drawn):
    """A symmetric matrix plus symmetric Gaussian noise; only the upper triangle of the value is read.

    ``shape`` ``isotropic``: N(0, scale^2) on the diagonal and N(0, scale^2/2) off it, that is isotropic noise in the Frobenius inner
    product, with ``sensitivity`` in the Frobenius norm. ``upper``: N(0, scale^2) on every entry of the upper triangle, copied, with
    ``sensitivity`` the l2 norm of the upper triangle (the documents' construction: 000, Algorithms 6.1.42 and
    6.3.49; for second moments the same number, :func:`second_moment_sensitivity`, and twice the variance off the diagonal).
    Both are exactly mu-GDP, mu = 1/level.
    """

    sensitivity: float
    dim: int
    shape: Literal["isotropic", "upper"] = "isotropic"
    kind: ClassVar[str] = "gaussian-symmetric"
    family: ClassVar[Family] = "gaussian"
    norm: ClassVar[Norm] = "l2"
    reference: ClassVar[str] = "Frobenius or upper-triangle l2 sensitivity; 000 section 6.3 (sqrt(2) of replace-one added)"

    def __post_init__(self) -> None:
        check_positive(sensitivity=self.sensitivity, dim=self.dim)

    @property
    def size(self) -> int:
        return self.dim * (self.dim + 1) // 2

    def scale(self, level: float) -> float:
        return check_level(level) * self.sensitivity

    def check(self, value: Any) -> str | None:
        return check_square(value, self.dim)

    def distance(self, level: float, one: Any, other: Any, slack: float = 0.0) -> float:
        v = np.asarray(one, dtype=float) - np.asarray(other, dtype=float)
        return length(v if self.shape == "isotropic" else v[np.triu_indices(self.dim)])

    def apply(self, value: Any, level: float, noise: NoiseSource) -> Array:
        i, j = np.triu_indices(self.dim)
        weight = np.where(i == j, 1.0, math.sqrt(2.0)) if self.shape == "isotropic" else np.ones(i.size)
        upper = np.asarray(value, dtype=float)[i, j] * weight
        upper = noise.add_gaussian(upper, self.scale(level), sensitivity=self.sensitivity, dim=self.size) / weight
        return fill(upper, self.dim)


@dataclass(frozen=True, slots=True)
class LaplaceSymmetric(Drawn):
    """A symmetric matrix plus independent Laplace(b) noise on its upper triangle, copied: epsilon-DP with epsilon = sensitivity/b.

    ``sensitivity``: l1 distance of the upper triangle between neighbours (:func:`second_moment_l1_sensitivity` for second moments).
    Only the upper triangle of the value is read.
    """

    sensitivity: float
    dim: int
    kind: ClassVar[str] = "laplace-symmetric"
    family: ClassVar[Family] = "laplace"
    norm: ClassVar[Norm] = "l1"
    reference: ClassVar[str] = "l1 sensitivity of the upper triangle; 000 section 6.3"

    def __post_init__(self) -> None:
        check_positive(sensitivity=self.sensitivity, dim=self.dim)

    @property
    def size(self) -> int:
        return self.dim * (self.dim + 1) // 2

    def scale(self, level: float) -> float:
        return check_level(level) * self.sensitivity

    def check(self, value: Any) -> str | None:
        return check_square(value, self.dim)

    def distance(self, level: float, one: Any, other: Any, slack: float = 0.0) -> float:
        v = np.asarray(one, dtype=float) - np.asarray(other, dtype=float)
        return length(v[np.triu_indices(self.dim)], "l1")

    def apply(self, value: Any, level: float, noise: NoiseSource) -> Array:
        upper = np.asarray(value, dtype=float)[np.triu_indices(self.dim)]
        return fill(noise.add_laplace(upper, self.scale(level), sensitivity=self.sensitivity, dim=self.size), self.dim)
