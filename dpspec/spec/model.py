"""The typed model of an analysis: what both surfaces parse to and print from.

The model is pure meaning. Where each part stood in the text is kept beside it (:class:`dpspec.lang.source.Parsed`), so equal
analyses are equal whatever their layout, and a plan's hash depends on meaning alone.
"""

from __future__ import annotations

from dataclasses import fields
from fractions import Fraction
from typing import Annotated, Any, Literal, TypeAlias, get_args

from pydantic import BaseModel, ConfigDict, Field, GetCoreSchemaHandler
from pydantic_core import core_schema

from dpspec.spec import expr
from dpspec.spec.diagnostics import Span
from dpspec.spec.kept import kept
from dpspec.spec.words import Model, Neighbours, Order, StatisticWord

__all__ = ["Model", "Neighbours"]

NormName: TypeAlias = Literal["l1", "l2", "linf"]
Status: TypeAlias = Literal["private", "public"]


class _Tree:
    """How pydantic holds an expression: as it is. The parser made it of its own classes, so no schema of them is built for each model."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        shown = core_schema.plain_serializer_function_ser_schema(lambda e, info: _plain(e, info.mode == "json"), info_arg=True)
        return core_schema.is_instance_schema(get_args(expr.Expr), cls_repr="Expr", serialization=shown)


def _plain(e: Any, text: bool) -> Any:
    """An expression as nested dictionaries; its numbers as text where asked."""
    if isinstance(e, (Span, get_args(expr.Expr))):
        return {f.name: _plain(getattr(e, f.name), text) for f in fields(e)}
    if isinstance(e, tuple):
        return tuple(_plain(v, text) for v in e)
    return str(e) if text and isinstance(e, Fraction) else e


Expr: TypeAlias = Annotated[expr.Expr, _Tree()]


class Node(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True, defer_build=True)


@kept
def as_json(node: BaseModel) -> str:
    """The JSON of a part of an analysis."""
    return node.model_dump_json()


# ---------------------------------------------------------------------------------------------------------------- sets


class Ball(Node):
    """``ball(l2, r)``: all vectors whose norm is at most r."""

    kind: Literal["ball"] = "ball"
    norm: NormName
    radius: Expr


class Simplex(Node):
    """``simplex``: non-negative vectors that sum to one."""

    kind: Literal["simplex"] = "simplex"


class Box(Node):
    """``box(a, b)`` for vectors, ``[a, b]`` for scalars: every coordinate between a and b."""

    kind: Literal["box"] = "box"
    low: Expr
    high: Expr


class Finite(Node):
    """``{-1, 1}``: a finite set of numbers."""

    kind: Literal["finite"] = "finite"
    values: tuple[Expr, ...]


class Sparse(Node):
    """``sparse(k)``: vectors with at most k non-zero coordinates."""

    kind: Literal["sparse"] = "sparse"
    k: Expr


class Polytope(Node):
    """``polytope(V)``: the convex hull of the rows of a public file V (CSV, one vertex a row)."""

    kind: Literal["polytope"] = "polytope"
    vertices: str


class Reals(Node):
    """``R`` (a scalar) or ``R^d`` (a vector): no constraint."""

    kind: Literal["reals"] = "reals"
    scalar: bool = False


Set: TypeAlias = Ball | Simplex | Box | Finite | Sparse | Polytope | Reals


# ---------------------------------------------------------------------------------------------------------------- data


class CsvSource(Node):
    """``from "adult.csv" target "income>50K" [columns [..]]``: a CSV or Parquet file (by its ending)."""

    kind: Literal["file"] = "file"
    path: str
    target: str | None = None
    columns: tuple[str, ...] = ()


class SklearnSource(Node):
    """``from sklearn "breast_cancer"``: one of scikit-learn's bundled data sets."""

    kind: Literal["sklearn"] = "sklearn"
    name: str


class MemorySource(Node):
    """``from memory``: arrays or frames handed over through the Python API."""

    kind: Literal["memory"] = "memory"
    target: str | None = None
    columns: tuple[str, ...] = ()


class SqlSource(Node):
    """``from "postgresql://host/db" query "select ..." [target ..] [columns ..]``: what a query gives. ``url``: without any credential."""

    kind: Literal["sql"] = "sql"
    url: str
    query: str
    target: str | None = None
    columns: tuple[str, ...] = ()


Source: TypeAlias = CsvSource | SklearnSource | MemorySource | SqlSource


class Encode(Node):
    """How one column becomes numbers. Declared by the author, never learned from the records.

    ``one-hot(9)``: an integer code 0..8 becomes nine indicator columns. ``levels("a", "b", "c")``: one indicator a level.
    ``range(a, b)``: a number is clamped to [a, b] and mapped affinely to [0, 1]. ``standard(m, s)``: (v - m)/s with declared constants.
    """

    column: str
    how: Literal["one-hot", "levels", "range", "standard", "auto"]
    args: tuple[Expr, ...] = ()
    levels: tuple[str, ...] = ()


class Enforcement(Node):
    """How the executor makes a record fit its declared domain.

    ``scale``: multiply the record by min(1, r/norm) (a ball). ``clip``: clamp each coordinate (box, linf ball, interval).
    ``shrink(tau)``: sign(v)*min(|v|, tau) coordinate by coordinate. ``reject``: the variable of a record outside becomes zeros
    (refusing to run would be a statement about a record), so the set must contain zero.
    ``map(a -> b, ...)``: replace values, anything else becomes the first listed image.
    """

    how: Literal["scale", "clip", "shrink", "reject", "map"]
    tau: Expr | None = None
    mapping: tuple[tuple[str, Expr], ...] = ()


class Domain(Node):
    """``x in ball(l2, 1) by scale``. Without ``by`` the domain is only declared, and no privacy may rest on it."""

    variable: str
    set: Set = Field(discriminator="kind")
    by: Enforcement | None = None


class Data(Node):
    n: Expr | None = None
    d: Expr | None = None
    constants: tuple[tuple[str, Expr], ...] = ()  # other public numbers, usable in every expression (k = 5)
    source: Source | None = Field(default=None, discriminator="kind")
    encode: tuple[Encode, ...] = ()
    intercept: bool = False
    status: Status = "private"
    unit: str = "person"
    identified: str = ""  # the column whose equal cells are one unit; empty: a record is one
    rows: Expr | None = None  # of one unit at most, kept at random
    groups: Expr | None = None  # of one unit at most in a `group by`
    neighbours: Neighbours = "replace-one"
    domains: tuple[Domain, ...] = ()


# ------------------------------------------------------------------------------------------------------------- privacy


class PublicRecords(Node):
    """``with public x (m = 10_000)``: unlabelled public records drawn from the same law as the private ones."""

    variable: str = "x"
    m: Expr | None = None
    path: str | None = None


class Privacy(Node):
    model: Model
    labels_only: bool = False
    attribute: bool = False
    online: bool = False
    public: PublicRecords | None = None
    epsilon: Expr | None = None
    delta: Expr | None = None
    rho: Expr | None = None
    mu: Expr | None = None


# --------------------------------------------------------------------------------------------------------- assumptions


class Assumption(Node):
    """``lipschitz(1)``, ``sub-gaussian(1) of x``, ``moment(order 2, bound 10) of gradient``, ``eigenvalues in [a, b]`` (args a, b)."""

    name: str
    args: tuple[Expr, ...] = ()
    options: tuple[tuple[str, Expr], ...] = ()
    of: str | None = None


# ------------------------------------------------------------------------------------------------------------ releases


class Minimise(Node):
    """``minimise LOSS over SET``. ``loss``: an expression in w, x, y (x1, y1, x2, y2 when pairwise), or a Call/Name of a named loss."""

    kind: Literal["minimise"] = "minimise"
    loss: Expr
    pairwise: bool = False
    over: Set = Field(default_factory=Reals, discriminator="kind")


class Comparison(Node):
    """``age >= 65``, ``sex = "Female"``: a column against a number, or against one of its declared levels."""

    column: str
    order: Order
    value: Expr | str


class Estimate(Node):
    """``estimate mean(x)``, ``quantile(age, 0.25, 0.75)``, ``count where age >= 65 and sex = "Female"``: a word of
    :data:`dpspec.spec.words.STATISTICS`, the records x or a column, and numbers. ``count group by city`` counts for each key that
    is there."""

    kind: Literal["estimate"] = "estimate"
    what: StatisticWord
    of: str = "x"
    args: tuple[Expr, ...] = ()
    where: tuple[Comparison, ...] = ()
    group: str = ""  # the column of ``group by``: of a count, a sum or a mean
    over: Set | None = Field(default=None, discriminator="kind")


class EstimateTheta(Node):
    """``estimate theta in y = <theta, x> + noise`` (linear), ``y ~ glm(logistic)``, ``y = f(<theta, x>) + noise`` (non-linear)."""

    kind: Literal["estimate-theta"] = "estimate-theta"
    form: Literal["linear", "glm", "nonlinear"]
    link: Expr | None = None  # glm: Name of the link; nonlinear: the expression f in the scalar u = <theta, x>
    over: Set | None = Field(default=None, discriminator="kind")


class Regress(Node):
    """``regress y on kernel(rbf, gamma)``."""

    kind: Literal["regress"] = "regress"
    kernel: str
    args: tuple[Expr, ...] = ()


class Fit(Node):
    """``fit gmm(2)``, ``fit mixture-of-regressions(2)``, ``fit regression-with-missing(p)``."""

    kind: Literal["fit"] = "fit"
    model: Literal["gmm", "mixture-of-regressions", "regression-with-missing"]
    args: tuple[Expr, ...] = ()


class Answer(Node):
    """``answer marginals(k)``, ``answer smooth-queries(h)``."""

    kind: Literal["answer"] = "answer"
    queries: Literal["marginals", "smooth-queries"]
    args: tuple[Expr, ...] = ()


class Infer(Node):
    """``infer truth from labels``."""

    kind: Literal["infer"] = "infer"


Task: TypeAlias = Minimise | Estimate | EstimateTheta | Regress | Fit | Answer | Infer


class By(Node):
    """``by dp-gd with T = 100, eta = 0.5`` or ``by auto``. ``files``: options that are public files of numbers, ``start = "w0.csv"``."""

    algorithm: str = "auto"
    options: tuple[tuple[str, Expr], ...] = ()
    files: tuple[tuple[str, str], ...] = ()


class Expect(Node):
    """``expect excess-empirical-risk <= 0.05 with probability 0.95``."""

    measure: str
    at_most: Expr
    probability: Expr | None = None


class Release(Node):
    """One thing to publish. ``share`` is its weight in the common budget; ``part`` a disjoint fraction of the records."""

    name: str
    task: Task = Field(discriminator="kind")
    by: By = Field(default_factory=By)
    expect: Expect | None = None
    share: Expr | None = None
    part: Expr | None = None


# --------------------------------------------------------------------------------------------------------- study mode


class Law(Node):
    """``x ~ normal(0, I)`` (relation "~") or ``y = <theta, x> + student-t(3)`` (relation "=")."""

    variable: str
    relation: Literal["=", "~"]
    law: Expr
    modifiers: tuple[str, ...] = ()  # "unit l2", for parameters


class Vary(Node):
    variable: str
    values: tuple[Expr, ...]


class Study(Node):
    vary: tuple[Vary, ...] = ()
    trials: Expr | None = None
    seed: Expr | None = None
    compare: tuple[str, ...] = ()


class Analysis(Node):
    """One analysis: the whole of a spec file."""

    name: str
    data: Data
    privacy: Privacy
    assume: tuple[Assumption, ...] = ()
    releases: tuple[Release, ...]
    simulate: tuple[Law, ...] = ()
    study: Study | None = None
