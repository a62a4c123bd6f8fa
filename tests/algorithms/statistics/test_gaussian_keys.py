"""Gaussian noise over a threshold for keys that nobody declared: all outcomes of neighbours, and which noise is planned."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

import dpspec
from dpspec.api import Plan
from dpspec.privacy.mechanisms.gaussian_keys import GaussianKeys
from dpspec.privacy.mechanisms.keys import GaussianKeyedSums, KeyedSums, TruncatedKeys
from dpspec.privacy.noise import SecureNoise, StudyNoise

SPEC = """analysis "trips"
data
  n = 4_000, d = 1
  from memory columns [minutes]
  private, unit person identified by id, neighbours add-remove
  at most {rows} rows, {groups} groups a person
  x in box(0, 120) by clip
privacy central
  epsilon = 1, delta = 1e-6
release trips
  estimate {what} group by line
  {by}
"""


def plan(what: str = "count", by: str = "", rows: int = 3, groups: int = 3) -> Plan:
    return dpspec.plan(dpspec.loads(SPEC.format(what=what, by=by, rows=rows, groups=groups), surface="dps"))


def mechanism(made: Plan) -> object:
    return made.draft.releases[0].calibrated.tree.mechanism


def outcomes(m: GaussianKeys, level: float, count: int, far: float = 9.0) -> np.ndarray:
    """The law of what is published of a key with so many records: place 0 is nothing, place v the count v. Noise beyond ``far`` parameters
    is left out (1e-18)."""
    numbers = m.numbers(level)
    s, t, reach = numbers["scale"], int(numbers["threshold"]), math.ceil(far * numbers["scale"])
    z = np.arange(-reach, reach + 1)
    weights = np.exp(-0.5 * (z / s) ** 2)
    said = np.where((count + z > t) & (count > 0), count + z, 0)
    return np.bincount(said, weights / weights.sum(), minlength=t + 40 + 2 * reach)


def apart(one: list[np.ndarray], other: list[np.ndarray], epsilon: float) -> float:
    """The divergence of products."""
    p, q = (np.array([1.0]), np.array([1.0]))
    for a, b in zip(one, other, strict=True):
        p, q = np.multiply.outer(p, a).ravel(), np.multiply.outer(q, b).ravel()
    return float(np.maximum(p - math.exp(epsilon) * q, 0.0).sum())


@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 1e-6), (0.3, 1e-4), (3.0, 1e-2)])
def test_one_key_by_all_outcomes(epsilon: float, delta: float) -> None:
    m = GaussianKeys(1.0, 1, delta)
    laws = [outcomes(m, epsilon, count) for count in range(int(m.numbers(epsilon)["threshold"]) + 4)]
    worst = max(max(apart([a], [b], epsilon), apart([b], [a], epsilon)) for a, b in itertools.pairwise(laws))
    assert 0.2 * delta < worst <= delta


@pytest.mark.parametrize("epsilon", [2.0, 4.0])
@pytest.mark.parametrize(("sensitivity", "keys", "most"), [(2, 2, 1), (3, 2, 2), (4, 2, 4)])
def test_two_keys_by_all_outcomes(epsilon: float, sensitivity: int, keys: int, most: int) -> None:
    """Every way in which a unit moves two keys: both up, or one up and one down, from none, few and many."""
    m, delta = GaussianKeys(float(sensitivity), keys, 1e-2, most), 1e-2
    t = int(m.numbers(epsilon)["threshold"])
    law = {c: outcomes(m, epsilon, c, 6.5) for c in {v + a for v in (0, 1, t - 1) for a in range(most + 1)}}
    worst = 0.0
    for u, v in itertools.product(range(most + 1), repeat=2):
        if u + v > sensitivity:
            continue
        for a, b in itertools.product((0, 1, t - 1), repeat=2):
            for one, other in (((a + u, b + v), (a, b)), ((a + u, b), (a, b + v))):
                left, right = [law[c] for c in one], [law[c] for c in other]
                worst = max(worst, apart(left, right, epsilon), apart(right, left, epsilon))
    assert 0.2 * delta < worst <= delta


def test_the_noise_of_fewer_keys_would_not_do() -> None:
    epsilon, m = 2.0, GaussianKeys(1.0, 1, 1e-2)
    t = int(m.numbers(epsilon)["threshold"])
    one, other = [outcomes(m, epsilon, t + 31, 6.5)] * 2, [outcomes(m, epsilon, t + 30, 6.5)] * 2
    assert apart(one, other, epsilon) > 1e-2
    assert GaussianKeys(2.0, 2, 1e-2).spent(m.numbers(epsilon)) > epsilon
    assert GaussianKeys(2.0, 2, 1e-2).distance(1.0, [[1, 2, 3], [1, 1, 1]], np.zeros((2, 0))) == math.inf


@pytest.mark.parametrize("keys", [1, 3, 40, 1000])
def test_both_accountants(keys: int) -> None:
    for epsilon in (0.1, 1.0, 8.0):
        m = GaussianKeys(float(keys), keys, 1e-6)
        assert m.spent(m.numbers(epsilon)) == pytest.approx(epsilon, rel=1e-8)
        assert 0.9e-6 < m.delta_by_quadrature(epsilon, epsilon * (1 + 1e-9)) <= 1e-6
        assert m.delta_by_quadrature(epsilon, 0.9 * epsilon) > 1e-6
        lower = {**m.numbers(epsilon), "threshold": m.numbers(epsilon)["threshold"] - math.ceil(m.scale(epsilon) / 4)}
        assert m.spent(lower) > epsilon


@pytest.mark.parametrize("source", [StudyNoise(1), SecureNoise()])
def test_draws_follow_the_law(source: StudyNoise | SecureNoise) -> None:
    m, level, keys = GaussianKeys(2.0, 2, 1e-2), 2.0, 20_000
    count = int(m.numbers(level)["threshold"]) + 1
    drawn = m.apply(np.array([np.arange(keys), np.full(keys, count)]), level, source)
    law = outcomes(m, level, count)
    for said, chance in enumerate(law):
        assert abs(np.count_nonzero(drawn == said) - keys * chance) <= 6 * math.sqrt(keys * chance * (1 - chance)) + 6
    assert not m.apply(np.array([np.arange(keys), np.zeros(keys)]), level, source).any()  # no key without records, however large the noise


def test_the_better_noise_is_planned_before_a_record_is_read() -> None:
    assert isinstance(mechanism(plan(by="by dp-group-count with each = 1")), GaussianKeys)
    assert isinstance(mechanism(plan()), TruncatedKeys)  # all three rows of a person may be in one key
    assert isinstance(mechanism(plan(by="by dp-group-count with each = 1", rows=2, groups=2)), TruncatedKeys)
    assert isinstance(mechanism(plan(by="by dp-group-count with each = 1, noise = truncated")), TruncatedKeys)
    assert isinstance(mechanism(plan(by="by dp-group-count with noise = gaussian")), GaussianKeys)
    sums = mechanism(plan("mean(minutes)", rows=8, groups=8))
    assert isinstance(sums, GaussianKeyedSums)
    assert type(mechanism(plan("mean(minutes)", rows=2, groups=2))) is KeyedSums
    for epsilon, usual in ((0.1, 335.7), (1.0, 39.6)):  # thresholds of the yardstick: delta in halves, three keys a unit
        assert GaussianKeys(3.0, 3, 1e-6).half(epsilon) < usual + 1
        assert GaussianKeys(3.0, 3, 1e-6).half(epsilon) < TruncatedKeys(3.0, 1e-6).half(epsilon)
        assert GaussianKeys(1.0, 1, 1e-6).half(epsilon) > TruncatedKeys(1.0, 1e-6).half(epsilon)


@pytest.mark.parametrize(("what", "by"), [("count", "by dp-group-count with each = 1"), ("mean(minutes)", ""), ("sum(minutes)", "")])
def test_a_run_and_its_audit(what: str, by: str) -> None:
    made = plan(what, by, rows=8, groups=8)
    assert dpspec.audit(made.to_json()).verdict == "holds"
    person = np.repeat(np.arange(500).astype(str).astype(object), 8)
    line = np.tile(np.array(["a", "b", "c", "d", "e", "f", "g", "g"], dtype=object), 500)
    line[3] = "one-off"
    table = made.run({"minutes": np.full(4000, 30.0), "line": line, "id": person})
    found = table.outputs["trips"]
    assert found["name"].tolist() == list("abcdefg")
    assert dpspec.audit(table.body | {"outputs": {}}).verdict in ("holds", "cannot-verify")
    if what == "count":  # of the two rows of a person in g one counts
        assert abs(found["value"] - 500).max() < 150
        assert found["low"].tolist() < found["value"].tolist() < found["high"].tolist()


def test_more_than_all_keys_together_does_not_move_and_a_low_threshold_keeps_no_delta() -> None:
    with pytest.raises(ValueError, match="do not move by 8"):
        GaussianKeys(8.0, 1, 1e-6)
    m = GaussianKeys(1000.0, 1, 1e-2, 1000)
    assert m.spent({"scale": 20.0, "threshold": 1.0}) == math.inf
    assert m.spent({"scale": 20.0, "threshold": 999.0}) == math.inf
