"""The compiler: a list of passes, each a pure function in its own file, from a draft at one stage to a draft at the next.

resolve    public numbers get their values
certify    constants of the loss are proved, false claims refused
assumed    the other assumptions are held against the simulated law and public records, refuted ones refused
select     every algorithm is asked; the best that can serve is taken
calibrate  the noise of the whole analysis is set so that it spends the budget
bound      the bounds get numbers; the target is met, missed or undecided
cost       gradients, draws, bits, memory
"""

from __future__ import annotations

from dpspec.compiler.assumed import held_against_samples
from dpspec.compiler.bound import Recompile, Seek, bound, substituted
from dpspec.compiler.calibrate import calibrate
from dpspec.compiler.certify import certify
from dpspec.compiler.cost import cost
from dpspec.compiler.draft import Bounded, Calibrated, Chosen, Draft, Resolved
from dpspec.compiler.resolve import resolve
from dpspec.compiler.select import select
from dpspec.lang.source import Parsed
from dpspec.spec.diagnostics import SpecError

PASSES = (resolve, certify, select, calibrate, bound, cost)


def compile_draft(parsed: Parsed, *, least: Seek = "always") -> Draft[Resolved]:
    """Run every pass over a parsed spec. Never raises on bad input: the findings are in ``diagnostics``, and the releases are at the stage
    that they reached.

    ``least``: whether the least n and epsilon of a target are sought ``always``, or only where it is ``missed`` and the message needs
    them (each search compiles the analysis some twenty times), or ``never``: a study measures what a point does, and does not ask.
    """
    draft = _bounded(Draft(parsed=parsed), _recompile, least)
    whole = draft.reached(Bounded)  # a missed target is an error: its plan is printed without costs
    return draft if whole is None else cost(whole)


def compiled(parsed: Parsed, *, least: Seek = "always") -> Draft:
    """A spec that has a plan, whether its targets are met or not. Raises SpecError with every finding where it has none."""
    draft = compile_draft(parsed, least=least)
    releases = [r for r in draft.releases if isinstance(r, Bounded)]
    if draft.blocking or draft.calibrated is None or len(releases) < len(draft.releases):
        raise SpecError(draft.diagnostics, path=parsed.path, text=parsed.text)
    return draft.at(releases)


def _bounded(draft: Draft[Resolved], recompile: Recompile | None, seek: Seek) -> Draft[Resolved]:
    """As far as the bounds, or as far as it goes."""
    known = certify(resolve(draft))
    asked = select(known if draft.predict_only else held_against_samples(known))
    chosen = asked.reached(Chosen)
    if chosen is None:
        return asked
    draft = calibrate(chosen)
    calibrated = draft.reached(Calibrated)
    return draft if calibrated is None else bound(calibrated, recompile, seek)


def _recompile(draft: Draft[Calibrated], variable: str, value: float) -> Draft[Bounded] | None:
    """The analysis at another n or epsilon, as far as its bounds, with the same algorithm."""
    return _bounded(substituted(draft, variable, value), None, "missed").reached(Bounded)
