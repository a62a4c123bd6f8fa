"""rrpsgd: the sampler and its relation, the random round, the bound on batches."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.stats import norm

from dpspec.algorithms.nonconvex_erm import rrpsgd as module
from dpspec.measures.gradient import gradient_norm
from dpspec.privacy.schedule import draws
from tests import leak
from tests.algorithms.nonconvex.test_dp_gld import metered, problem
from tests.algorithms.nonconvex.test_dp_pgd_nonconvex import sample, spent
from tests.algorithms.support import plan, tunables


def test_batches_are_those_of_the_relation():
    """Subsets of exactly b under replace-one with 2 L/b; Poisson batches where a record vanishes, with L/b."""
    p = problem(n=400)
    t = tunables(module, p, T=60, b=20)
    (leaf,) = draws(module.schedule(p, t)).values()
    assert leaf.draw.mechanism.sensitivity == pytest.approx(2 * 0.25 / 20, rel=1e-9)
    assert leaf.total == 60  # all are charged, whatever round is released
    from dataclasses import replace

    for relation in ("add-remove", "zero-out"):
        q = replace(p, neighbours=relation)
        tree = module.schedule(q, t)
        (leaf,) = draws(tree).values()
        assert leaf.draw.mechanism.sensitivity == pytest.approx(0.25 / 20, rel=1e-9)
        assert (tree.body.method, tree.body.rate) == ("poisson", 20 / 400)
    assert module.schedule(p, t).body.method == "fixed"


def pair(q: float, s: float):
    """(1 - q) N(0, s^2) + q N(1, s^2) and N(0, s^2): one record of Poisson batches, in units of what it adds."""
    z = np.linspace(-12, 13, 200_001)
    without = norm.pdf(z, scale=s)
    return (1 - q) * without + q * norm.pdf(z, loc=1, scale=s), without, z[1] - z[0]


def test_the_pair_of_poisson_batches_does_not_dominate_fixed_ones():
    """Let all the others have the gradient of x': a batch of one moves from g(x') by 1 with probability q = 1/n. That is the pair (A, B) of
    the Poisson accountant; where they have the gradient of x it is (B, A). To dominate a step is to have the larger hockey stick at every
    epsilon, the negative ones too (they count as soon as steps compose): each has the larger one somewhere."""
    A, B, dz = pair(0.2, 0.7)

    def stick(one, other, e):
        return float(np.maximum(one - math.exp(e) * other, 0).sum() * dz)

    assert stick(A, B, 0.4) > 1.5 * stick(B, A, 0.4)
    assert stick(B, A, -0.4) > stick(A, B, -0.4) + 0.01
    assert stick(A, B, 0.0) == pytest.approx(stick(B, A, 0.0), abs=1e-9)


def test_a_multiplier_of_one_lipschitz_constant_overspends():
    """A full batch moves by 2 G: noise that is calibrated to G is half of what a step needs."""
    sigma = 1 / 0.27  # about epsilon 1 at delta 1e-5, in units of what moves
    assert spent(sigma, 1e-5) < 1.1
    assert spent(sigma / 2, 1e-5) > 2 * spent(sigma, 1e-5)
    leak.epsilon(spent(sigma / 2, 1e-5), spent(sigma, 1e-5), 1e-5)


def test_the_round_is_public_and_late():
    """Which iterate is released is known from public coins: two runs with the same coins and other data release the same round."""
    p = problem(n=50, d=1)
    t = tunables(module, p, T=12, b=50, eta=1.0)
    from dpspec.privacy.noise import PublicRandomness

    rounds = set()
    for coin in range(30):
        found = []
        for seed in (0, 1):
            left = iter(range(1, 13))
            release = SimpleNamespace(
                public=PublicRandomness(coin),
                batch=lambda name, n: np.arange(n),
                draw=lambda name, value, *, sensitivity, left=left: np.array([-float(next(left))]),
            )
            share = module.run(sample(50, 1, seed), p, t, release).w
            found.append(float(share[0]))
        assert found[0] == found[1]
        rounds.add(found[0])
    assert len(rounds) == 6  # the last half of twelve


def test_the_bound_on_batches_holds_and_is_what_the_docstring_says():
    n, d = 8000, 5
    p = problem(n=n, d=d)
    t = tunables(module, p)
    c = plan(module, p, t)
    (bound,) = module.explicit_bounds(p, t, c).values()
    S, K = 1 / (6 * math.sqrt(3)), math.ceil(t.T / 2)
    V = (n - t.b) / (t.b * (n - 1))
    by_hand = 2 * 0.5 / (t.eta * K) + S * t.eta * (0.0625 * V + d * c.scale("gradient") ** 2) * t.T / K
    assert bound == pytest.approx(math.sqrt(by_hand), rel=1e-9)
    found = []
    for seed in range(3):
        r = sample(n, d, seed)
        found.append(gradient_norm(metered(module, r, p, t, c, seed), SimpleNamespace(problem=p, records=r)))
    assert math.sqrt(np.mean(np.square(found))) < bound < 0.25


def test_the_variance_of_a_batch_is_below_what_the_bound_counts():
    """All subsets of 3 out of 7 records, exactly: E |g - grad F|^2 is L^2 (n - b)/(b (n - 1)) for centred records of one length."""
    from itertools import combinations

    angles = 2 * np.pi * np.arange(7) / 7
    g = 0.25 * np.stack([np.cos(angles), np.sin(angles)], axis=1)
    means = np.array([g[list(s)].mean(axis=0) for s in combinations(range(7), 3)])
    variance = np.mean(((means - g.mean(axis=0)) ** 2).sum(axis=1))
    assert variance == pytest.approx(0.0625 * 4 / (3 * 6), rel=1e-9)


def test_what_it_refuses():
    p = problem(n=100)
    assert "larger than n" in str(module.accepts(p, tunables(module, p, b=101)))
    assert "step" in str(module.accepts(p, tunables(module, p, eta=0)))
