"""ldp-kernel-ridge-rff: how far a message moves, the ridge against SciPy, errors against the reference, and the printed noise."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.optimize import minimize

from dpspec.algorithms.card import Problem
from dpspec.algorithms.nldp_erm import ldp_kernel_ridge_rff as module
from dpspec.algorithms.nldp_erm.random_fourier_features import features, frequencies
from dpspec.compiler.passes import compile_draft
from dpspec.data.records import Records
from dpspec.lang.source import parse_text
from dpspec.privacy.meter import Release
from dpspec.privacy.noise import PublicRandomness, StudyNoise
from dpspec.privacy.schedule import draws
from dpspec.spec.expr import num
from dpspec.spec.model import Regress
from dpspec.tasks import kernel_regression as task
from tests import leak
from tests.algorithms.nldp_erm.test_ldp_l1_mean import exact_epsilon
from tests.algorithms.nldp_erm.test_ldp_mean import Silent, budget
from tests.algorithms.support import plan, tunables

NASTY = [0.0, 1.0, -1e6, 1.7e308, math.inf, math.nan]


def problem(n: int, d: int, epsilon: float = 1.0, gamma: float = 1.0, kernel: str = "rbf") -> Problem:
    known = {"n": n, "d": d, "epsilon": epsilon, "delta": 1e-6, "y_abs": 1.0, "gamma": gamma}
    return Problem("nldp", "replace-one", Regress(kernel=kernel, args=(num(1),)), known)


def run(p: Problem, t, x: np.ndarray, y: np.ndarray, seed: int) -> np.ndarray:
    release = Release(plan(module, p, t, budget(p)), StudyNoise(seed), mode="study", public=PublicRandomness(seed))
    model = module.run(Records(x, y), p, t, release).theta
    release.close()
    return model


# ------------------------------------------------------------------------------------------------------------------ privacy


def test_no_record_moves_a_message_by_more_than_its_sensitivity():
    """Both parts of the message before the noise in exact fractions, hostile records and responses; mu^2 of the pair is the budget's."""
    p = problem(10, 2)
    t = tunables(module, p, pairs=2)
    s = frequencies("rbf", 1.0, 2, 2, np.random.default_rng(0))
    rows = list(itertools.product(NASTY, repeat=2))
    x, y = np.array([r for r in rows for _ in (0, 1, 2)]), np.array([v for _ in rows for v in (1e9, -1e9, math.nan)])
    (block,) = module.mapped(Records(x, y), s)
    c = plan(module, p, t, budget(p))
    spent = 0.0
    for name, leaf in draws(module.schedule(p, t)).items():
        channel = leaf.draw.mechanism
        sent = {tuple(Fraction(float(v)) for v in row) for row in np.atleast_2d(channel.encode(block, 1e-200, Silent()))}
        largest = max(sum((a - b) ** 2 for a, b in zip(u, v, strict=True)) for u in sent for v in sent)
        assert largest <= Fraction(channel.sensitivity) ** 2
        assert largest >= Fraction(9, 10) * Fraction(channel.sensitivity) ** 2 or name == "moment"
        spent += (channel.sensitivity / c.scale(name)) ** 2
    assert exact_epsilon(math.sqrt(spent), 1e-6) == pytest.approx(1.0, rel=1e-3)
    phi = features(np.array([[0.3, 0.4]]), s)[0]  # as printed y is not clipped: y = 10 against -10, noise for |y| <= 1
    leak.moved(float(np.linalg.norm(10 * phi + 10 * phi)), 2.0)


def test_the_printed_noise_is_half_of_what_is_needed():
    """Algorithm 1 at (epsilon/2, delta/2) for phi and for y, noise for sensitivity 1, vectors that differ by 2: each half spends more than
    its 1/2, and both together more than 1."""
    epsilon, delta = 1.0, 1e-6
    scale = math.sqrt(2 * math.log(1.25 / (delta / 2))) / (epsilon / 2)
    assert exact_epsilon(2 / scale, delta / 2) > 1.4 * epsilon / 2
    assert exact_epsilon(math.hypot(2 / scale, 2 / scale), delta) > 1.05 * epsilon
    leak.epsilon(exact_epsilon(math.hypot(2 / scale, 2 / scale), delta), epsilon, delta)


def test_products_have_less_noise_than_copies():
    """The noise of an entry of S at one budget: sd of the product channel against sigma^2 of (phi + N)(phi + N)^T."""
    ratios = []
    for epsilon in (0.25, 1.0):
        p = problem(1000, 2, epsilon)
        t = tunables(module, p)
        c = plan(module, p, t, budget(p))
        mu = math.hypot(math.sqrt(2) * module.RADIUS**2 / c.scale("moment"), 2 * module.RADIUS * t.tau / c.scale("xy"))
        copies = (2 * math.sqrt(2) / mu) ** 2  # one joint draw of (phi, y)
        ratios.append(copies / c.scale("moment"))
    assert ratios[1] > 5
    assert ratios[0] == pytest.approx(4 * ratios[1], rel=0.1)  # epsilon^-2 against epsilon^-1


# ------------------------------------------------------------------------------------------------------------------- answers


def test_the_ridge_is_the_minimiser():
    g = np.random.default_rng(1)
    a = g.normal(size=(6, 6))
    second, cross = a + a.T, g.normal(size=6)
    values, vectors = np.linalg.eigh(second)
    positive = vectors @ np.diag(np.maximum(values, 0)) @ vectors.T

    def risk(w: np.ndarray) -> float:
        return float(3.0 * (w @ positive @ w / 2 - cross @ w) + w @ w / 2)

    assert module.solved(second, cross, 3.0) == pytest.approx(minimize(risk, np.zeros(6), tol=1e-12).x, abs=1e-5)


def test_without_the_ridge_there_is_no_minimum():
    """Printed: the part of S above 0 is singular, and b has a part in its null space, along which the objective falls without end."""
    g = np.random.default_rng(2)
    x = g.uniform(-1, 1, (500, 1))
    phi = features(x, frequencies("rbf", 1.0, 20, 1, g))
    noise = g.normal(size=(40, 40))
    values, vectors = np.linalg.eigh(phi.T @ phi / 500 + (noise + noise.T) / 20)
    b = phi.T @ np.sin(x[:, 0]) / 500 + g.normal(size=40) / 20
    lost = vectors[:, values <= 0]
    assert lost.shape[1] > 5
    assert np.linalg.norm(lost.T @ b) > 0.2 * np.linalg.norm(b)


def data(n: int, d: int = 1) -> tuple[np.ndarray, np.ndarray]:
    g = np.random.default_rng(3)
    x = g.uniform(-1, 1, (n, d))
    return x, np.sin(3 * x[:, 0]) / 2 + 0.05 * g.normal(size=n)


def test_a_large_budget_gives_the_reference_and_a_small_one_beats_the_constant():
    x, y = data(100_000)
    wide = problem(100_000, 1, 1e8)
    fine = run(wide, tunables(module, wide, pairs=30), x, y, 0)
    reference, _ = task.reference(Records(x, y), wide, {})
    trial = task.TASK.trial(Records(x, y), wide, {}, reference)
    best = task.training_error(reference, trial)
    assert best == pytest.approx(0.05**2, rel=0.05)
    assert task.training_error(fine, trial) < 1.1 * best
    p = problem(100_000, 1, 4.0)
    errors = [task.training_error(run(p, tunables(module, p), x, y, seed), trial) for seed in range(3)]
    assert max(errors) < 0.7 * float(np.mean(y**2)) == pytest.approx(0.7 * task.training_error(task.TASK.trivial(p), trial), rel=0.05)


def test_what_is_released_is_the_function():
    """f from the table by hand."""
    x, y = data(1000, 2)
    p = problem(1000, 2, 4.0)
    t = tunables(module, p, pairs=3)
    model = run(p, t, x, y, 1)
    named = task.arrays(type("E", (), {"theta": model}), p)
    assert named["frequencies"].shape == (3, 2)
    s, w = named["frequencies"], named["weights"]
    by_hand = [sum(w[j, 0] * math.cos(s[j] @ v) + w[j, 1] * math.sin(s[j] @ v) for j in range(3)) / math.sqrt(3) for v in x[:5]]
    assert task.predictions(model, x[:5], 2) == pytest.approx(by_hand)


SPEC = """analysis "curve"
data
  n = 50_000, d = 2
  from memory
  private, unit person, neighbours replace-one
  x in [-1, 1] by clip
  y in [-1, 1] by clip
privacy nldp
  epsilon = 4{delta}
release curve
  regress y on kernel({kernel})
  by auto
"""


@pytest.mark.parametrize(
    ("kernel", "delta", "said"),
    [
        ("rbf, 1/2", ", delta = 1e-6", None),
        ("laplacian", ", delta = 1e-6", None),
        ("cubic, 1", ", delta = 1e-6", "no kernel cubic: rbf and laplacian are known"),
        ("rbf, 1, 2", ", delta = 1e-6", "takes one parameter"),
        ("rbf, 1", "", "delta"),
    ],
)
def test_kernels_and_budgets(kernel, delta, said):
    draft = compile_draft(parse_text(SPEC.format(kernel=kernel, delta=delta), surface="dps"), least="missed")
    if said is None:
        assert draft.releases[0].module is module
    else:
        assert any(said in f"{d.message} {d.help}" for d in draft.diagnostics), draft.diagnostics
