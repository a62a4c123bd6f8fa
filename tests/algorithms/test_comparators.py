"""What every study of heavy tails and of pairs has beside it: a method without privacy, and in the gallery the clipped mean or gradients.

The non-private estimate and the answer without data are in every study; ``tests/executor`` says so."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from dpspec.algorithms.heavy_tailed import median_of_means
from dpspec.compiler.passes import compile_draft
from dpspec.executor.references import check, is_reference
from dpspec.executor.study import study
from dpspec.lang.source import parse_file, parse_text
from dpspec.spec.model import Minimise

SPECS = Path(__file__).parents[2] / "specs"
GALLERY = sorted(p for family in ("heavy_tailed", "pairwise") for p in (SPECS / family).glob("*.dps"))
REPEATED = sorted(p for family in ("heavy", "pairwise") for p in (SPECS / "reproduce").glob(f"{family}-*.dps"))


@pytest.mark.parametrize("path", [*GALLERY, *REPEATED], ids=lambda p: p.stem)
def test_a_study_has_its_comparators(path: Path) -> None:
    analysis = parse_file(path).analysis
    assert analysis.study is not None
    named, (release,) = analysis.study.compare, analysis.releases
    if isinstance(release.task, Minimise):
        expected, clipped = "pairwise-giga" if release.task.pairwise else "robust-gd", "heavy-tailed-dp-gd-clipped"
    else:
        expected, clipped = "median-of-means", "dp-clipped-mean"
    assert expected in named
    assert is_reference(expected)
    if expected != "pairwise-giga" and analysis.privacy.model == "central" and path in GALLERY:
        assert clipped in named


@pytest.mark.parametrize("path", GALLERY, ids=lambda p: p.stem)
def test_a_comparator_of_the_gallery_answers_the_question(path: Path) -> None:
    parsed = parse_file(path)
    assert parsed.analysis.study is not None
    check(compile_draft(parsed), [name for name in parsed.analysis.study.compare if is_reference(name)])


def test_a_reference_runs_once_for_points_that_share_records(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three budgets and two trials: two runs of it, and what each point says of it is the same."""
    text = (SPECS / "heavy_tailed" / "dp-catoni-mean.dps").read_text(encoding="utf-8").replace("n = 50_000", "n = 300")
    text = re.sub(r"  expect .*\n", "", text).replace("trials 10", "trials 2")
    runs: list[object] = []
    own = median_of_means.run
    monkeypatch.setattr(median_of_means, "run", lambda *said: runs.append(said) or own(*said))
    points = study(parse_text(text.replace("dp-clipped-mean, ", ""), surface="dps"), workers=1).to_json()["points"]
    assert len(points) == 3
    assert len(runs) == 2
    assert len({p["beside"]["median-of-means"]["mean"] for p in points}) == 1
