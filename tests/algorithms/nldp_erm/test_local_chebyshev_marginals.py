"""local-chebyshev-marginals: the polynomial and its series by other routes, the bound by simulation, three faults of privacy."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.optimize import linprog

from dpspec.algorithms.nldp_erm import _parities as shared
from dpspec.algorithms.nldp_erm import local_chebyshev_marginals as module
from dpspec.algorithms.nldp_erm import marginals_fourier_ldp as fourier
from dpspec.data.records import Records
from dpspec.privacy.meter import Release
from dpspec.privacy.noise import PublicRandomness, StudyNoise
from dpspec.tasks.marginals import exact
from tests import leak
from tests.algorithms.nldp_erm.test_ldp_mean import Told, budget
from tests.algorithms.nldp_erm.test_marginals_fourier_ldp import HOSTILE, problem
from tests.algorithms.support import plan, tunables

# --------------------------------------------------------------------------------------------------------------- polynomial


@pytest.mark.parametrize(("k", "t"), [(2, 1), (3, 2), (6, 1), (6, 3), (8, 4), (8, 7)])
def test_the_series_is_a_polynomial_of_the_degree_within_gamma_of_the_indicator(k, t):
    """The sum over characters, cell by cell, against the indicator of m = 0: within gamma everywhere, and gamma is attained at m = 0."""
    w, gamma = module.weights(k, t), 1 / (module.height(k, t) + 1)

    def at(m: int) -> float:  # m attributes differ: the characters of s attributes sum to this over the sets of s
        return sum(w[s] * sum((-1) ** i * math.comb(m, i) * math.comb(k - m, s - i) for i in range(s + 1)) for s in range(t + 1))

    values = [at(m) for m in range(k + 1)]
    errors = np.abs(np.array(values) - np.eye(k + 1)[0])
    assert errors.max() <= gamma + 1e-12
    assert errors[0] == pytest.approx(gamma, abs=1e-12)
    assert np.abs(np.diff(values, t + 1)).max(initial=0.0) < 1e-9  # degree t: differences of the next order are 0


@pytest.mark.parametrize(("k", "t"), [(6, 2), (8, 4)])
def test_the_polynomial_is_nearly_the_best_one(k, t):
    """Against the least uniform error at 0, ..., k by a linear programme: never better, and within a factor 1.5."""
    powers = np.vander(np.arange(k + 1) / k, t + 1)
    wanted = np.eye(k + 1)[0]
    one = np.ones((k + 1, 1))
    found = linprog(
        [0.0] * (t + 1) + [1.0],
        A_ub=np.vstack([np.hstack([powers, -one]), np.hstack([-powers, -one])]),
        b_ub=np.concatenate([wanted, -wanted]),
        bounds=[(None, None)] * (t + 1) + [(0, None)],
    )
    gamma = 1 / (module.height(k, t) + 1)
    assert found.fun <= gamma * (1 + 1e-9)
    assert gamma <= 1.5 * found.fun


def test_the_weights_are_at_most_one():
    assert max(np.abs(module.weights(k, t)).max() for k in range(2, 13) for t in range(1, k)) <= 1


def test_exact_parities_give_tables_within_gamma():
    """d = 7, k = 5, t = 3, and t large enough for the exact answer: the polynomial is the only error without noise."""
    x = (np.random.default_rng(1).random((80, 7)) < 0.2).astype(float)
    wanted = exact(Records(x), 7, 5, 0.5)
    for t in (2, 3, 4):
        found = np.array([np.prod(2 * x[:, [j for j in row if j < 7]] - 1, axis=1).mean() for row in shared.table(7, t)])
        error = np.abs(shared.cells(found, 7, 5, module.weights(5, t)) - wanted).max()
        assert error <= 1 / (module.height(5, t) + 1) + 1e-12


def test_the_error_is_within_its_bound():
    p = problem(20_000, 12, 8, 1.0)
    t = tunables(module, p)
    c = plan(module, p, t, budget(p))
    x = (np.random.default_rng(2).random((p.n, 12)) < 0.05).astype(float)
    wanted = exact(Records(x), 12, 8, 0.5)
    (bound,) = module.explicit_bounds(p, t, c).values()
    for seed in range(2):
        release = Release(c, StudyNoise(seed), mode="study", public=PublicRandomness(seed))
        error = float(np.abs(module.run(Records(x), p, t, release).theta - wanted).max())
        release.close()
        assert error < bound
        assert error < 1.1 * module.predicted(p, t, c)


def test_the_degree_is_chosen_by_bias_against_noise():
    """It grows with n, and beats the exact transform where parities of eight attributes are too many."""
    chosen = [module.degree(problem(n, 16, 8), tunables(module, problem(n, 16, 8))) for n in (10_000, 10**6, 10**8, 10**10)]
    assert chosen == sorted(chosen)
    assert chosen[0] < chosen[-1]
    p = problem(10**6, 16, 8)
    t, u = tunables(module, p), tunables(fourier, p, method="parities")
    assert module.predicted(p, t, plan(module, p, t, budget(p))) < fourier.predicted(p, u, plan(fourier, p, u, budget(p)))


@pytest.mark.parametrize(
    ("p", "settings", "said"),
    [
        (problem(100, 5, 1), {}, "a parity itself"),
        (problem(100, 5, 3), {"degree": 3}, "no approximation"),
        (problem(10**6, 22, 21), {}, "21 attributes a marginal are more than 20"),
    ],
)
def test_what_it_cannot_do_is_said_with_the_number(p, settings, said):
    assert said in str(module.accepts(p, tunables(module, p, **settings)))


# ------------------------------------------------------------------------------------------------------------------ privacy


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
def test_a_message_has_ratio_e_to_the_epsilon_and_no_more(epsilon):
    """Exact fractions over all pairs of hostile records of two attributes, each parity; the message is +-B."""
    p = problem(1, 2, 2, epsilon)
    channel = module.schedule(p, tunables(module, problem(10, 2, 2))).mechanism
    for question in range(2):
        laws = []
        for record in itertools.product(HOSTILE, repeat=2):
            value = shared.parities(Records(np.array([record])), shared.table(2, 1), np.array([question]), 0.5)
            found: dict[float, Fraction] = {}
            for coins in itertools.product((True, False), repeat=2):
                noise = Told(list(coins))
                message = float(np.ravel(channel.encode(value, epsilon, noise))[0])
                found[message] = found.get(message, Fraction(0)) + noise.chance
            assert len(found) == 2
            laws.append(found)
        ratio = max(one[m] / other[m] for one in laws for other in laws for m in one)
        assert math.exp(epsilon) * (1 - 1e-9) <= float(ratio) <= math.exp(epsilon) * (1 + 2.0**-52)


def conjunctions(record: tuple[int, ...], t: int) -> np.ndarray:
    """Printed: the coefficients of the disjunction's polynomial, w_|S| 1[S in supp(x)], up to t attributes, w of one sign a size."""
    d, k = len(record), 4
    height = module.height(k, t)
    values = 1 - np.polynomial.chebyshev.chebval((2 * np.arange(t + 1) - k - 1) / (k - 1), [0.0] * t + [1.0]) * (-1.0) ** t / height
    w = [sum((-1) ** (s - i) * math.comb(s, i) * values[i] for i in range(s + 1)) for s in range(t + 1)]  # Newton's series: e_s(ones)
    return np.array([w[s] * all(record[j] for j in S) for s in range(1, t + 1) for S in itertools.combinations(range(d), s)])


def test_coefficients_without_noise_tell_the_record():
    sent = {conjunctions(r, 2).tobytes() for r in itertools.product((0, 1), repeat=4)}
    assert len(sent) == 16
    leak.certain(conjunctions((1, 1, 1, 1), 2), conjunctions((1, 1, 1, 0), 2))


def test_noise_on_every_coefficient_spends_epsilon_each():
    """Laplace noise of b/epsilon on N coefficients, b the range of each: the log-ratio of densities is the l1 distance over b/epsilon, here
    between all ones and all zeros. Every coefficient moves by its range: N epsilon."""
    epsilon = 1.0
    ones, zeros = conjunctions((1,) * 4, 2), conjunctions((0,) * 4, 2)
    scales = np.abs(ones - zeros) / epsilon  # b of each coefficient: w_|S| here, as the printed interval [0, b] would have it
    assert (scales > 0).all()
    spent = float((np.abs(ones - zeros) / scales).sum())
    assert spent == pytest.approx(len(ones) * epsilon)
    assert len(ones) == 4 + 6
    leak.epsilon(spent, epsilon)


def test_the_printed_range_is_half_of_the_true_one():
    """Coefficients have both signs, so [0, b] is [-b, b] for b = max |w|, and a coordinate that may be either end moves by 2 b: Laplace
    noise of b/epsilon spends 2 epsilon. A user of the one-bit channel is +-1 and spends epsilon (above)."""
    w = conjunctions((1,) * 4, 2)
    assert w.min() < 0 < w.max()
    b, epsilon = float(np.abs(w).max()), 1.0

    def log_density(at: float, value: float) -> float:
        return -abs(at - value) * epsilon / b

    assert log_density(b, b) - log_density(b, -b) == pytest.approx(2 * epsilon)
    leak.epsilon(log_density(b, b) - log_density(b, -b), epsilon)
