"""The Adult and a9a data sets: encoded widths, counts known from their description, enforcement at full size."""

import csv
from pathlib import Path

import numpy as np
import pytest

from dpspec.data.enforce import enforce
from dpspec.data.sources import load
from dpspec.spec.diagnostics import SpecError
from dpspec.spec.expr import num
from dpspec.spec.model import Ball, CsvSource, Data, Domain, Encode, Enforcement, Finite

FOLDER = Path(__file__).parents[3] / "shared" / "data"
pytestmark = pytest.mark.skipif(not (FOLDER / "adult.csv").exists(), reason="the Adult data are not in the shared folder")

ONE_HOT = {"workclass": 9, "marital-status": 7, "occupation": 15, "relationship": 6, "race": 5, "sex": 2, "native-country": 42}
RANGE = {"age": 85, "fnlwgt": 100, "education-num": 16, "capital-gain": 100, "capital-loss": 100, "hours-per-week": 99}


def adult(**more):
    encode = tuple(Encode(column=c, how="one-hot", args=(num(k),)) for c, k in ONE_HOT.items())
    encode += tuple(Encode(column=c, how="range", args=(num(0), num(k - 1))) for c, k in RANGE.items())
    domains = (
        Domain(variable="x", set=Ball(norm="l2", radius=num(1)), by=Enforcement(how="scale")),
        Domain(
            variable="y",
            set=Finite(values=(num(-1), num(1))),
            by=Enforcement(how="map", mapping=(("0", num(-1)), ("1", num(1)))),
        ),
    )
    fields = {
        "n": num(48842),
        "d": num(93),
        "source": CsvSource(path="adult.csv", target="income>50K"),
        "encode": encode,
        "intercept": True,
        "domains": domains,
    }
    return Data(**(fields | more))


def test_adult_by_hand():
    raw = load(adult(), base_dir=FOLDER)
    x, y = raw.records.x, raw.records.y
    assert x.shape == (48842, 93)
    assert len(raw.columns) == 93
    with (FOLDER / "adult.csv").open() as f:
        rows = list(csv.DictReader(f))
    for i in (0, 17, 48841):
        expected = []
        for column in rows[0]:
            if column in ONE_HOT:
                expected += [float(int(rows[i][column]) == j) for j in range(ONE_HOT[column])]
            elif column in RANGE:
                expected.append(int(rows[i][column]) / (RANGE[column] - 1))
        assert x[i].tolist() == pytest.approx([*expected, 1.0])
    assert y.sum() == sum(int(r["income>50K"]) for r in rows) == 11687
    columns = np.array(raw.columns)
    for column in ONE_HOT:
        block = x[:, [c.startswith(f"{column}=") for c in columns]]
        assert (block.sum(axis=1) == 1).all()
    assert x.min() == 0
    assert x.max() == 1


def test_adult_enforced():
    records, counts = enforce(load(adult(), base_dir=FOLDER).records, adult())
    assert counts.touched == {"x": 48842, "y": 0}  # 7 indicators and the intercept: every norm is at least sqrt(8)
    assert (np.linalg.norm(records.x, axis=1) <= 1).all()
    assert {-1: int((records.y == -1).sum()), 1: int((records.y == 1).sum())} == {-1: 37155, 1: 11687}


@pytest.mark.parametrize(("more", "code"), [({"n": num(48841)}, "DP507"), ({"d": num(92)}, "DP508"), ({"intercept": False}, "DP508")])
def test_adult_contradictions(more, code):
    with pytest.raises(SpecError) as error:
        load(adult(**more), base_dir=FOLDER)
    assert [d.code for d in error.value.diagnostics] == [code]


def test_a_coarser_coding_does_not_fit_the_declared_levels():
    with pytest.raises(SpecError) as error:
        load(adult(n=num(48842), encode=(*adult().encode[1:], Encode(column="workclass", how="one-hot", args=(num(8),)))), base_dir=FOLDER)
    assert [d.code for d in error.value.diagnostics] == ["DP510"]


@pytest.mark.parametrize(("name", "n", "positive"), [("a9a", 32561, 7841), ("a9a.t", 16281, 3846)])
def test_a9a(name, n, positive):
    data = Data(n=num(n), d=num(123), source=CsvSource(path=name), domains=adult().domains[:1])
    raw = load(data, base_dir=FOLDER)
    assert raw.records.sparse
    assert raw.records.x.shape == (n, 123)
    assert (raw.records.y == 1).sum() == positive
    records, _ = enforce(raw.records, data)
    assert records.x.nnz == raw.records.x.nnz
    assert np.sqrt(records.x.multiply(records.x).sum(axis=1)).max() <= 1
