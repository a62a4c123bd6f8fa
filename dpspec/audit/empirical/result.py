"""What an empirical audit found. It can refute a claim; it never confirms one."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

from dpspec.audit.empirical.diagnose import bad_parameter
from dpspec.spec.diagnostics import Diagnostic

Verdict = Literal["violated", "not-certified"]


@dataclass(frozen=True, slots=True)
class Claim:
    """The statement under test: (epsilon, delta)-DP, or mu-Gaussian DP when ``mu`` is given. ``epsilon`` None: no claim, only a lower
    bound is wanted. ``delta`` is also the delta at which the lower bound of epsilon is reported. Raises SpecError (DP659) when out of
    range."""

    epsilon: float | None = None
    delta: float = 0.0
    mu: float | None = None

    def __post_init__(self) -> None:
        for name, value in (("epsilon", self.epsilon), ("mu", self.mu)):
            if value is not None and not (value >= 0 and math.isfinite(value)):
                raise bad_parameter(f"{name} is {value}")
        if not 0 <= self.delta < 1:
            raise bad_parameter(f"delta is {self.delta}")

    @property
    def stated(self) -> bool:
        return self.epsilon is not None or self.mu is not None

    def text(self) -> str:
        if self.mu is not None:
            return f"mu = {self.mu:g} (Gaussian DP)"
        if self.epsilon is None:
            return "no claim"
        return f"epsilon = {self.epsilon:g}" + (f", delta = {self.delta:g}" if self.delta else "")


@dataclass(frozen=True, slots=True)
class EmpiricalResult:
    """The lower bounds hold together with probability ``confidence``, over the runs.

    epsilon_lower: the (epsilon, claim.delta) guarantee needs at least this epsilon. delta_lower: at the claimed epsilon (None without
    one) at least this delta. mu_lower: mu-GDP needs at least this mu, None unless mu is claimed. samples: runs on each input, of which
    ``tested`` counted; ``hits`` and ``misses``: held-out runs in the event on the input where it is likelier, and on the other. error:
    the chance of a bound too large, at most, under the assumptions; no more than 1 - confidence. pairs_tested: the error was split over
    that many pairs. pair: the two inputs, when the auditor knows them."""

    epsilon_lower: float
    confidence: float
    samples: int
    statistic: str
    claim: Claim
    verdict: Verdict
    event: str = ""
    likelier: str = ""
    tested: int = 0
    hits: int = 0
    misses: int = 0
    delta_lower: float | None = None
    mu_lower: float | None = None
    error: float = 1.0
    pairs_tested: int = 1
    pair: tuple[Any, Any] | None = None
    diagnostics: tuple[Diagnostic, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """The ``empirical`` object of ``dpspec audit --format json``."""
        out: dict[str, Any] = {
            "epsilon_lower": self.epsilon_lower,
            "confidence": self.confidence,
            "samples": self.samples,
            "statistic": self.statistic,
            "delta": self.claim.delta,
            "verdict": self.verdict,
            "event": self.event,
            "likelier": self.likelier,
            "tested": self.tested,
            "hits": self.hits,
            "misses": self.misses,
            "delta_lower": self.delta_lower,
            "mu_lower": self.mu_lower,
            "error": self.error,
            "pairs_tested": self.pairs_tested,
        }
        if self.pair is not None:
            out["pair"] = [_plain(x) for x in self.pair]
        return out

    def to_audit_json(self, subject: str) -> dict[str, Any]:
        """A whole ``audit`` document whose only evidence is this one."""
        return {
            "subject": subject,
            "stated": {"epsilon": self.claim.epsilon, "delta": self.claim.delta, "mu": self.claim.mu},
            "findings": [{"code": d.code, "severity": d.severity, "message": d.message, "help": d.help} for d in self.diagnostics],
            "static": None,
            "exact": None,
            "empirical": self.to_json(),
            "verdict": self.verdict,
        }


def _plain(x: Any) -> Any:
    if hasattr(x, "tolist"):
        return x.tolist()
    if isinstance(x, list | tuple):
        return [_plain(v) for v in x]
    return x if isinstance(x, int | float | str | bool) or x is None else str(x)


def check_confidence(confidence: float) -> None:
    if not 0.5 <= confidence < 1:
        raise bad_parameter(f"the confidence is {confidence}")
