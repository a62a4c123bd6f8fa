"""What used to be accepted without a word, or refused with a misleading one: each sentence on the command line itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.call import call

SPEC = """analysis "walk"
data
  n = 200, d = 3
  from memory
  public
  x in ball(l2, 1) by scale
  y in {-1, 1} by map(-1 -> -1, 1 -> 1)
privacy central
  epsilon = 1, delta = 1e-6
release a
  minimise logistic + 0.01/2*|w|^2 over ball(l2, 1)
"""
FILE = SPEC.replace("from memory", 'from "d.csv" target y columns [a, b, c]')
PRIVATE = FILE.replace("public", "private, unit person, neighbours replace-one")


@pytest.fixture
def told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """``told(command, text, *words)``: exit code and all that is printed."""
    monkeypatch.chdir(tmp_path)

    def run(command: str, text: str, *words: str, labels: str = "") -> tuple[int, str]:
        rows = [f"{i % 7},{i % 5},{i % 3},{labels[i % len(labels)] if labels else 2 * (i % 2) - 1}" for i in range(200)]
        (tmp_path / "d.csv").write_text("a,b,c,y\n" + "\n".join(rows), encoding="utf-8")
        (tmp_path / "a.dps").write_text(text, encoding="utf-8")
        got = call(command, "a.dps", *words)
        return got.code, got.stdout + got.stderr

    return run


@pytest.mark.parametrize(
    ("said", "help"),
    [
        ("n = 200,000,", "Write 200_000."),
        ("n = 200 000,", "Write 200_000."),
        ("n = 200\u202f000,", "Write 200_000."),
        ("n = 200'000,", "Write 200_000."),
        ("n = 200\u2019000,", "Write 200_000."),
        ("n = 1.200.000,", "Write 1_200_000."),
        ("n = 10%,", "Write 10/100."),
        ('n = "200",', "Write 200."),
    ],
)
def test_numbers_of_other_notations(told, said: str, help: str) -> None:
    code, text = told("check", SPEC.replace("n = 200,", said))
    assert code == 2
    assert help in text


def test_a_decimal_comma(told) -> None:
    code, text = told("check", SPEC.replace("epsilon = 1,", "epsilon = 0,5,"))
    assert code == 2
    assert "a decimal point is a point" in text


def test_a_group_larger_than_w(told) -> None:
    code, text = told("check", SPEC.replace("logistic +", "logistic + 0.1*group(w, 5) +"))
    assert code == 1
    assert "a group has 5 coordinates, and w has d = 3" in text


def test_more_columns_than_memory(told) -> None:
    code, text = told("check", SPEC.replace("d = 3", "d = 40_000_000_000"))
    assert code == 0
    assert "DP422" in text
    assert "d = 40,000,000,000" in text


def test_a_large_delta_is_said_by_run(told) -> None:
    code, text = told("run", PRIVATE.replace("delta = 1e-6", "delta = 0.9"))
    assert code == 0
    assert "DP303: delta = 0.9 is above 1/n = 0.005: a random record may be published whole" in text


@pytest.mark.parametrize(
    ("text", "labels", "help"),
    [
        (FILE, "ny", 'y in {-1, 1} by map("n" -> -1, "y" -> 1)'),
        (FILE, "abc", 'y in {0, 1, 2} by map("a" -> 0, "b" -> 1, "c" -> 2), and minimise multinomial(3)'),
        (PRIVATE, "abc", "of K classes to {0, ..., K-1}"),
    ],
)
def test_labels_that_are_words(told, text: str, labels: str, help: str) -> None:
    code, said = told("run", text, labels=labels)
    assert code == 2
    assert "DP505" in said
    assert help in said
    assert text is FILE or '"c"' not in said


def test_units_that_make_a_column_constant_and_a_constant_that_is_not_fitted(told) -> None:
    spec = FILE.replace("  x in ball", "  encode a as range(1000, 2000)\n  x in ball")
    code, text = told("study", spec, "--trials", "2")
    assert code == 0
    assert "Column 'a' is the same number in every record once it is encoded and enforced" in text
    assert "Column 'b'" not in text
    assert "at 1 of 1 points the estimate is no better than the zero vector" in text
    assert "constant of the order bound" not in text


@pytest.mark.parametrize(
    ("change", "code", "words"),
    [
        (("d = 3", "d = 5"), 1, "the spec says d = 5, and its columns come to 3"),
        (("  x in ball", "  encode q as range(0, 1)\n  x in ball"), 1, "the encoded column 'q' is not listed in columns"),
        (("y in {-1, 1} by map(-1 -> -1, 1 -> 1)", "y in {0, 1} by map(-1 -> 0, 1 -> 1)"), 0, "DP223"),
    ],
)
def test_found_by_check(told, change: tuple[str, str], code: int, words: str) -> None:
    got, text = told("check", FILE.replace(*change))
    assert got == code
    assert words in text


def test_reordered_columns_are_another_plan(told) -> None:
    import json

    ids = {
        json.loads(told("plan", PRIVATE.replace("[a, b, c]", order), "--format", "json")[1])["sha256"]
        for order in ("[a, b, c]", "[c, a, b]")
    }
    assert len(ids) == 2


def test_a_name_that_cannot_be_varied(told) -> None:
    code, text = told("study", FILE, "--vary", "eps=0.1,10", "--trials", "2")
    assert code == 2
    assert "did you mean 'epsilon'?" in text


def test_nobody_serves_it_in_few_words(told) -> None:
    code, text = told(
        "check", SPEC.replace("privacy central", "privacy sldp").replace("logistic + 0.01/2*|w|^2 over ball(l2, 1)", "huber(1) + 0.1*|w|_1")
    )
    assert code == 1
    message = next(line for line in text.splitlines() if "DP401" in line)
    assert len(message) < 420
    assert "others for reasons of their own" in message or message.count(";") <= 2


def test_the_least_eigenvalue_is_not_above_what_the_ball_allows(told) -> None:
    text = SPEC.replace("privacy central", "privacy nldp").replace(
        "minimise logistic + 0.01/2*|w|^2 over ball(l2, 1)", "estimate theta in y = <theta, x> + noise\n  by nldp-sparse-linear-regression"
    )
    code, said = told("check", text.replace("y in {-1, 1} by map(-1 -> -1, 1 -> 1)", "y in [-1, 1] by clip"))
    assert "its least eigenvalue is at most 0.333" in said, (code, said)


def test_init_writes_a_file_of_that_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert call("init", "my.dps").code == 0
    assert (tmp_path / "my.dps").is_file()
