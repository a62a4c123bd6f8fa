"""Cost of noise: nanoseconds a sample, secure and seeded, and of the aggregate paths of the channels.

Run with ``pytest benchmarks/test_noise.py --benchmark-columns=min,median,rounds``; ``extra_info`` of the JSON output holds ns a sample.
"""

from __future__ import annotations

import time

import numpy as np
import pytest

from dpspec.privacy.channels.gaussian_outer import GaussianOuter
from dpspec.privacy.channels.gaussian_vector import GaussianVector
from dpspec.privacy.channels.hemisphere import Hemisphere
from dpspec.privacy.channels.priv_unit import PrivUnit
from dpspec.privacy.noise import SecureNoise, StudyNoise

SOURCES = {"secure": SecureNoise(), "study": StudyNoise(1)}

DRAWS = {
    "gaussian": lambda s, n: s.add_gaussian(np.zeros(n), 1.0, sensitivity=1.0, dim=n),
    "laplace": lambda s, n: s.add_laplace(np.zeros(n), 1.0, sensitivity=1.0, dim=n),
    "discrete gaussian, sigma 4": lambda s, n: s.discrete_gaussian(4.0, n),
    "keep": lambda s, n: s.keep(1.0, n),
    "bernoulli_exp": lambda s, n: s.bernoulli_exp(np.ones(n)),
    "directions, dim 100": lambda s, n: s.directions(n // 100, 100),
}


def per_sample(benchmark, function, samples):
    function()  # libraries load on the first call
    benchmark(function)
    if benchmark.stats is not None:  # None with --benchmark-disable
        ns = benchmark.stats.stats.median / samples * 1e9
        benchmark.extra_info["ns_per_sample"] = ns
        print(f"\n{benchmark.name}: {ns:.0f} ns a sample")


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("draw", DRAWS)
def test_draw(benchmark, draw, source):
    n = 10_000 if source == "secure" else 200_000
    per_sample(benchmark, lambda: DRAWS[draw](SOURCES[source], n), n)


@pytest.mark.parametrize(
    "channel", [Hemisphere(100, 1.0), PrivUnit(100, 1.0), GaussianVector(100, 1.0), GaussianOuter(100, 1.0)], ids=lambda c: c.kind
)
def test_mean_of_users(benchmark, channel):
    """Per user, in the law of the aggregate: 20,000 users of dimension 100."""
    x = StudyNoise(2).gaussian(0.1, (20_000, 100))
    noise = StudyNoise(3)
    per_sample(benchmark, lambda: channel.sample_mean(x, 1.0, noise), 20_000)


@pytest.mark.parametrize("source", SOURCES)
def test_clients(benchmark, source):
    """Per user, report by report: the hemisphere client in dimension 100."""
    x = StudyNoise(2).gaussian(0.1, (2_000, 100))
    per_sample(benchmark, lambda: Hemisphere(100, 1.0).encode(x, 1.0, SOURCES[source]), 2_000)


@pytest.mark.parametrize("draw", ["gaussian", "laplace"])
def test_secure_noise_in_bulk_and_in_small_calls(benchmark, draw):
    """In bulk at most 20 times what NumPy's seeded Gaussian takes (12 ns), a call of 100 at most 100 times that of 100 seeded ones."""
    bulk, few = 1_000_000, 100

    def least(function, rounds):
        times = []
        for _ in range(rounds):
            start = time.perf_counter()
            function()
            times.append(time.perf_counter() - start)
        return min(times)

    secure, seeded = SOURCES["secure"], np.random.default_rng(1)
    DRAWS[draw](secure, few)
    benchmark(lambda: DRAWS[draw](secure, few))
    large = least(lambda: DRAWS[draw](secure, bulk), 5) / least(lambda: seeded.standard_normal(bulk), 5)
    small = least(lambda: DRAWS[draw](secure, few), 200) / least(lambda: np.zeros(few) + seeded.standard_normal(few), 200)
    print(f"\n{draw}: {large:.1f} times seeded Gaussian noise in bulk, {small:.1f} times in calls of {few}")
    assert large < 20
    assert small < 100
