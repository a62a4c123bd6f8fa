"""Fresh records of a trial's law, enforced, on which a population risk is measured. Study mode only.

F(w) of the law is taken as the mean over N fresh records (four times those of the trial, at most MOST numbers), and its least value as
the least one of that mean: the excess is then off by the order of d/N.

Of squared loss it is known in closed form, and with no error of a sample, where the law tells E x x^T and E x y
(:meth:`dpspec.data.laws.Simulation.products`), enforcement changes no record of the sample, and the minimiser lies in the set: with k/2 the
factor of (y - <w, x>)^2 and a ridge l2, F(w) - F(w*) = (w - w*)^T (k E x x^T + l2 I) (w - w*)/2.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from dpspec.compiler.draft import Draft, ReleaseDraft
from dpspec.compiler.plan import meaning
from dpspec.executor import bind
from dpspec.measures.measure import Population
from dpspec.tasks.registry import of

#: Numbers in the sample (records times coordinates), and the fewest records.
MOST: Final = 2**22
FEWEST: Final = 2**14

#: The last ones of this process: points and algorithms that are compared share a trial's.
_KNOWN: dict[Any, Population] = {}
_KEPT: Final = 4


def population(draft: Draft, release: ReleaseDraft, problem: Any, seed: int, trial: int) -> Population:
    """The sample of a trial; of a law whose parameters are all given, one for every trial."""
    from dpspec.data.laws import Simulation
    from dpspec.data.records import Records

    simulation = Simulation(draft.analysis.simulate, draft.facts, missing=bind.missing(draft))
    number = 0 if simulation.fixed else trial
    key = (meaning(draft.analysis), release.index, seed, number)
    if key not in _KNOWN:
        while len(_KNOWN) >= _KEPT:
            _KNOWN.pop(next(iter(_KNOWN)))
        size = min(max(4 * simulation.n, FEWEST), max(MOST // simulation.d, FEWEST))
        blocks = list(simulation.checking(seed, number, size))
        y = np.concatenate([b for _, b in blocks]) if blocks[0][1] is not None else None
        records, counts = bind.enforced(draft, Records(np.concatenate([x for x, _ in blocks]), y))
        solve = of(problem.task).reference
        settings: Mapping[str, Any] = release.tunables or {}
        known = None if any(counts.touched.values()) else quadratic(simulation, seed, number, problem)
        _KNOWN[key] = Population(records, lambda: solve(records, problem, settings), known)
    return _KNOWN[key]


def quadratic(simulation: Any, seed: int, trial: int, problem: Any) -> tuple[Any, Any] | None:
    """(w*, H) of the mean squared loss of a trial's law; None for other losses and laws, an l1 term, and a w* outside of the set."""
    from dpspec.symbolic.losses import recognise

    loss = problem.oracle
    form = getattr(getattr(getattr(loss, "phi", None), "__self__", None), "form", None)
    named = None if form is None else recognise(form)
    if named is None or named.name != "squared" or loss.l1 or loss.group is not None:
        return None
    known = simulation.products(seed, trial)
    if known is None:
        return None
    factor = float(named.factor)
    curvature = factor * known[0] + loss.l2 * np.eye(simulation.d)
    if np.linalg.cond(curvature) > 1e12:
        return None
    best = np.linalg.solve(curvature, factor * known[1])
    return (best, curvature) if np.allclose(loss.over.project(best), best, rtol=1e-9, atol=1e-12) else None
