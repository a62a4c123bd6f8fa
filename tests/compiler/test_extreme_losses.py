"""Losses that are deep, long or steep: a plan or a diagnostic after a bounded number of evaluations, counted and not timed."""

from __future__ import annotations

import contextlib

import pytest

from dpspec.compiler.passes import compile_draft
from dpspec.lang.source import parse_text
from dpspec.spec.diagnostics import SpecError
from dpspec.symbolic import enclose, jets

SPEC = """analysis "extreme"

data
  n = 100, d = 2
  from memory target "y"
  private, unit person, neighbours replace-one
  x in ball(l2, 1) by scale
  y in {-1, 1} by map(0 -> -1, 1 -> 1)

privacy central
  epsilon = 1, delta = 1e-6

release a
  minimise LOSS over ball(l2, RADIUS)
  by dp-gd
"""


def nested(form: str, levels: int, inner: str = "<w, x>") -> str:
    for _ in range(levels):
        inner = form.replace("#", inner)
    return inner


DEEP = {
    "exp": nested("exp(#)", 50),
    "exp - 1": nested("exp(# - 1)", 18),
    "max": nested("max(0, #)", 40),
    "max of two": nested("max(#, 1/3)", 40),
    "min": nested("min(1, #)", 40),
    "abs": nested("abs(#)", 40),
    "squared max": nested("max(0, #)^2", 18),
    "sqrt": nested("sqrt(1 + #^2)", 14),
    "log": nested("log(3 + #)", 18),
    "tanh": nested("tanh(#)", 50),
    "sin": nested("sin(#)", 50),
    "huber": nested("huber(1, #)", 20),
    "1/x": nested("1/(2 + #)", 18),
    "product": nested("(1 + #)*(1 - #)", 6),
    "exp of a product": nested("exp(#*<w, x>)", 20),
    "square of a square": nested("(1 + #)^2", 12),
    "sum": " + ".join(f"exp(-{i}*<w, x>/100)" for i in range(1, 50)),
    "long product": "*".join("exp(<w, x>/3)" for _ in range(50)),
    "power": "(1 + <w, x>)^60",
    "power of y": "(1 - y*<w, x>)^64",
    "power of a power": "(((1 + <w, x>)^9)^9)^9",
    "huge power": "(1 + <w, x>)^1000000",
}


@pytest.mark.parametrize("name", DEEP)
def test_the_work_for_a_loss_is_bounded(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    count = 0
    plain = jets._atom_power

    def counted(*args: object) -> object:
        nonlocal count
        count += 1
        return plain(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(jets, "_atom_power", counted)
    with contextlib.suppress(SpecError):  # some are too deep for the language
        draft = compile_draft(parse_text(SPEC.replace("LOSS", DEEP[name]).replace("RADIUS", "1"), "a.dps"))
        assert draft.diagnostics or draft.calibrated is not None
    # three searches of at most MAX_WORK, each box evaluated up to four times, and some thousand points beside them
    assert count <= 15 * enclose.MAX_WORK


def test_a_short_loss_still_has_all_its_boxes() -> None:
    from dpspec.spec.expr import Expr
    from dpspec.symbolic.normal import Scope, normal_form

    parsed = parse_text(SPEC.replace("LOSS", "sqrt(1 + (y - <w, x>)^2)").replace("RADIUS", "1"), "a.dps")
    loss = parsed.analysis.releases[0].task.loss  # type: ignore[union-attr]
    assert isinstance(loss, Expr)
    assert enclose.MAX_WORK // enclose.size(normal_form(loss, Scope({}))) >= enclose.MAX_BOXES


@pytest.mark.parametrize("loss", ["exp(-y*<w, x>)", "exp(<w, x>)", "exp(-y*<w, x>) + <w, x>^2"])
@pytest.mark.parametrize("radius", ["400", "700"])
@pytest.mark.parametrize("algorithm", ["dp-gd", "dp-sgd", "dp-frank-wolfe", "output-perturbation", "dp-mirror-descent"])
def test_a_slope_that_is_a_double_and_whose_square_is_none(loss: str, radius: str, algorithm: str) -> None:
    text = SPEC.replace("LOSS", loss).replace("RADIUS", radius).replace("dp-gd", algorithm)
    errors = [d for d in compile_draft(parse_text(text, "a.dps")).diagnostics if d.severity == "error"]
    assert errors
    assert all(d.help for d in errors)


def test_the_diagnostic_names_the_slope() -> None:
    """e^400 = 5.22e173."""
    draft = compile_draft(parse_text(SPEC.replace("LOSS", "exp(-y*<w, x>)").replace("RADIUS", "400"), "a.dps"))
    assert any("5.22e+173" in d.message for d in draft.diagnostics)
