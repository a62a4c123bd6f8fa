"""Peeling: a noisy sparse vector, one large entry after another.

Two ways to plan it. :class:`Peeling` is one pure draw. :func:`peeling` is the same algorithm as a tree of its selections and
releases, which an accountant with a delta composes far better (about sqrt(kept) instead of kept). ``Release.peel`` runs either.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from dpspec.privacy.mechanisms.exponential import Exponential
from dpspec.privacy.mechanisms.gaussian import Gaussian
from dpspec.privacy.mechanisms.laplace import Laplace
from dpspec.privacy.mechanisms.noisy_max import LEAST_LEVEL, NoisyMax
from dpspec.privacy.mechanisms.permute_and_flip import PermuteAndFlip
from dpspec.privacy.mechanisms.protocol import Drawn, check_level, check_positive
from dpspec.privacy.mechanisms.selection import SLACK, check_scores
from dpspec.privacy.noise import Array, NoiseSource
from dpspec.privacy.schedule import Draw, Family, Norm, Repeat, Sequence, Tree


@dataclass(frozen=True, slots=True)
class Peeling(Drawn):
    """``kept`` times the index of the greatest |v_j| + Laplace(B) among those not yet chosen, then v + Laplace(B) at the chosen ones.

    Level = epsilon, B = 3*kept*sensitivity/epsilon: each selection is (2*sensitivity/B)-DP and each released entry
    (sensitivity/B)-DP, summed. ``sensitivity``: l_inf distance of v between neighbours. Source: 003, Algorithm 4 (Dwork, Su and Zhang
    2021), whose scale 2*sensitivity*sqrt(3*kept*ln(1/delta))/epsilon belongs to the composed form, and whose box forgets to leave out the
    indices that are already chosen.
    """

    sensitivity: float
    dim: int
    kept: int
    kind: ClassVar[str] = "peeling"
    family: ClassVar[Family] = "pure"
    norm: ClassVar[Norm] = "linf"
    reference: ClassVar[str] = "003 Algorithm 4; Dwork, Su and Zhang 2021 (pure composition)"

    def __post_init__(self) -> None:
        check_positive(sensitivity=self.sensitivity, dim=self.dim, kept=self.kept)
        if self.kept > self.dim:
            raise ValueError(f"{self.kept} entries of {self.dim} cannot be kept")

    @property
    def size(self) -> int:
        return self.kept

    def scale(self, level: float) -> float:
        """B, of the selections and of the released entries."""
        if check_level(level) < 3.0 * self.kept * LEAST_LEVEL:
            raise ValueError(f"an epsilon of {level:.3g} for {self.kept} selections and values is too small to draw from 64-bit integers")
        return 3.0 * self.kept * self.sensitivity / check_level(level)

    def spent(self, noise: Mapping[str, float]) -> float:
        """epsilon: ``kept`` selections of 2*sensitivity/B and ``kept`` released entries of sensitivity/B."""
        return self.kept * (2.0 * self.sensitivity / noise["scale"] + self.sensitivity / noise["scale"])

    def check(self, value: Any) -> str | None:
        return check_scores(value, self.dim)

    def apply(self, value: Any, level: float, noise: NoiseSource) -> Array:
        v = np.asarray(value, dtype=float)
        b = self.scale(level)
        select = NoisyMax(self.sensitivity, self.dim)
        left, chosen = np.arange(self.dim), np.empty(self.kept, dtype=np.int64)
        for i in range(self.kept):
            index = select.apply(np.abs(v[left]), 2.0 * self.sensitivity / b * SLACK, noise)
            chosen[i] = left[index]
            left = np.delete(left, index)
        out = np.zeros(self.dim)
        out[chosen] = noise.add_laplace(v[chosen], b, sensitivity=self.sensitivity, dim=1)
        return out


def peeling(
    name: str,
    sensitivity: float,
    dim: int,
    kept: int,
    *,
    selection: Literal["laplace", "gumbel", "permute-and-flip"] = "laplace",
    values: Literal["laplace", "gaussian"] = "laplace",
    weights: tuple[float, float] = (1.0, 1.0),
) -> Tree:
    """Peeling as a tree: ``kept`` selections "<name>/select" and the release of the chosen entries "<name>/value".

    ``sensitivity`` is that of v in l_inf; so it is of each |v_j|, and each released entry. Selections by ``gumbel`` noise are exponential
    mechanisms. With ``values`` ``gaussian`` the chosen entries are one Gaussian draw of l2 sensitivity sqrt(kept)*sensitivity;
    with ``laplace`` they are ``kept`` Laplace draws. ``weights``: shares of the budget for selecting and for releasing.
    """
    if not 1 <= kept <= dim:
        raise ValueError(f"{kept} entries of {dim} cannot be kept")
    choose: Any
    if selection == "laplace":
        choose = NoisyMax(sensitivity, dim)
    elif selection == "gumbel":
        choose = Exponential(sensitivity, dim)
    else:
        choose = PermuteAndFlip(sensitivity, dim)
    release: Tree
    if values == "gaussian":
        release = Draw(f"{name}/value", Gaussian(kept**0.5 * sensitivity, size=kept), weight=weights[1])
    else:
        release = Repeat(Draw(f"{name}/value", Laplace(sensitivity), weight=weights[1]), kept)
    return Sequence((Repeat(Draw(f"{name}/select", choose, weight=weights[0]), kept), release))
