"""`bounds auto`: which cell a number is in, how far a unit moves both draws, what is found, and what is refused."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

import dpspec
from dpspec.algorithms.statistics import dp_auto_bounds as auto
from dpspec.compiler.passes import compile_draft
from dpspec.data.records import Records
from dpspec.executor import bind
from dpspec.lang.printer import to_dps, to_yaml
from dpspec.lang.source import parse_text
from dpspec.privacy.meter import Release
from dpspec.privacy.noise import PublicRandomness, StudyNoise

SPEC = """analysis "earned"
data
  n = {n}, d = 1
  from memory columns [income]
  private, unit person{by}, neighbours {relation}
  encode income as bounds auto
  {domain}
privacy central
  {budget}
release r
  estimate {what}
"""


def drafted(what: str, relation: str = "add-remove", budget: str = "epsilon = 1", n: int = 20, domain: str = "", by: str = ""):
    text = SPEC.format(what=what, relation=relation, budget=budget, n=n, domain=domain, by=by)
    return compile_draft(parse_text(text, surface="dps"))


def test_a_number_is_in_the_cell_of_its_power_of_two_in_exact_arithmetic() -> None:
    numbers = [
        0.0,
        5e-324,
        2.0**-31,
        math.nextafter(2.0**-31, 1),
        2.0**-30,
        0.75,
        1.0,
        math.nextafter(1.0, 2),
        17.0,
        64.0,
        64.5,
        2.0**50,
        2.0**60,
    ]
    for v in [*numbers, *(-v for v in numbers)]:
        (cell,) = auto.cells(np.array([v]))
        assert 0 <= cell < auto.CELLS
        low, high = (Fraction(e) for e in auto.ends(int(cell)))
        inside = min(max(Fraction(v), -(Fraction(2) ** auto.LAST)), Fraction(2) ** auto.LAST)
        assert low <= inside <= high
        assert cell == auto.SIZES or abs(inside) > min(abs(low), abs(high))
    assert np.all(np.diff(auto.cells(np.sort(np.array(numbers + [-v for v in numbers])))) >= 0)
    rising = [auto.ends(c) for c in range(auto.CELLS)]
    assert all(a[1] == b[0] for a, b in itertools.pairwise(rising))


@pytest.mark.parametrize("budget", ["epsilon = 1", "rho = 0.5"])
@pytest.mark.parametrize("relation", ["add-remove", "replace-one"])
@pytest.mark.parametrize("what", ["sum(income)", "mean(income)"])
def test_neighbours_move_both_draws_by_their_sensitivities_at_most(what: str, relation: str, budget: str) -> None:
    """Whatever ends the first draw gave: the noise of both is fixed, records are hostile; the largest movement is attained."""
    release = (draft := drafted(what, relation, budget)).releases[0]
    problem = bind.bound_problem(draft, release)
    mechanisms = {d.name: d.mechanism for d in release.tree.parts}
    worst = dict.fromkeys(mechanisms, 0.0)

    class Door:
        def __init__(self, noisy: np.ndarray) -> None:
            self.noisy, self.seen = noisy, {}

        def draw(self, name, value, *, sensitivity):
            assert mechanisms[name].check(value) is None
            assert sensitivity == mechanisms[name].sensitivity
            self.seen[name] = np.array(value, dtype=float)
            return self.noisy if name == "cells" else np.zeros_like(self.seen[name])

        def level(self, name):
            return release.calibrated.levels[name]

    hostile = [-1e300, -3.0, 0.0, 0.3, 77.0, 1e300]
    for over in ((), (60, 120), (auto.CELLS - 1,)):
        noisy = np.zeros(auto.CELLS)
        noisy[list(over)] = 1e6
        seen = {}
        for rows in [(), *((v,) for v in hostile)]:
            door = Door(noisy)
            release.module.run(Records(np.array([2.0, -1.0, *rows])[:, None]), problem, release.tunables, door)
            seen[rows] = door.seen
        for one, other in itertools.combinations(seen, 2):
            if (len(one) != len(other)) == (relation == "add-remove"):
                for name, m in mechanisms.items():
                    worst[name] = max(worst[name], m.distance(1.0, seen[one][name], seen[other][name]) / m.sensitivity)
    assert max(worst.values()) <= 1 + 1e-12
    assert min(worst.values()) > (0.99 if "mean" not in what or relation != "add-remove" or budget[0] == "e" else 0.7)


@pytest.mark.parametrize("relation", ["add-remove", "replace-one"])
@pytest.mark.parametrize("what", ["sum(income)", "mean(income)"])
def test_bounds_are_found_and_intervals_cover(what: str, relation: str) -> None:
    """100 runs: the ends that hold all but a few records, and intervals of 95 % of which at least 85 cover (one in 10^4)."""
    income = np.random.default_rng(0).lognormal(10, 0.5, 5_000)
    release = (draft := drafted(what, relation, n=5_000)).releases[0]
    problem, covered, mistaken = bind.bound_problem(draft, release), 0, 0
    for seed in range(100):
        meter = Release(release.calibrated, StudyNoise(seed), mode="study", public=PublicRandomness(0))
        found = release.module.run(Records(income[:, None]), problem, release.tunables, meter)
        low, high = found.extras["found_low"], found.extras["found_high"]
        mistaken += not (2**11 <= low <= 2**13 and 2**16 <= high <= 2**18)
        clipped = np.clip(income, low, high)
        truth = clipped.sum() if what[0] == "s" else clipped.mean()
        covered += found.extras["low"] <= truth <= found.extras["high"]
    assert covered >= 85
    assert mistaken == 0  # an empty cell is taken for a full one once in 10^6 runs


def test_nothing_is_found_where_there_is_nothing() -> None:
    assert auto.found(np.zeros(auto.CELLS), 3.0) == (-1.0, 1.0)
    plan = dpspec.plan(
        parse_text(SPEC.format(what="sum(income)", relation="add-remove", budget="epsilon = 1", n=100, domain="", by=""), surface="dps")
    )
    out = plan.run({"income": np.empty(0)}).outputs["r"]
    assert {"value", "low", "high", "found_low", "found_high"} <= set(out)


@pytest.mark.parametrize(
    ("what", "more", "words"),
    [
        ("median(income)", {}, "needs them declared"),
        ("variance(income)", {}, "needs them declared"),
        ("sum(income)", {"domain": "x in box(0, 1) by clip"}, "bounds income already"),
        ("sum(income)\n  by dp-sum", {}, "dp-auto-bounds finds them"),
        ("mean(income)\n  by dp-column-mean", {}, "dp-auto-bounds finds them"),
    ],
)
def test_what_needs_declared_bounds_is_refused(what: str, more: dict, words: str) -> None:
    assert words in " ".join(d.message + d.help for d in drafted(what, **more).diagnostics if d.severity == "error")


def test_both_surfaces_and_several_rows_a_person() -> None:
    text = SPEC.format(
        what="mean(income)", relation="add-remove", budget="epsilon = 1", n=20, domain="at most 4 rows a person", by=" identified by id"
    )
    read = parse_text(text, surface="dps")
    assert parse_text(to_dps(read.analysis), surface="dps").analysis == read.analysis
    assert parse_text(to_yaml(read.analysis), surface="yaml").analysis == read.analysis
    first, second = compile_draft(read).releases[0].tree.parts
    once = compile_draft(parse_text(text.replace("most 4", "most 1"), surface="dps")).releases[0].tree.parts
    assert (first.mechanism.sensitivity, second.mechanism.sensitivity) == tuple(4 * d.mechanism.sensitivity for d in once)
