"""From an analysis to its canonical text, in either surface.

``parse(print(a)) == a`` for both. A printed line remembers the model paths that stand on it, so that the formatter can put comments
back where they belong.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeAlias

from dpspec.lang.draft import Path
from dpspec.spec.expr import Bin, Call, Expr, Inner, Name, Neg, Norm, Num
from dpspec.spec.model import (
    Analysis,
    Answer,
    Assumption,
    Ball,
    Box,
    Comparison,
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
    Release,
    Set,
    Simplex,
    Source,
    Sparse,
    SqlSource,
    Task,
)
from dpspec.spec.words import STATISTICS

_SUM, _PRODUCT, _UNARY, _POWER, _ATOM = 1, 2, 3, 4, 5
_BARE = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
_WORD = re.compile(r"[A-Za-z][A-Za-z0-9_]*(?:-[A-Za-z][A-Za-z0-9_]*)*")
_KEY = re.compile(r"-?(?:[0-9]+(?:_[0-9]+)*(?:\.[0-9]+(?:_[0-9]+)*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|[A-Za-z][A-Za-z0-9_]*")


# ----------------------------------------------------------------------------------------------------- expressions


def _digits(value: Fraction) -> tuple[int, int] | None:
    """(mantissa, exponent) with value = mantissa * 10^exponent and no trailing zero; None when no finite decimal."""
    rest, twos, fives = value.denominator, 0, 0
    while rest % 2 == 0:
        rest //= 2
        twos += 1
    while rest % 5 == 0:
        rest //= 5
        fives += 1
    if rest != 1:
        return None
    places = max(twos, fives)
    mantissa = value.numerator * 2 ** (places - twos) * 5 ** (places - fives)
    exponent = -places
    while mantissa and mantissa % 10 == 0:
        mantissa //= 10
        exponent += 1
    return mantissa, exponent if mantissa else 0


def number_text(value: Fraction, *, grouped: bool = True) -> str:
    """The shortest exact decimal; a quotient when there is none. ``grouped`` writes 48_842."""
    if value < 0:
        return "-" + number_text(-value, grouped=grouped)
    parts = _digits(value)
    if parts is None:
        return f"{value.numerator}/{value.denominator}"
    mantissa, exponent = parts
    figures = str(mantissa)
    if exponent >= 0:
        if len(figures) + exponent <= 15:
            whole = int(value)
            return f"{whole:_}" if grouped and whole >= 10_000 else str(whole)
        return _scientific(figures, exponent)
    if len(figures) > -exponent:
        return f"{figures[:exponent]}.{figures[exponent:]}"
    fixed = "0." + "0" * (-exponent - len(figures)) + figures
    return fixed if -exponent - len(figures) < 4 else _scientific(figures, exponent)


def _scientific(figures: str, exponent: int) -> str:
    point = f".{figures[1:]}" if len(figures) > 1 else ""
    return f"{figures[0]}{point}e{exponent + len(figures) - 1}"


def expr_text(e: Expr) -> str:
    """``log(1 + exp(-y*<w, x>)) + 0.01/2*|w|^2``: spaces around + and -, none around * / ^."""
    return _expr(e)[0]


def _expr(e: Expr) -> tuple[str, int]:
    match e:
        case Num(value=v):
            text = number_text(v)
            return text, _UNARY if v < 0 else _PRODUCT if "/" in text else _ATOM
        case Name(id=name):
            return name, _ATOM
        case Neg(operand=a):
            return "-" + _wrap(a, _UNARY, right=True), _UNARY
        case Bin(op="^", left=a, right=b):
            return f"{_wrap(a, _ATOM)}^{_wrap(b, _UNARY, right=True)}", _POWER
        case Bin(op=op, left=a, right=b) if op in "*/":
            return f"{_wrap(a, _PRODUCT)}{op}{_wrap(b, _UNARY, right=True)}", _PRODUCT
        case Bin(op=op, left=a, right=b):
            return f"{_wrap(a, _SUM)} {op} {_wrap(b, _PRODUCT, right=True)}", _SUM
        case Call(function=f, args=args):
            return f"{f}({', '.join(expr_text(a) for a in args)})", _ATOM
        case Inner(left=a, right=b):
            return f"<{expr_text(a)}, {expr_text(b)}>", _ATOM
        case Norm(operand=a, order=order):
            text = expr_text(a)
            if text.startswith("|") or re.search(r"\|(?:_1|_inf)?$", text):
                text = f"({text})"
            return f"|{text}|{'' if order == '2' else '_' + order}", _ATOM


def _wrap(e: Expr, least: int, *, right: bool = False) -> str:
    """In parentheses when it binds less tightly than its place asks, or is a minus on the right of an operator."""
    text, level = _expr(e)
    return f"({text})" if level < least or (right and text.startswith("-")) else text


# -------------------------------------------------------------------------------------------------------- the parts


def quoted(text: str) -> str:
    """In double quotes, with escapes that both surfaces read."""
    out = []
    for c in text:
        if c in '"\\':
            out.append("\\" + c)
        elif c in "\n\t\r":
            out.append({"\n": "\\n", "\t": "\\t", "\r": "\\r"}[c])
        elif c.isprintable():
            out.append(c)
        else:
            out.append(f"\\x{ord(c):02x}" if ord(c) < 0x100 else f"\\u{ord(c):04x}" if ord(c) < 0x10000 else f"\\U{ord(c):08x}")
    return '"' + "".join(out) + '"'


def _bare(text: str, pattern: re.Pattern[str] = _BARE) -> str:
    return text if pattern.fullmatch(text) else quoted(text)


def _list(items: Iterable[Expr]) -> str:
    return ", ".join(expr_text(e) for e in items)


def set_text(s: Set, *, scalar: bool = False) -> str:
    """``scalar``: write a box as the interval [a, b]."""
    match s:
        case Ball(norm=norm, radius=r):
            return f"ball({norm}, {expr_text(r)})"
        case Simplex():
            return "simplex"
        case Box(low=a, high=b):
            return f"[{expr_text(a)}, {expr_text(b)}]" if scalar else f"box({expr_text(a)}, {expr_text(b)})"
        case Finite(values=values):
            return "{" + _list(values) + "}"
        case Sparse(k=k):
            return f"sparse({expr_text(k)})"
        case Polytope(vertices=path):
            return f"polytope({quoted(path)})"
        case Reals(scalar=one):
            return "R" if one else "R^d"


def enforcement_text(by: Enforcement) -> str:
    if by.how == "shrink" and by.tau is not None:
        return f"shrink({expr_text(by.tau)})"
    if by.how == "map":
        return "map(" + ", ".join(f"{_bare(k, _KEY)} -> {expr_text(e)}" for k, e in by.mapping) + ")"
    return by.how


def domain_text(domain: Domain) -> str:
    """Without the variable: ``ball(l2, 1) by scale``."""
    text = set_text(domain.set, scalar=domain.variable.startswith("y"))
    return text if domain.by is None else f"{text} by {enforcement_text(domain.by)}"


def encoding_text(encode: Encode) -> str:
    """Without the column: ``one-hot(9)``."""
    if encode.how == "auto":
        return "bounds auto"
    inner = ", ".join(quoted(level) for level in encode.levels) if encode.how == "levels" else _list(encode.args)
    return f"{encode.how}({inner})"


def source_text(source: Source) -> str:
    match source:
        case CsvSource(path=path, target=target, columns=columns):
            head = quoted(path)
        case MemorySource(target=target, columns=columns):
            head = "memory"
        case SqlSource(url=url, query=query, target=target, columns=columns):
            head = f"{quoted(url)} query {quoted(query)}"
        case _:
            return f"sklearn {quoted(source.name)}"
    if target is not None:
        head += f" target {quoted(target)}"
    if columns:
        head += " columns [" + ", ".join(_bare(c) for c in columns) + "]"
    return head


def public_text(public: PublicRecords) -> str:
    options = []
    if public.m is not None:
        options.append(f"m = {expr_text(public.m)}")
    if public.path is not None:
        options.append(f"path {quoted(public.path)}")
    return f"public {public.variable}" + (f" ({', '.join(options)})" if options else "")


def assumption_text(a: Assumption) -> str:
    if a.name == "eigenvalues" and len(a.args) == 2 and not a.options:
        text = f"eigenvalues in [{_list(a.args)}]"
    else:
        inner = [expr_text(e) for e in a.args]
        for key, e in a.options:
            simple = (isinstance(e, Num) and re.fullmatch(r"[0-9][^/]*", number_text(e.value))) or (
                isinstance(e, Name) and _BARE.fullmatch(e.id)
            )
            inner.append(f"{key} {expr_text(e)}" if simple else f"{key} = {expr_text(e)}")
        text = a.name + (f"({', '.join(inner)})" if inner else "")
    return text if a.of is None else f"{text} of {a.of}"


def _with_index(e: Expr) -> Expr:
    """The scalar u written as <theta, x>."""
    match e:
        case Name(id="u"):
            return Inner(Name("theta"), Name("x"))
        case Neg(operand=a):
            return Neg(_with_index(a))
        case Norm(operand=a, order=o):
            return Norm(_with_index(a), o)
        case Bin(op=op, left=a, right=b):
            return Bin(op, _with_index(a), _with_index(b))
        case Inner(left=a, right=b):
            return Inner(_with_index(a), _with_index(b))
        case Call(function=f, args=args):
            return Call(f, tuple(_with_index(a) for a in args))
        case _:
            return e


def _statistic(task: Estimate) -> str:
    if STATISTICS[task.what].of != "nothing":
        said = f"{task.what}({', '.join([_bare(task.of), *(expr_text(e) for e in task.args)])})"
    else:
        said = task.what + (f" where {' and '.join(map(_comparison, task.where))}" if task.where else "")
    return said + (f" group by {_bare(task.group)}" if task.group else "")


def _task(task: Task) -> tuple[str, str, str]:
    """(word, what, over): over is empty where there is none."""
    match task:
        case Minimise(loss=loss, pairwise=pairwise, over=over):
            return "minimise", ("pairwise " if pairwise else "") + expr_text(loss), set_text(over)
        case Estimate():
            return "estimate", _statistic(task), "" if task.over is None else set_text(task.over)
        case EstimateTheta(form=form, link=link, over=within):
            end = "" if within is None else set_text(within)
            if form == "linear" or link is None:
                return "estimate", "theta in y = <theta, x> + noise", end
            if form == "glm":
                return "estimate", f"theta in y ~ glm({expr_text(link)})", end
            return "estimate", f"theta in y = {expr_text(Bin('+', _with_index(link), Name('noise')))}", end
        case Regress(kernel=kernel, args=args):
            return "regress", f"y on kernel({', '.join([kernel, *(expr_text(e) for e in args)])})", ""
        case Fit(model=model, args=args):
            return "fit", model + (f"({_list(args)})" if args else ""), ""
        case Answer(queries=queries, args=args):
            return "answer", f"{queries}({_list(args)})", ""
        case Infer():
            return "infer", "truth from labels", ""


def _comparison(c: Comparison) -> str:
    value = quoted(c.value) if isinstance(c.value, str) else expr_text(c.value)
    return f"{_bare(c.column)} {c.order} {value}"


def task_text(task: Task) -> str:
    """One line: ``minimise LOSS over SET``."""
    word, what, over = _task(task)
    return f"{word} {what}" + (f" over {over}" if over else "")


def by_text(release: Release) -> str:
    by = release.by
    given = [f"{k} = {expr_text(e)}" for k, e in by.options] + [f"{k} = {quoted(path)}" for k, path in by.files]
    return by.algorithm + (" with " + ", ".join(given) if given else "")


def expect_text(expect: Expect) -> str:
    text = f"{expect.measure} <= {expr_text(expect.at_most)}"
    return text if expect.probability is None else f"{text} with probability {expr_text(expect.probability)}"


def law_text(law: Law) -> str:
    return " ".join([law.variable, law.relation, expr_text(law.law), *law.modifiers])


# ------------------------------------------------------------------------------------------------------------ DSL


@dataclass(frozen=True, slots=True)
class PrintedLine:
    """``paths``: what stands on the line. A line with only paths (no text) marks the end of a section."""

    indent: int
    text: str
    paths: tuple[Path, ...] = ()


#: Appends a printed line: its indent, its text and the model paths that stand on it.
_Line: TypeAlias = Callable[..., None]


def _printed(a: Analysis, sections: Sequence[Callable[[_Line, Analysis], None]]) -> list[PrintedLine]:
    out: list[PrintedLine] = []

    def line(indent: int, text: str, *paths: Path) -> None:
        out.append(PrintedLine(indent, text, paths))

    for section in sections:
        section(line, a)
    return out


def _dps_data(line: _Line, a: Analysis) -> None:
    line(0, f"analysis {quoted(a.name)}", ("name",))
    line(0, "")
    line(0, "data", ("data",))
    d = a.data
    sizes = [f"{name} = {expr_text(e)}" for name, e in (("n", d.n), ("d", d.d)) if e is not None]
    if sizes:
        line(2, ", ".join(sizes), ("data", "n"), ("data", "d"))
    for name, e in d.constants:
        line(2, f"{name} = {expr_text(e)}", ("data", "constants", name))
    if d.source is not None:
        line(2, f"from {source_text(d.source)}", ("data", "source"))
    by = f" identified by {_bare(d.identified)}" if d.identified else ""
    facts = f"{d.status}, unit {_bare(d.unit, _WORD)}{by}, neighbours {d.neighbours}"
    line(2, facts, ("data", "status"), ("data", "unit"), ("data", "neighbours"), ("data", "identified"))
    for key, bound in (("rows", d.rows), ("groups", d.groups)):
        if bound is not None:
            line(2, f"at most {expr_text(bound)} {key} a {_bare(d.unit, _WORD)}", ("data", key))
    for i, encode in enumerate(d.encode):
        line(2, f"encode {_bare(encode.column)} as {encoding_text(encode)}", ("data", "encode", i))
    if d.intercept:
        line(2, "intercept", ("data", "intercept"))
    for i, domain in enumerate(d.domains):
        line(2, f"{domain.variable} in {domain_text(domain)}", ("data", "domains", i))
    line(2, "", ("data", "end"))


def _dps_privacy(line: _Line, a: Analysis) -> None:
    p = a.privacy
    line(0, "")
    modifiers = [w for w, on in (("labels only", p.labels_only), ("attribute", p.attribute), ("online", p.online)) if on]
    heads = tuple(("privacy", k) for k in ("model", "labels_only", "attribute", "online"))
    line(0, "privacy " + ", ".join([p.model, *modifiers]), ("privacy",), *heads)
    if p.public is not None:
        line(2, f"with {public_text(p.public)}", ("privacy", "public"))
    budgets = [(k, e) for k, e in (("epsilon", p.epsilon), ("delta", p.delta), ("rho", p.rho), ("mu", p.mu)) if e is not None]
    if budgets:
        line(2, ", ".join(f"{k} = {expr_text(e)}" for k, e in budgets), *(("privacy", k) for k, _ in budgets))
    line(2, "", ("privacy", "end"))


def _dps_assume(line: _Line, a: Analysis) -> None:
    if a.assume:
        line(0, "")
        line(0, "assume", ("assume",))
        for i, assumption in enumerate(a.assume):
            line(2, assumption_text(assumption), ("assume", i))
        line(2, "", ("assume", "end"))


def _dps_releases(line: _Line, a: Analysis) -> None:
    for i, release in enumerate(a.releases):
        line(0, "")
        line(0, f"release {release.name}", ("releases", i))
        line(2, task_text(release.task), ("releases", i, "task"), ("releases", i, "over"))
        line(2, f"by {by_text(release)}", ("releases", i, "by"))
        if release.expect is not None:
            line(2, f"expect {expect_text(release.expect)}", ("releases", i, "expect"))
        for key, number in (("share", release.share), ("part", release.part)):
            if number is not None:
                line(2, f"{key} {expr_text(number)}", ("releases", i, key))
        line(2, "", ("releases", i, "end"))


def _dps_simulate(line: _Line, a: Analysis) -> None:
    if a.simulate:
        line(0, "")
        line(0, "simulate", ("simulate",))
        for i, law in enumerate(a.simulate):
            line(2, law_text(law), ("simulate", i))
        line(2, "", ("simulate", "end"))


def _dps_study(line: _Line, a: Analysis) -> None:
    if a.study is not None:
        line(0, "")
        line(0, "study", ("study",))
        for i, vary in enumerate(a.study.vary):
            line(2, f"vary {vary.variable} in [{_list(vary.values)}]", ("study", "vary", i))
        rest = [(k, e) for k, e in (("trials", a.study.trials), ("seed", a.study.seed)) if e is not None]
        if rest:
            line(2, ", ".join(f"{k} {expr_text(e)}" for k, e in rest), *(("study", k) for k, _ in rest))
        if a.study.compare:
            line(2, "compare " + ", ".join(a.study.compare), ("study", "compare"))
        line(2, "", ("study", "end"))


def _dps_end(line: _Line, a: Analysis) -> None:
    line(0, "", ("end",))


def dps_lines(a: Analysis) -> list[PrintedLine]:
    return _printed(a, (_dps_data, _dps_privacy, _dps_assume, _dps_releases, _dps_simulate, _dps_study, _dps_end))


# ----------------------------------------------------------------------------------------------------------- YAML

_PLAIN = re.compile(r"(?:[A-Za-z0-9(.</_]|-[A-Za-z0-9(.<])[ -~]*")
_YAML_WORDS = frozenset({"true", "false", "null", "yes", "no", "on", "off", "~", "=", "<<", ".inf", ".nan", "y", "n"})
_YAML_NUMBER = re.compile(r"[-+]?(?:0[xob])?[0-9._]+(?:e[-+]?[0-9]+)?|[0-9]{4}-[0-9].*", re.IGNORECASE)


def _plain(text: str, flow: bool) -> bool:
    return bool(
        _PLAIN.fullmatch(text)
        and text == text.strip()
        and ": " not in text
        and " #" not in text
        and not text.endswith(":")
        and not text.startswith(("---", "..."))
        and not (flow and any(c in ",[]{}" for c in text))
    )


def _yaml_text(text: str, flow: bool = False) -> str:
    """A text: quoted whenever YAML could take it for something else."""
    good = _plain(text, flow) and text.lower() not in _YAML_WORDS and not _YAML_NUMBER.fullmatch(text)
    return text if good else quoted(text)


def _yaml_key(text: str) -> str:
    return text if _BARE.fullmatch(text) or (_WORD.fullmatch(text) and text.lower() not in _YAML_WORDS) else _yaml_text(text, True)


def _yaml_expr(e: Expr, flow: bool = False) -> str:
    if isinstance(e, Num) and e.value >= 0:
        text = number_text(e.value, grouped=False)
        if "/" not in text:
            return text
    return _yaml_piece(expr_text(e), flow)


def _yaml_piece(text: str, flow: bool = False) -> str:
    """Text in the language of expressions."""
    good = _plain(text, flow) and text.lower() not in _YAML_WORDS - {"y", "n"} and not _YAML_NUMBER.fullmatch(text)
    return text if good else quoted(text)


def _yaml_source(source: Source) -> str:
    match source:
        case CsvSource(path=path, target=target, columns=columns):
            parts = [f"path: {_yaml_text(path, True)}"]
        case MemorySource(target=target, columns=columns):
            parts = ["memory: true"]
        case SqlSource(url=url, query=query, target=target, columns=columns):
            parts = [f"url: {_yaml_text(url, True)}", f"query: {_yaml_text(query, True)}"]
        case _:
            return f"{{sklearn: {_yaml_text(source.name, True)}}}"
    if target is not None:
        parts.append(f"target: {_yaml_text(target, True)}")
    if columns:
        parts.append("columns: [" + ", ".join(_yaml_text(c, True) for c in columns) + "]")
    return "{" + ", ".join(parts) + "}"


def _yaml_public(public: PublicRecords) -> str:
    parts = [f"variable: {_yaml_text(public.variable, True)}"]
    if public.m is not None:
        parts.append(f"m: {_yaml_expr(public.m, True)}")
    if public.path is not None:
        parts.append(f"path: {_yaml_text(public.path, True)}")
    return "{" + ", ".join(parts) + "}"


def _yaml_data(line: _Line, a: Analysis) -> None:
    line(0, "dpspec: 1", ("dpspec",))
    line(0, f"analysis: {_yaml_text(a.name)}", ("name",))
    line(0, "data:", ("data",))
    d = a.data
    for name, e in (("n", d.n), ("d", d.d)):
        if e is not None:
            line(2, f"{name}: {_yaml_expr(e)}", ("data", name))
    if d.constants:
        line(2, "constants:", ("data", "constants"))
        for name, e in d.constants:
            line(4, f"{_yaml_key(name)}: {_yaml_expr(e)}", ("data", "constants", name))
    if d.source is not None:
        line(2, f"from: {_yaml_source(d.source)}", ("data", "source"))
    line(2, f"sensitivity: {d.status}", ("data", "status"))
    if d.identified or d.rows is not None or d.groups is not None:
        line(2, "unit:", ("data", "unit"))
        line(4, f"name: {_yaml_text(d.unit)}", ("data", "unit", "name"))
        if d.identified:
            line(4, f"identified-by: {_yaml_text(d.identified)}", ("data", "identified"))
        for key, bound in (("rows", d.rows), ("groups", d.groups)):
            if bound is not None:
                line(4, f"{key}: {_yaml_expr(bound)}", ("data", key))
    else:
        line(2, f"unit: {_yaml_text(d.unit)}", ("data", "unit"))
    line(2, f"neighbours: {d.neighbours}", ("data", "neighbours"))
    if d.encode:
        line(2, "encode:", ("data", "encode"))
        for i, encode in enumerate(d.encode):
            line(4, f"{_yaml_key(encode.column)}: {_yaml_piece(encoding_text(encode))}", ("data", "encode", i))
    if d.intercept:
        line(2, "intercept: true", ("data", "intercept"))
    if d.domains:
        line(2, "domain:", ("data", "domains"))
        for i, domain in enumerate(d.domains):
            line(4, f"{_yaml_key(domain.variable)}: {_yaml_piece(domain_text(domain))}", ("data", "domains", i))
    line(2, "", ("data", "end"))


def _yaml_privacy(line: _Line, a: Analysis) -> None:
    p = a.privacy
    line(0, "privacy:", ("privacy",))
    line(2, f"model: {p.model}", ("privacy", "model"))
    for key, on in (("labels-only", p.labels_only), ("attribute", p.attribute), ("online", p.online)):
        if on:
            line(2, f"{key}: true", ("privacy", key.replace("-", "_")))
    if p.public is not None:
        line(2, f"public: {_yaml_public(p.public)}", ("privacy", "public"))
    for key, e in (("epsilon", p.epsilon), ("delta", p.delta), ("rho", p.rho), ("mu", p.mu)):
        if e is not None:
            line(2, f"{key}: {_yaml_expr(e)}", ("privacy", key))
    line(2, "", ("privacy", "end"))


def _yaml_assume(line: _Line, a: Analysis) -> None:
    if a.assume:
        line(0, "assume:", ("assume",))
        for i, assumption in enumerate(a.assume):
            line(2, f"- {_yaml_piece(assumption_text(assumption))}", ("assume", i))
        line(2, "", ("assume", "end"))


def _yaml_releases(line: _Line, a: Analysis) -> None:
    line(0, "releases:", ("releases",))
    for i, release in enumerate(a.releases):
        line(2, f"{_yaml_key(release.name)}:", ("releases", i))
        word, what, over = _task(release.task)
        line(4, f"{word}: {_yaml_piece(what)}", ("releases", i, "task"))
        if over:
            line(4, f"over: {_yaml_piece(over)}", ("releases", i, "over"))
        line(4, f"by: {_yaml_piece(by_text(release))}", ("releases", i, "by"))
        if release.expect is not None:
            line(4, f"expect: {_yaml_piece(expect_text(release.expect))}", ("releases", i, "expect"))
        for key, number in (("share", release.share), ("part", release.part)):
            if number is not None:
                line(4, f"{key}: {_yaml_expr(number)}", ("releases", i, key))
        line(4, "", ("releases", i, "end"))


def _yaml_simulate(line: _Line, a: Analysis) -> None:
    if a.simulate:
        line(0, "simulate:", ("simulate",))
        for i, law in enumerate(a.simulate):
            line(2, f"- {_yaml_piece(law_text(law))}", ("simulate", i))
        line(2, "", ("simulate", "end"))


def _yaml_study(line: _Line, a: Analysis) -> None:
    study = a.study
    if study is not None:
        bare = not (study.vary or study.compare or study.trials is not None or study.seed is not None)
        line(0, "study: {}" if bare else "study:", ("study",))
        if study.vary:
            line(2, "vary:", ("study", "vary"))
            for i, vary in enumerate(study.vary):
                values = ", ".join(_yaml_expr(e, True) for e in vary.values)
                line(4, f"{_yaml_key(vary.variable)}: [{values}]", ("study", "vary", i))
        for key, e in (("trials", study.trials), ("seed", study.seed)):
            if e is not None:
                line(2, f"{key}: {_yaml_expr(e)}", ("study", key))
        if study.compare:
            line(2, "compare: [" + ", ".join(_yaml_text(c, True) for c in study.compare) + "]", ("study", "compare"))
        line(2, "", ("study", "end"))


def _yaml_end(line: _Line, a: Analysis) -> None:
    line(0, "", ("end",))


def yaml_lines(a: Analysis) -> list[PrintedLine]:
    return _printed(a, (_yaml_data, _yaml_privacy, _yaml_assume, _yaml_releases, _yaml_simulate, _yaml_study, _yaml_end))


def _joined(lines: list[PrintedLine]) -> str:
    """Lines that only mark the end of a section are left out; the empty ones between sections stay."""
    return "".join(" " * (p.indent if p.text else 0) + p.text + "\n" for p in lines if p.text or not p.paths)


def to_dps(analysis: Analysis) -> str:
    """The canonical DSL text."""
    return _joined(dps_lines(analysis))


def to_yaml(analysis: Analysis) -> str:
    """The canonical YAML text."""
    return _joined(yaml_lines(analysis))
