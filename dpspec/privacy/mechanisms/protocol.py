"""What a central mechanism adds to :class:`dpspec.privacy.schedule.Mechanism`.

Only the meter calls ``apply``: algorithms go through :class:`dpspec.privacy.meter.Release`.
"""

from __future__ import annotations

import math
from typing import Any, Protocol, runtime_checkable

from dpspec.numeric.norms import SMALLEST, OutOfRange
from dpspec.privacy.noise import NoiseSource
from dpspec.privacy.schedule import Mechanism


@runtime_checkable
class Central(Mechanism, Protocol):
    @property
    def method(self) -> str:
        """The one method of the meter that draws this mechanism."""
        ...

    def check(self, value: Any) -> str | None:
        """What is wrong with the shape or the numbers of a value, or None. The words never hold a number of the value."""
        ...

    def apply(self, value: Any, level: float, noise: NoiseSource) -> Any: ...


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
