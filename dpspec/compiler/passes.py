"""The compiler: a list of passes, each a pure function in its own file.

resolve    public numbers get their values
certify    constants of the loss are proved, false claims refused
select     every algorithm is asked; the best that can serve is taken
calibrate  the noise of the whole analysis is set so that it spends the budget
bound      the bounds get numbers; the target is met, missed or undecided
cost       gradients, draws, bits, memory
"""

from __future__ import annotations

from dpspec.compiler.bound import Seek, bound, substituted
from dpspec.compiler.calibrate import calibrate
from dpspec.compiler.certify import certify
from dpspec.compiler.cost import cost
from dpspec.compiler.draft import Draft
from dpspec.compiler.resolve import resolve
from dpspec.compiler.select import select
from dpspec.lang.source import Parsed

PASSES = (resolve, certify, select, calibrate, bound, cost)


def compile_draft(parsed: Parsed, *, least: Seek = "always") -> Draft:
    """Run every pass over a parsed spec. Never raises on bad input: the findings are in ``diagnostics``.

    ``least``: whether the least n and epsilon of a target are sought ``always``, or only where it is ``missed`` and the message needs
    them (each search compiles the analysis some twenty times).
    """
    draft = Draft(parsed=parsed)
    for step in PASSES:
        draft = bound(draft, _recompile, least) if step is bound else step(draft)
    return draft


def _recompile(draft: Draft, variable: str, value: float) -> Draft:
    """The analysis at another n or epsilon, as far as its bounds, with the same algorithm."""
    again = substituted(draft, variable, value)
    for step in PASSES[:-1]:
        again = step(again)
    return again
