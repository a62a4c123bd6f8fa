"""Totals against dp_accounting's composition, and against closed forms."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import pytest

from dpspec.ledger.totals import counted, total
from dpspec.privacy import gaussian
from tests.ledger import releases

STEP = 2.0**-11  # and epsilons that are multiples of it: the library rounds those of randomised response up to its grid


def composed(schedules: list[dict[str, Any]], delta: float, *, pessimistic: bool = True, step: float = STEP) -> float:
    """dp_accounting's own composition of what the makers of ``releases`` say, read from the forms anew; optimistic: a lower bound."""
    from dp_accounting.pld import common
    from dp_accounting.pld import privacy_loss_distribution as library

    words: dict[str, Any] = {"value_discretization_interval": step, "pessimistic_estimate": pessimistic, "use_connect_dots": pessimistic}
    plain, kept, whole = 0.0, 1.0, None

    def response(epsilon: float) -> Any:
        if pessimistic:
            return private(epsilon, 0.0)
        noise, of = 2 / (1 + math.exp(epsilon)), {"pessimistic_estimate": False, "value_discretization_interval": step}
        return library.from_randomized_response(noise, 2, **of)

    def private(epsilon: float, delta: float) -> Any:
        return library.from_privacy_parameters(common.DifferentialPrivacyParameters(epsilon, delta), value_discretization_interval=step)

    for schedule, times in counted(schedules):
        tree = schedule["tree"]
        if tree["type"] == "draw" and tree["name"] == "r.g":
            plain += times / tree["level"] ** 2
            continue
        if tree["type"] == "sequence":  # equal parts, and a draw on all records: one record meets two draws
            plain += times * 2 / tree["parts"][1]["level"] ** 2
            continue
        if tree["type"] == "repeat":
            body = tree["body"]
            one = library.from_gaussian_mechanism(body["body"]["level"], sampling_prob=body["rate"], **words)
            times *= tree["count"]
        elif tree["name"] == "r.l":
            one = library.from_laplace_mechanism(tree["level"], **words)
        elif tree["name"] == "r.x":
            one = response(tree["level"])
        elif pessimistic:
            one = private(tree["level"], tree["mechanism"]["delta"])
        else:  # the library has no lower bound of these: the draw that fails with probability delta, or is a randomised response
            kept *= (1 - tree["mechanism"]["delta"]) ** times
            one = response(tree["level"])
        one = one.self_compose(times) if times > 1 else one
        whole = one if whole is None else whole.compose(one)
    if plain:
        one = library.from_gaussian_mechanism(1 / math.sqrt(plain), **words)
        whole = one if whole is None else whole.compose(one)
    return float(whole.get_epsilon_for_delta((delta - 1 + kept) / kept))


def pure(epsilon: float) -> dict[str, Any]:
    from dpspec.privacy.schedule import Draw
    from tests.privacy.kinds import instance

    return releases.schedule(Draw("r.x", instance("binary-response")), {"r.x": epsilon})


def mixed(count: int) -> list[dict[str, Any]]:
    """Gaussian, sampled Gaussian, pure, Laplace, (epsilon, delta) and parts, in turn."""
    makers = [
        *(releases.gaussian(50.0 + 5 * k) for k in range(4)),
        *(releases.sampled(1.2 + 0.2 * k, 0.005 + 0.002 * k, 10) for k in range(4)),
        *(pure((1 + k) / 128) for k in range(2)),
        *(releases.laplace(80.0 + 20 * k) for k in range(2)),
        releases.approx(1 / 64),
        releases.equal_parts(70.0),
    ]
    return [makers[i % len(makers)] for i in range(count)]


def test_gaussian_draws_are_one_exact_statement():
    found = total(counted([releases.gaussian(8.0, 3)] * 5 + [releases.equal_parts(16.0)] * 2), Fraction(1, 10**6), check=False)
    mu = math.sqrt(15 / 64 + 4 / 256)
    assert found.epsilon == pytest.approx(gaussian.epsilon_of(mu, Fraction(1, 10**6)), rel=1e-12)
    assert found.releases == 7


def test_pure_draws_are_an_exact_sum_at_delta_zero():
    assert total(counted([pure(0.25)] * 3 + [releases.laplace(8.0)]), Fraction(0), check=False).epsilon == 0.875
    assert total(counted([pure(0.25), releases.gaussian(8.0)]), Fraction(0), check=False).epsilon == math.inf
    assert total([], Fraction(1, 10**6)).epsilon == 0.0


def test_failing_draws_take_their_delta_away():
    assert total(counted([releases.approx(0.1)] * 11), Fraction(1, 10**5), check=False).epsilon == math.inf
    once = total([(releases.approx(0.1), 1)], Fraction(2, 10**6), check=False).epsilon
    assert once == pytest.approx(math.log((math.exp(0.1)) - 1e-6 * (1 + math.exp(0.1))), abs=1e-5)  # randomised response at what is left


def test_mixed_releases_are_those_of_dp_accounting():
    some = mixed(42)
    found = total(counted(some), Fraction(1, 10**4), check=False)
    low, high = composed(some, 1e-4, pessimistic=False), composed(some, 1e-4)
    assert low <= found.epsilon <= high * 1.001


@pytest.mark.slow
@pytest.mark.parametrize("delta", [1e-2, 1.2e-4])
def test_a_thousand_mixed_releases_are_within_a_thousandth_of_dp_accounting(delta: float):
    """On the safe side: not below dp_accounting's lower bound on the same grid, and not a thousandth above its upper one."""
    some = mixed(1000)
    found = total(counted(some), Fraction(delta))
    low, high = composed(some, delta, pessimistic=False, step=2.0**-16), composed(some, delta, step=2.0**-16)
    print(found, low, high)
    assert low <= high * (1 - 1e-5) <= found.epsilon <= high * (1 + 1e-3)
    assert found.second == pytest.approx(found.epsilon, rel=2e-3)


def test_parts_that_no_way_dominates_are_between_the_ways_and_their_sum():
    """A Gaussian part and a Laplace part: at least either alone, less than both on the same records."""
    delta = Fraction(1, 10**4)
    both = total([(releases.parts(20.0, 12.0), 30)], delta, check=False).epsilon
    ways = [total([(s, 30)], delta, check=False).epsilon for s in (releases.gaussian(20.0), releases.laplace(12.0))]
    joint = total([(releases.gaussian(20.0), 30), (releases.laplace(12.0), 30)], delta, check=False).epsilon
    assert max(ways) * (1 - 1e-4) <= both < 0.97 * joint


def test_one_release_with_parts_has_the_greatest_profile_of_its_ways():
    """Once, the envelope is exact: its profile at each epsilon is the larger one."""
    for delta in (1e-2, 1e-3, 1e-5):
        at = Fraction(delta)
        both = total([(releases.parts(4.0, 2.0), 1)], at, check=False).epsilon
        ways = [total([(s, 1)], at, check=False).epsilon for s in (releases.gaussian(4.0), releases.laplace(2.0))]
        assert both == pytest.approx(max(ways), rel=2e-4)
