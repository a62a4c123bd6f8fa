"""What an editor shows, function by function."""

from __future__ import annotations

from pathlib import Path

import pytest

from dpspec.algorithms.registry import ids
from dpspec.lsp import features
from dpspec.spec.diagnostics import Diagnostic, Span
from dpspec.spec.words import ASSUMPTIONS, LAWS, LOSSES

ROOT = Path(__file__).parents[2]
TEXT = """analysis "a"

data
  n = 1000, d = 3, R0 = 2
  private
  x in ball(l2, R0) by scale
  y in {-1, 1} by map(0 -> -1, 1 -> 1)

privacy central
  epsilon = 1

assume
  moment(order 2, bound R0) of x

release w
  minimise logistic + 0.1/2*|w|^2 over ball(l2, 1)
  by objective-perturbation
"""


def offered(text: str) -> set[str]:
    rows = text.split("\n")
    return {o.text for o in features.complete(text, "a.dps", len(rows), len(rows[-1]) + 1)}


@pytest.mark.parametrize(
    ("text", "has", "lacks"),
    [
        ("", {"analysis", "data", "privacy", "release"}, {"ball"}),
        ("data\n  x in ", {"ball", "box", "simplex"}, {"data", "n", "minimise"}),
        ("data\n  x in ball(", {"l1", "l2", "linf"}, {"ball"}),
        ("data\n  x in ball(l2, 1) by ", {"clip", "scale", "reject"}, {"central"}),
        ("privacy ce", {"central", "nldp", "sldp"}, {"minimise"}),
        ("data\n  n = 10, neighbours ", {"replace-one", "add-remove", "zero-out"}, {"unit"}),
        ("assume\n  ", set(ASSUMPTIONS), {"dp-gd"}),
        ("simulate\n  x ~ ", set(LAWS), {"dp-gd"}),
        ("release w\n  minimise ", set(LOSSES), {"dp-gd"}),
        ("release w\n  minimise logistic\n  by ", {"auto", *ids()}, {"logistic"}),
        ("release w\n  minimise logistic\n  expect ", {"excess-empirical-risk", "gradient-norm"}, {"dp-gd"}),
        ("data\n  n = 5 # a com", set(), {"n", "private"}),
    ],
)
def test_completion_is_the_grammars_answer(text: str, has: set[str], lacks: set[str]) -> None:
    found = offered(text)
    assert has <= found
    assert not lacks & found


def test_a_completed_word_parses_further_than_any_other() -> None:
    """What is offered inside a spec leads to no error at that place, and a word that is not offered does."""
    start = TEXT[: TEXT.index("by scale")] + "by "
    for word in sorted(offered(start)):
        found = features.parse(TEXT.replace("by scale", f"by {word}"), "a.dps")[1]
        assert not [d for d in found if d.code == "DP107" and d.span is not None and d.span.line == 6], word
    assert [d.code for d in features.parse(TEXT.replace("by scale", "by central"), "a.dps")[1]][:1] == ["DP107"]


def test_yaml_completes_algorithms() -> None:
    text = "releases:\n  w:\n    by: dp-"
    assert {o.text for o in features.complete(text, "a.dpspec.yaml", 3, len("    by: dp-") + 1)} == set(ids())


def test_hover_and_definition() -> None:
    hover = features.hover(TEXT, "a.dps", 17, 8)
    assert hover is not None
    assert hover[0].startswith("**objective-perturbation**")
    assert hover[1] == Span(17, 6, 17, 28)
    constant = features.hover(TEXT, "a.dps", 6, 17)
    assert constant is not None
    assert "R0 = 2" in constant[0]
    word = features.hover(TEXT, "a.dps", 13, 4)
    assert word is not None
    assert "E |x_j|^p" in word[0]
    assert features.hover(TEXT, "a.dps", 99, 1) is None
    assert features.definition(TEXT, "a.dps", 6, 17) == Span(4, 20, 4, 22)
    assert features.definition(TEXT, "a.dps", 17, 8) is None


def test_a_broken_text_raises_nothing() -> None:
    for cut in range(0, len(TEXT), 7):
        broken = TEXT[:cut] + "~ (" + TEXT[cut + 3 :]
        for line in (1, 4, 6, 17):
            features.complete(broken, "a.dps", line, 3)
            features.hover(broken, "a.dps", line, 3)
            features.definition(broken, "a.dps", line, 3)
        assert features.parse(broken, "a.dps")[0] is not None or features.parse(broken, "a.dps")[1]


def test_fixes_follow_from_remedies() -> None:
    text = 'analysis "a"\ndata\n  n = 5, neighbour replace-one\n'
    span = Span(3, 10, 3, 19)
    found = list(features.fixes(text, [Diagnostic("DP107", "error", "unknown word `neighbour` here", "Did you mean `neighbours`?", span)]))
    assert found == [features.Fix("Write neighbours", span, "neighbours")]
    twice = Diagnostic("DP116", "error", "`a` means nothing here", "Did you mean `B`?", Span(1, 1, 1, 13))
    assert not list(features.fixes(text, [twice]))  # `a` stands there several times: no guess


def test_the_policy_of_the_folder_is_obeyed(tmp_path: Path) -> None:
    (tmp_path / "policy.yaml").write_text("policy: 1\nrules:\n  - name: r\n    least-n: 5000\n", encoding="utf-8")
    text = TEXT.replace("objective-perturbation", "output-perturbation")
    found = features.diagnostics(text, str(tmp_path / "a.dps"))
    assert [d.code for d in found if d.severity == "error"] == ["DP753"]
    (tmp_path / "policy.yaml").write_text("policy: 1\nrule: 3\n", encoding="utf-8")
    assert "DP750" in {d.code for d in features.diagnostics(text, str(tmp_path / "a.dps"))}
