"""The jobs of docs/statistics.md run as they stand, and their answers are those of NumPy within their own intervals."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dpspec
from dpspec.lang.printer import to_yaml
from dpspec.lang.source import parse_text
from dpspec.spec.words import STATISTICS

ROOT = Path(__file__).parents[2]
ADULT = ROOT.parent / "shared" / "data" / "adult.csv"
TEXT = (ROOT / "docs" / "statistics.md").read_text(encoding="utf-8")
SPECS = re.findall(r"```dpspec\n(.*?)```", TEXT, re.DOTALL)
COLUMNS, RECORDS, TABLES, BOUNDS, KEYS, WEEKS, UNITS, LOCAL, LOCAL_TABLES = SPECS
MAKE, RUN = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
N = 48_842
#: Of adult.csv: how many codes each column that the page reads has.
CODES = {
    "age": 74,
    "workclass": 9,
    "education-num": 16,
    "marital-status": 7,
    "sex": 2,
    "hours-per-week": 99,
    "native-country": 42,
    "income>50K": 2,
}


def made_up(file: Path) -> None:
    """A file of the form of Adult, in which few people come from most countries."""
    rng = np.random.default_rng(1)
    codes = {name: rng.integers(0, size, N) for name, size in CODES.items()}
    codes["age"] = np.clip(np.round(rng.gamma(7, 5.5, N)) - 16, 1, 74).astype(int)
    codes["hours-per-week"] = np.clip(np.round(rng.normal(39, 12, N)), 0, 98).astype(int)
    codes["education-num"] = np.clip(codes["age"] // 8 + codes["hours-per-week"] // 16 + rng.integers(0, 5, N), 0, 15)
    codes["native-country"] = np.minimum(rng.geometric(0.5, N) - 1, 41)
    np.savetxt(file, np.column_stack(list(codes.values())), fmt="%d", delimiter=",", header=",".join(codes), comments="")


HERE = pytest.mark.skipif(not ADULT.is_file(), reason="the Adult data are not beside this checkout")


@pytest.fixture(scope="module", params=["made-up", pytest.param("adult", marks=(HERE, pytest.mark.slow))])
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """``people.csv`` by the page's own lines, and its specs beside it."""
    found = tmp_path_factory.mktemp("page")
    if request.param == "adult":
        (found / "adult.csv").write_bytes(ADULT.read_bytes())
    else:
        made_up(found / "adult.csv")
    with pytest.MonkeyPatch.context() as at:
        at.chdir(found)
        exec(compile(MAKE, "docs/statistics.md", "exec"), {})
    for i, text in enumerate(SPECS):
        (found / f"{i}.dps").write_text(text, encoding="utf-8")
    return found


@pytest.fixture(scope="module")
def made(folder: Path) -> dict[str, Any]:
    """The columns of ``people.csv``."""
    import pandas as pd

    return {name: column.to_numpy() for name, column in pd.read_csv(folder / "people.csv").items()}


def ran(folder: Path, text: str) -> Any:
    return dpspec.plan(folder / f"{SPECS.index(text)}.dps").run()


@pytest.fixture(scope="module")
def record(folder: Path) -> Any:
    """The page's own lines, from a file of the name that it uses."""
    (folder / "who-works-how-long.dps").write_text(COLUMNS, encoding="utf-8")
    names: dict[str, Any] = {}
    with pytest.MonkeyPatch.context() as at:
        at.chdir(folder)
        exec(compile(RUN.replace("print(record)", "shown = repr(record)"), "docs/statistics.md", "exec"), names)
    assert "95% interval of the noise" in names["shown"]
    assert "Female" in names["shown"]
    return names["record"]


def test_every_answer_is_numpys_within_its_noise(made: dict[str, Any], record: Any) -> None:
    """Intervals of 95 % fail by design; six times as wide ones do not."""
    age, hours, sex = made["age"], made["hours"], made["sex"]
    bands = np.histogram(age, [17, 30, 45, 65, 90])[0]
    expected = {
        "people": [age.size],
        "older": [np.count_nonzero((age >= 65) & (sex == "Female"))],
        "worked": [hours.sum()],
        "middle": [age.mean()],
        "spread": [age.var()],
        "sexes": [np.count_nonzero(sex == "Female"), np.count_nonzero(sex == "Male")],
        "bands": list(bands),
        "week": [hours[sex == s].mean() for s in ("Female", "Male")],
    }
    for name, numbers in expected.items():
        out = record.outputs[name]
        assert len(out["name"]) == len(numbers)
        for value, low, high, error, truth in zip(out["value"], out["low"], out["high"], out["standard_error"], numbers, strict=True):
            assert low <= value <= high
            assert abs(value - truth) <= 6 * max(high - value, value - low)
            assert 0 < error < 0.2 * max(truth, 100)


def test_quantiles_are_close_in_rank(made: dict[str, Any], record: Any) -> None:
    for name, column, shares in (("quartiles", "hours", (0.25, 0.5, 0.75)), ("typical", "age", (0.5,))):
        out, v = record.outputs[name], made[column]
        for value, share, room in zip(out["value"], shares, out["rank_error"], strict=True):
            below, at = np.mean(v < value), np.mean(v <= value)
            assert max(below - share, share - at, 0.0) <= 3 * room
            assert room < 0.02


def test_the_shape_of_the_records(folder: Path, made: dict[str, Any]) -> None:
    x = np.clip(np.column_stack([(made["age"] - 50) / 40, (made["hours"] - 50) / 50, (made["school"] - 8) / 8]), -1, 1)
    out = ran(folder, RECORDS).outputs
    assert out["centre"]["theta"] == pytest.approx(x.mean(axis=0), abs=0.01)
    assert out["shape"]["theta"] == pytest.approx(np.cov(x.T, bias=True), abs=0.005)
    assert out["raw"]["theta"] == pytest.approx(x.T @ x / N, abs=0.005)
    assert out["together"]["theta"] == pytest.approx(np.corrcoef(x.T), abs=0.08)
    assert abs(out["directions"]["theta"][:, 0] @ np.linalg.eigh(x.T @ x)[1][:, -1]) > 0.99
    assert out["weights"]["theta"] == pytest.approx(np.linalg.lstsq(x, 2 * made["earns"] - 1, rcond=None)[0], abs=0.1)


@pytest.mark.parametrize("text", SPECS, ids=lambda text: text.split('"')[1])
def test_both_surfaces(text: str) -> None:
    parsed = parse_text(text, surface="dps")
    assert parse_text(to_yaml(parsed.analysis), surface="yaml").analysis == parsed.analysis


def test_the_page_names_every_word() -> None:
    for word in set(STATISTICS) - {"precision"}:
        assert f"`{word}" in TEXT, word


def test_common_countries_are_named_with_their_counts(folder: Path, made: dict[str, Any]) -> None:
    """Counts of more than twice the reach, 28, are named for certain, and no noise is longer than 14."""
    country, counts = np.unique(made["country"][made["age"] >= 18], return_counts=True)
    found = ran(folder, KEYS).outputs["countries"]
    true = dict(zip(country.tolist(), counts.tolist(), strict=True))
    assert set(country[counts > 28]) <= set(found["name"].tolist())
    assert all(abs(value - true[name]) <= 14 for name, value in zip(found["name"].tolist(), found["value"], strict=True))


def test_weeks_by_country(folder: Path, made: dict[str, Any]) -> None:
    country, counts = np.unique(made["country"], return_counts=True)
    found = ran(folder, WEEKS).outputs["weeks"]
    assert set(country[counts > 60]) <= set(found["name"].tolist())
    value = dict(zip(found["name"].tolist(), found["value"].tolist(), strict=True))
    for name, n in zip(country, counts, strict=True):
        if n > 1000:
            assert value[name] == pytest.approx(made["hours"][made["country"] == name].mean(), abs=3000 / n)


def test_minutes_by_ward_of_at_most_three_rows_a_person() -> None:
    """One person with 20,000 rows in a ward of his own neither names it nor moves another's mean."""
    rng = np.random.default_rng(2)
    data = {
        "id": np.r_[np.arange(10_000) % 5_000, np.full(20_000, 7)].astype(str),
        "minutes": np.r_[rng.uniform(20, 40, 10_000), np.full(20_000, 120.0)],
        "ward": np.r_[rng.choice(["north", "south"], 10_000), np.full(20_000, "attic")],
    }
    found = dpspec.plan(parse_text(UNITS, surface="dps")).run(data).outputs["minutes"]
    assert found["name"].tolist() == ["north", "south"]  # attic: with probability 1e-6
    assert found["value"] == pytest.approx([30.0, 30.0], abs=2)


def test_bounds_are_found(folder: Path, made: dict[str, Any]) -> None:
    found = ran(folder, BOUNDS).outputs["week"]
    assert 0 <= found["found_low"] <= np.quantile(made["hours"], 0.05)
    assert found["found_high"] >= np.quantile(made["hours"], 0.99)
    assert found["value"][0] == pytest.approx(made["hours"].mean(), rel=0.05)


def test_tables_of_two_columns(folder: Path, made: dict[str, Any]) -> None:
    found = ran(folder, TABLES).outputs["pairs"]
    value = dict(zip(found["name"].tolist(), found["value"].tolist(), strict=True))
    assert len(value) == 2 * 9 + 2 * 7 + 9 * 7
    for sex in ("Female", "Male"):
        for work in ("private", "federal", "unknown"):
            count = np.sum((made["sex"] == sex) & (made["work"] == work))
            assert abs(value[f"sex={sex}, work={work}"] - count) <= 25  # standard errors of about 3


def test_without_a_curator(folder: Path, made: dict[str, Any]) -> None:
    """Each answer is that of a quarter of the users: sampling counts as well."""
    quarters = [slice(i * (N // 4), (i + 1) * (N // 4)) for i in range(4)]
    out, age = ran(folder, LOCAL).outputs, made["age"]
    true = {
        "week": [made["hours"][quarters[0]].mean()],
        "retired": [np.sum(age[quarters[1]] >= 65)],
        "sexes": [np.sum(made["sex"][quarters[2]] == s) for s in ("Female", "Male")],
    }
    for name, numbers in true.items():
        for value, error, truth in zip(
            out[name]["value"], np.broadcast_to(out[name]["standard_error"], len(numbers)), numbers, strict=True
        ):
            assert abs(value - truth) <= 6 * error
    typical, v = out["typical"], age[quarters[3]]
    assert max(np.mean(v < typical["value"][0]) - 0.5, 0.5 - np.mean(v <= typical["value"][0])) <= typical["rank_error"][0] < 0.1


def test_tables_without_a_curator(folder: Path, made: dict[str, Any]) -> None:
    out = ran(folder, LOCAL_TABLES).outputs["pairs"]
    assert out["attributes"].tolist() == [[0, 1], [0, 2], [1, 2]]
    for row, (a, b) in zip(out["answers"], (("full_time", "graduate"), ("full_time", "earns"), ("graduate", "earns")), strict=True):
        assert row == pytest.approx(np.bincount(2 * made[a] + made[b], minlength=4) / N, abs=0.05)
