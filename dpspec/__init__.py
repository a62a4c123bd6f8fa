"""dpspec: spec files, plans, studies and audits for differentially private analyses.

>>> import dpspec as dp
>>> spec = dp.load("analysis.dps")            # doctest: +SKIP
>>> plan = dp.plan(spec)                      # doctest: +SKIP
>>> study = plan.study(trials=50, seed=7)     # doctest: +SKIP

Names are imported where they are first used, so that ``import dpspec`` costs nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from dpspec.version import __version__ as __version__

if TYPE_CHECKING:
    from dpspec import sklearn as sklearn
    from dpspec.api import audit as audit
    from dpspec.api import check as check
    from dpspec.api import load as load
    from dpspec.api import loads as loads
    from dpspec.api import plan as plan
    from dpspec.api import run as run
    from dpspec.api import study as study
    from dpspec.privacy.meter import PrivacyError as PrivacyError
    from dpspec.spec.diagnostics import SpecError as SpecError

_WHERE = {
    "load": "dpspec.api",
    "loads": "dpspec.api",
    "check": "dpspec.api",
    "plan": "dpspec.api",
    "run": "dpspec.api",
    "study": "dpspec.api",
    "audit": "dpspec.api",
    "SpecError": "dpspec.spec.diagnostics",
    "PrivacyError": "dpspec.privacy.meter",
}

__all__ = ["PrivacyError", "SpecError", "audit", "check", "load", "loads", "plan", "run", "study"]


def __getattr__(name: str) -> Any:
    if name == "sklearn":
        return importlib.import_module("dpspec.sklearn")
    if name in _WHERE:
        return getattr(importlib.import_module(_WHERE[name]), name)
    raise AttributeError(f"module 'dpspec' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_WHERE, "sklearn"])
