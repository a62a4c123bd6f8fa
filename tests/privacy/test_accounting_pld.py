"""Dominating pairs by brute force on small cases, and compositions against closed forms, exact sums and dp_accounting."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from dpspec.privacy import gaussian
from dpspec.privacy.pairs import Pair, above
from dpspec.privacy.pld import Law, Use, compose, law


def spent(uses: list[Use], epsilon: float, step: float, tail: float = 1e-14) -> float:
    return compose(uses, step, tail).delta(epsilon)[0]


def hockey(p: np.ndarray, q: np.ndarray, epsilon: float, cell: float) -> float:
    return float(np.maximum(p - math.exp(epsilon) * q, 0).sum() * cell)


def normal(x: np.ndarray, centre: float, scale: float) -> np.ndarray:
    return np.exp(-(((x - centre) / scale) ** 2) / 2) / (scale * math.sqrt(2 * math.pi))


# ------------------------------------------------------------------------------------------------------ one discrete law


@pytest.mark.parametrize(
    "use",
    [
        Use(Pair("gaussian", 0.4), 1),
        Use(Pair("laplace", 0.7), 1),
        Use(Pair("pure", 0.7), 1),
        Use(Pair("bounded-range", 0.7), 1),
        Use(Pair("gaussian", 0.8), 1, "remove", 0.1),
        Use(Pair("gaussian", 0.8), 1, "add", 0.1),
        Use(Pair("gaussian", 0.8), 1, "exchange", 0.1),
        Use(Pair("gaussian", 0.8), 1, "opposite", 0.1),
        Use(Pair("laplace", 0.8), 1, "exchange", 0.3),
        Use(Pair("pure", 2.0), 1, "remove", 0.3),
    ],
)
def test_a_law_is_a_pair_of_probabilities(use: Use) -> None:
    """Mass one under P; mass at most one under Q (e^-l times the mass), and exactly one where nothing was rounded to infinity."""
    one = law(use, 0.003, 1e-13)
    assert one.mass.min() >= 0
    assert one.mass.sum() + one.infinite == pytest.approx(1, abs=1e-12)
    assert float((one.mass * np.exp(-one.losses)).sum()) == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize(("kind", "e"), [("laplace", 1.1), ("pure", 1.1), ("bounded-range", 1.1), ("gaussian", 0.6)])
def test_tails_match_the_profile(kind: str, e: float) -> None:
    """delta(x) = P(L > x) - e^x Q(L > x), against the closed profiles written from the definitions."""
    x = np.linspace(-1.05, 1.05, 43)
    p, q = above(Pair(kind, e), x)  # type: ignore[arg-type]
    if kind == "laplace":
        expected = 1 - np.exp((x - e) / 2)
    elif kind == "pure":
        expected = (math.exp(e) - np.exp(x)) / (1 + math.exp(e))
    elif kind == "bounded-range":
        t = np.linspace(0, e, 200_001)[:, None]  # the envelope, by search over the two-point mechanisms
        expected = ((1 - np.exp(t - e)) / (1 - math.exp(-e)) * np.maximum(1 - np.exp(x - t), 0)).max(axis=0)
    else:
        expected = np.array(
            [gaussian.delta_upper(v, e) if v >= 0 else 1 - math.exp(v) + math.exp(v) * gaussian.delta_upper(-v, e) for v in x]
        )
    assert np.allclose(p - np.exp(x) * q, expected, atol=1e-9)


def test_exponential_mechanisms_stay_below_the_bounded_range_pair() -> None:
    """Random scores, neighbouring scores within the sensitivity: no hockey-stick divergence exceeds the pair's, alone or composed twice."""
    rng = np.random.default_rng(5)
    epsilon0 = 0.9
    laws = []
    for _ in range(400):
        k = rng.integers(2, 6)
        scores = rng.uniform(0, 3, k)
        moved = scores + (rng.uniform(-1, 1, k) if rng.random() < 0.5 else rng.choice([-1.0, 1.0], k))
        p, q = np.exp(epsilon0 * scores / 2), np.exp(epsilon0 * moved / 2)
        laws.append((p / p.sum(), q / q.sum()))
    for epsilon in (0.05, 0.2, 0.5):
        bound = spent([Use(Pair("bounded-range", epsilon0), 1)], epsilon, 1e-3)
        assert max(hockey(p, q, epsilon, 1) for p, q in laws) <= bound
        twice = spent([Use(Pair("bounded-range", epsilon0), 2)], epsilon, 1e-3)
        worst = max(
            hockey(np.outer(p, a).ravel(), np.outer(q, b).ravel(), epsilon, 1) for (p, q), (a, b) in itertools.product(laws[:60], laws[:60])
        )
        assert worst <= twice


# ------------------------------------------------------------------------------------------------------------- samplers


@pytest.mark.parametrize("batch", [1, 2])
def test_fixed_size_sampling_under_replace_one_by_brute_force(batch: int) -> None:
    """Three records on [0, 1], batches of 1 or 2, the sum released with noise: every choice of the others and of the two values."""
    x = np.linspace(-9, 12, 40_001)
    cell = x[1] - x[0]
    scale = 1.3
    q = batch / 3
    places = (0.0, 0.5, 1.0)

    def output(records: tuple[float, ...]) -> np.ndarray:
        sums = [sum(b) for b in itertools.combinations(records, batch)]
        return np.mean([normal(x, s, scale) for s in sums], axis=0)

    for epsilon in (0.01, 0.1, 0.3, 0.6):
        bound = spent([Use(Pair("gaussian", 1 / scale), 1, "exchange", q)], epsilon, 2e-3)
        worst = max(
            hockey(output((a, b, u)), output((a, b, v)), epsilon, cell) for a, b, u, v in itertools.product(places, repeat=4) if u != v
        )
        assert worst <= bound * (1 + 1e-7)  # of quadrature; one value of the others makes it an equality
        assert worst > 0.99 * bound


def test_two_steps_of_fixed_size_sampling_by_brute_force() -> None:
    """The same, composed with itself on a product grid: what the symmetric pair is for (one direction alone is not enough)."""
    x = np.linspace(-6, 7, 701)
    cell = (x[1] - x[0]) ** 2
    scale, q = 0.8, 1 / 3

    def output(records: tuple[float, ...]) -> np.ndarray:
        return np.mean([normal(x, r, scale) for r in records], axis=0)

    for epsilon in (0.2, 0.6):
        bound = spent([Use(Pair("gaussian", 1 / scale), 2, "exchange", q)], epsilon, 2e-3)
        worst = 0.0
        for a, b in itertools.product((0.0, 1.0), repeat=2):
            for (u, v), (s, t) in itertools.product(((0.0, 1.0), (1.0, 0.0)), repeat=2):
                p = np.outer(output((a, a, u)), output((b, b, s)))
                r = np.outer(output((a, a, v)), output((b, b, t)))
                worst = max(worst, hockey(p, r, epsilon, cell))
        assert worst <= bound
        assert worst > 0.5 * bound


def test_opposite_directions_are_the_worst_of_poisson_sampling_under_replace_one() -> None:
    """Record and replacement move the release by u and v, |u|, |v| <= 1/2, in the plane: u = -v at full length is the worst, and it is
    the pair that is used. One record moved by the whole sensitivity and the other by nothing (which 1/2 excludes) would be worse."""
    axis = np.linspace(-7, 7, 561)
    cell = (axis[1] - axis[0]) ** 2
    xx, yy = np.meshgrid(axis, axis, indexing="ij")
    scale, q = 0.7, 0.2

    def mixture(r: float, angle: float) -> np.ndarray:
        shifted = np.exp(-((xx - r * math.cos(angle)) ** 2 + (yy - r * math.sin(angle)) ** 2) / (2 * scale**2))
        return ((1 - q) * np.exp(-(xx**2 + yy**2) / (2 * scale**2)) + q * shifted) / (2 * math.pi * scale**2)

    for epsilon in (0.02, 0.1, 0.25):
        bound = spent([Use(Pair("gaussian", 1 / scale), 1, "opposite", q, 0.5)], epsilon, 1e-3)
        found = {
            (r, s, angle): hockey(mixture(r, 0.0), mixture(s, angle), epsilon, cell)
            for r in (0.0, 0.25, 0.5)
            for s in (0.0, 0.25, 0.5)
            for angle in (0.0, math.pi / 3, 2 * math.pi / 3, math.pi)
        }
        assert max(found, key=lambda k: found[k]) == (0.5, 0.5, math.pi)
        assert found[0.5, 0.5, math.pi] == pytest.approx(bound, rel=2e-3)
        assert hockey(mixture(1.0, 0.0), mixture(0.0, 0.0), epsilon, cell) > bound


@pytest.mark.parametrize(("rate", "scale", "steps", "epsilon"), [(0.01, 1.563, 1000, 1.0), (0.3, 5.0, 3, 0.3), (0.01, 0.6168, 1000, 8.0)])
def test_poisson_sampling_against_dp_accounting(rate: float, scale: float, steps: int, epsilon: float) -> None:
    import dp_accounting as da
    from dp_accounting import pld

    accountant = pld.PLDAccountant(value_discretization_interval=1e-3 if epsilon > 5 else 1e-4)
    accountant.compose(da.SelfComposedDpEvent(da.PoissonSampledDpEvent(rate, da.GaussianDpEvent(scale)), steps))
    both = [spent([Use(Pair("gaussian", 1 / scale), steps, how, rate)], epsilon, 2e-4) for how in ("remove", "add")]  # type: ignore[arg-type]
    assert max(both) == pytest.approx(accountant.get_delta(epsilon), rel=3e-3)


def test_replace_one_poisson_against_dp_accounting_s_substitution() -> None:
    """The library's substitution pair has norm bound 1 (sensitivity 2), so our noise over sensitivity z is its multiplier 2z."""
    import dp_accounting as da
    from dp_accounting import pld

    accountant = pld.PLDAccountant(da.NeighboringRelation.REPLACE_ONE)
    accountant.compose(da.SelfComposedDpEvent(da.PoissonSampledDpEvent(0.02, da.GaussianDpEvent(2 * 0.9)), 200))
    ours = spent([Use(Pair("gaussian", 1 / 0.9), 200, "opposite", 0.02, 0.5)], 0.5, 2e-4)
    assert ours == pytest.approx(accountant.get_delta(0.5), rel=3e-3)


def test_one_sampled_step_is_its_closed_form() -> None:
    """delta = q*delta_0(log(1 + (e^epsilon - 1)/q)), with the exact Gaussian profile."""
    q, scale = 0.1, 0.8
    for epsilon in (0.05, 0.3, 1.0):
        exact = q * gaussian.delta_upper(math.log1p(math.expm1(epsilon) / q), 1 / scale)
        for how in ("remove", "exchange"):
            ours = spent([Use(Pair("gaussian", 1 / scale), 1, how, q)], epsilon, epsilon / 400)  # type: ignore[arg-type]
            assert exact <= ours <= exact * 1.001


# ---------------------------------------------------------------------------------------------------------- composition


@pytest.mark.parametrize(
    ("epsilon", "delta", "count"), [(1, 1e-5, 1), (0.01, 1e-6, 10_000), (8, 1e-6, 100), (1, 1e-20, 100), (0.1, 1e-30, 7)]
)
def test_composed_gaussians_against_the_exact_profile(epsilon: float, delta: float, count: int) -> None:
    """Never below the exact value, and above it by no more than the grid explains, down to delta 1e-30."""
    scale = gaussian.noise_multiplier(epsilon, delta, count)
    got = spent([Use(Pair("gaussian", 1 / scale), count)], epsilon, 0.02 / scale, delta * 1e-8)
    assert delta * (1 - 1e-12) <= got <= delta * 1.01


def optimal_composition(epsilon0: Fraction, count: int, epsilon: Fraction) -> float:
    """Kairouz, Oh, Viswanath 2015, Theorem 3.3 (T-fold randomised response), summed exactly with mpmath."""
    import mpmath

    with mpmath.workdps(60):
        e0, e = (mpmath.mpf(v.numerator) / v.denominator for v in (epsilon0, epsilon))
        total = mpmath.fsum(
            mpmath.binomial(count, i) * max(mpmath.exp((count - i) * e0) - mpmath.exp(e + i * e0), 0) for i in range(count + 1)
        )
        return float(total / (1 + mpmath.exp(e0)) ** count)


@pytest.mark.parametrize(("e0", "count", "epsilon"), [("0.5", 3, "0.4"), ("0.1", 40, "1.5"), ("0.02", 300, "0.9"), ("0.02", 300, "2.4")])
def test_optimal_composition_of_pure_steps(e0: str, count: int, epsilon: str) -> None:
    """On a grid of pitch epsilon0 the loss of randomised response is exact, so the composition is the published optimum."""
    exact = optimal_composition(Fraction(e0), count, Fraction(epsilon))
    ours = spent([Use(Pair("pure", float(e0)), count)], float(epsilon), float(e0))
    assert exact * (1 - 1e-9) <= ours <= exact * (1 + 1e-5)


def test_heterogeneous_pure_steps_by_enumeration() -> None:
    """Three different epsilons: all eight sign patterns."""
    steps, epsilon = (0.3, 0.5, 0.9), 0.6
    exact = 0.0
    for signs in itertools.product((1, -1), repeat=3):
        loss = sum(s * e for s, e in zip(signs, steps, strict=True))
        probability = math.prod(1 / (1 + math.exp(-s * e)) for s, e in zip(signs, steps, strict=True))
        exact += probability * max(0.0, 1 - math.exp(epsilon - loss))
    ours = spent([Use(Pair("pure", e), 1) for e in steps], epsilon, 0.1)  # all atoms on the grid
    assert ours == pytest.approx(exact, rel=1e-5)
    assert spent([Use(Pair("pure", e), 1) for e in steps], epsilon, 0.07) >= exact  # off the grid: above


def test_two_laplace_steps_by_quadrature() -> None:
    b, epsilon = 2.0, 0.4
    x = (np.arange(-20_000, 20_000) + 0.5) * 0.0025
    p, q = np.exp(-np.abs(x) / b) / (2 * b), np.exp(-np.abs(x - 1) / b) / (2 * b)
    x2 = x[::16]
    weight = 16 * 0.0025
    p2, q2 = p[::16], q[::16]
    exact = float(sum(np.maximum(pi * p2 - math.exp(epsilon) * qi * q2, 0).sum() for pi, qi in zip(p2, q2, strict=True)) * weight**2)
    assert len(x2) == 2500
    assert spent([Use(Pair("laplace", 1 / b), 2)], epsilon, 0.001) == pytest.approx(exact, rel=2e-3)


def test_the_grid_only_adds() -> None:
    """Coarser grids never report less."""
    uses = [Use(Pair("gaussian", 0.9), 50, "remove", 0.05), Use(Pair("laplace", 0.1), 3)]
    values = [spent(uses, 0.8, step) for step in (0.0005, 0.002, 0.01, 0.05)]
    assert values == sorted(values)


def test_a_law_with_infinite_loss_reports_it() -> None:
    half = Law(0.1, 0, np.array([0.75]), 0.25)
    from dpspec.privacy.pld import Composition

    assert Composition((half,), (2,)).delta(5.0)[0] == pytest.approx(1 - 0.75**2)


@pytest.mark.parametrize("epsilon", ["0.5", "4", "16", "30"])
def test_one_pure_draw_with_a_delta_at_any_epsilon(epsilon: str) -> None:
    """Randomised response with loss e0 has delta (e^e0 - e^eps)/(1 + e^e0) at eps < e0: the calibrated draw never exceeds the budget."""
    from dpspec.privacy.calibrate import Budget, calibrate
    from dpspec.privacy.channels.hemisphere import Hemisphere
    from dpspec.privacy.schedule import Disjoint, Draw

    delta = 1e-6
    found = calibrate(Disjoint(Draw("g", Hemisphere(10, 9.49), per="user"), 4), Budget(epsilon=epsilon, delta="0.000001"))
    level, stated = found.levels["g"], float(epsilon)
    assert level >= stated * (1 - 1e-3)
    spent = max(0.0, (math.exp(level) - math.exp(stated)) / (1 + math.exp(level))) if level > stated else 0.0
    assert spent <= delta * (1 + 1e-9)
