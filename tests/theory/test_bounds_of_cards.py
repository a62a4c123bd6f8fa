"""Bounds as data: every name is defined, every condition can be read, and the number of a plan is that of the printed expression."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from dpspec.algorithms.card import Bound
from dpspec.algorithms.registry import all_modules
from dpspec.compiler.bound import bound_terms, environment
from dpspec.compiler.conditions import compared
from dpspec.compiler.draft import Bounded
from dpspec.compiler.passes import compile_draft
from dpspec.lang.source import parse_expr, parse_file, parse_text
from dpspec.spec.assumptions import ASSUMPTIONS
from dpspec.spec.expr import names
from dpspec.symbolic.bounds import BoundExpr
from dpspec.theory import formulas
from dpspec.theory.glossary import GLOSSARY

ROOT = Path(__file__).parents[2]
ALGORITHMS = [m for m in all_modules() if m.CARD.role == "algorithm" and m.CARD.bounds]
ALL = [(m, b) for m in all_modules() for b in m.CARD.bounds]
GALLERY = sorted(p for p in (ROOT / "specs").glob("*/*.dps") if p.parent.name not in ("reproduce", "showcase", "team"))
#: One spec a family, for the fast suite.
FEW = [next(p for p in reversed(GALLERY) if p.parent.name == family) for family in sorted({p.parent.name for p in GALLERY})]
#: Settings that the gallery leaves out: spec, what is replaced, the theorem that then has a value.
SETTINGS = [
    ("convex_erm/dp-gd", "by dp-gd", "by dp-gd with method = nesterov", "nesterov"),
    ("convex_erm/dp-gd", "by dp-gd", "by dp-gd with method = nesterov", "nesterov, 0.95"),
    ("convex_erm/dp-gd", "by dp-gd", "by dp-gd with method = momentum, momentum = 0", "plain steps"),
    ("convex_erm/dp-mirror-descent", "by dp-mirror-descent", "by dp-mirror-descent with steps = fixed", "mirror inequality"),
    ("matrix/dp-covariance-gaussian", "psd = on", "psd = off", "000 (6.18) with constants"),
    ("matrix/dp-thresholding", "by dp-thresholding", "by dp-thresholding with level = declared", ""),
    ("matrix/dp-precision-covariance", "by dp-precision-covariance", "by dp-precision-covariance with noise = wishart", ""),
]


def applying(release: Bounded) -> Iterator[tuple[Bound, float, float]]:
    """The explicit bounds that have a number here: the expression's and the code's."""
    module = release.module
    if not hasattr(module, "explicit_bounds"):
        return
    if hasattr(module, "bounds_apply") and not module.bounds_apply(release.problem, release.tunables):
        return
    code = module.explicit_bounds(release.problem, release.tunables, release.calibrated)
    terms, known = bound_terms(release), environment(release)
    for b in module.CARD.bounds:
        if b.kind == "explicit" and b.theorem in code:
            value = formulas.value(b.expression, {**known, **terms[b.theorem]})
            assert value is not None, (module.CARD.id, b.theorem)
            yield b, value, code[b.theorem]


def agree(text_or_path: str | Path) -> set[str]:
    parsed = parse_file(text_or_path) if isinstance(text_or_path, Path) else parse_text(text_or_path)
    found = set()
    for release in compile_draft(parsed).releases:
        assert isinstance(release, Bounded), text_or_path
        for b, value, code in applying(release):
            assert value == pytest.approx(code, rel=1e-9), (release.module.CARD.id, b.theorem)
            shown = next(x for x in release.bounds if x.theorem == b.theorem and x.expression == b.expression)
            assert shown.outside or shown.value == value
            found.add(b.theorem)
    return found


@pytest.mark.parametrize("path", FEW, ids=lambda p: p.stem)
def test_the_expression_is_what_the_code_computes(path: Path) -> None:
    agree(path)


@pytest.mark.slow
@pytest.mark.parametrize("path", [p for p in GALLERY if p not in FEW], ids=lambda p: p.stem)
def test_the_expression_is_what_the_code_computes_over_the_gallery(path: Path) -> None:
    agree(path)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "old", "new", "theorem"), SETTINGS, ids=[f"{s[0]} {s[3]}" for s in SETTINGS])
def test_at_settings_that_the_gallery_leaves_out(name: str, old: str, new: str, theorem: str) -> None:
    text = (ROOT / "specs" / f"{name}.dps").read_text()
    assert text.count(old) == 1, text
    found = agree(text.replace(old + (" with" if f"{old} with" in text else ""), new + (", " if f"{old} with" in text else "")))
    assert theorem in found if theorem else found


@pytest.mark.parametrize("module", ALGORITHMS, ids=[m.CARD.id for m in ALGORITHMS])
def test_no_explicit_bound_has_a_number_that_the_expression_does_not_give(module: ModuleType) -> None:
    """A module that computes explicit bounds gives the names of their expressions too."""
    explicit = [b for b in module.CARD.bounds if b.kind == "explicit"]
    assert not explicit or not hasattr(module, "explicit_bounds") or hasattr(module, "bound_terms")


@pytest.mark.parametrize(("module", "b"), ALL, ids=[f"{m.CARD.id}-{i}" for i, (m, _) in enumerate(ALL)])
def test_conditions_are_data_that_can_be_read(module: ModuleType, b: Bound) -> None:
    card = module.CARD
    for text in b.when:
        left, _, right = compared(text)
        parse_expr(left), parse_expr(right)
    for need in b.needs:
        word = need.partition(" of ")[0]
        assert word in ASSUMPTIONS, need
    for name, value in b.options.items():
        assert (value in card.options[name]) if isinstance(value, str) else name in card.tunables
    assert set(b.guarantees) <= {"pure", "approx", "zcdp", "gdp"}
    expression = parse_expr(b.expression)
    assert set(b.where) <= names(expression), "what is defined is used"
    own = {*b.where, *card.tunables, *GLOSSARY}
    assert all(n in own or n == "scale" or n.endswith("_scale") for n in names(expression)), "every name is defined"
    assert BoundExpr(expression, b.kind).latex()
    if b.kind == "order":
        assert "C" in {n[0] for n in names(expression)}
