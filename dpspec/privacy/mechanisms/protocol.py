"""What a central mechanism adds to :class:`dpspec.privacy.schedule.Mechanism`.

Only the meter calls ``apply``: algorithms go through :class:`dpspec.privacy.meter.Release`.
"""

from __future__ import annotations

import math
from typing import Any, Protocol, runtime_checkable

from dpspec.numeric.norms import SMALLEST, Norm, OutOfRange, length
from dpspec.privacy.noise import NoiseSource
from dpspec.privacy.schedule import Mechanism


@runtime_checkable
class Central(Mechanism, Protocol):
    """A mechanism that a trusted curator draws. Implementations are frozen dataclasses that inherit :class:`Drawn`."""

    @property
    def claim(self) -> float:
        """What a run states beside its value, and the plan was calibrated for: the sensitivity, where a class says nothing else."""
        ...

    def check(self, value: Any) -> str | None:
        """What is wrong with the shape or the numbers of a value, or None. The words never hold a number of the value."""
        ...

    def apply(self, value: Any, level: float, noise: NoiseSource) -> Any: ...

    def blind(self, value: Any) -> tuple[Any, Any]:
        """For a replay that answers without looking at the records: what was handed over, as an array, and what is drawn in its place
        (the same for every data set)."""
        ...

    def distance(self, level: float, one: Any, other: Any, slack: float = 0.0) -> float:
        """How far two values (as :meth:`blind` keeps them) are apart, in what :attr:`sensitivity` bounds. ``slack``: the gradient norm to
        which a solver found each, where the value is a minimiser."""
        ...


class Drawn:
    """What most central mechanisms share: the claim is the sensitivity, a replay draws around zeros, and distance is in the norm."""

    __slots__ = ()

    @property
    def claim(self: Mechanism) -> float:
        return self.sensitivity

    def blind(self, value: Any) -> tuple[Any, Any]:
        import numpy as np

        seen = np.array(value, dtype=float)
        return seen, np.zeros_like(seen)

    def distance(self: Mechanism, level: float, one: Any, other: Any, slack: float = 0.0) -> float:
        import numpy as np

        norm: Norm = "l2" if self.norm == "l2" else "l1" if self.norm == "l1" else "linf"
        return length(np.asarray(one, dtype=float) - np.asarray(other, dtype=float), norm)


def check_level(level: float) -> float:
    if not (math.isfinite(level) and level > 0):
        raise ValueError(f"the level must be positive and finite, not {level!r}")
    return float(level)


def check_positive(**values: float) -> None:
    """A sensitivity is at least SMALLEST as well: the grids of the secure noise end not far below it."""
    for name, value in values.items():
        if not (math.isfinite(value) and value > 0):
            raise OutOfRange(f"{name} must be positive and finite, not {value!r}")
        if name == "sensitivity" and value < SMALLEST:
            raise OutOfRange(f"the sensitivity must be at least {SMALLEST:g}, not {value!r}: rescale the records")


def check_numbers(value: Any, size: int) -> str | None:
    """For mechanisms that release ``size`` finite numbers in an array of any shape."""
    import numpy as np

    array = np.asarray(value)
    if array.dtype.kind not in "fiub":
        return f"the value is not an array of real numbers (dtype {array.dtype})"
    if array.size != size:
        return f"the value holds {array.size} numbers (shape {array.shape}) and the plan releases {size}"
    if not np.isfinite(array).all():
        return "the value holds a NaN or an infinity"
    return None
