"""What the passes hand on: an analysis under compilation.

A pass is a pure function from :class:`Draft` to :class:`Draft`. It adds what it found and the diagnostics that go with it; it never
raises on bad input, so one run reports everything that is wrong.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, Literal, TypeAlias

from dpspec.algorithms.card import Problem, Tunables
from dpspec.data.files import SpecFile
from dpspec.domains.variable import Variable
from dpspec.lang.source import Parsed
from dpspec.privacy.schedule import Tree
from dpspec.spec.diagnostics import Diagnostic, Severity, Span
from dpspec.spec.model import Analysis, Neighbours, Release
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


@dataclass(frozen=True, slots=True)
class ReleaseDraft:
    """One release as the passes fill it."""

    release: Release
    index: int
    problem: Problem | None = None
    certificate: Any = None
    assumptions: tuple[AssumptionStatus, ...] = ()
    candidates: tuple[Candidate, ...] = ()
    module: Any = None
    settings: Mapping[str, Setting] = field(default_factory=dict)
    tunables: Tunables | None = None
    tree: Tree | None = None
    calibrated: Any = None
    bounds: tuple[BoundValue, ...] = ()
    target: Target | None = None
    published: tuple[Any, ...] = ()
    cost: Mapping[str, float | None] = field(default_factory=dict)

    @property
    def path(self) -> Path:
        return ("releases", self.index)


@dataclass(frozen=True, slots=True)
class Draft:
    parsed: Parsed
    facts: Mapping[str, Number] = field(default_factory=dict)
    domains: Mapping[str, Variable] = field(default_factory=dict)  # of x and y, built once by ``resolve``
    budget: Any = None
    releases: tuple[ReleaseDraft, ...] = ()
    calibrated: Any = None  # the whole analysis
    diagnostics: tuple[Diagnostic, ...] = ()
    files: tuple[SpecFile, ...] = ()  # that the spec names, with the content of the public ones
    replaced: bool = False  # zero-out counts as replace-one: a zeroed record does not vanish
    predict_only: bool = False  # inside a search over n or epsilon: no recursion, no ranking

    @property
    def analysis(self) -> Analysis:
        return self.parsed.analysis

    @property
    def neighbours(self) -> Neighbours:
        """The relation that the plan is made under and states: the spec's own, or the stronger one that its encodings call for."""
        return "replace-one" if self.replaced else self.analysis.data.neighbours

    def span(self, *path: str | int) -> Span | None:
        return self.parsed.spans.lookup(tuple(path))

    def report(self, code: str, message: str, *, path: Path, help: str = "", severity: Severity = "error") -> Draft:
        found = Diagnostic(code, severity, message, help, self.span(*path))
        return self if found in self.diagnostics else replace(self, diagnostics=(*self.diagnostics, found))

    def with_release(self, draft: ReleaseDraft) -> Draft:
        releases = tuple(draft if r.index == draft.index else r for r in self.releases)
        return replace(self, releases=releases)

    @property
    def failed(self) -> bool:
        return any(d.severity == "error" for d in self.diagnostics)
