"""Counts by key: the exact law of what is published, against the curve that nobody can beat, and keys that are words."""

from __future__ import annotations

import itertools
import math
from pathlib import Path

import numpy as np
import pytest

import dpspec
from dpspec.audit.events.partition_selection import published
from dpspec.lang.printer import to_yaml
from dpspec.privacy.mechanisms.keys import TruncatedKeys
from dpspec.privacy.noise import SecureNoise, StudyNoise

SPEC = """analysis "who buys where"

data
  n = 500, d = 1
  from memory columns [age]
  private, unit person, neighbours {neighbours}
  x in box(0, 100) by clip

privacy central
  epsilon = 1, delta = 1e-4

release shops
  estimate {what}
"""


def planned(tmp_path: Path, what: str, neighbours: str = "add-remove") -> dpspec.Plan:
    file = tmp_path / "spec.dps"
    file.write_text(SPEC.format(what=what, neighbours=neighbours))
    return dpspec.plan(file)


def outcomes(mechanism: TruncatedKeys, level: float, count: int) -> dict[int, float]:
    """The law of what is published of a key with so many records; 0: nothing."""
    k, p = mechanism.reach(level)
    found: dict[int, float] = {0: 0.0}
    for reach, weight in ((k, 1 - p), (k - 1, p)):
        z = np.arange(-reach, reach + 1)
        law = np.exp(-np.abs(z) / mechanism.scale(level))
        for noise, chance in zip(z, law / law.sum(), strict=True):
            said = int(count + noise)
            key = said if count and said > reach else 0
            found[key] = found.get(key, 0.0) + weight * float(chance)
    return found


def excess(one: dict[int, float], other: dict[int, float], epsilon: float) -> float:
    return math.fsum(max(0.0, a - math.exp(epsilon) * other.get(key, 0.0)) for key, a in one.items())


@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 1e-6), (0.1, 1e-5), (0.5, 1e-3), (3.0, 1e-2)])
def test_no_neighbours_are_further_apart_than_stated_by_all_outcomes(epsilon: float, delta: float) -> None:
    mechanism = TruncatedKeys(1.0, delta)
    laws = [outcomes(mechanism, epsilon, count) for count in range(2 * mechanism.reach(epsilon)[0] + 3)]
    worst = max(max(excess(a, b, epsilon), excess(b, a, epsilon)) for a, b in itertools.pairwise(laws))
    assert worst <= delta * (1 + 1e-9)
    assert worst > 0.999 * delta


def test_replacing_moves_two_keys_and_is_paid_for() -> None:
    """All pairs of outcomes of the two keys that a replaced record moves, one up and one down."""
    mechanism = TruncatedKeys(2.0, 1e-2)
    for a, b in [(0, 0), (1, 0), (3, 5), (0, 7)]:
        one = {(u, v): x * y for u, x in outcomes(mechanism, 2.0, a + 1).items() for v, y in outcomes(mechanism, 2.0, b).items()}
        other = {(u, v): x * y for u, x in outcomes(mechanism, 2.0, a).items() for v, y in outcomes(mechanism, 2.0, b + 1).items()}
        apart = math.fsum(max(0.0, x - math.exp(2.0) * other.get(key, 0.0)) for key, x in one.items())
        assert apart <= 1e-2 * (1 + 1e-9)
    alone = TruncatedKeys(1.0, 1e-2)  # the noise of one key would not do
    one = {(u, v): x * y for u, x in outcomes(alone, 2.0, 4).items() for v, y in outcomes(alone, 2.0, 5).items()}
    other = {(u, v): x * y for u, x in outcomes(alone, 2.0, 3).items() for v, y in outcomes(alone, 2.0, 6).items()}
    assert math.fsum(max(0.0, x - math.exp(2.0) * other.get(key, 0.0)) for key, x in one.items()) > 1e-2


@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 1e-6), (0.1, 1e-5), (0.5, 1e-3)])
def test_keys_are_named_as_often_as_anybody_may_name_them(epsilon: float, delta: float) -> None:
    """Against the recursion of Desfontaines et al., Theorem 1, which is computed elsewhere."""
    mechanism = TruncatedKeys(1.0, delta)
    best = published(epsilon, delta)
    for count in range(2 * mechanism.reach(epsilon)[0]):
        ours = 1 - outcomes(mechanism, epsilon, count)[0]
        limit = best[min(count, len(best) - 1)]
        assert ours <= limit * (1 + 1e-9) + 1e-15
        assert ours >= limit * (1 - 1e-4) - 1e-15


def test_the_smallest_threshold_of_untruncated_laplace_noise_names_fewer() -> None:
    """The usual way: the least t with P(1 + Z >= t) <= delta."""
    epsilon, delta = 1.0, 1e-6
    mechanism = TruncatedKeys(1.0, delta)
    q = math.exp(-epsilon)
    t = 1 + next(u for u in range(1, 100) if q**u / (1 + q) <= delta)
    for count in (3, 8, 12):
        usual = q ** (t - count) / (1 + q)
        assert 1 - outcomes(mechanism, epsilon, count)[0] > 1.2 * usual


@pytest.mark.parametrize("source", [StudyNoise(1), SecureNoise()])
def test_draws_follow_the_law(source: StudyNoise | SecureNoise) -> None:
    mechanism, level, count, keys = TruncatedKeys(1.0, 1e-2), 0.7, 6, 20_000
    drawn = mechanism.apply(np.array([np.arange(keys), np.full(keys, count)]), level, source)
    law = outcomes(mechanism, level, count)
    assert set(np.unique(drawn)) <= set(law)
    for said, chance in law.items():
        assert abs(np.count_nonzero(drawn == said) - keys * chance) <= 6 * math.sqrt(keys * chance * (1 - chance)) + 6  # 1e-8 a cell


def test_words_are_named_and_rare_ones_are_not(tmp_path: Path) -> None:
    shop = np.array(["north"] * 300 + ["south"] * 150 + ["one-off"] + [None] * 49, dtype=object)
    age = np.linspace(0, 100, 500)
    found = planned(tmp_path, "count group by shop").run({"age": age, "shop": shop}).outputs["shops"]
    assert found["name"].tolist() == ["north", "south"]  # one-off: with probability 1e-4
    assert np.all(np.abs(found["value"] - [300, 150]) <= 30)
    assert np.all((found["low"] <= found["value"]) & (found["value"] <= found["high"]))
    young = planned(tmp_path, "count where age < 30 group by shop").run({"age": age, "shop": shop}).outputs["shops"]
    assert young["name"].tolist() == ["north"]
    assert abs(young["value"][0] - 150) <= 30


def test_how_words_are_ordered_in_the_data_is_not_told(tmp_path: Path) -> None:
    plan, age = planned(tmp_path, "count group by shop"), np.zeros(500)
    for shop in (["b"] * 250 + ["a"] * 250, ["a"] * 250 + ["b"] * 250):
        assert plan.run({"age": age, "shop": np.array(shop)}).outputs["shops"]["name"].tolist() == ["a", "b"]


def test_a_csv_with_words_beside_the_features(tmp_path: Path) -> None:
    rows = "".join(f"{i % 90},{'X' if i % 2 else '7'},3\n" for i in range(500))
    (tmp_path / "data.csv").write_text("age,shop,rest\n" + rows)
    record = planned(tmp_path, "count group by shop").run(data_file=tmp_path / "data.csv")
    assert record.outputs["shops"]["name"].tolist() == ["7", "X"]


def test_declared_levels_cost_no_delta_and_pure_budgets_have_no_unknown_keys(tmp_path: Path) -> None:
    text = SPEC.format(what="count group by age", neighbours="add-remove").replace("d = 1", "d = 2")
    (tmp_path / "levels.dps").write_text(text.replace("  x in", '  encode age as levels("a", "b")\n  x in'))
    levels = dpspec.plan(tmp_path / "levels.dps")
    assert (levels.guarantee.kind, levels.draft.releases[0].module.CARD.id) == ("pure", "dp-group-levels")
    (tmp_path / "pure.dps").write_text(SPEC.format(what="count group by shop", neighbours="add-remove").replace(", delta = 1e-4", ""))
    with pytest.raises(dpspec.SpecError):
        dpspec.plan(tmp_path / "pure.dps")


@pytest.mark.parametrize("where", ["", "where age >= 18 "])
def test_both_surfaces(tmp_path: Path, where: str) -> None:
    plan = planned(tmp_path, f"count {where}group by shop")
    twin = tmp_path / "twin.dpspec.yaml"
    twin.write_text(to_yaml(dpspec.load(tmp_path / "spec.dps").analysis))
    assert dpspec.plan(twin).sha256 == plan.sha256


@pytest.mark.parametrize("sensitivity", [1.0, 2.0])
def test_the_second_accountant_reads_budgets_whose_exponentials_overflow(sensitivity: float) -> None:
    mechanism = TruncatedKeys(sensitivity, 1e-6)
    for epsilon in (1.0, 50.0, 1000.0, 5000.0):
        assert mechanism.delta_by_quadrature(epsilon, epsilon) <= 1e-6 * (1 + 1e-9)
        assert mechanism.delta_by_quadrature(epsilon, 0.5 * epsilon) > 1e-6
