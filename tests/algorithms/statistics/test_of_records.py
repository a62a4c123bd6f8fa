"""Mean, centred covariance, subspace and least squares of records: sensitivities over hostile pairs, truth, and what noise hides."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dpspec.algorithms.statistics import dp_centred_covariance, dp_least_squares, dp_mean
from dpspec.compiler.passes import compile_draft
from dpspec.data.records import Records
from dpspec.executor import bind
from dpspec.executor.study import study
from dpspec.lang.source import parse_text
from dpspec.privacy.meter import Release
from dpspec.privacy.noise import PublicRandomness, StudyNoise

SPEC = """analysis "records"
data
  n = {n}, d = {d}
  from memory
  private, unit person, neighbours {relation}
  x in {x}
  y in [-2, 2] by clip
privacy central
  {budget}
release r
  estimate {what}
  {by}
{more}"""
BALL, BOX = "ball(l2, 1) by scale", "box(0, 1) by clip"


APPROX = "epsilon = 1, delta = 1e-6"


def drafted(what: str, relation: str = "replace-one", budget: str = APPROX, x: str = BALL, by: str = "", n: int = 2000, more: str = ""):
    text = SPEC.format(what=what, relation=relation, budget=budget, x=x, by=by, n=n, d=3, more=more)
    found = compile_draft(parse_text(text, surface="dps"))
    assert [e.message for e in found.diagnostics if e.severity == "error"] == []
    return found


def released(found, records: Records, seed: int):
    records, _ = bind.enforced(found, records)
    r = found.releases[0]
    meter = Release(r.calibrated, StudyNoise(seed), mode="study", public=PublicRandomness(0))
    return r.module.run(records, bind.bound_problem(found, r), r.tunables, meter)


@pytest.mark.parametrize("relation", ["replace-one", "add-remove"])
@pytest.mark.parametrize("a", [0.1, 0.5, 1.0])
def test_augmented_second_moments_of_a_ball_are_apart_by_the_sensitivity(relation: str, a: float) -> None:
    """|z z^T - z' z'^T|_F over pairs at every angle and length, against sqrt(2)(r^2 + a^2), which <x, x'> = -a^2 attains."""
    angles, sizes = np.linspace(0, np.pi, 361), (0.0, 0.3, 0.7, 1.0)
    rows = [np.array([s * math.cos(t), s * math.sin(t), a]) for s in sizes for t in angles]
    first = np.array([1.0, 0.0, a])
    if relation == "add-remove":
        worst, bound = max(np.linalg.norm(np.outer(z, z)) for z in rows), 1 + a * a
    else:
        worst = max(np.linalg.norm(np.outer(first, first) - np.outer(z, z)) for z in rows)
        bound = math.sqrt(2) * (1 + a * a)
    assert worst <= bound * (1 + 1e-12)
    assert worst >= 0.999 * bound
    problem = drafted("covariance(x)", relation, by="by dp-centred-covariance").releases[0].problem
    planned = dp_centred_covariance.symmetric.mechanism(problem, problem.d + 1, math.hypot(1, a))
    assert bound <= planned.sensitivity * problem.n <= bound * (1 + 1e-6)


@pytest.mark.parametrize(
    ("x", "relation", "budget", "kind"),
    [
        (BALL, "replace-one", "epsilon = 1", "norm-laplace"),
        (BOX, "replace-one", "epsilon = 1", "cube-norm"),
        (BOX, "add-remove", "epsilon = 1", "cube-norm"),
        (BALL, "replace-one", "rho = 0.5", "gaussian"),
    ],
)
def test_the_mean_has_the_noise_of_its_domain(x: str, relation: str, budget: str, kind: str) -> None:
    found = drafted("mean(x)", relation, budget, x, n=400)
    release = found.releases[0]
    assert (release.module.CARD.id, release.tree.mechanism.kind) == ("dp-mean", kind)
    rng = np.random.default_rng(3)
    records = Records(rng.uniform(0, 0.5, (400, 3)), np.zeros(400))
    truth, runs = records.x.mean(axis=0), [released(found, records, seed) for seed in range(120)]
    errors = np.array([e.theta - truth for e in runs])
    assert abs(errors.mean()) < 5 * errors.std() / math.sqrt(errors.size)
    assert errors.std() == pytest.approx(np.median([e.extras["standard_error"] for e in runs]), rel=0.25)
    covered = np.mean([(e.extras["low"] <= truth) & (truth <= e.extras["high"]) for e in runs])
    assert covered >= 0.9


def test_a_count_that_is_private_is_never_divided_by() -> None:
    """Twice as many records as n says: the mean is the same, where a sum over n would be twice as large."""
    found = drafted("mean(x)", "add-remove", "epsilon = 4", BOX, n=500)
    records = Records(np.full((1000, 3), 0.9), np.zeros(1000))
    assert released(found, records, 1).theta == pytest.approx(0.9, abs=0.05)
    assert dp_mean.weight(found.releases[0].problem) > 0


CONSTANT = "\nsimulate\n  x ~ uniform(0, 1)\n  y ~ uniform(0, 1)\n"


def test_a_constant_has_no_covariance() -> None:
    """(0.5, 0.5, 0.5) in every record: the uncentred second moment has 0.25 in every entry."""
    found = drafted("covariance(x)", x=BOX, n=50_000, more=CONSTANT)
    assert found.releases[0].module.CARD.id == "dp-centred-covariance"
    assert found.releases[0].problem.task.what == "covariance"  # not renamed
    estimate = released(found, Records(np.full((50_000, 3), 0.5), np.zeros(50_000)), 1)
    assert np.abs(estimate.theta).max() < 0.005
    assert estimate.extras["mean"] == pytest.approx(0.5, abs=0.005)


def test_the_covariance_of_a_uniform_law_is_a_twelfth() -> None:
    spec = SPEC.format(
        what="covariance(x)", relation="replace-one", budget="epsilon = 1, delta = 1e-6", x=BOX, by="", n=100_000, d=2, more=CONSTANT
    )
    body = study(parse_text(spec, surface="dps"), trials=2, seed=1, workers=1).to_json()
    (point,) = body["points"]
    assert point["algorithm"] == "dp-centred-covariance"
    assert point["error"]["mean"] < 0.05  # relative to I/12, not to a second moment of norm 0.58


def test_a_covariance_is_still_the_uncentred_one_where_its_mean_is_said_to_be_0() -> None:
    found = drafted("covariance(x)", more="\nassume\n  centred of x\n")
    assert found.releases[0].problem.task.what == "covariance"
    named = drafted("covariance(x)", by="by dp-covariance-gaussian")
    assert named.releases[0].module.CARD.id == "dp-covariance-gaussian"


def test_standard_errors_of_covariances_are_those_of_the_noise() -> None:
    rng = np.random.default_rng(5)
    x = rng.uniform(0.1, 0.6, (3000, 3)) * [1, 0.8, 0.5]
    for relation in ("replace-one", "add-remove"):
        found = drafted("covariance(x)", relation, n=3000, by="by dp-centred-covariance with psd = off")
        runs = [released(found, Records(x, np.zeros(3000)), seed) for seed in range(150)]
        spread = np.std([e.theta for e in runs], axis=0)
        assert spread == pytest.approx(np.median([e.extras["standard_error"] for e in runs], axis=0), rel=0.25)
        truth = np.cov(x.T, bias=True)
        assert np.mean([(e.extras["low"] <= truth) & (truth <= e.extras["high"]) for e in runs]) >= 0.9


def test_the_subspace_is_that_of_the_strong_directions() -> None:
    rng = np.random.default_rng(6)
    x = rng.normal(size=(4000, 3)) * [0.5, 0.3, 0.01]
    for budget in ("epsilon = 1", "epsilon = 1, delta = 1e-6", "rho = 0.1"):
        basis = released(drafted("subspace(x, 2)", budget=budget, n=4000, by="by dp-pca"), Records(x, np.zeros(4000)), 1).theta
        assert basis.shape == (3, 2)
        assert basis.T @ basis == pytest.approx(np.eye(2))
        assert np.abs(basis[2]).max() < 0.3


def risk(theta: np.ndarray, x: np.ndarray, y: np.ndarray) -> float:
    return float(np.mean((y - x @ theta) ** 2))


@pytest.mark.parametrize("budget", ["epsilon = 1", "epsilon = 1, delta = 1e-6", "epsilon = 0.01, delta = 1e-6"])
def test_least_squares_is_no_worse_than_zero(budget: str) -> None:
    """Over 40 runs, where noise hides the signal too."""
    rng = np.random.default_rng(8)
    x = rng.normal(size=(2000, 3)) * 0.3
    y = np.clip(x @ [1.0, -0.5, 0.2] + 0.05 * rng.normal(size=2000), -2, 2)
    found = drafted("theta in y = <theta, x> + noise", budget=budget, by="by dp-least-squares")
    enforced, _ = bind.enforced(found, Records(x, y))
    risks = [risk(released(found, Records(x, y), seed).theta, enforced.x, enforced.y) for seed in range(40)]
    assert np.mean(risks) <= 1.02 * risk(np.zeros(3), enforced.x, enforced.y)
    if "0.01" not in budget and "delta" in budget:
        assert np.mean(risks) < 0.2 * risk(np.zeros(3), enforced.x, enforced.y)


def test_zero_is_the_answer_where_there_is_noise_alone() -> None:
    noise = np.random.default_rng(2)
    zeros = 0
    for _ in range(200):
        e = noise.normal(size=(4, 4))
        theta, _ = dp_least_squares.solved((e + e.T)[:3, :3] / 2, e[3, :3], 1.0, 1 / math.sqrt(2))
        zeros += not theta.any()
    assert zeros > 20


def test_it_is_chosen_without_a_word_of_sparsity() -> None:
    assert drafted("theta in y = <theta, x> + noise").releases[0].module.CARD.id == "dp-least-squares"
