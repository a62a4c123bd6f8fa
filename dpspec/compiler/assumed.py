"""What the spec's own law and public records say of its assumptions: refuted ones are errors (DP225), the others are ``tested``.

An assumption about records is held against a sample of the ``simulate`` block, and against public records: data that the spec calls public,
and the public x beside private ones. Each is looked at as it is drawn or read and as the domains of the data section leave it: authors
speak of either, so a statement is false only where both refute it. Private records are never looked at. The procedures and their level are
in :mod:`dpspec.data.refute`, the samples in :mod:`dpspec.compiler.samples`. Samples are fixed, so a spec gets the same answer every time;
results are kept for the process.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from dpspec.compiler.draft import Draft, Stage
from dpspec.spec.assumptions import ASSUMPTIONS, assumed, constants, target
from dpspec.spec.diagnostics import SpecError
from dpspec.spec.expr import NotANumber, Unbound, evaluate
from dpspec.spec.model import Assumption

#: (who refutes, what was looked at, what an author does about it, the reasons by place: None where it is not refuted)
_Answer = tuple[str, str, str, Mapping[int, str | None]]
_KNOWN: dict[str, _Answer | None] = {}


def held_against_samples(draft: Draft[Stage], memory: Any = None, file: str | None = None) -> Draft[Stage]:
    """The draft with DP225 for each assumption that the law of the ``simulate`` block or public records refute, and ``tested`` for the
    others that were looked at. ``memory``: the records of a study of public data ``from memory``; ``file``: public records in the place of
    those of the spec, which the caller knows not to be the private ones."""
    asked = [i for i, a in enumerate(draft.analysis.assume) if _test(a)]
    if not asked or "d" not in draft.facts or draft.failed:
        return draft
    tested: dict[int, str] = {}
    for subject, looked, remedy, reasons in _answers(draft, asked, memory, file):
        for i, reason in reasons.items():
            a = draft.analysis.assume[i]
            if reason is None:
                tested[i] = f"{tested[i]}, nor on {looked}" if i in tested else f"not refuted on {looked}"
            else:
                message = f"{subject} `{said(a)}`: {reason} (looked at {looked}; a true statement is refuted with probability 1e-6)"
                draft = draft.report("DP225", message, path=("assume", i), help=remedy)
    return replace(draft, tested={i: f"{text} (level 1e-6)" for i, text in tested.items()})


def _answers(draft: Draft[Stage], asked: list[int], memory: Any, file: str | None) -> Iterator[_Answer]:
    """What each body of evidence says of the assumptions at ``asked``."""
    from dpspec.compiler import samples

    a = draft.analysis
    sources: list[tuple[str, Callable[[], Any]]] = []
    if a.simulate and "n" in draft.facts:
        sources.append((_key(draft), lambda: samples.of_law(draft)))
    for what, fingerprint in samples.public_sources(draft, memory, file):
        key = f"{what} {fingerprint}{_key(draft)}{a.data.model_dump_json()}{a.privacy.attribute}" if fingerprint else ""
        sources.append((key, lambda what=what: samples.of_public(draft, what, memory, file)))  # type: ignore[misc]
    for key, evidence in sources:
        if not key or key not in _KNOWN:
            try:
                found = _judged(draft, asked, evidence())
            except (SpecError, Unbound, NotANumber, ArithmeticError, ValueError, MemoryError):
                found = None  # the laws, the files and the numbers have their own diagnostics
            while len(_KNOWN) >= 256:
                _KNOWN.pop(next(iter(_KNOWN)))
            if key:
                _KNOWN[key] = found
        else:
            found = _KNOWN[key]
        if found is not None:
            yield found


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


def _judged(draft: Draft[Stage], asked: list[int], evidence: Any) -> _Answer | None:
    import numpy as np

    from dpspec.data.refute import ON_ROWS, ON_SAMPLE
    from dpspec.data.refute_loss import ON_LOSS

    if evidence is None:
        return None
    answers: dict[int, str | None] = {}
    for i in asked:
        a = draft.analysis.assume[i]
        word = assumed(a.name, a.of)
        stated, wrong = constants(ASSUMPTIONS[word], a.args, a.options)
        if wrong:  # reported where the constants become facts
            continue
        values = [float(evaluate(e, draft.facts)) for e in stated]
        test, of = _test(a), target(word, a.of)
        if evidence.only and (of not in evidence.only or test not in ON_ROWS):
            continue
        reasons = []
        for sample in evidence.samples:
            if test in ON_LOSS:
                reasons += [_call(ON_LOSS[test], c, values) for c in _curves(draft, sample)]
            elif test in ON_SAMPLE:
                if test == "sparse" and of != "theta":
                    continue
                reasons.append(_call(ON_SAMPLE[test], sample, values))
            elif (rows := sample.of(of)) is not None and np.isfinite(rows).all():
                reasons.append(_call(ON_ROWS[test], rows, values))
        if reasons and _UNFIT not in reasons:
            answers[i] = None if None in reasons else reasons[0]
    return evidence.subject, evidence.tested, evidence.remedy, answers


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
    """The test with the declared constants; `_UNFIT` where the author states fewer than it needs, or the sample does not show the thing."""
    import inspect

    from dpspec.data.refute import Unseen

    parameters = list(inspect.signature(test).parameters.values())[1:]
    needed = sum(p.default is inspect.Parameter.empty for p in parameters)
    if len(values) < needed:
        return _UNFIT
    try:
        return test(rows, *values[: len(parameters)])
    except Unseen:
        return _UNFIT
