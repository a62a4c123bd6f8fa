"""The covariance of records whose mean is not known, E (x - m)(x - m)^T (central model).

Of z = (x, a) for a public a the noisy second moment is released in one draw; its blocks are E x x^T, a E x and (where the number of
records is private) a^2 times how many records there are over n:

    Cov = M - m m^T,   M the first block, m the second over a; both over the count where it is private.

Sensitivity: |z|^2 <= r^2 + a^2 for |x|_2 <= r, so sqrt(2)(r^2 + a^2)/n where a record is replaced and (r^2 + a^2)/n where it is there or
not (:mod:`dpspec.algorithms.statistics._symmetric`). The corner is public where n is. One draw; afterwards the matrix is projected on the
positive semi-definite cone, which brings it no further from the covariance in the Frobenius norm.

a balances the noise of M, which grows with r^2 + a^2, and of m m^T, which falls with a: at |m| = r/4 the mean square of both together,
(r^2 + a^2)^2 (d/2 + |m|^2/a^2), is least at a^2/r^2 = (sqrt(1/256 + d/4) - 1/16)/(2 d).

Source: Dwork, Talwar, Thakurta and Zhang 2014 (analyze Gauss) for the noise; the mean in the same draw is derived here.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dpspec.algorithms.card import Card, Need, Problem, Source, Tunable, Tunables
from dpspec.algorithms.estimate import Estimate
from dpspec.algorithms.matrix._moment import positive_part
from dpspec.algorithms.statistics import _symmetric as symmetric
from dpspec.models.door import Door
from dpspec.models.rows import Rows
from dpspec.privacy.schedule import Draw, Tree

CARD = Card(
    id="dp-centred-covariance",
    title="Covariance, with the mean subtracted",
    family="statistics",
    task="covariance",
    models=("central",),
    guarantees=("pure", "approx", "zcdp", "gdp"),
    sources=(Source("literature", "Dwork, Talwar, Thakurta and Zhang 2014", "analyze Gauss"),),
    summary="Second moment and mean in one draw of symmetric noise, and their difference: no mean of 0 is assumed.",
    needs=(Need("x", "privacy", "|x|_2 <= r for every record"),),
    tunables={
        "a": Tunable(
            "x_l2*sqrt((sqrt(1/256 + d/4) - 1/16)/(2*d))", "least error at a mean of a quarter of the radius", minimum=1e-120, maximum=1e120
        )
    },
    options={"psd": ("on", "off")},
    no_bound="of the documents none subtracts a mean; every release states its standard errors",
    cost={"gradients": "0", "rounds": "1", "memory_bytes": "64*(d + 1)^2 + 8*1024*d"},
    reads="sums",
    spread=True,
    spec="specs/statistics/dp-centred-covariance.dps",
    centres=True,
)


def accepts(p: Problem, t: Tunables) -> str | None:
    if p.task.what != "covariance":
        return f"it subtracts the mean; {p.task.what}(x) does not"
    return fits(p)


def fits(p: Problem) -> str | None:
    """What dense second moments of bounded records need."""
    if p.d > symmetric.LARGEST:
        return f"it keeps dense {p.d} x {p.d} matrices; d is at most {symmetric.LARGEST}"
    if "x_l2" not in p.facts:
        return "the enforced domain of x bounds no l2 norm (x in ball(l2, 1) by scale)"
    if p.task.over is not None:
        return "it knows no set after `over`"
    return None


def mechanism(p: Problem, t: Tunables) -> symmetric.Mechanism:
    return symmetric.mechanism(p, p.d + 1, math.hypot(p.facts["x_l2"], t.a) * (1 + 2.0**-50))


def schedule(p: Problem, t: Tunables) -> Tree:
    return Draw("moment", mechanism(p, t))


def augmented(x: symmetric.Matrix, a: float) -> symmetric.Matrix:
    return np.hstack([x, np.full((x.shape[0], 1), a)])


def run(records: Rows, p: Problem, t: Tunables, release: Door) -> Estimate:
    second, mean, error, reach = released(records, p, t, release)
    raw = second - np.outer(mean, mean)
    found = positive_part(raw) if t.psd == "on" else raw
    return Estimate(found, {"mean": mean, "standard_error": error, "low": raw - reach * error, "high": raw + reach * error})


def released(records: Rows, p: Problem, t: Tunables, release: Door) -> tuple[Any, Any, Any, float]:
    """Second moment, mean, the standard errors of their difference, and how many of them an interval of 95 % has on each side."""
    planned = mechanism(p, t)
    a = t.a  # workers get a number
    value = symmetric.moment(records, lambda x, _: augmented(x, a), p.d + 1, p.n)
    drawn = release.draw("moment", value, sensitivity=planned.sensitivity)
    hidden = p.neighbours == "add-remove"
    share = max(float(drawn[-1, -1]) / t.a**2, 1.0 / p.n) if hidden else 1.0
    second, mean = (drawn[:-1, :-1] + drawn[:-1, :-1].T) / 2 / share, drawn[:-1, -1] / t.a / share
    r = p.facts["x_l2"]
    mean = mean * min(1.0, r / max(float(np.linalg.norm(mean)), 1e-300))
    error, reach = errors(p, t, planned, release.scale("moment"), second, mean, share)
    return second, mean, error, reach


def errors(
    p: Problem, t: Tunables, planned: symmetric.Mechanism, scale: float, second: Any, mean: Any, share: float
) -> tuple[symmetric.Matrix, float]:
    """Standard errors of the noise, entry by entry, to first order, and how many of them an interval of 95 % has on each side."""
    on, off, reach = symmetric.spread(planned, scale)
    entry = np.where(np.eye(p.d, dtype=bool), on, off)
    of_mean = (off / t.a) ** 2 * (mean[:, None] ** 2 + mean[None, :] ** 2)
    of_mean[np.diag_indices(p.d)] = (2 * off / t.a * mean) ** 2
    count = (on / t.a**2 * (2 * np.outer(mean, mean) - second)) ** 2 if p.neighbours == "add-remove" else 0.0
    return np.asarray(np.sqrt(entry**2 + of_mean + count) / share), reach


def predicted(p: Problem, t: Tunables, calibrated: Any) -> float:
    """Spectral norm: noise of the second moment and of the mean, and sampling."""
    _, off, _ = symmetric.spread(mechanism(p, t), calibrated.scale("moment"))
    r = p.facts["x_l2"]
    return float(off * (2 * math.sqrt(p.d) + 2 * math.sqrt(p.d) * (r / 2) / t.a) + r * math.sqrt(p.facts.get("eig_max", r**2 / p.d) / p.n))
