"""Tests of assumptions on samples: each says nothing of what is true (level) and names what is false (power), at sizes a check draws.

A true declaration is called false with probability about 1e-6 by the argument in :mod:`dpspec.data.refute`; eight seeds a case, all
fixed, would all have to be lucky for a level far above that to pass unseen only where the statistic is far from its limit, so true cases
here lie *on* the limit.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dpspec.data import refute
from dpspec.data.refute import ON_ROWS, ON_SAMPLE, Sample, Unseen
from dpspec.data.refute_loss import ON_LOSS
from dpspec.spec.assumptions import ASSUMPTIONS

N = 20_000
Rng = np.random.Generator


def normal(d: int = 3, scale: float = 1.0, mean: float = 0.0) -> Callable[[Rng], Any]:
    return lambda g: mean + scale * g.standard_normal((N, d))


def student(nu: float, d: int = 3) -> Callable[[Rng], Any]:
    return lambda g: g.standard_t(nu, (N, d))


def spread(*variances: float) -> Callable[[Rng], Any]:
    return lambda g: g.standard_normal((N, len(variances))) * np.sqrt(variances)


def correlated(rho: float) -> Callable[[Rng], Any]:
    def draw(g: Rng) -> Any:
        x = g.standard_normal((N, 4))
        x[:, 1] = rho * x[:, 0] + math.sqrt(1 - rho * rho) * x[:, 1]
        return x

    return draw


def laplace(b: float) -> Callable[[Rng], Any]:
    return lambda g: g.laplace(0, b, (N, 2))


#: (procedure, constants, a law that has it, a law that has not)
ROWS: list[tuple[str, tuple[float, ...], Callable[[Rng], Any], Callable[[Rng], Any]]] = [
    ("eigenvalues", (0.5, 2.0), spread(0.5, 1.0, 2.0), spread(0.35, 1.0, 2.0)),
    ("eigenvalues", (0.5, 2.0), spread(0.5, 1.0, 2.0), spread(0.5, 1.0, 2.6)),
    ("eigenvalues", (5.0, 5.0), normal(3, math.sqrt(5)), normal()),
    ("isotropic", (), normal(), normal(3, 1.15)),
    ("eigengap", (1.0,), spread(3.0, 2.0, 1.9), spread(1.2, 1.0, 0.9)),
    ("sub_gaussian", (1.0,), normal(), normal(3, 1.2)),
    ("sub_gaussian", (1.5,), normal(3, 1.5), lambda g: g.standard_t(3, (N, 3)) / 1.3),
    ("sub_exponential", (math.sqrt(2) * 1.2,), laplace(1.0), student(2.1, 2)),
    ("moment", (2.0, 1.0), normal(), normal(3, 1.15)),
    ("moment", (4.0, 3.0), normal(), normal(3, 1.2)),
    ("centred", (), normal(), normal(3, 1.0, 0.12)),
    ("symmetric", (), normal(), lambda g: g.exponential(1.0, (N, 2)) - 1.0),
    ("incoherence", (0.3,), correlated(0.3), correlated(0.45)),
    ("rip", (0.5,), spread(0.5, 1.0, 1.5), spread(0.4, 1.0, 1.2)),
    ("rip", (0.5,), spread(0.5, 1.0, 1.5), spread(0.8, 1.0, 1.7)),
    ("restricted_eigenvalue", (0.5,), spread(0.5, 3.0), spread(0.4, 3.0)),
    ("small_ball", (0.317, 1.0), normal(), normal(3, 0.8)),
]


def test_every_procedure_of_the_registry_has_a_case_and_the_other_way_round() -> None:
    named = {a.test for a in ASSUMPTIONS.values() if a.test}
    assert named == {*ON_ROWS, *ON_SAMPLE, *ON_LOSS}
    assert {name for name, *_ in ROWS} == set(ON_ROWS)


@pytest.mark.parametrize(("name", "constants", "true", "false"), ROWS)
def test_what_is_true_is_not_refuted_and_what_is_false_is(name: str, constants: tuple[float, ...], true: Any, false: Any) -> None:
    test = ON_ROWS[name]
    for seed in range(8):
        assert test(true(np.random.default_rng(seed)), *constants) is None
        assert test(false(np.random.default_rng(100 + seed)), *constants) is not None


def test_a_mean_is_called_false_by_five_standard_errors_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """The share of false alarms at the limit itself, at one standard error, where it can be counted: 1 - Phi(1) of the samples."""
    values = np.random.default_rng(3).standard_normal((4_000, 200))
    assert not any(refute._beyond(v, above=0.0) is not None for v in values)
    monkeypatch.setattr(refute, "STANDARD_ERRORS", 1.0)
    alarms = sum(refute._beyond(v, above=0.0) is not None for v in values)
    expected = 0.1587 * 4_000
    assert abs(alarms - expected) < 6 * math.sqrt(expected)


def _sample(**changes: Any) -> Sample:
    g = np.random.default_rng(5)
    x = g.standard_normal((500, 3))
    given: dict[str, Any] = {
        "x": x,
        "y": np.sign(x[:, 0]),
        "parameters": {"theta": np.array([2.0, 0.0, 0.0])},
        "noise": g.uniform(-1, 1, 500),
    }
    return Sample(**{**given, **changes})


def test_of_parameters_and_noise_one_case_refutes() -> None:
    assert refute.sparse(_sample(), 1) is None
    assert refute.sparse(_sample(parameters={"theta": np.ones(3)}), 2) == "theta has 3 entries that are not 0"
    assert refute.noise_bounded(_sample(), 1.0) is None
    assert refute.noise_bounded(_sample(), 0.9) is not None
    apart = np.where(np.random.default_rng(1).random((500, 3)) < 0.5, -1.0, 1.0)
    kept = _sample(x=apart, y=apart[:, 0])
    assert refute.margin(kept, 1.0) is None
    assert refute.margin(kept, 1.1) is not None
    assert refute.margin(_sample(), 0.2) is not None


@pytest.mark.parametrize(
    ("name", "constants", "sample"),
    [
        ("sparse", (1.0,), {"parameters": {}}),
        ("noise_bounded", (1.0,), {"noise": None}),
        ("margin", (0.1,), {"parameters": {}}),
        ("margin", (0.1,), {"y": None}),
    ],
)
def test_what_a_sample_does_not_show_is_not_called_tested(name: str, constants: tuple[float, ...], sample: dict[str, Any]) -> None:
    with pytest.raises(Unseen):
        ON_SAMPLE[name](_sample(**sample), *constants)


def test_gaps_of_one_coordinate_or_of_a_submatrix_are_not_seen() -> None:
    for d in (1, refute.WIDEST):
        with pytest.raises(Unseen):
            refute.eigengap(np.random.default_rng(0).standard_normal((600, d)), 0.1)


@pytest.mark.parametrize("nu", [2.1, 2.5, 3.0, 4.0])
@pytest.mark.parametrize("n", [200, 2_000, 20_000])
def test_a_variance_that_few_records_carry_is_not_called_too_small(nu: float, n: int) -> None:
    """E x^2 = nu/(nu - 2) of Student's t, declared exactly. Five standard errors alone refute it in three samples of four at nu = 2.1,
    whatever n is: the mean of squares and its standard error are both too small together."""
    variance = nu / (nu - 2)
    for seed in range(20):
        rows = np.random.default_rng(seed).standard_t(nu, (n, 2))
        assert refute.eigenvalues(rows, variance, 1e9) is None
        assert refute.rip(rows / math.sqrt(variance), 1e-9) is None


@pytest.mark.parametrize("share", [0.001, 0.01])
@pytest.mark.parametrize("n", [200, 2_000, 20_000])
def test_a_rare_case_that_no_record_shows_is_not_called_impossible(share: float, n: int) -> None:
    """A flag that one record in a hundred or in a thousand has: its variance is p(1 - p), also where a sample of zeros says nothing."""
    for seed in range(20):
        flags = (np.random.default_rng(seed).random((n, 1)) < share).astype(float)
        assert refute.eigenvalues(flags, share * (1 - share), 1.0) is None
    assert (refute.eigenvalues(np.zeros((n, 1)), 0.5, 1.0) is not None) is (n == 20_000)


def test_the_room_of_a_skewed_mean(monkeypatch: pytest.MonkeyPatch) -> None:
    """Below and above a mean of squares of normals, at 1.6 standard errors, where a share can be counted: with the term of skewness no more
    samples are called than of a normal mean, without it half as many again."""
    values = np.random.default_rng(4).standard_normal((4_000, 1_500)) ** 2
    monkeypatch.setattr(refute, "STANDARD_ERRORS", 1.6)
    called = sum(refute._beyond(v, below=1.0) is not None for v in values)
    assert called < 4_000 * 0.0548 + 5 * math.sqrt(4_000 * 0.0548)
    errors = (values.mean(axis=1) - 1) / (values.std(axis=1, ddof=1) / math.sqrt(1_500))
    assert np.count_nonzero(errors < -1.6) > called
