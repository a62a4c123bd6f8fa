"""Local Bernstein mechanism: the loss at the points of a grid, noised by the users, and the minimum of the polynomial through it.

What is shared with the one-bit and the GenProt version, the errors and their proofs stand in :mod:`._bernstein`.

``report = one`` (default): a user reports the loss at one grid point, dealt in public, with noise for one number: Laplace, or Gaussian
under a delta, rho or mu. ``report = all``, as printed: at all K = (k+1)^d points, each with noise K times as large (l1 sensitivity
2 half K; Gaussian: 2 half sqrt(K)), which averages over K times as many users:
a factor sqrt(K) worse for Laplace noise, equal for Gaussian.

Privacy: the channel clips whatever value a client computes into [-half, half], so a report is private for any record and any loss. Local,
replace-one, one report a user; its point depends on its number alone.

Source: 000, section 5.1.3, Algorithm 5.1.31, Theorems 5.1.2, 5.1.3 (population), 5.1.5 and 5.1.6 (polynomial-time server), Lemma 5.1.13.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from dpspec.algorithms.card import Bound, Card, Fault, Problem, Source, Tunable, Tunables
from dpspec.algorithms.estimate import Estimate, Published
from dpspec.algorithms.nldp_erm import _bernstein as shared
from dpspec.algorithms.objective import Objective
from dpspec.algorithms.sets import constraint_set
from dpspec.models.door import Door
from dpspec.models.rows import Rows
from dpspec.privacy.channels.gaussian_vector import GaussianVector
from dpspec.privacy.channels.laplace_vector import LaplaceVector
from dpspec.privacy.schedule import Disjoint, Draw, Tree, draws

CARD = Card(
    id="local-bernstein",
    title="Loss on a grid from one report a user, and a Bernstein polynomial",
    family="nldp_erm",
    task="minimise",
    models=("nldp", "sldp"),
    guarantees=("pure", "approx", "zcdp", "gdp"),
    sources=(
        Source(
            "000",
            "5.1.3",
            "Algorithm 5.1.31",
            ("Theorem 5.1.2", "Theorem 5.1.3", "Theorem 5.1.5", "Theorem 5.1.6", "Corollary 5.1.1", "Corollary 5.1.2", "Lemma 5.1.13"),
        ),
    ),
    summary="Users report their loss at a grid point with noise; the server minimises the polynomial through the averages.",
    needs=shared.NEEDS,
    options={"report": ("one", "all"), **shared.OPTIONS},
    tunables={
        "half": shared.HALF,
        "side": shared.SIDE,
        "h": shared.ORDER,
        "k": shared.degree("half*(1 + 3/min(epsilon, 3))"),
        "mu": shared.MU,
        "zeta": Tunable("1/20", "the probability that a bound fails", minimum=1e-12, maximum=0.5),
    },
    bounds=(
        *shared.bounds("(half + 2*scale)"),
        Bound(
            "excess-empirical-risk",
            "order",
            "upper",
            "C*log(1/zeta)^(1/4)*sqrt(d)*2^(d*(d + 1)/2)/(n^(1/4)*sqrt(epsilon))",
            "claimed",
            "000 Corollary 5.1.2",
            probability="1 - zeta",
            conditions="h = d, infinitely smooth losses, its D_d left out; the printed d^(1/4) is d^(1/2)",
            regime="C*4^(d*(d + 1))/epsilon^2",
        ),
        Bound(
            "excess-population-risk",
            "order",
            "upper",
            "C*d^(1/8)*2^(d*(d + 1)/4)/(zeta*n^(1/12)*epsilon^(1/4))",
            "claimed",
            "000 Theorem 5.1.3",
            probability="1 - 2*zeta",
            conditions="mu = n^(-1/12), its D_d left out",
        ),
    ),
    faults=(
        *shared.FAULTS,
        Fault(
            "000 Algorithm 5.1.31: every user reports at every point, Lap((k+1)^d/epsilon)",
            "private, and a factor sqrt((k+1)^d) worse than one point a user",
            shared.EVIDENCE + "test_one_point_a_user_has_less_noise_than_all",
            "utility",
        ),
    ),
    cost={"gradients": "0", "rounds": "1", "bits_per_user": "64", "memory_bytes": "8*(8192*features + 4*(k + 1)^d)"},
    reads="rows",
    spec="specs/nldp_erm/local-bernstein.dps",
)


def accepts(p: Problem, t: Tunables) -> str | None:
    return shared.refusal(p, t)


def schedule(p: Problem, t: Tunables) -> Tree:
    count = shared.points(p, t) if t.report == "all" else 1
    gaussian = {"delta", "rho", "mu"} & p.facts.keys()
    channel = GaussianVector(count, t.half * math.sqrt(count)) if gaussian else LaplaceVector(count, t.half, "linf")
    draw = Draw("value", channel, per="user")
    return draw if t.report == "all" else Disjoint(draw, shared.groups(p, t))


def run(records: Rows, p: Problem[Objective], t: Tunables, release: Door) -> Estimate:
    if t.report == "one":
        return shared.finish(shared.averages(records, p, t, release), p, t)
    over = constraint_set(p.task.over, p.facts)
    nodes, middle = shared.grid(over, p.d, int(t.k)), shared.centre(over, p.d)
    far, rows = shared.stretch(nodes, middle), max(1, min(8192, (1 << 20) // len(nodes)))
    blocks = shared.values(records, nodes, middle, far, p.objective, rows)
    clipped = (np.clip(np.where(np.isfinite(v), v, 0.0), -t.half, t.half) for v in blocks)
    return shared.finish(shared.shrunk(np.ravel(release.mean_blocks("value", clipped)), far), p, t)


# --------------------------------------------------------------------------------------------------- what is known beforehand


def _laplace(calibrated: Any) -> bool:
    return isinstance(draws(calibrated.tree)["value"].draw.mechanism, LaplaceVector)


def _spread(p: Problem, t: Tunables, calibrated: Any) -> float:
    """Standard deviation of one report of one point; of reports on all points that of as many reports as a point has users."""
    scale = calibrated.scale("value") / (math.sqrt(shared.points(p, t)) if t.report == "all" else 1.0)
    noise = scale * (math.sqrt(2) if _laplace(calibrated) else 1.0)
    return math.hypot(noise, t.half if t.report == "one" else 0.0)


def _off(p: Problem, t: Tunables, calibrated: Any) -> Callable[[int, int], float]:
    scale, laplace = calibrated.scale("value"), _laplace(calibrated)

    def off(count: int, m: int) -> float:
        four, users = math.log(4 * count / t.zeta), p.n if t.report == "all" else m
        if laplace and four > users:
            return math.inf  # Chernoff's bound of a Laplace sum is in its Gaussian range
        return float((t.half * math.sqrt(2) + scale * math.sqrt(8 if laplace else 2)) * math.sqrt(four / users))

    return off


def explicit_bounds(p: Problem, t: Tunables, calibrated: Any) -> dict[str, float]:
    return shared.stated(p, t, _off(p, t, calibrated))


def bound_terms(p: Problem, t: Tunables, calibrated: Any) -> dict[str, dict[str, float]]:
    return shared.terms(p, t, _off(p, t, calibrated))


def predicted(p: Problem, t: Tunables, calibrated: Any) -> float:
    return shared.error(p, t, _spread(p, t, calibrated))


def warnings(p: Problem, t: Tunables, calibrated: Any) -> list[str]:
    return shared.warned(p, t, _spread(p, t, calibrated))


def published(p: Problem, t: Tunables, budget: Any) -> tuple[Published, ...]:
    if budget.kind != "pure" or t.report != "all":
        return ()
    e, count = float(budget.epsilon_exact), shared.points(p, t)
    return (
        Published("000 Algorithm 5.1.31", "value", "2*half*(k + 1)^d/epsilon", 2 * t.half * count / e, e, "losses in a range of 2 half"),
    )
