"""gld: the variance of its law, and where it ends."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from dpspec.algorithms.nonconvex_erm import gld as module
from dpspec.data.records import Records
from dpspec.measures.gradient import gradient_norm
from dpspec.privacy.noise import PublicRandomness
from tests.algorithms.nonconvex.test_dp_pgd_nonconvex import bound, sample
from tests.algorithms.support import tunables


def test_the_variance_is_that_of_the_gibbs_law():
    """lam/2 w^2 alone (all x = 0): the chain is a linear one of variance 2 eta/beta over 1 - (1 - eta lam)^2, which is 1/(beta lam) for
    small steps, and not 1/lam."""
    p, _, _ = bound(n=4, d=400, loss="1/(1 + exp(y*<w, x>)) + 1/2*|w|^2")
    r = Records(np.zeros((4, 400)), np.ones(4))
    t = tunables(module, p, beta=50, T=200, eta=0.0625)
    w = module.run(r, p, t, SimpleNamespace(public=PublicRandomness(3))).w
    exact = 2 * 0.0625 / 50 / (1 - (1 - 0.0625) ** 2)
    assert w.var() == pytest.approx(exact, rel=0.25)
    assert w.var() == pytest.approx(1 / 50, rel=0.3)


def test_at_a_low_temperature_it_ends_near_a_stationary_point():
    p, _, _ = bound(n=500, d=3)
    t = tunables(module, p, beta=1e6, T=400)
    r = sample(500, 3)
    assert module.accepts(p, t) is None
    trial = SimpleNamespace(problem=p, records=r)
    w = module.run(r, p, t, SimpleNamespace(public=PublicRandomness(1))).w
    assert gradient_norm(w, trial) < gradient_norm(np.zeros(3), trial) / 5
    with pytest.raises(ValueError, match="no noise"):
        module.schedule(p, t)
