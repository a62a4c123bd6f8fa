"""Algorithms that cheat, and what catches each of them: the meter, or the conformance tests (which are shown here to be able to fail)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from dpspec.algorithms.convex_erm import dp_gd
from dpspec.algorithms.estimate import Estimate
from dpspec.algorithms.sparse import ldp_iht
from dpspec.compiler.draft import Draft
from dpspec.data.records import Records
from dpspec.lang.source import Parsed, parse_text
from dpspec.privacy.calibrate import Budget, Calibrated, calibrate
from dpspec.privacy.mechanisms.gaussian import Gaussian
from dpspec.privacy.meter import PrivacyError, Release
from dpspec.privacy.noise import PublicRandomness, SecureNoise
from dpspec.privacy.schedule import Draw, Repeat
from dpspec.spec.expr import Num
from dpspec.spec.model import Domain, Enforcement, Finite
from tests.conformance.cases import case
from tests.conformance.extremes import extremes, image, opposite
from tests.conformance.replay import blind_run, moved, movements, rows, worst
from tests.conformance.test_conformance import small
from tests.conformance.test_replay import FLOOR, neighbour, records_of, same, variant


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

    def most_moved(module: Any) -> int:
        most = 0
        for seed in range(8):
            one = records_of(c, seed, 1.0)
            before, after = (blind_run(c, r, module)[1].seen for r in (one, neighbour(c, one, "replace-one", seed)))
            changed = [(rows(u) != rows(v)).any() for (name, u), (_, v) in zip(before, after, strict=True) if name == leaf.name]
            most = max(most, sum(changed))
        return most

    assert most_moved(ldp_iht) == 1
    assert most_moved(cheat(same_batch_every_round)) == 2


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


# -------------------------------------------------------------------------------------- what a replay over other records let pass


def binary(parsed: Parsed, keys: str = "no, yes") -> Parsed:
    """Records of zeros and ones, mapped from two keys: everything else becomes 0, as a record far outside the domain does."""
    first, second = keys.split(", ")
    zero, one = (Num(Fraction(v)) for v in (0, 1))
    by = Enforcement(how="map", mapping=((first, zero), (second, one)))
    x = Domain(variable="x", set=Finite(values=(zero, one)), by=by)
    data = parsed.analysis.data.model_copy(
        update={"domains": (x, *(domain for domain in parsed.analysis.data.domains if domain.variable != "x"))}
    )
    return replace(parsed, analysis=parsed.analysis.model_copy(update={"data": data, "study": None}))


def every_coordinate(records: Any, p: Any, t: Any, release: Any) -> Estimate:
    """One report a coordinate from each user of the first batch, where the plan lets a user answer one: d*epsilon a user."""
    x = np.asarray(next(iter(records.rounds(t.T)))[0])
    answers = [release.mean_blocks("gradient", [x * (np.arange(p.d) == j % p.d)]) for j in range(t.T)]
    return Estimate(np.sum(answers, axis=0))


@pytest.mark.parametrize("keys", ["0, 1", "7, 3", "no, yes"])
def test_d_reports_a_user_over_a_finite_domain_are_seen(keys: str) -> None:
    c = case(binary(small(ldp_iht, T=3), keys))
    assert c.release.tree.count == 3
    far = [np.full((6, 3), v) for v in (1e3, -1e3)]
    if keys != "no, yes":
        assert all(not image(c.draft, "x", v[0]).any() for v in far), "far records have one image: nothing would move"
    assert max(worst(movements(c, "replace-one")).values()) == 1.0
    with pytest.raises(AssertionError, match=r"one record moves [23] values of gradient, planned are 1"):
        movements(c, "replace-one", cheat(every_coordinate))
    with pytest.raises(AssertionError, match="planned are 1"):
        movements(c, "attribute", cheat(lambda r, p, t, release: every_coordinate(mixed(r), p, t, release)))


def mixed(records: Any) -> Any:
    """Every coordinate becomes their sum: one attribute then moves all d reports."""
    return replace(records, x=np.repeat(np.asarray(records.x).sum(axis=1)[:, None], records.d, axis=1))


def ignoring(records: Any, p: Any, t: Any, release: Any) -> Estimate:
    """It answers from the public numbers alone: its draws are private, and worth nothing."""
    w = np.zeros(p.d)
    for _ in range(t.T):
        w = release.draw("gradient", np.zeros(p.d), sensitivity=dp_gd.mean_sensitivity(p))
    return Estimate(w)


@pytest.mark.parametrize("kind", ["replace-one", "zero-out", "add-remove", "attribute", "labels-only"])
def test_an_algorithm_that_ignores_the_changed_record_is_seen(kind: str) -> None:
    """Nothing moves, so nothing can exceed: the floor of the worst movement is what catches it."""
    parsed = variant(dp_gd, kind)
    assert parsed is not None
    c = case(parsed)
    assert max(worst(movements(c, kind, surroundings=1)).values()) >= FLOOR
    assert max(worst(movements(c, kind, cheat(ignoring), surroundings=1)).values()) < FLOOR


def even(records: Any, p: Any, t: Any, release: Any) -> Estimate:
    """Even in x and in y: a record and its negative give the same answer, and any other pair moves it by more than is stated."""
    w = np.zeros(p.d)
    for _ in range(t.T):
        value = 3.0 * np.abs(np.asarray(records.x)).sum(axis=0) / p.n
        w = release.draw("gradient", value, sensitivity=dp_gd.mean_sensitivity(p))
    return Estimate(w)


def test_even_gradients_hide_no_sign_flip() -> None:
    c = case(small(dp_gd))
    x = np.zeros((6, 3))
    x[0] = 1e3
    flipped = [Records(side * x, np.full(6, side)) for side in (1.0, -1.0)]
    blind = [blind_run(c, r, cheat(even))[1] for r in flipped]
    assert max(moved(c, *blind).shares.values()) == 0.0, "opposite records are the one pair that shows nothing"
    for kind in ("replace-one", "zero-out"):
        parsed = variant(dp_gd, kind)
        assert parsed is not None
        with pytest.raises(AssertionError, match="gradient moves further than its sensitivity"):
            movements(case(parsed), kind, cheat(even))


def test_neighbours_that_enforcement_makes_one_are_no_neighbours(monkeypatch: pytest.MonkeyPatch) -> None:
    c = case(binary(small(ldp_iht), "7, 3"))
    two = [[((1e3,) * 3, 0.0), ((-1e3,) * 3, 0.0)]]
    monkeypatch.setattr("tests.conformance.replay.groups", lambda draft, relation: two)
    with pytest.raises(AssertionError, match="one after enforcement"):
        movements(c, "replace-one")


@pytest.mark.parametrize(
    ("domain", "ends"),
    [
        ("box(2, 5) by clip", {2.0, 5.0}),
        ("box(-1, 3) by reject", {-1.0, 0.0, 3.0}),
        ("ball(l2, 2) by reject", {-2.0, 0.0, 2.0}),
        ("ball(l1, 2) by scale", {-2.0, 0.0, 2.0}),
        ("ball(linf, 5) by shrink(1/10)", {-0.1, 0.0, 0.1}),
        ("{-1, 1/2, 4} by map(10 -> -1, 11 -> 1/2, 12 -> 4)", {-1.0, 0.5, 4.0}),
        ("{0, 3, 4} by reject", {0.0, 3.0, 4.0}),
        ("{-2, 0, 2} by map(5 -> 2, 6 -> 0, 7 -> -2)", {-2.0, 0.0, 2.0}),
        ("{-2, 2} by map(a -> 2, b -> -2)", {-2.0, 2.0}),
    ],
)
def test_hostile_records_reach_the_ends_of_their_domain(domain: str, ends: set[float]) -> None:
    """The first coordinates of the enforced images, by the meaning of each domain; no two images are the same."""
    text = f'analysis "a"\ndata\n  n = 6, d = 3\n  x in {domain}\nprivacy central\n  epsilon = 1\nrelease r\n  estimate mean(x)\n'
    draft = Draft(parse_text(text, surface="dps"))
    draft = replace(draft, facts={"n": 6, "d": 3})
    images = [image(draft, "x", v) for v in extremes(draft, "x", 3)]
    assert len({v.tobytes() for v in images}) == len(images) >= 2
    firsts = {float(v[0]) for v in images}
    assert all(any(abs(end - first) <= 1e-12 for first in firsts) for end in ends), firsts
    one = images[0]
    other = image(draft, "x", opposite(draft, "x", extremes(draft, "x", 3)[0]))
    assert np.linalg.norm(one - other) >= max(np.linalg.norm(one - v) for v in images) * (1 - 1e-12)
