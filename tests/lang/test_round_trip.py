"""What is printed parses back to the same model, in both surfaces; formatting is idempotent and keeps comments."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import ANY_EXPRESSION, analyses, examples

from dpspec.lang.format import convert, format_text
from dpspec.lang.printer import expr_text, to_dps, to_yaml
from dpspec.lang.source import parse_expr, parse_text
from dpspec.spec.expr import Expr
from dpspec.spec.model import Analysis


@given(ANY_EXPRESSION)
@examples(200)
def test_expression_round_trip(e: Expr) -> None:
    assert parse_expr(expr_text(e)) == e


@given(analyses())
@examples(40)
def test_both_surfaces_round_trip(a: Analysis) -> None:
    dps, yaml = to_dps(a), to_yaml(a)
    from_dps, from_yaml = parse_text(dps, "a.dps"), parse_text(yaml, "a.dpspec.yaml")
    assert from_dps.analysis == a
    assert from_yaml.analysis == a
    assert convert(from_dps, "yaml") == yaml
    assert convert(from_yaml, "dps") == dps


@given(analyses())
@examples(15)
def test_printed_text_is_a_fixed_point_of_fmt(a: Analysis) -> None:
    for text, path in ((to_dps(a), "a.dps"), (to_yaml(a), "a.dpspec.yaml")):
        assert format_text(text, path) == text


@given(analyses(), st.data())
@examples(25)
@pytest.mark.parametrize("surface", ["dps", "yaml"])
def test_fmt_keeps_comments(surface: str, a: Analysis, data: st.DataObject) -> None:
    """Comments scattered over the lines survive formatting, in order and once each, and the second pass changes nothing."""
    path = f"a.{surface}"
    lines = (to_dps(a) if surface == "dps" else to_yaml(a)).splitlines()
    count = data.draw(st.integers(1, 6))
    for i in range(count):
        at = data.draw(st.integers(0, len(lines) - 1))
        if data.draw(st.booleans()) and lines[at].strip() and "\x00" not in lines[at] and "#mark" not in lines[at]:
            lines[at] += f"  #mark{i}."
        else:
            indent = len(lines[at]) - len(lines[at].lstrip())
            lines.insert(at, " " * indent + f"#mark{i}.")
    text = "\n".join(lines) + "\n"
    once = format_text(text, path)
    assert parse_text(once, path).analysis == a
    assert sorted(re.findall(r"#mark\d\.", once)) == [f"#mark{i}." for i in range(count)]
    assert format_text(once, path) == once
