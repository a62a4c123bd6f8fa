"""Local randomizers against their laws: densities integrated, outputs enumerated, areas of caps in closed form."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from scipy.integrate import quad

from dpspec.audit import audit
from dpspec.audit.matrices import ExactResult


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


# ----------------------------------------------------------------------------------------------------- chains, positions, cosines


def enumerated(first: Any, later: Any, reports: int) -> Any:
    """The law of every sequence of reports, input by input: the first stage once, the later one for each report."""
    first, later = np.asarray(first, dtype=float), np.asarray(later, dtype=float)
    sequences = list(itertools.product(range(later.shape[1]), repeat=reports))
    return np.array([[sum(row[y] * math.prod(later[y, o] for o in s) for y in range(first.shape[1])) for s in sequences] for row in first])


@pytest.mark.parametrize("reports", [1, 2, 5])
def test_a_chain_of_matrices(reports: int) -> None:
    first, later = [[0.7, 0.2, 0.1], [0.1, 0.8, 0.1], [0.25, 0.25, 0.5]], [[0.6, 0.4], [0.3, 0.7], [0.5, 0.5]]
    laws = enumerated(first, later, reports)
    found = exact(type="chain", channels=[{"type": "matrix", "rows": first}, {"type": "matrix", "rows": later}], reports=reports)
    worst = max(float(np.abs(np.log(a / b)).max()) for a, b in itertools.combinations(laws, 2))
    assert found.epsilon == pytest.approx(worst, rel=1e-9)
    assert found.delta_at is not None
    for e in (0.0, worst / 2):
        assert found.delta_at(e) == pytest.approx(max(hockey(a, b, e) for a, b in itertools.combinations(laws, 2)), abs=1e-12)


def test_longitudinal_unary_encoding_and_rappor() -> None:
    """Two bits of an encoding differ; RAPPOR is a chain of two unary encodings, one report and all of them in closed form."""
    f, p, q = 0.5, 0.5, 0.75
    stages = [
        {"type": "unary", "p_true_bit": 1 - f / 2, "q_other_bit": f / 2, "hot_bits": 2},
        {"type": "unary", "p_true_bit": q, "q_other_bit": p, "hot_bits": 2},
    ]
    rappor = exact(type="rappor", hashes=2, f=f, p=p, q=q)
    assert rappor.one_report is not None
    assert exact(type="chain", channels=stages).epsilon == pytest.approx(rappor.one_report)
    endless = exact(type="chain", channels=stages, reports="unbounded")
    assert endless.epsilon == pytest.approx(rappor.epsilon) == pytest.approx(4 * math.log(3))
    assert endless.one_report == pytest.approx(rappor.one_report)
    ten = exact(type="chain", channels=[{**s, "hot_bits": 1} for s in stages], reports=10)
    bit = enumerated([[1 - f / 2, f / 2], [f / 2, 1 - f / 2]], [[q, 1 - q], [p, 1 - p]], 10)
    assert ten.epsilon == pytest.approx(float(np.log(bit[0] / bit[1]).max() - np.log(bit[0] / bit[1]).min()))
    assert rappor.one_report / 2 < ten.epsilon < 2 * math.log(3)


def test_reports_without_end_show_the_remembered_value_and_what_is_merged_stays_hidden() -> None:
    first = [[0.7, 0.2, 0.1], [0.1, 0.8, 0.1]]
    later = [[0.6, 0.4], [0.6, 0.4], [0.1, 0.9]]  # the first two remembered values are not told apart
    found = exact(type="chain", channels=[{"type": "matrix", "rows": first}, {"type": "matrix", "rows": later}], reports="unbounded")
    assert found.epsilon == pytest.approx(0.0, abs=1e-12)
    rr = [{"type": "randomized_response", "categories": 5, "epsilon": 2}, {"type": "randomized_response", "categories": 5, "epsilon": 1}]
    assert exact(type="chain", channels=rr, reports="unbounded").epsilon == pytest.approx(2)
    keep1, keep2 = math.exp(2) / (math.exp(2) + 4), math.e / (math.e + 4)
    same = keep1 * keep2 + (1 - keep1) * (1 - keep2) / 4
    assert exact(type="chain", channels=rr).epsilon == pytest.approx(math.log(same / ((1 - same) / 4)))
    many = {"audit": 1, "setting": {"model": "local", "unit": "record"}, "claim": {"epsilon": 0.9}}
    told = audit({**many, "channel": {"type": "chain", "channels": rr, "reports": "unbounded"}})
    assert told.verdict == "violated"  # the claim is about one report
    assert audit({**many, "channel": {"type": "chain", "channels": rr}}).verdict == "holds"


def test_positions_and_their_exceptions() -> None:
    bit, clear = {"type": "unary", "p_true_bit": 0.75, "q_other_bit": 0.25}, {"type": "matrix", "rows": [[1, 0], [0, 1]]}
    whole = exact(type="positions", channels=[{"type": "hadamard", "keep": 0.75}, bit], counts=[3, 1], differs="record")
    assert whole.epsilon == pytest.approx(3 * math.log(3) + 2 * math.log(3))
    one = exact(type="positions", channels=[{"type": "hadamard", "keep": 0.75}, bit], counts=[3, 1], differs="attribute")
    assert one.epsilon == pytest.approx(2 * math.log(3))
    for differs in ("record", "attribute"):
        found = exact(type="positions", channels=[bit, clear], counts=[9, 1], differs=differs)
        assert math.isinf(found.epsilon)
        assert found.delta_needed == 1


def test_a_cosine() -> None:
    """The bit's law for many numbers and a few frequencies."""
    keep = math.e / (1 + math.e)
    for j in (1, 3):
        chance = (1 + (2 * keep - 1) * np.cos(math.pi * j * np.linspace(0, 1, 601))) / 2
        top = max(math.log(chance.max() / chance.min()), math.log((1 - chance).max() / (1 - chance).min()))
        assert exact(type="cosine", epsilon=1).epsilon == pytest.approx(top, rel=1e-6)
    assert exact(type="cosine", scale=0.5).epsilon == pytest.approx(4)


def test_reports_told_by_the_setting_are_those_of_one_remembered_value() -> None:
    stages = [{"type": "randomized_response", "categories": 2, "epsilon": e} for e in (2, 1)]
    data = {"audit": 1, "claim": {"epsilon": 2.0}, "channel": {"type": "chain", "channels": stages}}
    many = audit({**data, "setting": {"model": "local", "unit": "user", "events_unit": "report", "repeats": 30}})
    assert many.verdict == "holds"
    assert "first stage is remembered" in many.text()
    endless = audit({**data, "setting": {"model": "local", "unit": "user", "events_unit": "report"}})
    assert endless.verdict == "holds"
    assert endless.exact is not None
    assert endless.exact.epsilon == pytest.approx(2)
    values = {**data, "channel": {**data["channel"], "reports": 5}}  # type: ignore[dict-item]
    twice = audit({**values, "setting": {"model": "local", "unit": "user", "events_unit": "value", "repeats": 2}})
    assert twice.verdict == "violated"
