"""What the passes hand on: an analysis under compilation.

A pass is a pure function from a :class:`Draft` whose releases are at one stage to one whose releases are at the next: Resolved ->
Certified -> Chosen -> Calibrated -> Bounded. It adds what it found and the diagnostics that go with it; it never raises on bad input,
so one run reports everything that is wrong.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from fractions import Fraction
from types import ModuleType
from typing import Any, Generic, Literal, TypeAlias

from typing_extensions import TypeVar

from dpspec.algorithms.card import Problem, Tunables
from dpspec.algorithms.estimate import Published
from dpspec.data.files import SpecFile
from dpspec.domains.variable import Variable
from dpspec.lang.source import Parsed
from dpspec.privacy.calibrated import Budget
from dpspec.privacy.calibrated import Calibrated as Levels
from dpspec.privacy.schedule import Tree
from dpspec.spec.diagnostics import Diagnostic, Severity, Span
from dpspec.spec.model import Analysis, Neighbours, Release
from dpspec.symbolic.certificate import Certificate
from dpspec.theory.bounds import BoundValue

Number: TypeAlias = Fraction | float
Path: TypeAlias = tuple[str | int, ...]
Status: TypeAlias = Literal["proved", "enforced", "tested", "declared"]


@dataclass(frozen=True, slots=True)
class AssumptionStatus:
    """One assumption of the chosen algorithm: what it says, whether privacy or utility rests on it, and why it holds."""

    name: str
    role: Literal["privacy", "utility"]
    status: Status
    evidence: str

    def to_json(self) -> dict[str, str]:
        return {"name": self.name, "role": self.role, "status": self.status, "evidence": self.evidence}


@dataclass(frozen=True, slots=True)
class Setting:
    """A resolved tunable or option: its value, the formula it came from and who says so."""

    value: Any
    formula: str
    source: str

    def to_json(self) -> dict[str, Any]:
        return {"value": self.value, "formula": self.formula, "source": self.source}


@dataclass(frozen=True, slots=True)
class Candidate:
    """An algorithm that was considered for a release. ``reasons``: why it cannot serve (empty when eligible)."""

    id: str
    eligible: bool
    reasons: tuple[str, ...] = ()
    predicted_error: float | None = None
    code: str = "DP401"

    def to_json(self) -> dict[str, Any]:
        return {"id": self.id, "eligible": self.eligible, "reasons": list(self.reasons), "predicted_error": self.predicted_error}


@dataclass(frozen=True, slots=True)
class Target:
    measure: str
    at_most: float
    probability: float | None
    met: bool | None
    least_n: int | None = None
    least_epsilon: float | None = None

    def to_json(self) -> dict[str, Any]:
        return {
            "measure": self.measure,
            "at_most": self.at_most,
            "probability": self.probability,
            "met": "unknown" if self.met is None else self.met,
            "least_n": self.least_n,
            "least_epsilon": self.least_epsilon,
        }


# --------------------------------------------------------------------------------------------------------------- stages
#
# What is known of one release after each pass. A stage has all that the ones before it have; nothing in it is optional that its pass
# sets, so a function that takes a stage needs no question whether the pass has run.


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolved:
    """A release whose numbers have values (``Draft.facts``)."""

    release: Release
    index: int
    candidates: tuple[Candidate, ...] = ()  # what ``select`` asked, also where none of them can serve

    @property
    def path(self) -> Path:
        return ("releases", self.index)


@dataclass(frozen=True, slots=True, kw_only=True)
class Proved(Resolved):
    """And what is certain of its loss; None for a task without one, and where the loss has no value (which has been reported)."""

    certificate: Certificate | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Certified(Proved):
    """And the public facts that an algorithm may read."""

    problem: Problem


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen(Certified):
    """And the algorithm that serves it. ``alone``: its schedule calibrated to the whole budget, as it was asked."""

    module: ModuleType
    settings: Mapping[str, Setting]
    tunables: Tunables
    tree: Tree
    assumptions: tuple[AssumptionStatus, ...]
    alone: Levels


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibrated(Chosen):
    """And the noise of its draws in the whole analysis, with what printed formulas would have spent."""

    calibrated: Levels
    published: tuple[Published, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounded(Calibrated):
    """And its bounds in numbers, what they say of the target, and the cost: what plans, runs and studies read."""

    bounds: tuple[BoundValue, ...]
    target: Target | None = None
    cost: Mapping[str, float | None] = field(default_factory=dict)


def known(stage: Resolved, *but: str) -> dict[str, Any]:
    """The fields of a stage, to make a later one of."""
    return {f.name: getattr(stage, f.name) for f in fields(stage) if f.name not in but}


#: A release of a compiled analysis.
ReleaseDraft: TypeAlias = Bounded
Stage = TypeVar("Stage", bound=Resolved, covariant=True, default=Bounded)
Other = TypeVar("Other", bound=Resolved)


@dataclass(frozen=True, slots=True)
class Draft(Generic[Stage]):
    """An analysis under compilation, its releases at one stage (or at earlier ones where they could not go on)."""

    parsed: Parsed
    facts: Mapping[str, Number] = field(default_factory=dict)
    domains: Mapping[str, Variable] = field(default_factory=dict)  # of x and y, built once by ``resolve``
    budget: Budget | None = None
    releases: tuple[Stage, ...] = ()
    calibrated: Levels | None = None  # the whole analysis
    diagnostics: tuple[Diagnostic, ...] = ()
    files: tuple[SpecFile, ...] = ()  # that the spec names, with the content of the public ones
    replaced: bool = False  # zero-out counts as replace-one: a zeroed record does not vanish
    tested: Mapping[int, str] = field(default_factory=dict)  # assumptions that the law was held against, and on what; by place
    predict_only: bool = False  # inside a search over n or epsilon: no recursion, no ranking

    @property
    def analysis(self) -> Analysis:
        return self.parsed.analysis

    @property
    def neighbours(self) -> Neighbours:
        """The relation that the plan is made under and states: the spec's own, or the stronger one that its encodings call for."""
        return "replace-one" if self.replaced else self.analysis.data.neighbours

    @property
    def whole(self) -> Levels:
        """The calibration of the whole analysis. Raises LookupError before it is calibrated."""
        if self.calibrated is None:
            raise LookupError("the analysis is not calibrated")
        return self.calibrated

    def span(self, *path: str | int) -> Span | None:
        return self.parsed.spans.lookup(tuple(path))

    def report(self, code: str, message: str, *, path: Path, help: str = "", severity: Severity = "error") -> Draft[Stage]:
        found = Diagnostic(code, severity, message, help, self.span(*path))
        return self if found in self.diagnostics else replace(self, diagnostics=(*self.diagnostics, found))

    def at(self, releases: Iterable[Other]) -> Draft[Other]:
        """The same analysis with its releases at another stage."""
        return Draft(**{**{f.name: getattr(self, f.name) for f in fields(self)}, "releases": tuple(releases)})

    def reached(self, stage: type[Other]) -> Draft[Other] | None:
        """The same draft as one of which every release got to ``stage``; None where one did not, or an error was found."""
        got = [r for r in self.releases if isinstance(r, stage)]
        return self.at(got) if got and len(got) == len(self.releases) and not self.failed else None

    @property
    def failed(self) -> bool:
        return any(d.severity == "error" for d in self.diagnostics)

    @property
    def blocking(self) -> tuple[Diagnostic, ...]:
        """Errors without which there would be a plan: all but a missed target."""
        return tuple(d for d in self.diagnostics if d.severity == "error" and d.code != "DP402")
