"""The functions of a loss of two records, vectorised."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from dpspec.domains.domain import Domain
from dpspec.symbolic.margin import MarginLoss
from dpspec.symbolic.normal import Poly, const, substitute, variables
from dpspec.symbolic.pairs import pair_case
from dpspec.symbolic.parts import Case, cases
from dpspec.symbolic.stable import stable

Vector: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class PairLoss:
    """phi(u, y1, y2) and its slope in u, elementwise over arrays that broadcast. ``form`` is in u, y1 and y2; the slopes are evaluated
    case by case, in the very forms that :mod:`dpspec.symbolic.running` bounds the rounding of. ``labels``: the values of y, where the
    cases are those of pairs of labels; empty where the loss knows y1 - y2, or no label."""

    name: str
    form: Poly
    every: tuple[Case, ...]
    labels: tuple[Fraction, ...] = ()
    functions: tuple[MarginLoss, ...] = field(init=False, compare=False, repr=False)
    table: Mapping[tuple[float, float], int] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "functions", tuple(MarginLoss(self.name, case.form) for case in self.every))
        known = (
            {} if len(self.every) == 1 else {(a, b): pair_case(self.form, self.every, a, b)[0] for a in self.labels for b in self.labels}
        )
        object.__setattr__(self, "table", {(float(a), float(b)): k for (a, b), k in known.items()})

    @property
    def residual(self) -> bool:
        """Whether the slope knows u and the labels through u - (y1 - y2) alone."""
        return len(self.every) == 1 and stable(self.every[0].form, 1).residual

    @property
    def silent(self) -> frozenset[tuple[float, float]]:
        """The labels of pairs whose loss does not depend on u."""
        pairs = [(a, b) for a in self.labels for b in self.labels]
        mine = (substitute(self.form, {"y1": const(a), "y2": const(b)}) for a, b in pairs)
        return frozenset((float(a), float(b)) for (a, b), own in zip(pairs, mine, strict=True) if "u" not in variables(own))

    def value(self, u: Vector, y1: Vector | float, y2: Vector | float) -> Vector:
        return MarginLoss(self.name, self.form).value(u, y1, y2)

    def slope(self, u: Vector, y1: Vector | float, y2: Vector | float) -> Vector:
        if len(self.functions) == 1:
            return self.functions[0].derivative(u, np.subtract(y1, y2))
        if np.ndim(y1) == np.ndim(y2) == 0:
            k = self.table.get((float(y1), float(y2)))
            return np.zeros(u.shape) if k is None else self.functions[k].derivative(u)
        first, second = np.broadcast_to(y1, u.shape), np.broadcast_to(y2, u.shape)
        out = np.zeros(u.shape)
        for (a, b), k in self.table.items():
            here = (first == a) & (second == b)
            if here.any():
                out[here] = self.functions[k].derivative(u[here])
        return out


@lru_cache(maxsize=64)
def pair_loss(name: str, form: Poly, y: Domain) -> PairLoss:
    """The functions of a certified pairwise data part. Raises NoNormalForm as :func:`dpspec.symbolic.parts.cases` does."""
    return PairLoss(name, form, cases(form, True, y), y.values)
