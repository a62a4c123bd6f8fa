"""The certificate of a loss."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, Protocol, TypeAlias

from dpspec.domains.domain import Margin
from dpspec.numeric.rounding import down, up
from dpspec.symbolic.findings import Finding
from dpspec.symbolic.groups import GroupTerm
from dpspec.symbolic.network import Network
from dpspec.symbolic.normal import Poly


class Local(Protocol):
    """Bounds of the gradients of records at weights of a given l2 norm: see :mod:`dpspec.symbolic.local`."""

    def length(self, norm: float) -> float: ...

    def spread(self, norm: float) -> float: ...


class Third(Protocol):
    """How far apart Hessians at two points are: see :mod:`dpspec.symbolic.third`."""

    def third(self) -> float: ...

    def value(self) -> float: ...


class Error(Protocol):
    """How far computed slopes may be from real ones: see :mod:`dpspec.symbolic.running`."""

    def value(self) -> float: ...


Method: TypeAlias = Literal["closed form", "interval branch and bound", "none"]


@dataclass(frozen=True, slots=True)
class Certificate:
    """Constants of one loss on one pair of domains. Infinite means "no finite constant is proved".

    ``lipschitz``, ``lipschitz_inf``, ``lipschitz_l1``: bounds on the l2, l_inf and l1 norm of the gradient of the data part (the
    regulariser has the same gradient for every record, so it cancels in the difference between neighbouring data sets).
    ``smooth``: of the data part in l2; ``smooth_l1`` in the l1 geometry (sup|phi''| times the squared l_inf radius of x).
    ``convex`` and ``strongly_convex``: of the data part and the regulariser together, for every record; None is "not decided".
    ``l2``: lam of the ridge term lam/2 |w|^2; ``l1``: weight of |w|_1; ``group``: the group norm. ``slope``, ``curve``, ``least_curve``:
    sup|phi'|, sup|phi''| and inf phi''. ``form``: the data part in normal form, None when there is none. ``exact_regulariser`` is False
    when the loss has a data-independent term that is neither ridge, l1 nor one group norm. ``classes``: K of ``factor`` times a
    multinomial loss, whose weights are a K x d matrix and which has no ``form``; 1 for a loss of one margin. ``at_zero``: a bound of the
    loss of a record at w = 0, above the infimum of the loss (logistic and multinomial losses; infinite for others). ``spread``: of a
    pairwise loss, how far apart the gradients of two pairs that share a record are (:mod:`dpspec.symbolic.pairs`). ``local``: the
    gradients at weights of a given norm (:mod:`dpspec.symbolic.local`), None without a closed form. ``error``: how far the slope that
    doubles compute may be from the real one (:mod:`dpspec.symbolic.running`); the other constants are about the real function.
    ``hessian``: the Hessian-Lipschitz constant (:mod:`dpspec.symbolic.third`), found when asked for; None where nothing is known.
    ``network``: the data part of a loss of several margins (:mod:`dpspec.symbolic.network`), whose weights are those of its units; it has
    no ``form``, and ``frobenius`` bounds the Hessian of a record in the Frobenius norm.
    """

    name: str
    method: Method
    lipschitz: float = math.inf
    lipschitz_inf: float = math.inf
    lipschitz_l1: float = math.inf
    smooth: float = math.inf
    smooth_l1: float = math.inf
    convex: bool | None = None
    data_convex: bool | None = None
    strongly_convex: float = 0.0
    l2: float = 0.0
    l1: float = 0.0
    slope: float = math.inf
    curve: float = math.inf
    least_curve: float = -math.inf
    margin: Margin | None = None
    evidence: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()
    form: Poly | None = None
    exact_regulariser: bool = True
    group: GroupTerm | None = None
    classes: int = 1
    factor: Fraction = Fraction(1)
    at_zero: float = math.inf
    spread: float = math.inf
    local: Local | None = None
    error: Error | None = None
    hessian: Third | None = None
    network: Network | None = None
    frobenius: float = math.inf

    @property
    def ok(self) -> bool:
        """Whether a finite Lipschitz constant is proved."""
        return math.isfinite(self.lipschitz)

    @property
    def gradient_coordinate_bound(self) -> float:
        """Bound on every coordinate of a record's gradient."""
        return self.lipschitz_inf

    @property
    def margin_range(self) -> tuple[float, float]:
        m = self.margin
        if m is None:
            return (-math.inf, math.inf)
        return (-math.inf if m.low is None else down(m.low), math.inf if m.high is None else up(m.high))
