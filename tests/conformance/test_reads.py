"""What an algorithm asks of the records is what its card says (``Card.reads``): how often it goes over the blocks, and how many it holds.

The records are handed out in small blocks that nobody else refers to, so that one which an algorithm keeps is still there when the next
one is asked for.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import numpy as np

from dpspec.executor import bind
from dpspec.executor.bind import bound_problem
from dpspec.lang.source import Parsed
from dpspec.privacy.meter import Release
from dpspec.privacy.noise import PublicRandomness, StudyNoise
from tests.conformance.cases import ALGORITHMS, Case, case, measured, neighbours
from tests.conformance.test_add_remove import with_option
from tests.conformance.test_conformance import small

ORDER = ("sums", "passes", "parts", "rows", "whole")
#: Blocks that may be alive at once: the one that is read, and the one before it.
HELD = 3


class Watched:
    """Records that note what is asked of them."""

    def __init__(self, records: Any, log: list[str], alive: list[Any], most: list[int]) -> None:
        self._records, self._log, self._alive, self._most = records, log, alive, most

    def __getattr__(self, name: str) -> Any:
        if name == "each":  # of records that are with workers
            raise AttributeError(name)
        if name not in ("n", "d", "has_y", "public_x", "sparse", "mapped"):
            self._log.append("whole")
        return getattr(self._records, name)

    def _out(self, block: Any) -> Any:
        x, y = block
        x = np.array(x) if isinstance(x, np.ndarray) else x.copy()
        self._alive.append(weakref.ref(x))
        self._alive[:] = [r for r in self._alive if r() is not None]
        self._most[0] = max(self._most[0], len(self._alive))
        return x, None if y is None else np.array(y)

    def blocks(self, size: int = 2) -> Iterator[Any]:
        self._log.append("pass")
        for start in range(0, self._records.n, 2):
            yield self._out(next(self._records.slice(start, min(start + 2, self._records.n)).blocks()))

    def rounds(self, T: int) -> Iterator[Any]:
        self._log.append("parts")
        yield from self._records.rounds(T)

    def slice(self, start: int, stop: int) -> Any:
        return Watched(self._records.slice(start, stop), self._log, self._alive, self._most)

    def take(self, index: Any) -> Any:
        self._log.append("rows")
        return Watched(self._records.take(index), [], [], [0])


class Drawing:
    """A meter that notes when it draws."""

    def __init__(self, meter: Release, log: list[str]) -> None:
        self._meter, self._log = meter, log

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._meter, name)
        if name not in ("draw", "peel"):
            return found

        def draw(*args: Any, **more: Any) -> Any:
            self._log.append("draw")
            return found(*args, **more)

        return draw


def asked(c: Case) -> tuple[str, int]:
    """The word of a run, and how many blocks were alive at once."""
    r = c.release
    records, _ = bind.enforced(c.draft, neighbours(c)[0])
    log: list[str] = []
    most = [0]
    meter = Release(r.calibrated, StudyNoise(5), mode="study", public=PublicRandomness(0), per_user=True)
    door: Any = Drawing(meter, log)
    r.module.run(Watched(records, log, [], most), bound_problem(c.draft, r), r.tunables, door)
    meter.close()
    if most[0] > HELD:
        return "whole", most[0]
    for word in ("whole", "rows", "parts"):
        if word in log:
            return word, most[0]
    late = "draw" in log and "pass" in log[log.index("draw") :]
    return "passes" if late or log.count("pass") > 1 else "sums", most[0]


def variants(module: ModuleType) -> Iterator[Parsed]:
    parsed = small(module, n=12)
    yield parsed
    for option, words in module.CARD.options.items():
        yield from (with_option(parsed, option, word) for word in words[1:])


@measured(ALGORITHMS)
def test_an_algorithm_asks_for_no_more_than_its_card_says(module: ModuleType) -> None:
    for parsed in variants(module):
        try:
            c = case(parsed)
        except AssertionError:  # an option that this spec's budget or domain does not allow
            continue
        word, held = asked(c)
        assert ORDER.index(word) <= ORDER.index(module.CARD.reads), f"{module.CARD.id} asks for {word} ({held} blocks at once)"
