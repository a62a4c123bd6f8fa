"""What a kind of question is, to everything that is not the language: :class:`Task`, with defaults, so that a small task says little.

A file ``dpspec/tasks/<name>.py`` exports ``TASK``. Compiler, executor and the conformance tests ask the task of a release and never what
kind it is; :mod:`dpspec.tasks.registry` finds it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import numpy as np

from dpspec.algorithms.card import Problem
from dpspec.domains.variable import Variable
from dpspec.measures.measure import Array, Measure, Trial
from dpspec.spec.model import Analysis
from dpspec.spec.words import Assumption

#: The non-private answer and, where the task has an objective, its least value on the records.
Reference: TypeAlias = tuple[Any, float | None]


@dataclass(frozen=True, slots=True)
class Binding:
    """What a task knows when it binds: the node of the language with its set in numbers, the release's problem, the certificate of its
    loss, the spec's exact numbers (``d`` is the number of features), the analysis and the domains of x and y."""

    node: Any
    problem: Problem
    certificate: Any
    facts: Mapping[str, Any]
    analysis: Analysis
    domains: Mapping[str, Variable]


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a question cannot be asked here, with what to write instead. ``place``: its path below the release."""

    message: str
    help: str
    place: tuple[str | int, ...] = ("task",)
    code: str = "DP407"


def parameter(trial: Trial) -> Array:
    """The law's parameter, theta or w; the non-private answer where there is none (real data)."""
    for name in ("theta", "w"):
        if name in trial.truth:
            return np.asarray(trial.truth[name], dtype=np.float64)
    return fitted(trial)


def fitted(trial: Trial) -> Array:
    """The non-private answer in the place of the truth."""
    if trial.reference is None:
        raise LookupError("no true parameter and no reference to measure against")
    return np.asarray(trial.reference, dtype=np.float64)


def of_the_records(binding: Binding) -> Iterator[Refusal]:
    """Statistics are of the records x: a column of its own is a record of one feature."""
    what, of = binding.node.what, binding.node.of
    if of != "x":
        yield Refusal(
            f"{what}({of}): what is estimated is {what}(x), of the records x", f"name that column among the features, and {what}(x)"
        )


def zeros(problem: Problem) -> Array | None:
    """The zero vector, which needs no data."""
    return np.zeros(problem.d)


def named_theta(estimate: Any, problem: Problem) -> dict[str, Any]:
    """The estimate in its released shape under ``theta``, and its further arrays and numbers."""
    found = {"theta": estimate.theta.reshape(problem.shape) if len(problem.shape) > 1 else estimate.theta}
    found.update({k: v for k, v in estimate.extras.items() if hasattr(v, "shape") or isinstance(v, (int, float))})
    return found


def _no_facts(binding: Binding) -> Mapping[str, float]:
    return {}


def _no_check(binding: Binding) -> Iterable[Refusal]:
    return ()


def _no_ceiling(problem: Problem, measure: str) -> float | None:
    return None


def _no_oracle(binding: Binding) -> Any:
    return None


def _no_reference(records: Any, problem: Problem, settings: Mapping[str, Any]) -> Reference:
    return None, None


def _same(trial: Trial, moment: Any = None) -> Trial:
    return trial


def _no_conditions(*_: Any, **__: Any) -> tuple[str, ...]:
    return ()


def _no_caveat(problem: Problem) -> str:
    return ""


def _no_radius(settings: Mapping[str, Any]) -> float:
    return math.inf


def _needed(node: Any) -> bool:
    return True


def _not_needed(node: Any) -> bool:
    return False


def _nothing_else(node: Any) -> Any:
    return None


@dataclass(frozen=True, slots=True)
class Task:
    """``name``: the file's. ``serves(node)``: whether it is this question. ``words``: the names by which cards say that they serve it.
    ``measures``: the first is its own, a target may name the others.

    Compiler. ``certificate(node, x=, y=, names=, claims=)`` proves the constants of its loss. ``facts(binding)``: further public numbers,
    which sensitivities may rest on. ``check(binding)``: refusals with place and remedy. ``law_is``: what a bound holds for, in words.
    ``inside``: what has to lie in the set after ``over`` for a bound to hold, in words (empty: the set is part of the question).
    ``assumes``: words of `assume` that it alone reads, their arguments becoming facts. ``labelled(node)``: whether it reads y.
    ``missing(node)``: whether entries of x may be missing (NaN in the records, and on their way through enforcement 0).
    ``centred(node)``: whether the name means what it says only for a mean of 0; ``uncentred(node)``: what it is planned as where nobody
    says so.

    An algorithm. ``bind(binding)`` is the oracle that it asks (``Problem.oracle``).

    A study. ``reference(records, problem, settings)``: the non-private answer, which may depend on the tunables named in ``settings``; it
    is ``spared`` where it is only shown and the records would have to be drawn again; ``caveat(problem)`` says what it is not.
    ``truth(trial)``: the true value.
    ``bounded(trial, reference)``: the trial with the quantity that bounds speak of, on real data compared with
    ``bounded_reference(records, settings)``. ``trivial(problem)``: the answer without data;
    ``ceiling(problem, measure)``: what its error, or every error, is at most, from public facts. ``enforced_truth``: how the truth of
    the enforced law is computed; ``radius(settings)`` to which an algorithm's clients scale. ``unmet`` and ``broken``: declared constants
    that a law contradicts.

    ``total(problem)``: whether the answer grows with n, as a count does, and its error does not fall.

    A release. ``arrays(estimate, problem)``, by name.

    Conformance. ``extremes``: the neighbours of the empirical audit: the first record is ``opposite`` (x and y at opposite ends),
    ``orthogonal`` (between two axes), differs in its ``labels`` alone, or is the one that moves the draws most (``searched``)."""

    name: str
    serves: Callable[[Any], bool]
    words: tuple[str, ...]
    measures: tuple[Measure, ...] = ()
    certificate: Callable[..., Any] | None = None
    assumes: Mapping[str, Assumption] = field(default_factory=dict)
    facts: Callable[[Binding], Mapping[str, float]] = _no_facts
    check: Callable[[Binding], Iterable[Refusal]] = _no_check
    bind: Callable[[Binding], Any] = _no_oracle
    reference: Callable[[Any, Problem, Mapping[str, Any]], Reference] = _no_reference
    caveat: Callable[[Problem], str] = _no_caveat
    settings: tuple[str, ...] = ()
    spared: bool = False
    truth: Callable[[Trial], Array] = parameter
    bounded: Callable[[Trial, Any], Trial] = _same
    bounded_reference: Callable[[Any, Mapping[str, Any]], Any] | None = None
    trivial: Callable[[Problem], Array | None] = zeros
    ceiling: Callable[[Problem, str], float | None] = _no_ceiling
    enforced_truth: Literal["", "moments", "regression"] = ""
    radius: Callable[[Mapping[str, Any]], float] = _no_radius
    law_is: str = ""
    total: Callable[[Problem], bool] = _not_needed
    inside: str = ""
    labelled: Callable[[Any], bool] = _needed
    missing: Callable[[Any], bool] = _not_needed
    centred: Callable[[Any], bool] = _not_needed
    uncentred: Callable[[Any], Any] = _nothing_else
    unmet: Callable[..., tuple[str, ...]] = _no_conditions
    broken: Callable[..., Iterable[str]] = _no_conditions
    arrays: Callable[[Any, Problem], dict[str, Any]] = named_theta
    extremes: Literal["searched", "labels", "opposite", "orthogonal"] = "searched"

    def measure(self, name: str) -> Measure:
        """The measure of this name. Raises KeyError."""
        return {m.name: m for m in self.measures}[name]

    @property
    def measurable(self) -> tuple[str, ...]:
        return tuple(m.name for m in self.measures)

    def trial(self, records: Any, problem: Problem, truth: Any, reference: Any, optimum: float | None = None) -> Trial:
        return Trial(records, problem, truth, reference, optimum, self.truth)

    def estimand(self, trial: Trial) -> Array:
        return self.truth(trial)
