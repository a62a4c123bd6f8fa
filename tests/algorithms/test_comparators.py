"""What every study of heavy tails and of pairs has beside it: a method without privacy, and of a central mean the clipped one.

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
        expected = "pairwise-giga" if release.task.pairwise else "robust-gd"
    else:
        expected = "median-of-means"
        assert "dp-clipped-mean" in named or analysis.privacy.model != "central"
    assert expected in named and is_reference(expected)


@pytest.mark.parametrize("path", GALLERY, ids=lambda p: p.stem)
def test_a_comparator_of_the_gallery_answers_the_question(path: Path) -> None:
    parsed = parse_file(path)
    assert parsed.analysis.study is not None
    check(compile_draft(parsed), [name for name in parsed.analysis.study.compare if is_reference(name)])
