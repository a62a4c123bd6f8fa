"""Numbers written as formulas: by hand, by Python's own arithmetic, and refused where they are none."""

from __future__ import annotations

import math

import pytest

from dpspec.audit import audit
from dpspec.audit.formulas import is_formula, value_of
from dpspec.spec.diagnostics import SpecError


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1/n^2", 1e-6),
        ("2*log(1/delta)", 2 * math.log(1e5)),
        ("sqrt(2*ln(1.25/delta))", math.sqrt(2 * math.log(1.25e5))),
        ("-(n - 2**3)/4", -248.0),
        ("min(1, 3, 2) + max(0, exp(0))", 2.0),
        ("ceil(n/256)", 4.0),
    ],
)
def test_value(text: str, value: float) -> None:
    assert is_formula(text)
    assert value_of(text, {"n": 1000, "delta": 1e-5}) == pytest.approx(value, rel=1e-14)


@pytest.mark.parametrize(
    "text",
    [
        "1/m",
        "__import__('os')",
        "n.real",
        "n[0]",
        "9**9**9**9",
        "1/(n-n)",
        "log(0)",
        "(-1)^0.5",
        "lambda: 1",
        "min(1)",
        "n if n else 1",
        "'a'*3",
    ],
)
def test_no_value(text: str) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        value_of(text, {"n": 5.0})


@pytest.mark.parametrize("text", ["data-range", "from-data", "float32", "1e-5", "1/3", "user-day", "e-5", "a sum (of squares)", "-", "n"])
def test_words_and_plain_numbers_are_no_formulas(text: str) -> None:
    assert not is_formula(text)


def _described(**claim: object) -> dict[str, object]:
    event = {"type": "gaussian", "what": "2*n", "l2_sensitivity": "2/n", "sigma": "sqrt(2*log(1.25/delta))/n"}
    return {"audit": 1, "setting": {"unit": "n^2", "neighbouring": "replace_one", "n": 1000}, "claim": claim, "events": [event]}


def test_formulas_of_a_description() -> None:
    result = audit(_described(epsilon="3 - 1", delta="1/n^2"))
    plain = _described(epsilon=2, delta=1e-6)
    plain["events"] = [{"type": "gaussian", "l2_sensitivity": 2 / 1000, "sigma": math.sqrt(2 * math.log(1.25e6)) / 1000}]
    assert result.static is not None
    assert result.static.epsilon == pytest.approx(audit(plain).static.epsilon, rel=1e-12)  # type: ignore[union-attr]
    assert result.static.delta == 1e-6
    assert result.stated["unit"] == "n^2"


def test_a_formula_without_a_value_is_refused_by_its_field() -> None:
    with pytest.raises(SpecError) as error:
        audit(_described(epsilon="1/(n - 1000)", delta=1e-6))
    assert "epsilon" in error.value.diagnostics[0].message
