"""The numbers under the auditor, each against a closed form, another library, quadrature or simulation."""

from __future__ import annotations

import math
from itertools import permutations
from math import comb

import numpy as np
import pytest

from dpspec.audit.bounds import delta_range, epsilon_range, rho_range
from dpspec.audit.component import Component, Context
from dpspec.audit.conversions import zcdp_delta, zcdp_epsilon
from dpspec.audit.deployment import deployment_of
from dpspec.audit.events import components
from dpspec.audit.events._common import float64_gap
from dpspec.audit.events.laplace import vote_loss
from dpspec.audit.events.noisy_max import half_win
from dpspec.audit.events.permute_and_flip import permute_and_flip
from dpspec.audit.events.svt import svt_split
from dpspec.audit.facts import machine_factor
from dpspec.audit.losses import bracket, compose, over
from dpspec.audit.lower import composed
from dpspec.audit.pairs import Atoms, GaussianPair, LaplacePair, Reversed, Subsampled, SubsampledReplace, approximate, randomized_response


def parts_of(neighbouring: str, *events: dict[str, object], worst_case: bool = False) -> list[Component]:
    found = deployment_of({"setting": {"neighbouring": neighbouring}, "events": list(events)})
    return [c for e in found.events for c in components(e, Context(neighbouring, worst_case))]


def gaussian_delta(epsilon: float, mu: float) -> float:
    from scipy.stats import norm

    return float(norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu))


@pytest.mark.parametrize(("mu", "count", "delta"), [(0.3, 10, 1e-5), (2.0, 1, 1e-8), (0.05, 400, 1e-6)])
def test_losses_enclose_the_gaussian_profile(mu: float, count: int, delta: float) -> None:
    low, high = bracket([(GaussianPair(mu), count)], [(GaussianPair(mu), count)], delta)
    total = mu * math.sqrt(count)
    assert gaussian_delta(low, total) >= delta * (1 - 1e-9)
    assert gaussian_delta(high, total) <= delta * (1 + 1e-9)
    assert high - low < 0.01 * high


@pytest.mark.parametrize(("epsilon", "count", "delta"), [(0.1, 100, 1e-5), (0.012, 10, 1e-5), (1.0, 10, 1e-5)])
def test_losses_enclose_binomial_composition_of_randomized_response(epsilon: float, count: int, delta: float) -> None:
    p = 1 / (1 + math.exp(-epsilon))

    def exact(e: float) -> float:
        return sum(
            comb(count, k) * p**k * (1 - p) ** (count - k) * max(0.0, 1 - math.exp(e - (2 * k - count) * epsilon)) for k in range(count + 1)
        )

    pair = randomized_response(epsilon)
    low, high = bracket([(pair, count)], [(pair, count)], delta)
    assert exact(low * (1 - 1e-9)) >= delta * (1 - 1e-6)
    assert exact(high * (1 + 1e-9)) <= delta * (1 + 1e-6)
    assert high - low < 0.005 * high


@pytest.mark.parametrize(("z", "rate", "count"), [(0.7, 0.01, 100), (0.9, 0.3, 4), (2.0, 0.05, 300)])
def test_subsampled_gaussian_agrees_with_another_library(z: float, rate: float, count: int) -> None:
    from dp_accounting.pld import privacy_loss_distribution as pld

    theirs = pld.from_gaussian_mechanism(z, sampling_prob=rate, value_discretization_interval=2e-4).self_compose(count)
    pair = Subsampled(GaussianPair(1 / z), rate)
    low, high = bracket([(pair, count)], [(pair, count)], 1e-5)
    other = theirs.get_epsilon_for_delta(1e-5)  # pessimistic
    assert low <= other
    assert high == pytest.approx(other, rel=5e-3)
    assert low == pytest.approx(other, rel=6e-3)


def test_laplace_composition_agrees_with_another_library() -> None:
    from dp_accounting.pld import privacy_loss_distribution as pld

    theirs = pld.from_laplace_mechanism(10.0, value_discretization_interval=1e-4).self_compose(100).get_epsilon_for_delta(1e-5)
    low, high = bracket([(LaplacePair(0.1), 100)], [(LaplacePair(0.1), 100)], 1e-5)
    assert low <= theirs * (1 + 1e-6)
    assert high == pytest.approx(theirs, rel=2e-3)


def test_replaced_record_in_a_poisson_sample_by_quadrature() -> None:
    from scipy.integrate import quad
    from scipy.stats import norm

    a, q, delta = 0.25, 0.1, 1e-5
    low, high = bracket([(SubsampledReplace(a, q), 1)], [(SubsampledReplace(a, q), 1)], delta)

    def hockey(e: float) -> float:
        def f(x: float) -> float:
            p = (1 - q) * norm.pdf(x) + q * norm.pdf(x - a)
            r = (1 - q) * norm.pdf(x) + q * norm.pdf(x + a)
            return max(p - math.exp(e) * r, 0.0)

        return quad(f, -12, 12, points=[0.0, 2.0, 3.0, 5.0], limit=400, epsabs=1e-12)[0]

    assert hockey(low) >= delta * (1 - 1e-3)
    assert hockey(high) <= delta * (1 + 1e-3)


def test_every_pair_is_consistent_with_its_reverse_and_total_mass() -> None:
    t = np.linspace(-3, 3, 41)
    pairs = [GaussianPair(0.7), LaplacePair(1.3), Subsampled(GaussianPair(1.0), 0.2), SubsampledReplace(0.8, 0.3), approximate(0.5, 0.01)]
    for pair in pairs:
        p_up, q_up, p_down, q_down = pair.tails(t)
        assert np.allclose(p_up + p_down, 1)
        assert np.allclose(q_up + q_down, 1)
        assert np.all(np.diff(p_up) <= 1e-12)
        assert np.all(p_up - q_up * np.exp(t) >= -1e-9)
        r_up, s_up, _, _ = Reversed(pair).tails(t)
        assert np.all(r_up - s_up * np.exp(t) >= -1e-9)


def test_lower_discretisation_never_exceeds_upper() -> None:
    for pair in (GaussianPair(1.0), LaplacePair(0.7), Subsampled(GaussianPair(1.5), 0.05), Atoms((0.2, 0.5, 0.3), (0.4, 0.5, 0.1))):
        for turn in (pair, Reversed(pair)):
            a, b = composed([(turn, 3)], 1e-9), compose([(over(turn, 0.01), 3)], 1e-3)
            for e in (0.0, 0.3, 1.0, 2.0):
                assert a.delta(e) <= b.delta(e) + 1e-12


def test_tiny_delta_keeps_relative_accuracy() -> None:
    low, high = bracket([(GaussianPair(0.3), 10)], [(GaussianPair(0.3), 10)], 1e-25)
    from dpspec.privacy.gaussian import epsilon_of

    assert low <= epsilon_of(0.3 * math.sqrt(10), 1e-25) <= high * (1 + 1e-4)


def test_zcdp_conversion() -> None:
    assert zcdp_delta(0.05, 0.25) == pytest.approx(0.08177275310369553, rel=1e-15)  # 40 digits, computed elsewhere
    assert zcdp_epsilon(2.56, 1e-10) == pytest.approx(17.1583, rel=1e-5)
    assert zcdp_delta(0.3, zcdp_epsilon(0.3, 1e-6)) == pytest.approx(1e-6, rel=1e-6)


# -------------------------------------------------------------------------------------------------------------- mechanisms


def test_permute_and_flip_by_hand() -> None:
    q = math.exp(-2.0)  # two candidates, gap 2, exponent 1: the worse one wins when it comes first and is accepted
    p = permute_and_flip([1.0, -1.0], 1.0)
    assert p[1] == pytest.approx(q / 2)
    assert p.sum() == pytest.approx(1)
    same = permute_and_flip([0.0, 0.0, 0.0], 1.0)
    assert same == pytest.approx([1 / 3] * 3)


def test_permute_and_flip_is_not_bounded_range() -> None:
    (c,) = parts_of("replace_one", {"type": "permute_and_flip", "linf_sensitivity": 1, "scale": 1})
    assert c.pure == 2.0
    assert c.pure_at_least == pytest.approx(2.0)
    assert c.rho_at_least == pytest.approx(0.7737, rel=1e-3)
    assert c.rho == 2.0


def test_half_win_is_a_probability_of_maxima() -> None:
    rng = np.random.default_rng(3)
    noise = rng.laplace(size=(400_000, 6))
    noise[:, :3] += 0.8
    share = np.mean(noise.argmax(axis=1) < 3)
    assert half_win(6, 0.8, "laplace") == pytest.approx(share, abs=4e-3)
    gumbel = rng.gumbel(size=(400_000, 4))
    gumbel[:, :2] += 0.8
    assert half_win(4, 0.8, "gumbel") == pytest.approx(np.mean(gumbel.argmax(axis=1) < 2), abs=4e-3)


def test_svt_split_by_other_quadrature() -> None:
    from scipy.integrate import quad
    from scipy.stats import laplace

    def chance(first: float, second: float) -> float:
        def f(t: float) -> float:
            return laplace.pdf(t, 0.5, 2) * laplace.cdf(t - first, scale=2) ** 5 * laplace.sf(t - second, scale=2) ** 5

        return quad(f, -90, 90, points=[0, 0.5, 1], limit=500)[0]

    assert svt_split(2, 2, 1, 5, 5) == pytest.approx(math.log(chance(0, 1) / chance(1, 0)), rel=1e-6)
    (c,) = parts_of("replace_one", {"type": "svt", "sensitivity": 1, "threshold_scale": 2, "query_scale": 2, "queries": 20})
    assert 8.3466 <= c.pure_at_least <= c.pure == 10.0


def test_correct_svt_keeps_its_claim() -> None:
    c = 3  # Lyu, Su, Li: Lap(2/eps) on the threshold, Lap(4c/eps) on queries, stop after c positives
    event = {"type": "svt", "sensitivity": 1, "threshold_scale": 2.0, "query_scale": 4.0 * c, "cutoff": c, "queries": 50}
    (found,) = parts_of("replace_one", event)
    assert found.pure == pytest.approx(1.0)
    assert 0.3 < found.pure_at_least <= 1.0


def test_vote_by_enumeration() -> None:
    from scipy.stats import laplace

    exact, _ = vote_loss(0, 10, 10, 0.5, 5)
    t = laplace.sf(5 / 0.5)
    assert exact == pytest.approx(math.log((1 - t) / t))
    part, _ = vote_loss(0, 10, 1, 2.0, 5)
    grid = max(
        max(laplace.logsf((5 - x - 1) / 2) - laplace.logsf((5 - x) / 2), laplace.logcdf((5 - x) / 2) - laplace.logcdf((5 - x - 1) / 2))
        for x in np.linspace(0, 9, 2001)
    )
    assert part == pytest.approx(grid, rel=1e-3)


def test_shuffled_epoch_lies_between_its_bounds() -> None:
    parts = parts_of(
        "zero_out", {"type": "shuffled", "batches": 1000, "event": {"type": "gaussian", "clip_norm": 1, "noise_multiplier": 0.8}}
    )
    found = epsilon_range(parts, 1e-6)
    from dpspec.privacy.gaussian import epsilon_of

    assert found.high == pytest.approx(epsilon_of(1 / 0.8, 1e-6), rel=1e-3)
    assert found.low == pytest.approx(6.044, rel=2e-3)


def test_mean_scaled_by_a_private_count() -> None:
    from scipy.integrate import quad

    n = 2
    parts = parts_of("add_remove", {"type": "laplace_mean", "range": 1, "n": n, "n_public": False, "epsilon": 1})
    assert math.isinf(epsilon_range(parts, 0.0).low)

    def f(x: float) -> float:
        p = n / 2 * math.exp(-n * abs(x))
        q = (n + 1) / 2 * math.exp(-(n + 1) * abs(x - 1 / (n + 1)))
        return max(p - math.e * q, 0.0)

    expected = quad(f, -40, 40, points=[-1, 0, 0.2, 1, 3], limit=800)[0]
    found = delta_range(parts, 1.0)
    assert found is not None
    assert found[0] == pytest.approx(expected, rel=1e-2)
    assert found[0] <= expected * (1 + 1e-6)
    public = parts_of("replace_one", {"type": "laplace_mean", "range": 1, "n": n, "n_public": True, "epsilon": 1})
    assert epsilon_range(public, 0.0).high == pytest.approx(1.0)


def test_wishart_support_by_simulation() -> None:
    from scipy.stats import wishart

    (c,) = parts_of("add_remove", {"type": "wishart", "sensitivity": 1.0, "scale": 1.5, "degrees": 4, "dimension": 3})
    draws = wishart(df=4, scale=1.5 * np.eye(3)).rvs(size=20_000, random_state=5)
    x = np.array([1.0, 0.0, 0.0])
    impossible = np.mean(np.linalg.eigvalsh(draws - np.outer(x, x))[:, 0] < 0)
    assert c.breach is not None
    assert c.breach.delta == pytest.approx(impossible, abs=0.012)


def test_doubles_betray_the_input_by_simulation() -> None:
    rng = np.random.default_rng(11)
    noise = rng.laplace(size=2_000_000)

    def shown(y: np.ndarray) -> float:
        return float(np.mean((np.abs(y) < 0.25) & (y * 2.0**53 != np.round(y * 2.0**53))))

    assert shown(1.0 + noise) == 0.0
    assert float64_gap(1.0, 1.0) == pytest.approx(shown(noise), rel=0.02)
    assert float64_gap(1.0, 10.0) == pytest.approx(0.0198, rel=0.05)
    normal = rng.normal(size=2_000_000)
    assert shown(1.0 + normal) == 0.0
    assert float64_gap(1.0, 1.0, "gaussian") == pytest.approx(shown(normal), rel=0.02)


def test_doubles_betray_a_sensitivity_that_is_no_power_of_two() -> None:
    rng = np.random.default_rng(12)
    noise = rng.laplace(scale=2.0, size=2_000_000)
    reach, unit = 0.5, 2.0**-51  # D = 2.5: in [2, 4), spacing 2^-51, and 0.5 from the lower edge

    def shown(y: np.ndarray) -> float:
        return float(np.mean((np.abs(y) < reach) & (y / unit != np.round(y / unit))))

    assert shown(2.5 + noise) == 0.0
    assert float64_gap(2.5, 2.0) == pytest.approx(shown(noise), rel=0.02)


def test_float32_sum_moves_by_twice_the_bound() -> None:
    ones = np.ones(10, dtype=np.float32)
    top = np.float32(2.0**24)  # 2^23 records of 2, exactly representable on the way

    def tail(start: np.float32) -> float:
        total = start
        for x in ones:
            total = np.float32(total + x)
        return float(total)

    gap = abs(tail(np.float32(top + np.float32(2))) - tail(top))
    factor = machine_factor({"dtype": "float32", "bound": 2, "n": 2**23 + 11})
    assert factor is not None
    assert factor[0] == gap / 2 == 2.0
    assert machine_factor({"dtype": "float32", "bound": 2, "n": 1000}) is None
    wrapped = machine_factor({"dtype": "int32", "bound": 1})
    assert wrapped is not None
    assert wrapped[0] == float(2**31 - 1 - (-(2**31)))


def test_noisy_max_value_costs_n_queries() -> None:
    n = 4
    (c,) = parts_of("replace_one", {"type": "noisy_max", "linf_sensitivity": 1, "scale": 2, "candidates": n, "releases": "value"})
    # density of the maximum of n Laplace variables far to the left, for both data sets
    x = -60.0

    def log_density(v: float) -> float:
        return math.log(n) + n * (v - math.log(2))

    assert c.pure == pytest.approx(log_density(x / 2 + 0.5) - log_density(x / 2)) == 2.0


def test_exponential_mechanism_selection_is_within_its_bound() -> None:
    exponent, top = 0.5, 1.0
    (c,) = parts_of("replace_one", {"type": "exponential", "score_sensitivity": top, "exponent": exponent})
    best = 0.0
    for signs in permutations([1.0, 1.0, -1.0, -1.0]):
        base, moved = np.zeros(4), top * np.array(signs)
        p, q = np.exp(exponent * base), np.exp(exponent * moved)
        best = max(best, float(np.max(np.abs(np.log(p / p.sum()) - np.log(q / q.sum())))))
    assert best <= c.pure == pytest.approx(1.0)
    assert c.rho == pytest.approx(c.pure**2 / 8)


# ------------------------------------------------------------------------------------------------------------- composition


def test_clip_norm_doubles_under_replace_one_only() -> None:
    event = {"type": "gaussian", "clip_norm": 1.5, "sigma": 6.0}
    assert parts_of("add_remove", event)[0].mu == 0.25
    assert parts_of("zero_out", event)[0].mu == 0.25
    assert parts_of("replace_one", event)[0].mu == 0.5


def test_more_noise_never_costs_more() -> None:
    rng = np.random.default_rng(0)
    for _ in range(20):
        sigma, count = float(rng.uniform(0.5, 4)), int(rng.integers(1, 20))
        events = [{"type": "gaussian", "l2_sensitivity": 1, "sigma": s, "count": count} for s in (sigma, sigma * 1.3)]
        a, b = (epsilon_range(parts_of("add_remove", e), 1e-6).high for e in events)
        assert b < a


def test_mixed_composition_is_enclosed_by_simpler_ones() -> None:
    gauss = {"type": "gaussian", "l2_sensitivity": 1, "sigma": 2}
    laplace = {"type": "laplace", "l1_sensitivity": 1, "scale": 4}
    both = epsilon_range(parts_of("add_remove", gauss, laplace), 1e-6)
    alone = epsilon_range(parts_of("add_remove", gauss), 1e-6)
    assert alone.high < both.low <= both.high < alone.high + 0.25
    assert both.high - both.low < 0.01 * both.high


def test_parallel_repeats_and_selection() -> None:
    inner = {"type": "pure", "epsilon": 0.5}
    once = parts_of("add_remove", {"type": "parallel", "parts": 10, "parts_per_unit": 1, "event": inner})
    twice = parts_of("add_remove", {"type": "parallel", "parts": 10, "parts_per_unit": 2, "event": inner})
    assert epsilon_range(once, 0).high == 0.5
    assert epsilon_range(twice, 0).high == 1.0
    chosen = parts_of("add_remove", {"type": "select_until", "events": [inner, {"type": "pure", "epsilon": 0.25}]})
    assert epsilon_range(chosen, 0).high == 1.5
    limited = parts_of("add_remove", {"type": "select_until", "limit": 5, "event": inner})
    assert math.isinf(epsilon_range(limited, 0).high)


def test_shared_noise_is_not_composed() -> None:
    parts = parts_of("replace_one", {"type": "pure", "epsilon": 0.1, "count": 10, "draws": 1})
    assert math.isinf(epsilon_range(parts, 0).high)
    assert epsilon_range(parts, 0).low == 0


def test_amplification_is_not_a_product() -> None:
    parts = parts_of("add_remove", {"type": "poisson_sampled", "rate": 0.124, "event": {"type": "pure", "epsilon": 6.8}})
    assert epsilon_range(parts, 0).high == pytest.approx(math.log(1 + 0.124 * (math.exp(6.8) - 1)))


def test_rho_adds_up_and_needs_no_delta() -> None:
    parts = parts_of("add_remove", {"type": "gaussian", "rho": 0.0052, "count": 14})
    assert rho_range(parts).high == pytest.approx(0.0728) == rho_range(parts).low


def test_sampling_without_replacement_encloses_a_real_pair_and_reduces_to_no_sampling() -> None:
    event = {"type": "gaussian", "clip_norm": 1, "sigma": 4}
    found = epsilon_range(parts_of("replace_one", {"type": "fixed_sampled", "size": 100, "n": 1000, "event": event}), 1e-5)
    assert found.low == pytest.approx(0.1718, rel=2e-3)
    assert found.low < found.high
    full = epsilon_range(parts_of("replace_one", {"type": "fixed_sampled", "size": 10, "n": 10, "event": event}), 1e-5)
    assert full.high == pytest.approx(epsilon_range(parts_of("replace_one", event), 1e-5).high)
    assert math.isinf(epsilon_range(parts_of("add_remove", {"type": "fixed_sampled", "size": 100, "n": 1000, "event": event}), 1e-5).high)


def test_truncated_and_uniform_noise_need_a_delta() -> None:
    parts = parts_of("add_remove", {"type": "truncated_laplace", "l1_sensitivity": 1, "scale": 1, "bound": 8})
    gap = (math.exp(-7) - math.exp(-8)) / (2 * (1 - math.exp(-8)))
    assert math.isinf(epsilon_range(parts, gap / 2).low)
    assert epsilon_range(parts, gap * 1.01).high == pytest.approx(1.0, rel=1e-4)
    flat = parts_of("add_remove", {"type": "uniform", "l1_sensitivity": 1, "width": 100})
    assert math.isinf(epsilon_range(flat, 0.009).low)
    assert epsilon_range(flat, 0.0101).high == pytest.approx(0.0)


@pytest.mark.parametrize(("top", "scale"), [(1, 1.0), (3, 2.5), (7, 2.0)])
def test_discrete_laplace_against_its_mass_function(top: int, scale: float) -> None:
    (c,) = parts_of("add_remove", {"type": "discrete_laplace", "l1_sensitivity": top, "scale": scale})
    x = np.arange(-200, 200 + top)
    q = np.exp(-np.abs(x) / scale)
    p = np.exp(-np.abs(x - top) / scale)
    p, q = p / p.sum(), q / q.sum()
    assert c.pure == pytest.approx(top / scale)
    for epsilon in (0.1, 0.5):
        expected = float(np.sum(np.maximum(p - math.exp(epsilon) * q, 0)))
        low, high = delta_range([c], epsilon) or (0.0, 1.0)
        assert low <= expected * (1 + 1e-9)
        assert high >= expected * (1 - 1e-9)
        assert high - low < 0.02 * expected


def test_monotone_scores_move_one_way_in_both_bounds() -> None:
    event = {"type": "noisy_max", "linf_sensitivity": 1, "scale": 4, "candidates": 2, "noise": "gumbel"}
    (both,) = parts_of("add_remove", event)
    (one,) = parts_of("add_remove", {**event, "monotone": True})
    assert (both.pure, one.pure) == (0.5, 0.25)
    # exact: softmax of (0, 0.5) against (0, -0.5) in units of the score: one score moved by 1
    p = 1 / (1 + math.exp(-0.5 / 4))
    assert one.pure_at_least == pytest.approx(math.log(p / (1 - p)))
    assert one.pure_at_least <= one.pure
    unknown = parts_of("add_remove", {**event, "noise": "gaussian"})
    assert unknown[0].unknown


def test_rarely_sampled_but_revealing_releases_are_not_called_private() -> None:
    """With noise 0.02 a sampled record is in the open; in 10 steps at rate 0.01 that happens with probability 0.096, far above delta."""
    inner = {"type": "gaussian", "clip_norm": 1, "noise_multiplier": 0.02}
    parts = parts_of("add_remove", {"type": "poisson_sampled", "rate": 0.01, "count": 10, "event": inner})
    assert epsilon_range(parts, 1e-6).low > 1000


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    ("neighbouring", "event"),
    [
        ("add_remove", {"type": "laplace", "l1_sensitivity": 1, "scale": 1e4, "count": 1_000_000}),
        ("add_remove", {"type": "pure", "epsilon": 1e-3, "count": 100_000}),
        ("add_remove", {"type": "permute_and_flip", "linf_sensitivity": 1, "scale": 0.001}),
        ("add_remove", {"type": "noisy_max", "linf_sensitivity": 1, "scale": 0.001}),
        ("add_remove", {"type": "poisson_sampled", "rate": 1e-6, "count": 10, "event": {"type": "gaussian", "clip_norm": 1, "sigma": 5}}),
        (
            "replace_one",
            {"type": "poisson_sampled", "rate": 0.01, "count": 9, "event": {"type": "gaussian", "clip_norm": 1, "sigma": 0.05}},
        ),
        ("add_remove", {"type": "poisson_sampled", "rate": 0, "event": {"type": "gaussian", "clip_norm": 1, "sigma": 1}}),
        ("zero_out", {"type": "shuffled", "batches": 1, "event": {"type": "gaussian", "clip_norm": 1, "sigma": 2}}),
    ],
)
def test_extreme_parameters_stay_finite_and_ordered(neighbouring: str, event: dict[str, object]) -> None:
    for delta in (0.0, 1e-12, 1e-6, 0.5):
        found = epsilon_range(parts_of(neighbouring, event), delta)
        assert 0 <= found.low <= found.high * (1 + 1e-6)


@pytest.mark.parametrize("sigma", [0.3, 1.0, 3.0])
@pytest.mark.parametrize("neighbouring", ["zero_out", "replace_one"])
def test_fixed_size_samples_never_show_more_than_is_certified(sigma: float, neighbouring: str) -> None:
    """The far tail of a merged pair once vanished under one distribution only, which looked like a proof of an infinite loss."""
    event = {"type": "fixed_sampled", "rate": 0.1, "count": 3, "event": {"type": "gaussian", "l2_sensitivity": 1, "sigma": sigma}}
    for delta in (1e-12, 1e-6):
        found = epsilon_range(parts_of(neighbouring, event), delta)
        assert 0 < found.low <= found.high < math.inf
