"""Sums in doubles, in exact arithmetic.

The hostile instance: half of 2^20 contributions are 1, so that running totals of neighbours stand at 2^19 and at 2^19 - 1 or - 2, just
below; then come contributions of a little more than 2^-34, one a block. Added to the one total, whose last place is 2^-33, each is rounded
up to 2^-33; added to the other one, to 2^-34. The sums inside blocks are exact in any order.
"""

from __future__ import annotations

import math
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, stats
from scipy.sparse import csr_array

from dpspec.algorithms import multinomial, objective, sums
from dpspec.algorithms.convex_erm import _common, dp_frank_wolfe, dp_gd
from dpspec.algorithms.heavy_tailed import dp_catoni_mean
from dpspec.algorithms.matrix import _moment, dp_covariance_gaussian, dp_precision_covariance
from dpspec.algorithms.sparse import (
    _central,
    dp_iht,
    dp_iht_subgaussian,
    dp_iht_truncated,
    dp_sparse_mean_heavy_tailed,
    dp_sparse_optimization_heavy_tailed,
)
from dpspec.data.records import Records
from dpspec.privacy.mechanisms.symmetric import second_moment_l1_sensitivity, second_moment_sensitivity
from dpspec.privacy.mechanisms.wishart import second_moment_nuclear_sensitivity
from dpspec.privacy.mechanisms.wishart_one_sided import Blur, Wishart, least_noise, tail_delta
from dpspec.privacy.meter import Release
from dpspec.privacy.noise import StudyNoise
from dpspec.privacy.schedule import draws
from dpspec.spec.model import Ball
from tests.algorithms import support
from tests.algorithms.matrix.helpers import problem
from tests.conformance.replay import Blind

U = Fraction(1, 2**53)
N = 2**20
#: 2^-34 (1 + 2^-18 + 2^-38) and its root: every bit of both is a double's.
ROOT = 2.0**-17 * (1 + 2.0**-19)
LITTLE = ROOT * ROOT


def magnitudes(little: float, block: int) -> np.ndarray:
    """The contributions of the instance: shape (N,)."""
    v = np.zeros(N)
    v[: N // 2] = 1.0
    v[N // 2 :: block] = little
    return v


def handed(module: Any, records: Records, p: Any, t: Any) -> list[Any]:
    """What the meter gets, and answers without looking at it."""
    blind = Blind(Release(support.plan(module, p, t), StudyNoise(1), mode="study"))
    module.run(records, p, t, blind)
    return [value for _, value in blind.seen]


def gap(one: Any, other: Any) -> list[Fraction]:
    return [abs(Fraction(a) - Fraction(b)) for a, b in zip(np.ravel(one).tolist(), np.ravel(other).tolist(), strict=True)]


# ------------------------------------------------------------------------------------------------------------------- the sum


@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(-1e12, 1e12), min_size=1, max_size=60))
def test_a_sum_is_that_of_exact_arithmetic_up_to_one_rounding(parts: list[float]) -> None:
    total = sums.Sum(1)
    for part in parts:
        total.add(np.array([part]))
    exact, size = sum(map(Fraction, parts), Fraction(0)), sum((abs(Fraction(v)) for v in parts), Fraction(0))
    assert abs(Fraction(float(total.value[0])) - exact) <= U * abs(exact) + (len(parts) * U) ** 2 * size


def test_a_running_total_is_off_where_a_sum_is_not() -> None:
    parts = [2.0**19, *[LITTLE] * 4096]
    running, total = 0.0, sums.Sum(())
    for part in parts:
        running += part
        total.add(part)
    exact = sum(map(Fraction, parts))
    assert Fraction(running) - exact > Fraction(4095, 2**34) * (1 - Fraction(1, 2**17))
    assert abs(Fraction(float(total.value)) - exact) <= U * exact


@pytest.mark.parametrize("d", [1, 2, 3, 40, 1000, 300_000])
@pytest.mark.parametrize("sparse", [False, True])
def test_no_block_is_longer_than_what_rounding_is_counted_for(d: int, sparse: bool) -> None:
    n = 70_000 if sparse or d < 1000 else 300
    x = csr_array((n, d)) if sparse else np.zeros((n, 1))
    y = np.zeros(n)
    records = SimpleNamespace(d=d, sparse=sparse, blocks=Records(x, y).blocks)
    for make in (objective._blocks(records), multinomial.multinomial(3, None)._blocks(records), _central.pieces(x, y)):  # type: ignore[arg-type]
        rows = [len(b) for _, b in make]
        assert sum(rows) == n
        assert max(rows) <= sums.MOST
    assert max(x.shape[0] for x in _moment.blocks(Records(np.zeros((5000, 1))))) <= _moment.ROWS


def test_blocks_of_a_csr_array_are_views_of_its_rows() -> None:
    rng = np.random.default_rng(0)
    dense = rng.normal(size=(50, 7)) * (rng.random((50, 7)) < 0.3)
    records = Records(csr_array(dense))
    for size in (1, 7, 50, 60):
        parts = [x for x, _ in records.blocks(size)]
        assert np.array_equal(np.vstack([x.toarray() for x in parts]), dense)
        assert all(np.shares_memory(x.data, records.x.data) for x in parts if x.nnz)
    assert np.array_equal(records.slice(3, 9).x.toarray(), dense[3:9])


# ------------------------------------------------------------------------------------- hostile instances, family by family


@pytest.mark.parametrize("noise", ["gaussian", "upper", "sulq"])
def test_second_moments_of_neighbours_are_within_their_sensitivity(noise: str) -> None:
    """e_1 against e_2: exactly sqrt(2)/n apart."""
    x = np.zeros((N, 2))
    x[:, 0] = magnitudes(ROOT, 8192)
    other = x.copy()
    other[0] = [0.0, 1.0]

    def running(rows: np.ndarray) -> np.ndarray:
        total = np.zeros((2, 2))
        for start in range(0, N, 8192):
            total += rows[start : start + 8192].T @ rows[start : start + 8192]
        return total / N

    exact = math.sqrt(2) / N
    drifted = sum(g * g for g in gap(running(x), running(other)))
    assert drifted > (Fraction(exact) * (1 + Fraction(1, 2**31))) ** 2  # 64 blocks drift by 2^-34 each, of 1 in one entry
    p = problem("covariance", N, 2)
    if noise not in dp_covariance_gaussian.CARD.options["noise"]:
        noise = dp_covariance_gaussian.CARD.options["noise"][0]
    t = support.tunables(dp_covariance_gaussian, p, noise=noise)
    (one,), (two,) = (handed(dp_covariance_gaussian, Records(v), p, t) for v in (x, other))
    planned = Fraction(dp_covariance_gaussian.mechanism(p, noise).sensitivity)
    assert sum(g * g for g in gap(one, two)) <= planned**2
    assert drifted <= planned**2  # counted for blocks of 1024 in any order, which is more than this drift


@pytest.mark.parametrize("data", ["full", "split"])
def test_steps_of_peeling_on_neighbours_are_within_their_sensitivity(data: str) -> None:
    """x y = 1 against -1: exactly 2 eta/n apart at the first step."""
    x, y = np.zeros((N, 2)), np.ones(N)
    x[:, 0] = magnitudes(LITTLE, 2**15)
    other = y.copy()
    other[0] = -1.0
    p = support.sparse_regression(N, 2, model="central")
    t = support.tunables(dp_iht_subgaussian, p, data=data, clip="residual", T=1, kept=1, eta=1, ball=1, K_x=1, K_y=1, tau_res=1)

    def running(labels: np.ndarray) -> float:
        total = 0.0
        for start in range(0, N, 2**15):
            total += float(x[start : start + 2**15, 0] @ labels[start : start + 2**15])
        return total / N

    (drifted,) = gap(running(y), running(other))
    assert drifted > Fraction(2, N) * (1 + Fraction(1, 2**36))  # the constant factor that was allowed for
    (one,), (two,) = (handed(dp_iht_subgaussian, Records(x, v), p, t) for v in (y, other))
    planned = Fraction(dp_iht_subgaussian.sensitivity(p, t))
    assert max(gap(one, two)) <= planned
    assert drifted <= planned


def test_the_point_that_a_step_starts_from_is_rounded_too() -> None:
    """w - eta*g at w = 0.7 or so and eta*g of 1e-9: last places of w are 5e-8 of the sensitivity, which no relative factor covers."""
    n, small = 1000, 1e-3
    x, y = np.zeros((n, 2)), np.zeros(n)
    x[0, 0] = small
    p = support.sparse_regression(n, 2, model="central")
    exceeded = 0
    for eta in np.linspace(0.5, 0.99, 20):
        options = {"data": "full", "clip": "residual", "T": 2, "kept": 1, "ball": 1, "K_x": small, "K_y": 1, "tau_res": small}
        t = support.tunables(dp_iht_subgaussian, p, eta=float(eta), **options)
        steps = []
        for label in (1.0, -1.0):
            y[0] = label
            answers = iter([np.array([0.7, 0.0]), np.zeros(2)])
            seen: list[np.ndarray] = []

            def peel(name: str, value: Any, *, sensitivity: float, kept: int, seen: Any = seen, answers: Any = answers) -> Any:
                seen.append(np.array(value))
                return next(answers)

            dp_iht_subgaussian.run(Records(x, y), p, t, SimpleNamespace(peel=peel))
            steps.append(seen[1])
        apart, exact = max(gap(*steps)), 2 * Fraction(t.eta) * Fraction(t.K_x) * Fraction(t.tau_res) / n
        exceeded += apart > exact * (1 + Fraction(1, 2**36))
        assert apart <= Fraction(dp_iht_subgaussian.sensitivity(p, t))
    assert exceeded > 0


def test_gradients_of_neighbours_are_within_their_sensitivity() -> None:
    """Slopes of the logistic loss at 0 are -y/2: contributions of 1/2, and neighbours 1/n apart, the whole 2L/n of the plan there."""
    x, y = np.zeros((N, 2)), np.ones(N)
    x[:, 0] = magnitudes(LITTLE, 2**15)
    other = y.copy()
    other[0] = -1.0
    p = support.minimise(N, 2, support.logistic())
    t = support.tunables(dp_gd, p, T=1)
    (one,), (two,) = (handed(dp_gd, Records(x, v), p, t) for v in (y, other))
    share = _common.steepness(p, np.zeros(2))
    assert max(gap(one, two)) <= Fraction(_common.mean_sensitivity(p))
    assert max(gap(one, two)) >= Fraction(1, N) / Fraction(share) * (1 - Fraction(1, 2**40))


# --------------------------------------------------------------------------------------------- every sensitivity, by counting


def theta(n: int) -> Any:
    return support.sparse_regression(n, 3, model="central", x_linf=1.0, y_abs=1.0, moment_bound=1.0, moment_order=2.0)


def erm(n: int, **more: Any) -> Any:
    return support.minimise(n, 3, support.logistic(), facts={"k": 2, "x_l2": 1.0, "x_linf": 1.0, "moment_bound": 1.0, **more})


def declared(n: int) -> dict[str, tuple[float, Fraction, int]]:
    """(sensitivity, the one of real numbers, records in the sum) by algorithm."""
    out: dict[str, tuple[float, Fraction, int]] = {}
    p = theta(n)
    t = support.tunables(dp_iht_subgaussian, p, data="full", clip="residual", T=4)
    out["subgaussian, full"] = dp_iht_subgaussian.sensitivity(p, t), 2 * Fraction(t.eta) * Fraction(t.K_x) * Fraction(t.tau_res) / n, n
    t = support.tunables(dp_iht_truncated, p, T=4, kept=1)
    exact = 2 * Fraction(t.eta) * Fraction(t.K) ** 2 * (Fraction(t.ball) + 1) / (n // 4)
    out["truncated"] = dp_iht_truncated.sensitivity(p, t), exact, n // 4
    p = erm(n)
    t = support.tunables(dp_iht, p, T=4)
    out["dp-iht"] = dp_iht.sensitivity(p, t), 2 * Fraction(t.G) / n, n
    out["gradient"] = _common.mean_sensitivity(p), Fraction(2, n), n
    t = support.tunables(dp_sparse_optimization_heavy_tailed, p, T=4)
    out["robust gradient"] = (
        dp_sparse_optimization_heavy_tailed.sensitivity(p, t),
        2 * _supremum(t.beta) * Fraction(t.eta) * Fraction(t.scale) / (n // 4),
        n // 4,
    )
    p = problem("mean", n, 3, moment_bound=1.0, moment_order=2.0, k=2)
    t = support.tunables(dp_catoni_mean, p)
    out["robust mean"] = dp_catoni_mean.sensitivity(p, t), 2 * _supremum(t.beta) * Fraction(t.s) * Fraction(math.sqrt(3)) / n, n
    t = support.tunables(dp_sparse_mean_heavy_tailed, p)
    out["sparse robust mean"] = dp_sparse_mean_heavy_tailed.sensitivity(p, t), 2 * _supremum(t.beta) * Fraction(t.scale) / n, n
    p = support.minimise(
        n, 3, support.logistic(), over=Ball(norm="l1", radius=support.Num(Fraction(1))), facts={"w_radius": 1.0, "w_l1": 1.0}
    )
    t = support.tunables(dp_frank_wolfe, p, clip=1)
    out["scores"] = dp_frank_wolfe.sensitivity(p, t), Fraction(2, n), n
    return out


def _supremum(beta: float) -> Fraction:
    return Fraction(2 * math.sqrt(2) / 3 * math.erf(math.sqrt(beta / 2)))


@pytest.mark.parametrize("n", [1000, 10**6, 10**8])
def test_sensitivities_count_the_longest_path_of_additions_and_little_more(n: int) -> None:
    """Two sums of m terms of size a, each off by up to R u m a on paths of R additions; at most 1e-4 at a million records, 1e-2 at 10^8."""
    for name, (got, exact, m) in declared(n).items():
        least = exact * (1 - Fraction(1, 2**48)) * (1 + min(m, 2**15) * m * U)
        assert Fraction(got) >= least, name
        assert Fraction(got) <= exact * (1 + Fraction({1000: 4, 10**6: 8, 10**8: 200}[n], 200_000 if n < 10**8 else 100_000)), name


@pytest.mark.parametrize("neighbours", ["replace-one", "zero-out", "add-remove"])
@pytest.mark.parametrize("d", [1, 2, 40])
def test_moments_count_the_longest_path_of_additions_in_every_norm(neighbours: Any, d: int) -> None:
    n, r = 10**6, 0.5
    p = problem("covariance", n, d, neighbours=neighbours)
    m = 8 * n if neighbours == "add-remove" else n
    error = 2 * 1024 * 2.0**-53 * m * r**2 / n
    for got, exact, size in (
        (_moment.frobenius_sensitivity(p, r), second_moment_sensitivity(r, n, d, neighbours), 1.0),
        (_moment.l1_sensitivity(p, r), second_moment_l1_sensitivity(r, n, d, neighbours), (d + 1) / 2),
        (_moment.nuclear_sensitivity(p, r), second_moment_nuclear_sensitivity(r, n, neighbours), math.sqrt(d)),
    ):
        assert exact + size * error <= got <= exact + 1.1 * size * error


# ----------------------------------------------------------------------------------------------------- one-sided Wishart noise


def exact_delta(q: int, c: float, shift: float, epsilon: float) -> float:
    """Of a direction's worth of noise, c times chi-square of q degrees, against the same moved by ``shift``: the outputs that only the
    first gives, and the hockey-stick on the rest. What W_d does along one direction, and for d = 1 all of it."""
    law = stats.chi2(q, scale=c)
    top = shift / -math.expm1(-2 * (epsilon + shift / (2 * c)) / (q - 2))  # beyond, the loss is below epsilon
    rest = integrate.quad(lambda x: law.pdf(x) - math.exp(epsilon) * law.pdf(x - shift), shift, top, limit=400, epsabs=0, epsrel=1e-10)[0]
    return float(law.cdf(shift) + rest)


@pytest.mark.parametrize("rounding", [1e-3, 0.03, 0.2])
@pytest.mark.parametrize(("epsilon", "delta"), [(0.5, 1e-6), (1.0, 1e-3), (3.0, 1e-5)])
def test_a_moment_that_is_rounded_otherwise_stays_within_delta(rounding: float, epsilon: float, delta: float) -> None:
    """Record and rounding along one direction move the noise by 1 + rounding (in B^2) where a record vanishes."""
    q, c = least_noise(1, epsilon, delta, "zero-out")
    assert exact_delta(q, c, 1.0, epsilon) <= delta
    assert exact_delta(q, c, 1.0 + rounding, epsilon) > delta  # what the noise for exact moments spends
    for d in (1, 3):
        q, c = least_noise(d, epsilon, delta, "zero-out", rounding)
        assert exact_delta(q, c, 1.0 + rounding, epsilon) <= delta


def test_the_loss_of_a_full_rank_rounding_is_what_the_proof_says() -> None:
    """For draws W, unit records and roundings G: log densities against the bound, wherever tr(W^-1) is within it."""
    rng = np.random.default_rng(5)
    d, q, c, size = 4, 12, 1.5, 1e-3
    blur = Blur(d, size, 1e-2)
    least = blur.least(q)
    assert d * stats.chi2.cdf(least, q) <= 1e-2
    scale, more = blur.within(q, c, least)
    met = 0
    for _ in range(2000):
        a = rng.normal(size=(d, d - 1 + q)) * math.sqrt(c)
        w = a @ a.T
        v, z = (u / np.linalg.norm(u) for u in rng.normal(size=(2, d)))
        g = rng.normal(size=(d, d))
        g = (g + g.T) / np.linalg.norm(g + g.T) * size
        inverse = np.linalg.inv(w)
        if np.trace(inverse) > d / (c * least):
            continue
        change = np.outer(v, v) - np.outer(z, z) + g
        if np.linalg.eigvalsh(w + change)[0] <= 0:
            continue
        loss = (q - 2) / 2 * (np.linalg.slogdet(w)[1] - np.linalg.slogdet(w + change)[1]) + np.trace(change) / (2 * c)
        form = 1 / (scale / c * (z @ inverse @ z) ** -1) if z @ inverse @ z > 0 else 0.0
        bound = max(1 / (2 * scale), -(q - 2) / 2 * math.log1p(-form)) if form < 1 else math.inf
        assert loss <= bound + more + 1e-12
        met += 1
    assert met > 1500


def test_wishart_noise_for_rounded_moments_costs_little_and_is_found_by_the_second_way() -> None:
    p = problem("precision", 10**6, 3)
    m = dp_precision_covariance.mechanism(p, "wishart")
    assert isinstance(m, Wishart)
    assert m.rounding >= 2 * 1024 * 2.0**-53 * 10**6
    plain = Wishart(m.sensitivity, m.dim, m.delta, m.neighbours)
    assert 1 < m.scale(1.0) * m.degrees(1.0) / (plain.scale(1.0) * plain.degrees(1.0)) < 1 + 1e-4
    assert m.delta_by_quadrature(1.0, 1.0) == pytest.approx(m.delta, rel=1e-5)
    assert m.spent(m.numbers(1.0)) == pytest.approx(1.0, rel=1e-5)
    q, c = least_noise(3, 1.0, 1e-6)
    assert tail_delta(q, c, 1.0) <= 1e-6 < exact_delta(q, c, 1.0, 0.5)


def test_the_plan_of_a_peeling_holds_the_sensitivity() -> None:
    p = theta(10_000)
    t = support.tunables(dp_iht_subgaussian, p)
    planned = draws(support.plan(dp_iht_subgaussian, p, t).tree)
    assert planned["peel/select"].draw.mechanism.sensitivity == dp_iht_subgaussian.sensitivity(p, t)
