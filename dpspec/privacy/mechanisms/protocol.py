"""What a central mechanism adds to :class:`dpspec.privacy.schedule.Mechanism`.

Only the meter calls ``apply``: algorithms go through :class:`dpspec.privacy.meter.Release`.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar, Protocol, runtime_checkable

from dpspec.numeric.norms import SMALLEST, Norm, OutOfRange, length
from dpspec.privacy.noise import Array, NoiseSource
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
    #: Whether how many numbers come out, and how many go in, depends on the records: then the noise has to hide that as well.
    open_ended: ClassVar[bool] = False

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


class _Solved(Protocol):
    """What :class:`Minimised` reads: the number of records that the objective is divided by, and its l2 weights."""

    n: int
    l2: float

    def extra(self, level: float) -> float: ...


class Minimised(Drawn):
    """What the objective perturbations share: the value is a solver, a function of (linear term, extra l2 weight) to the minimiser."""

    __slots__ = ()

    def check(self, value: Any) -> str | None:
        return None if callable(value) else "objective perturbation takes the solver, a function of (linear term, extra l2 weight)"

    def blind(self, value: Any) -> tuple[Any, Any]:
        """What is seen is the minimiser at the planned linear term, the same term in every run with one seed; the term itself is drawn."""
        import numpy as np

        seen: list[Array] = []

        def stand_in(linear: Array, extra: float) -> Array:
            seen.append(np.array(value(linear, extra), dtype=float))
            return linear

        return seen, stand_in

    def distance(self: _Solved, level: float, one: Any, other: Any, slack: float = 0.0) -> float:
        """The least change of the sum of gradients that explains two minimisers at one linear term: the mean objective is Lambda-strongly
        convex, and each point is ``slack``/Lambda from its minimiser."""
        import numpy as np

        weight = self.l2 + self.extra(level)
        apart = length(np.asarray(one) - np.asarray(other))
        return float(self.n * (weight * apart - 2 * slack))


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
