"""Small versions of every registered algorithm's gallery spec, built without naming any algorithm.

A case is the gallery spec at a small size. Its neighbours are made from the public facts alone: all records are zero but the first, which
stands at extreme points of the enforced domain (:mod:`tests.conformance.extremes`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from dpspec.algorithms.registry import all_modules, origin, other_modules
from dpspec.compiler.draft import Draft
from dpspec.compiler.passes import compile_draft
from dpspec.data.records import Records
from dpspec.executor import bind
from dpspec.executor.bind import bound_problem
from dpspec.executor.design import substitute
from dpspec.lang.source import Parsed, parse_expr, parse_file
from dpspec.privacy.meter import Release
from dpspec.privacy.noise import PublicRandomness, StudyNoise
from dpspec.spec.expr import Num
from dpspec.spec.model import Domain, Enforcement, Finite
from dpspec.tasks.registry import of
from tests.conformance.extremes import extremes, image, listed, made, opposite

ROOT = Path(__file__).resolve().parents[2]
#: Algorithms of other packages that are installed are held to the same suite.
ALGORITHMS = [m for m in (*all_modules(), *other_modules()) if m.CARD.role == "algorithm"]
IDS = [m.CARD.id for m in ALGORITHMS]


def family(module: ModuleType) -> str:
    return module.__name__.split(".")[-2]


def spec_file(module: ModuleType) -> Path:
    """The gallery spec of an algorithm: from the root of the project, of another package from the folder of its module."""
    return (Path(module.__file__ or "").parent if origin(module) else ROOT) / module.CARD.spec


#: Whose trials take longer than those of their family.
LONG = ("nldp-nonlinear-regression-public",)


def measured(modules: list[ModuleType]) -> Any:
    """``module`` for tests that run an algorithm hundreds of times: the last of each family in the fast suite, all in the slow one. Of the
    online ones each trial of a study takes seconds."""
    chosen = {family(m): m for m in modules if not getattr(m, "ONLINE", False) and m.CARD.id not in LONG}
    found = [pytest.param(m, id=m.CARD.id, marks=() if chosen[family(m)] is m else pytest.mark.slow) for m in modules]
    return pytest.mark.parametrize("module", found)


def gallery(module: ModuleType) -> Parsed:
    return parse_file(spec_file(module))


def resized(parsed: Parsed, **numbers: float | str) -> Parsed:
    """The spec with other numbers (n, d, epsilon, delta, constants, tunables); with another d or k without its law, of which what is
    declared may then be false."""
    a = parsed.analysis
    if numbers.keys() & {"d", "k"}:
        a = a.model_copy(update={"simulate": (), "study": None})
    for name, value in numbers.items():
        a = substitute(a, name, Num(Fraction(str(value))))
    return replace(parsed, analysis=a)


def of_a_matrix(parsed: Parsed) -> Parsed:
    """The spec with a loss whose weights are a 3 x d matrix: of three classes, or a Mahalanobis matrix where it is of two records."""
    a = parsed.analysis
    task = a.releases[0].task
    if getattr(task, "pairwise", False):  # over the gallery's own Frobenius ball
        loss = parse_expr("metric-logistic + 0.05/2*|w|^2")
        release = a.releases[0].model_copy(update={"task": task.model_copy(update={"loss": loss}), "expect": None})
        return replace(parsed, analysis=a.model_copy(update={"releases": (release,), "study": None}))
    return of_three_classes(parsed)


def of_three_classes(parsed: Parsed) -> Parsed:
    """The spec with a multinomial loss over its own set: a 3 x d matrix of weights."""
    a = parsed.analysis
    x = [domain for domain in a.data.domains if domain.variable != "y"]
    values = Finite(values=tuple(Num(Fraction(k)) for k in range(3)))
    data = a.data.model_copy(update={"domains": (*x, Domain(variable="y", set=values, by=Enforcement(how="reject")))})
    task = a.releases[0].task.model_copy(update={"loss": parse_expr("multinomial(3) + 0.05/2*|w|^2")})
    release = a.releases[0].model_copy(update={"task": task, "expect": None})
    return replace(parsed, analysis=a.model_copy(update={"data": data, "releases": (release,), "study": None}))


@dataclass(frozen=True)
class Case:
    draft: Draft

    @property
    def release(self) -> Any:
        return self.draft.releases[0]

    def run(self, records: Records, seed: int, *, weaken: float = 1.0, per_user: bool = True) -> np.ndarray:
        """One metered run, flattened. ``weaken``: divide noise multipliers, and multiply the epsilon of pure draws, by this factor."""
        r = self.release
        calibrated = r.calibrated
        if weaken != 1.0:
            calibrated = replace(calibrated, levels=weakened(r, weaken))
        enforced, _ = bind.enforced(self.draft, records)
        meter = Release(calibrated, StudyNoise(seed), mode="study", public=PublicRandomness(0), per_user=per_user)
        estimate = r.module.run(enforced, bound_problem(self.draft, r), r.tunables, meter)
        meter.close()
        parts = [estimate.theta, *(v for v in estimate.extras.values() if isinstance(v, np.ndarray))]
        return np.concatenate([np.ravel(p) for p in parts])


def open_ended(c: Case) -> bool:
    """Whether the noise of a draw decides how many numbers come out: a shape is then part of an outcome, and paid for."""
    from dpspec.privacy.schedule import draws

    return any(getattr(leaf.draw.mechanism, "open_ended", False) for leaf in draws(c.release.tree).values())


def weakened(release: Any, factor: float) -> dict[str, float]:
    from dpspec.privacy.schedule import draws

    found = {}
    for name, leaf in draws(release.tree).items():
        level = release.calibrated.levels[name]
        found[name] = level / factor if leaf.draw.mechanism.family in ("gaussian", "laplace") else level * factor
    return found


def case(parsed: Parsed) -> Case:
    draft = compile_draft(parsed)
    errors = [d for d in draft.diagnostics if d.severity == "error" and d.code != "DP402"]
    assert not errors, errors
    return Case(draft)


def public_of(c: Case) -> np.ndarray | None:
    if c.draft.analysis.privacy.public is None:
        return None
    return np.random.default_rng(0).normal(size=(200, int(c.draft.facts["d"])))


def protected(draft: Draft) -> str:
    """What a neighbour changes: a record, one coordinate of x or y, or y alone."""
    privacy = draft.analysis.privacy
    return "labels-only" if privacy.labels_only else "attribute" if privacy.attribute else "replace-one"


def neighbours(c: Case) -> tuple[Records, Records]:
    """Two data sets that differ in what is protected of one record, at the ends of its domain: the pair that the empirical audit runs on.
    The task says which; else it is the pair of extreme records that moves the draws most (:func:`tests.conformance.replay.nastiest`)."""
    where = of(c.release.problem.task).extremes
    if where == "searched" or protected(c.draft) == "attribute":
        from tests.conformance.replay import nastiest

        return nastiest(c, protected(c.draft))
    facts = {k: float(v) for k, v in c.draft.facts.items()}
    n, d = int(facts["n"]), int(facts["d"])
    direction = np.ones(d)
    if "x_l2" in facts and "x_linf" not in facts:
        direction /= np.sqrt(d)
    x = np.zeros((n, d))
    x[0] = direction * 1e3  # far outside every domain: enforcement and clients have to bring it back
    other_x = x
    if where == "orthogonal":  # a second moment differs most between orthogonal records
        x[0], other_x = np.eye(d)[0] * 1e3, x.copy()
        other_x[0] = np.eye(d)[1] * 1e3
    elif where == "opposite":  # a mean of the features: the first record stands at opposite ends
        other_x = x.copy()
        other_x[0] = -x[0]
    if listed(c.draft, "x"):  # a record far outside becomes the first image, whichever side it stands on
        other_x = x.copy()
        x[0] = extremes(c.draft, "x", d)[0]
        other_x[0] = opposite(c.draft, "x", x[0])
    low, high = labels(c)
    y = np.full(n, high)
    other = y.copy()
    other[0] = low
    return made(c.draft, x, y, public_of(c)), made(c.draft, other_x, other, public_of(c))


def labels(c: Case) -> tuple[float, float]:
    """The responses to send to end at the least and at the largest one."""
    ends = [float(v[0]) for v in extremes(c.draft, "y", 1)]
    return min(ends, key=lambda v: place(c, v)), max(ends, key=lambda v: place(c, v))


def place(c: Case, response: float) -> float:
    return float(image(c.draft, "y", np.array([response]))[0])
