"""Hostile and broken inputs: a diagnostic with a place and a remedy, never a traceback, in bounded time and memory."""

from __future__ import annotations

import os
import resource
import time
from pathlib import Path

import pytest

from dpspec.lang.source import MAX_BYTES, parse_expr, parse_file, parse_text
from dpspec.spec.diagnostics import SpecError

GOOD_DPS = """analysis "a"
data
  n = 1000, d = 5
  x in ball(l2, 1) by scale
privacy central
  epsilon = 1
release m
  estimate mean(x)
"""
GOOD_YAML = """dpspec: 1
analysis: a
data:
  n: 1000
  domain:
    x: ball(l2, 1) by scale
privacy:
  model: central
  epsilon: 1
releases:
  m:
    estimate: mean(x)
"""
SECONDS = 8.0  # generous for a shared machine; the quadratic or exponential readings of these inputs take minutes or do not end


def refused(text: str, path: str) -> list[str]:
    """The codes of the diagnostics; fails when there are none, when one has no remedy, or when it took too long."""
    start = time.perf_counter()
    with pytest.raises(SpecError) as caught:
        parse_text(text, path)
    assert time.perf_counter() - start < SECONDS
    assert caught.value.diagnostics
    for d in caught.value.diagnostics:
        assert d.message
        assert d.help
        assert len(d.message) + len(d.help) < 2000, "the whole input must not come back in a message"
    return [d.code for d in caught.value.diagnostics]


def laughs(levels: int = 12, width: int = 9) -> str:
    lines = ["a0: &a0 [x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * width)}]" for i in range(1, levels)]
    return "dpspec: 1\n" + "\n".join(lines) + "\n"


HALF = MAX_BYTES // 2
BOTH = {
    "nested-parentheses": "(" * HALF,
    "nested-brackets": "[" * HALF,
    "nested-braces": "{" * HALF,
    "nested-inner": "<" * HALF,
    "nested-bars": "| " * (HALF // 2),
    "one-long-word": "a" * HALF,
    "one-long-hyphenated-word": "a-" * (HALF // 2) + "a",
    "many-lines": "x\n" * (HALF // 8),
    "many-commas": "," * HALF,
    "many-quotes": '"' * HALF,
    "many-backslashes": '"' + "\\" * HALF,
    "spaces": " " * HALF + "x",
    "newlines": "\n" * HALF + "x",
    "nul": "analysis \x00",
    "escape": "analysis \x1b[31m",
    "surrogate": "analysis \ud800",
    "line-separator": "analysis \u2028",
}


@pytest.mark.parametrize("path", ["a.dps", "a.dpspec.yaml"])
@pytest.mark.parametrize("name", sorted(BOTH))
def test_raw_text(name: str, path: str) -> None:
    refused(BOTH[name], path)


INSIDE = {
    "long-integer": "9" * 5000,
    "exponent-bomb": "1e999999999",
    "negative-exponent-bomb": "1e-999999999",
    "long-exponent": "1e" + "9" * 5000,
    "power-tower": "9^9^9^9^9^9",
    "power-of-power": "((((2^4096)^4096)^4096)^4096)",
    "product-of-powers": "*".join(["(2^4000)"] * 70),
    "unary-minus": "-" * 5000 + "1",
    "sum-of-many": "+".join(["1"] * 3000),
    "sum-of-too-many": "+".join(["1"] * 9000),
    "tower-of-calls": "exp(" * 50 + "1" + ")" * 50,
    "nested-200": "(" * 200 + "1" + ")" * 200,
    "nan": "nan",
    "inf": "inf",
    "minus-inf": "-inf",
    "NaN": "NaN",
    "zero": "0",
    "negative": "-1",
    "1e400": "1e400",
    "zero-to-minus-one": "0^(-1)",
    "root-of-negative": "sqrt(-1)",
    "log-of-zero": "log(0)",
    "fractional-power-of-negative": "(-1)^0.5",
    "max-of-one": "max(1)",
    "ceil-of-huge": "ceil(exp(700))^2",
    "fullwidth-digit": "１",
}


@pytest.mark.parametrize("name", sorted(INSIDE))
def test_as_epsilon(name: str) -> None:
    value = INSIDE[name]
    refused(GOOD_DPS.replace("epsilon = 1", f"epsilon = {value}"), "a.dps")
    refused(GOOD_YAML.replace("epsilon: 1", f"epsilon: '{value}'"), "a.dpspec.yaml")


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (laughs(), "DP121"),
        ("dpspec: &a [*a]\n", "DP121"),
        (GOOD_YAML.replace("n: 1000", "n: 1000\n  n: 1001"), "DP109"),
        (GOOD_YAML.replace("analysis: a", "analysis: !!python/object/apply:os.system ['true']"), "DP122"),
        (GOOD_YAML.replace("analysis: a", "analysis: !x a"), "DP122"),
        (GOOD_YAML + "---\n" + GOOD_YAML, "DP123"),
        (GOOD_YAML.replace("epsilon: 1", "epsilon: .nan"), "DP114"),
        (GOOD_YAML.replace("epsilon: 1", "epsilon: .inf"), "DP114"),
        (GOOD_YAML.replace("analysis: a", 'analysis: "\\ud800"'), "DP111"),
        (GOOD_YAML.replace("analysis: a", 'analysis: "\\0"'), "DP111"),
        (GOOD_YAML.replace("analysis: a", 'analysis: "\\UFFFFFFFF"'), "DP120"),
        (GOOD_YAML.replace("  n: 1000", "\tn: 1000"), "DP104"),
        (GOOD_YAML.replace("m:\n", "? {a: b}\n  : x\n"), "DP110"),
        ("- " * 5000 + "a\n", "DP112"),
        ("".join(" " * i + "a:\n" for i in range(200)), "DP112"),
    ],
)
def test_yaml(text: str, code: str) -> None:
    assert code in refused(text, "a.dpspec.yaml")


def test_aliases_in_moderation_are_read() -> None:
    text = GOOD_YAML.replace("n: 1000", "n: &n 1000\n  constants: {k: *n}")
    assert dict(parse_text(text, "a.yaml").analysis.data.constants)["k"] == parse_expr("1000")


def test_memory_stays_bounded() -> None:
    """The largest accepted text of the worst kinds does not grow the process by more than 400 MB."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for text, path in ((laughs(16, 16), "a.yaml"), ("(" * (MAX_BYTES - 1), "a.dps"), ("x\n" * (MAX_BYTES // 2 - 1), "a.yaml")):
        refused(text, path)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 400_000


# ----------------------------------------------------------------------------------------------------------- files


def refused_file(path: Path | str) -> tuple[str, SpecError]:
    start = time.perf_counter()
    with pytest.raises(SpecError) as caught:
        parse_file(path)
    assert time.perf_counter() - start < SECONDS
    assert all(d.help for d in caught.value.diagnostics)
    return caught.value.diagnostics[0].code, caught.value


def test_missing_file(tmp_path: Path) -> None:
    assert refused_file(tmp_path / "no.dps")[0] == "DP100"


def test_folder(tmp_path: Path) -> None:
    assert refused_file(tmp_path)[0] == "DP100"


def test_nul_in_path() -> None:
    assert refused_file("a\x00.dps")[0] == "DP100"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_named_pipe_does_not_hang(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "p.dps")
    assert refused_file(tmp_path / "p.dps")[0] == "DP100"


def test_unknown_ending(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(GOOD_DPS)
    assert refused_file(tmp_path / "a.txt")[0] == "DP100"


def test_hundred_megabytes(tmp_path: Path) -> None:
    path = tmp_path / "big.dps"
    with path.open("wb") as file:
        file.truncate(100 * 1024 * 1024)
    code, error = refused_file(path)
    assert code == "DP101"
    assert error.text == ""


def test_not_utf8(tmp_path: Path) -> None:
    path = tmp_path / "latin.dps"
    path.write_bytes(b'analysis "a"\ndata\n  unit "caf\xe9"\n')
    code, error = refused_file(path)
    span = error.diagnostics[0].span
    assert code == "DP102"
    assert span is not None
    assert (span.line, span.column) == (3, 12)


def test_empty_file(tmp_path: Path) -> None:
    for name in ("a.dps", "a.dpspec.yaml"):
        (tmp_path / name).write_bytes(b"")
        assert refused_file(tmp_path / name)[0] == "DP103"


@pytest.mark.parametrize(("text", "path"), [(GOOD_DPS, "a.dps"), (GOOD_YAML, "a.dpspec.yaml")])
def test_bom_and_line_ends_are_accepted(text: str, path: str, tmp_path: Path) -> None:
    plain = parse_text(text, path)
    for variant in ("\ufeff" + text, text.replace("\n", "\r\n"), text.replace("\n", "\r"), "\ufeff" + text.replace("\n", "\r\n")):
        file = tmp_path / path
        file.write_bytes(variant.encode("utf-8"))
        read = parse_file(file)
        assert read.analysis == plain.analysis
        assert read.spans.spans == plain.spans.spans


def test_tabs_inside_a_line_are_spaces() -> None:
    assert parse_text(GOOD_DPS.replace("n = 1000", "n\t=\t1000"), "a.dps").analysis == parse_text(GOOD_DPS, "a.dps").analysis


def test_errors_are_capped() -> None:
    text = GOOD_DPS + "".join(f"  zzz{i} !\n" for i in range(500))
    codes = refused(text, "a.dps")
    assert len(codes) == 101
    assert codes[-1] == "DP149"


@pytest.mark.parametrize(
    ("line", "mend"),
    [
        ("n = 200,000, d = 2", "Write 200_000."),
        ('n = "200", d = 2', "Write 200."),
        ("n = 200, d = 1,5", "Write 1.5."),
        ("n = 10%, d = 2", "Write 10/100."),
    ],
)
def test_a_number_of_another_notation_is_named(line: str, mend: str) -> None:
    with pytest.raises(SpecError) as found:
        parse_text(f'analysis "a"\ndata\n  {line}\nprivacy central\n  epsilon = 1\nrelease r\n  estimate mean(x)\n', "a.dps")
    assert mend in {d.help for d in found.value.diagnostics}
