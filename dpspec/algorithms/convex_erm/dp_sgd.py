"""Noisy projected stochastic gradient descent on secret batches.

    w_{t+1} = prox(w_t - eta*(mean over a batch of b of grad phi_i + lam*w_t + e_t)),   e_t ~ N(0, s^2 I),   t = 0..T-1,

and the average of the last half is released. The batch is a uniform subset of exactly b records, drawn for every step, the sampler that
the accountant assumes under replace-one; the sensitivity of its mean is 2L/b. Under add-remove and zero-out each record joins with
probability b/n (Poisson), however many there are, and (1/b) times the sum moves by L/b. Source: 000, sections 3.1.1 and 3.1.5, names the
method of Bassily, Smith and Thakurta 2014 (batch 1, T = n^2, advanced composition), whose constants are safe and loose by a factor of
6 to 12 in epsilon; 000, Lemma 2.1.7 quotes Abadi et al. 2016 with noise (G/n) sigma, n/l times too small for a batch of l.

The step length tau = eta*T is set as in :mod:`dpspec.algorithms.convex_erm._reduced`, without differences; b is the least batch with noise
multiplier about 1.5, where sampling loses little against full batches, so the cost is about 1.5 n*strength*sqrt(T) gradients instead
of n*T. The error is that of full batches plus at most as much again from sampling.

Bound (standard projected descent; V >= |w_0 - w*|^2, G = L + lam*Q the largest slope of F over a set of diameter Q, average of all steps):
E F - F* <= V/(2 eta T) + eta (G^2 + d s^2)/2, with L^2 (1/b - 1/n) more in the parenthesis for the variance of Poisson batches. The
average of the last half costs a factor: with u = w* and the last K = T/2 steps the first term is Q^2/(2 eta K), Q the diameter.
"""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np

from dpspec.algorithms.card import Bound, Card, Fault, Need, Problem, Source, Tunable, Tunables
from dpspec.algorithms.convex_erm._common import exact_gradient, mean_sensitivity, refused, steepness
from dpspec.algorithms.convex_erm._reduced import bad_batch
from dpspec.algorithms.estimate import Estimate, Published
from dpspec.algorithms.formulas import STRENGTH, STRENGTH_SOURCE
from dpspec.algorithms.objective import Objective
from dpspec.algorithms.sets import constraint_set
from dpspec.models.door import Door
from dpspec.models.rows import Rows
from dpspec.privacy.mechanisms.gaussian import Gaussian
from dpspec.privacy.schedule import Draw, Repeat, Sampled, Tree

CARD = Card(
    id="dp-sgd",
    title="Noisy stochastic gradient descent",
    family="convex_erm",
    task="minimise",
    models=("central",),
    guarantees=("approx",),
    sources=(
        Source("000", "2.1, 3.1.1, 3.1.5", "DP-SGD of Bassily, Smith, Thakurta 2014 (cited)", ("Lemma 2.1.7", "Table 3.1", "Table 3.2")),
    ),
    summary="Gaussian noise on gradients of secret batches (of a fixed size, or Poisson), numerical accounting, averaged iterates.",
    needs=(
        Need("lipschitz", "privacy", "every record's gradient has l2 norm at most L on the set"),
        Need("convex", "utility", "the loss is convex in w"),
    ),
    tunables={
        "reach": Tunable(
            "min(w_radius, 2*L/B) else 2*L/B else w_radius else 1",
            "distance to cover: the set's radius, at most twice the scale L/B of a weight",
        ),
        "strength": Tunable(STRENGTH, STRENGTH_SOURCE),
        "tau": Tunable(
            "1/(3*L*sqrt(d)/(reach*n*strength) + lam/4)",
            "total step length: least D^2/(2 tau) + 9/2 d tau (L/(n mu))^2, at most 4/lam (see dp-svrg)",
        ),
        "T": Tunable(
            "ceil(max(50, min(4*(B + lam)*tau, 10000))) else ceil(max(50, min((n*strength)^2/(9*d), 10000)))",
            "steps of a quarter of 1/(B + lam); without smoothness those at which eta L^2/2 is below the noise; at most 10,000",
            True,
            1,
            1e6,
        ),
        "eta": Tunable("min(tau/T, 1/(B + lam)) else tau/T", "step", minimum=0.0),
        "b": Tunable(
            "ceil(min(n, max(1.5*n*strength/sqrt(T), (n*strength)^2/(4*d*T))))",
            "least batch with a noise multiplier of about 1.5, or with a sampling error, at most L^2/b, below the noise",
            True,
            1,
        ),
    },
    bounds=(
        Bound(
            "excess-empirical-risk",
            "explicit",
            "upper",
            "Q^2/(2*eta*K) + eta*((L + lam*Q)^2 + V + d*scale^2)/2",
            "proved",
            "projected descent",
            conditions="a bounded set of diameter Q, no l1 or group term; K = T - floor(T/2) averaged steps; with Poisson batches "
            "(add-remove, zero-out) d*scale^2 + L^2*(1/b - 1/n) in place of d*scale^2",
            where={
                "Q": "diameter of the set",
                "K": "averaged steps, T - floor(T/2)",
                "lam": "the ridge",
                "V": "0, or L^2*(1/b - 1/n) for Poisson batches",
            },
        ),
        Bound(
            "excess-empirical-risk",
            "order",
            "upper",
            "C*L*D*sqrt(d)*log(n)^(3/2)*sqrt(log(1/delta))/(n*epsilon)",
            "claimed",
            "Table 3.2 (Bassily, Smith, Thakurta 2014)",
            conditions="convex, T = n^2",
            needs=("convex",),
        ),
        Bound(
            "excess-empirical-risk",
            "order",
            "upper",
            "C*L^2*d*log(n)^2*log(1/delta)/(lam*n^2*epsilon^2)",
            "claimed",
            "Table 3.1 (Bassily, Smith, Thakurta 2014)",
            conditions="strongly convex, T = n^2",
            needs=("strongly-convex",),
        ),
    ),
    faults=(
        Fault(
            "000 Lemma 2.1.7: noise (G/n) sigma on the gradient of a batch of l records",
            "sigma is relative to the sum over the batch, so the mean needs G sigma/l: as printed the noise is n/l times too small",
            "tests/algorithms/test_dp_gd_faults.py::test_lemma_2_1_7_has_the_wrong_scale",
            "privacy",
        ),
        Fault(
            "000 Lemma 2.1.7: sigma >= c2 q sqrt(T log(1/delta))/epsilon with unspecified constants",
            "the moments bound behind it needs sigma >= 1 and q < 1/(16 sigma): at q = 1e-5 and 2400 steps the formula gives 0.0015 and a "
            "noise multiplier above 0.3 is necessary",
            "tests/algorithms/convex/test_variance_reduction_faults.py::test_dp_svrg_as_printed_is_not_private",
            "privacy",
        ),
    ),
    cost={"gradients": "T*b", "rounds": "T", "memory_bytes": "8*n*(features + 1)"},
    reads="rows",
    spec="specs/convex_erm/dp-sgd.dps",
    margins="several",
)


def accepts(p: Problem, t: Tunables) -> str | None:
    reason = refused(p) or bad_batch(p, t)
    return reason if reason is not None or t.eta > 0 else "the step size must be positive"


def schedule(p: Problem, t: Tunables) -> Tree:
    method: Literal["fixed", "poisson"] = "fixed" if p.neighbours == "replace-one" else "poisson"
    return Repeat(Sampled(Draw("gradient", Gaussian(mean_sensitivity(p, t.b), p.d)), method, t.b / p.n, p.n), t.T)


def run(records: Rows, p: Problem[Objective], t: Tunables, release: Door) -> Estimate:
    f, s = p.objective, mean_sensitivity(p, t.b)
    w = f.over.start(p.d)
    total = np.zeros(p.d)
    for step in range(t.T):
        batch = records.take(release.batch("gradient", records.n))
        share = steepness(p, w)  # the noise shrinks with it, as in noisy_gradient
        g = release.draw("gradient", exact_gradient(batch, p, w, t.b) / share, sensitivity=s) * share
        if step >= t.T // 2:
            total += w
        w = f.prox(w - t.eta * (g + f.l2 * w), t.eta)
    return Estimate(total / (t.T - t.T // 2))


def explicit_bounds(p: Problem, t: Tunables, calibrated: Any) -> dict[str, float]:
    assert p.loss is not None
    if p.task.over.kind not in ("ball", "simplex") or not p.loss.smooth_penalty:
        return {}
    Q = constraint_set(p.task.over, p.facts).diameter(p.d)  # it also bounds |w| there
    kept, slope = t.T - t.T // 2, p.loss.lipschitz + p.loss.l2 * Q
    sampling = 0.0 if p.neighbours == "replace-one" else p.loss.lipschitz**2 * (1 / t.b - 1 / p.n)
    value = Q**2 / (2 * t.eta * kept) + t.eta * (slope**2 + sampling + p.d * calibrated.scale("gradient") ** 2) / 2
    return {"projected descent": value} if value <= slope * Q else {}


def bound_terms(p: Problem, t: Tunables, calibrated: Any) -> dict[str, dict[str, float]]:
    assert p.loss is not None
    L = p.loss.lipschitz
    V = 0.0 if p.neighbours == "replace-one" else L**2 * (1 / t.b - 1 / p.n)
    Q = constraint_set(p.task.over, p.facts).diameter(p.d)
    return {"projected descent": {"Q": Q, "K": t.T - t.T // 2, "L": L, "lam": p.loss.l2, "V": V}}


def published(p: Problem, t: Tunables, budget: Any) -> tuple[Published, ...]:
    """The noise that Lemma 2.1.7 with c2 = 1 puts on a batch mean; a lower bound of what it spends, from one step."""
    if budget.kind != "approx":
        return ()
    from scipy.special import log_ndtr

    assert p.loss is not None
    e, delta, q = float(budget.epsilon_exact), float(budget.delta_exact), t.b / p.n
    sigma = p.loss.lipschitz / p.n * q * math.sqrt(t.T * math.log(1 / delta)) / e
    h = p.loss.lipschitz / t.b / sigma  # the record's own gradient in units of noise, its replacement's is the opposite
    least = math.log(q / 2 - delta) - float(log_ndtr(-h)) if q / 2 > delta else 0.0
    return (
        Published(
            "000 Lemma 2.1.7 (c2 = 1)",
            "gradient",
            "L/n*q*sqrt(T*log(1/delta))/epsilon, q = b/n",
            sigma,
            max(0.0, least),
            "n/b times too small on a batch mean; at least this epsilon by a single step",
        ),
    )
