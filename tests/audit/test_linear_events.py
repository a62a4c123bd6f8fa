"""Trees, matrix mechanisms and partition selection against brute force: every pattern of a unit's times, every node, every column."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy.stats import norm

from dpspec.audit import audit
from dpspec.audit.events import _patterns
from dpspec.audit.events.partition_selection import published
from dpspec.audit.verdict import AuditResult


def judged(claim: dict[str, Any], *events: dict[str, Any], relation: str = "zero_out") -> AuditResult:
    return audit({"audit": 1, "setting": {"unit": "person", "neighbouring": relation}, "claim": claim, "events": list(events)})


def patterns(steps: int, k: int, separation: int, fixed: bool = False) -> Iterator[tuple[int, ...]]:
    """Every set of at most k steps that far apart, enumerated."""
    for size in range(1, k + 1):
        for found in itertools.combinations(range(steps), size):
            gaps = np.diff(found)
            if np.all(gaps == separation) if fixed else np.all(gaps >= separation):
                yield found


def nodes(leaves: int) -> list[range]:
    """Of the binary tree over so many leaves, the last ones padded."""
    whole = 2 ** math.ceil(math.log2(leaves))
    return [range(s, s + size) for size in (2**j for j in range(int(math.log2(whole)) + 1)) for s in range(0, whole, size)]


@pytest.mark.parametrize(
    ("leaves", "k", "separation"), [(8, 1, 1), (8, 3, 2), (8, 8, 1), (16, 4, 4), (16, 3, 5), (13, 3, 2), (1, 1, 1), (6, 2, 3)]
)
def test_a_tree_moves_as_far_as_its_worst_pattern(leaves: int, k: int, separation: int) -> None:
    def square(pattern: tuple[int, ...], among: list[range]) -> int:
        return sum(sum(t in node for t in pattern) ** 2 for node in among)

    low, high = _patterns.tree(leaves, k, separation)
    every = nodes(leaves)
    assert high >= max(square(p, every) for p in patterns(leaves, k, separation))
    complete = [node for node in every if node[-1] < leaves]
    assert low <= max(square(p, complete) for p in patterns(leaves, k, separation))
    if k == 1 and leaves == 2 ** int(math.log2(leaves)):
        assert low == high == math.log2(leaves) + 1


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("fixed", [False, True])
def test_a_matrix_moves_as_far_as_its_worst_pattern(seed: int, fixed: bool) -> None:
    rng = np.random.default_rng([seed, 5])
    steps, k, separation = int(rng.integers(3, 9)), int(rng.integers(1, 4)), int(rng.integers(1, 4))
    signed = bool(rng.random() < 0.3)
    column = rng.uniform(-1 if signed else 0, 1, int(rng.integers(1, steps + 1)))
    c = np.zeros((steps, steps))
    for t in range(steps):
        c[t : t + column.size, t] = column[: steps - t]
    for found, matrix in ((_patterns.toeplitz(column.tolist(), steps, k, separation, fixed), c), (None, rng.uniform(-1, 1, (4, steps)))):
        low, high = found or _patterns.encoder(matrix.tolist(), k, separation, fixed)
        gram = matrix.T @ matrix
        best = 0.0
        for p in patterns(steps, k, separation, fixed):
            part = gram[np.ix_(p, p)]
            best = max(best, *(float(np.array(s) @ part @ np.array(s)) for s in itertools.product((-1, 1), repeat=len(p))))
        # signs of scalars reach only some of what vectors do: exact where no entry is negative
        assert high >= best * (1 - 1e-9)
        assert low <= best * (1 + 1e-9)
        if k == 1:
            assert low == pytest.approx(high)


def test_a_band_no_wider_than_the_separation_costs_the_root_of_the_times() -> None:
    """Choquette-Choo et al. 2023, Theorem 2: columns that do not overlap are orthogonal."""
    column = [1, 0.7, 0.5]
    low, high = _patterns.toeplitz(column, 1000, 9, 3, False)
    assert low == pytest.approx(9 * sum(x * x for x in column))
    assert high == pytest.approx(low)


def test_prefix_sums_by_the_square_root_factorisation() -> None:
    """C of Fichtenberger, Henzinger, Upadhyay 2023: f_k = f_(k-1) (1 - 1/(2k)); one time costs the root of sum f_k^2."""
    steps = 2048
    f = [1.0]
    for j in range(1, steps):
        f.append(f[-1] * (1 - 1 / (2 * j)))
    whole = math.sqrt(sum(x * x for x in f))
    event = {"type": "matrix_mechanism", "clip_norm": 1, "sigma": 3 * whole, "coefficients": f, "steps": steps, "participations": 1}
    exact = gaussian_epsilon(1 / 3, 1e-6)
    assert judged({"epsilon": exact * 1.002, "delta": 1e-6}, event).verdict == "holds"
    assert judged({"epsilon": exact * 0.99, "delta": 1e-6}, event).verdict == "violated"


def gaussian_epsilon(mu: float, delta: float) -> float:
    """By bisection on the profile of Balle and Wang 2018."""
    low, high = 0.0, 500.0
    for _ in range(200):
        e = (low + high) / 2
        shown = norm.cdf(mu / 2 - e / mu) - math.exp(e + norm.logcdf(-mu / 2 - e / mu))
        low, high = (e, high) if shown > delta else (low, e)
    return high


def test_a_tree_as_it_is_deployed() -> None:
    """Six restarts of 2,048 rounds, one participation a restart, noise 7 on each node: mu^2 = 6 * 12/49."""
    event = {"type": "dp_ftrl", "clip_norm": 0.3, "noise_multiplier": 7, "steps": 2048, "restarts": 6, "participations": 1}
    exact = gaussian_epsilon(math.sqrt(6 * 12 / 49), 1e-10)
    assert judged({"epsilon": exact * 1.002, "delta": 1e-10}, event).verdict == "holds"
    assert judged({"epsilon": exact * 0.99, "delta": 1e-10}, event).verdict == "violated"
    replaced = judged({"epsilon": exact * 1.002, "delta": 1e-10}, event, relation="replace_one")
    assert replaced.verdict == "violated"  # a replaced update moves twice as far
    assert judged({"epsilon": exact * 1.002, "delta": 1e-10}, event, relation="add_remove").verdict == "holds-if"
    open_ended = {**event, "participations": "unknown"}
    assert judged({"epsilon": 1e6, "delta": 1e-10}, open_ended).verdict == "not-certified"
    several = {**event, "participations": 4}
    assert judged({"epsilon": 1e6, "delta": 1e-10}, several).verdict == "cannot-verify"  # how far apart?


def test_an_encoder_that_looks_ahead_is_conditional() -> None:
    event = {"type": "matrix_mechanism", "clip_norm": 1, "sigma": 9, "encoder": [[1, 1], [0, 1]], "participations": 1}
    assert judged({"epsilon": 9, "delta": 1e-6}, event).verdict == "holds-if"
    assert judged({"epsilon": 9, "delta": 1e-6}, {**event, "encoder": [[1, 0], [1, 1]]}).verdict == "holds"


# ------------------------------------------------------------------------------------------------------------- partition selection


@pytest.mark.parametrize(
    ("epsilon", "delta"), [(Fraction(1, 2), Fraction(1, 1000)), (Fraction(2), Fraction(1, 50)), (Fraction(1, 10), Fraction(1, 5))]
)
def test_published_chances_are_the_largest_that_are_private(epsilon: Fraction, delta: Fraction) -> None:
    """In exact fractions with e^epsilon bracketed: every pair of neighbouring sizes is (epsilon, delta)-DP in both directions, and one
    inequality is tight at each step until the key is sure."""
    e, d = math.exp(float(epsilon)), float(delta)
    chances = published(float(epsilon), d)
    assert chances[0] == 0
    assert chances[1] == pytest.approx(d)
    assert chances[-1] == 1
    for a, b in itertools.pairwise(chances):
        gaps = (e * a + d - b, e * b + d - a, e * (1 - a) + d - (1 - b), e * (1 - b) + d - (1 - a))
        assert min(gaps) >= -1e-12
        assert b == 1 or min(gaps[0], gaps[3]) <= 1e-12


def test_selection_alone() -> None:
    event = {"type": "partition_selection", "epsilon": 0.5, "delta": 1e-5, "keys": 1}
    assert judged({"epsilon": 0.5, "delta": 1e-5}, event, relation="add_remove").verdict == "holds"
    assert judged({"epsilon": 0.45, "delta": 1e-5}, event, relation="add_remove").verdict == "violated"
    assert judged({"epsilon": 50, "delta": 0.9e-5}, event, relation="add_remove").verdict == "violated"
    three = {**event, "keys": 3}
    assert judged({"epsilon": 1.5, "delta": 3e-5}, three, relation="add_remove").verdict == "holds"
    assert judged({"epsilon": 0.5, "delta": 1e-5}, three, relation="add_remove").verdict == "violated"
    assert judged({"epsilon": 0.5, "delta": 1e-5}, event, relation="replace_one").verdict != "holds"  # two keys change
    assert judged({"epsilon": 0.5, "delta": 0}, event, relation="add_remove").verdict == "violated"
