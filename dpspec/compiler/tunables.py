"""Tunables: defaults from the card's formulas over public quantities, overridden by the spec's ``with``."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dpspec.algorithms.card import Card, Problem, Tunables
from dpspec.compiler.draft import Setting
from dpspec.spec.expr import Expr, Name, NotANumber, Unbound, evaluate
from dpspec.theory.formulas import choose


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a tunable has no usable value; ``option`` when the spec's own ``with`` is at fault."""

    code: str
    message: str
    help: str
    option: int | None = None


def resolve_tunables(card: Card, problem: Problem, options: tuple[tuple[str, Expr], ...]) -> tuple[Tunables, dict[str, Setting]] | Refusal:
    """The card's tunables and word options, in the card's order; each formula may use those before it."""
    known = {*card.tunables, *card.options}
    given: dict[str, tuple[int, Expr]] = {}
    for i, (name, e) in enumerate(options):
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f"did you mean {near[0]}?" if near else f"it has {', '.join(sorted(known)) or 'none'}"
            return Refusal("DP405", f"{card.id} has no option {name}", hint, i)
        given[name] = (i, e)

    env: dict[str, Any] = dict(problem.facts)
    values: dict[str, Any] = {}
    settings: dict[str, Setting] = {}
    for name, words in card.options.items():
        if name not in given:
            values[name], settings[name] = words[0], Setting(words[0], words[0], "default of the card")
            continue
        i, e = given[name]
        if not isinstance(e, Name) or e.id not in words:
            return Refusal("DP406", f"{name} of {card.id} takes one of the words {', '.join(words)}", f"{name} = {words[0]}", i)
        values[name], settings[name] = e.id, Setting(e.id, e.id, "the spec")
    for name, tunable in card.tunables.items():
        index: int | None = None
        if name in given:
            index, e = given[name]
            formula, source = render(e), "the spec"
        else:
            e, formula = choose(tunable.formula, env)
            source = tunable.source
        try:
            value: Any = float(evaluate(e, env))
        except Unbound as error:
            return Refusal(
                "DP409" if index is None else "DP406",
                f"{name} of {card.id} = {formula} needs {error.name}, which is not declared",
                f"declare {error.name} ({_where(error.name)}) or set {name} in `by {card.id} with {name} = ...`",
                index,
            )
        except NotANumber as error:
            return Refusal("DP406", f"{name} of {card.id} = {formula} has no finite value: {error.reason}", f"set {name} = ...", index)
        if tunable.integer:
            if index is not None and value != int(value):
                return Refusal("DP406", f"{name} of {card.id} is a whole number, not {value:g}", f"{name} = {round(value)}", index)
            value = max(int(-(-value // 1)), int(tunable.minimum) if tunable.minimum is not None and index is None else int(-(-value // 1)))
        too_low = tunable.minimum is not None and value < tunable.minimum
        too_high = tunable.maximum is not None and value > tunable.maximum
        if index is not None and (too_low or too_high):
            low = "-inf" if tunable.minimum is None else f"{tunable.minimum:g}"
            high = "inf" if tunable.maximum is None else f"{tunable.maximum:g}"
            return Refusal("DP406", f"{name} of {card.id} is {value:g}; its range is [{low}, {high}]", f"set {name} in that range", index)
        if tunable.minimum is not None:
            value = max(value, int(tunable.minimum) if tunable.integer else tunable.minimum)
        if tunable.maximum is not None:
            value = min(value, int(tunable.maximum) if tunable.integer else tunable.maximum)
        values[name] = value
        env[name] = float(value)
        settings[name] = Setting(value, formula, source)
    return Tunables(values), settings


def render(e: Expr) -> str:
    from dpspec.lang.printer import expr_text

    return expr_text(e)


def _where(name: str) -> str:
    words: Mapping[str, str] = {
        "k": "`assume sparse(5)`",
        "sigma": "`assume sub-gaussian(1) of x`",
        "sigma_x": "`assume sub-gaussian(1) of x`",
        "sigma_y": "`assume sub-gaussian(1) of y`",
        "w_radius": "`over ball(l2, 1)`",
        "x_l2": "`x in ball(l2, 1) by scale`",
        "x_linf": "`x in ball(linf, 1) by clip`",
        "moment_bound": "`assume moment(order 2, bound 1) of x`",
        "moment_bound_x": "`assume moment(order 2, bound 1) of x`",
        "y_abs": "`y in [-1, 1] by clip`",
        "delta": "`delta = 1/n^1.1` in the privacy section",
    }
    return words.get(name, f"`{name} = ...` in the data section")
