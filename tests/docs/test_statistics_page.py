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

TEXT = (Path(__file__).parents[2] / "docs" / "statistics.md").read_text(encoding="utf-8")
COLUMNS, RECORDS, TABLES, BOUNDS, KEYS, UNITS = re.findall(r"```dpspec\n(.*?)```", TEXT, re.DOTALL)
MAKE, RUN = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)


@pytest.fixture(scope="module")
def made() -> dict[str, Any]:
    names: dict[str, Any] = {}
    exec(compile(MAKE, "docs/statistics.md", "exec"), names)
    return names


@pytest.fixture(scope="module")
def record(made: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The page's own lines, from a file of the name that it uses."""
    folder = tmp_path_factory.mktemp("page")
    (folder / "who-works-how-long.dps").write_text(COLUMNS, encoding="utf-8")
    names = dict(made)
    exec(
        compile(
            RUN.replace('"who-works', f'"{folder}/who-works').replace("print(record)", "shown = repr(record)"), "docs/statistics.md", "exec"
        ),
        names,
    )
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


def test_the_shape_of_the_records(made: dict[str, Any]) -> None:
    x = np.column_stack([(made["age"] - 50) / 40, (made["hours"] - 50) / 50])
    y = 0.3 * x[:, 0] + 0.5 * x[:, 1]
    out = dpspec.plan(parse_text(RECORDS, surface="dps")).run({"age": made["age"], "hours": made["hours"]}, y).outputs
    assert out["centre"]["theta"] == pytest.approx(x.mean(axis=0), abs=0.01)
    assert out["shape"]["theta"] == pytest.approx(np.cov(x.T, bias=True), abs=0.005)
    assert out["together"]["theta"] == pytest.approx(np.corrcoef(x.T), abs=0.05)
    assert abs(out["directions"]["theta"][:, 0] @ np.linalg.eigh(x.T @ x)[1][:, -1]) > 0.99
    assert out["weights"]["theta"] == pytest.approx([0.3, 0.5], abs=0.1)


@pytest.mark.parametrize(
    "text", [COLUMNS, RECORDS, TABLES, BOUNDS, KEYS, UNITS], ids=["columns", "records", "tables", "bounds", "keys", "units"]
)
def test_both_surfaces(text: str) -> None:
    parsed = parse_text(text, surface="dps")
    assert parse_text(to_yaml(parsed.analysis), surface="yaml").analysis == parsed.analysis


def test_the_page_names_every_word() -> None:
    for word in set(STATISTICS) - {"precision"}:
        assert f"`{word}" in TEXT, word


def test_common_cities_are_named_with_their_counts(made: dict[str, Any], tmp_path: Path) -> None:
    """Counts of more than twice the reach, 28, are named for certain, and no noise is longer than 14."""
    (tmp_path / "keys.dps").write_text(KEYS, encoding="utf-8")
    sizes = {"Lyon": 40_000, "Nice": 8_000, "Pau": 841}
    city = np.array([*(name for name, size in sizes.items() for _ in range(size)), "Ys"])
    found = dpspec.plan(tmp_path / "keys.dps").run({"age": np.full(city.size, 30.0), "city": city}).outputs["cities"]
    assert found["name"].tolist() == list(sizes)  # Ys, of one: with probability 1e-6
    assert np.all(np.abs(found["value"] - list(sizes.values())) <= 14)


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


def test_bounds_are_found() -> None:
    income = np.random.default_rng(3).lognormal(10, 0.5, 20_000)
    found = dpspec.plan(parse_text(BOUNDS, surface="dps")).run({"income": income}).outputs["income"]
    assert found["found_low"] > 0
    assert found["found_high"] >= np.quantile(income, 0.99)
    assert found["value"][0] == pytest.approx(income.mean(), rel=0.05)


def test_tables_of_two_columns() -> None:
    rng = np.random.default_rng(4)
    n = 48_842
    data = {"sex": rng.choice(["Female", "Male"], n), "work": rng.choice(["office", "shop", "field"], n), "marital": rng.integers(0, 4, n)}
    found = dpspec.plan(parse_text(TABLES, surface="dps")).run(data).outputs["pairs"]
    true = {
        f"sex={s}, work={w}": np.sum((data["sex"] == s) & (data["work"] == w))
        for s in ("Female", "Male")
        for w in ("office", "shop", "field")
    }
    value = dict(zip(found["name"].tolist(), found["value"].tolist(), strict=True))
    assert len(value) == 6 + 8 + 12
    assert all(abs(value[name] - count) <= 20 for name, count in true.items())  # standard errors of about 2
