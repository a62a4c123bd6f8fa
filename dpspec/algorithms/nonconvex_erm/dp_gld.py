"""Gradient Langevin dynamics whose noise is the privacy (DP-GLD): gradient steps at a temperature that the budget allows.

    w_{k+1} = prox_eta(w_k - eta (grad F(w_k) + e_k)),   e_k ~ N(0, s^2 I), k = 0..T-1,   eta = min(1/S, 2/(beta s^2)),

so that the noise eta e_k of a step has the variance 2 eta/beta of Langevin dynamics at the inverse temperature beta: for small steps the
law of w_k nears that of density exp(-beta F). F with its ridge, S = B + lam its smoothness; where T is too small for steps of 1/S the chain
is colder than asked, and a warning says so. Released is the last point, or one of the last K = ceil(tail T) that public
randomness picks.

Privacy: T Gaussian draws of the mean gradient, each of sensitivity 2 L/n (replace-one; L/n where a record vanishes), that compose exactly;
nothing is claimed from mixing. So s^2 is about 4 L^2 T/(n mu)^2, and eta T beta = n^2 mu^2/(2 L^2) whatever T is: the budget is a time
for a temperature. Unlike in other gradient methods the noise is the same at all points, also where records' gradients are short: it is
the temperature. The scale is a public number of the plan, and so is eta.

Source: 000, section 4.2.2, Algorithm 4.2.20, Theorems 4.2.1 to 4.2.3. Differences: all of the noise counts for privacy, not half of it; the
accounting is exact; the regulariser is in the drift, as in (4.15) and the proof; a set and l1 or group terms are served by their prox.

Bound, re-derived: that of dp-pgd-nonconvex (R^d, no l1 or group term, eta <= 1/S), whose noise is a temperature: S eta d s^2 = 2 S d/beta,

    E |grad F(w_R)|^2 <= 2 DF/(eta K) + (2 S d/beta) T/K.

The excess risks of 000 for the last point are of unknown constants that grow like exp(beta times the height of a barrier). Before it leaves
a wrong well, that is the time it needs, so (4.20), which has them polynomial in beta, is false (card).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dpspec.algorithms.card import Bound, Card, Fault, Need, Problem, Source, Tunable, Tunables
from dpspec.algorithms.estimate import Estimate, Published
from dpspec.algorithms.formulas import STRENGTH, STRENGTH_SOURCE
from dpspec.algorithms.gradients import exact_gradient, mean_sensitivity
from dpspec.algorithms.nonconvex_erm._common import gap, kept, refused
from dpspec.algorithms.objective import Objective
from dpspec.models.door import Door
from dpspec.models.rows import Rows
from dpspec.privacy.mechanisms.gaussian import Gaussian
from dpspec.privacy.schedule import Draw, Repeat, Tree

_TESTS = "tests/algorithms/nonconvex/test_dp_gld.py::"

CARD = Card(
    id="dp-gld",
    title="Gradient Langevin dynamics whose noise is the privacy",
    family="nonconvex_erm",
    task="minimise",
    models=("central",),
    guarantees=("approx", "zcdp", "gdp"),
    sources=(Source("000", "4.2.2", "Algorithm 4.2.20", ("Theorem 4.2.1", "Theorem 4.2.2", "Theorem 4.2.3", "Remark 4.2.1")),),
    summary="T Gaussian draws of the mean gradient, whose noise is the temperature; the step follows from the budget and the temperature.",
    needs=(
        Need("lipschitz", "privacy", "every record's gradient has l2 norm at most L on the set"),
        Need("smooth", "utility", "the objective is S-smooth in l2, S = B + lam"),
    ),
    options={"output": ("last", "random")},
    tunables={
        "strength": Tunable(STRENGTH, STRENGTH_SOURCE),
        "smoothness": Tunable("B + lam", "smoothness of F: that of the loss and the ridge weight"),
        "gap": Tunable(
            "min(at_zero, 2*L*w_radius) else at_zero else 2*L*w_radius else L^2/smoothness",
            "a public bound of F(w_0) - F*, for tuning",
            minimum=1e-300,
        ),
        "beta": Tunable(
            "max(n*strength*sqrt(smoothness*d/(2*gap))/L, smoothness*(n*strength/L)^2/max(10, min(3*10^8/(n*d), 1000)))",
            "inverse temperature: least 2*gap/tau + 2*S*d/beta at tau*beta = (n*mu/L)^2/2, colder where that takes too many steps; "
            "000: O(log(n)), at least max(4/lam, d)",
            minimum=1e-12,
            maximum=1e200,
        ),
        "T": Tunable(
            "ceil(max(10, smoothness*(n*strength/L)^2/beta))",
            "steps of about 1/(2*S); 000: at least 2*S^2*(n*mu/L)^2/(lam*beta), steps of lam/(8*S^2)",
            integer=True,
            minimum=1,
            maximum=1e6,
        ),
        "tail": Tunable("1/2", "share of the last points that output = random is one of; 000: all", minimum=1e-6, maximum=1.0),
    },
    bounds=(
        Bound(
            "gradient-norm",
            "explicit",
            "upper",
            "sqrt(2*DF/(eta*K) + S*eta*d*scale^2*T/K)",
            "proved",
            "descent at a temperature",
            conditions="output = random, R^d, no l1 or group term; eta = min(1/S, 2/(beta*scale^2)), K = ceil(tail*T), DF the public gap",
            options={"output": "random"},
            where={
                "DF": "F(w_0) - F*, at most (public)",
                "eta": "min(1/S, 2/(beta*scale^2))",
                "K": "averaged steps, ceil(tail*T)",
                "S": "smoothness",
            },
        ),
        Bound(
            "excess-empirical-risk",
            "order",
            "upper",
            "C1*(n*epsilon)^(5/2)/(beta^(3/4)*T^(1/4)*log(1/delta)) + exp(C2*beta)*exp(-(n*epsilon)^2/(beta*log(1/delta)*exp(C3*beta)))"
            " + C4*d*log(beta)/beta",
            "claimed",
            "000 Theorem 4.2.2, equation (4.18)",
            conditions="output = last, lam > 0, R^d, beta >= max(4/lam, d), eta <= lam/(8*S^2)",
            options={"output": "last"},
            when=("lam > 0", "beta >= 4/lam", "beta >= d"),
            where={"C1": "unspecified", "C2": "unspecified", "C3": "unspecified", "C4": "unspecified"},
        ),
        Bound(
            "excess-population-risk",
            "order",
            "upper",
            "C*d*log(1/delta)/(log(n)*epsilon^2)",
            "claimed",
            "000 Remark 4.2.1",
            conditions="as (4.18), T to infinity, beta = c*log(n) with a small c that is not given, log(n) >= C*d",
            options={"output": "last"},
            when=("log(n) >= C*d",),
        ),
        Bound(
            "excess-empirical-risk",
            "order",
            "upper",
            "C*log(1/delta)/(n*epsilon)^tau",
            "refuted",
            "000 Theorem 4.2.3, equation (4.20)",
            conditions="output = random; its constants grow like exp(beta times a barrier), and the proof has them polynomial",
            where={"tau": "some exponent"},
        ),
    ),
    faults=(
        Fault(
            "000 Algorithm 4.2.20 with c = 1/c_2^2: no value of c_2 is given",
            "the step c n^2 epsilon^2/(L^2 beta T log(1/delta)) is private for c <= rho log(1/delta)/epsilon^2; c = 1 spends 1.57 at "
            "epsilon = 1, and c = 1/4 spends 10.8 at epsilon = 10",
            _TESTS + "test_the_constant_of_the_step_decides_the_privacy",
            "privacy",
        ),
        Fault(
            "000 Algorithm 4.2.20 for epsilon < c_1 T",
            "the condition is neither needed nor enough: c has to fall with epsilon/log(1/delta), whatever T is",
            _TESTS + "test_the_constant_of_the_step_decides_the_privacy",
            "privacy",
        ),
        Fault(
            "000 Theorem 4.2.3: (4.20), a power of n epsilon for losses with several wells",
            "from a wrong well the chain does not leave it in the time that the budget allows at that temperature",
            _TESTS + "test_a_wrong_well_is_not_left_at_the_temperature_of_4_20",
            "utility",
        ),
        Fault(
            "000 Algorithm 4.2.20 step 4: the gradient of the loss alone",
            "(4.15) and the proof have that of the loss and the regulariser; without it nothing pulls the chain back",
            _TESTS + "test_the_ridge_is_in_the_drift",
            "utility",
        ),
    ),
    cost={"gradients": "n*T", "rounds": "T", "memory_bytes": "8*n*(features + 1)"},
    reads="passes",
    spread=True,
    spec="specs/nonconvex_erm/dp-gld.dps",
    margins="several",
)


def accepts(p: Problem, t: Tunables) -> str | None:
    if p.loss is not None and (p.loss.l1 < 0 or (p.loss.group is not None and p.loss.group.weight < 0)):
        return "a penalty with a negative weight pushes its points away"
    return refused(p)


def schedule(p: Problem, t: Tunables) -> Tree:
    return Repeat(Draw("gradient", Gaussian(mean_sensitivity(p), p.d)), t.T)


def step(p: Problem, t: Tunables, scale: float) -> float:
    """The step at which gradient noise of this scale has the temperature 1/beta, at most 1/S."""
    assert p.loss is not None
    S = p.loss.smooth + p.loss.l2
    eta = 2.0 / (float(t.beta) * scale * scale)
    return min(eta, 1 / S) if S > 0 else eta


def warnings(p: Problem, t: Tunables, calibrated: Any) -> list[str]:
    scale = calibrated.scale("gradient")
    wanted, eta = 2.0 / (t.beta * scale**2), step(p, t, scale)
    if wanted <= eta:
        return []
    colder, enough = 2.0 / (eta * scale**2), math.ceil(t.T * wanted / eta)
    return [
        f"beta = {t.beta:.3g} in T = {t.T} steps needs steps of {wanted:.3g}, and beyond 1/S = {eta:.3g} they need not descend: it runs "
        f"at that step, and so as cold as beta = {colder:.3g} (T = {enough} gives the temperature that is asked for)"
    ]


def run(records: Rows, p: Problem[Objective], t: Tunables, release: Door) -> Estimate:
    f, last, eta = p.objective, kept(t), step(p, t, release.scale("gradient"))
    chosen = t.T - last + int(release.public.generator("iterate").integers(last)) if t.output == "random" else t.T
    w = found = f.over.start(p.d)
    for k in range(t.T):
        if k == chosen:
            found = w
        noisy = release.draw("gradient", exact_gradient(records, p, w), sensitivity=mean_sensitivity(p))
        w = f.prox(w - eta * (noisy + float(f.l2) * w), eta)
    return Estimate(np.asarray(w if t.output == "last" else found))


def explicit_bounds(p: Problem, t: Tunables, calibrated: Any) -> dict[str, float]:
    assert p.loss is not None
    S, DF, K, scale = p.loss.smooth + p.loss.l2, gap(p), kept(t), calibrated.scale("gradient")
    eta = step(p, t, scale)
    if t.output != "random" or p.task.over.kind != "reals" or not p.loss.smooth_penalty or not math.isfinite(DF):
        return {}
    value = math.sqrt(2 * DF / (eta * K) + S * eta * p.d * scale**2 * t.T / K)
    return {"descent at a temperature": value} if p.loss.l2 > 0 or value <= p.loss.lipschitz else {}  # a larger one says nothing


def bound_terms(p: Problem, t: Tunables, calibrated: Any) -> dict[str, dict[str, float]]:
    assert p.loss is not None
    eta, S = step(p, t, calibrated.scale("gradient")), p.loss.smooth + p.loss.l2
    return {"descent at a temperature": {"DF": gap(p), "eta": eta, "K": kept(t), "S": S}}


def published(p: Problem, t: Tunables, budget: Any) -> tuple[Published, ...]:
    """What Algorithm 4.2.20 adds to a gradient, s^2 = 2/(eta beta) = 2 L^2 T log(1/delta)/(c n^2 epsilon^2), for three values of c."""
    if budget.kind != "approx" or p.neighbours != "replace-one":
        return ()
    from dpspec.privacy.published import epsilon_spent

    assert p.loss is not None
    e, delta, S = float(budget.epsilon_exact), float(budget.delta_exact), mean_sensitivity(p)
    rho = (math.sqrt(math.log(1 / delta) + e) - math.sqrt(math.log(1 / delta))) ** 2
    forms = (
        ("c = 1", 1.0, "not private"),
        ("c = 1/4", 0.25, "safe for small epsilon alone"),
        ("c from zCDP", rho * math.log(1 / delta) / e**2, "safe; the conversion is not tight"),
    )
    found = []
    for name, c, remark in forms:
        scale = S / 2 * math.sqrt(2 * t.T * math.log(1 / delta) / c) / e
        spends = epsilon_spent(scale, S, t.T, budget.delta_exact)
        found.append(
            Published(f"000 Algorithm 4.2.20, {name}", "gradient", "L*sqrt(2*T*log(1/delta)/c)/(n*epsilon)", scale, spends, remark)
        )
    return tuple(found)
