"""What an event or channel type declares of itself, and the values that each field may hold."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

COMMON = ("type", "count", "draws", "what", "arithmetic", "scale_from", "clip", "text", "note", "contributions", "attained")

#: Fields that are for the reader alone; no number depends on them.
INFORMATION = ("type", "what", "text", "note", "method", "condition", "inputs", "outputs")


@dataclass(frozen=True, slots=True)
class Kind:
    """``fields``: words of this kind besides the common ones. ``needs``: groups of which one word each must be present. ``aliases``: other
    names of the kind. ``sorts``: what fields may hold that no other kind has, or has with another meaning.

    ``contributions``: the kind counts several records of a unit itself. ``noise``: the law of its noise, where doubles of that law tell
    neighbours apart. ``guarantee``: for a step that is known by its guarantee alone, the name of the guarantee.
    ``attained``: the neighbours that show the lower bound; empty where none are known, and then nothing of this kind is refuted.
    """

    title: str
    fields: tuple[str, ...] = ()
    needs: tuple[tuple[str, ...], ...] = ()
    aliases: tuple[str, ...] = ()
    sorts: Mapping[str, Sort] = field(default_factory=dict)
    contributions: bool = False
    noise: str = ""
    guarantee: str | None = None
    attained: str = ""


@dataclass(frozen=True, slots=True)
class Sort:
    """The values of a field: numbers from ``low`` to ``high`` (``whole`` ones; ``above``: without ``low``), or ``words``, or another
    ``form``: flag, text, word, list, pairs, events, votes, numbers, matrix, channels."""

    title: str
    low: float = 0.0
    high: float = math.inf
    whole: bool = False
    above: bool = False
    below: bool = False
    words: tuple[str, ...] = ()
    form: str = "number"

    def fault(self, value: Any) -> str:
        """Why ``value`` (numbers as numbers, fractions already divided) is none of this sort; empty when it is one."""
        if self.form in ("events", "votes", "channels"):
            return ""  # read by the loader itself
        if self.form == "flag":
            return "" if isinstance(value, bool) else f"must be true or false, not {shown(value)}"
        if self.form in ("text", "list", "pairs"):
            fine = isinstance(value, (str, int, float)) if self.form == "text" else isinstance(value, (list, tuple))
            return "" if fine else f"must be {self.title}, not {shown(value)}"
        if isinstance(value, str) and value in self.words:
            return ""
        if self.form in ("numbers", "matrix"):
            return "" if _numbers(value, 2 if self.form == "matrix" else 1) else f"must be {self.title}, not {shown(value)}"
        if self.form == "word":
            return f"must be one of {', '.join(self.words)}, not {shown(value)}"
        also = f" or {' or '.join(self.words)}" if self.words else ""
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            return f"must be {self.title}{also}, not {shown(value)}"
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        fine = math.isfinite(number) and self.low <= number <= self.high and not (self.whole and number != int(number))
        fine = fine and not (self.above and number <= self.low) and not (self.below and number >= self.high)
        return "" if fine else f"must be {self.title}{also}, not {shown(value)}"


def _numbers(value: Any, depth: int) -> bool:
    """Whether it is a list (of lists) of finite numbers, none of them empty and all inner lists of one length."""
    if depth == 0:
        return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < 1e150
    if not isinstance(value, (list, tuple)) or not value:
        return False
    if depth == 2 and len({len(row) if isinstance(row, (list, tuple)) else -1 for row in value}) != 1:
        return False
    return all(_numbers(item, depth - 1) for item in value)


def shown(value: Any) -> str:
    text = (
        f"{value:g}" if isinstance(value, float) else str(value) if isinstance(value, int) and not isinstance(value, bool) else repr(value)
    )
    return text if len(text) <= 40 else text[:37] + "..."


_MOST = 2.0**53
WHOLE = Sort("a whole number from 1", low=1, high=_MOST, whole=True)
COUNT_FROM_0 = Sort("a whole number from 0", high=_MOST, whole=True)
POSITIVE = Sort("a finite number above 0", above=True)
AMOUNT = Sort("a finite number from 0")
CHANCE = Sort("a number in [0, 1]", high=1)
REAL = Sort("a finite number", low=-math.inf)
FLAG = Sort("true or false", form="flag")
TEXT = Sort("text", form="text")
OPEN_ENDED = ("unknown", "unbounded")

#: Every field of events and channels, and what it may hold. ``releases`` differs by kind (:data:`SORTS_OF`).
SORTS: Mapping[str, Sort] = {
    "type": TEXT,
    "what": TEXT,
    "text": TEXT,
    "note": TEXT,
    "method": TEXT,
    "condition": TEXT,
    "count": WHOLE,
    "draws": COUNT_FROM_0,
    "contributions": Sort(WHOLE.title, 1, _MOST, True, words=OPEN_ENDED),
    "arithmetic": Sort("", form="word", words=("lattice", "safe", "float64", "double", "float32", "single")),
    "scale_from": Sort("", form="word", words=("data", "from-data", "private", "data-range", "public", "fixed")),
    "clip": Sort("", form="word", words=("none", "copy", "missing", "unbounded", "record", "enforced")),
    "l1_sensitivity": AMOUNT,
    "l2_sensitivity": AMOUNT,
    "linf_sensitivity": AMOUNT,
    "score_sensitivity": AMOUNT,
    "sensitivity": AMOUNT,
    "clip_norm": AMOUNT,
    "norm_bound": AMOUNT,
    "sigma": AMOUNT,
    "scale": AMOUNT,
    "noise_multiplier": AMOUNT,
    "variance": AMOUNT,
    "threshold_scale": AMOUNT,
    "query_scale": AMOUNT,
    "rho": AMOUNT,
    "mu": AMOUNT,
    "epsilon": AMOUNT,
    "exponent": AMOUNT,
    "delta": CHANCE,
    "rate": CHANCE,
    "keep": CHANCE,
    "include": CHANCE,
    "p": CHANCE,
    "q": CHANCE,
    "f": CHANCE,
    "p_true_bit": CHANCE,
    "q_other_bit": CHANCE,
    "decay": Sort("a number from 0 to below 1", high=1, below=True),
    "attained": FLAG,
    "folded": FLAG,
    "monotone": FLAG,
    "once": FLAG,
    "n_public": FLAG,
    "vote": Sort("low, high and threshold", form="votes"),
    "threshold": REAL,
    "low": REAL,
    "high": REAL,
    "first_count": POSITIVE,
    "keys": WHOLE,
    "range": AMOUNT,
    "width": AMOUNT,
    "bound": AMOUNT,
    "degrees": POSITIVE,
    "dimension": WHOLE,
    "n": WHOLE,
    "size": WHOLE,
    "candidates": WHOLE,
    "queries": WHOLE,
    "cutoff": WHOLE,
    "limit": WHOLE,
    "batches": WHOLE,
    "epochs": WHOLE,
    "parts": WHOLE,
    "parts_per_unit": Sort(WHOLE.title, 1, _MOST, True, words=OPEN_ENDED),
    "parts_by": Sort("", form="word", words=("value", "position")),
    "categories": Sort("a whole number from 2", 2, _MOST, True),
    "buckets": Sort("a whole number from 2", 2, _MOST, True),
    "hashes": Sort("a whole number from 1 to 1000", 1, 1000, True),
    "hot_bits": Sort("a whole number from 1 to 5", 1, 5, True),
    "sampled_bits": WHOLE,
    "ties": Sort("", form="word", words=("both", "split", "none")),
    "noise": Sort("", form="word", words=("laplace", "gumbel", "exponential", "gaussian")),
    "releases": Sort("", form="word", words=("index", "value", "both")),
    "levels": WHOLE,
    "steps": WHOLE,
    "restarts": WHOLE,
    "participations": Sort(WHOLE.title, 1, _MOST, True, words=OPEN_ENDED),
    "separation": WHOLE,
    "pattern": Sort("", form="word", words=("fixed", "separated")),
    "coefficients": Sort("a list of finite numbers", form="numbers"),
    "encoder": Sort("a list of rows of finite numbers, all of one length", form="matrix"),
    "trials": WHOLE,
    "clamp": AMOUNT,
    "gamma": CHANCE,
    "beta": AMOUNT,
    "threshold_sigma": POSITIVE,
    "asked": WHOLE,
    "lipschitz": AMOUNT,
    "smoothness": AMOUNT,
    "strong_convexity": POSITIVE,
    "attributes": WHOLE,
    "fakes": FLAG,
    "differs": Sort("", form="word", words=("attribute", "record")),
    "reports": Sort(WHOLE.title, 1, _MOST, True, words=OPEN_ENDED),
    "counts": Sort("a list of finite numbers", form="numbers"),
    "channels": Sort("a list of channels", form="channels"),
    "event": Sort("an event", form="events"),
    "events": Sort("a list of events", form="events"),
    "inputs": Sort("a list of names", form="list"),
    "outputs": Sort("a list of names", form="list"),
    "rows": Sort("a list of rows", form="list"),
    "neighbours": Sort("a list of pairs of row numbers", form="pairs"),
}


L1 = ("l1_sensitivity", "sensitivity", "clip_norm", "norm_bound")
L2 = ("l2_sensitivity", "sensitivity", "clip_norm", "norm_bound")
SCORES = ("linf_sensitivity", "score_sensitivity", "sensitivity")
BODY = ("event", "events")
