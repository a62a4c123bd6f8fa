"""What each alternative of the grammar builds. Values are nodes of the model, or :class:`Item` for an entry of a section.

An action has the form ``f(context, children, offsets, where)``: the kept children, the offsets of each, and those of the whole.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from decimal import ROUND_HALF_EVEN, Decimal, localcontext
from fractions import Fraction
from itertools import pairwise
from typing import Any, NoReturn, TypeAlias

from dpspec.lang.text import Locate
from dpspec.lang.vocabulary import ascii_name, spelt_out
from dpspec.spec.diagnostics import Diagnostic, Span
from dpspec.spec.expr import FUNCTIONS, Bin, Call, Expr, Inner, Name, Neg, Norm, NotANumber, Num, Unbound, evaluate, names
from dpspec.spec.model import (
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
    Polytope,
    PublicRecords,
    Reals,
    Regress,
    Simplex,
    SklearnSource,
    Sparse,
    SqlSource,
    Vary,
)
from dpspec.spec.words import ORDERS, STATISTICS

MAX_DIGITS = 64  # of one number, as written
MAX_MAGNITUDE = 300  # 1e-300 <= |number| <= 1e300, or zero
MAX_DEPTH = 60  # of one expression tree; below the limit on brackets, since printing may put each level into a pair
MAX_GRID = 1000  # points of one log-grid

Offsets: TypeAlias = tuple[int, int]


class Malformed(Exception):
    """A piece that the grammar accepts and the language does not."""

    def __init__(self, diagnostic: Diagnostic) -> None:
        super().__init__(diagnostic.message)
        self.diagnostic = diagnostic


@dataclass(slots=True)
class Marks:
    """Where nodes of the model stand. By identity: the nodes are alive as long as the marks are."""

    whole: dict[int, Span] = field(default_factory=dict)
    fields: dict[tuple[int, str], Span] = field(default_factory=dict)
    alive: list[object] = field(default_factory=list)

    def note(self, node: Any, span: Span, **fields: Span) -> Any:
        self.alive.append(node)
        self.whole[id(node)] = span
        for name, where in fields.items():
            self.fields[id(node), name] = where
        return node

    def update(self, other: Marks) -> None:
        self.whole.update(other.whole)
        self.fields.update(other.fields)
        self.alive.extend(other.alive)


class Context:
    """What the actions of one piece share: positions, marks, and findings that need not stop the parse."""

    def __init__(self, locate: Locate) -> None:
        self.locate = locate
        self.marks = Marks()
        self.diagnostics: list[Diagnostic] = []

    def report(self, code: str, message: str, help: str, where: Offsets) -> None:
        self.diagnostics.append(Diagnostic(code, "error", message, help, self.locate(*where)))

    def fail(self, code: str, message: str, help: str, where: Offsets) -> NoReturn:
        raise Malformed(Diagnostic(code, "error", message, help, self.locate(*where)))

    def note(self, node: Any, where: Offsets, **fields: Offsets) -> Any:
        return self.marks.note(node, self.locate(*where), **{k: self.locate(*v) for k, v in fields.items()})


@dataclass(frozen=True, slots=True)
class Item:
    """One entry of a section: ``key`` says which, ``name`` which of several (a variable, a column, an option), ``label`` where the name
    of a number or an option stands."""

    key: str
    value: Any
    span: Span
    name: str = ""
    label: Span | None = None


Action: TypeAlias = Callable[[Context, list[Any], list[Offsets], Offsets], Any]
ACTIONS: dict[str, Action] = {}


def _action(f: Action) -> Action:
    ACTIONS[f.__name__.lstrip("_")] = f
    return f


def _constant(name: str, value: Any) -> None:
    ACTIONS[name] = lambda c, v, at, where: value


# -------------------------------------------------------------------------------------------------------- plumbing

ACTIONS["first"] = lambda c, v, at, where: v[0]
ACTIONS["one"] = lambda c, v, at, where: [v[0]]
ACTIONS["text"] = lambda c, v, at, where: v[0]
ACTIONS["word"] = lambda c, v, at, where: spelt_out(v[0])
ACTIONS["minus_text"] = lambda c, v, at, where: "-" + v[0]
ACTIONS["pair"] = lambda c, v, at, where: (v[0], v[1])
_constant("none", ())


@_action
def _more(c: Context, v: list[Any], at: list[Offsets], where: Offsets) -> Any:
    v[0].append(v[1])
    return v[0]


_ESCAPES = {'"': '"', "\\": "\\", "n": "\n", "t": "\t", "r": "\r", "/": "/"}


def unprintable(text: str) -> str | None:
    """The first control character (other than tab and line break) or lone surrogate, or None."""
    return next((c for c in text if (c < " " and c not in "\n\t\r") or c == "\x7f" or "\ud800" <= c <= "\udfff"), None)


@_action
def _string(c: Context, v: list[Any], at: list[Offsets], where: Offsets) -> str:
    body = v[0][1:-1]
    if "\\" not in body:
        return str(body)
    out: list[str] = []
    i = 0
    while i < len(body):
        if body[i] != "\\":
            out.append(body[i])
            i += 1
            continue
        kind = body[i + 1]
        if kind in _ESCAPES:
            out.append(_ESCAPES[kind])
            i += 2
            continue
        length = {"x": 2, "u": 4, "U": 8}.get(kind, 0)
        digits = body[i + 2 : i + 2 + length]
        code = int(digits, 16) if length and len(digits) == length and all(d in "0123456789abcdefABCDEF" for d in digits) else -1
        if not 0 <= code <= 0x10FFFF or unprintable(chr(code)) is not None:
            place = (where[0] + 1 + i, where[0] + 3 + i + length)
            c.report("DP111", f"`\\{kind}{digits}` is no escape of a text", r"Write \" for a quote and \\ for a backslash.", place)
            i += 2
            continue
        out.append(chr(code))
        i += 2 + length
    return "".join(out)


# ----------------------------------------------------------------------------------------------------- expressions


def exact(c: Context, text: str, where: Offsets) -> Fraction:
    """The exact value of a number as written; a number too long or too large is reported, never computed."""
    mantissa, _, power = text.lower().replace("_", "").partition("e")
    if len(mantissa) > MAX_DIGITS:
        c.report("DP113", f"a number of more than {MAX_DIGITS} digits", "Round it: no figure of an analysis needs as many.", where)
        return Fraction(1)
    digits = mantissa.replace(".", "").lstrip("0")
    if not digits:
        return Fraction(0)
    exponent = int(power) if 0 < len(power) <= 7 else 0 if not power else 10**7 if not power.startswith("-") else -(10**7)
    whole = mantissa.partition(".")[0]
    magnitude = exponent + len(whole.lstrip("0")) if whole.strip("0") else exponent
    if not -MAX_MAGNITUDE - MAX_DIGITS <= magnitude <= MAX_MAGNITUDE + 1:
        out_of_range = True
    else:
        value = Fraction(mantissa) * Fraction(10) ** exponent
        out_of_range = not Fraction(10) ** -MAX_MAGNITUDE <= value <= Fraction(10) ** MAX_MAGNITUDE
    if out_of_range:
        size = "large" if magnitude > 0 else "small"
        shown = text if len(text) <= 24 else text[:24] + "..."
        c.report("DP113", f"`{shown}` is too {size}", f"Numbers lie between 1e-{MAX_MAGNITUDE} and 1e{MAX_MAGNITUDE}, or are 0.", where)
        return Fraction(1)
    return value


@_action
def _number(c: Context, v: list[Any], at: list[Offsets], where: Offsets) -> Expr:
    return Num(exact(c, v[0], where), c.locate(*where))


_NOT_NUMBERS = {"nan", "inf", "infinity", "infty"}


@_action
def _name(c: Context, v: list[Any], at: list[Offsets], where: Offsets) -> Expr:
    name = ascii_name(v[0])
    if name.lower() in _NOT_NUMBERS:
        c.report("DP114", f"`{v[0]}` is not a number here", "Give a finite number.", where)
    return Name(name, c.locate(*where))


def _bin(op: Any) -> Action:
    return lambda c, v, at, where: Bin(op, v[0], v[1], c.locate(*where))


for _op, _word in (("+", "add"), ("-", "sub"), ("*", "mul"), ("/", "div"), ("^", "pow")):
    ACTIONS[_word] = _bin(_op)
ACTIONS["neg"] = lambda c, v, at, where: Neg(v[0], c.locate(*where))
ACTIONS["inner"] = lambda c, v, at, where: Inner(v[0], v[1], c.locate(*where))
ACTIONS["norm"] = lambda c, v, at, where: Norm(v[1], v[2], c.locate(*where))
ACTIONS["superscript"] = lambda c, v, at, where: Bin("^", v[0], Num(Fraction({"²": 2, "³": 3}[v[1]]), c.locate(*at[1])), c.locate(*where))


def wrong_arity(name: str, count: int) -> tuple[str, str] | None:
    """(message, help) when the function takes another number of arguments."""
    if name not in FUNCTIONS:
        return None
    arity = FUNCTIONS[name]
    if arity is None:
        return None if count >= 2 else (f"`{name}` takes two arguments or more", f"Write {name}(a, b).")
    return None if count == arity else (f"`{name}` takes {arity} argument, not {count}", f"Write {name}(a).")


@_action
def _call(c: Context, v: list[Any], at: list[Offsets], where: Offsets) -> Expr:
    name, args = ascii_name(v[0]), tuple(v[1])
    problem = wrong_arity(name, len(args))
    if problem is not None:
        c.report("DP115", *problem, where)
    return Call(name, args, c.locate(*where))


# ------------------------------------------------------------------------------------------------------------ sets

for _word in ("l1", "l2", "linf"):
    _constant(_word, _word)
ACTIONS["ball"] = lambda c, v, at, where: c.note(Ball(norm=v[0], radius=v[1]), where)
ACTIONS["simplex"] = lambda c, v, at, where: c.note(Simplex(), where)
ACTIONS["box"] = lambda c, v, at, where: c.note(Box(low=v[0], high=v[1]), where)
ACTIONS["finite"] = lambda c, v, at, where: c.note(Finite(values=tuple(v[0])), where)
ACTIONS["sparse"] = lambda c, v, at, where: c.note(Sparse(k=v[0]), where)
ACTIONS["polytope"] = lambda c, v, at, where: c.note(Polytope(vertices=v[0]), where)
ACTIONS["reals"] = lambda c, v, at, where: c.note(Reals(scalar=True), where)
ACTIONS["reals_d"] = lambda c, v, at, where: c.note(Reals(), where)


@dataclass(frozen=True, slots=True)
class SetBy:
    """A set with its enforcement, before the variable is known."""

    set: Any
    by: Enforcement | None
    span: Span


ACTIONS["domain"] = lambda c, v, at, where: SetBy(v[0], v[1] if len(v) > 1 else None, c.locate(*where))
ACTIONS["scale"] = lambda c, v, at, where: c.note(Enforcement(how="scale"), where)
ACTIONS["clip"] = lambda c, v, at, where: c.note(Enforcement(how="clip"), where)
ACTIONS["reject"] = lambda c, v, at, where: c.note(Enforcement(how="reject"), where)
ACTIONS["shrink"] = lambda c, v, at, where: c.note(Enforcement(how="shrink", tau=v[0]), where)
ACTIONS["map"] = lambda c, v, at, where: c.note(Enforcement(how="map", mapping=tuple(v[0])), where)


# ------------------------------------------------------------------------------------------------------------ data


def _item(key: str) -> Action:
    """An item whose value is the only child."""
    return lambda c, v, at, where: Item(key, v[0], c.locate(*where))


def _flag(key: str, value: Any) -> Action:
    return lambda c, v, at, where: Item(key, value, c.locate(*where))


ACTIONS["d_number"] = lambda c, v, at, where: Item("number", v[1], c.locate(*where), ascii_name(v[0]), c.locate(*at[0]))
ACTIONS["d_source"] = _item("source")
ACTIONS["d_private"] = _flag("status", "private")
ACTIONS["d_public"] = _flag("status", "public")
ACTIONS["d_unit"] = _item("unit")
ACTIONS["d_unit_by"] = lambda c, v, at, where: Item("unit-by", tuple(v), c.locate(*where))
for _of_a_unit in ("rows", "groups"):  # ``name``: the word after `a`, which is the unit's
    ACTIONS[f"d_{_of_a_unit}"] = lambda c, v, at, where, key=_of_a_unit: Item(key, v[0], c.locate(*where), v[1] if len(v) > 1 else "")  # type: ignore[misc]
ACTIONS["d_groups_more"] = lambda c, v, at, where: Item(
    "groups", Num(exact(c, v[0], at[0]), c.locate(*at[0])), c.locate(*where), v[1] if len(v) > 1 else ""
)
ACTIONS["d_neighbours"] = _item("neighbours")
ACTIONS["d_intercept"] = _flag("intercept", True)
_constant("replace_one", "replace-one")
_constant("add_remove", "add-remove")
_constant("zero_out", "zero-out")


@_action
def _d_domain(c: Context, v: list[Any], at: list[Offsets], where: Offsets) -> Item:
    variable = ascii_name(v[0])
    node = c.note(Domain(variable=variable, set=v[1].set, by=v[1].by), where, variable=at[0])
    return Item("domain", node, c.locate(*where), variable)


def _encode(key: str) -> Action:
    def action(c: Context, v: list[Any], at: list[Offsets], where: Offsets) -> Item:
        how, args, levels = v[1]
        node = c.note(Encode(column=v[0], how=how, args=args, levels=levels), where, column=at[0], how=at[1])
        return Item(key, node, c.locate(*where), v[0])

    return action


ACTIONS["d_encode"] = _encode("encode")
ACTIONS["d_encode_more"] = _encode("encode-more")
ACTIONS["e_one_hot"] = lambda c, v, at, where: ("one-hot", (v[0],), ())
ACTIONS["e_levels"] = lambda c, v, at, where: ("levels", (), tuple(v[0]))
ACTIONS["e_range"] = lambda c, v, at, where: ("range", (v[0], v[1]), ())
ACTIONS["e_auto"] = lambda c, v, at, where: ("auto", (), ())
ACTIONS["e_standard"] = lambda c, v, at, where: ("standard", (v[0], v[1]), ())


def _source_options(c: Context, options: tuple[Any, ...], where: Offsets) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value, place in options:
        if key in found:
            c.report("DP109", f"`{key}` is given twice", "Keep one.", place)
        found[key] = value
    return found


ACTIONS["so_target"] = lambda c, v, at, where: (*v[0], ("target", v[1], at[1]))
ACTIONS["so_columns"] = lambda c, v, at, where: (*v[0], ("columns", tuple(v[1]), at[1]))
ACTIONS["so_query"] = lambda c, v, at, where: (*v[0], ("query", v[1], at[1]))
ACTIONS["s_sklearn"] = lambda c, v, at, where: c.note(SklearnSource(name=v[0]), where, name=at[0])


@_action
def _s_file(c: Context, v: list[Any], at: list[Offsets], where: Offsets) -> Any:
    options = _source_options(c, v[1], where)
    if "query" in options:
        return c.note(SqlSource(url=v[0], **options), where, url=at[0])
    return c.note(CsvSource(path=v[0], **options), where, path=at[0])


@_action
def _s_memory(c: Context, v: list[Any], at: list[Offsets], where: Offsets) -> Any:
    options = _source_options(c, v[0], where)
    if "query" in options:
        c.report("DP109", "`query` asks a database, and memory is none", 'from "postgresql://host/db" query "select ..."', where)
        del options["query"]
    return c.note(MemorySource(**options), where)


# --------------------------------------------------------------------------------------------------------- privacy

for _word in ("central", "nldp", "sldp"):
    ACTIONS["p_" + _word] = _flag("model", _word)
ACTIONS["p_labels"] = _flag("labels_only", True)
ACTIONS["p_attribute"] = _flag("attribute", True)
ACTIONS["p_online"] = _flag("online", True)
ACTIONS["p_public"] = _item("public")
for _word in ("epsilon", "delta", "rho", "mu"):
    ACTIONS["p_" + _word] = _item(_word)
ACTIONS["pub_m"] = lambda c, v, at, where: ("m", v[0], where)
ACTIONS["pub_path"] = lambda c, v, at, where: ("path", v[0], where)


@_action
def _public(c: Context, v: list[Any], at: list[Offsets], where: Offsets) -> Any:
    options = _source_options(c, tuple(v[1]) if len(v) > 1 else (), where)
    return c.note(PublicRecords(variable=ascii_name(v[0]), **options), where)


# ----------------------------------------------------------------------------------------------------- assumptions

ACTIONS["aa_expr"] = lambda c, v, at, where: ("", v[0], where)
ACTIONS["aa_of"] = lambda c, v, at, where: ("of", v[0], where)
ACTIONS["aa_named"] = lambda c, v, at, where: (ascii_name(v[0]), v[1], where)
ACTIONS["aa_number"] = lambda c, v, at, where: (ascii_name(v[0]), Num(exact(c, v[1], at[1]), c.locate(*at[1])), where)
ACTIONS["aa_name"] = lambda c, v, at, where: (ascii_name(v[0]), Name(ascii_name(v[1]), c.locate(*at[1])), where)


def _assumption(c: Context, name: str, aargs: list[Any], of: str | None, where: Offsets, name_at: Offsets) -> Item:
    args: list[Expr] = []
    options: dict[str, Expr] = {}
    for key, value, place in aargs:
        if key == "of":
            if of is not None:
                c.report("DP109", "what the assumption is about is given twice", "Keep one `of`.", place)
            of = value
        elif not key:
            if options:
                c.report("DP106", "a plain argument after a named one", "Put it first.", place)
            args.append(value)
        elif key in options:
            c.report("DP109", f"`{key}` is given twice", "Keep one.", place)
        else:
            options[key] = value
    node = Assumption(name=name, args=tuple(args), options=tuple(options.items()), of=None if of is None else ascii_name(of))
    c.note(node, where, name=name_at)
    return Item("assumption", node, c.locate(*where))


@_action
def _a_plain(c: Context, v: list[Any], at: list[Offsets], where: Offsets) -> Item:
    return _assumption(c, v[0], [], v[1] if len(v) > 1 else None, where, at[0])


@_action
def _a_args(c: Context, v: list[Any], at: list[Offsets], where: Offsets) -> Item:
    return _assumption(c, v[0], v[1], v[2] if len(v) > 2 else None, where, at[0])


@_action
def _a_in(c: Context, v: list[Any], at: list[Offsets], where: Offsets) -> Item:
    return _assumption(c, v[0], [("", v[1], at[1]), ("", v[2], at[2])], v[3] if len(v) > 3 else None, where, at[0])


@_action
def _a_about(c: Context, v: list[Any], at: list[Offsets], where: Offsets) -> Item:
    return _assumption(c, v[1], v[2] if len(v) > 2 else [], v[0], where, at[1])


# -------------------------------------------------------------------------------------------------------- releases

ACTIONS["r_head"] = lambda c, v, at, where: (v[0], c.locate(*at[0]), v[1] if len(v) > 1 else [])
ACTIONS["r_task"] = lambda c, v, at, where: replace(v[0], span=c.locate(*where))
ACTIONS["r_over"] = _item("over")
ACTIONS["r_by"] = lambda c, v, at, where: Item("by", v[0], c.locate(*where))
ACTIONS["r_expect"] = _item("expect")
ACTIONS["r_share"] = _item("share")
ACTIONS["r_part"] = _item("part")
ACTIONS["option"] = lambda c, v, at, where: Item("option", v[1], c.locate(*where), ascii_name(v[0]), c.locate(*at[0]))


@_action
def _by(c: Context, v: list[Any], at: list[Offsets], where: Offsets) -> Any:
    """(algorithm, its span, options as items): more options may follow, so the node is built later."""
    options = [v[1], *v[2]] if len(v) > 2 else [v[1]] if len(v) > 1 else []
    return (v[0], c.locate(*at[0]), options)


def _task(make: Callable[[list[Any]], Any]) -> Action:
    return lambda c, v, at, where: Item("task", c.note(make(v), where), c.locate(*where))


@dataclass(frozen=True, slots=True)
class Loss:
    """A minimise task before its ``over`` is known."""

    loss: Expr
    pairwise: bool


ACTIONS["t_minimise"] = lambda c, v, at, where: Item("task", Loss(v[0], False), c.locate(*where))
ACTIONS["t_pairwise"] = lambda c, v, at, where: Item("task", Loss(v[0], True), c.locate(*where))
ACTIONS["t_statistic"] = _task(lambda v: Estimate(what=v[0], of=v[1], args=tuple(v[2]) if len(v) > 2 else ()))
ACTIONS["t_statistic_by"] = _task(lambda v: Estimate(what=v[0], of=v[1], group=v[2]))
ACTIONS["t_count"] = _task(lambda v: Estimate(what="count", of="", where=tuple(v[0]) if v else ()))
ACTIONS["t_count_by"] = _task(lambda v: Estimate(what="count", of="", where=tuple(v[0]) if len(v) > 1 else (), group=v[-1]))
for _statistic in STATISTICS:
    if STATISTICS[_statistic].of != "nothing":
        ACTIONS[f"s_{_statistic.replace('-', '_')}"] = lambda c, v, at, where, word=_statistic: word  # type: ignore[misc]
for _order, _said in zip(ORDERS, ("less", "at_most", "more", "at_least", "equal"), strict=True):
    ACTIONS[f"o_{_said}"] = lambda c, v, at, where, order=_order: order  # type: ignore[misc]
ACTIONS["comparison"] = lambda c, v, at, where: c.note(Comparison(column=v[0], order=v[1], value=v[2]), where)
ACTIONS["comparison_level"] = lambda c, v, at, where: c.note(Comparison(column=v[0], order="=", value=v[1]), where)
ACTIONS["t_regress"] = lambda c, v, at, where: _regress(c, v, at, where)
ACTIONS["t_gmm"] = _task(lambda v: Fit(model="gmm", args=tuple(v[0])))
ACTIONS["t_mor"] = _task(lambda v: Fit(model="mixture-of-regressions", args=tuple(v[0]) if v else ()))
ACTIONS["t_rwm"] = _task(lambda v: Fit(model="regression-with-missing", args=tuple(v[0]) if v else ()))
ACTIONS["t_marginals"] = _task(lambda v: Answer(queries="marginals", args=tuple(v[0])))
ACTIONS["t_smooth"] = _task(lambda v: Answer(queries="smooth-queries", args=tuple(v[0])))
ACTIONS["t_infer"] = _task(lambda v: Infer())


def _wants(c: Context, got: str, want: str, where: Offsets) -> None:
    if got != want:
        c.report("DP107", f"`{got}` where `{want}` is meant", f"The language calls it `{want}`: write {want}.", where)


def _regress(c: Context, v: list[Any], at: list[Offsets], where: Offsets) -> Item:
    _wants(c, v[0], "y", at[0])
    node = Regress(kernel=v[1], args=tuple(v[2]) if len(v) > 2 else ())
    return Item("task", c.note(node, where, kernel=at[1]), c.locate(*where))


@_action
def _t_glm(c: Context, v: list[Any], at: list[Offsets], where: Offsets) -> Item:
    _wants(c, v[0], "y", at[0])
    node = EstimateTheta(form="glm", link=Name(v[1], c.locate(*at[1])))
    return Item("task", c.note(node, where), c.locate(*where))


def _is_index(e: Expr) -> bool:
    return isinstance(e, Inner) and {e.left, e.right} == {Name("theta"), Name("x")}


def _in_u(e: Expr) -> Expr:
    """The expression with <theta, x> written as the scalar u. Iteration depth is bounded by :data:`MAX_DEPTH`."""
    if _is_index(e):
        return Name("u", e.span)
    match e:
        case Neg(operand=a, span=s):
            return Neg(_in_u(a), s)
        case Norm(operand=a, order=o, span=s):
            return Norm(_in_u(a), o, s)
        case Bin(op=op, left=a, right=b, span=s):
            return Bin(op, _in_u(a), _in_u(b), s)
        case Call(function=f, args=args, span=s):
            return Call(f, tuple(_in_u(a) for a in args), s)
        case Inner(left=a, right=b, span=s):
            return Inner(_in_u(a), _in_u(b), s)
        case _:
            return e


@_action
def _t_theta(c: Context, v: list[Any], at: list[Offsets], where: Offsets) -> Item:
    _wants(c, v[0], "y", at[0])
    e: Expr = v[1]
    help = "Write y = <theta, x> + noise, or y = f(<theta, x>) + noise with f written out, or y ~ glm(link)."
    if isinstance(e, Bin) and e.op == "+" and e.right == Name("noise"):
        e = e.left
    elif isinstance(e, Bin) and e.op == "+" and e.left == Name("noise"):
        e = e.right
    else:
        c.fail("DP148", "the model of y must end in `+ noise`", help, at[1])
    if _is_index(e):
        node = EstimateTheta(form="linear")
    else:
        if "u" in names(e):
            c.fail("DP148", "`u` has no meaning here", help, at[1])
        f = _in_u(e)
        left = names(f) - {"pi"}
        if "u" not in left:
            c.fail("DP148", "the model of y does not use <theta, x>", help, at[1])
        if left & {"theta", "x", "y", "noise"}:
            c.fail("DP148", "theta and x may only enter through <theta, x>, and noise once", help, at[1])
        node = EstimateTheta(form="nonlinear", link=f)
    return Item("task", c.note(node, where), c.locate(*where))


@_action
def _expect(c: Context, v: list[Any], at: list[Offsets], where: Offsets) -> Any:
    node = Expect(measure=v[0], at_most=v[1], probability=v[2] if len(v) > 2 else None)
    return c.note(node, where, measure=at[0])


# ------------------------------------------------------------------------------------------------------ study mode

ACTIONS["m_unit"] = lambda c, v, at, where: (*v[0], f"unit {v[1]}")


def _law(relation: Any) -> Action:
    def action(c: Context, v: list[Any], at: list[Offsets], where: Offsets) -> Item:
        variable = ascii_name(v[0])
        node = c.note(Law(variable=variable, relation=relation, law=v[1], modifiers=v[2]), where, variable=at[0])
        return Item("law", node, c.locate(*where), variable)

    return action


ACTIONS["law_eq"] = _law("=")
ACTIONS["law_tilde"] = _law("~")


def _vary(key: str) -> Action:
    def action(c: Context, v: list[Any], at: list[Offsets], where: Offsets) -> Item:
        variable = ascii_name(v[0])
        node = c.note(Vary(variable=variable, values=whole_points(variable, v[1])), where, variable=at[0])
        return Item(key, node, c.locate(*where), variable)

    return action


ACTIONS["v_vary"] = _vary("vary")
ACTIONS["v_vary_more"] = _vary("vary-more")
ACTIONS["v_trials"] = _item("trials")
ACTIONS["v_seed"] = _item("seed")
ACTIONS["v_compare"] = lambda c, v, at, where: Item("compare", v[0], c.locate(*at[0]), v[0])
ACTIONS["v_compare_more"] = lambda c, v, at, where: Item("compare-more", v[0], c.locate(*where), v[0])


class Grid(list[Expr]):
    """The points of a log-grid."""


def whole_points(variable: str, values: list[Expr]) -> tuple[Expr, ...]:
    """The values of a `vary`: a grid with whole ends has whole points, unless it runs a budget."""
    if not isinstance(values, Grid) or variable in ("epsilon", "delta", "rho", "mu"):
        return tuple(values)
    numbers = [e for e in values if isinstance(e, Num)]
    if any(e.value.denominator != 1 for e in (numbers[0], numbers[-1])):
        return tuple(values)
    return tuple(Num(Fraction(round(e.value)), e.span) for e in numbers)


def _terminates(x: Fraction) -> bool:
    """Whether x has a finite decimal expansion of sane length."""
    rest = x.denominator
    for p in (2, 5):
        while rest % p == 0 and rest > 1:
            rest //= p
    return rest == 1 and x.denominator.bit_length() <= 1024


@_action
def _log_grid(c: Context, v: list[Any], at: list[Offsets], where: Offsets) -> list[Expr]:
    """``log-grid(a, b, k)``: k points from a to b with equal ratios, rounded to three figures; the ends are exact."""
    span = c.locate(*where)
    ends: list[Fraction] = []
    for e, place in zip(v, at, strict=True):
        try:
            ends.append(Fraction(evaluate(e)))
        except (Unbound, NotANumber) as error:
            c.fail("DP114", f"not a number: {error}", "Give plain numbers: log-grid(1e3, 1e6, 7).", place)
    low, high, count = ends
    if not (_terminates(low) and _terminates(high)):
        c.fail("DP146", "the ends of a grid are decimal numbers", "For example log-grid(1e3, 1e6, 7).", where)
    if not (0 < low < high) or count.denominator != 1 or not 2 <= count <= MAX_GRID:
        c.fail("DP146", "log-grid(a, b, k) needs 0 < a < b and 2 <= k <= 1000", "For example log-grid(1e3, 1e6, 7).", where)
    k = int(count)
    with localcontext() as digits:
        digits.prec = 40
        a = Decimal(low.numerator) / Decimal(low.denominator)
        ratio = (Decimal(high.numerator) / Decimal(high.denominator) / a).ln() / (k - 1)
        points = [a * (ratio * i).exp() for i in range(1, k - 1)]
        rounded = [p.quantize(Decimal((0, (1,), p.adjusted() - 2)), rounding=ROUND_HALF_EVEN) for p in points]
    values = [low, *(Fraction(p) for p in rounded), high]
    if any(x >= y for x, y in pairwise(values)):
        c.fail("DP146", "the points of this grid fall together when rounded to three figures", "Take fewer points.", where)
    return Grid(Num(x, span) for x in values)
