"""Wishart noise on a second-moment matrix."""

from __future__ import annotations

from dpspec.audit.component import Breach, Component, Context
from dpspec.audit.event import Event
from dpspec.audit.kinds import Kind
from dpspec.audit.pairs import Atoms

KIND = Kind(
    "Wishart noise on a second-moment matrix",
    ("sensitivity", "scale", "degrees", "dimension"),
    (("scale",), ("degrees",), ("dimension",), ("sensitivity",)),
    aliases=(),
    attained="a record x and the zero matrix, by the outputs whose difference with x x^T is not positive definite",
)
EXAMPLE = {"type": "wishart", "sensitivity": 0.1, "scale": 1.5, "degrees": 4, "dimension": 3}
RELATION = "add_remove"


def model(event: Event, context: Context) -> list[Component]:
    from scipy.stats import chi2

    c, d = event.number("scale") or 0.0, event.number("dimension") or 1.0
    degrees = (event.number("degrees") or d) - d + 1
    # 1/(x^T W^-1 x) is c times chi-square with degrees - d + 1 degrees of freedom for every unit x
    delta = float(chi2.cdf((event.number("sensitivity") or 0.0) / c, degrees)) if c > 0 else 1.0
    event_set = f"outputs with W - x x^T not positive definite (probability {delta:.4g})"
    why = f"{event.what}: W is positive definite, so {event_set} are impossible for the neighbour"
    under = Atoms((delta, 1 - delta), (0.0, 1.0)) if 0 < delta < 1 else None
    return [Component(event.what, under=under, breach=Breach("DP627", delta, why))]
