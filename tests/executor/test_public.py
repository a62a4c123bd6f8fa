"""Studies on a public file in the place of private data, and errors on records that no trial trained on."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import dpspec
from dpspec.spec.diagnostics import SpecError
from tests.cli.call import call

SPEC = """analysis "a"
data
  n = {n}, d = 2
  from "private.csv" target y columns [a, b]
  private, unit person, neighbours replace-one
  x in ball(l2, 1) by scale
  y in {{-1, 1}} by map(0 -> -1, 1 -> 1)
privacy central
  epsilon = {epsilon}, delta = 1e-6
release w
  minimise logistic + 0.01/2*|w|^2 over ball(l2, 1)
  by dp-gd with T = 5
"""
MEAN = """analysis "m"
data
  n = {n}, d = 1
  from "private.csv" columns [age]
  private, unit person{identified}, neighbours add-remove
  {most}
  x in box(0, 100) by clip
privacy central
  epsilon = 50
release m
  estimate mean(age)
"""


@pytest.fixture
def there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    r = np.random.default_rng(5)
    x = r.uniform(-1, 1, (500, 2)) * [1.0, 2.0]
    rows = [f"{a:.5f},{b:.5f},{int(a + b > 0)}" for a, b in x]
    (tmp_path / "public.csv").write_text("\n".join(["a,b,y", *rows]) + "\n")
    return tmp_path


def study(text: str, **said: object) -> dict:
    Path("a.dps").write_text(text)
    return dpspec.study("a.dps", trials=4, workers=1, **said).to_json()


def test_a_public_file_stands_in_for_private_data_at_the_n_of_the_plan(there: Path) -> None:
    text = SPEC.format(n=200, epsilon=1)
    body = study(text, data="public.csv", holdout=0.2)
    (p,) = body["points"]
    assert body["plan_sha256"] == dpspec.plan("a.dps").sha256  # the very plan: its n, its noise
    assert p["n"] == 200
    assert p["records"] == {"file": "public.csv", "read": 500, "to_train_on": 400, "held_out": 100}
    assert "Each trial trains on n = 200 of the 500 records of public.csv, drawn anew; 100 (20.0%) are held out" in " ".join(body["notes"])
    held = p["held_out"]
    assert held["error"]["measure"] == p["error"]["measure"] == "excess-empirical-risk"
    assert len(set(held["error"]["values"])) == 4
    assert 0 <= held["reference_error"]["mean"] < held["trivial_error"]  # no release, and no data, against 100 others
    outside = sum(a * a + b * b > 1 for a, b in np.loadtxt("public.csv", delimiter=",", skiprows=1, usecols=(0, 1)))
    assert p["touched"]["x"] == outside
    assert f"Enforcing the domain of x changed {outside} of 500 records" in " ".join(body["notes"])


def test_held_out_errors_are_those_of_the_records_that_were_not_trained_on(there: Path) -> None:
    """With next to no noise: the held-out error of a mean is the distance of two sample means, one of which no trial saw."""
    ages = np.arange(50.0)
    (there / "public.csv").write_text("age\n" + "\n".join(f"{v:g}" for v in ages) + "\n")
    from dpspec.compiler.passes import compile_draft
    from dpspec.executor.public import Public, real_records

    text = MEAN.format(n=40, identified="", most="")
    (p,) = study(text, data="public.csv", holdout=0.2, seed=3)["points"]
    real = real_records(compile_draft(dpspec.load("a.dps")), None, Public(str(there / "public.csv"), Fraction(1, 5)), 3)
    out, kept = real.held.x[:, 0], real.training(40, 0).x[:, 0]
    assert sorted([*out, *kept]) == list(ages)
    assert p["held_out"]["error"]["mean"] == pytest.approx(abs(out.mean() - kept.mean()), abs=0.3)
    assert p["error"]["mean"] < 0.3


def test_a_smaller_file_is_a_study_at_its_size_and_says_so(there: Path) -> None:
    body = study(SPEC.format(n=5_000, epsilon=1), data="public.csv", holdout="1/5")
    (p,) = body["points"]
    assert p["n"] == 400
    assert "The spec has n = 5,000, and there are 400 to train on: errors are those of the smaller n" in body["notes"]
    assert len({json.dumps(v) for v in p["error"]["values"]}) > 1
    with pytest.raises(SpecError, match="varies n up to 900"):
        study(SPEC.format(n=300, epsilon=1), data="public.csv", vary={"n": ("300", "900")})


def test_a_unit_is_on_one_side(there: Path) -> None:
    rows = [f"{i % 60},{i % 97}" for i in range(300)]
    (there / "public.csv").write_text("id,age\n" + "\n".join(rows) + "\n")
    text = MEAN.format(n=120, identified=" identified by id", most="at most 2 rows a person")
    (p,) = study(text, data="public.csv", holdout=0.3)["points"]
    from dpspec.compiler.passes import compile_draft
    from dpspec.executor.public import Public, real_records

    real = real_records(compile_draft(dpspec.load("a.dps")), None, Public(str(there / "public.csv"), Fraction("0.3")), 0)
    held = set(real.held.beside("id")[0])
    for trial in range(3):
        mine = real.training(120, trial)
        owners, count = np.unique(mine.beside("id")[0], return_counts=True)
        assert not held & set(owners)
        assert count.max() == 2
        assert 24 <= owners.size <= 25  # five rows each: whole units but for the last
    assert p["touched"]["rows of a person"] == 300 - 120  # of the whole file


def test_what_a_release_expects_of_fresh_records_is_measured_on_held_out_ones(there: Path) -> None:
    text = SPEC.format(n=300, epsilon=20) + "  expect population-label-error <= 0.2\n"
    Path("a.dps").write_text(text)
    got = call("study", "a.dps", "--data", "public.csv", "--trials", "3", "--workers", "1")
    assert got.code != 0
    assert "--holdout 0.2" in got.stderr
    got = call("study", "a.dps", "--data", "public.csv", "--holdout", "0.2", "--trials", "3", "--workers", "1")
    assert got.code == 0
    assert "mean population-label-error" in got.stdout
    assert "w: population-label-error is measured on the held-out records" in " ".join(got.stdout.split())
    assert "met" in got.stdout


def test_text_and_page_show_it(there: Path) -> None:
    Path("a.dps").write_text(SPEC.format(n=200, epsilon=1))
    got = call("study", "a.dps", "--data", "public.csv", "--holdout", "0.2", "--trials", "3", "--workers", "1", "--out", "out")
    assert got.code == 0
    assert "on records that were held out:" in got.stdout
    assert "Enforcing the domain of x changed" in got.stdout
    assert call("report", "out/study.json", "--html", "out.html").code == 0
    page = Path("out.html").read_text()
    assert "On records that were held out" in page
    assert "Enforcing the domain of x changed" in page


def test_a_table_of_several_measures_names_each(there: Path) -> None:
    text = MEAN.format(n=40, identified="", most="") + "release q\n  estimate median(age)\n"
    (there / "public.csv").write_text("age\n" + "\n".join(str(i) for i in range(50)) + "\n")
    Path("a.dps").write_text(text)
    got = call("study", "a.dps", "--data", "public.csv", "--trials", "2", "--workers", "1")
    assert " absolute-error  [" in got.stdout
    assert " rank-error " in got.stdout
    assert "mean error" in got.stdout


def test_counts_are_not_held_against_other_records(there: Path) -> None:
    text = MEAN.replace("mean(age)", "count")
    (there / "public.csv").write_text("age\n" + "\n".join(str(i) for i in range(50)) + "\n")
    body = study(text.format(n=40, identified="", most=""), data="public.csv", holdout=0.2)
    assert body["points"][0]["held_out"] is None
    assert any("speaks of the records that it was computed from" in note for note in body["notes"])


def test_every_measure_can_be_measured_elsewhere_or_says_that_it_cannot(there: Path) -> None:
    """A task whose measures read what the release was found on: regret goes along its own stream."""
    text = SPEC.replace("private, unit", "public, unit").replace("private.csv", "public.csv")
    text = text.replace(
        "logistic + 0.01/2*|w|^2 over ball(l2, 1)\n  by dp-gd with T = 5", "pairwise auc over ball(l2, 1)\n  expect {goal} <= 9"
    )
    for goal, there_too in (("regret", False), ("auc-error", True)):
        (p,) = study(text.format(n=500, epsilon=1, goal=goal), holdout=0.9)["points"]
        assert (p["held_out"] is not None) is there_too
        assert p["n"] == 50


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--data", "private.csv"], "is the private file of the spec"),
        (["--data", "copy.csv"], "is the private file of the spec"),
        (["--data", "gone.csv"], "gone.csv"),
        (["--holdout", "0.2"], "DP410"),
        (["--data", "public.csv", "--holdout", "1"], "no share"),
        (["--data", "public.csv", "--holdout", "x"], "no number"),
        (["--data", "public.csv", "--holdout", "0.999"], "held out leave"),
    ],
)
def test_refused(there: Path, words: list[str], said: str) -> None:
    Path("private.csv").write_text(Path("public.csv").read_text().replace(",1\n", ",0\n"))
    Path("copy.csv").write_text(Path("private.csv").read_text())
    Path("a.dps").write_text(SPEC.format(n=200, epsilon=1))
    got = call("study", "a.dps", "--trials", "2", "--workers", "1", *words)
    assert got.code != 0
    assert said in " ".join(got.stderr.split())


def test_what_cannot_be_compared_with_the_private_file_is_refused_by_its_name_or_said(there: Path) -> None:
    """The private file is not where the spec says: a file of that name elsewhere may be it, any other is taken on the user's word."""
    text = SPEC.format(n=200, epsilon=1).replace('"private.csv"', '"lake/private.csv"')
    (there / "else" / "lake").mkdir(parents=True)
    (there / "else" / "lake" / "private.csv").write_text((there / "public.csv").read_text())
    with pytest.raises(SpecError, match="DP410"):
        study(text, data="else/lake/private.csv")
    word = "on your word"
    assert any(word in note for note in study(text, data="public.csv")["notes"])
    (there / "lake").mkdir()
    (there / "lake" / "private.csv").write_text("a,b,y\n0,0,0\n")
    assert not any(word in note for note in study(text, data="public.csv")["notes"])
    with pytest.raises(SpecError, match="DP416"):
        study(text, data="public.csv", holdout=float("nan"))


def test_a_law_has_fresh_records_already(there: Path) -> None:
    law = "simulate\n  theta = dense unit l2\n  x ~ uniform-ball\n  y ~ bernoulli-logistic(5*<theta, x>)\n"
    Path("a.dps").write_text(SPEC.format(n=200, epsilon=1) + law)
    got = call("study", "a.dps", "--holdout", "0.2")
    assert got.code != 0
    assert "fresh ones" in got.stderr
    got = call("study", "a.dps", "--data", "public.csv", "--trials", "2", "--workers", "1")
    assert got.code == 0
    assert "of the 500 records of public.csv" in " ".join(got.stdout.split())
