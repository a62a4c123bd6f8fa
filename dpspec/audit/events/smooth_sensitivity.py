"""Student noise in proportion to a smooth bound of the local sensitivity."""

from __future__ import annotations

import math

from dpspec.audit.component import Breach, Component, Context
from dpspec.audit.event import Event
from dpspec.audit.kinds import Kind
from dpspec.audit.pairs import Atoms, cells, randomized_response

KIND = Kind(
    "Student noise (Cauchy with one degree of freedom) times a smooth bound of the local sensitivity",
    ("noise_multiplier", "beta", "degrees"),
    (("noise_multiplier",), ("beta",), ("degrees",)),
    aliases=("smooth_sensitivity_student", "smooth_sensitivity_cauchy"),
    attained="two data sets of one smooth bound whose values are that bound apart",
)
EXAMPLE = {"type": "smooth_sensitivity", "noise_multiplier": 8, "beta": 0.1, "degrees": 3}
RELATION = "replace_one"


def model(event: Event, context: Context) -> list[Component]:
    """``noise_multiplier``: the scale over the bound; ``beta``: neighbours' bounds differ by a factor of at most e^beta. The local
    sensitivity is at most the smaller of two neighbours' bounds. A move by a in units of the scale changes the log density by at most
    (nu + 1) arsinh(a/(2 sqrt(nu))), which a point on either side attains, and a dilation by e^beta by at most max(1, nu) beta (Nissim,
    Raskhodnikova, Smith 2007; Bun, Steinke 2019, with the exact move)."""
    multiplier, beta, nu = (event.number(w) or 0.0 for w in ("noise_multiplier", "beta", "degrees"))
    if multiplier == 0:
        return [Component(event.what, breach=Breach("DP620", 1.0, f"{event.what}: no noise for a positive sensitivity"))]
    moved = (nu + 1) * math.asinh(1 / (2 * multiplier * math.sqrt(nu)))
    whole = moved + max(1.0, nu) * beta
    return [
        Component(
            event.what,
            pure=whole,
            pure_at_least=moved * (1 - 1e-9),
            rho=whole**2 / 2,
            over=randomized_response(whole) if whole < 500 else None,
            under=_pair(1 / multiplier, nu),
        )
    ]


def _pair(move: float, nu: float) -> Atoms | None:
    from scipy.stats import t

    if not 0.1 <= nu <= 1e6 or move > 1e6:
        return None
    reach = float(min(t.isf(1e-9, nu), 1e9))
    return cells(lambda x: t.cdf(x - move, nu), lambda x: t.cdf(x, nu), -reach, reach + move)
