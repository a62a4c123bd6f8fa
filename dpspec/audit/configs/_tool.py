"""What a tool's file says, and what its configuration is read into."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from dpspec.audit.configs._keys import Keys
from dpspec.audit.configs._words import COMMON
from dpspec.audit.deployment import Deployment
from dpspec.spec.diagnostics import SpecError


@dataclass(frozen=True, slots=True)
class Configured(Deployment):
    """A training configuration. ``readings``: what its open words may mean, each with the condition under which it does; one without a
    condition is not open. ``wanted``: the deployment at any multiplier, where only the target is stated."""

    readings: tuple[tuple[str, Deployment], ...] = ()
    wanted: Callable[[float], tuple[tuple[str, Deployment], ...]] | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Tool:
    """``words``: by what they mean, beside the common ones; a word here loses its common meaning. ``marks``: words (or values) that no
    other tool has. ``rank``: decides between equal numbers of marks. ``alone``: recognised without a word of noise or epsilon.

    ``sampler``: what its documentation runs when the configuration is silent; empty: nothing, so every reading is judged. ``accumulates``:
    whether its batch size is that of one backward pass, so that accumulation multiplies it. ``joint``: whether its noise for clips layer by
    layer is in proportion to all clips together; None: not documented. ``split``: one clip is divided among the layers. ``delta``: its
    default. ``steps_win``: a stated number of steps ends its run, whatever the epochs. ``per_batch``: its Poisson rate is one over the
    number of batches that the loader had. ``translate``: how its words become events.
    """

    title: str
    translate: Callable[[Keys, Tool], Deployment]
    words: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    marks: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    rank: int = 0
    alone: bool = False
    sampler: str = ""
    accumulates: bool = True
    joint: bool | None = None
    split: bool = False
    steps_win: bool = False
    per_batch: bool = False
    delta: str = ""
    unit: str = "record"
    template: str = ""

    def all_words(self) -> Mapping[str, tuple[str, ...]]:
        mine = {w for spelt in self.words.values() for w in spelt}
        found = {meaning: tuple(w for w in spelt if w not in mine) for meaning, spelt in COMMON.items()}
        for meaning, spelt in self.words.items():
            found[meaning] = (*found.get(meaning, ()), *spelt)
        return found

    def read(self, data: Mapping[str, Any]) -> Deployment:
        stated = data.get("inert")
        inert = [stated] if isinstance(stated, str) else [str(s) for s in stated] if isinstance(stated, list) else []
        keys = Keys({k: v for k, v in data.items() if k != "inert"}, self.all_words(), inert)
        try:
            return self.translate(keys, self)
        except SpecError as error:
            told = [d for d in keys.unknown() if d not in error.diagnostics]  # a misspelt word is why another one is missing
            raise SpecError([*error.diagnostics, *told], path=error.path) from None
