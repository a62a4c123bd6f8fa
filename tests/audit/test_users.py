"""All records of one user under Poisson sampling, against quadrature in mpmath and another library."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dpspec.audit import audit
from dpspec.audit.component import Context
from dpspec.audit.event import Event
from dpspec.audit.events import components
from dpspec.audit.events._users import Coins, MixturePair, ShownPair, coins
from dpspec.audit.pairs import Reversed
from dpspec.audit.verdict import AuditResult


def run(records: int, rate: float, sigma: float, steps: int, relation: str, where: str = "inside") -> AuditResult:
    noise: dict[str, object] = {"type": "gaussian", "clip_norm": 1, "noise_multiplier": sigma}
    step: dict[str, object] = {"type": "poisson_sampled", "rate": rate, "count": steps, "event": noise}
    (noise if where == "inside" else step)["contributions"] = records
    setting = {"unit": "user", "neighbouring": relation}
    return audit({"audit": 1, "setting": setting, "claim": {"epsilon": 100, "delta": 1e-5}, "events": [step]})


def exact(records: int, rate: float, sigma: float, delta: float) -> float:
    """epsilon of one step at ``delta``: both directions of sum_j C(k, j) q^j (1-q)^(k-j) N(j, sigma^2) against N(0, sigma^2), whose loss
    grows with the output, so that each hockey-stick is a difference of tails; bisected in 25 digits."""
    import mpmath as mp

    mp.mp.dps = 25
    chance = [mp.binomial(records, j) * mp.mpf(rate) ** j * (1 - mp.mpf(rate)) ** (records - j) for j in range(records + 1)]

    def loss(x: mp.mpf) -> mp.mpf:
        return mp.log(mp.fsum(p * mp.exp((2 * j * x - j * j) / (2 * mp.mpf(sigma) ** 2)) for j, p in enumerate(chance)))

    def up(x: mp.mpf) -> mp.mpf:
        return mp.fsum(p * mp.ncdf((j - x) / sigma) for j, p in enumerate(chance))

    def needed(epsilon: mp.mpf) -> mp.mpf:
        found = []
        for target, first, second in (
            (epsilon, up, lambda x: mp.ncdf(-x / sigma)),
            (-epsilon, lambda x: mp.ncdf(x / sigma), lambda x: 1 - up(x)),
        ):
            if target <= mp.log(chance[0]):
                found.append(mp.mpf(0))
                continue
            low, high = mp.mpf(-80), mp.mpf(80) * (1 + records)
            for _ in range(70):
                x = (low + high) / 2
                low, high = (low, x) if loss(x) > target else (x, high)
            found.append(first(low) - mp.exp(epsilon) * second(low))
        return max(found)

    low, high = mp.mpf(0), mp.mpf(8)
    for _ in range(24):
        middle = (low + high) / 2
        low, high = (low, middle) if needed(middle) <= delta else (middle, high)
    return float(high)


@pytest.mark.parametrize(("records", "rate", "sigma"), [(3, 0.1, 1.0), (8, 0.02, 2.0)])
def test_one_step_by_quadrature(records: int, rate: float, sigma: float) -> None:
    value = exact(records, rate, sigma, 1e-5)
    for relation, where in (("add_remove", "inside"), ("zero_out", "outside"))[: 2 if records == 3 else 1]:
        found = run(records, rate, sigma, 1, relation, where).static
        assert found is not None
        assert found.epsilon_lower <= value * (1 + 1e-6)
        assert value <= found.epsilon * (1 + 1e-6)
        assert found.epsilon == pytest.approx(value, rel=2e-3)
        assert found.epsilon_lower == pytest.approx(value, rel=2e-3)


@pytest.mark.slow
@pytest.mark.parametrize(("records", "rate", "sigma", "steps"), [(4, 0.01, 1.0, 1000), (8, 0.01, 2.0, 500)])
def test_many_steps_against_another_library(records: int, rate: float, sigma: float, steps: int) -> None:
    from dp_accounting import dp_event, pld
    from scipy.stats import binom

    found = run(records, rate, sigma, steps, "add_remove").static
    theirs = pld.PLDAccountant(value_discretization_interval=1e-3)
    chances = [float(binom.pmf(j, records, rate)) for j in range(records + 1)]
    theirs.compose(dp_event.MixtureOfGaussiansDpEvent(sigma, list(range(records + 1)), chances), steps)
    value = theirs.get_epsilon(1e-5)
    assert found is not None
    assert found.epsilon_lower <= value <= found.epsilon * (1 + 1e-3)
    assert found.epsilon == pytest.approx(value, rel=3e-3)


def test_one_record_is_the_plain_sampler_and_a_full_sample_the_group() -> None:
    one, plain = run(1, 0.1, 1.0, 2, "add_remove").static, run(1, 0.1, 1.0, 2, "add_remove", "outside").static
    assert one is not None
    assert plain is not None
    assert one.epsilon == plain.epsilon
    whole = run(3, 1.0, 2.0, 4, "add_remove", "outside").static
    from dpspec.privacy.gaussian import epsilon_of

    assert whole is not None
    assert whole.epsilon == pytest.approx(epsilon_of(3 * math.sqrt(4) / 2, 1e-5), rel=1e-6)


def test_replacing_a_user_lies_between_its_own_bounds() -> None:
    """Below: all records turned into their opposites, a real pair of neighbours, by numbers from its two mixtures."""
    records, rate, sigma, delta = 2, 0.2, 2.0, 1e-5
    found = run(records, rate, sigma, 1, "replace_one").static
    assert found is not None
    x = np.linspace(-40, 40, 400_001)
    law = coins(records, rate)
    first = (
        sum(p * np.exp(-((x - j) ** 2) / (2 * sigma**2)) for j, p in zip(law.values, law.chances, strict=True))
        / math.sqrt(2 * math.pi)
        / sigma
    )
    second, width = first[::-1], x[1] - x[0]
    low, high = 0.0, 20.0
    for _ in range(60):
        middle = (low + high) / 2
        stick = float(np.maximum(first - math.exp(middle) * second, 0).sum() * width)
        low, high = (low, middle) if stick <= delta else (middle, high)
    assert found.epsilon_lower == pytest.approx(high, rel=3e-3)
    assert found.epsilon >= found.epsilon_lower


def test_the_pairs_are_distributions_both_ways_round() -> None:
    law = coins(5, 0.3)
    assert math.fsum(law.chances) == pytest.approx(1, abs=1e-12)
    grid = np.linspace(-6, 30, 200)
    for pair in (MixturePair(0.7, law), MixturePair(0.4, law, opposed=True), ShownPair(0.7, law)):
        for way in (pair, Reversed(pair)):
            p_up, q_up, p_down, q_down = way.tails(grid)
            assert p_up + p_down == pytest.approx(np.ones(200), abs=1e-12)
            assert q_up + q_down == pytest.approx(np.ones(200), abs=1e-12)
            assert (np.diff(p_up) <= 1e-12).all()
            assert (np.diff(q_up) <= 1e-12).all()
            assert (p_up - np.exp(grid) * q_up >= -1e-9 * np.exp(grid)).all()  # above t the ratio is above e^t
            a, b = way.reach(1e-9)
            assert way.tails(np.array([a - 1e-9]))[2][0] <= 1.1e-9
            assert way.tails(np.array([b + 1e-9]))[0][0] <= 1.1e-9


def test_a_faint_tail_stands_at_the_worst_number_of_records() -> None:
    above, below = coins(5000, 1e-4), coins(5000, 1e-4, above=False)
    assert above.values[-1] == 5000
    assert below.values[-1] < 60
    assert math.fsum(above.chances) == pytest.approx(math.fsum(below.chances), abs=1e-12)
    assert isinstance(above, Coins)


@pytest.mark.parametrize(
    "inside",
    [
        [{"type": "gaussian", "clip_norm": 1, "sigma": 1, "contributions": 3}, {"type": "gaussian", "clip_norm": 1, "sigma": 1}],
        [{"type": "sequence", "contributions": 3, "events": [{"type": "gaussian", "clip_norm": 1, "sigma": 1}]}],
    ],
)
def test_numbers_of_records_that_do_not_agree_certify_nothing(inside: list[dict[str, object]]) -> None:
    event = {"type": "poisson_sampled", "rate": 0.1, "events": inside}
    result = audit(
        {"audit": 1, "setting": {"unit": "user", "neighbouring": "add_remove"}, "claim": {"epsilon": 50, "delta": 1e-5}, "events": [event]}
    )
    assert result.verdict not in ("holds", "holds-if", "violated")


def test_a_pure_step_is_counted_by_groups() -> None:
    laplace = Event("laplace", {"l1_sensitivity": 1.0, "scale": 2.0, "contributions": 3.0}, 1)
    (found,) = components(Event("poisson_sampled", {"rate": 0.1}, 1, (laplace,)), Context("add_remove"))
    assert found.pure == pytest.approx(3 * math.log1p(0.1 * math.expm1(0.5)))
