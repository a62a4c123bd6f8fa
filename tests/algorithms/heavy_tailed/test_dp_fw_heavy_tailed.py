"""dp-fw-heavy-tailed: scores in exact arithmetic, the law of a choice, the bound on a law with a closed form, the printed choice."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from dpspec.algorithms.heavy_tailed import dp_fw_heavy_tailed as module
from dpspec.data.records import Records
from dpspec.privacy.calibrate import Budget
from dpspec.privacy.schedule import draws
from tests import leak
from tests.algorithms.heavy_tailed.risks import NASTY, Kept, risk, student
from tests.algorithms.support import plan, study, tunables

PURE = Budget(epsilon="1")


def pure(n: int, d: int, **more):
    return risk(n, d, norm="l1", delta=None, **{"w_l1": more.get("radius", 1.0), "moment_order_x": 2.0, "moment_bound_x": 1.0, **more})


class Chosen(Kept):
    """Keeps the scores and answers with the best vertex, or with those of a list."""

    answers: list[int] | None = None

    def draw(self, name, value, *, sensitivity):
        super().draw(name, value, sensitivity=sensitivity)
        return int(np.argmax(value)) if self.answers is None else self.answers[len(self.seen) - 1]


@pytest.mark.parametrize("neighbours", ["replace-one", "zero-out"])
def test_no_pair_of_records_moves_a_score_by_more_than_its_sensitivity(neighbours):
    """In exact arithmetic, radius 3, T = 2 with three records and four: the one that differs stands in the smaller batch."""
    p = pure(7, 2, radius=3.0, neighbours=neighbours)
    t = tunables(module, p, s=2, T=2)
    rest, labels = np.random.default_rng(0).normal(size=(6, 2)), np.arange(6.0)

    def scores(row: tuple[float, ...], y: float) -> np.ndarray:
        release = Chosen(module.schedule(p, t))
        module.run(Records(np.vstack([[row], rest]), np.array([y, *labels])), p, t, release)
        return release.seen[0]

    all_scores = [scores(r, y) for r in itertools.product(NASTY[::2] + NASTY[-1:], repeat=2) for y in (1.0, -1e300)]
    others = all_scores if neighbours == "replace-one" else [scores((0.0, 0.0), 0.0)]
    gaps = [abs(Fraction(float(a)) - Fraction(float(b))) for u in all_scores for v in others for a, b in zip(u, v, strict=True)]
    stated = Fraction(module.sensitivity(p, t))
    assert Fraction(999, 1000) * stated <= max(gaps) <= stated


def test_a_choice_over_all_sign_patterns_spends_epsilon_and_no_more():
    """The largest log ratio of a vertex's probability over movements of g by +-c in every coordinate, at the planned temperature."""
    p = pure(900, 3, radius=2.0)
    t = tunables(module, p, T=3)
    c = plan(module, p, t, PURE)
    assert draws(module.schedule(p, t))["vertex"].count == 1
    moved = module.sensitivity(p, t) / 2.0  # of a coordinate: the radius is 2
    drawn = np.random.default_rng(1).normal(size=(10, 3)) * c.scale("vertex")
    worst = max(log_ratio(g, moved, 2.0, c.scale("vertex")) for g in drawn)
    assert 0.4 < worst <= 1.0


def log_ratio(g: np.ndarray, moved: float, radius: float, temperature: float) -> float:
    def law(v: np.ndarray) -> np.ndarray:
        e = radius * np.concatenate([-v, v]) / temperature
        return e - np.logaddexp.reduce(e)

    signs = list(itertools.product((-1.0, 1.0), repeat=len(g)))
    return max(float(np.max(np.abs(law(g) - law(g + moved * np.array(s))))) for s in signs)


def test_the_printed_choice_spends_half():
    """exp(epsilon u/(2 Delta)), Delta = |W|_1 4 sqrt(2) s/(3 m): the worst log ratio is at most epsilon/2, over any g."""
    p = pure(900, 3)
    t = tunables(module, p, T=3, beta=1e4)
    (entry,) = module.published(p, t, PURE)
    assert entry.scale == pytest.approx(2 * 4 * math.sqrt(2) * 2 * t.s / (3 * 300), rel=1e-12)
    assert entry.epsilon == pytest.approx(0.5, rel=1e-6)
    for seed in range(20):
        g = 10.0 ** np.random.default_rng(seed).uniform(-3, 1) * np.random.default_rng(seed + 99).normal(size=3)
        assert log_ratio(g, 4 * math.sqrt(2) * t.s / 900, 1.0, entry.scale) <= 0.5 + 1e-9


def test_the_explicit_bound_holds():
    """30 runs of a law with E x_j^2 = 1: the excess is |w - theta|^2/2; the number is that of the text."""
    n, theta = 6000, np.array([0.7, 0.0, -0.2])
    p = pure(n, 3, epsilon=4.0, moment_bound_gradient=3 * 4 + 3.0)
    t = tunables(module, p, T=6)
    c = plan(module, p, t, Budget(epsilon="4"))
    tail = math.log(4 * 3 * 6 / 0.05)
    e = 2 * (15 * (1 + 1 / t.beta) / (2 * t.s) + t.s / 1000 * (t.beta / 2 + tail)) + c.scale("vertex") * (math.log(6) + math.log(240))
    bound = module.explicit_bounds(p, t, c)[module.FRESH]
    assert module.vertices.first(t) == 5  # points 5 and 6 of 6 are averaged
    assert bound == pytest.approx(2 * 4 / 7 + e, rel=1e-9)  # C = E x_j^2 * 2^2, or the eigenvalue 1 times 2^2
    excess = []
    for seed in range(30):
        x, y = student(n, theta, seed)
        excess.append(float(np.sum((study(module, Records(x, y), p, t, c, seed).theta - theta) ** 2)) / 2)
    assert np.mean(np.array(excess) > bound) <= 0.3
    assert np.mean(excess) < float(theta @ theta) / 2  # and better than standing at zero


def test_the_mean_of_the_last_third_is_released_and_the_last_point_where_steps_are_constant():
    """Vertices by turns, whatever the records say: the points are known, and so is their mean, weighted by their numbers."""
    p, corners = pure(90, 2), np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0], [0.0, -1.0]])

    def released(**options: object) -> np.ndarray:
        t = tunables(module, p, T=6, **options)
        release = Chosen(module.schedule(p, t))
        release.answers = [0, 1, 2, 3, 0, 1]
        return np.asarray(module.run(Records(*student(90, np.array([0.5, 0.0]), 0)), p, t, release).theta)

    def points(shares: list[float]) -> list[np.ndarray]:
        found = [np.zeros(2)]
        for step, share in enumerate(shares):
            found.append((1 - share) * found[-1] + share * corners[step % 4])
        return found

    w = points([2 / (step + 2) for step in range(6)])
    assert released(tail=1e-9) == pytest.approx(w[6])
    assert released() == pytest.approx((5 * w[5] + 6 * w[6]) / 11)
    assert released(tail=1.0) == pytest.approx(sum(k * v for k, v in enumerate(w)) / 21)
    assert released(steps="constant") == pytest.approx(points([1 / math.sqrt(6)] * 6)[6])


def test_the_bound_is_for_convex_losses_and_decreasing_steps():
    p = pure(4000, 2)
    t = tunables(module, p, T=4, steps="constant")
    assert module.explicit_bounds(p, t, plan(module, p, t, PURE)) == {}
    p = pure(4000, 2, moment_bound_x=None, moment_order_x=None, eig_max=None)
    t = tunables(module, p, T=4)
    assert module.explicit_bounds(p, t, plan(module, p, t, PURE)) == {}


def test_the_bound_grows_with_the_four_thirds_power_of_the_radius():
    """With s and T at their best for each radius W (tau and the curvature's factor fixed), min over T of the bound, against W^(4/3)."""

    def least(radius: float) -> float:
        n, tau, load = 1e9, 1.0, 40.0
        return min(2 * 4 * radius**2 / (T + 2) + 2 * radius * 2 * math.sqrt(tau / 2 * load * T / n) for T in range(1, 60_000))

    assert math.log(least(32.0) / least(4.0)) / math.log(8) == pytest.approx(4 / 3, abs=0.03)


def test_the_curvature_of_the_lasso():
    """F(w + u) - F(w) - <grad F(w), u> = E <x, u>^2 for E (<w, x> - y)^2: twice what lambda_max-smoothness allows at u along the top."""
    g = np.random.default_rng(2)
    x = g.normal(size=(4000, 2)) * np.array([2.0, 0.5])
    second = x.T @ x / 4000
    top = np.linalg.eigh(second)[1][:, -1]
    remainder = float(np.mean((x @ top) ** 2))
    assert remainder == pytest.approx(float(np.linalg.eigvalsh(second)[-1]), rel=1e-9)
    assert remainder > 1.9 * float(np.linalg.eigvalsh(second)[-1]) / 2  # lambda_max/2 |u|^2 is what lambda_max-smooth would mean


def test_the_biweight_is_flat_beyond_c():
    import sympy

    s = sympy.symbols("s", positive=True)
    inside = sympy.diff(sympy.Rational(1, 6) * (1 - (1 - s**2) ** 3), s)  # c = 1; constant 1/6 beyond
    assert inside.subs(s, 1) == 0
    assert inside.subs(s, sympy.Rational(1, 2)) > 0


def test_a_number_of_steps_from_the_largest_eigenvalue_tells_neighbours_apart():
    x, _ = student(300, np.zeros(2), 3)
    other = x.copy()
    other[0] = 1e3

    def printed(rows: np.ndarray) -> int:
        lam = float(np.linalg.eigvalsh(rows.T @ rows / len(rows))[-1])
        return math.ceil((len(rows) * lam**2 / math.log(2 * 2 / 0.05)) ** (1 / 3))

    assert printed(x) != printed(other)
    p = pure(300, 2)
    t = tunables(module, p)
    releases = [Chosen(module.schedule(p, t)) for _ in range(2)]
    for rows, release in zip((x, other), releases, strict=True):
        module.run(Records(rows, np.zeros(300)), p, t, release)
    assert [len(r.seen) for r in releases] == [t.T, t.T]
    leak.certain(printed(x), printed(other))


def test_a_start_from_the_records_stands_in_the_output():
    """The same vertices from two starts, by the steps as printed: the outputs differ by the start's share. Here no start differs."""
    T, answers = 9, [0, 3, 1, 2, 0, 0, 1, 3, 2]
    corners = np.vstack([np.eye(2), -np.eye(2)])

    def steps(w: np.ndarray) -> np.ndarray:
        for j in answers:
            w = (1 - 1 / math.sqrt(T)) * w + corners[j] / math.sqrt(T)
        return w

    apart = steps(np.array([0.5, 0.1])) - steps(np.array([0.1, 0.5]))
    np.testing.assert_allclose(apart, (2 / 3) ** 9 * np.array([0.4, -0.4]), rtol=1e-9)
    p = pure(90, 2)
    t = tunables(module, p, T=T, steps="constant")
    outputs = []
    for seed in (1, 2):
        release = Chosen(module.schedule(p, t))
        release.answers = answers
        x, y = student(90, np.ones(2) / 2, seed)
        outputs.append(module.run(Records(x, y), p, t, release).theta)
    np.testing.assert_array_equal(outputs[0], outputs[1])

    def outputs_from(w: np.ndarray) -> set[tuple[float, ...]]:  # every choice of four steps
        share = 1 / 2
        return {
            tuple(np.round(share**4 * w + sum(share ** (4 - j) * corners[v] for j, v in enumerate(picks)), 9))
            for picks in itertools.product(range(4), repeat=4)
        }

    leak.disjoint(outputs_from(np.array([0.5, 0.1])), outputs_from(np.array([0.1, 0.5])))


def test_who_is_refused():
    p = risk(100, 2)
    assert "few vertices" in str(module.accepts(p, tunables(module, pure(100, 2))))
    assert "later batch" in str(module.accepts(pure(100, 2, neighbours="add-remove"), tunables(module, pure(100, 2))))
    assert "batches" in str(module.accepts(pure(5, 2), tunables(module, pure(5, 2), T=6)))
