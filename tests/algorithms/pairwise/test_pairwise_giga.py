"""pairwise-giga: it comes close to the minimiser, and which of the two printed regrets its steps keep."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dpspec.algorithms.card import Tunables
from dpspec.algorithms.objective import optimum
from dpspec.algorithms.pairwise import pairwise_giga as module
from dpspec.privacy.noise import PublicRandomness
from tests.algorithms.pairwise.test_off_pair_c import bound, sample
from tests.algorithms.support import tunables


def test_one_pass_comes_close_to_the_minimiser():
    p, _, _ = bound(n=1500, d=3)
    t = tunables(module, p)
    assert module.accepts(p, t) is None
    r = sample(1500, 3)
    least = optimum(p.oracle, r)[1]
    w = module.run(r, p, t, type("Public", (), {"public": PublicRandomness(1)})).w
    assert p.oracle.value(w, r) - least <= (p.oracle.value(np.zeros(3), r) - least) / 20
    with pytest.raises(ValueError, match="no noise"):
        module.schedule(p, t)


def test_without_any_ridge_it_is_refused():
    p, _, _ = bound(n=50)
    assert "both 0" in (module.accepts(p, Tunables({"alpha": 0.0, "T_1": 1, "tail": 0.5})) or "")


def test_the_smaller_of_the_two_printed_regrets_is_exceeded():
    """The document's steps ((t - 1)/(t - 2)) 2/(alpha t) on s_t G w + alpha/2 w^2, s_t the sign of w_{t-1}; G = alpha = 1. The least total
    is in closed form."""
    n = 10_000
    w, regret, signs = 0.0, 0.0, 0.0
    for t in range(2, n + 1):
        s = 1.0 if w >= 0 else -1.0
        regret += s * w + w * w / 2
        signs += s
        w -= ((t - 1) / (t - 2) * 2 / t if t > 2 else 1.0) * (s + w)
    regret += signs**2 / (2 * (n - 1))
    assert (1 + math.log(n)) / 2 < regret < 2 * (1 + math.log(n))
