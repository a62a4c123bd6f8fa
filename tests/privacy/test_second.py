"""The second accountant agrees with the first, and notices when a plan is wrong."""

from __future__ import annotations

import dataclasses
import math
import subprocess
import sys
from dataclasses import dataclass
from fractions import Fraction

import pytest

from dpspec.privacy.calibrate import Budget, Calibrated, calibrate
from dpspec.privacy.schedule import Disjoint, Draw, Family, Norm, Repeat, Sampled, Sequence, Tree
from dpspec.privacy.second import AccountingMismatch, gaussian_epsilon, recheck, to_dp_event


@dataclass(frozen=True)
class Fake:
    family: Family = "gaussian"
    sensitivity: float = 1.0
    removal: float | None = None
    kind: str = "fake"
    norm: Norm = "l2"
    size: int = 1
    reference: str = "test"

    def scale(self, level: float) -> float:
        return level * self.sensitivity


def draw(name: str = "g", family: Family = "gaussian", **more: float) -> Draw:
    return Draw(name, Fake(family, **more))


APPROX = Budget(epsilon=1, delta=1e-6)
CASES: dict[str, tuple[Tree, Budget, str]] = {
    "gaussian": (Repeat(draw(), 30), APPROX, "replace-one"),
    "gaussian, tiny delta": (Repeat(draw(), 30), Budget(epsilon=1, delta=1e-25), "replace-one"),
    "gaussian, two scales": (Sequence((Repeat(draw("a"), 7), Disjoint(draw("b"), 9))), APPROX, "replace-one"),
    "laplace": (Repeat(draw("g", "laplace"), 50), APPROX, "replace-one"),
    "laplace, tiny delta": (Repeat(draw("g", "laplace"), 50), Budget(epsilon=1, delta=1e-20), "replace-one"),
    "one laplace": (draw("g", "laplace"), Budget(epsilon=0.5, delta=1e-3), "replace-one"),
    "pure steps": (Repeat(draw("g", "pure"), 50), APPROX, "replace-one"),
    "exponential": (Repeat(draw("g", "bounded-range"), 50), APPROX, "replace-one"),
    "mixed": (Sequence((Repeat(draw(), 10), draw("l", "laplace"), Repeat(draw("e", "bounded-range"), 5))), APPROX, "replace-one"),
    "poisson": (Repeat(Sampled(draw(), "poisson", 0.02, 1000), 50), APPROX, "add-remove"),
    "poisson laplace": (Repeat(Sampled(draw("g", "laplace"), "poisson", 0.02, 1000), 50), APPROX, "add-remove"),
    "poisson exponential": (Repeat(Sampled(draw("g", "bounded-range"), "poisson", 0.1, 1000), 50), APPROX, "zero-out"),
    "poisson, replace-one": (Repeat(Sampled(draw(removal=0.5), "poisson", 0.02, 1000), 50), APPROX, "replace-one"),
    "fixed": (Repeat(Sampled(draw(), "fixed", 0.02, 1000), 50), APPROX, "replace-one"),
    "fixed, two draws a sample": (Repeat(Sampled(Sequence((draw("a"), draw("b"))), "fixed", 0.1, 100), 20), APPROX, "replace-one"),
    "fixed, mixed draws a sample": (
        Repeat(Sampled(Sequence((draw("a"), draw("b", "laplace"))), "fixed", 0.1, 100), 20),
        APPROX,
        "replace-one",
    ),
    "pure budget": (Sequence((Repeat(draw("a", "laplace"), 5), draw("b", "pure"))), Budget(epsilon="0.7"), "replace-one"),
    "pure budget, sampled": (Repeat(Sampled(draw("a", "laplace"), "fixed", 0.1, 100), 5), Budget(epsilon=1), "replace-one"),
    "rho": (Sequence((Repeat(draw(), 10), draw("e", "bounded-range"))), Budget(rho="0.1", delta=1e-6), "replace-one"),
    "mu": (Sequence((Repeat(draw(), 10), draw("e", "pure"))), Budget(mu="0.3"), "replace-one"),
}


@pytest.mark.parametrize("name", CASES)
def test_two_accountants_agree(name: str) -> None:
    tree, budget, neighbours = CASES[name]
    c = calibrate(tree, budget, neighbours=neighbours)  # type: ignore[arg-type]
    again = recheck(c)
    if c.guarantee.epsilon is not None:
        assert again.epsilon == pytest.approx(c.guarantee.epsilon, rel=3e-3)
    assert again.accountant


@pytest.mark.parametrize(
    ("mu", "delta"), [(1e-4, 1e-12), (0.01, 1e-6), (0.3, 0.01), (0.3, 1e-30), (1.0, 1e-6), (5.0, 1e-9), (200.0, 1e-20), (3.0, 0.9)]
)
def test_quadrature_of_gaussians_agrees_with_the_closed_form_of_the_library(mu: float, delta: float) -> None:
    from dp_accounting.gaussian_mechanism import get_epsilon_gaussian

    assert gaussian_epsilon(mu, delta) == pytest.approx(float(get_epsilon_gaussian(1 / mu, delta)), rel=1e-8, abs=1e-11)


@pytest.mark.parametrize(("level", "steps", "delta"), [(20.0, 30, 1e-6), (4.0, 3, 1e-9)])
def test_quadrature_of_gaussians_agrees_with_composed_losses_of_the_library(level: float, steps: int, delta: float) -> None:
    from dp_accounting.pld import privacy_loss_distribution as library

    one = library.from_gaussian_mechanism(level, value_discretization_interval=1e-3 / steps)
    composed = one.self_compose(steps).get_epsilon_for_delta(delta)
    assert gaussian_epsilon(math.sqrt(steps) / level, delta) == pytest.approx(composed, rel=2.5e-3)


def test_quadrature_of_gaussians_at_its_ends() -> None:
    assert gaussian_epsilon(0.0, 1e-6) == 0
    assert gaussian_epsilon(0.1, 0.5) == 0  # their total variation is less
    assert gaussian_epsilon(math.inf, 1e-6) == gaussian_epsilon(1.0, 0.0) == math.inf


def wrong(c: Calibrated, **changes: object) -> None:
    with pytest.raises(AccountingMismatch):
        recheck(dataclasses.replace(c, **changes))  # type: ignore[arg-type]


def scaled(c: Calibrated, factor: float) -> dict[str, float]:
    """Noise multiplied by ``factor``: levels of Gaussian and Laplace draws rise with noise, those of pure draws fall."""
    less = {name: leaf.draw.mechanism.family in ("gaussian", "laplace") for name, (leaf, _) in c.events().items()}
    return {name: level * factor if less[name] else level / factor for name, level in c.levels.items()}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("factor", [0.5, 0.97, 1.05])
def test_changed_noise_is_noticed(name: str, factor: float) -> None:
    """Half the noise, 3 % less, and 5 % more (a plan that says less than is true is wrong too)."""
    tree, budget, neighbours = CASES[name]
    c = calibrate(tree, budget, neighbours=neighbours)  # type: ignore[arg-type]
    wrong(c, levels=scaled(c, factor))


@pytest.mark.parametrize("name", ["gaussian", "laplace", "pure steps", "exponential", "poisson", "fixed", "pure budget"])
def test_one_repetition_more_or_less_is_noticed(name: str) -> None:
    tree, budget, neighbours = CASES[name]
    c = calibrate(tree, budget, neighbours=neighbours)  # type: ignore[arg-type]

    def recounted(t: Tree, by: int) -> Tree:
        if isinstance(t, Sequence):
            return Sequence((recounted(t.parts[0], by), *t.parts[1:]))
        assert isinstance(t, Repeat)
        return Repeat(t.body, t.count + by)

    by = 2 if name == "pure steps" else 1  # an odd step of a loss of +-epsilon0 hardly moves the sum off its lattice: 0.2 %
    wrong(c, tree=recounted(tree, by))
    wrong(c, tree=recounted(tree, -by))


def test_parallel_composition_taken_for_sequential_is_noticed_and_the_other_way() -> None:
    c = calibrate(Disjoint(draw(), 4), APPROX)
    wrong(c, tree=Repeat(draw(), 4))
    wrong(calibrate(Repeat(draw(), 4), APPROX), tree=Disjoint(draw(), 4))


def test_a_swapped_relation_is_noticed() -> None:
    """Calibrated for add-remove, run under replace-one: the sampled sum moves in two opposite directions."""
    tree = Repeat(Sampled(draw(removal=1.0), "poisson", 0.02, 1000), 50)
    wrong(calibrate(tree, APPROX, neighbours="add-remove"), neighbours="replace-one")
    half = Repeat(Sampled(draw(removal=0.5), "poisson", 0.02, 1000), 50)
    wrong(calibrate(half, APPROX, neighbours="replace-one"), neighbours="add-remove")


def test_a_sampler_that_did_not_run_is_noticed() -> None:
    c = calibrate(CASES["fixed"][0], APPROX)
    wrong(c, tree=Repeat(draw(), 50))
    wrong(c, tree=Repeat(Sampled(draw(), "fixed", 0.03, 1000), 50))
    wrong(c, tree=Sampled(Repeat(draw(), 50), "fixed", 0.02, 1000))  # one sample for all fifty


def test_a_bounded_range_claim_for_a_pure_mechanism_is_noticed() -> None:
    c = calibrate(Repeat(draw("g", "bounded-range"), 50), APPROX)
    wrong(c, tree=Repeat(draw("g", "pure"), 50))


def test_a_guarantee_above_its_budget_is_noticed() -> None:
    c = calibrate(Repeat(draw(), 30), Budget(epsilon=2, delta=1e-6))
    wrong(c, budget=APPROX)


def test_the_event_tree_of_google() -> None:
    import dp_accounting as da

    tree = Sequence((Repeat(Sampled(draw("a"), "poisson", 0.1, 100), 5), Disjoint(draw("b", "laplace"), 9), draw("c", "bounded-range")))
    event = to_dp_event(tree, {"a": 1.5, "b": 2.0, "c": 0.5})
    assert event == da.ComposedDpEvent(
        [
            da.SelfComposedDpEvent(da.PoissonSampledDpEvent(0.1, da.GaussianDpEvent(1.5)), 5),
            da.LaplaceDpEvent(2.0),
            da.ZCDpEvent(0.03125),
        ]
    )
    response = to_dp_event(draw("d", "pure"), {"d": 0.8})
    kept = 1 - response.noise_parameter + response.noise_parameter / 2
    assert math.log(kept / (1 - kept)) == pytest.approx(0.8)


def test_the_library_forgets_repetitions_of_randomised_response() -> None:
    """Why compositions are assembled here: dp_accounting 0.6.0 reports one step for a hundred. When this fails, the note can go."""
    import dp_accounting as da
    from dp_accounting import pld

    one = da.RandomizedResponseDpEvent(0.9, 2)
    relation = da.NeighboringRelation.REPLACE_ONE
    single, many = pld.PLDAccountant(relation), pld.PLDAccountant(relation)
    single.compose(one)
    many.compose(da.SelfComposedDpEvent(one, 100))
    assert many.get_epsilon(1e-6) == single.get_epsilon(1e-6)


def test_calibration_alone_does_not_import_the_second_accountant() -> None:
    program = (
        "import sys\n"
        "from dpspec.privacy.calibrate import Budget, calibrate\n"
        "import dpspec.privacy.second, dpspec.privacy.risk, dpspec.privacy.published\n"
        "print([m for m in ('dp_accounting', 'scipy', 'numpy', 'sympy') if m in sys.modules])\n"
    )
    out = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


def test_budget_in_text_is_compared_exactly() -> None:
    c = calibrate(draw("a", "pure"), Budget(epsilon=Fraction(1, 3)))
    assert Fraction(c.levels["a"]) <= Fraction(1, 3)
    assert recheck(c).epsilon == pytest.approx(1 / 3)


@pytest.mark.parametrize("count", [16, 40])
def test_below_the_floor_the_best_accountant_may_be_zcdp_and_is_compared_as_such(count: int) -> None:
    """Many exponential mechanisms beside a Gaussian draw at delta 1e-12: at the delta of the comparison epsilon^2/8 of zCDP each is less
    than what their privacy-loss distributions add up to, and the plan was called an internal error."""
    from dpspec.privacy.mechanisms.exponential import Exponential
    from dpspec.privacy.mechanisms.gaussian import Gaussian

    tree = Sequence((Repeat(Draw("a", Exponential(1.0, 5), "run", 1.0), count), Draw("b", Gaussian(3.0), "run", 0.1)))
    found = calibrate(tree, Budget(epsilon=0.1, delta=1e-12))
    assert recheck(found).epsilon == pytest.approx(0.1, rel=2.5e-3)
    with pytest.raises(AccountingMismatch):
        recheck(dataclasses.replace(found, levels={**found.levels, "a": found.levels["a"] * 1.02}))
