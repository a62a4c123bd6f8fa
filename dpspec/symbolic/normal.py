"""The normal form of a loss: a polynomial with exact coefficients over a few kinds of atom.

Two ways to write one function end in the same normal form (commuted sums and products, moved signs, expanded small powers,
``exp(a)*exp(b)``, ``log(1/z)``, ``max(0, z)`` against ``max(z, 0)``), so that recognising a loss is a comparison of data. Vectors
are gone: ``<w, x>`` is the margin ``u``, ``|w|`` and ``|w|_1`` are the atoms of regularisers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import TypeAlias

from dpspec.numeric.rounding import show
from dpspec.spec.expr import Bin, Call, Expr, Inner, Name, Neg, Norm, Num
from dpspec.symbolic.groups import groups

#: Powers up to this one are multiplied out when the base has few terms.
MAX_EXPANDED_POWER = 8
MAX_TERMS = 60
#: Atoms in a normal form, nested ones counted. Small enough that a hostile expression ends at once.
MAX_SIZE = 2_000
MAX_EXPONENT = 64
MAX_CLASSES = 10_000

#: Named losses, with the least and the greatest number of parameters.
NAMED_LOSSES: Mapping[str, tuple[int, int]] = {
    "logistic": (0, 0),
    "logistic-glm": (0, 0),
    "squared": (0, 0),
    "absolute": (0, 0),
    "quantile": (1, 1),
    "hinge": (0, 1),
    "squared-hinge": (0, 1),
    "smoothed-hinge": (0, 2),
    "smooth-hinge": (0, 2),
    "huber": (0, 1),
    "biweight": (0, 1),
    "cauchy": (0, 1),
    "sigmoid": (0, 0),
    "savage": (0, 0),
    "probit": (0, 0),
    "linear": (0, 0),
    "multinomial": (1, 1),
    "poisson": (0, 0),
    "exponential": (0, 0),
    "auc": (0, 0),
    "ranking": (0, 0),
    "minimum-error-entropy": (0, 1),
    "metric": (0, 1),
    "metric-logistic": (0, 1),
    "metric-hinge": (0, 1),
}
#: Named losses that are of two records alone; the others are too, in the differences of margins and labels.
OF_PAIRS = frozenset(("auc", "ranking", "minimum-error-entropy", "metric", "metric-logistic", "metric-hinge"))


class NoNormalForm(Exception):
    """The expression is outside what certificates cover; the message says which part."""


class NoValue(NoNormalForm):
    """A name in the loss is neither w, x, y nor a number."""

    def __init__(self, name: str) -> None:
        super().__init__(f"{name} is neither a variable of the loss nor a number given in the data block")
        self.name = name


class BadParameter(NoNormalForm):
    """A parameter of a named loss is outside its range."""


@dataclass(frozen=True, slots=True)
class Var:
    """``u``, ``y``, ``|w|_2``, ``|w|_1``, ``|w|_inf``, a group norm (:mod:`dpspec.symbolic.groups`); ``u1``, ``u2``, ``y1``, ``y2`` in
    pairwise losses."""

    name: str


@dataclass(frozen=True, slots=True)
class Fn:
    """A function of normal forms. ``params`` are numbers that belong to the function (the c of huber)."""

    name: str
    args: tuple[Poly, ...]
    params: tuple[Fraction, ...] = ()


@dataclass(frozen=True, slots=True)
class Pow:
    """``base^exponent`` where multiplying out is impossible (fractions, negative powers of sums) or not worth it."""

    base: Poly
    exponent: Fraction


Atom: TypeAlias = Var | Fn | Pow
Mono: TypeAlias = tuple[tuple[Atom, int], ...]


@dataclass(frozen=True, slots=True)
class Poly:
    """``terms``: (monomial, coefficient) pairs in a fixed order, no zero coefficient."""

    terms: tuple[tuple[Mono, Fraction], ...]

    def constant(self) -> Fraction | None:
        """The value, when the form is a rational number."""
        if not self.terms:
            return Fraction(0)
        if len(self.terms) == 1 and self.terms[0][0] == ():
            return self.terms[0][1]
        return None

    def as_dict(self) -> dict[Mono, Fraction]:
        return dict(self.terms)


@lru_cache(maxsize=4096)
def atom_text(a: Atom) -> str:
    match a:
        case Var(name=name):
            return name
        case Fn(name=name, args=args, params=params):
            inside = [text(p) for p in args] + [str(p) for p in params]
            return f"{name}({', '.join(inside)})"
        case Pow(base=base, exponent=exponent):
            return f"({text(base)})^({exponent})"


def mono_text(m: Mono) -> str:
    return "*".join(atom_text(a) if k == 1 else f"{atom_text(a)}^{k}" for a, k in m)


@lru_cache(maxsize=4096)
def text(p: Poly) -> str:
    """A readable and unambiguous spelling; it also fixes the order of terms."""
    if not p.terms:
        return "0"
    return " + ".join(str(c) if not m else (mono_text(m) if c == 1 else f"{c}*{mono_text(m)}") for m, c in p.terms)


def _atom_size(a: Atom) -> int:
    match a:
        case Var():
            return 1
        case Fn(args=args):
            return 1 + sum(_atom_size(b) for p in args for m, _ in p.terms for b, _ in m)
        case Pow(base=base):
            return 1 + sum(_atom_size(b) for m, _ in base.terms for b, _ in m)


def poly(terms: Mapping[Mono, Fraction]) -> Poly:
    kept = [(m, c) for m, c in terms.items() if c != 0]
    if len(kept) > MAX_TERMS:
        raise NoNormalForm("the loss has too many terms once multiplied out")
    if sum(_atom_size(a) for m, _ in kept for a, _ in m) > MAX_SIZE:
        raise NoNormalForm("the loss is too large once multiplied out")
    if any(abs(k) > MAX_EXPONENT for m, _ in kept for _, k in m):
        raise NoNormalForm(f"a power beyond {MAX_EXPONENT} is not covered")
    return Poly(tuple(sorted(kept, key=lambda mc: mono_text(mc[0]))))


def const(value: Fraction | int) -> Poly:
    return poly({(): Fraction(value)})


ZERO, ONE = const(0), const(1)


def var(name: str) -> Poly:
    return poly({((Var(name), 1),): Fraction(1)})


def of_atom(a: Atom) -> Poly:
    return poly({((a, 1),): Fraction(1)})


def add(a: Poly, b: Poly) -> Poly:
    out = a.as_dict()
    for m, c in b.terms:
        out[m] = out.get(m, Fraction(0)) + c
    return poly(out)


def scale(a: Poly, k: Fraction | int) -> Poly:
    return poly({m: c * k for m, c in a.terms})


def sub(a: Poly, b: Poly) -> Poly:
    return add(a, scale(b, -1))


def mul(a: Poly, b: Poly) -> Poly:
    if len(a.terms) * len(b.terms) > MAX_TERMS * 4:
        raise NoNormalForm("the loss has too many terms once multiplied out")
    out = ZERO
    for m, c in a.terms:
        for n, e in b.terms:
            out = add(out, scale(_product(m, n), c * e))
    return out


def _product(m: Mono, n: Mono) -> Poly:
    powers: dict[Atom, int] = {}
    exponent = ZERO  # of exp: exp(a)*exp(b) is exp(a + b)
    for a, k in (*m, *n):
        if isinstance(a, Fn) and a.name == "exp":
            exponent = add(exponent, scale(a.args[0], k))
        else:
            powers[a] = powers.get(a, 0) + k
    extra = ONE
    for a, k in list(powers.items()):
        if isinstance(a, Fn) and a.name == "abs" and k >= 2 and k % 2 == 0:  # |z|^2 = z^2
            extra = mul(extra, power(a.args[0], k))
            powers[a] = 0
    if exponent.terms:
        extra = mul(extra, of_atom(Fn("exp", (exponent,)))) if extra != ONE else of_atom(Fn("exp", (exponent,)))
    mono = tuple(sorted(((a, k) for a, k in powers.items() if k != 0), key=lambda ak: atom_text(ak[0])))
    if extra == ONE:
        return poly({mono: Fraction(1)})
    if not mono:
        return extra
    out: dict[Mono, Fraction] = {}
    for t, c in extra.terms:
        joined: dict[Atom, int] = dict(mono)
        for a, k in t:
            joined[a] = joined.get(a, 0) + k
        key = tuple(sorted(((a, k) for a, k in joined.items() if k != 0), key=lambda ak: atom_text(ak[0])))
        out[key] = out.get(key, Fraction(0)) + c
    return poly(out)


def power(base: Poly, exponent: Fraction | int) -> Poly:
    """``base^exponent`` for a rational exponent."""
    e = Fraction(exponent)
    c = base.constant()
    if e == 0:
        return ONE
    if e == 1:
        return base
    if abs(e) > MAX_EXPONENT:
        raise NoNormalForm(f"a power beyond {MAX_EXPONENT} is not covered")
    if c is not None:
        if e.denominator == 1:
            if c == 0 and e < 0:
                raise NoNormalForm("the loss divides by zero")
            if abs(e) <= 64:
                return const(c ** int(e))
        if c < 0:
            raise NoNormalForm("the loss takes a fractional power of a negative number")
        if c == 0:
            return ZERO
    single = base.terms[0] if len(base.terms) == 1 else None
    if single is not None and e.denominator == 1:
        mono, k = single
        if e > 0 or all(isinstance(a, Fn) and a.name == "exp" for a, _ in mono):
            # a positive power of one term, or a negative power of an exponential (which is never zero)
            out = const(k ** int(e))
            for a, n in mono:
                if isinstance(a, Fn) and a.name == "exp":
                    out = mul(out, of_atom(Fn("exp", (scale(a.args[0], n * int(e)),))))
                else:
                    out = mul(out, _int_power(a, n * int(e)))
            return out
    if e.denominator == 1 and 0 < e <= MAX_EXPANDED_POWER and len(base.terms) ** 2 <= MAX_TERMS:
        out = ONE
        for _ in range(int(e)):
            out = mul(out, base)
        return out
    if e == -1:
        logistic = _as_one_plus_exp(base)
        if logistic is not None:
            return fn("expit", scale(logistic, -1))
    return of_atom(Pow(base, e))


def _int_power(a: Atom, k: int) -> Poly:
    return _product(((a, k),), ())


def _as_one_plus_exp(p: Poly) -> Poly | None:
    """z when ``p`` is 1 + exp(z)."""
    if len(p.terms) != 2:
        return None
    d = p.as_dict()
    if d.pop((), None) != 1:
        return None
    ((mono, c),) = d.items()
    if c == 1 and len(mono) == 1 and mono[0][1] == 1 and isinstance(mono[0][0], Fn) and mono[0][0].name == "exp":
        return mono[0][0].args[0]
    return None


def _positive_log(mono: Mono) -> Poly | None:
    """log of a product of exponentials."""
    out = ZERO
    for a, k in mono:
        if not (isinstance(a, Fn) and a.name == "exp"):
            return None
        out = add(out, scale(a.args[0], k))
    return out


def _lead(p: Poly) -> Fraction:
    """The coefficient that decides the sign of a normalised argument: of the first term that is not constant."""
    return next((c for m, c in p.terms if m), p.terms[0][1] if p.terms else Fraction(1))


def fn(name: str, z: Poly, params: tuple[Fraction, ...] = ()) -> Poly:
    """A function of one argument, rewritten as far as the normal form goes."""
    c = z.constant()
    if name == "exp":
        return ONE if c == 0 else of_atom(Fn("exp", (z,)))
    if name == "log":
        return _log(z)
    if name == "abs":
        if c is not None:
            return const(abs(c))
        k = _lead(z)
        return scale(of_atom(Fn("abs", (scale(z, 1 / k),))), abs(k))
    if name == "pos":
        if c is not None:
            return const(max(c, Fraction(0)))
        k = abs(_lead(z))
        return scale(of_atom(Fn("pos", (scale(z, 1 / k),))), k)
    if name in ("huber", "biweight", "cauchy", "cos") and _lead(z) < 0:  # even functions
        z = scale(z, -1)
    if name in ("tanh", "erf", "sin"):  # odd functions
        if c == 0:
            return ZERO
        if _lead(z) < 0:
            return scale(of_atom(Fn(name, (scale(z, -1),), params)), -1)
    return of_atom(Fn(name, (z,), params))


def _log(z: Poly) -> Poly:
    c = z.constant()
    if c == 1:
        return ZERO
    if c is not None and c <= 0:
        raise NoNormalForm("the loss takes the logarithm of a number that is not positive")
    inner = _as_one_plus_exp(z)
    if inner is not None:
        return of_atom(Fn("softplus", (inner,)))
    if len(z.terms) == 1 and z.terms[0][0]:
        mono, k = z.terms[0]
        if k > 0:
            head = _log(const(k))
            product = _positive_log(mono)
            if product is not None:
                return add(head, product)
            (a, n), rest = mono[0], mono[1:]
            if not rest and isinstance(a, Pow) and n == 1:  # log of 1/z
                return add(head, scale(_log(a.base), a.exponent))
            if not rest and isinstance(a, Fn) and a.name == "expit" and n == 1:  # log(1/(1 + exp(-z))) = -log(1 + exp(-z))
                return sub(head, of_atom(Fn("softplus", (scale(a.args[0], -1),))))
    if len(z.terms) == 2:  # log(exp(a) + exp(b)) = b + log(1 + exp(a - b))
        (first, k1), (second, k2) = z.terms
        a_log, b_log = _positive_log(first), _positive_log(second)
        if k1 == k2 == 1 and a_log is not None and b_log is not None:
            return add(b_log, of_atom(Fn("softplus", (sub(a_log, b_log),))))
    return of_atom(Fn("log", (z,)))


def maximum(a: Poly, b: Poly) -> Poly:
    """max(a, b) = b + max(0, a - b), with the roles fixed so that the order of the arguments does not matter."""
    if a.constant() == 0:
        return fn("pos", b)
    if b.constant() == 0:
        return fn("pos", a)
    if a == b:
        return a
    if text(a) > text(b):
        a, b = b, a
    return add(b, fn("pos", sub(a, b)))


# ----------------------------------------------------------------------------------------------------- from the expression tree


@dataclass(frozen=True, slots=True)
class Scope:
    """``values``: numbers by name. ``vectors``, ``labels``: the names of vectors and of scalar labels."""

    values: Mapping[str, Fraction | int | float]
    vectors: tuple[str, ...] = ("w", "x")
    labels: tuple[str, ...] = ("y",)


def normal_form(e: Expr, scope: Scope) -> Poly:
    """The normal form of a loss. Raises :class:`NoNormalForm` with the reason, :class:`NoValue` for an unknown name."""
    match e:
        case Num(value=v):
            return const(v)
        case Name(id=name):
            return _name(name, scope)
        case Neg(operand=a):
            return scale(normal_form(a, scope), -1)
        case Inner(left=a, right=b):
            return _inner(a, b, scope)
        case Norm(operand=a, order=order):
            return _norm(a, order, scope) if is_vector(a, scope) else fn("abs", normal_form(a, scope))
        case Bin(op=op, left=a, right=b):
            return _binary(op, a, b, scope)
        case Call(function=f, args=args):
            return _call(f, args, scope)


def _name(name: str, scope: Scope) -> Poly:
    if name in scope.labels:
        return var(name)
    if name in scope.vectors:
        raise NoNormalForm(f"the vector {name} stands where a number is needed; write an inner product or a norm")
    if name in scope.values:
        return const(Fraction(scope.values[name]))
    if name == "pi":
        return of_atom(Fn("pi", ()))
    if name in NAMED_LOSSES:
        return _loss(name, (), scope)
    raise NoValue(name)


def _binary(op: str, a: Expr, b: Expr, scope: Scope) -> Poly:
    if op == "*" and isinstance(a, Call) and a.function in ("l1", "l2") and b == Name("norm"):
        return normal_form(a, scope)  # the spelling l1(0.1)*norm
    if is_vector(a, scope) or is_vector(b, scope):
        raise NoNormalForm("a vector stands where a number is needed; write an inner product or a norm")
    left = normal_form(a, scope)
    right = normal_form(b, scope)
    if op == "+":
        return add(left, right)
    if op == "-":
        return sub(left, right)
    if op == "*":
        return mul(left, right)
    if op == "/":
        return mul(left, power(right, -1))
    exponent = right.constant()
    if exponent is None:
        base = left.constant()
        if base is not None and base > 0:
            return fn("exp", mul(right, fn("log", left)))
        raise NoNormalForm("a power whose exponent depends on the record is not covered")
    return power(left, exponent)


def _call(f: str, args: tuple[Expr, ...], scope: Scope) -> Poly:
    if f in NAMED_LOSSES:
        return _loss(f, tuple(_number(a, f, scope) for a in args), scope)
    if f in ("l1", "l2", "ridge", "lasso", "elastic-net"):
        return _named_regulariser(f, tuple(_number(a, f, scope) for a in args))
    if f in ("group", "group-lasso"):
        return _groups(f, args, scope)
    if any(is_vector(a, scope) for a in args):
        raise NoNormalForm(f"{f} is applied to a vector; functions act on numbers")
    values = [normal_form(a, scope) for a in args]
    if f in ("max", "min") and len(values) >= 2:
        sign = 1 if f == "max" else -1
        out = scale(values[0], sign)
        for v in values[1:]:
            out = maximum(out, scale(v, sign))
        return scale(out, sign)
    if f == "sqrt" and len(values) == 1:
        return power(values[0], Fraction(1, 2))
    if f in ("exp", "log", "abs", "sin", "cos", "tanh", "erf") and len(values) == 1:
        return fn(f, values[0])
    if f in ("ceil", "floor"):
        raise NoNormalForm(f"{f} jumps, so no Lipschitz constant exists")
    raise NoNormalForm(f"{f} is neither a function of the language nor a named loss")


def _number(e: Expr, where: str, scope: Scope) -> Fraction:
    value = normal_form(e, scope).constant()
    if value is None:
        raise BadParameter(f"the parameter of {where} must be a rational number")
    return value


def _named_regulariser(f: str, args: tuple[Fraction, ...]) -> Poly:
    """``l2(a)`` and ``ridge(a)``: a/2 |w|^2. ``l1(a)`` and ``lasso(a)``: a |w|_1. ``elastic-net(a, b)``: a |w|_1 + b/2 |w|^2."""
    if len(args) != (2 if f == "elastic-net" else 1):
        raise BadParameter(f"{f} takes {'two weights, l1 then l2' if f == 'elastic-net' else 'one weight'}")
    square = scale(_int_power(Var("|w|_2"), 2), Fraction(1, 2))
    if f in ("l2", "ridge"):
        return scale(square, args[0])
    if f in ("l1", "lasso"):
        return scale(var("|w|_1"), args[0])
    return add(scale(var("|w|_1"), args[0]), scale(square, args[1]))


def _groups(f: str, args: tuple[Expr, ...], scope: Scope) -> Poly:
    """``group(w, sizes...)``: sum_g |w_g|. ``group-lasso(a, sizes...)``: a sum_g sqrt(size of g) |w_g|."""
    if f == "group" and (not args or args[0] != Name("w") or "w" not in scope.vectors):
        raise BadParameter("group takes w and the sizes of its groups: group(w, 5)")
    if f == "group-lasso" and not args:
        raise BadParameter("group-lasso takes a weight and the sizes of the groups: group-lasso(0.1, 5)")
    sizes = [_number(a, f, scope) for a in args[1:]]
    d = scope.values.get("d")
    try:
        found = groups(sizes, f == "group-lasso", None if d is None or d < 1 else int(d))
    except ValueError as error:
        raise BadParameter(f"{f}: {error}") from None
    return scale(var(found.name), 1 if f == "group" else _number(args[0], f, scope))


# --------------------------------------------------------------------------------------------------------------- vectors


def is_vector(e: Expr, scope: Scope) -> bool:
    match e:
        case Name(id=name):
            return name in scope.vectors
        case Neg(operand=a):
            return is_vector(a, scope)
        case Bin(left=a, right=b):
            return is_vector(a, scope) or is_vector(b, scope)
        case _:
            return False


def _vector(e: Expr, scope: Scope) -> dict[str, Poly]:
    """A vector as a combination of the named vectors, with normal forms as coefficients."""
    match e:
        case Name(id=name) if name in scope.vectors:
            return {name: ONE}
        case Neg(operand=a):
            return {k: scale(c, -1) for k, c in _vector(a, scope).items()}
        case Bin(op="+" | "-" as op, left=a, right=b):
            out = _vector(a, scope)
            sign = 1 if op == "+" else -1
            for k, c in _vector(b, scope).items():
                out[k] = add(out.get(k, ZERO), scale(c, sign))
            return {k: c for k, c in out.items() if c.terms}
        case Bin(op="*", left=a, right=b) if is_vector(a, scope) != is_vector(b, scope):
            v, s = (a, b) if is_vector(a, scope) else (b, a)
            factor = normal_form(s, scope)
            return {k: mul(c, factor) for k, c in _vector(v, scope).items()}
        case Bin(op="/", left=a, right=b) if is_vector(a, scope) and not is_vector(b, scope):
            factor = power(normal_form(b, scope), -1)
            return {k: mul(c, factor) for k, c in _vector(a, scope).items()}
        case _:
            raise NoNormalForm("a vector expression may use +, -, and products with numbers only")


def _inner(a: Expr, b: Expr, scope: Scope) -> Poly:
    out = ZERO
    right = _vector(b, scope)
    for i, ci in _vector(a, scope).items():
        for j, cj in right.items():
            out = add(out, mul(mul(ci, cj), _inner_atom(*sorted((i, j)))))
    return out


def _inner_atom(a: str, b: str) -> Poly:
    if a == b:
        return _int_power(Var(f"|{a}|_2"), 2)
    if a == "w":  # names sort as w < x < x1 < x2
        return var("u" + b.removeprefix("x"))
    return var(f"<{a}, {b}>")


def _norm(e: Expr, order: str, scope: Scope) -> Poly:
    parts = _vector(e, scope)
    if not parts:
        return ZERO
    if len(parts) > 1:
        raise NoNormalForm("the norm of a sum of vectors is not covered; write its square as inner products")
    ((name, factor),) = parts.items()
    return mul(fn("abs", factor), var(f"|{name}|_{order}"))


# ------------------------------------------------------------------------------------------------------------- named losses


def _loss(name: str, params: tuple[Fraction, ...], scope: Scope) -> Poly:
    """A named loss where it stands: of two records in u = <w, x1 - x2> and y = y1 - y2."""
    pairwise = "x2" in scope.vectors
    if name in OF_PAIRS and not pairwise:
        raise BadParameter(f"{name} is a loss of two records: minimise pairwise {name}")
    found = named_loss(name, params)
    if not pairwise or name == "multinomial" or name.startswith("metric"):
        return found
    return substitute(found, {"u": sub(var("u1"), var("u2")), "y": sub(var("y1"), var("y2"))})


def named_loss(name: str, params: tuple[Fraction, ...]) -> Poly:
    """The normal form of a named loss, in the margin u = <w, x> and the label y; z = y*u and s = u - y.

    logistic log(1 + exp(-z)); logistic-glm log(1 + exp(u)) - y*u; squared s^2/2; absolute |s|; quantile(t) t*max(0, -s) +
    (1 - t)*max(0, s); hinge(m = 1) max(0, m - z); squared-hinge(m = 1) max(0, m - z)^2; smoothed-hinge(b, m = 1)
    (m - z + sqrt((m - z)^2 + b^2))/2 (000, Lemma 5.1.8, whose m is 1/2; also written smooth-hinge; b = 1/2 when left out); huber(c)
    s^2/2 up to |s| = c, then c|s| - c^2/2 (c = 1.345 when left out); biweight(c) c^2/6 (1 - (1 - s^2/c^2)^3) up to |s| = c, then
    c^2/6 (000, Assumption 4.2.3; the text prints |t| for |s|; c = 4.685 when left out); cauchy(c) c^2/2 log(1 + s^2/c^2) (c = 2.385 when
    left out); sigmoid 1/(1 + exp(z)), decreasing in z
    (000 prints the increasing one in its experiments, which rewards wrong labels); savage sigmoid squared; probit -log Phi(z);
    poisson exp(u) - y*u; exponential exp(-z); linear -z; multinomial(K) log sum_j exp(<w_j, x>) - <w_y, x>, an atom of its own that is no
    function of one margin (:mod:`dpspec.symbolic.multinomial`). Of two records, u and y being differences: auc, the logistic loss, which
    ranks by labels; ranking, the squared loss, which keeps their distances; minimum-error-entropy(h = 1) h^2 (1 - exp(-s^2/(2 h^2)));
    metric-logistic(b = 1), also written metric, log(1 + exp(-t)) and metric-hinge(b = 1) max(0, 1 - t), atoms, with t =
    y1 y2 (b - (x1 - x2)^T W (x1 - x2)) (:mod:`dpspec.symbolic.metric`; 000, section 3.3.1, Example 1).

    The three default constants are the usual ones of robust regression (95% efficiency under unit normal noise).
    """
    name = {"smooth-hinge": "smoothed-hinge", "metric": "metric-logistic"}.get(name, name)
    least, most = NAMED_LOSSES[name]
    if not least <= len(params) <= most:
        wanted = str(least) if least == most else f"{least} to {most}"
        raise BadParameter(f"the loss {name} takes {wanted} parameters, not {len(params)}")
    u, y = var("u"), var("y")
    z, s = mul(y, u), sub(u, y)
    half = Fraction(1, 2)
    defaults = {"huber": Fraction("1.345"), "biweight": Fraction("4.685"), "cauchy": Fraction("2.385"), "smoothed-hinge": half}
    if name in defaults and not params:
        params = (defaults[name],)
    if name in ("huber", "biweight", "cauchy", "smoothed-hinge") and params[0] <= 0:
        raise BadParameter(f"the parameter of {name} must be positive")
    if name in ("minimum-error-entropy", "metric-logistic", "metric-hinge"):
        params = params or (Fraction(1),)
        if params[0] <= 0:
            raise BadParameter(f"the parameter of {name} must be positive")
    if name == "quantile" and not 0 < params[0] < 1:
        raise BadParameter("the level of quantile must lie strictly between 0 and 1")
    if name == "multinomial" and not (params[0].denominator == 1 and 2 <= params[0] <= MAX_CLASSES):
        raise BadParameter(f"multinomial(K) takes the number of classes, a whole number from 2 to {MAX_CLASSES}, not {show(params[0])}")
    match name:
        case "multinomial":
            return of_atom(Fn("multinomial", (u, y), params))
        case "metric-logistic" | "metric-hinge":
            return of_atom(Fn(name, (u,), params))
        case "minimum-error-entropy":
            square = params[0] ** 2
            return scale(sub(ONE, fn("exp", scale(power(s, 2), -1 / (2 * square)))), square)
        case "logistic" | "auc":
            return of_atom(Fn("softplus", (scale(z, -1),)))
        case "logistic-glm":
            return sub(of_atom(Fn("softplus", (u,))), z)
        case "squared" | "ranking":
            return scale(power(s, 2), half)
        case "absolute":
            return fn("abs", s)
        case "quantile":
            return add(scale(fn("pos", scale(s, -1)), params[0]), scale(fn("pos", s), 1 - params[0]))
        case "hinge":
            return fn("pos", sub(const(params[0] if params else 1), z))
        case "squared-hinge":
            return power(fn("pos", sub(const(params[0] if params else 1), z)), 2)
        case "smoothed-hinge":
            t = sub(const(params[1] if len(params) > 1 else 1), z)
            return scale(add(t, power(add(power(t, 2), const(params[0] ** 2)), half)), half)
        case "huber" | "biweight" | "cauchy":
            return fn(name, s, (params[0],))
        case "sigmoid":
            return fn("expit", scale(z, -1))
        case "savage":
            return power(fn("expit", scale(z, -1)), 2)
        case "probit":
            # Phi(z) = erfc(-z/sqrt(2))/2
            return scale(fn("log", scale(fn("erfc", scale(mul(z, power(const(2), -half)), -1)), half)), -1)
        case "linear":
            return scale(z, -1)
        case "poisson":
            return sub(fn("exp", u), z)
        case _:
            return fn("exp", scale(z, -1))


# ---------------------------------------------------------------------------------------------------------------- splitting


def variables(p: Poly) -> frozenset[str]:
    out: set[str] = set()
    for m, _ in p.terms:
        for a, _k in m:
            match a:
                case Var(name=name):
                    out.add(name)
                case Fn(args=args):
                    for q in args:
                        out |= variables(q)
                case Pow(base=base):
                    out |= variables(base)
    return frozenset(out)


def restrict(p: Poly, keep: Mapping[Mono, bool]) -> Poly:
    return Poly(tuple(t for t in p.terms if keep.get(t[0], False)))


def substitute(p: Poly, values: Mapping[str, Poly]) -> Poly:
    """``p`` with variables replaced; the result is normalised again."""
    out = ZERO
    for m, c in p.terms:
        term = const(c)
        for a, k in m:
            match a:
                case Var(name=name):
                    part = values[name] if name in values else of_atom(a)
                case Fn(name=name, args=args, params=params):
                    part = fn(name, substitute(args[0], values), params) if args else of_atom(a)
                case Pow(base=base, exponent=exponent):
                    part = power(substitute(base, values), exponent)
            term = mul(term, power(part, k))
        out = add(out, term)
    return out
