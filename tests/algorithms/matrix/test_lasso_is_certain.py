"""The graphical lasso of dp-precision-output ends alike for every data set: within its public tolerance, in a public number of steps."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import dpspec as dp
from dpspec.algorithms.matrix import _lasso
from dpspec.algorithms.matrix._lasso import Band, within
from dpspec.spec.diagnostics import SpecError

SPEC = """analysis "a precision matrix"

data
  n = 40, d = 3
  from memory
  private, unit person, neighbours replace-one
  x in ball(l2, 1) by scale

privacy central
  epsilon = 1, delta = 1e-5

release theta
  estimate precision(x)
  by dp-precision-output with penalty = 1/2
"""


def diagonal(d: int, rho: float) -> tuple[np.ndarray, np.ndarray]:
    """A diagonal S: Theta* = 1/(S_ii + rho) on the diagonal (by hand)."""
    entries = np.linspace(0, 1, d) ** 3
    return np.diag(entries), np.diag(1 / (entries + rho))


def pair(rho: float, c: float) -> tuple[np.ndarray, np.ndarray]:
    """Two coordinates: the inverse of S with rho on its diagonal and rho off its entry c (by hand, where |c| > rho)."""
    s = np.array([[0.5, c], [c, 0.5]])
    return s, np.linalg.inv(np.array([[0.5 + rho, c - rho], [c - rho, 0.5 + rho]]))


CASES = {
    "nothing": (np.zeros((4, 4)), np.eye(4) / 0.1, 0.1),
    "diagonal": (*diagonal(4, 0.05), 0.05),
    "alike": (*pair(0.1, 0.5), 0.1),
    "fine penalty": (*pair(0.01, 0.3), 0.01),
}


@pytest.mark.parametrize("quick", [True, False])
@pytest.mark.parametrize("name", CASES)
def test_a_known_minimiser_is_reached_from_both_starts(name: str, quick: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    s, exact, rho = CASES[name]
    band = Band(len(s), rho, 1.0, len(s) / rho)
    low, high = np.linalg.eigvalsh(exact)[[0, -1]]
    assert band.low <= low
    assert high <= band.high
    tolerance = 2 * band.reach(1e-6)[0]
    if not quick:

        def never(*a: object, **k: object) -> None:
            raise np.linalg.LinAlgError("no")

        monkeypatch.setattr(_lasso, "graphical_lasso", never)
    assert np.linalg.norm(within(s, band, tolerance) - exact) <= tolerance


def test_the_course_alone_ends_after_its_steps_and_within_its_tolerance(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the certificate that ends it sooner."""
    s, exact, rho = CASES["alike"]
    band, steps = Band(2, rho, 1.0, 2 / rho), []
    slope = Band.slope
    monkeypatch.setattr(Band, "slope", lambda self, s, z: (steps.append(1), slope(self, s, z))[1])
    monkeypatch.setattr(_lasso, "graphical_lasso", lambda *a, **k: (_ for _ in ()).throw(ValueError("no")))
    follow = _lasso.follow
    monkeypatch.setattr(_lasso, "follow", lambda c, g, p, start, done: follow(c, g, p, start))
    _, course = band.reach(1e-5)
    assert course is not None
    assert np.linalg.norm(within(s, band, 1e-5) - exact) <= 1e-5
    assert len(steps) == course.steps


def test_outside_the_band_the_slope_goes_on_by_its_curvatures() -> None:
    band = Band(2, 0.5, 1.0, 4.0)
    z = np.diag([band.low / 2, 6.0])
    expected = np.diag([-1 / band.low - 0.5 / band.low, -1 / 4 + 2 / 16])
    assert np.allclose(band.slope(np.zeros((2, 2)), z), expected, rtol=1e-13)
    inside = np.array([[1.0, 0.3], [0.3, 2.0]])
    assert np.allclose(band.slope(np.eye(2), inside), np.eye(2) - np.linalg.inv(inside), rtol=1e-13)


def test_the_rounding_of_a_slope_is_within_what_is_counted() -> None:
    """Against 60 digits."""
    import mpmath as mp

    rng = np.random.default_rng(0)
    mp.mp.dps = 60
    for d, rho in ((3, 0.1), (6, 0.01)):
        band = Band(d, rho, 1.0, d / rho)
        for _ in range(5):
            q, _ = np.linalg.qr(rng.standard_normal((d, d)))
            z = (q * np.exp(rng.uniform(np.log(band.low), np.log(band.high), d))) @ q.T
            z = (z + z.T) / 2
            exact = -(mp.matrix(z.tolist()) ** -1)
            found = band.slope(np.zeros((d, d)), z)
            wrong = mp.sqrt(sum((mp.mpf(float(found[i, j])) - exact[i, j]) ** 2 for i in range(d) for j in range(d)))
            assert wrong <= band.rounding(float(np.linalg.norm(z)))


HOSTILE = {
    "zeros": lambda n, d: np.zeros((n, d)),
    "one direction": lambda n, d: np.tile(np.eye(d)[:1], (n, 1)),
    "tiny": lambda n, d: np.full((n, d), 5e-324),
    "huge": lambda n, d: np.full((n, d), 1e300),
    "two opposite": lambda n, d: np.tile([[1.0] * d, [-1.0] * d], (n // 2, 1)),
}


@pytest.mark.parametrize("relation", ["replace-one", "add-remove"])
@pytest.mark.parametrize("penalty", ["1/2", "1/100"])
def test_a_plan_is_refused_or_ends_on_every_data_set(relation: str, penalty: str) -> None:
    plan = dp.plan(dp.loads(SPEC.replace("penalty = 1/2", f"penalty = {penalty}").replace("replace-one", relation)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for make in HOSTILE.values():
            x = make(40, 3)
            for last in (np.zeros(3), np.eye(3)[1], np.full(3, 1e300)):
                other = x.copy()
                other[-1] = last
                assert plan.run(other).outputs["theta"]["theta"].shape == (3, 3)


@pytest.mark.parametrize(
    "change", [("n = 40, d = 3", "n = 1_000_000_000_000, d = 9"), ("1/2", "1e-7"), ("1/2", "1/100, slack = 1e-9"), ("d = 3", "d = 300")]
)
def test_an_accuracy_that_is_not_certain_is_refused_when_the_plan_is_made(change: tuple[str, str]) -> None:
    with pytest.raises(SpecError, match="DP407: dp-precision-output cannot serve"):
        dp.plan(dp.loads(SPEC.replace(*change)))
