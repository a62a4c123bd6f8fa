"""Noisy proximal gradient descent for smooth losses that need not be convex (DP-PGD): a point whose gradient is short.

    w_{k+1} = prox_eta(w_k - eta_k (grad F(w_k) + e_k)),   e_k ~ N(0, s^2 I), k = 0..T-1;   released: one iterate.

The last C = ceil(late T) steps are eta/fall long, the others eta: long ones go far, also from a saddle point, and the noise that they
leave, about s sqrt(eta h d/2) in a gradient at curvatures h, short ones bring down by sqrt(fall). F is the mean loss and the ridge, r the
l1 and group terms and the set. What is small is the generalised gradient m(w) = (w - prox_g(w - g grad F(w)))/g at g = 1/(2 S), S = B +
lam the smoothness of F; over R^d without an l1 or group term it is grad F(w).

Privacy: T Gaussian draws of the mean gradient, each of sensitivity 2 L/n (replace-one; L/n where a record vanishes), the ridge outside;
they compose exactly. Everything else is post-processing of draws: the iterates, ``output = random`` (an iterate of the last ``tail`` of
the steps that public randomness picks), ``last``, and ``best-noisy``, the iterate whose *noisy* step was shortest. Steps, T and the bound
DF of F(w_0) - F* come from public numbers; nothing is chosen by an exact gradient or value.

Source: 000, section 4.1.1, Algorithm 4.1.16, Theorems 4.1.1 to 4.1.3, Remarks 4.1.1 and 4.1.2. Differences: exact calibration; steps that
fall (fall = 1: as printed); DF is public (Loss.at_zero, or L times the extent of the set), where the proof balances T by the gap on the
data; the true mapping is bounded, not the noisy step; a late iterate is drawn, not any of them.

Bounds, re-derived, in expectation over noise and choice. R^d, no l1 or group term, eta_k <= 1/S: F(w_{k+1}) <= F(w_k) - eta_k <grad F,
grad F + e> + S/2 eta_k^2 |grad F + e|^2, so E F falls by eta_k/2 E|grad F|^2 - S/2 eta_k^2 d s^2 a step. Before the last K = ceil(tail T)
steps it rises by no more than the noise, and summing over those, of length eta/fall or more,

    E |grad F(w_R)|^2 <= 2 DF fall/(eta K) + S eta d s^2 (fall (T - C) + C/fall)/K.                                  (plain)

In general the prox inequality gives (F + r)(w_{k+1}) <= (F + r)(w_k) - eta_k (1 - eta_k S/2) |m~|^2 + eta_k <e, m~>, m~ the noisy mapping
of step eta_k, and E <e, m~> = E <e, m~ - m> <= E|e|^2, as prox maps are non-expansive and e is independent of m. So

    E |m~_R|^2 <= (2/(2 - h)) (DF fall/(eta K) + d s^2 (fall (T - C) + C)/K),     |m_R| <= |m~_R| + |e_R|,           (mapping)

with h = eta S, or eta S/fall where K <= C, at a step of h/S or less; the mapping at g is no longer than that at a shorter step, and g
|m_g| at most eta_k times that at a longer one, so it is at most max(1, h/(S g)) times it. ``best-noisy`` has the shortest noisy step of
the K, no longer than their root mean square, and beside it the longest of K noises, with probability 1 - 2^-10 at most s (sqrt(d) + sqrt(2
log(1024 K))).

s = 2 L sqrt(T)/(n mu): in the bound (plain) T cancels but for eta T, which is best at n mu sqrt(DF/(2 S d))/L (at fall = 1): E|grad F|^2 =
O(L sqrt(S DF d)/(n mu)). Short late steps cost the bound a factor of 3, and halve the error and more (docs/defaults.md).
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from dpspec.algorithms.card import Bound, Card, Fault, Need, Problem, Source, Tunable, Tunables
from dpspec.algorithms.estimate import Estimate, Published
from dpspec.algorithms.formulas import STRENGTH, STRENGTH_SOURCE
from dpspec.algorithms.gradients import mean_sensitivity, noisy_gradient, norm
from dpspec.algorithms.nonconvex_erm._common import gap, kept, refused, short
from dpspec.algorithms.objective import Objective
from dpspec.algorithms.sets import Vector
from dpspec.models.door import Door
from dpspec.models.rows import Rows
from dpspec.privacy.mechanisms.gaussian import Gaussian
from dpspec.privacy.schedule import Draw, Repeat, Tree

_TESTS = "tests/algorithms/nonconvex/test_dp_pgd_nonconvex.py::"
#: Of the bound for ``best-noisy``: how likely a noise is longer.
_RARE: Final = 2.0**-10

CARD = Card(
    id="dp-pgd-nonconvex",
    title="Noisy proximal gradient descent to a stationary point",
    family="nonconvex_erm",
    task="minimise",
    models=("central",),
    guarantees=("approx", "zcdp", "gdp"),
    sources=(
        Source("000", "4.1.1", "Algorithm 4.1.16", ("Theorem 4.1.1", "Theorem 4.1.2", "Theorem 4.1.3", "Remark 4.1.1")),
        Source("000", "4.1.5", "zCDP calibration of step 3", ("Lemmas 2.1.8-2.1.10",)),
    ),
    summary="T Gaussian draws of the mean gradient of a smooth loss; the released iterate is picked by public coins or by noisy steps.",
    needs=(
        Need("lipschitz", "privacy", "every record's gradient has l2 norm at most L on the set"),
        Need("smooth", "utility", "the objective is S-smooth in l2, S = B + lam"),
    ),
    options={"output": ("random", "best-noisy", "last")},
    tunables={
        "strength": Tunable(STRENGTH, STRENGTH_SOURCE),
        "smoothness": Tunable("B + lam", "smoothness of F: that of the loss and the ridge weight"),
        "gap": Tunable(
            "min(at_zero, 2*L*w_radius) else at_zero else 2*L*w_radius else L^2/smoothness",
            "a public bound of F(w_0) - F*, for tuning; 000: O(1), the gap on the data in the proof",
            minimum=1e-300,
        ),
        "tau": Tunable(
            "n*strength*sqrt(gap/(2*smoothness*d))/L",
            "total step length: least 2*gap/tau + S*d*(2 L/(n mu))^2*tau",
            minimum=1e-300,
        ),
        "T": Tunable(
            "ceil(max(10, min(2*smoothness*tau, 2*10^9/(n*d), 1000)))",
            "steps of half of 1/S while they take seconds, else longer ones; 000: n*epsilon*sqrt(S)/(L*sqrt(d*log(1/delta)))",
            integer=True,
            minimum=1,
            maximum=1e6,
        ),
        "eta": Tunable("min(1/smoothness, tau/T)", "step; 000: 1/(2*S)", minimum=0.0, maximum=1e100),
        "tail": Tunable("1/4", "share of the last iterates that the released one is from; 000: all", minimum=1e-6, maximum=1.0),
        "fall": Tunable("6", "by what late steps are divided: 2.4 times less noise in what is released; 000: 1", minimum=1.0, maximum=1e6),
        "late": Tunable("1/2", "share of the steps that are short", minimum=1e-6, maximum=1.0),
    },
    bounds=(
        Bound(
            "gradient-norm",
            "explicit",
            "upper",
            "sqrt(2*DF*fall/(eta*K) + S*eta*d*scale^2*(fall*(T - C) + C/fall)/K)",
            "proved",
            "plain",
            conditions="output = random, R^d, no l1 or group term; K = ceil(tail*T), C = ceil(late*T), DF the public gap, eta <= 1/S",
            options={"output": "random"},
            where={
                "DF": "F(w_0) - F*, at most (public)",
                "K": "averaged steps, ceil(tail*T)",
                "C": "short ones, ceil(late*T)",
                "S": "smoothness",
            },
        ),
        Bound(
            "gradient-norm",
            "explicit",
            "upper",
            "max(1, 2*h)*(sqrt((DF*fall/(eta*K) + d*scale^2*(fall*(T - C) + C)/K)*2/(2 - h)) + scale*sqrt(d))",
            "proved",
            "mapping",
            conditions="output = random; the mapping at step 1/(2 S); K, C, DF as above, eta <= 1/S",
            options={"output": "random"},
            where={
                "DF": "F(w_0) - F*, at most (public)",
                "K": "averaged steps, ceil(tail*T)",
                "C": "short ones, ceil(late*T)",
                "h": "longest of the averaged steps times S",
            },
        ),
        Bound(
            "gradient-norm",
            "order",
            "upper",
            "C*sqrt(L)*(S*DF*d*log(1/delta))^(1/4)/sqrt(n*epsilon)",
            "proved",
            "000 Theorem 4.1.2, equation (4.4)",
            conditions="the bounds above at the best tau",
            options={"output": "random"},
            where={"S": "smoothness", "DF": "F(w_0) - F*, at most"},
        ),
        Bound(
            "population-gradient-norm",
            "order",
            "upper",
            "C*(L*sqrt(d*log(n)/n) + (d*log(1/delta))^(1/4)/sqrt(n*epsilon))",
            "claimed",
            "000 Theorem 4.1.3, equation (4.5) as two terms",
            conditions="sub-Gaussian gradients, n >= C*d*log(d); printed as a product, which is larger only for epsilon <= 1",
            needs=("sub-gaussian of gradient",),
            when=("epsilon <= 1",),
            regime="C*d*log(d)",
        ),
    ),
    faults=(
        Fault(
            "000 Algorithm 4.1.16 step 3: s^2 = 2 L^2 T/(n^2 rho^2)",
            "rho, not its square: for budgets with rho > 1 the printed noise is too small (epsilon 10 spends 12.2)",
            _TESTS + "test_the_printed_square_of_rho_overspends",
            "privacy",
        ),
        Fault(
            "000 Algorithm 4.1.16 step 3: L, the smoothness, in the noise",
            "the sensitivity is 2 G/n with the Lipschitz constant G: 0.25 and not 0.096 for the sigmoid loss (epsilon 2 spends 4.5)",
            _TESTS + "test_smoothness_in_the_place_of_the_lipschitz_constant_overspends",
            "privacy",
        ),
        Fault(
            "000 section 4.1.1: (sqrt(log(1/delta)) + epsilon - sqrt(log(1/delta)))^2 for rho",
            "the root covers log(1/delta) + epsilon; as printed it is epsilon^2, and epsilon 1 spends 5.77",
            _TESTS + "test_the_printed_root_is_epsilon_itself",
            "privacy",
        ),
        Fault(
            "000 section 4.1.1: s^2 = 8 L^2 T log(1/delta)/(n^2 epsilon^2) for small epsilon",
            "below what epsilon = 10 needs (10.8 is spent); the expansion is an upper bound of rho",
            _TESTS + "test_the_expansion_for_small_epsilon_overspends_at_ten",
            "privacy",
        ),
        Fault(
            "000 Theorem 4.1.1: one constant c for every epsilon < c_1 T",
            "the constant must grow with epsilon/log(1/delta), as 8 + 4 epsilon/log(1/delta) does; c = 12 at epsilon 50 spends 79.8",
            _TESTS + "test_no_constant_serves_every_epsilon",
            "privacy",
        ),
        Fault(
            "000 section 4.1.5: steps as in TFOCS do not affect privacy",
            "backtracking reads values of the data: two neighbours take steps of different length under the same noise",
            _TESTS + "test_a_line_search_on_the_data_tells_neighbours_apart",
            "privacy",
        ),
        Fault(
            "000 section 4.1.5: delta = 1e-4 for n up to 5e4",
            "to publish a random record is (0, 1/n)-DP: what is stated holds and promises little",
            _TESTS + "test_delta_above_one_over_n_publishes_records",
            "text",
        ),
        Fault(
            "000 Theorem 4.1.2: T balances F(w_1) - F*",
            "that is a number of the data, and the noise would tell it; DF is a public bound here",
            "tests/algorithms/test_printed_leaks.py::test_steps_balanced_by_the_distance_to_the_least_risk_differ",
            "privacy",
        ),
        Fault(
            "000 Remark 4.1.1: the least of the noisy mappings is not private",
            "it is a function of the draws; a choice by exact gradients is what costs (output = best-noisy is offered, that is not)",
            _TESTS + "test_the_released_iterate_is_a_function_of_the_draws",
            "text",
        ),
        Fault(
            "000 Theorem 4.1.2: E of the noisy step's norm is called that of the projected gradient",
            "the true mapping is longer by up to |e|, of the same order at the stated T",
            _TESTS + "test_the_noisy_step_may_be_shorter_than_the_true_mapping",
            "utility",
        ),
    ),
    cost={"gradients": "n*T", "rounds": "T", "memory_bytes": "8*n*(features + 1)"},
    reads="passes",
    spread=True,
    spec="specs/nonconvex_erm/dp-pgd-nonconvex.dps",
    margins="several",
)


def accepts(p: Problem, t: Tunables) -> str | None:
    if p.loss is not None and (p.loss.l1 < 0 or (p.loss.group is not None and p.loss.group.weight < 0)):
        return "prox maps of a penalty with a negative weight are not non-expansive, which its bound rests on"
    return refused(p) or (None if t.eta > 0 else "the step size must be positive")


def schedule(p: Problem, t: Tunables) -> Tree:
    return Repeat(Draw("gradient", Gaussian(mean_sensitivity(p), p.d)), t.T)


def longest(p: Problem, t: Tunables) -> float:
    """h: the longest of the averaged steps, in units of 1/S."""
    assert p.loss is not None
    return float((t.eta if kept(t) > short(t) else t.eta / t.fall) * (p.loss.smooth + p.loss.l2))


def run(records: Rows, p: Problem[Objective], t: Tunables, release: Door) -> Estimate:
    f, last = p.objective, kept(t)
    chosen = t.T - last + int(release.public.generator("iterate").integers(last))
    w = f.over.start(p.d)
    found, least = w, math.inf
    for k in range(t.T):
        eta = t.eta if k < t.T - short(t) else t.eta / t.fall
        noisy = noisy_gradient(release, records, p, w) + float(f.l2) * w
        following: Vector = f.prox(w - eta * noisy, eta)
        if t.output == "best-noisy":
            length = norm((w - following) / eta)
            if k >= t.T - last and length < least:
                found, least = w, length
        elif k == chosen:
            found = w
        w = following
    return Estimate(np.asarray(w if t.output == "last" else found))


def explicit_bounds(p: Problem, t: Tunables, calibrated: Any) -> dict[str, float]:
    assert p.loss is not None
    S, DF, d, eta, T, K, C, fall = p.loss.smooth + p.loss.l2, gap(p), p.d, t.eta, t.T, kept(t), short(t), t.fall
    if t.output != "random" or not math.isfinite(DF) or eta * S > 1 + 1e-12:
        return {}
    noise, h = d * calibrated.scale("gradient") ** 2, longest(p, t)
    found = {}
    if p.task.over.kind == "reals" and p.loss.smooth_penalty:
        found["plain"] = math.sqrt(2 * DF * fall / (eta * K) + S * eta * noise * (fall * (T - C) + C / fall) / K)
    step = math.sqrt((DF * fall / (eta * K) + noise * (fall * (T - C) + C) / K) * 2 / (2 - h))
    found["mapping"] = max(1.0, 2 * h) * (step + calibrated.scale("gradient") * math.sqrt(d))
    most = p.loss.lipschitz if p.task.over.kind == "reals" and p.loss.smooth_penalty and p.loss.l2 == 0 else math.inf
    return {name: value for name, value in found.items() if value <= most}  # a larger one says nothing


def bound_terms(p: Problem, t: Tunables, calibrated: Any) -> dict[str, dict[str, float]]:
    assert p.loss is not None
    names = {"DF": gap(p), "K": kept(t), "C": short(t)}
    return {"plain": {**names, "S": p.loss.smooth + p.loss.l2}, "mapping": {**names, "h": longest(p, t)}}


def predicted(p: Problem, t: Tunables, calibrated: Any) -> float | None:
    """Norm of the gradient: the plain bound of equal steps at the tuning gap, without its shares. Of a convex loss, or where a Frank-Wolfe
    gap is expected, none: other methods predict an excess risk or a gap there, and different measures are not compared."""
    if (p.loss is not None and p.loss.convex) or (p.goal is not None and p.goal.measure == "frank-wolfe-gap"):
        return None
    noise = p.d * calibrated.scale("gradient") ** 2
    return math.sqrt(2 * t.gap / (t.eta * t.T) + t.smoothness * t.eta * noise)


def published(p: Problem, t: Tunables, budget: Any) -> tuple[Published, ...]:
    """The calibrations that 000 prints for these T draws, and what they really spend."""
    if budget.kind != "approx":
        return ()
    assert p.loss is not None
    from dpspec.privacy.published import epsilon_spent, zcdp_gaussian_sigma

    e, delta, S, T = float(budget.epsilon_exact), float(budget.delta_exact), mean_sensitivity(p), t.T
    root = math.sqrt(math.log(1 / delta))
    rho = (math.sqrt(math.log(1 / delta) + e) - root) ** 2
    forms = (
        (
            "000 Algorithm 4.1.16 step 3, repaired",
            "2*G*sqrt(T/(2*rho))/n, rho = (sqrt(log(1/delta) + epsilon) - sqrt(log(1/delta)))^2",
            zcdp_gaussian_sigma(e, delta, S, T),
            "safe; the conversion from zCDP to (epsilon, delta) is not tight",
        ),
        (
            "000 Algorithm 4.1.16 step 3 as printed",
            "L*sqrt(2*T)/(n*rho), L the smoothness",
            S * p.loss.smooth / p.loss.lipschitz * math.sqrt(T / 2) / rho,
            "the square of rho and the smoothness in the place of the Lipschitz constant",
        ),
        (
            "000 section 4.1.1, the expansion",
            "G*sqrt(8*T*log(1/delta))/(n*epsilon)",
            S * math.sqrt(2 * T) * root / e,
            "for small epsilon; too little noise from about epsilon 10 on",
        ),
    )
    return tuple(
        Published(source, "gradient", formula, scale, epsilon_spent(scale, S, T, budget.delta_exact), remark)
        for source, formula, scale, remark in forms
        if 0 < scale < math.inf
    )
