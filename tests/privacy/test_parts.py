"""Disjoint parts with different bodies: the guarantee is the pointwise worst of theirs, in both accountants."""

from __future__ import annotations

import dataclasses
import itertools
import math
from dataclasses import dataclass
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.stats import norm

from dpspec.privacy.calibrate import Budget, Calibrated, calibrate
from dpspec.privacy.guarantees import Guarantee, worst
from dpspec.privacy.mechanisms.exponential import Exponential
from dpspec.privacy.mechanisms.gaussian import Gaussian
from dpspec.privacy.mechanisms.laplace import Laplace
from dpspec.privacy.mechanisms.wishart_one_sided import Wishart
from dpspec.privacy.samplers import CalibrationError
from dpspec.privacy.schedule import Disjoint, Draw, Parallel, Repeat, Sampled, Sequence, TooManyWorlds, Tree, draws, worlds
from dpspec.privacy.second import AccountingMismatch, recheck


def g(name: str, weight: float = 1.0) -> Draw:
    return Draw(name, Gaussian(1.0), weight=weight)


def lap(name: str, weight: float = 1.0) -> Draw:
    return Draw(name, Laplace(1.0), weight=weight)


APPROX = Budget(epsilon=1, delta=1e-6)


def gaussian_delta(epsilon: float, mu: float) -> float:
    return float(norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu))


def gaussian_epsilon(mu: float, delta: float) -> float:
    return float(brentq(lambda e: gaussian_delta(e, mu) - delta, 0.0, 50.0, xtol=1e-13))


# ------------------------------------------------------------------------------------------------------------------- kinds


@pytest.mark.parametrize("order", [0, 1])
@pytest.mark.parametrize("other", [g("b"), Repeat(g("b"), 7), Draw("b", Wishart(1.0, 2, 1e-6))])
def test_a_pure_part_beside_an_approximate_one_is_approximate(order: int, other: Tree) -> None:
    """Laplace of epsilon 1 alone is pure; the other part has no finite epsilon at delta 0, so the whole has delta 1e-6."""
    parts = (lap("a"), other) if order == 0 else (other, lap("a"))
    c = calibrate(Parallel(parts), APPROX)
    assert (c.guarantee.kind, c.guarantee.epsilon) == ("approx", pytest.approx(1, rel=1e-9))
    assert c.guarantee.delta == pytest.approx(1e-6, rel=1e-12)
    assert c.guarantee.mu is None, "randomised response of epsilon 1 is not mu-GDP at the mu of the other part"
    assert c.scale("a") == pytest.approx(1, rel=1e-12), "each part has the whole budget"
    assert recheck(c).epsilon == pytest.approx(1, rel=3e-3)


def test_three_parts_of_three_families() -> None:
    parts = (Repeat(lap("a"), 3), Repeat(g("b"), 5), Sequence((g("c"), Repeat(Draw("d", Exponential(1.0, 9)), 4))))
    c = calibrate(Parallel(parts), APPROX)
    alone = [calibrate(part, APPROX) for part in parts]
    for one in alone:
        for name, level in one.levels.items():
            assert c.levels[name] == level
    assert c.guarantee.kind == "approx"
    assert c.guarantee.epsilon == max(one.guarantee.epsilon or 0 for one in alone)
    assert gaussian_epsilon(math.sqrt(5) / c.levels["b"], 1e-6) <= (c.guarantee.epsilon or 0) * (1 + 1e-9)
    recheck(c)


def test_two_gaussian_parts_keep_mu_and_it_is_the_larger() -> None:
    c = calibrate(Parallel((Repeat(g("a"), 4), Repeat(g("b"), 9))), APPROX)
    mus = [2 / c.levels["a"], 3 / c.levels["b"]]
    assert c.guarantee.mu == pytest.approx(max(mus), rel=1e-12)
    assert gaussian_epsilon(max(mus), 1e-6) == pytest.approx(c.guarantee.epsilon, rel=1e-6)
    recheck(c)


@pytest.mark.parametrize(
    ("budget", "kind"), [(Budget(rho="0.1", delta=1e-6), "zcdp"), (Budget(mu="0.4", delta=1e-6), "gdp"), (Budget(epsilon="0.7"), "pure")]
)
def test_other_budgets(budget: Budget, kind: str) -> None:
    second = Repeat(lap("b"), 3) if kind == "pure" else Sequence((g("b"), lap("c")))
    c = calibrate(Parallel((Repeat(lap("a"), 2), second)), budget)
    assert c.guarantee.kind == kind
    value = {"zcdp": c.guarantee.rho, "gdp": c.guarantee.mu, "pure": c.guarantee.epsilon}[kind]
    allowed = {"zcdp": 0.1, "gdp": 0.4, "pure": 0.7}[kind]
    assert allowed * (1 - 1e-9) <= (value or 0) <= allowed * (1 + 1e-12)
    recheck(c)


def test_the_statement_that_all_parts_imply() -> None:
    """By hand, for every pair of kinds. e^1-DP is 2*Phi^-1(e/(1+e))-GDP and 1/2-zCDP; mu-GDP is mu^2/2-zCDP."""
    pure, approx = Guarantee("pure", epsilon=1.0, delta=0.0), Guarantee("approx", epsilon=0.5, delta=1e-5)
    gdp, zcdp = Guarantee("gdp", mu=0.5), Guarantee("zcdp", rho=0.2)
    mu = 2 * norm.ppf(math.e / (1 + math.e))
    assert worst([pure, approx]) == Guarantee("approx", epsilon=1.0, delta=1e-5)
    assert worst([pure, gdp]).mu == pytest.approx(mu, rel=1e-12)
    assert worst([pure, zcdp]) == Guarantee("zcdp", rho=0.5)
    assert worst([gdp, zcdp]) == Guarantee("zcdp", rho=0.2)
    assert worst([gdp, Guarantee("zcdp", rho=0.1)]) == Guarantee("zcdp", rho=0.125)
    mixed = worst([approx, Guarantee("gdp", mu=1.0)])
    assert (mixed.kind, mixed.delta, mixed.mu) == ("approx", 1e-5, None)
    assert mixed.epsilon == pytest.approx(gaussian_epsilon(1.0, 1e-5), rel=1e-9)
    assert worst([approx, Guarantee("approx", epsilon=0.1, delta=1e-3)]) == Guarantee("approx", epsilon=0.5, delta=1e-3)


# ------------------------------------------------------------------------------------------------------------------ nesting


def spent(tree: Tree, eps: dict[str, Fraction]) -> Fraction:
    """Pure epsilon of the worst record by recursion: parts by their maximum, everything else by sums. A second way to the same number
    that never lists the ways of a record."""
    match tree:
        case Draw(name=name):
            return eps[name]
        case Sequence(parts=parts):
            return sum((spent(part, eps) for part in parts), Fraction(0))
        case Parallel(parts=parts):
            return max(spent(part, eps) for part in parts)
        case Repeat(body=body, count=count):
            return count * spent(body, eps)
        case Disjoint(body=body) | Sampled(body=body):
            return spent(body, eps)


_names = itertools.count()


def _trees() -> st.SearchStrategy[Tree]:
    leaf = st.builds(lambda w: lap(f"d{next(_names)}", w), st.sampled_from([1.0, 2.0, 0.25]))
    return st.recursive(
        leaf,
        lambda inner: st.one_of(
            st.lists(inner, min_size=1, max_size=3).map(lambda parts: Sequence(tuple(parts))),
            st.lists(inner, min_size=1, max_size=3).map(lambda parts: Parallel(tuple(parts))),
            st.builds(Repeat, inner, st.integers(1, 3)),
            st.builds(Disjoint, inner, st.integers(1, 4)),
        ),
        max_leaves=6,
    )


@settings(max_examples=60, deadline=None)
@given(_trees())
def test_any_nesting_of_parts_spends_its_worst_way_and_no_more_than_the_budget(tree: Tree) -> None:
    try:
        worlds(tree)
    except TooManyWorlds:
        with pytest.raises(CalibrationError, match="ways"):
            calibrate(tree, Budget(epsilon=1))
        return
    c = calibrate(tree, Budget(epsilon=1))
    exact = spent(tree, {name: 1 / Fraction(level) for name, level in c.levels.items()})
    assert exact <= 1
    assert c.guarantee.epsilon == pytest.approx(float(exact), rel=1e-12)
    assert exact <= Fraction(c.guarantee.epsilon or 0)
    assert recheck(c).epsilon == pytest.approx(float(exact), rel=1e-12)


def test_releases_before_parts_compose_with_each_of_them() -> None:
    """a, then b or c: mu^2 of the worst record is that of a and the larger of b and c."""
    tree = Sequence((g("a"), Parallel((Repeat(g("b"), 3), g("c")))))
    c = calibrate(tree, APPROX)
    found = {name: 1 / c.levels[name] ** 2 for name in "abc"}
    mu = math.sqrt(found["a"] + max(3 * found["b"], found["c"]))
    assert c.guarantee.mu == pytest.approx(mu, rel=1e-9)
    assert gaussian_epsilon(mu, 1e-6) == pytest.approx(c.guarantee.epsilon, rel=1e-6)
    assert 0.999 < (c.guarantee.epsilon or 0) <= 1 + 1e-9
    recheck(c)


def test_each_use_may_cut_the_records_anew() -> None:
    """Two uses of parts a and b: a record meets a twice, b twice, or one of each."""
    tree = Repeat(Parallel((g("a"), lap("b"))), 2)
    seen = sorted(sorted((n, leaf.count) for n, leaf in draws(w).items()) for w in worlds(tree))
    assert seen == [[("a", 1), ("b", 1)], [("a", 2)], [("b", 2)]]
    c = calibrate(tree, APPROX)
    assert c.guarantee.kind == "approx"
    recheck(c)
    with pytest.raises(CalibrationError, match="ways"):
        calibrate(Repeat(Parallel((g("a"), g("b"), g("c"))), 100), APPROX)


def test_disjoint_inside_repeat_and_inside_parts() -> None:
    c = calibrate(Parallel((Repeat(Disjoint(g("a"), 5), 3), Disjoint(Repeat(lap("b"), 2), 4))), APPROX)
    assert math.sqrt(3) / c.levels["a"] == pytest.approx(math.sqrt(3) / calibrate(Repeat(g("a"), 3), APPROX).levels["a"], rel=1e-12)
    assert 2 / c.levels["b"] == pytest.approx(1, rel=1e-9)
    recheck(c)


def test_a_part_that_samples() -> None:
    sampled = Repeat(Sampled(g("a"), "fixed", 0.02, 500), 50)
    c = calibrate(Parallel((sampled, lap("b"))), APPROX)
    assert c.levels["a"] == calibrate(sampled, APPROX).levels["a"]
    assert (c.guarantee.kind, c.guarantee.delta) == ("approx", pytest.approx(1e-6, rel=1e-12))
    recheck(c)
    weaker = dataclasses.replace(c, levels={**c.levels, "a": c.levels["a"] * 0.9})
    with pytest.raises(AccountingMismatch):
        recheck(weaker)


@pytest.mark.parametrize("inside", [Disjoint(g("a"), 3), Parallel((g("a"), g("b")))])
@pytest.mark.parametrize("method", ["fixed", "poisson"])
def test_a_sample_is_not_cut_into_parts(inside: Tree, method: str) -> None:
    """A record in a sample of fixed size takes the place of another one, maybe of another part: two parts change then."""
    with pytest.raises(CalibrationError) as refused:
        calibrate(Sampled(inside, method, 0.1, 100), APPROX, neighbours="replace-one" if method == "fixed" else "zero-out")  # type: ignore[arg-type]
    assert refused.value.code == "DP308"


# --------------------------------------------------------------------------------------------------- the second accountant


def parted() -> Calibrated:
    return calibrate(Parallel((lap("a"), Repeat(g("b"), 10))), APPROX)


def test_the_second_accountant_refuses_the_guarantee_of_one_part() -> None:
    """What was stated before: the guarantee of the part with the larger epsilon, kind and delta with it."""
    c = parted()
    first, second = c.ways
    for one in (first.guarantee, dataclasses.replace(second.guarantee, mu=None, kind="pure", delta=0.0), Guarantee("pure", 1.0, 0.0)):
        with pytest.raises(AccountingMismatch):
            recheck(dataclasses.replace(c, guarantee=one))
    # the Gaussian part's mu does not hold for the part with Laplace noise
    with pytest.raises(AccountingMismatch):
        recheck(dataclasses.replace(c, guarantee=second.guarantee))


@pytest.mark.parametrize("name", ["a", "b"])
def test_it_reads_the_tree_and_not_the_first_accountants_list_of_parts(name: str) -> None:
    c = parted()
    with pytest.raises(AccountingMismatch):
        recheck(dataclasses.replace(c, levels={**c.levels, name: c.levels[name] / 2}))
    with pytest.raises(AccountingMismatch):  # a body that grew in the tree alone
        recheck(dataclasses.replace(c, tree=Parallel((Repeat(lap("a"), 2), Repeat(g("b"), 20)))))
    with pytest.raises(AccountingMismatch):  # parts that are none
        recheck(dataclasses.replace(c, tree=Sequence((lap("a"), Repeat(g("b"), 10)))))
    with pytest.raises(AccountingMismatch):  # too much stated
        recheck(dataclasses.replace(c, guarantee=dataclasses.replace(c.guarantee, epsilon=1.1)))


def test_a_gaussian_draw_cannot_be_rechecked_as_pure() -> None:
    c = calibrate(Repeat(g("b"), 3), APPROX)
    with pytest.raises(AccountingMismatch, match="delta 0"):
        recheck(dataclasses.replace(c, guarantee=Guarantee("pure", epsilon=100.0, delta=0.0)))


# ------------------------------------------------------------------------------------------------------------------- a plan

SPEC = """analysis "parts"

data
  n = 2000, d = 5
  from memory target "y"
  private, unit person, neighbours {relation}
  x in ball(l2, 1) by scale
  y in {{-1, 1}} by map(0 -> -1, 1 -> 1)

privacy central
  {budget}
"""
PURE = "release {0}\n  minimise logistic over ball(l1, 1)\n  by dp-frank-wolfe with T = 1, selection = laplace\n  part {1}\n"
GRADIENT = "release {0}\n  minimise logistic over ball(l2, 1)\n  by dp-gd with T = 10\n  part {1}\n"
OBJECTIVE = "release {0}\n  minimise logistic + 0.1/2*|w|^2 over ball(l2, 1)\n  by objective-perturbation\n  part {1}\n"
OUTPUT = "release {0}\n  minimise logistic + 0.1/2*|w|^2 over ball(l2, 1)\n  by output-perturbation\n  part {1}\n"


def planned(bodies: tuple[str, ...], budget: str = "epsilon = 1, delta = 1e-6", relation: str = "replace-one"):
    from dpspec.compiler.plan import make_plan
    from dpspec.lang.source import parse_text

    share = f"1/{len(bodies)}"
    text = SPEC.format(budget=budget, relation=relation) + "\n".join(body.format("abc"[i], share) for i, body in enumerate(bodies))
    return make_plan(parse_text(text, path="parts.dps", surface="dps"))


@dataclass(frozen=True)
class Expected:
    kind: str
    delta: float
    has_mu: bool


@pytest.mark.parametrize("relation", ["replace-one", "zero-out"])
@pytest.mark.parametrize(
    ("bodies", "expected"),
    [
        ((PURE, OBJECTIVE), Expected("approx", 1e-6, False)),
        ((OBJECTIVE, PURE), Expected("approx", 1e-6, False)),
        ((PURE, GRADIENT), Expected("approx", 1e-6, False)),
        ((PURE, OUTPUT, GRADIENT), Expected("approx", 1e-6, False)),
        ((GRADIENT, OUTPUT), Expected("approx", 1e-6, True)),
        ((PURE, PURE), Expected("pure", 0.0, False)),
        ((PURE,), Expected("pure", 0.0, False)),
    ],
)
def test_the_plan_states_the_worst_of_its_parts(bodies: tuple[str, ...], expected: Expected, relation: str) -> None:
    plan = planned(bodies, relation=relation)
    stated = plan.guarantee
    assert (stated.kind, stated.mu is not None) == (expected.kind, expected.has_mu)
    assert stated.epsilon == pytest.approx(1, rel=1e-6)
    assert (stated.delta or 0.0) == pytest.approx(expected.delta, rel=1e-12)
    assert stated.checked_epsilon == pytest.approx(1, rel=3e-3)
    # the sentences about attackers: with a pure part at epsilon 1 the best attack has advantage tanh(1/2) = 46.21 %, rounded up
    if not expected.has_mu:
        assert "46.3%" in plan.risk[1]
    for release in plan.releases:
        assert (release.calibrated.guarantee.epsilon or 0) <= 1 + 1e-9, "the whole budget each, and no more"
