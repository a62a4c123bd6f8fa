"""Features of records that are truncated, and gradients at what the server tells (see :mod:`dpspec.models.features`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from dpspec.models.features import Coins, Told, Vector
from dpspec.numeric.norms import clip_rows
from dpspec.numeric.slopes import SLOPES


@dataclass(frozen=True, slots=True)
class LinearGradient:
    """x (<theta, x> - y) with x clipped at ``x_clip`` and y at ``y_clip``; where they are positive, the residual at ``residual_clip`` and
    then x into the l2 ball of ``x_radius``. ``theta`` is told by the server."""

    x_clip: float
    y_clip: float
    residual_clip: float
    x_radius: float
    kind: ClassVar[str] = "linear-gradient"
    needs_y: ClassVar[bool] = True
    asks: ClassVar[tuple[str, ...]] = ("theta",)

    def values(self, x: Vector, y: Vector | None, told: Told, coins: Coins) -> list[Any]:
        assert y is not None
        return [self.gradients(x, y, told["theta"])]

    def gradients(self, x: Vector, y: Vector, theta: Vector) -> Vector:
        with np.errstate(all="ignore"):  # what leaves the doubles is the gradient 0 to the channel
            clipped = np.clip(x, -self.x_clip, self.x_clip)
            residual = clipped @ theta - np.clip(y, -self.y_clip, self.y_clip)
            if self.residual_clip > 0:
                residual = np.clip(residual, -self.residual_clip, self.residual_clip)
            if self.x_radius > 0:
                clipped = clip_rows(clipped, self.x_radius)
            clipped *= residual[:, None]
        return clipped


@dataclass(frozen=True, slots=True)
class MarginGradient:
    """x phi'(<w, x>, y) of a named loss: factor*y*f'(y*u) where it is one of the ``product``, factor*f'(u - y) of the ``residual``.
    ``w`` is told by the server."""

    loss: str
    parameters: tuple[float, ...]
    family: str
    factor: float
    kind: ClassVar[str] = "margin-gradient"
    needs_y: ClassVar[bool] = True
    asks: ClassVar[tuple[str, ...]] = ("w",)

    def __post_init__(self) -> None:
        if self.loss not in SLOPES or self.family not in ("product", "residual"):
            raise ValueError(f"no slope of the loss {self.loss!r:.40} by the {self.family!r:.40}")

    def values(self, x: Vector, y: Vector | None, told: Told, coins: Coins) -> list[Any]:
        assert y is not None
        slope = SLOPES[self.loss]
        with np.errstate(all="ignore"):  # what leaves the doubles is the gradient 0 to the channel
            u = x @ told["w"]
            if self.family == "residual":
                s = self.factor * slope(u - y, *self.parameters)
            else:
                s = (y if self.factor == 1.0 else self.factor * y) * slope(y * u, *self.parameters)
            return [x * s[:, None]]


@dataclass(frozen=True, slots=True)
class Truncated:
    """s kernel(x/s, beta), the smooth truncation of :mod:`dpspec.numeric.robust`, entry by entry."""

    s: float
    beta: float
    kind: ClassVar[str] = "truncated"
    needs_y: ClassVar[bool] = False
    asks: ClassVar[tuple[str, ...]] = ()

    def values(self, x: Vector, y: Vector | None, told: Told, coins: Coins) -> list[Any]:
        return [self.cut(x)]

    def cut(self, x: Vector) -> Vector:
        from dpspec.numeric import robust

        with np.errstate(over="ignore", invalid="ignore"):  # the kernel is flat far out, and 0 for a NaN
            return np.asarray(self.s * robust.kernel(x / self.s, self.beta))


@dataclass(frozen=True, slots=True)
class LatentGradient:
    """The gradient of a latent model at ``beta``, which the server tells, truncated as by :class:`Truncated`. ``y``: whether it has one."""

    model: str
    sigma: float
    y: bool
    s: float
    smoothing: float
    kind: ClassVar[str] = "latent-gradient"
    asks: ClassVar[tuple[str, ...]] = ("beta",)

    def __post_init__(self) -> None:
        from dpspec.numeric.latent import GRADIENTS

        if self.model not in GRADIENTS or GRADIENTS[self.model][1] != self.y:
            raise ValueError(f"no gradient of the model {self.model!r:.40}")

    @property
    def needs_y(self) -> bool:
        return self.y

    def values(self, x: Vector, y: Vector | None, told: Told, coins: Coins) -> list[Any]:
        from dpspec.numeric.latent import GRADIENTS

        return [Truncated(self.s, self.smoothing).cut(GRADIENTS[self.model][0](self.sigma, told["beta"], x, y))]
