"""The registry of diagnostic codes.

One entry a code; each area keeps its own block in ``codes_<area>.py`` as ``CODES: dict[str, Code]``. ``dpspec explain CODE`` prints
the entry, and the documentation has a page a code generated from it.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import Any

AREAS = ("lang", "assumptions", "privacy", "accuracy", "data", "audit", "audit_empirical", "ledger", "policy")


@dataclass(frozen=True, slots=True)
class Code:
    """``title``: one line. ``explanation``: why it matters, in a paragraph or two. ``bad`` and ``good``: a small example and its repair.
    ``references``: documents or papers."""

    title: str
    explanation: str
    bad: str = ""
    good: str = ""
    references: tuple[str, ...] = ()


def _load() -> dict[str, Code]:
    codes: dict[str, Code] = {}
    for area in AREAS:
        module: Any = importlib.import_module(f"dpspec.spec.codes_{area}")
        for code, entry in module.CODES.items():
            if code in codes:
                raise RuntimeError(f"{code} is registered twice")
            codes[code] = entry
    return codes


class _Registry(dict[str, Code]):
    """Loads the areas on first use, so that importing the model costs nothing."""

    _loaded = False

    def _fill(self) -> None:
        if not self._loaded:
            self.update(_load())
            type(self)._loaded = True

    def __contains__(self, key: object) -> bool:
        self._fill()
        return super().__contains__(key)

    def __getitem__(self, key: str) -> Code:
        self._fill()
        return super().__getitem__(key)

    def all(self) -> dict[str, Code]:
        self._fill()
        return dict(sorted(self.items()))


CODES = _Registry()
