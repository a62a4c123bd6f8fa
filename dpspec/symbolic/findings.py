"""What a certificate has to say about the claims of the ``assume`` block."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from dpspec.spec.diagnostics import Diagnostic, Severity, Span
from dpspec.spec.expr import evaluate
from dpspec.spec.model import Assumption

ClaimName = Literal["lipschitz", "smooth", "convex", "strongly-convex"]
CLAIMS: tuple[ClaimName, ...] = ("lipschitz", "smooth", "convex", "strongly-convex")


@dataclass(frozen=True, slots=True)
class Claim:
    """``lipschitz(0.5)`` and the like. ``index``: the place of the assumption in the ``assume`` block. ``value`` is None for ``convex``."""

    name: ClaimName
    value: Fraction | None = None
    index: int | None = None


@dataclass(frozen=True, slots=True)
class Witness:
    """A margin and a label at which a claim fails, with a proved lower bound of the quantity the claim limits."""

    margin: Fraction
    label: Fraction
    quantity: str
    value: float


@dataclass(frozen=True, slots=True)
class Finding:
    """``assumption``: the index of the claim it answers, None when it concerns the loss itself."""

    code: str
    severity: Severity
    message: str
    help: str = ""
    assumption: int | None = None
    witness: Witness | None = None

    def diagnostic(self, span: Span | None = None) -> Diagnostic:
        return Diagnostic(self.code, self.severity, self.message, self.help, span)


def claims_from(assumptions: Iterable[Assumption], names: Mapping[str, Fraction | int | float] | None = None) -> tuple[Claim, ...]:
    """The claims about the loss among the assumptions; the others (moments, sparsity, laws of x...) are not the loss's business.

    Raises what :func:`dpspec.spec.expr.evaluate` raises for a value that is no number.
    """
    out = []
    for index, a in enumerate(assumptions):
        if a.name not in CLAIMS or a.of not in (None, "loss", "gradient"):
            continue
        value = Fraction(evaluate(a.args[0], names)) if a.args else None
        if a.name != "convex" and value is None:
            continue
        name: ClaimName = a.name
        out.append(Claim(name, value, index))
    return tuple(out)
