"""The same through the language's own parser, and every rate hint of the catalogue."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from dpspec.domains.domain import ball, finite
from dpspec.symbolic.bounds import BoundExpr
from dpspec.symbolic.certify import certify
from dpspec.symbolic.render import to_latex, to_text
from dpspec.symbolic.to_sympy import to_sympy

source = pytest.importorskip("dpspec.lang.source")
CATALOGUE = Path(__file__).resolve().parents[3] / "shared" / "catalog"


@pytest.mark.parametrize(
    ("text", "name", "lipschitz"),
    [
        ("log(1 + exp(-y*<w, x>)) + 0.01/2*|w|^2", "logistic", 0.7310585786300049),
        ("1/2*(<w, x> - y)^2", "squared", 2.0),
        ("max(0, 1 - y*<w, x>) + 0.1*|w|_1", "hinge", 1.0),
        ("logistic + elastic-net(0.1, 0.2)", "logistic", 0.7310585786300049),
        ("huber(0.5)", "huber", 0.5),
        ("squared-hinge", "squared-hinge", 4.0),
        ("smooth-hinge(0.5)", "smoothed-hinge", 0.9850712500726658),  # (1 + 2/hypot(2, 0.5))/2
        ("sigmoid", "sigmoid", 0.25),
        ("exp(<w, x>) - y*<w, x>", "poisson", 3.718281828459045),
    ],
)
def test_losses_as_people_write_them(text: str, name: str, lipschitz: float) -> None:
    got = certify(source.parse_expr(text), over=ball("l2", 1), x=ball("l2", 1), y=finite(-1, 1))
    assert got.name == name
    assert got.method == "closed form"
    assert got.lipschitz == pytest.approx(lipschitz, rel=1e-12)


@pytest.mark.parametrize(
    "text",
    [
        "log(1 + exp(-y*<w, x>)) + 0.01/2*|w|^2",
        "a - (b - c)/d^2^e",
        "-(a + b)^2*|w|_1",
        "max(a, -b, 1e-3)",
        "a/(b/c)",
        "1/3*x^(2/3)",
        "-a^2",
    ],
)
def test_text_is_read_back_as_the_same_tree_or_value(text: str) -> None:
    first = source.parse_expr(text)
    printed = to_text(first)
    again = source.parse_expr(printed)
    assert to_text(again) == printed
    assert (to_sympy(again) - to_sympy(first)).simplify() == 0


def hints() -> list[str]:
    found: list[str] = []
    for name in ("01-background-and-convex-erm.yaml", "05-public-data-and-sparse-regression.yaml"):
        path = CATALOGUE / name
        if path.exists():
            found += re.findall(r'sympy_hint: "([^"]+)"', path.read_text(encoding="utf-8"))
    return found


@pytest.mark.skipif(not hints(), reason="the catalogue is not beside this checkout")
@pytest.mark.parametrize("hint", hints())
def test_catalogue_formulas_have_rates_and_render(hint: str) -> None:
    text = re.sub(r"Rational\((\d+), ?(\d+)\)", r"(\1/\2)", hint).replace("**", "^").replace("Max(", "max(").replace("Min(", "min(")
    text = re.sub(r"\beps\b", "epsilon", text)
    e = source.parse_expr(text)
    b = BoundExpr(e, "order")
    for variable in sorted(b.parameters & {"n", "p", "d", "k", "epsilon"}):
        g = b.exponents(variable)
        assert g.exponential == 0
        if variable == "n" and "T" not in b.parameters:
            assert g.power <= 0  # more records never hurt in these
    assert to_latex(e)
