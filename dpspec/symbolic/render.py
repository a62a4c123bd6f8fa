"""Expressions as text of the language and as LaTeX, in the order the author wrote them."""

from __future__ import annotations

from fractions import Fraction

from dpspec.spec.expr import Bin, Call, Expr, Inner, Name, Neg, Norm, Num

_LEVEL = {"+": 1, "-": 1, "*": 2, "/": 2, "^": 4}
_NEG, _ATOM = 3, 5


def to_text(e: Expr) -> str:
    """The expression in the language's own spelling; parsing the text again gives an equal value."""
    return _text(e)[0]


def _text(e: Expr) -> tuple[str, int]:
    match e:
        case Num(value=v):
            text = _number(v)
            return text, _ATOM if v >= 0 and "/" not in text else 2 if v >= 0 else _NEG if "/" not in text else 2
        case Name(id=name):
            return name, _ATOM
        case Neg(operand=a):
            return f"-{_wrap(a, _NEG + 1)}", _NEG
        case Inner(left=a, right=b):
            return f"<{to_text(a)}, {to_text(b)}>", _ATOM
        case Norm(operand=a, order=order):
            return f"|{to_text(a)}|" + ("" if order == "2" else f"_{order}"), _ATOM
        case Call(function=f, args=args):
            return f"{f}({', '.join(to_text(a) for a in args)})", _ATOM
        case Bin(op="^", left=a, right=b):
            return f"{_wrap(a, 5)}^{_wrap(b, 5)}", 4
        case Bin(op=op, left=a, right=b):
            level = _LEVEL[op]
            gap = " " if level == 1 else ""
            return f"{_wrap(a, level)}{gap}{op}{gap}{_wrap(b, level + 1)}", level


def _wrap(e: Expr, least: int) -> str:
    text, level = _text(e)
    return text if level >= least else f"({text})"


def _number(v: Fraction) -> str:
    """Decimal text when the number is a short decimal, a quotient otherwise."""
    if v.denominator == 1:
        return str(v.numerator)
    twos = fives = 0
    q = v.denominator
    while q % 2 == 0:
        q, twos = q // 2, twos + 1
    while q % 5 == 0:
        q, fives = q // 5, fives + 1
    places = max(twos, fives)
    if q != 1 or places > 12:
        return f"{v.numerator}/{v.denominator}"
    digits = str(abs(v.numerator) * 10**places // v.denominator).rjust(places + 1, "0")
    return f"{'-' if v < 0 else ''}{digits[:-places]}.{digits[-places:]}"


_GREEK = frozenset(
    {
        "alpha",
        "beta",
        "gamma",
        "delta",
        "epsilon",
        "zeta",
        "eta",
        "theta",
        "kappa",
        "lambda",
        "mu",
        "nu",
        "xi",
        "pi",
        "rho",
        "sigma",
        "tau",
        "phi",
        "chi",
        "psi",
        "omega",
        "Delta",
        "Gamma",
        "Phi",
        "Sigma",
    }
)
_FUNCTIONS = {"exp": r"\exp", "log": r"\log", "sin": r"\sin", "cos": r"\cos", "tanh": r"\tanh", "max": r"\max", "min": r"\min"}


def to_latex(e: Expr) -> str:
    """LaTeX, without the surrounding dollars."""
    return _latex(e)[0]


def _latex(e: Expr) -> tuple[str, int]:
    match e:
        case Num(value=v):
            text = _number(v)
            if "/" in text:
                p, q = text.lstrip("-").split("/")
                return f"{'-' if v < 0 else ''}\\frac{{{p}}}{{{q}}}", _ATOM if v >= 0 else _NEG
            return text, _ATOM if v >= 0 else _NEG
        case Name(id=name):
            return _name(name), _ATOM
        case Neg(operand=a):
            return f"-{_wrap_latex(a, _NEG + 1)}", _NEG
        case Inner(left=a, right=b):
            return rf"\langle {to_latex(a)}, {to_latex(b)} \rangle", _ATOM
        case Norm(operand=a, order=order):
            index = {"2": "2", "1": "1", "inf": r"\infty"}[order]
            return rf"\lVert {to_latex(a)} \rVert_{{{index}}}", _ATOM
        case Call(function="sqrt", args=(a,)):
            return rf"\sqrt{{{to_latex(a)}}}", _ATOM
        case Call(function="abs", args=(a,)):
            return rf"\left| {to_latex(a)} \right|", _ATOM
        case Call(function="ceil" | "floor" as f, args=(a,)):
            return rf"\l{f} {to_latex(a)} \r{f}", _ATOM
        case Call(function=f, args=args):
            head = _FUNCTIONS.get(f, rf"\operatorname{{{f}}}")
            inside = ", ".join(to_latex(a) for a in args)
            return rf"{head}\left({inside}\right)" if args else head, _ATOM
        case Bin(op="/", left=a, right=b):
            return rf"\frac{{{to_latex(a)}}}{{{to_latex(b)}}}", _ATOM
        case Bin(op="^", left=a, right=b):
            base = _wrap_latex(a, 5)
            if isinstance(a, Call | Norm | Bin) and base == to_latex(a):
                base = f"{{{base}}}" if isinstance(a, Norm) else rf"\left({base}\right)"
            return f"{base}^{{{to_latex(b)}}}", 4
        case Bin(op="*", left=a, right=b):
            right = _wrap_latex(b, 3)
            dot = r" \cdot " if right[:1].isdigit() else r" \, "
            return f"{_wrap_latex(a, 2)}{dot}{right}", 2
        case Bin(op=op, left=a, right=b):
            return f"{_wrap_latex(a, 1)} {op} {_wrap_latex(b, 2)}", 1


def _wrap_latex(e: Expr, least: int) -> str:
    text, level = _latex(e)
    return text if level >= least else rf"\left({text}\right)"


def _name(name: str) -> str:
    head, _, index = name.partition("_")
    symbol = rf"\{head}" if head in _GREEK else head if len(head) == 1 else rf"\mathrm{{{head}}}"
    return symbol if not index else rf"{symbol}_{{\mathrm{{{index}}}}}"
