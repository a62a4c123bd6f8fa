"""The pages of the showcase are what docs/gen_showcase.py writes: their digests, the kept results rendered again, the specs of today."""

from __future__ import annotations

import json
import re
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from tests.docs.test_generated import load

ROOT = Path(__file__).resolve().parents[2]
GENERATOR: Any = load("gen_showcase")
PAGES = [ROOT / "docs" / "showcase-sparse.md", *(GENERATOR.KEPT / f"sparse-four-models-{m}.html" for m in GENERATOR.MODELS)]
AGAIN = "run python docs/gen_showcase.py --render (or without it, when specs, algorithms or studies changed)"


def without_figures(text: str) -> str:
    """Figures depend on matplotlib's version to the last digit; their words do not."""
    text = re.sub(r"<!--.*?-->\n", "", text)
    return re.sub(r'<svg role="img" aria-label="(.*?)".*?</svg>', r"[\1]", text, flags=re.DOTALL)


@pytest.mark.parametrize("file", PAGES, ids=lambda f: f.name)
def test_no_page_was_edited_by_hand(file: Path) -> None:
    text = file.read_text(encoding="utf-8")
    assert GENERATOR.stamped(text[: text.rindex("<!-- written by")]) == text, AGAIN


def test_an_edit_is_noticed(tmp_path: Path) -> None:
    text = PAGES[-1].read_text(encoding="utf-8")
    edited = text.replace("study", "survey", 1)
    assert GENERATOR.stamped(edited[: edited.rindex("<!-- written by")]) != edited
    assert without_figures(edited) != without_figures(text)


def test_the_kept_results_give_these_pages(tmp_path: Path) -> None:
    GENERATOR.write_pages(tmp_path)
    for file in PAGES[1:]:
        assert without_figures((tmp_path / file.name).read_text(encoding="utf-8")) == without_figures(file.read_text(encoding="utf-8")), (
            AGAIN
        )


@pytest.mark.parametrize("model", GENERATOR.MODELS)
def test_the_kept_results_are_of_the_specs_of_today(model: str) -> None:
    """Text and plan: a changed spec, calibration or card makes the results stale."""
    from dpspec.compiler.plan import make_plan
    from dpspec.executor.design import design
    from dpspec.lang.source import parse_text

    path = f"specs/showcase/sparse-four-models-{model}.dps"
    text = (ROOT / path).read_text(encoding="utf-8")
    body = json.loads(GENERATOR.kept(model).read_text(encoding="utf-8"))
    assert body["plan"]["text"] == text, AGAIN
    assert unescape(PAGES[1 + list(GENERATOR.MODELS).index(model)].read_text(encoding="utf-8")).count(text) == 1
    first = design(parse_text(text, path), trials=None, seed=None, vary={}, compare=(), quick=False).points[0]
    assert make_plan(first.parsed).to_json()["sha256"] == body["plan"]["sha256"], AGAIN


def test_the_table_of_the_page_is_that_of_the_kept_results() -> None:
    class Kept:
        def __init__(self, model: str) -> None:
            self.model = model

        def to_json(self) -> Any:
            return json.loads(GENERATOR.kept(self.model).read_text(encoding="utf-8"))

    results = [(model, Kept(model)) for model in GENERATOR.MODELS]
    page = PAGES[0].read_text(encoding="utf-8")
    for line in (*GENERATOR.rows(results, "n"), *GENERATOR.ordering(results, "n")):
        assert f"\n{line}\n" in page, AGAIN
