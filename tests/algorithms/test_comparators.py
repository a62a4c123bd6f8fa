"""What every study of heavy tails and of pairs has beside it: a method without privacy, and in the gallery the clipped mean or gradients.

The non-private estimate and the answer without data are in every study; ``tests/executor`` says so."""

from __future__ import annotations

from pathlib import Path

import pytest

from dpspec.compiler.passes import compile_draft
from dpspec.executor.references import check, is_reference
from dpspec.lang.source import parse_file
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
