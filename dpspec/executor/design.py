"""The design of a study: which analyses run, at which points, how often, from which seeds."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NoReturn

from dpspec.executor.public import Public
from dpspec.lang.source import Parsed, parse_expr
from dpspec.spec.diagnostics import Diagnostic, SpecError
from dpspec.spec.expr import Expr, NotANumber, Unbound, evaluate
from dpspec.spec.model import Analysis, By

DEFAULT_TRIALS = 20
QUICK_TRIALS = 5


@dataclass(frozen=True, slots=True)
class Point:
    """One analysis of the design. ``at``: the varied numbers; ``algorithm``: set when algorithms are compared; ``beside``: the non-private
    references that run on the same records; ``public``: real records in the place of the spec's, or of some of them."""

    index: int
    at: tuple[tuple[str, float], ...]
    algorithm: str | None
    parsed: Parsed
    beside: tuple[str, ...] = ()
    public: Public | None = None


@dataclass(frozen=True, slots=True)
class Design:
    points: tuple[Point, ...]
    trials: int
    seed: int
    varied: tuple[str, ...]


def design(
    parsed: Parsed,
    *,
    trials: int | None,
    seed: int | None,
    vary: Mapping[str, Sequence[str]],
    compare: Sequence[str],
    quick: bool,
    public: Public | None = None,
) -> Design:
    """The grid of the spec's ``study`` block with the command's words over it. Raises SpecError for what cannot be varied."""
    a = parsed.analysis
    grid: dict[str, tuple[Expr, ...]] = {}
    if a.study is not None:
        grid.update({v.variable: v.values for v in a.study.vary})
        trials = trials if trials is not None else _whole(a.study.trials)
        seed = seed if seed is not None else _whole(a.study.seed)
        compare = compare or a.study.compare
    for name, words in vary.items():
        grid[name] = tuple(parse_expr(w) for w in words)
    if quick:
        grid = {name: values if len(values) <= 2 else (values[0], values[-1]) for name, values in grid.items()}
        trials = min(trials or QUICK_TRIALS, QUICK_TRIALS)
    from dpspec.executor.references import is_reference

    beside = tuple(name for name in dict.fromkeys(compare) if is_reference(name))
    compare = [name for name in compare if name not in beside]
    points: list[Point] = []
    for combination in itertools.product(*grid.values()):
        changed, at = a, []
        for name, e in zip(grid, combination, strict=True):
            changed = substitute(changed, name, e)
            at.append((name, _value(e)))
        for algorithm in compare or (None,):
            final = changed if algorithm is None else _by(changed, algorithm)
            points.append(Point(len(points), tuple(at), algorithm, replace(parsed, analysis=final), beside, public))
    return Design(tuple(points), trials or DEFAULT_TRIALS, seed or 0, tuple(grid))


def _value(e: Expr) -> float:
    try:
        return float(evaluate(e))
    except (Unbound, NotANumber) as error:
        refuse(f"a varied value must be a number: {error}", "vary n in [1e4, 1e5]")


def _whole(e: Expr | None) -> int | None:
    return None if e is None else int(_value(e))


def refuse(message: str, help: str, code: str = "DP416") -> NoReturn:
    raise SpecError([Diagnostic(code, "error", message, help)])


def _by(a: Analysis, algorithm: str) -> Analysis:
    """The same analysis by another algorithm; options that belong to the old one are dropped."""
    releases = []
    for r in a.releases:
        by = r.by if r.by.algorithm == algorithm else By(algorithm=algorithm)
        releases.append(r.model_copy(update={"by": by}))
    return a.model_copy(update={"releases": tuple(releases)})


def substitute(a: Analysis, name: str, value: Expr) -> Analysis:
    """The analysis with one number replaced: n, d, m, a budget, a constant of ``data``, the constant of an assumption (k of
    ``sparse(k)``), or an option after ``by ... with``."""
    if name in ("n", "d"):
        return a.model_copy(update={"data": a.data.model_copy(update={name: value})})
    if name in ("epsilon", "delta", "rho", "mu"):
        if getattr(a.privacy, name) is None:
            refuse(f"the spec has no {name} to vary", f"state {name} in the privacy section")
        return a.model_copy(update={"privacy": a.privacy.model_copy(update={name: value})})
    if name == "m" and a.privacy.public is not None:
        public = a.privacy.public.model_copy(update={"m": value})
        return a.model_copy(update={"privacy": a.privacy.model_copy(update={"public": public})})
    constants = dict(a.data.constants)
    if name in constants:
        constants[name] = value
        return a.model_copy(update={"data": a.data.model_copy(update={"constants": tuple(constants.items())})})
    from dpspec.spec.words import ASSUMPTIONS, assumed

    for i, assumption in enumerate(a.assume):
        word = assumed(assumption.name, assumption.of)
        names = ASSUMPTIONS[word].facts if word in ASSUMPTIONS else ()
        if name in names and assumption.args:
            args = list(assumption.args)
            args[names.index(name)] = value
            assume = list(a.assume)
            assume[i] = assumption.model_copy(update={"args": tuple(args)})
            return a.model_copy(update={"assume": tuple(assume)})
    if all(r.by.algorithm == "auto" for r in a.releases):  # options belong to a named algorithm; elsewhere nobody would read this one
        budgets = [b for b in ("epsilon", "delta", "rho", "mu") if getattr(a.privacy, b) is not None]
        may = ["n", "d", *(["m"] if a.privacy.public is not None else []), *budgets, *constants]
        from dpspec.lang.vocabulary import nearest

        near = nearest(name, may)
        help = (
            f"did you mean {near!r}?" if near else f"one of {', '.join(may)}, or a setting of an algorithm that the spec names after `by`"
        )
        refuse(f"`{name}` cannot be varied: it is no size, budget or constant of the spec", help)
    releases = []
    for r in a.releases:
        if r.by.algorithm == "auto":
            releases.append(r)
            continue
        options = dict(r.by.options)
        options[name] = value
        releases.append(r.model_copy(update={"by": r.by.model_copy(update={"options": tuple(options.items())})}))
    return a.model_copy(update={"releases": tuple(releases)})
