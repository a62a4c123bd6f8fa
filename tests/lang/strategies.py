"""Hypothesis strategies for valid analyses, built from the model and not from any printer."""

from __future__ import annotations

import os
from fractions import Fraction
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from dpspec.spec.expr import Bin, Call, Expr, Inner, Name, Neg, Norm, Num
from dpspec.spec.model import (
    Analysis,
    Answer,
    Assumption,
    Ball,
    Box,
    By,
    CsvSource,
    Data,
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
    Privacy,
    PublicRecords,
    Reals,
    Regress,
    Release,
    Simplex,
    SklearnSource,
    Sparse,
    Study,
    Vary,
)


def examples(count: int) -> settings:
    """Settings of a property test. The environment variable DPSPEC_EXAMPLES multiplies the number of examples."""
    return settings(
        max_examples=count * int(os.environ.get("DPSPEC_EXAMPLES", "1")), deadline=None, suppress_health_check=list(HealthCheck)
    )


CONSTANTS = ("k", "sigma", "lam", "tau", "C", "g_2", "R", "ball", "by", "over")
KEYWORDS_AS_NAMES = ("private", "from", "in", "with", "unit", "mean", "theta", "vary", "share")

# --------------------------------------------------------------------------------------------------------- numbers


def decimals(low: int = 0, high: int = 10**6) -> st.SearchStrategy[Expr]:
    """Non-negative numbers with a finite decimal, of many sizes: what the parser can read as one literal."""
    small = st.builds(lambda m, e: Fraction(m) / Fraction(10) ** e, st.integers(low, high), st.integers(0, 12))
    wild = st.builds(lambda m, e: Fraction(m) * Fraction(10) ** e, st.integers(1, 10**20), st.integers(-200, 200))
    return st.one_of(st.integers(low, high).map(Fraction), small, wild).map(Num)


def between(low: Fraction, high: Fraction) -> st.SearchStrategy[Expr]:
    """Finite decimals strictly inside (low, high)."""
    step = (high - low) / 10**6
    return st.integers(1, 10**6 - 1).map(lambda i: Num(low + i * step))


def whole(low: int, high: int) -> st.SearchStrategy[Expr]:
    return st.integers(low, high).map(lambda i: Num(Fraction(i)))


POSITIVE = st.one_of(whole(1, 1000), between(Fraction(0), Fraction(10)))
UNIT = between(Fraction(0), Fraction(1))

# ----------------------------------------------------------------------------------------------------- expressions

_ONE = ("exp", "log", "sqrt", "abs", "sin", "cos", "tanh", "erf", "ceil", "floor")


def expressions(atoms: st.SearchStrategy[Expr], max_leaves: int = 12) -> st.SearchStrategy[Expr]:
    """Any tree of the expression language over the given atoms."""

    def grow(inner: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
        return st.one_of(
            st.builds(Neg, inner),
            st.builds(Bin, st.sampled_from("+-*/^"), inner, inner),
            st.builds(lambda f, a: Call(f, (a,)), st.sampled_from(_ONE), inner),
            st.builds(lambda f, a: Call(f, tuple(a)), st.sampled_from(["max", "min"]), st.lists(inner, min_size=2, max_size=3)),
            st.builds(Inner, inner, inner),
            st.builds(Norm, inner, st.sampled_from(["1", "2", "inf"])),
        )

    return st.recursive(atoms, grow, max_leaves=max_leaves)


def names(*words: str) -> st.SearchStrategy[Expr]:
    return st.sampled_from(words).map(Name)


ANY_EXPRESSION = expressions(st.one_of(decimals(), names("w", "x", "y", "n", "student-t", "R", "by", "over", "in", "d")), 20)
LOSS = expressions(st.one_of(decimals(), names("w", "x", "y", "n", "d", "pi")))
PAIR_LOSS = expressions(st.one_of(decimals(), names("w", "x1", "y1", "x2", "y2")))
NAMED_LOSS = st.one_of(
    names("logistic", "squared", "hinge", "squared-hinge", "smooth-hinge"),
    st.builds(lambda c: Call("huber", (c,)), POSITIVE),
    st.builds(
        lambda c, r: Bin("+", Call("biweight", (c,)), Bin("*", Call("l1", (r,)), Name("norm"))),
        POSITIVE,
        POSITIVE,
    ),
)

# ------------------------------------------------------------------------------------------------------------ sets

NORMS = st.sampled_from(["l1", "l2", "linf"])
BOXES = st.builds(lambda a, b: Box(low=Neg(a), high=b), POSITIVE, POSITIVE)
BALLS = st.builds(Ball, norm=NORMS, radius=POSITIVE)
LABELS = st.sampled_from([("-1", "1"), ("0", "1"), ("0", "1", "2")]).map(
    lambda vs: Finite(values=tuple(Neg(Num(Fraction(1))) if v == "-1" else Num(Fraction(v)) for v in vs))
)
SETS: st.SearchStrategy[Any] = st.one_of(
    BALLS,
    st.just(Simplex()),
    BOXES,
    LABELS,
    st.builds(Sparse, k=whole(1, 100)),
    st.builds(Polytope, vertices=st.sampled_from(["V.csv", "a b/ver tices.csv", 'qu"ote\\.csv'])),
    st.builds(Reals, scalar=st.booleans()),
)

# ------------------------------------------------------------------------------------------------------------ data

TEXT = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=12).filter(lambda t: t.strip() != "")
COLUMN = st.one_of(st.sampled_from(["age", "hours-per-week", "from", "y", "n", "#col", "a: b", "true", "12", "a\tb", "é", "λ"]), TEXT)
WORD = st.from_regex(r"[a-z][a-z0-9_]{0,6}(-[a-z][a-z0-9]{0,5}){0,2}", fullmatch=True)


@st.composite
def domains(draw: st.DrawFn) -> tuple[Domain, ...]:
    found = []
    if draw(st.booleans()):
        ball = draw(BALLS)
        by = draw(st.sampled_from([None, Enforcement(how="scale"), Enforcement(how="reject")]))
        found.append(Domain(variable="x", set=ball, by=by))
    else:
        by = draw(st.one_of(st.none(), st.builds(lambda t: Enforcement(how="shrink", tau=t), POSITIVE)))
        found.append(Domain(variable="x", set=draw(st.one_of(st.builds(Reals), st.just(Simplex()))), by=by))
    if draw(st.booleans()):
        if draw(st.booleans()):
            found.append(Domain(variable="y", set=draw(BOXES), by=draw(st.sampled_from([None, Enforcement(how="clip")]))))
        else:
            s = draw(LABELS)
            keys = draw(
                st.lists(st.one_of(st.sampled_from(["0", "-1", "1e3", "yes", ">50K", ""]), COLUMN), min_size=1, max_size=3, unique=True)
            )
            mapping = tuple((k, draw(st.sampled_from(s.values))) for k in keys)
            found.append(Domain(variable="y", set=s, by=draw(st.sampled_from([None, Enforcement(how="map", mapping=mapping)]))))
    return tuple(found)


@st.composite
def encodings(draw: st.DrawFn) -> tuple[Encode, ...]:
    columns = draw(st.lists(COLUMN, max_size=3, unique=True))
    kinds = st.one_of(
        st.builds(lambda k: ("one-hot", (k,), ()), whole(2, 50)),
        st.builds(lambda a, b: ("range", (Neg(a), b), ()), POSITIVE, POSITIVE),
        st.builds(lambda m, s: ("standard", (m, s), ()), POSITIVE, POSITIVE),
        st.lists(TEXT, min_size=2, max_size=4, unique=True).map(lambda ls: ("levels", (), tuple(ls))),
    )
    found = []
    for column in columns:
        how, args, levels = draw(kinds)
        found.append(Encode(column=column, how=how, args=args, levels=levels))
    return tuple(found)


COLUMNS = st.lists(COLUMN, max_size=3).map(tuple)
SOURCES = st.one_of(
    st.none(),
    st.builds(CsvSource, path=TEXT, target=st.none() | COLUMN, columns=COLUMNS),
    st.builds(SklearnSource, name=st.sampled_from(["breast_cancer", "iris"])),
    st.builds(MemorySource, target=st.none() | COLUMN, columns=COLUMNS),
)


@st.composite
def data(draw: st.DrawFn) -> Data:
    constants = draw(st.lists(st.sampled_from(CONSTANTS), max_size=3, unique=True))
    several = draw(st.booleans())
    return Data(
        n=draw(st.none() | whole(1, 10**9)),
        d=draw(st.none() | whole(1, 10**5)),
        constants=tuple((c, draw(decimals())) for c in constants),
        source=draw(SOURCES),
        encode=draw(encodings()),
        intercept=draw(st.booleans()),
        status=draw(st.sampled_from(["private", "public"])),
        unit=draw(st.sampled_from(["person", "household", "person-day", "a person's day", "12", "true"])),
        identified=draw(st.sampled_from(["id", "an id", "rows"])) if several else "",
        rows=draw(whole(3, 9)) if several else None,
        groups=draw(st.none() | whole(1, 3)) if several else None,
        neighbours=draw(st.sampled_from(["replace-one", "add-remove", "zero-out"])),
        domains=draw(domains()),
    )


@st.composite
def privacy(draw: st.DrawFn, n: bool) -> Privacy:
    kind = draw(st.sampled_from(["epsilon", "epsilon-delta", "rho", "mu"]))
    budget: dict[str, Expr] = {kind.split("-")[0]: draw(st.one_of(POSITIVE, st.just(Call("log", (Num(Fraction(2)),)))))}
    if kind == "epsilon-delta":
        power = Bin("/", Num(Fraction(1)), Bin("^", Name("n"), Num(Fraction(11, 10))))
        budget["delta"] = draw(st.sampled_from([power]) if n else UNIT) if draw(st.booleans()) else draw(UNIT)
    public = draw(
        st.none() | st.builds(PublicRecords, variable=st.sampled_from(["x", "z"]), m=st.none() | whole(1, 10**6), path=st.none() | TEXT)
    )
    return Privacy(
        model=draw(st.sampled_from(["central", "nldp", "sldp"])),
        labels_only=draw(st.booleans()),
        attribute=draw(st.booleans()),
        online=draw(st.booleans()),
        public=public,
        **budget,
    )


# ------------------------------------------------------------------------------------------------------------- rest

ASSUMPTIONS = st.one_of(
    st.builds(lambda e: Assumption(name="lipschitz", args=(e,)), POSITIVE),
    st.sampled_from([Assumption(name="convex"), Assumption(name="isotropic", of="x"), Assumption(name="restricted-smooth")]),
    st.builds(lambda e, of: Assumption(name="sub-gaussian", args=(e,), of=of), POSITIVE, st.sampled_from([None, "x", "y", "noise"])),
    st.builds(
        lambda a, b, of: Assumption(name="moment", options=(("order", a), ("bound", b)), of=of),
        decimals(),
        st.one_of(decimals(), st.just(Bin("+", Num(Fraction(1)), Num(Fraction(2)))), st.just(Neg(Num(Fraction(3))))),
        st.sampled_from([None, "gradient"]),
    ),
    st.builds(lambda a, b: Assumption(name="eigenvalues", args=(a, b)), POSITIVE, POSITIVE),
    st.builds(lambda e: Assumption(name="bounded", args=(e,), of="noise"), POSITIVE),
)


def index_functions() -> st.SearchStrategy[Expr]:
    """Functions of u = <theta, x> that are not u itself, and that no reading of the text could take for the linear model."""
    u: st.SearchStrategy[Expr] = st.one_of(st.just(Name("u")), whole(1, 9))
    return expressions(u, 6).filter(lambda e: not isinstance(e, (Name, Num)) and "u" in _used(e))


def _used(e: Expr) -> set[str]:
    from dpspec.spec.expr import names as used

    return set(used(e))


TASKS: st.SearchStrategy[Any] = st.one_of(
    st.builds(
        Minimise, loss=st.one_of(LOSS_WITHOUT_SIZES := expressions(st.one_of(decimals(), names("w", "x", "y"))), NAMED_LOSS), over=SETS
    ),
    st.builds(lambda e, s: Minimise(loss=e, pairwise=True, over=s), PAIR_LOSS, SETS),
    st.builds(Estimate, what=st.sampled_from(["mean", "covariance", "precision"]), of=st.sampled_from(["x", "y"]), over=st.none() | SETS),
    st.builds(
        lambda w, g: Estimate(what=w, of="" if w == "count" else "age", group=g),
        st.sampled_from(["count", "sum", "mean"]),
        st.sampled_from(["sex", "a city", "by"]),
    ),
    st.builds(lambda k, s: Estimate(what="subspace", args=(k,), over=s), whole(1, 50), st.none() | SETS),
    st.builds(lambda s: EstimateTheta(form="linear", over=s), st.none() | SETS),
    st.builds(
        lambda link, s: EstimateTheta(form="glm", link=Name(link), over=s), st.sampled_from(["logistic", "probit"]), st.none() | SETS
    ),
    st.builds(lambda f, s: EstimateTheta(form="nonlinear", link=f, over=s), index_functions(), st.none() | SETS),
    st.builds(lambda k, a: Regress(kernel=k, args=tuple(a)), st.sampled_from(["rbf", "laplace"]), st.lists(POSITIVE, max_size=2)),
    st.builds(lambda k: Fit(model="gmm", args=(k,)), whole(1, 9)),
    st.builds(lambda a: Fit(model="mixture-of-regressions", args=tuple(a)), st.lists(whole(1, 9), max_size=1)),
    st.builds(lambda a: Fit(model="regression-with-missing", args=tuple(a)), st.lists(UNIT, max_size=1)),
    st.builds(lambda q, k: Answer(queries=q, args=(k,)), st.sampled_from(["marginals", "smooth-queries"]), whole(1, 9)),
    st.just(Infer()),
)

OPTION_VALUES = st.one_of(ANY_EXPRESSION, names("poisson-fixed", "fixed", "two-stage-clip", "over", "share"))
BYS = st.one_of(
    st.just(By()),
    st.builds(
        By,
        algorithm=WORD,
        options=st.lists(
            st.tuples(st.sampled_from(["T", "eta", "epochs", "tau1", "over", "by", "batching"]), OPTION_VALUES),
            max_size=3,
            unique_by=lambda pair: pair[0],
        ).map(tuple),
    ),
)
EXPECTS = st.none() | st.builds(Expect, measure=WORD, at_most=POSITIVE, probability=st.none() | UNIT)


@st.composite
def releases(draw: st.DrawFn) -> tuple[Release, ...]:
    labels = draw(st.lists(WORD, min_size=1, max_size=3, unique=True))
    shared = draw(st.booleans())
    parted = not shared and draw(st.booleans())
    part = Bin("/", Num(Fraction(1)), Num(Fraction(len(labels))))
    return tuple(
        Release(
            name=label,
            task=draw(TASKS),
            by=draw(BYS),
            expect=draw(EXPECTS),
            share=draw(POSITIVE) if shared else None,
            part=part if parted else None,
        )
        for label in labels
    )


LAWS = st.lists(
    st.sampled_from(
        [
            Law(variable="theta", relation="=", law=Call("sparse", (Num(Fraction(5)),)), modifiers=("unit l2",)),
            Law(variable="x", relation="~", law=Call("normal", (Num(Fraction(0)), Name("I")))),
            Law(variable="y", relation="=", law=Bin("+", Inner(Name("theta"), Name("x")), Call("student-t", (Num(Fraction(3)),)))),
            Law(variable="z", relation="~", law=Name("cauchy")),
        ]
    ),
    max_size=4,
    unique_by=lambda law: law.variable,
).map(tuple)


@st.composite
def studies(draw: st.DrawFn) -> Study | None:
    if not draw(st.booleans()):
        return None
    vary = []
    if draw(st.booleans()):
        sizes = draw(st.lists(whole(1, 10**7), min_size=1, max_size=4, unique=True))
        vary.append(Vary(variable=draw(st.sampled_from(["n", "d"])), values=tuple(sizes)))
    return Study(
        vary=tuple(vary),
        trials=draw(st.none() | whole(1, 1000)),
        seed=draw(st.none() | whole(0, 10**9)),
        compare=draw(st.lists(WORD, max_size=3, unique=True).map(tuple)),
    )


@st.composite
def analyses(draw: st.DrawFn) -> Analysis:
    """A valid analysis: everything that the language can say, in the ranges that it accepts."""
    d = draw(data())
    return Analysis(
        name=draw(TEXT),
        data=d,
        privacy=draw(privacy(d.n is not None and isinstance(d.n, Num) and d.n.value > 1)),
        assume=tuple(draw(st.lists(ASSUMPTIONS, max_size=3, unique_by=str))),
        releases=draw(releases()),
        simulate=draw(LAWS),
        study=draw(studies()),
    )
