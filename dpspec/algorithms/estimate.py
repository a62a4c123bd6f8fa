"""What an algorithm hands back, and what it can say about itself before it runs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray


def _frozen(a: Any) -> NDArray[np.float64]:
    out: NDArray[np.float64] = np.array(a, dtype=np.float64, copy=True)
    out.setflags(write=False)
    return out


@dataclass(frozen=True, slots=True, eq=False)
class Estimate:
    """The output of an algorithm: post-processing of metered draws, and nothing else may be in it.

    ``theta``: the released array (a parameter of shape (d,), a mean, a matrix), finite; ``extras``: further released arrays or
    public numbers by name. Raises ``ValueError`` when ``theta`` is not finite: a diverged run must not look like an answer.
    """

    theta: NDArray[np.float64]
    extras: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        theta = _frozen(self.theta)
        if not np.isfinite(theta).all():
            raise ValueError("the estimate is not finite; the steps are too long for the noise or the loss")
        object.__setattr__(self, "theta", theta)
        object.__setattr__(self, "extras", MappingProxyType(dict(self.extras)))

    @property
    def w(self) -> NDArray[np.float64]:
        """The same array under the name that ``minimise`` tasks use."""
        return self.theta


@dataclass(frozen=True, slots=True)
class Published:
    """What a printed calibration would have done in the place of ours.

    ``source``: where it is printed; ``draw``: the draw's name in the schedule; ``formula``: the printed noise formula; ``scale``: what
    it gives for this draw and budget (standard deviation or b); ``epsilon``: what a run with that scale would really spend at the
    analysis' delta (infinity: no finite epsilon); ``remark``: what is wrong or wasteful about it.
    """

    source: str
    draw: str
    formula: str
    scale: float
    epsilon: float
    remark: str = ""

    def to_json(self) -> dict[str, Any]:
        """Numbers that are not finite become null."""
        return {
            "noise_formula": self.formula,
            "scale": self.scale if math.isfinite(self.scale) else None,
            "epsilon_if_used": self.epsilon if math.isfinite(self.epsilon) else None,
            "source": self.source,
            "draw": self.draw,
            "remark": self.remark,
        }
