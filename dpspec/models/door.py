"""The only way of an algorithm to noise: what it may say to the meter (:class:`dpspec.privacy.meter.Release`)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

#: What ``Door.public.generator`` hands out: coins that anyone may know.
PublicCoins: TypeAlias = np.random.Generator


class Door(Protocol):
    """Each call is checked against the plan: name, count, size and sensitivity."""

    @property
    def public(self) -> Any:
        """Seeded randomness for public objects."""

    def scale(self, name: str) -> float:
        """The planned noise scale of a draw: a public number."""

    def level(self, name: str) -> float: ...

    def remaining(self, name: str) -> int: ...

    def draw(self, name: str, value: Any, *, sensitivity: float) -> Any: ...

    def peel(self, name: str, value: Any, *, sensitivity: float, kept: int | None = None) -> NDArray[np.float64]: ...

    def mean(self, name: str, values: Any) -> NDArray[np.float64]: ...

    def mean_blocks(self, name: str, blocks: Iterable[Any]) -> NDArray[np.float64]: ...

    def mean_blocks_many(self, names: Sequence[str], blocks: Iterable[Any]) -> tuple[NDArray[np.float64], ...]: ...

    def reports(self, name: str, values: Any) -> NDArray[np.float64]: ...

    def batch(self, name: str, count: int | None = None) -> NDArray[np.intp]: ...


class Told:
    """Blocks of what the users of one round hand to their clients, with what these are told beforehand: ``told``, public arrays by name,
    such as the weights of a gradient. A meter reads the blocks; a collector publishes what is told to the users of a round."""

    __slots__ = ("_blocks", "told")

    def __init__(self, blocks: Iterable[Any], told: Mapping[str, NDArray[np.float64]]) -> None:
        self._blocks, self.told = blocks, dict(told)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._blocks)
