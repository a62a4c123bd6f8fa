"""What the spec's own law says of its assumptions: refuted ones are errors (DP225), the others are ``tested``.

An assumption about records is held against a sample of the ``simulate`` block, as it is drawn and as the domains of the data section
leave it: authors speak of either, so one is false only where both samples refute it. The procedures and their level are in
:mod:`dpspec.data.refute`. Sample and seed are fixed, so a spec gets the same answer every time; results are kept for the process.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final, TypeVar

from dpspec.compiler.draft import Draft, Resolved
from dpspec.spec.assumptions import ASSUMPTIONS, assumed, target
from dpspec.spec.diagnostics import SpecError
from dpspec.spec.expr import Bin, Expr, NotANumber, Unbound, evaluate, names
from dpspec.spec.model import Assumption, Law

#: Numbers in a sample (records times coordinates), and the most and the fewest records.
NUMBERS: Final = 2**19
MOST: Final = 20_000
FEWEST: Final = 2_000
_SEED: Final = 20_261_128

Stage = TypeVar("Stage", bound=Resolved)
_KNOWN: dict[str, tuple[int, Mapping[int, str | None]]] = {}


def held_against_the_law(draft: Draft[Stage]) -> Draft[Stage]:
    """The draft with DP225 for each assumption that the law of the ``simulate`` block refutes, and ``tested`` for the others."""
    asked = [i for i, a in enumerate(draft.analysis.assume) if _test(a)]
    if not asked or not draft.analysis.simulate or "d" not in draft.facts or "n" not in draft.facts or draft.failed:
        return draft
    key = _key(draft)
    if key not in _KNOWN:
        try:
            found = _answers(draft, asked)
        except (SpecError, Unbound, NotANumber, ArithmeticError, ValueError, MemoryError):
            found = (0, {})  # the laws and the numbers have their own diagnostics
        while len(_KNOWN) >= 256:
            _KNOWN.pop(next(iter(_KNOWN)))
        _KNOWN[key] = found
    size, answers = _KNOWN[key]
    tested = {}
    for i, reason in answers.items():
        a = draft.analysis.assume[i]
        if reason is None:
            tested[i] = f"not refuted on {size:,} draws of the law (level 1e-6)"
        else:
            draft = draft.report(
                "DP225",
                f"the law of the simulate block refutes `{said(a)}`: {reason}",
                path=("assume", i),
                help="state what the law has, or simulate a law that has it: defaults and bounds rest on the declaration",
            )
    return replace(draft, tested=tested)


def said(a: Assumption) -> str:
    """An assumption as an author writes it, in short."""
    return a.name if a.of is None else f"{a.name} of {a.of}"


def _test(a: Assumption) -> str:
    """The procedure that decides an assumption, or nothing: of gradients none does, and what a certificate decides is tested where it is
    said of the population alone."""
    name = assumed(a.name, a.of)
    word, of = ASSUMPTIONS.get(name), target(name, a.of)
    return "" if word is None or of == "gradient" or (word.loss and of != "population") else word.test


def _key(draft: Draft[Stage]) -> str:
    a = draft.analysis
    tasks = [r.task for r in a.releases if hasattr(r.task, "loss")]
    text = json.dumps([x.model_dump(mode="json") for x in (*a.simulate, *a.assume, *a.data.domains, *tasks)], sort_keys=True)
    used = {k: str(v) for k, v in draft.facts.items() if k == "d" or re.search(rf'"{re.escape(k)}"', text)}
    return text + json.dumps(used, sort_keys=True)


def _answers(draft: Draft[Stage], asked: list[int]) -> tuple[int, Mapping[int, str | None]]:
    import numpy as np

    from dpspec.data.enforce import enforce
    from dpspec.data.laws import Simulation
    from dpspec.data.records import Records
    from dpspec.data.refute import ON_ROWS, ON_SAMPLE, Sample
    from dpspec.data.refute_loss import ON_LOSS

    d = int(draft.facts["d"])
    size = min(MOST, max(FEWEST, NUMBERS // max(d, 1)))

    def drawn(laws: tuple[Law, ...]) -> tuple[Any, Any]:
        blocks = list(Simulation(laws, draft.facts).checking(_SEED, 0, size))
        return np.concatenate([x for x, _ in blocks]), None if blocks[0][1] is None else np.concatenate([y for _, y in blocks])

    simulation = Simulation(draft.analysis.simulate, draft.facts)
    parameters = dict(simulation.trial(_SEED, 0)[1].parameters)
    x, y = drawn(draft.analysis.simulate)
    if not np.isfinite(x).all():
        return size, {}
    noise_laws = _noise(draft.analysis.simulate)
    noise = None if noise_laws is None or y is None else drawn(noise_laws)[1]
    raw = Sample(x, y, parameters, noise)
    samples = [raw]
    if any(domain.by is not None for domain in draft.analysis.data.domains):
        known = {k: v for k, v in draft.facts.items() if k not in ("n", "d")}
        made, _ = enforce(Records(x.copy(), None if y is None else y.copy()), draft.analysis.data, known)
        samples.append(Sample(np.asarray(made.x), made.y, parameters, noise))

    answers: dict[int, str | None] = {}
    for i in asked:
        a = draft.analysis.assume[i]
        values = [float(evaluate(e, draft.facts)) for e in (*a.args, *(e for _, e in a.options))]
        test, of = _test(a), target(assumed(a.name, a.of), a.of)
        reasons = []
        for sample in samples:
            if test in ON_LOSS:
                reasons += [_call(ON_LOSS[test], c, values) for c in _curves(draft, sample)]
            elif test in ON_SAMPLE:
                if test == "sparse" and of != "theta":
                    continue
                reasons.append(_call(ON_SAMPLE[test], sample, values))
            elif (rows := sample.of(of)) is not None and np.isfinite(rows).all():
                reasons.append(_call(ON_ROWS[test], rows, values))
        if reasons and reasons != [_UNFIT] * len(reasons):
            answers[i] = None if None in reasons else reasons[0]
    return size, answers


def _curves(draft: Draft[Stage], sample: Any) -> list[Any]:
    """The losses of the releases on a sample, those of one margin; the law's weights are its theta or w."""
    import numpy as np

    from dpspec.algorithms.objective import Objective
    from dpspec.compiler.certify import binding_of
    from dpspec.compiler.draft import Certified
    from dpspec.data.refute_loss import Curve
    from dpspec.tasks.registry import of

    star = next((np.asarray(sample.parameters[k], dtype=float) for k in ("theta", "w") if k in sample.parameters), None)
    found = []
    for release in draft.releases:
        if not isinstance(release, Certified) or release.problem.loss is None:
            continue
        objective = of(release.problem.task).bind(binding_of(draft, release, release.problem))
        if isinstance(objective, Objective):
            fits = star is not None and star.shape == (sample.x.shape[1],)
            radius = float(release.problem.facts.get("w_radius", math.inf))
            found.append(Curve(objective.phi, objective.slope, sample.x, sample.y, objective.l2, star if fits else None, radius))
    return found


_UNFIT: Final = "?"


def _call(test: Callable[..., str | None], rows: Any, values: list[float]) -> str | None:
    """The test with the declared constants; `_UNFIT` where the author states fewer than it needs."""
    import inspect

    parameters = list(inspect.signature(test).parameters.values())[1:]
    needed = sum(p.default is inspect.Parameter.empty for p in parameters)
    return _UNFIT if len(values) < needed else test(rows, *values[: len(parameters)])


def _noise(laws: tuple[Law, ...]) -> tuple[Law, ...] | None:
    """The laws with y replaced by the terms of its law in which no record stands: the noise of ``y = f(<theta, x>) + noise``."""
    for i, law in enumerate(laws):
        if law.variable == "y":
            terms = [e for e in _terms(law.law) if "x" not in names(e)]
            if not terms or len(terms) == len(_terms(law.law)):
                return None
            total = terms[0]
            for e in terms[1:]:
                total = Bin("+", total, e)
            return (*laws[:i], law.model_copy(update={"law": total}), *laws[i + 1 :])
    return None


def _terms(e: Expr) -> list[Expr]:
    return [*_terms(e.left), *_terms(e.right)] if isinstance(e, Bin) and e.op == "+" else [e]
