"""Private mirror descent over balls and the simplex.

    w_{t+1} = argmin over the set of eta <grad F(w_t) + e_t, w> + V(w, w_t),   e_t ~ N(0, s^2 I),   t = 0..T-1; the average is released.

Source: 000, section 3.1.4, Table 3.3 (Talwar, Thakurta, Zhang 2014). T Gaussian draws of sensitivity 2L/n compose exactly.
``steps = fixed`` is that. ``steps = adaptive`` (default, not from the documents) lengthens eta by the secants of released gradients
(:mod:`dpspec.algorithms.steps`) up to the step that balances noise alone, and weights the average by the steps.

Bound, in units of the set (potential 1-strongly convex in its norm, V >= V(w*, w_0), M = L + lam R the slope times the set's l2 radius,
W >= E |e|_*^2/s^2): E F(average) - F* <= V/(eta T) + eta (M + s sqrt(W))^2/2, by the mirror inequality and Minkowski's; for fixed steps.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dpspec.algorithms.card import Bound, Card, Need, Problem, Source, Tunable, Tunables
from dpspec.algorithms.convex_erm._common import mean_sensitivity, noisy_gradient, refused
from dpspec.algorithms.estimate import Estimate
from dpspec.algorithms.formulas import STRENGTH, STRENGTH_SOURCE
from dpspec.algorithms.mirror import Geometry, geometry
from dpspec.algorithms.objective import Objective
from dpspec.algorithms.steps import Steps
from dpspec.models.door import Door
from dpspec.models.rows import Rows
from dpspec.privacy.mechanisms.gaussian import Gaussian
from dpspec.privacy.schedule import Draw, Repeat, Tree

CARD = Card(
    id="dp-mirror-descent",
    title="Private mirror descent",
    family="convex_erm",
    task="minimise",
    models=("central",),
    guarantees=("approx", "zcdp", "gdp"),
    sources=(Source("000", "3.1.1, 3.1.4", "noisy mirror descent of Talwar, Thakurta, Zhang 2014 (cited)", ("Table 3.3",)),),
    summary="Mirror descent on noisy full gradients: Euclidean, p-norm or entropic steps by the shape of the set.",
    needs=(
        Need("lipschitz", "privacy", "every record's gradient has l2 norm at most L on the set"),
        Need("convex", "utility", "the loss is convex in w"),
    ),
    options={"steps": ("adaptive", "fixed")},
    tunables={
        "strength": Tunable(STRENGTH, STRENGTH_SOURCE),
        "spread": Tunable(
            "max(0.5, min((w_l1/w_radius)^2, d)) else d",
            "d for the l2 ball and 1 for the l1 ball: how the width grows against the potential",
        ),
        "T": Tunable(
            "ceil(max(100, min(n^2*strength^2/(4*spread), 500)))",
            "n^2 mu^2/W equalises slope and noise (Table 3.3); noise is the same for any T, so few steps are no gain; at most 500 for cost",
            integer=True,
            minimum=1,
            maximum=1e6,
        ),
        "pace": Tunable(
            "16",
            "most that a step exceeds the one of the worst-case bound, up to the step that balances noise alone",
            minimum=1e-6,
        ),
    },
    bounds=(
        Bound(
            "excess-empirical-risk",
            "explicit",
            "upper",
            "V/(step*T) + step*M^2/2",
            "proved",
            "mirror inequality",
            conditions="steps = fixed, eta = sqrt(2*V/T)*min(pace/(M + scale*sqrt(W)), 1/(scale*sqrt(W))), M = (L + lam*R)*R, "
            "V and W as in the docstring",
            options={"steps": "fixed"},
            where={
                "V": "range of the potential",
                "step": "length of the steps, sqrt(2*V/T)*min(pace/M, 1/(scale*sqrt(W)))",
                "M": "(L + lam*R)*R + scale*sqrt(W), W the squared Gaussian width plus one, times R^2",
            },
        ),
        Bound(
            "excess-empirical-risk",
            "order",
            "upper",
            "C*sqrt(W)*log(n)/(n*epsilon)",
            "claimed",
            "Table 3.3 (Talwar, Thakurta, Zhang 2014)",
            conditions="T = n^2 epsilon^2/(W log(n)^2), log(1/delta) left out",
            where={"W": "squared Gaussian width of the set"},
        ),
    ),
    cost={"gradients": "n*T", "rounds": "T", "memory_bytes": "8*n*(features + 1)"},
    reads="passes",
    spread=True,
    spec="specs/convex_erm/dp-mirror-descent.dps",
    margins="several",
)


def accepts(p: Problem, t: Tunables) -> str | None:
    reason = refused(p)
    if reason is None and geometry(p) is None:
        return "it needs a set with a mirror map: an l1, l2 or linf ball, or the simplex"
    if reason is None and not p.loss.smooth_penalty:  # type: ignore[union-attr]
        return "an l1 or group term has no closed mirror step here (use an l1 ball, or dp-gd)"
    return reason


def schedule(p: Problem, t: Tunables) -> Tree:
    return Repeat(Draw("gradient", Gaussian(mean_sensitivity(p), p.d)), t.T)


def _terms(p: Problem, t: Tunables, shape: Geometry, scale: float) -> tuple[float, float]:
    """(eta, M + s sqrt(W)) in units of the set; the noise scale is a public number of the plan."""
    assert p.loss is not None
    far = shape.radius * shape.l2
    noise = scale * math.sqrt(shape.width) * shape.radius
    steep = (p.loss.lipschitz + p.loss.l2 * far) * far + noise
    return float(math.sqrt(2 * shape.far / t.T) * min(t.pace / steep, 1 / noise)), steep


def run(records: Rows, p: Problem[Objective], t: Tunables, release: Door) -> Estimate:
    f, shape = p.objective, geometry(p)
    assert shape is not None
    R, u, noise = shape.radius, shape.start, release.scale("gradient")
    eta, _ = _terms(p, t, shape, noise)
    most = math.sqrt(2 * shape.far / t.T) / (noise * math.sqrt(shape.width) * R)
    steps = Steps(eta, R * noise, adaptive=t.steps == "adaptive", caution=-2.0, most=most, norm=shape.norm)
    total, weight = np.zeros(p.d), 0.0
    for _ in range(t.T):
        g = R * (noisy_gradient(release, records, p, R * u) + f.l2 * R * u)
        eta = steps.after(u, g)
        total, weight = total + eta * u, weight + eta
        u = shape.step(u, eta * g)
    return Estimate(R * total / weight)


def explicit_bounds(p: Problem, t: Tunables, calibrated: Any) -> dict[str, float]:
    return {"mirror inequality": _value(p, t, calibrated)} if t.steps == "fixed" else {}


def bound_terms(p: Problem, t: Tunables, calibrated: Any) -> dict[str, dict[str, float]]:
    shape = geometry(p)
    assert shape is not None
    step, steep = _terms(p, t, shape, calibrated.scale("gradient"))
    return {"mirror inequality": {"V": shape.far, "step": step, "M": steep}}


def _value(p: Problem, t: Tunables, calibrated: Any) -> float:
    shape = geometry(p)
    assert shape is not None
    eta, steep = _terms(p, t, shape, calibrated.scale("gradient"))
    return float(shape.far / (eta * t.T) + eta * steep**2 / 2)


def predicted(p: Problem, t: Tunables, calibrated: Any) -> float:
    """The mirror inequality; adaptive steps: at a curvature of B/d for records that spread, or the longest step if that is shorter, with
    the noise alone."""
    shape = geometry(p)
    assert shape is not None
    assert p.loss is not None
    if t.steps == "fixed" or not math.isfinite(p.loss.smooth):
        return _value(p, t, calibrated)
    noise = calibrated.scale("gradient") * math.sqrt(shape.width) * shape.radius
    eta = min(math.sqrt(2 * shape.far / t.T) / noise, p.d / (max(p.loss.smooth, 1e-12) * shape.radius**2))
    return float(shape.far / (eta * t.T) + eta * noise**2 / 2)
