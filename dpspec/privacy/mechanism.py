"""What a mechanism is, apart from the trees that schedules make of them: devices read channels and no schedule."""

from __future__ import annotations

from typing import Literal, Protocol, TypeAlias, runtime_checkable

#: How a mechanism is accounted for.
#: ``gaussian``: exactly a mu-GDP release, mu = sensitivity/scale; level = noise multiplier (scale/sensitivity).
#: ``laplace``: level = scale/sensitivity (the exact Laplace trade-off curve is used where a delta is allowed).
#: ``bounded-range``: the exponential mechanism; level = epsilon; epsilon-DP and epsilon^2/8-zCDP.
#: ``pure``: any epsilon-DP mechanism; level = epsilon.
#: ``approx``: (epsilon, delta)-DP at the mechanism's own ``delta`` and no more is known, so it composes with nothing; level = epsilon.
Family: TypeAlias = Literal["gaussian", "laplace", "bounded-range", "pure", "approx"]
Norm: TypeAlias = Literal["l1", "l2", "linf", "score", "none"]


@runtime_checkable
class Mechanism(Protocol):
    """What a draw may name: a central mechanism or the client of a local channel. Implementations are frozen dataclasses."""

    @property
    def kind(self) -> str:
        """Stable word: ``gaussian``, ``laplace``, ``hemisphere``, ``gaussian-symmetric``, ..."""
        ...

    @property
    def family(self) -> Family: ...

    @property
    def sensitivity(self) -> float:
        """Of the released object, in :attr:`norm`, under the analysis' neighbouring relation. NaN where there is none (pure channels)."""
        ...

    @property
    def norm(self) -> Norm: ...

    @property
    def size(self) -> int:
        """How many numbers one draw releases."""
        ...

    @property
    def reference(self) -> str:
        """Where the sensitivity and the privacy claim come from."""
        ...

    def scale(self, level: float) -> float:
        """The noise scale at a level: standard deviation (gaussian), b (laplace), or the output magnitude of a pure channel."""
        ...
