"""What the language means, case by case, against models written out by hand."""

from __future__ import annotations

import itertools
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import pytest

from dpspec.lang import vocabulary
from dpspec.lang.format import format_text
from dpspec.lang.printer import expr_text, number_text, task_text, to_dps, to_yaml
from dpspec.lang.render import render
from dpspec.lang.source import parse_expr, parse_text
from dpspec.lang.spans import SourceMap
from dpspec.spec.diagnostics import Diagnostic, Span, SpecError
from dpspec.spec.expr import Bin, Call, Expr, Inner, Name, Neg, Norm, Num, evaluate, num
from dpspec.spec.model import (
    Answer,
    Assumption,
    Ball,
    Box,
    By,
    CsvSource,
    Domain,
    Encode,
    Enforcement,
    Estimate,
    EstimateTheta,
    Expect,
    Finite,
    Fit,
    Infer,
    Law,
    MemorySource,
    Minimise,
    Polytope,
    PublicRecords,
    Reals,
    Regress,
    Simplex,
    SklearnSource,
    Sparse,
)
from dpspec.spec.words import LOSSES

ROOT = Path(__file__).parent.parent.parent
w, x, y, a, b, n = (Name(i) for i in ("w", "x", "y", "a", "b", "n"))
one, two = num(1), num(2)


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("1 + 2*3", Bin("+", one, Bin("*", two, num(3)))),
        ("a - b - 1", Bin("-", Bin("-", a, b), one)),
        ("a/b/2", Bin("/", Bin("/", a, b), two)),
        ("2^3^2", Bin("^", two, Bin("^", num(3), two))),
        ("-a^2", Neg(Bin("^", a, two))),
        ("(-a)^2", Bin("^", Neg(a), two)),
        ("2^-1", Bin("^", two, Neg(one))),
        ("-a*b", Bin("*", Neg(a), b)),
        ("-(a*b)", Neg(Bin("*", a, b))),
        ("a**2", Bin("^", a, two)),
        ("<w, x>^2", Bin("^", Inner(w, x), two)),
        ("⟨w, x⟩", Inner(w, x)),
        ("|w|", Norm(w, "2")),
        ("|w|_2", Norm(w, "2")),
        ("|w|_1 + |x|_inf", Bin("+", Norm(w, "1"), Norm(x, "inf"))),
        ("‖w‖²", Bin("^", Norm(w), two)),
        ("‖w‖₁", Norm(w, "1")),
        ("||w||_1", Norm(w, "1")),  # not the norm of the norm
        ("||w||^2", Bin("^", Norm(w), two)),
        ("||w| - 1|", None),
        ("| |w| - 1|", Norm(Bin("-", Norm(w), one))),
        ("|a + |b||", Norm(Bin("+", a, Norm(b)))),
        ("|a|*|b|", Bin("*", Norm(a), Norm(b))),
        ("ε + λ + lambda", Bin("+", Bin("+", Name("epsilon"), Name("lam")), Name("lam"))),
        ("sigma_x*μ₁", None),
        ("student-t(3)", Call("student-t", (num(3),))),
        ("student - t", Bin("-", Name("student"), Name("t"))),
        ("a-b", Bin("-", a, b)),
        ("n-1", Bin("-", n, one)),
        ("log(1 + exp(-y*<w, x>))", Call("log", (Bin("+", one, Call("exp", (Bin("*", Neg(y), Inner(w, x)),))),))),
        ("max(a, b, 1)", Call("max", (a, b, one))),
        ("0.1", Num(Fraction(1, 10))),
        (".5e-3", Num(Fraction(1, 2000))),
        ("48_842", num(48842)),
        ("1e400", None),
        ("a b", None),
        ("", None),
        ("a +", None),
        ("<a>", None),
        ("1_", None),
    ],
)
def test_expressions(text: str, tree: Expr | None) -> None:
    if tree is None:
        with pytest.raises(SpecError):
            parse_expr(text)
    else:
        assert parse_expr(text) == tree


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("0", "0"),
        ("9999", "9999"),
        ("48842", "48_842"),
        ("1e6", "1_000_000"),
        ("1e20", "1e20"),
        ("1.5e20", "1.5e20"),
        ("0.05", "0.05"),
        ("0.0001", "0.0001"),
        ("0.00001", "1e-5"),
        ("1.25e-7", "1.25e-7"),
        ("12.50", "12.5"),
        ("1/3", "1/3"),
    ],
)
def test_numbers_are_printed_shortest_and_exact(value: str, text: str) -> None:
    assert number_text(Fraction(value)) == text
    assert Fraction(evaluate(parse_expr(text))) == Fraction(value)


def test_small_trees_print_unambiguously() -> None:
    """All trees of two operators over a, b: the printed text means the same tree, and no two trees print alike."""
    leaves: list[Expr] = [a, b]
    once: list[Expr] = (
        [Bin(op, p, q) for op in "+-*/^" for p in leaves for q in leaves] + [Neg(p) for p in leaves] + [Norm(p) for p in leaves]
    )
    trees: list[Expr] = [*leaves, *once]
    for p, q in itertools.product(once, leaves):
        trees += [Bin(op, p, q) for op in "+-*/^"] + [Bin(op, q, p) for op in "+-*/^"]
    trees += [Neg(p) for p in once] + [Norm(p, "1") for p in once]
    printed = {expr_text(t): t for t in trees}
    assert len(printed) == len(trees)
    for text, tree in printed.items():
        assert parse_expr(text) == tree


HEAD = 'analysis "a"\ndata\n  n = 100, d = 3\n{data}privacy {privacy}\nrelease r\n  {task}\n'


def parsed(task: str = "estimate mean(x)", data: str = "", privacy: str = "central\n  epsilon = 1", tail: str = ""):  # type: ignore[no-untyped-def]
    return parse_text(HEAD.format(task=task, data=data, privacy=privacy) + tail, "a.dps").analysis


@pytest.mark.parametrize(
    ("text", "task"),
    [
        ("minimise logistic over ball(l1, 2)", Minimise(loss=Name("logistic"), over=Ball(norm="l1", radius=two))),
        ("minimise squared", Minimise(loss=Name("squared"), over=Reals())),
        ("minimise pairwise <w, x1 - x2>^2 over simplex", None),
        ("minimise squared over polytope(V)", Minimise(loss=Name("squared"), over=Polytope(vertices="V"))),
        ('minimise squared over polytope("V.csv")', Minimise(loss=Name("squared"), over=Polytope(vertices="V.csv"))),
        ("minimise squared over sparse(3)", Minimise(loss=Name("squared"), over=Sparse(k=num(3)))),
        ("minimise squared over box(0, 2)", Minimise(loss=Name("squared"), over=Box(low=num(0), high=two))),
        ("minimise squared\n  over R^d", Minimise(loss=Name("squared"), over=Reals())),
        ("estimate mean(x) over simplex", Estimate(what="mean", over=Simplex())),
        ("estimate covariance(x)", Estimate(what="covariance")),
        ("estimate subspace(x, 2)", Estimate(what="subspace", args=(two,))),
        ("estimate theta in y = <theta, x> + noise", EstimateTheta(form="linear")),
        ("estimate theta in y = noise + <x, theta>", EstimateTheta(form="linear")),
        ("estimate theta in y ~ glm(probit)", EstimateTheta(form="glm", link=Name("probit"))),
        ("estimate theta in y = <theta, x>^2 + noise", EstimateTheta(form="nonlinear", link=Bin("^", Name("u"), two))),
        ("regress y on kernel(rbf, 1)", Regress(kernel="rbf", args=(one,))),
        ("fit gmm(2)", Fit(model="gmm", args=(two,))),
        ("fit mixture-of-regressions(2)", Fit(model="mixture-of-regressions", args=(two,))),
        ("fit regression-with-missing(0.5)", Fit(model="regression-with-missing", args=(num("0.5"),))),
        ("answer marginals(2)", Answer(queries="marginals", args=(two,))),
        ("answer smooth-queries(2)", Answer(queries="smooth-queries", args=(two,))),
        ("infer truth from labels", Infer()),
    ],
)
def test_tasks(text: str, task: object) -> None:
    got = parsed(text).releases[0].task
    if task is None:
        task = Minimise(loss=Bin("^", Inner(w, Bin("-", Name("x1"), Name("x2"))), two), pairwise=True, over=Simplex())
    assert got == task


@pytest.mark.parametrize(
    ("text", "domain"),
    [
        ("x in ball(l2, 1) by scale", Domain(variable="x", set=Ball(norm="l2", radius=one), by=Enforcement(how="scale"))),
        ("x in ball(linf, 3) by clip", Domain(variable="x", set=Ball(norm="linf", radius=num(3)), by=Enforcement(how="clip"))),
        ("y in [-2, 2] by clip", Domain(variable="y", set=Box(low=Neg(two), high=two), by=Enforcement(how="clip"))),
        ("x in R^d by shrink(2)", Domain(variable="x", set=Reals(), by=Enforcement(how="shrink", tau=two))),
        ("x ∈ ℝ^d", Domain(variable="x", set=Reals())),
        ("y in R", Domain(variable="y", set=Reals(scalar=True))),
        (
            "y in {-1, 1} by map(0 -> -1, 1 -> 1)",
            Domain(
                variable="y",
                set=Finite(values=(Neg(one), one)),
                by=Enforcement(how="map", mapping=(("0", Neg(one)), ("1", one))),
            ),
        ),
    ],
)
def test_domains(text: str, domain: Domain) -> None:
    assert parsed(data=f"  {text}\n").data.domains == (domain,)


def test_data_block() -> None:
    d = parsed(
        data='  k = 5, from "a.csv" target "y z" columns [age, "b c"]\n  encode age as one-hot(9), "b c" as levels("p", "q")\n'
        "  public, unit household, neighbours zero-out, intercept\n"
    ).data
    assert d.constants == (("k", num(5)),)
    assert d.source == CsvSource(path="a.csv", target="y z", columns=("age", "b c"))
    assert d.encode == (Encode(column="age", how="one-hot", args=(num(9),)), Encode(column="b c", how="levels", levels=("p", "q")))
    assert (d.status, d.unit, d.neighbours, d.intercept) == ("public", "household", "zero-out", True)
    assert parsed(data='  from sklearn "iris"\n').data.source == SklearnSource(name="iris")
    assert parsed(data="  from memory target y\n").data.source == MemorySource(target="y")


def test_privacy_block() -> None:
    p = parsed(privacy='nldp, labels only, attribute, online\n  with public x (m = 10_000, path "p.csv")\n  ε = 1, δ = 1/n').privacy
    assert (p.model, p.labels_only, p.attribute, p.online) == ("nldp", True, True, True)
    assert p.public == PublicRecords(variable="x", m=num(10000), path="p.csv")
    assert (p.epsilon, p.delta) == (one, Bin("/", one, n))
    assert parsed(privacy="central rho = 0.5").privacy.rho == num("0.5")
    assert parsed(privacy="sldp with public x mu = 1").privacy.public == PublicRecords(variable="x")


def test_release_block() -> None:
    a = parsed(
        "estimate mean(x)\n  by dp-gd with T = 100, eta = 1/sqrt(n), batching = poisson-fixed, over = n - 1\n"
        "  expect l2-error <= 0.05 with probability 0.95\n  share 2"
    )
    r = a.releases[0]
    sqrt_n = Bin("/", one, Call("sqrt", (n,)))
    options = (("T", num(100)), ("eta", sqrt_n), ("batching", Name("poisson-fixed")), ("over", Bin("-", n, one)))
    assert r.by == By(algorithm="dp-gd", options=options)
    assert r.expect == Expect(measure="l2-error", at_most=num("0.05"), probability=num("0.95"))
    assert r.share == two


def test_assumptions() -> None:
    got = parsed(tail="assume\n  lipschitz(1), sub-gaussian(2) of x, sub-exponential on y\n  moment(of gradient, order 2, bound 1)\n"
                      "  eigenvalues in [1, 2]\n  noise bounded(2)\n").assume  # fmt: skip
    assert got == (
        Assumption(name="lipschitz", args=(one,)),
        Assumption(name="sub-gaussian", args=(two,), of="x"),
        Assumption(name="sub-exponential", of="y"),
        Assumption(name="moment", options=(("order", two), ("bound", one)), of="gradient"),
        Assumption(name="eigenvalues", args=(one, two)),
        Assumption(name="bounded", args=(two,), of="noise"),
    )


def test_study() -> None:
    a = parsed(tail="simulate\n  theta = sparse(2) unit l2\n  x ~ normal(0, I)\nstudy\n  vary n in [1e4, 1e5], epsilon in [0.5, 1]\n"
                    "  trials 50, seed 7\n  compare dp-svrg, dp-gd\n")  # fmt: skip
    assert a.simulate[0] == Law(variable="theta", relation="=", law=Call("sparse", (two,)), modifiers=("unit l2",))
    assert a.simulate[1] == Law(variable="x", relation="~", law=Call("normal", (num(0), Name("I"))))
    assert a.study is not None
    assert [(v.variable, v.values) for v in a.study.vary] == [("n", (num(10000), num(100000))), ("epsilon", (num("0.5"), one))]
    assert (a.study.trials, a.study.seed, a.study.compare) == (num(50), num(7), ("dp-svrg", "dp-gd"))


def test_log_grid() -> None:
    """sqrt(10) = 3.1622...: three figures of it, whole for sizes, not for budgets; the ends exact."""
    a = parsed(tail="study\n  vary n in log-grid(1e3, 1e5, 5)\n  vary epsilon in log-grid(1, 100, 5)\n  vary d in log-grid(2, 3, 2)\n")
    assert a.study is not None
    n_values, e_values, d_values = ([evaluate(e) for e in v.values] for v in a.study.vary)
    assert n_values == [1000, 3160, 10000, 31600, 100000]
    assert e_values == [1, Fraction("3.16"), 10, Fraction("31.6"), 100]
    assert d_values == [2, 3]


def test_both_surfaces_say_the_same() -> None:
    yaml = """dpspec: 1
analysis: a
data: {n: 100, d: 3, constants: {k: 5}, from: {path: a.csv, target: y}, domain: {x: "ball(l2, 1) by scale"}}
privacy: {model: nldp, labels-only: true, public: x, epsilon: 1}
assume: [sub-gaussian(1) of x]
releases: {r: {estimate: "theta in y = <theta, x> + noise", over: "ball(l2, 1)", by: dp-gd with T = 5, share: 2}}
simulate: ["x ~ normal(0, I)"]
study: {vary: {n: [1e2, 1e3]}, trials: 5}
"""
    dps = """analysis "a"
data
  n = 100, d = 3, k = 5
  from "a.csv" target y
  x in ball(l2, 1) by scale
privacy nldp, labels only, with public x
  epsilon = 1
assume sub-gaussian(1) of x
release r
  estimate theta in y = <theta, x> + noise over ball(l2, 1)
  by dp-gd with T = 5
  share 2
simulate x ~ normal(0, I)
study vary n in [1e2, 1e3], trials 5
"""
    assert parse_text(yaml, "a.yaml").analysis == parse_text(dps, "a.dps").analysis


# ------------------------------------------------------------------------------------------------------- positions


def test_spans_point_at_the_text() -> None:
    text = (
        HEAD.format(data="  x in ball(l2, 1) by scale\n", privacy="central\n  epsilon = 1", task="minimise logistic over ball(l1, 7)")
        + "  by dp-gd with T = 100\n  expect l2-error <= 0.05\n"
    )
    p = parse_text(text, "a.dps")

    def at(*path: str | int) -> str:
        span = p.spans.get(*path)
        assert span is not None
        assert span.line == span.end_line
        return text.split("\n")[span.line - 1][span.column - 1 : span.end_column - 1]

    assert at("data", "n") == "100"
    assert at("data", "domains", 0) == at("data", "domains", "x") == "x in ball(l2, 1) by scale"
    assert at("data", "domains", "x", "variable") == "x"
    assert at("data", "domains", "x", "set") == "ball(l2, 1)"
    assert at("data", "domains", "x", "by") == "scale"
    assert at("privacy", "epsilon") == "1"
    assert at("releases", 0) == at("releases", "r") == "r"
    assert at("releases", "r", "task", "loss") == "logistic"
    assert at("releases", 0, "task", "over", "radius") == "7"
    assert at("releases", 0, "by", "algorithm") == "dp-gd"
    assert at("releases", 0, "by", "options", "T") == "100"
    assert at("releases", 0, "expect", "measure") == "l2-error"
    assert at("releases", 0, "expect", "at_most") == "0.05"
    assert at("releases", 0, "expect", "probability") == at("releases", 0, "expect")  # nearest known above it
    assert p.spans.lookup(("no", "such", "path")) is None
    assert SourceMap().get("data", "n") is None


@pytest.mark.parametrize(
    ("scalar", "line", "column"),
    [
        ("<w, x> + q", 8, 24),
        ("'<w, x> + q'", 8, 25),
        ('"<w, x> + q"', 8, 25),
        ('"<w, x> \\x2b q"', 8, 28),
        (">-\n      <w, x> +\n      q", 10, 7),
        ("|\n      <w, x>\n      + q", 10, 9),
        ("<w, x> +\n      q", 9, 7),
    ],
)
def test_positions_inside_yaml_scalars(scalar: str, line: int, column: int) -> None:
    text = f"dpspec: 1\nanalysis: a\ndata: {{}}\nprivacy: {{model: central, epsilon: 1}}\nreleases:\n  # r\n  r:\n    minimise: {scalar}\n"
    with pytest.raises(SpecError) as caught:
        parse_text(text, "a.yaml")
    (d,) = caught.value.diagnostics
    assert d.span is not None
    assert (d.code, d.span.line, d.span.column) == ("DP116", line, column)


def test_every_mistake_is_reported_at_once() -> None:
    text = HEAD.format(data="  z in bal(l2, 1)\n", privacy="centrl\n  epsilon = -1", task="minimize logistic") + "  by dp-gd wth T = 1\n"
    with pytest.raises(SpecError) as caught:
        parse_text(text, "a.dps")
    assert [(d.code, d.span.line) for d in caught.value.diagnostics if d.span] == [
        ("DP107", 4),
        ("DP107", 5),
        ("DP132", 6),
        ("DP107", 8),
        ("DP107", 9),
    ]


# ----------------------------------------------------------------------------------------------------- suggestions


@pytest.mark.parametrize(
    ("word", "near"),
    [
        ("neighbors", "neighbours"),
        ("nieghbours", "neighbours"),
        ("minimize", "minimise"),
        ("epsilonn", "epsilon"),
        ("eps", "epsilon"),
        ("repalce-one", "replace-one"),
        ("zzzzzz", None),
        ("q", None),
    ],
)
def test_nearest(word: str, near: str | None) -> None:
    known = ("neighbours", "minimise", "epsilon", "delta", "replace-one", "n", "by")
    assert vocabulary.nearest(word, known) == near


def test_distance_is_damerau_levenshtein() -> None:
    assert vocabulary.distance("abcd", "abdc", 3) == 1
    assert vocabulary.distance("kitten", "sitting", 3) == 3
    assert vocabulary.distance("abc", "xyz", 2) == 3  # more than the limit


# ---------------------------------------------------------------------------------------------------------- layout


def test_fmt_of_a_messy_file() -> None:
    messy = """
#  licence
analysis   "a"      # the name
data
    d=3 , n=48842   # sizes
    # about x
    x in ball( l2 , 1 )by scale
    # last of data

privacy   central
   ε=1e0
release r   # one
   minimise log( 1+exp(-y*⟨w,x⟩) )
        + 0.5*‖w‖²     # ridge
        over ball(l2,1)
# end
"""
    assert (
        format_text(messy, "a.dps")
        == """#  licence
analysis "a"  # the name

data
  n = 48_842, d = 3  # sizes
  private, unit person, neighbours replace-one
  # about x
  x in ball(l2, 1) by scale
  # last of data

privacy central
  epsilon = 1

release r  # one
  minimise log(1 + exp(-y*<w, x>)) + 0.5*|w|^2 over ball(l2, 1)  # ridge
  by auto

# end
"""
    )


def test_task_text() -> None:
    task = Minimise(loss=parse_expr("huber(1.5)"), over=Ball(norm="l2", radius=one))
    assert task_text(task) == "minimise huber(1.5) over ball(l2, 1)"


def test_texts_that_yaml_would_misread_are_quoted() -> None:
    base = parsed()
    for name in (
        "true",
        "12",
        "1e5",
        "null",
        "~",
        "a: b",
        "a #b",
        "- a",
        "[a]",
        "{a}",
        "*a",
        "&a",
        "!a",
        "%a",
        "@a",
        "'a'",
        '"a"',
        "a\nb",
        " a ",
        "2026-01-01",
    ):
        analysis = base.model_copy(update={"name": name})
        assert parse_text(to_yaml(analysis), "a.yaml").analysis.name == name
        assert parse_text(to_dps(analysis), "a.dps").analysis.name == name


def test_render() -> None:
    text = 'analysis "a"\nprivacy centrl\n'
    d = Diagnostic("DP107", "error", "unknown word `centrl` here", "Did you mean `central`?", Span(2, 9, 2, 15))
    assert render(d, text, "a.dps") == (
        "error[DP107]: unknown word `centrl` here\n"
        " --> a.dps:2:9\n"
        "  |\n"
        "2 | privacy centrl\n"
        "  |         ^^^^^^\n"
        "  = help: Did you mean `central`?"
    )
    coloured = render(d, text, "a.dps", color=True)
    assert "\x1b[1;31m" in coloured
    assert "\x1b" not in render(Diagnostic("DP107", "error", "\x1b[31m", "", Span(1, 1, 1, 2)), "\x1b[2J", "\x1b")
    long = "x" * 5000
    assert all(len(line) < 200 for line in render(Diagnostic("DP112", "error", "m", "h", Span(1, 4000, 1, 4001)), long, "a").split("\n"))
    no_place = render(Diagnostic("DP100", "error", "m", "h"), "", "a.dps")
    assert no_place == "error[DP100]: m\n --> a.dps\n = help: h"


# ------------------------------------------------------------------------------------------------------- vocabulary


def test_words_of_other_layers_are_words_here() -> None:
    """A hyphenated word that another layer reads must be one name in expressions, and a named loss must be known."""
    laws = pytest.importorskip("dpspec.data.laws")
    normal = pytest.importorskip("dpspec.symbolic.normal")
    words = {*laws.WORDS, *normal.NAMED_LOSSES}
    assert {word for word in words if "-" in word} <= vocabulary.HYPHENATED
    assert set(normal.NAMED_LOSSES) <= LOSSES


def test_a_first_parse_loads_neither_yaml_nor_the_maker_of_tables():
    """How long it takes is measured in ``benchmarks/test_process.py``."""
    code = """
import sys
from dpspec.lang.source import parse_text
parse_text('analysis "a"\\ndata\\n  n = 5\\nprivacy central\\n  epsilon = 1\\nrelease r\\n  estimate mean(x)\\n', 'a.dps')
print([m for m in ("lark", "ruamel", "ruamel.yaml", "sympy") if m in sys.modules])
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert run.stdout.strip() == "[]"
