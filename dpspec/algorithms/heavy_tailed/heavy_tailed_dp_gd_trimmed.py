"""Gradient descent on the risk of a law, each coordinate of the mean gradient by a private trimmed mean (central model).

    w_t = prox(w_{t-1} - step (g_t + lam w_{t-1})),  t = 1..T,  g_tj = dp-trimmed-mean of grad_j l(w_{t-1}; z_i), i = 1..n,

from the public point of the set nearest to 0; released is the average of the last ``tail`` of the iterates. d T draws on the same records
share the budget; each is noise of Student's law at the exact smooth sensitivity (:mod:`dpspec.algorithms.heavy_tailed._trimmed`).

Source: 000, section 3.2.4, Algorithm 3.2.7, Theorems 3.2.4 and 3.2.5, Lemma 3.2.2. Differences: those of dp-trimmed-mean; exact composition
of pure draws; the range of the mean gradients from the declared moment. About 6 d T log(n)/epsilon records are trimmed at either end (pure
budgets), so d T has to be far below n epsilon, and skewed gradients keep a bias of that share; beyond, heavy-tailed-dp-gd-catoni.
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from dpspec.algorithms.card import Bound, Card, Fault, Need, Problem, Source, Tunable, Tunables
from dpspec.algorithms.estimate import Estimate, Published
from dpspec.algorithms.heavy_tailed import _gradients as heavy
from dpspec.algorithms.heavy_tailed import dp_trimmed_mean as one
from dpspec.algorithms.heavy_tailed.heavy_tailed_dp_gd_catoni import kept_steps, stepped
from dpspec.algorithms.objective import Objective
from dpspec.models.door import Door
from dpspec.models.rows import Rows
from dpspec.privacy.schedule import Draw, Repeat, Tree

#: The budget is shared by d T draws, of which the last point shows little: eight times epsilon is what the audit of the suite sees.
AUDIT_FACTOR: Final = 8
_EVIDENCE: Final = "tests/algorithms/heavy_tailed/test_heavy_tailed_dp_gd_trimmed.py::"
_ROOT: Final = "(sqrt(log(1/delta) + epsilon) - sqrt(log(1/delta)))"
_BOUNDED: Final = "one record changes a trimmed mean by at most S, and S by at most e^t"

CARD = Card(
    id="heavy-tailed-dp-gd-trimmed",
    title="Gradient descent with private trimmed means of the gradients",
    family="heavy_tailed",
    task="minimise",
    models=("central",),
    guarantees=("pure", "approx", "zcdp"),
    sources=(Source("000", "3.2.4", "Algorithm 3.2.7", ("Theorem 3.2.4", "Theorem 3.2.5", "Lemma 3.2.2")),),
    summary="Each coordinate of each step is a trimmed mean with noise at its smooth sensitivity; for few coordinates and steps.",
    needs=(
        Need("x", "privacy", "a record has bounded influence", enforced_by=_BOUNDED),
        Need("y", "privacy", "a record has bounded influence", enforced_by=_BOUNDED),
        Need(
            "moment",
            "utility",
            "second moments of the gradient's coordinates are at most tau on the set, their means lie in [low, high]",
            of=("gradient",),
        ),
        Need("convex", "utility", "the loss is convex in w"),
    ),
    tunables={
        "tau": heavy.TAU,
        "smoothness": heavy.SMOOTHNESS,
        "T": Tunable(
            "10", "steps, few: each costs a share of the budget; 000: (smoothness/alpha) log(n)", integer=True, minimum=1, maximum=1e4
        ),
        "high": Tunable("sqrt(tau)", "|E g_j| <= sqrt(E g_j^2)"),
        "low": Tunable("-high", "the other end of the range of the mean gradients; 000: a and b known"),
        "each": Tunable(
            f"sqrt(2*rho/(d*T)) else max(epsilon/(d*T), sqrt(2/(d*T))*{_ROOT}) else epsilon/(d*T)",
            "epsilon of a draw, at most what the budget buys d*T times; tunes",
            minimum=1e-12,
        ),
        "smoothing": Tunable("each/6", "half of a draw's epsilon for the dilation; 000: epsilon~^2/(16*d*T)", minimum=1e-300),
        "m": Tunable(
            "min(floor((n - 1)/4), ceil(log(n*(high - low)/sqrt(tau))/smoothing))",
            "e^(-m*t)*(high - low) at most sigma/n; 000: O(1), in its experiments 0.05*n",
            integer=True,
            minimum=0,
        ),
        "step": Tunable("1/smoothness", "000 Theorem 3.2.5", minimum=1e-300),
        "tail": Tunable("1/2", "share of the last iterates that is averaged; 000: the last one", minimum=1e-6, maximum=1.0),
    },
    bounds=(
        Bound(
            "excess-population-risk",
            "order",
            "upper",
            "C*tau*d^2*log(n)^2*log(1/delta)/(n*epsilon^2)",
            "claimed",
            "000 Theorem 3.2.5",
            conditions="sub-exponential Lipschitz gradients, strongly convex, n >= 2*m; Q^2*B^2/alpha^3 left out",
            regime="C*d*log(n)/epsilon",
            needs=("strongly-convex of population",),
        ),
    ),
    faults=(
        *one.SMOOTH_FAULTS,
        Fault(
            "000 Algorithm 3.2.7, step 1: epsilon~ = sqrt(2 log(1/delta)) + 2 epsilon - sqrt(2 log(1/delta)), that is 2 epsilon",
            "the radical covers 2 log(1/delta) + 2 epsilon: with 2 epsilon (1, 1e-5) costs 11.6 by zCDP",
            _EVIDENCE + "test_the_printed_budget_costs_eleven_times_as_much",
            "privacy",
        ),
        Fault(
            "000 Lemma 3.2.2: m = O(1) at epsilon_j = epsilon~/sqrt(d T)",
            "n = 1e5, d = T = 10, (1, 1e-5): m = 0.05 n leaves 0.88 of the range, and noise 308 ranges large",
            _EVIDENCE + "test_the_noise_of_the_experiments_is_hundreds_of_ranges",
            "utility",
        ),
        Fault(
            "000 Theorem 3.2.5: E F(w) - F* <= B/2 (E |w - w*|)^2",
            "Jensen's inequality goes the other way; the recursion on (E |.|^2)^(1/2) gives the same rate",
            _EVIDENCE + "test_the_square_of_a_mean_is_less_than_the_mean_of_the_square",
            "text",
        ),
    ),
    cost={"gradients": "n*T", "rounds": "T", "memory_bytes": "8*n*(2*d + 4)"},
    spec="specs/heavy_tailed/heavy-tailed-dp-gd-trimmed.dps",
)


def accepts(p: Problem, t: Tunables) -> str | None:
    return heavy.refused(p, t) or one.refused(p, t)


uncertain = one.uncertain


def schedule(p: Problem, t: Tunables) -> Tree:
    return Repeat(Draw("coordinate", one.mechanism(t)), p.d * t.T)


def run(records: Rows, p: Problem[Objective], t: Tunables, release: Door) -> Estimate:
    f, w, kept = p.objective, p.objective.over.start(p.d), kept_steps(t)
    total = np.zeros(p.d)
    for k in range(t.T):
        rows = np.concatenate([f.gradients(w, x, y) for x, y in records.blocks()])
        w = stepped(f, w, one.noisy(rows, t, release), t.step)
        if k >= t.T - kept:
            total += w
    return Estimate(total / kept)


def predicted(p: Problem, t: Tunables, calibrated: Any) -> float:
    """Excess risk: what T steps leave of the start's, and the noise of half of them."""
    far = heavy.spread(p)[0]
    far = far if math.isfinite(far) else 1.0
    return float(far**2 / (2 * t.step * t.T) + far * one.predicted(p, t, calibrated) / math.sqrt(kept_steps(t)))


def published(p: Problem, t: Tunables, budget: Any) -> tuple[Published, ...]:
    """Algorithm 3.2.7's noise at this m: with the smooth sensitivity that it prints, and its printed budget with the exact one."""
    whole, share = one.printed_budget(budget), math.sqrt(p.d * t.T)
    if whole is None:
        return ()
    lines = [one.unsmooth("000 Algorithm 3.2.7, epsilon~ of its proof", t, whole / share, "epsilon_j")]
    if budget.kind == "approx":
        double = 2 * float(budget.epsilon_exact)
        lines.append(
            Published(
                "000 Algorithm 3.2.7, step 1 as printed",
                "coordinate",
                "4*S*sinh(N(0, 1))*sqrt(d*T)/epsilon~, epsilon~ = sqrt(2*log(1/delta)) + 2*epsilon - sqrt(2*log(1/delta))",
                one.scale_of_equal_records(t, double / share),
                double**2 / 2 + double * math.sqrt(2 * math.log(1 / float(budget.delta_exact))),
                "what its own proof gives, with the exact smooth sensitivity: the radical covers 2*log(1/delta) + 2*epsilon",
            )
        )
    return tuple(lines)
