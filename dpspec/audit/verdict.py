"""What an audit says: verdict, findings, the numbers behind them, as JSON and as text."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from dpspec.audit.bounds import Range
from dpspec.audit.matrices import ExactResult
from dpspec.spec.diagnostics import Diagnostic

Verdict: TypeAlias = Literal["holds", "holds-if", "violated", "not-certified", "inconsistent", "vacuous", "cannot-verify"]

#: Relative slack within which a stated number counts as equal to the computed one: numbers are stated with four or five digits.
TOLERANCE = 1e-3
#: A true claim at least this many times the certified value is reported as loose.
LOOSE = 2.0

CLEAN: frozenset[str] = frozenset({"holds"})


@dataclass(frozen=True, slots=True)
class StaticResult:
    """``epsilon``: certified upper bound at ``delta`` (infinite: none); ``epsilon_lower``: proved lower bound. ``rho`` likewise."""

    epsilon: float
    epsilon_lower: float
    delta: float
    neighbours: str
    how: str
    rho: float | None = None
    rho_lower: float | None = None
    delta_at_claim: float | None = None
    alternatives: tuple[tuple[str, float], ...] = ()

    def to_json(self) -> dict[str, object]:
        return {
            "epsilon": number(self.epsilon),
            "epsilon_lower": number(self.epsilon_lower),
            "delta": self.delta,
            "neighbours": self.neighbours,
            "how": self.how,
            "rho": number(self.rho),
            "rho_lower": number(self.rho_lower),
            "delta_at_claim": number(self.delta_at_claim),
            "alternatives": [{"if": condition, "epsilon": number(value)} for condition, value in self.alternatives],
        }


def number(x: float | None) -> float | str | None:
    """A number that JSON can hold; infinity is the word ``"inf"``."""
    if x is None or math.isfinite(x):
        return x
    return "inf" if x > 0 else "-inf"


@dataclass(frozen=True, slots=True)
class AuditResult:
    """``conditions``: what must hold for ``holds-if``. ``loose``: stated over certified epsilon when at least :data:`LOOSE`.
    ``tool_fault``: the subject is an accountant or a ledger, and it is wrong or failed. ``recomputed``: right values by name (tools).
    ``profile``: bounds on epsilon at any delta."""

    subject: str
    verdict: Verdict
    stated: Mapping[str, object]
    findings: tuple[Diagnostic, ...] = ()
    static: StaticResult | None = None
    exact: ExactResult | None = None
    empirical: Mapping[str, object] | None = None
    conditions: tuple[str, ...] = ()
    loose: float | None = None
    tool_fault: bool = False
    recomputed: Mapping[str, float] = field(default_factory=dict)
    profile: Callable[[float], Range] | None = field(default=None, compare=False)

    @property
    def exit_code(self) -> int:
        """0 when the guarantee holds and nothing is wrong, 1 otherwise (2, unusable input, is an exception)."""
        bad = self.verdict not in CLEAN or self.tool_fault or any(f.severity == "error" for f in self.findings)
        return 1 if bad else 0

    def to_json(self) -> dict[str, object]:
        return {
            "subject": self.subject,
            "stated": dict(self.stated),
            "findings": [
                {
                    "code": f.code,
                    "severity": f.severity,
                    "message": f.message,
                    "help": f.help,
                    **({"span": f.span.to_json()} if f.span else {}),
                }
                for f in self.findings
            ],
            "static": None if self.static is None else self.static.to_json(),
            "exact": None if self.exact is None else self.exact.to_json(),
            "empirical": None if self.empirical is None else dict(self.empirical),
            "verdict": self.verdict,
            "conditions": list(self.conditions),
            "loose_by": self.loose,
            "tool_fault": self.tool_fault,
            "recomputed": {k: number(v) for k, v in self.recomputed.items()},
        }

    def dumps(self) -> str:
        return json.dumps(self.to_json(), indent=2, allow_nan=False)

    def text(self) -> str:
        """The report for a person, without colour."""
        lines = [f"{self.subject}", f"verdict     {self.verdict}" + (", tool at fault" if self.tool_fault else "")]
        stated = ", ".join(f"{k} {v:g}" if isinstance(v, float) else f"{k} {v}" for k, v in self.stated.items() if v not in (None, "", 0.0))
        lines.append(f"stated      {stated or 'nothing'}")
        s = self.static
        if s is not None:
            lines.append(
                f"recomputed  {_epsilon_text(s.epsilon_lower, s.epsilon)} at delta {s.delta:g}, neighbours {s.neighbours or 'not stated'}"
            )
            lines.append(f"            {s.how}")
            if s.rho is not None and math.isfinite(s.rho):
                low = "" if s.rho_lower is None or s.rho_lower == s.rho else f"between {s.rho_lower:.5g} and "
                lines.append(f"            rho {low}{s.rho:.5g}")
            if s.delta_at_claim is not None:
                lines.append(f"            delta at the stated epsilon: at least {s.delta_at_claim:.4g}")
            lines += [f"            {value:.6g} if {condition}" for condition, value in s.alternatives if math.isfinite(value)]
        if self.exact is not None:
            e = self.exact
            lines.append(f"exact       epsilon {e.epsilon:.6g}; {e.how}")
            if e.pair is not None:
                lines.append(f"            worst pair {e.pair[0]} / {e.pair[1]}" + (f", output {e.output}" if e.output else ""))
            if e.delta_needed > 0:
                lines.append(f"            a delta of at least {e.delta_needed:.4g} is needed for any finite epsilon")
            if e.one_report is not None:
                lines.append(f"            a single report: {e.one_report:.6g}")
        lines += [f"holds if    {c}" for c in self.conditions]
        lines += [f"{f.severity:<11} {f.code} {f.message}" + (f"\n            {f.help}" if f.help else "") for f in self.findings]
        return "\n".join(lines)


def _epsilon_text(low: float, high: float) -> str:
    if math.isinf(low):
        return "no finite epsilon"
    if math.isinf(high):
        return "no upper bound" if low == 0 else f"epsilon at least {low:.6g}"
    if high - low <= 2e-3 * high:
        return f"epsilon {high:.6g}"
    return f"epsilon at most {high:.6g}" if low == 0 else f"epsilon between {low:.4g} and {high:.4g}"
