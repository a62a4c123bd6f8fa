"""Local randomizers against their laws: densities integrated, outputs enumerated, areas of caps in closed form."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from scipy.integrate import quad

from dpspec.audit import audit
from dpspec.audit.exact import ExactResult


def exact(**fields: Any) -> ExactResult:
    found = audit({"audit": 1, "setting": {"model": "local", "unit": "record"}, "claim": {"epsilon": 1}, "channel": fields}).exact
    assert found is not None
    return found


def hockey(p: Any, q: Any, epsilon: float) -> float:
    a, b = np.asarray(p, dtype=float), np.asarray(q, dtype=float)
    return max(float(np.maximum(x - math.exp(epsilon) * y, 0).sum()) for x, y in ((a, b), (b, a)))


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 4.0])
def test_piecewise(epsilon: float) -> None:
    """The law as it is published, for many inputs: densities at the middle of fine cells, worst over pairs."""
    c = (math.exp(epsilon / 2) + 1) / (math.exp(epsilon / 2) - 1)
    high = (math.exp(epsilon) - math.exp(epsilon / 2)) / (2 * math.exp(epsilon / 2) + 2)

    def density(y: float, x: float) -> float:
        left = (c + 1) / 2 * x - (c - 1) / 2
        return high if left <= y <= left + c - 1 else high / math.exp(epsilon)

    for x in (-1, -0.2, 0.7, 1):
        left = (c + 1) / 2 * x - (c - 1) / 2
        assert quad(density, -c, c, args=(x,), points=[left, left + c - 1])[0] == pytest.approx(1, rel=1e-6)
    found = exact(type="piecewise", epsilon=epsilon)
    assert found.epsilon == pytest.approx(epsilon, rel=1e-9)
    assert found.delta_at is not None
    y = np.linspace(-c, c, 4001)
    middle, width = (y[1:] + y[:-1]) / 2, np.diff(y)
    rows = [np.array([density(v, x) for v in middle]) * width for x in np.linspace(-1, 1, 5)]
    for e in (0.0, epsilon / 2, epsilon * 0.99):
        worst = max(hockey(p, q, e) for p, q in itertools.combinations(rows, 2))
        assert found.delta_at(e) == pytest.approx(worst, abs=4e-3)


@pytest.mark.parametrize("width", [None, 0.1, 0.8])
def test_square_wave(width: float | None) -> None:
    epsilon, e = 1.3, math.exp(1.3)
    b = (epsilon * e - e + 1) / (2 * e * (e - 1 - epsilon)) if width is None else width
    low = 1 / (2 * b * e + 1)
    y = np.linspace(-b, 1 + b, 20001)
    middle, size = (y[1:] + y[:-1]) / 2, np.diff(y)
    rows = [np.where(np.abs(middle - x) < b, e * low, low) * size for x in (0, 0.4, 1)]
    found = exact(type="square_wave", epsilon=epsilon, **({} if width is None else {"width": width}))
    assert found.epsilon == pytest.approx(epsilon)
    assert found.delta_at is not None
    for at in (0.0, 0.5, 1.2):
        worst = max(hockey(p, q, at) for p, q in itertools.combinations(rows, 2))
        assert found.delta_at(at) == pytest.approx(worst, abs=1e-3)


@pytest.mark.parametrize("keep", [0.6, 0.9])
def test_count_mean_sketch(keep: float) -> None:
    """All vectors of three signs."""
    outputs = list(itertools.product((0, 1), repeat=3))

    def law(place: int) -> list[float]:
        return [math.prod(keep if bit == (i == place) else 1 - keep for i, bit in enumerate(y)) for y in outputs]

    worst = max(abs(math.log(a / b)) for a, b in zip(law(0), law(1), strict=True))
    assert exact(type="cms", keep=keep).epsilon == pytest.approx(worst)
    assert exact(type="cms", epsilon=2 * math.log(keep / (1 - keep))).epsilon == pytest.approx(worst)


@pytest.mark.parametrize(("d", "gamma"), [(2, 0.3), (3, 0.3), (3, 0.9)])
def test_priv_unit(d: int, gamma: float) -> None:
    """On the circle a cap has arccos(gamma)/pi of the length, on the sphere (1 - gamma)/2 of the area (Archimedes)."""
    cap, keep = (math.acos(gamma) / math.pi if d == 2 else (1 - gamma) / 2), 0.8
    inside, outside = keep / cap, (1 - keep) / (1 - cap)
    found = exact(type="priv_unit", keep=keep, gamma=gamma, dimension=d)
    assert found.epsilon == pytest.approx(abs(math.log(inside / outside)), rel=1e-9)


@pytest.mark.parametrize(("d", "k"), [(1, 3), (2, 2), (2, 3), (3, 3)])
@pytest.mark.parametrize("fakes", [True, False])
@pytest.mark.parametrize("differs", ["attribute", "record"])
def test_sampled_attribute(d: int, k: int, fakes: bool, differs: str) -> None:
    """Every output and the law of the record (0, ..., 0) and of its neighbour, by enumeration of the attribute that is drawn."""
    keep = 0.7
    other = (1 - keep) / (k - 1)
    records = ((0,) * d, (1,) * d if differs == "record" else (1, *(0,) * (d - 1)))

    def law(record: tuple[int, ...]) -> list[float]:
        if not fakes:
            return [(keep if y == record[j] else other) / d for j in range(d) for y in range(k)]
        return [
            sum((keep if y[j] == record[j] else other) / k ** (d - 1) for j in range(d)) / d for y in itertools.product(range(k), repeat=d)
        ]

    p, q = law(records[0]), law(records[1])
    found = exact(type="sampled_attribute", attributes=d, categories=k, keep=keep, fakes=fakes, differs=differs)
    assert found.epsilon == pytest.approx(max(abs(math.log(a / b)) for a, b in zip(p, q, strict=True)))
    assert found.delta_at is not None
    for e in (0.0, 0.3):
        assert found.delta_at(e) == pytest.approx(hockey(p, q, e), abs=1e-12)


def test_fakes_do_not_amplify_for_a_whole_record() -> None:
    """The published epsilon ln(1 + (e^eps - 1)/d) is that of one attribute; a whole record keeps eps."""
    of = {"type": "rs_fd", "attributes": 4, "categories": 5, "epsilon": 2, "fakes": True}
    assert exact(**of, differs="attribute").epsilon == pytest.approx(math.log(1 + math.expm1(2) / 4))
    assert exact(**of, differs="record").epsilon == pytest.approx(2)
