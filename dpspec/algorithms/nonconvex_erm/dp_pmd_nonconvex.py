"""Noisy mirror descent for smooth losses that need not be convex (DP-PMD): a point of short mirror mapping over a ball or the simplex.

In u = w/R on the unit set of a norm |.|_C, V the Bregman divergence of a potential that is 1-strongly convex in it:

    u_{k+1} = argmin over the set of <R (grad F(w_k) + e_k), u> + V(u, u_k)/gamma,   e_k ~ N(0, s^2 I), k = 0..T-1;

released is one of the last K = ceil(tail T) iterates, that public randomness picks. Small is the mirror mapping m(u) = (u - u+)/gamma,
u+ the step without noise, in |.|_C: zero at stationary points alone, but another measure than the generalised gradient. For the l1 ball
with a Euclidean potential d/2 |u|^2 it is grad F/d inside, so no bound of it is compared with one of the gradient.

Privacy: T Gaussian draws of the mean gradient, each of sensitivity 2 L/n (replace-one; L/n where a record vanishes); they compose exactly,
and mirror steps are post-processing.

Source: 000, section 4.1.3, Algorithm 4.1.18, Theorem 4.1.5, Lemma 4.1.5. Differences: the document names no potential; those of
:mod:`dpspec.algorithms.mirror` are taken; gamma, T and DF are public numbers; the true mapping is bounded, not the noisy step.

Bound, re-derived. M = S (R q)^2, q = max |u|_2 over the unit set: F(u') <= F(u) + <R grad F, u' - u> + M/2 |u' - u|_C^2. With h = u_k -
u_{k+1} optimality and strong convexity give <R(grad F + e), h> >= |h|_C^2/gamma, and h is gamma-Lipschitz in e (dual norm), so that
E <R e, h> <= gamma W s^2, W >= E |R b|_*^2 for b ~ N(0, I). For gamma <= 1/M, m~ = h/gamma and the last K steps,

    E |m~_R|_C^2 <= (2/(2 - gamma M)) (DF/(gamma K) + W s^2 T/K),     |m_R|_C <= |m~_R|_C + |R e_R|_*.
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from dpspec.algorithms.card import Bound, Card, Fault, Need, Problem, Source, Tunable, Tunables
from dpspec.algorithms.estimate import Estimate
from dpspec.algorithms.formulas import STRENGTH, STRENGTH_SOURCE
from dpspec.algorithms.gradients import mean_sensitivity, noisy_gradient
from dpspec.algorithms.mirror import Geometry, geometry
from dpspec.algorithms.nonconvex_erm._common import gap, kept, refused
from dpspec.algorithms.objective import Objective
from dpspec.algorithms.sets import Vector
from dpspec.models.door import Door
from dpspec.models.rows import Rows
from dpspec.privacy.mechanisms.gaussian import Gaussian
from dpspec.privacy.schedule import Draw, Repeat, Tree

_TESTS = "tests/algorithms/nonconvex/test_dp_pmd_nonconvex.py::"
_PGD = "tests/algorithms/nonconvex/test_dp_pgd_nonconvex.py::"
#: Of a mirror step, in units of the set: whatever goes beyond ends at the boundary anyway, and steps stay in the range of doubles.
_FURTHEST: Final = 1e100

CARD = Card(
    id="dp-pmd-nonconvex",
    title="Noisy mirror descent to a stationary point",
    family="nonconvex_erm",
    task="minimise",
    models=("central",),
    guarantees=("approx", "zcdp", "gdp"),
    sources=(Source("000", "4.1.3", "Algorithm 4.1.18", ("Theorem 4.1.5", "Lemma 4.1.5", "Remark 4.1.3")),),
    summary="Mirror steps on T Gaussian draws of the mean gradient, Euclidean, p-norm or entropic by the set; a random late iterate.",
    needs=(
        Need("lipschitz", "privacy", "every record's gradient has l2 norm at most L on the set"),
        Need("smooth", "utility", "the objective is S-smooth in l2, S = B + lam"),
    ),
    tunables={
        "strength": Tunable(STRENGTH, STRENGTH_SOURCE),
        "smoothness": Tunable("B + lam", "smoothness of F: that of the loss and the ridge weight"),
        "radius": Tunable("w_radius else L/smoothness", "l2 radius of the set (without one it is refused)"),
        "gap": Tunable("min(at_zero, 2*L*radius) else 2*L*radius", "a public bound of F(w_0) - F*, for tuning; 000: O(1)", minimum=1e-300),
        "spread": Tunable(
            "w_l1^2 + 2*log(2*d)*w_linf^2 else (d + 1)*radius^2",
            "about W, how the noise counts in the dual norm: log(d) for the l1 ball and the simplex, d for the l2 ball, d^2 for the cube",
            minimum=1e-300,
        ),
        "T": Tunable(
            "ceil(max(10, min(n*strength*radius*sqrt(smoothness*gap/(2*spread))/L, 3*10^8/(n*d), 1000)))",
            "least 2*M*gap/T + W*(2*L/(n*mu))^2*T; 000: n*epsilon*sqrt(M)/(G*sqrt((Q^2 + W^2)*log(1/delta)))",
            integer=True,
            minimum=1,
            maximum=1e6,
        ),
        "pace": Tunable("1/2", "the step gamma in units of 1/M; 000: 1/2", minimum=1e-12, maximum=1.0),
        "tail": Tunable("1/2", "share of the last iterates that the released one is from; 000: all", minimum=1e-6, maximum=1.0),
    },
    bounds=(
        Bound(
            "mirror-mapping-norm",
            "explicit",
            "upper",
            "sqrt((DF*M/(pace*K) + W*scale^2*T/K)*2/(2 - pace)) + scale*sqrt(W)",
            "proved",
            "mirror descent",
            conditions="pace = 1/2, which is the step of the measure; K = ceil(tail*T), DF the public gap, M and W as in the docstring",
            when=("pace = 1/2",),
            where={
                "DF": "F(w_0) - F*, at most (public)",
                "M": "smoothness over the modulus of the potential",
                "W": "squared Gaussian width plus one, times R^2",
                "K": "averaged steps, ceil(tail*T)",
            },
        ),
        Bound(
            "mirror-mapping-norm",
            "order",
            "upper",
            "C*R^(3/2)*((R^2 + W^2)*log(1/delta))^(1/4)/sqrt(n*epsilon)",
            "claimed",
            "000 Theorem 4.1.5, equation (4.7)",
            conditions="in the l2 norm; L, S and DF constants, no potential named",
            where={"R": "radius of the set", "W": "Gaussian width of the set"},
        ),
    ),
    faults=(
        Fault(
            "000 Algorithm 4.1.18 step 3: the noise of (4.3), as in Algorithm 4.1.16",
            "the square of rho, and the smoothness for the Lipschitz constant, make it too small as there",
            _PGD + "test_the_printed_square_of_rho_overspends",
            "privacy",
        ),
        Fault(
            "000 Theorem 4.1.5: gamma and T balance F(x_1) - F*",
            "that is a number of the data; DF is a public bound here",
            "tests/algorithms/test_printed_leaks.py::test_steps_balanced_by_the_distance_to_the_least_risk_differ",
            "privacy",
        ),
        Fault(
            "000 Remark 4.1.3: (4.7) compared with (4.4)",
            "the mirror mapping shrinks with the modulus of the potential: over the l1 ball with a Euclidean one it is the gradient over d",
            _TESTS + "test_a_short_mirror_mapping_is_no_short_gradient",
            "utility",
        ),
        Fault(
            "000 Theorem 4.1.5 for a potential w that is not given",
            "the potentials here are 1-strongly convex in the norm of their set, which is tested",
            _TESTS + "test_the_potentials_are_strongly_convex_in_the_norm_of_their_set",
            "text",
        ),
    ),
    cost={"gradients": "n*T", "rounds": "T", "memory_bytes": "8*n*(features + 1)"},
    reads="passes",
    spread=True,
    spec="specs/nonconvex_erm/dp-pmd-nonconvex.dps",
    margins="several",
)


def accepts(p: Problem, t: Tunables) -> str | None:
    reason = refused(p)
    if reason is None and geometry(p) is None:
        return "it needs a set with a mirror map: an l1, l2 or linf ball, or the simplex"
    if reason is None and not p.loss.smooth_penalty:  # type: ignore[union-attr]
        return "an l1 or group term has no closed mirror step here (use an l1 ball, or dp-pgd-nonconvex)"
    if reason is None and not p.loss.smooth + p.loss.l2 > 0:  # type: ignore[union-attr]
        return "its step is the inverse of the smoothness, which is 0"
    return reason


def schedule(p: Problem, t: Tunables) -> Tree:
    return Repeat(Draw("gradient", Gaussian(mean_sensitivity(p), p.d)), t.T)


def modulus(p: Problem, shape: Geometry) -> float:
    """M: the smoothness of F in units of the set and in its norm."""
    assert p.loss is not None
    return (p.loss.smooth + p.loss.l2) * (shape.radius * shape.l2) ** 2


def run(records: Rows, p: Problem[Objective], t: Tunables, release: Door) -> Estimate:
    f, shape, last = p.objective, geometry(p), kept(t)
    assert shape is not None
    chosen = t.T - last + int(release.public.generator("iterate").integers(last))
    R, gamma, u = shape.radius, float(t.pace) / modulus(p, shape), shape.start
    found: Vector = u
    for k in range(t.T):
        if k == chosen:
            found = u
        g = noisy_gradient(release, records, p, R * u) + float(f.l2) * R * u
        with np.errstate(over="ignore", invalid="ignore"):
            move = np.clip(np.nan_to_num(gamma * R * g), -_FURTHEST, _FURTHEST)
        u = shape.step(u, move)
    return Estimate(np.asarray(R * found))


def explicit_bounds(p: Problem, t: Tunables, calibrated: Any) -> dict[str, float]:
    shape, DF, K = geometry(p), gap(p), kept(t)
    assert shape is not None
    assert p.loss is not None
    if not math.isfinite(DF) or t.pace != 0.5:
        return {}
    M, noise = modulus(p, shape), shape.width * (shape.radius * calibrated.scale("gradient")) ** 2
    step = math.sqrt((DF * M / (t.pace * K) + noise * t.T / K) * 2 / (2 - t.pace))
    return {"mirror descent": step + math.sqrt(noise)}


def bound_terms(p: Problem, t: Tunables, calibrated: Any) -> dict[str, dict[str, float]]:
    shape = geometry(p)
    assert shape is not None
    return {"mirror descent": {"DF": gap(p), "M": modulus(p, shape), "W": shape.width * shape.radius**2, "K": kept(t)}}
