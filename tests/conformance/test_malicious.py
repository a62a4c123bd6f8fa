"""Algorithms that cheat, and what catches each of them: the meter, or the conformance tests (which are shown here to be able to fail)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from dpspec.algorithms.convex_erm import dp_gd
from dpspec.algorithms.estimate import Estimate
from dpspec.algorithms.sparse import ldp_iht
from dpspec.privacy.calibrate import Budget, Calibrated, calibrate
from dpspec.privacy.mechanisms.gaussian import Gaussian
from dpspec.privacy.meter import PrivacyError, Release
from dpspec.privacy.noise import PublicRandomness, SecureNoise
from dpspec.privacy.schedule import Draw, Repeat
from tests.conformance.cases import case
from tests.conformance.replay import rows
from tests.conformance.test_conformance import small
from tests.conformance.test_replay import blind_run, neighbour, records_of, same


def twice() -> Calibrated:
    return calibrate(Repeat(Draw("g", Gaussian(1.0, 3)), 2), Budget(epsilon="1", delta="1e-6"))


def metered() -> Release:
    return Release(twice(), SecureNoise(), mode="release", public=PublicRandomness(0))


class Shifty:
    """Three numbers when it is checked, thirty afterwards."""

    def __init__(self) -> None:
        self.reads = 0

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        self.reads += 1
        return np.zeros(3 if self.reads == 1 else 30)


class Smooth(float):
    """A float that claims to be close to every other."""

    def __sub__(self, other: Any) -> float:
        return 0.0

    def __rsub__(self, other: Any) -> float:
        return 0.0


def test_a_value_is_read_once() -> None:
    assert np.shape(metered().draw("g", Shifty(), sensitivity=1.0)) == (3,)


def test_a_sensitivity_is_a_number() -> None:
    with pytest.raises(PrivacyError, match="DP322"):
        metered().draw("g", np.zeros(3), sensitivity=Smooth(0.1))


def test_an_algorithm_that_catches_the_refusal_and_goes_on_leaves_no_record() -> None:
    meter = metered()
    for _ in range(2):
        meter.draw("g", np.zeros(3), sensitivity=1.0)
    with pytest.raises(PrivacyError, match="DP321"):
        meter.draw("g", np.zeros(3), sensitivity=1.0)
    with pytest.raises(PrivacyError, match="DP323"):
        meter.close()
    with pytest.raises(PrivacyError, match="DP323"):
        meter.scale("g")


def test_no_message_of_the_meter_holds_a_value() -> None:
    secret = 123456.789
    for value in (np.array([secret, np.nan, 0.0]), np.full(4, secret), np.array([str(secret)] * 3), np.array([secret, np.inf, 1])):
        with pytest.raises(PrivacyError) as caught:
            metered().draw("g", value, sensitivity=1.0)
        assert "123456" not in str(caught.value)


Run = Callable[[Any, Any, Any, Any], Estimate]


def cheat(run: Run) -> Any:
    return SimpleNamespace(run=run)


def raw_in_extras(records: Any, p: Any, t: Any, release: Any) -> Estimate:
    honest = dp_gd.run(records, p, t, release)
    return replace(honest, extras={"mean": np.asarray(records.x).mean(axis=0)})


def early_stop(records: Any, p: Any, t: Any, release: Any) -> Estimate:
    honest = dp_gd.run(records, p, t, release)
    return Estimate(honest.theta if p.objective.data_value(honest.theta, records) < np.log(2) else 0 * honest.theta)  # no better than 0


def last_bit(records: Any, p: Any, t: Any, release: Any) -> Estimate:
    honest = dp_gd.run(records, p, t, release)
    return Estimate(np.nextafter(honest.theta, np.inf) if np.asarray(records.y)[0] > 0 else honest.theta)


def public_noise(records: Any, p: Any, t: Any, release: Any) -> Estimate:
    dp_gd.run(records, p, t, release)
    noise = release.public.generator("x").normal(size=p.d)
    return Estimate(np.asarray(records.x).sum(axis=0) + noise)


@pytest.mark.parametrize("run", [raw_in_extras, early_stop, last_bit, public_noise])
def test_an_output_computed_outside_the_meter_is_seen(run: Run) -> None:
    """The meter alone cannot stop it: every planned draw is made. The comparison under fixed answers does."""
    c = case(small(dp_gd))
    samples = [records_of(c, seed, 1.0) for seed in range(1, 6)]
    honest = [blind_run(c, r)[0] for r in samples]
    assert all(same(honest[0], other) for other in honest[1:])
    caught = [blind_run(c, r, cheat(run))[0] for r in samples]
    assert not all(same(caught[0], other) for other in caught[1:])


def same_batch_every_round(records: Any, p: Any, t: Any, release: Any) -> Estimate:
    theta = np.zeros(p.d)
    x, y = next(iter(records.rounds(t.T)))
    for _ in range(t.T):
        theta = theta - release.mean_blocks("gradient", ldp_iht.gradients(x, y, theta, t))
    return Estimate(theta)


def test_reading_one_batch_in_every_round_is_seen() -> None:
    """`Disjoint` counts a record once. The meter counts draws, not records: a record that moves two draws shows in the replay."""
    c = case(small(ldp_iht))
    leaf = c.release.tree.body
    assert c.release.tree.count == 2

    def moved(module: Any) -> int:
        most = 0
        for seed in range(8):
            one = records_of(c, seed, 1.0)
            before, after = (blind_run(c, r, module)[1].seen for r in (one, neighbour(c, one, "replace-one", seed)))
            changed = [(rows(u) != rows(v)).any() for (name, u), (_, v) in zip(before, after, strict=True) if name == leaf.name]
            most = max(most, sum(changed))
        return most

    assert moved(ldp_iht) == 1
    assert moved(cheat(same_batch_every_round)) == 2


def unscaled(records: Any, p: Any, t: Any, release: Any) -> Estimate:
    w = np.zeros(p.d)
    for _ in range(t.T):
        w = release.draw("gradient", 3.0 * p.objective.data_gradient(w, records, p.n), sensitivity=dp_gd.mean_sensitivity(p))
    return Estimate(w)


def test_a_value_that_moves_by_more_than_its_stated_sensitivity_is_seen() -> None:
    c = case(small(dp_gd))

    def largest(module: Any) -> float:
        found = 0.0
        for seed in range(8):
            one = records_of(c, seed, 1.0)
            before, after = (blind_run(c, r, module)[1].seen for r in (one, neighbour(c, one, "replace-one", seed)))
            found = max(found, *(float(np.linalg.norm(u - v)) for (_, u), (_, v) in zip(before, after, strict=True)))
        return found

    stated = c.release.tree.body.mechanism.sensitivity
    assert 0.3 * stated < largest(dp_gd) <= stated
    assert largest(cheat(unscaled)) > stated
