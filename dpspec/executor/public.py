"""The real records of a study: public ones of the spec, or a public file in the place of its private data. Study mode only.

Of a file in the place of private data each trial trains on as many records as the plan says, drawn anew without replacement where the file
has more; where it has fewer the study is one at the smaller n, and says so. Some may be held out: no trial trains on them, and what was
found on others is measured on them too. Records of one unit stay together, so that nobody is on both sides.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dpspec.compiler.draft import Draft
from dpspec.compiler.files import base_dir
from dpspec.spec.diagnostics import Diagnostic, SpecError
from dpspec.spec.model import MemorySource, as_json

Codes: TypeAlias = NDArray[np.int64]
_TICKETS: Final = 2**62

#: Of a column that is one number in every record after encoding and enforcement, before its name, among the counts of what enforcement
#: changed.
CONSTANT: Final = "column "


@dataclass(frozen=True, slots=True)
class Public:
    """``path``: the file that stands in for the records of the spec, None for its own. ``holdout``: the share that is held out."""

    path: str | None = None
    holdout: Fraction = Fraction(0)


@dataclass(frozen=True)
class Real:
    """Enforced records, with what enforcement changed in all of them and the references that were solved on some. ``every``: all rows of
    the file, before those that count of each unit are chosen. ``memory``: kept alive, as its identity is part of the key."""

    records: Any
    counts: Any
    memory: Any
    solved: dict[Any, Any]
    every: Any
    public: Public | None = None
    seed: int = 0
    _unit: str = ""
    _draft: Draft | None = field(default=None, repr=False)

    @property
    def _owner(self) -> Codes | None:
        """The unit of each row, where one has several."""
        return np.asarray(self.every.beside(self._unit)[0]) if self._unit else None

    @cached_property
    def _split(self) -> tuple[Codes, Codes]:
        """Places of the rows to train on and of those that are held out, both rising."""
        order = _shuffled(self._owner, self.every.n, self.seed, "holdout")
        out = 0 if self.public is None else int(self.public.holdout * self.every.n)
        if not out:
            return np.sort(order), np.empty(0, dtype=np.int64)
        start = self.every.n - out
        if self._owner is not None:  # the unit that the cut goes through is trained on
            owner = self._owner[order]
            while 0 < start < owner.size and owner[start] >= 0 and owner[start] == owner[start - 1]:
                start += 1
        return np.sort(order[:start]), np.sort(order[start:])

    @property
    def available(self) -> int:
        """How many rows may be trained on."""
        return int(self._split[0].size)

    @cached_property
    def held(self) -> Any:
        """The records that are held out; None where none are."""
        return self._counting(self.every.take(self._split[1]), ("held",)) if self._split[1].size else None

    def sampled(self, n: int | None) -> bool:
        """Whether trials differ in their records."""
        return self.public is not None and n is not None and n < self.available

    def training(self, n: int | None, trial: int) -> Any:
        """The records of a trial: n of those that may be trained on, in the order of the file."""
        if self.public is None:
            return self.records
        rows = self._split[0]
        if n is not None and n < rows.size:
            owner = None if self._owner is None else self._owner[rows]
            rows = np.sort(rows[_shuffled(owner, rows.size, self.seed, "sample", trial)[:n]])
        elif rows.size == self.every.n:
            return self.records
        return self._counting(self.every.take(rows), ("units", trial))

    def _counting(self, records: Any, path: tuple[int | str, ...]) -> Any:
        from dpspec.executor.bind import of_units
        from dpspec.privacy.noise import StudyNoise

        assert self._draft is not None  # set wherever there is a Public
        return of_units(self._draft, records, StudyNoise(self.seed, *path))


def _shuffled(owner: Codes | None, n: int, seed: int, *path: int | str) -> Codes:
    """The places of n rows in random order, those of an owner next to each other. A row of nobody is a unit of its own."""
    from dpspec.privacy.noise import StudyNoise

    noise = StudyNoise(seed, *path)
    if owner is None:
        return np.argsort(np.asarray(noise.integers(_TICKETS, n)), kind="stable").astype(np.int64)
    owner, nobody = np.array(owner), owner < 0
    owner[nobody] = owner.max(initial=0) + 1 + np.arange(np.count_nonzero(nobody))
    _, at = np.unique(owner, return_inverse=True)
    tickets = np.asarray(noise.integers(_TICKETS, int(at.max(initial=-1)) + 1))
    return np.lexsort((np.arange(n), np.ravel(at), tickets[np.ravel(at)])).astype(np.int64)


#: The real records of the last study in this process. Points that vary a budget share them.
_REAL: dict[Any, Real] = {}


def forget_real() -> None:
    """Files may have changed since the last study."""
    _REAL.clear()


def named_in(text: str, draft: Draft) -> tuple[tuple[str, Any], ...]:
    """The facts that a piece of the analysis could be reading: those whose name occurs in it."""
    return tuple(sorted((k, v) for k, v in draft.facts.items() if k in text))


def real_records(draft: Draft, memory: Any, public: Public | None = None, seed: int = 0) -> Real:
    """The public records that a study of ``draft`` runs on, read once a process.

    Raises SpecError: DP410 for private data, also where the file that stands in for them is the private one; what the loader finds.
    """
    from dpspec.data.sources import load
    from dpspec.executor.bind import beside, enforced, missing, of_units, public_records, values
    from dpspec.privacy.noise import StudyNoise

    data, path = draft.analysis.data, None if public is None else public.path
    if path is not None:
        _not_the_private_one(draft, path)
    elif data.status != "public":
        _refused(
            draft,
            "the data are private, and a study measures true errors, which is a release of its own",
            "add a `simulate` block with a data law, hand over public records of the same form (--data FILE), or mark the data `public` if "
            "they are",
        )
    elif data.source is None or (isinstance(data.source, MemorySource) and memory is None):
        _refused(draft, "there is neither a data law nor data", "add a `simulate` block, or --data FILE")
    text = as_json(data)
    key = (text, str(draft.analysis.privacy.public), named_in(text, draft), draft.parsed.path, id(memory), beside(draft), public, seed)
    if key in _REAL:
        return _REAL[key]
    base = base_dir(draft.parsed.path)
    raw = load(
        data,
        data_file=path,
        memory=memory if path is None else None,
        base_dir=base,
        values=values(draft),
        private=False,
        missing=missing(draft),
        beside=beside(draft),
        counted=path is None and (public is None or not public.holdout),
    )
    every, counts = enforced(draft, public_records(draft, raw, base))
    counts.touched.update(dict.fromkeys((f"{CONSTANT}{name}" for name in _levelled(draft, raw, every)), every.n))
    records = of_units(draft, every, StudyNoise(0, "units"), counts)
    unit = data.identified if data.identified in getattr(every, "words", {}) else ""
    _REAL.clear()
    _REAL[key] = Real(records, counts, memory, {}, every, public, seed, unit or "", draft)
    return _REAL[key]


def _refused(draft: Draft, message: str, help: str) -> None:
    finding = Diagnostic("DP410", "error", message, help, draft.span("data"))
    raise SpecError([finding], path=draft.parsed.path, text=draft.parsed.text)


def _private_file(draft: Draft) -> Path | None:
    from dpspec.data.files import local

    source = getattr(draft.analysis.data.source, "path", None)
    return None if draft.analysis.data.status != "private" or source is None else local(source, base_dir(draft.parsed.path))


def private_known(draft: Draft) -> bool:
    """Whether there is nothing private, or the private file of the spec is here, so that another can be told from it."""
    from dpspec.data.files import is_pattern

    if draft.analysis.data.status != "private":
        return True
    private = _private_file(draft)
    return private is not None and (private.exists() or is_pattern(private))


def _not_the_private_one(draft: Draft, path: str) -> None:
    """Errors on the private records would be a release of their own."""
    from dpspec.data.files import SpecFile, private_one

    private = _private_file(draft)
    if private is None:
        return
    if private_known(draft) and private_one(SpecFile("public data", path, Path(path)), private):
        _refused(
            draft,
            f"{Path(path).name} is the private file of the spec, and a study measures true errors, which is a release of its own",
            "name a file of other records that are public, or add a `simulate` block",
        )
    named = Path(str(draft.analysis.data.source.path)).parts  # type: ignore[union-attr]
    if not private_known(draft) and Path(path).parts[-len(named) :] == named:
        _refused(
            draft,
            f"{Path(path).name} is named as the private file of the spec, which is not where the spec says, so it may be that one",
            "run it where the private file is, or give the public records another name",
        )


def _levelled(draft: Draft, raw: Any, records: Any) -> list[str]:
    """The columns of numbers that are the same in every record once they are encoded and enforced."""
    x, data = getattr(records, "x", None), draft.analysis.data
    if not isinstance(x, np.ndarray) or records.n < 2 or x.shape[1] != len(raw.columns):
        return []
    levels = {e.column for e in data.encode if e.how in ("levels", "one-hot")}
    return [c for j, c in enumerate(raw.columns) if c != "intercept" and c.partition("=")[0] not in levels and np.ptp(x[:, j]) == 0]
