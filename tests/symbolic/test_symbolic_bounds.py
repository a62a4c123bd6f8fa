"""Bounds: rates of catalogue formulas read off by hand, inversion, rendering."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
import sympy
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dpspec.lang.source import parse_expr
from dpspec.spec.expr import Bin, Call, Expr, Name, NotANumber, Unbound, evaluate, names, num
from dpspec.symbolic.bounds import BoundExpr, in_exponents
from dpspec.symbolic.growth import Growth, growth
from dpspec.symbolic.to_sympy import to_latex, to_sympy, to_text


def parse(text: str) -> Expr:
    """Python's own parser turned into the tree: independent of the language's grammar."""
    import ast

    ops = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.Pow: "^"}

    def go(t: ast.AST) -> Expr:
        if isinstance(t, ast.BinOp):
            return Bin(ops[type(t.op)], go(t.left), go(t.right))  # type: ignore[arg-type]
        if isinstance(t, ast.UnaryOp):
            from dpspec.spec.expr import Neg

            return Neg(go(t.operand))
        if isinstance(t, ast.Call):
            return Call(t.func.id, tuple(go(a) for a in t.args))  # type: ignore[attr-defined]
        if isinstance(t, ast.Name):
            return Name(t.id)
        assert isinstance(t, ast.Constant)
        return num(str(t.value))

    return go(ast.parse(text.replace("^", "**"), mode="eval").body)


F = Fraction

# (formula of catalogue part 01 or 05, {variable: (power, log power)}) read off by hand
RATES: list[tuple[str, dict[str, tuple[Fraction, Fraction]]]] = [
    (  # 01, DP-SVRG, eq 3.4
        "C*p*log(n)*G^2*log(1/delta)/(n^2*epsilon^2*mu)",
        {"n": (F(-2), F(1)), "p": (F(1), F(0)), "epsilon": (F(-2), F(0)), "delta": (F(0), F(1)), "G": (F(2), F(0))},
    ),
    (  # 01, proof form
        "C*p*G^2*log(n*epsilon*mu/(p*G))*log(1/delta)/(n^2*epsilon^2*mu)",
        {"n": (F(-2), F(1)), "p": (F(1), F(1)), "epsilon": (F(-2), F(1))},
    ),
    ("C*G*sqrt(p*log(1/delta))/(n*epsilon)", {"n": (F(-1), F(0)), "p": (F(1, 2), F(0)), "delta": (F(0), F(1, 2))}),  # 01, eq 3.8
    (
        "C*(sqrt(p)/(n*epsilon))^(2/3)",
        {"n": (F(-2, 3), F(0)), "p": (F(1, 3), F(0)), "epsilon": (F(-2, 3), F(0))},
    ),
    ("C*sqrt(p)*log(n)^(3/2)/(n*epsilon)", {"n": (F(-1), F(3, 2))}),  # 01, table 3.2
    ("C*sqrt(V)*sqrt(G_C^2 + D_C^2)*G*sqrt(log(1/delta))/(n*epsilon)", {"n": (F(-1), F(0)), "V": (F(1, 2), F(0)), "G_C": (F(1), F(0))}),
    (
        "C*(p/(n^2*epsilon^2) + lam*xnorm^2/(n*epsilon))",
        {"n": (F(-1), F(0)), "epsilon": (F(-2), F(0)), "p": (F(1), F(0))},
    ),
    ("8*Lb*V/(T+1)^2 + (T+2)*(2*T+3)/(12*Lb*(T+1))*sigma^2*(G_C^2+R^2)", {"T": (F(1), F(0)), "sigma": (F(2), F(0)), "Lb": (F(1), F(0))}),
    ("C*k*sqrt(d)*log(n)^2*sqrt(log(d/beta))/(sqrt(n)*epsilon)", {"n": (F(-1, 2), F(2)), "d": (F(1, 2), F(1, 2)), "k": (F(1), F(0))}),  # 05
    (
        "C*p*r^2*(1+r^2*w2^2)*log(1/delta)*log(p^2/xi)/(epsilon^2*n*lmin^2)",
        {"r": (F(4), F(0)), "p": (F(1), F(1)), "n": (F(-1), F(0))},
    ),
    ("C*d*log(n)*sqrt(k*log(1/delta))*(log(d)/(n*epsilon^2))^((q-1)/(2*q))", {"k": (F(1, 2), F(0))}),  # 05
    ("C*min(1, c^2*s*log(p/s)/(n*epsilon^2*(1+D)))", {"n": (F(-1), F(0)), "epsilon": (F(0), F(0)), "p": (F(0), F(0))}),  # 05, lower bound
    ("C*p^(3/2)/(sqrt(n)*epsilon)", {"p": (F(3, 2), F(0)), "n": (F(-1, 2), F(0))}),  # 05, 004 remark 3
    ("pi/2*r^2*((exp(epsilon)+1)/(exp(epsilon)-1))^2", {"epsilon": (F(-2), F(0)), "r": (F(2), F(0))}),  # 05, hemisphere channel
    ("log(1 + gamma*(exp(epsilon) - 1))", {"epsilon": (F(1), F(0))}),  # 01, amplification by sampling
    ("C*(a*p/sqrt(m) + b*p/(epsilon*sqrt(n)))", {"m": (F(0), F(0)), "n": (F(0), F(0)), "p": (F(1), F(0)), "epsilon": (F(-1), F(0))}),
]


@pytest.mark.parametrize(("text", "wanted"), RATES)
def test_rates(text: str, wanted: dict[str, tuple[Fraction, Fraction]]) -> None:
    b = BoundExpr(parse(text), "order")
    for variable, (power, log_power) in wanted.items():
        g = b.exponents(variable)
        assert (g.power, g.log_power, g.exponential) == (power, log_power, 0), variable


@pytest.mark.parametrize(("text", "wanted"), RATES[:10])
def test_rates_agree_with_the_slope_far_out(text: str, wanted: dict[str, tuple[Fraction, Fraction]]) -> None:
    """Numerically: f(v) v^-power log(v)^-log_power settles."""
    b = BoundExpr(parse(text), "order")
    for variable, (power, log_power) in wanted.items():
        g = b.exponents(variable)
        base = {name: 2.5 + 0.1 * i if name != "delta" else 0.01 for i, name in enumerate(sorted(b.parameters))}

        def scaled(far: float, v: str = variable, a: Growth = g, env: dict[str, float] = base) -> float:  # v = exp(+-far)
            value = math.exp(far if a.towards == "infinity" else -far)
            return b.evaluate({**env, v: value}) / value ** float(a.power) / far ** float(a.log_power)

        if variable == "epsilon" and "log(n*epsilon" in text:
            continue  # the printed bound is negative there: it holds for n*epsilon > p*G only
        ratio = scaled(300.0 if power <= 1 and abs(power) <= 2 else 100.0) / scaled(150.0 if power <= 1 and abs(power) <= 2 else 50.0)
        assert ratio == pytest.approx(1.0, abs=0.02), (variable, power, log_power)


def test_exponential_rates_and_refusals() -> None:
    assert growth(parse("2^T*g + 1/n"), "T", "infinity").exponential == 1
    assert growth(parse("(1/2)^T*g"), "T", "infinity").exponential == -1
    assert growth(parse("(1/2)^T*g + s/T"), "T", "infinity").power == -1
    assert growth(parse("exp(-n*a) + 1/n^2"), "n", "infinity").power == -2
    with pytest.raises(ValueError, match="rate"):
        growth(parse("sin(n)"), "n", "infinity")


def test_cancelling_terms_go_to_sympy() -> None:
    g = growth(parse("sqrt(n+1) - sqrt(n)"), "n", "infinity")
    assert (g.power, g.log_power) == (F(-1, 2), F(0))


def test_dominant_terms() -> None:
    b = BoundExpr(parse("C*(p/(n^2*epsilon^2) + lam/(n*epsilon))"), "order")
    (far,) = b.dominant_terms("n")
    assert to_text(far) == "C*(lam/(n*epsilon))"
    assert b.exponents("epsilon", dominant_in="n").power == -1
    assert b.exponents("epsilon").power == -2


def test_order_and_explicit_values() -> None:
    order = BoundExpr(parse("C*sqrt(d)/(n*epsilon)"), "order")
    assert order.parameters == {"d", "n", "epsilon"}
    assert order.evaluate({"d": 4, "n": 10, "epsilon": F(1, 2)}) == pytest.approx(0.4)
    assert order.evaluate({"d": 4, "n": 10, "epsilon": F(1, 2), "C": 3}) == pytest.approx(1.2)
    with pytest.raises(Unbound):
        BoundExpr(parse("C/n")).evaluate({"n": 3})
    with pytest.raises(NotANumber):
        BoundExpr(parse("log(n - 5)")).evaluate({"n": 3})


def test_least_n_by_hand() -> None:
    """sqrt(d log(1/delta))/(n epsilon) <= t iff n >= sqrt(d log(1/delta))/(t epsilon)."""
    b = BoundExpr(parse("sqrt(d*log(1/delta))/(n*epsilon)"))
    env = {"d": 20, "delta": F(1, 10**6), "epsilon": F(1, 2)}
    s = b.solve_for("n", 0.01, env)
    exact = math.sqrt(20 * math.log(1e6)) / (0.01 * 0.5)
    assert s.status == "solved"
    assert s.value == math.ceil(exact)
    assert s.side == "least"
    e = b.solve_for("epsilon", 0.01, {"d": 20, "delta": F(1, 10**6), "n": 10_000})
    assert e.value == pytest.approx(math.sqrt(20 * math.log(1e6)) / (0.01 * 10_000), rel=1e-9)
    assert e.bound is not None
    assert e.bound <= 0.01
    d = b.solve_for("d", 0.01, {"n": 10_000, "delta": F(1, 10**6), "epsilon": 1})
    assert (d.side, d.value) == ("greatest", math.floor(1e4 / math.log(1e6)))


@settings(max_examples=60, deadline=None)
@given(
    a=st.floats(0.2, 2.0),
    q=st.floats(0.0, 2.0),
    c=st.floats(0.1, 50.0),
    target=st.floats(1e-4, 0.5),
)
@example(a=0.21875, q=2.0, c=1.0, target=0.5)
def test_inversion_round_trip(a: float, q: float, c: float, target: float) -> None:
    """The least n meets the target and n - 1 does not, for c log(n)^q/n^a past its maximum at n = exp(q/a)."""
    b = BoundExpr(Bin("/", Bin("*", num(F(c)), Bin("^", Call("log", (Name("n"),)), num(F(q)))), Bin("^", Name("n"), num(F(a)))))

    def f(n: float) -> float:
        return c * math.log(n) ** q / n**a

    s = b.solve_for("n", target, {}, (2.0, 1e15))
    if f(1e15) > target and s.status == "solved":  # met below the rise only: the greatest such n
        assert (s.side, f(2.0) <= target) == ("greatest", True)
        assert s.value is not None
        assert all(f(2.0 + (s.value - 2.0) * k / 8) <= target * (1 + 1e-12) for k in range(9))
        assert f(s.value + 1) > target * (1 - 1e-12)
    elif f(1e15) > target:
        assert s.status == "never"
        assert f(2.0) > target * (1 - 1e-12)
    elif s.status == "solved":
        assert s.value is not None
        assert s.value == int(s.value)
        assert f(s.value) <= target * (1 + 1e-12)
        if s.side == "least":
            assert f(s.value - 1) > target * (1 - 1e-12)
            assert all(f(s.value * r) <= target * (1 + 1e-12) for r in (1.0, 1.01, 2.0, 1e3))
    elif s.status == "always":
        assert max(f(2.0 * 1.3**k) for k in range(130)) <= target * (1 + 1e-9)
    else:
        peak = math.exp(q / a)
        assert f(2.0) <= target or peak > 2.0


def test_not_monotone_is_said() -> None:
    b = BoundExpr(parse("1 + sin(n/100)"))
    assert b.solve_for("n", 0.5, {}, (1, 1e6)).status == "not monotone"
    assert b.solve_for("n", -1.0, {}, (1, 1e6)).status == "never"
    # a bound with a least value: small n privacy term, large n bias term
    u = BoundExpr(parse("10/n + n/1000"))
    assert u.solve_for("n", 0.25, {}, (1, 1e6)).status == "not monotone"
    with pytest.raises(ValueError, match="bracket"):
        b.solve_for("n", 0.5, {}, (0, 5))


def test_undefined_start_is_skipped() -> None:
    """log(log(n)) has no value below e."""
    s = BoundExpr(parse("log(log(n))/n")).solve_for("n", 1e-3, {}, (1, 1e9))
    assert s.status == "solved"
    assert s.value is not None
    assert math.log(math.log(s.value)) / s.value <= 1e-3 < math.log(math.log(s.value - 1)) / (s.value - 1)


# ------------------------------------------------------------------------------------------------- rendering and sympy


TEXTS = ["a - (b - c)", "a/(b*c)", "-(a + b)^2", "2^-x", "(a^b)^c", "a^(b^c)", "max(0, 1 - y*u)/3", "1/3*x", "-x*y", "a - -b", "(1/2)^T"]


@pytest.mark.parametrize("text", TEXTS)
def test_text_round_trip_keeps_the_value(text: str) -> None:
    e = parse(text)
    again = parse(to_text(e))
    env = {name: 1.5 + i * 0.37 for i, name in enumerate("abcxyuT")}
    assert evaluate(again, env) == pytest.approx(float(evaluate(e, env)), rel=1e-14)


@pytest.mark.parametrize("text", [t for t, _ in RATES])
def test_sympy_agrees_in_value(text: str) -> None:
    e = parse(text)
    f = to_sympy(e)
    values = {str(s): F(1, 50) if str(s) == "delta" else F(3 + i, 2) for i, s in enumerate(sorted(f.free_symbols, key=str))}
    ours = float(evaluate(e, values))
    theirs = float(f.subs({s: sympy.Rational(values[str(s)].numerator, values[str(s)].denominator) for s in f.free_symbols}))
    assert ours == pytest.approx(theirs, rel=1e-12)


def test_rationals_stay_exact_and_vocabulary_is_fixed() -> None:
    assert to_sympy(num("0.1")) == sympy.Rational(1, 10)
    with pytest.raises(NotANumber):
        to_sympy(Call("system", (Name("x"),)))


def test_latex() -> None:
    assert to_latex(parse("sqrt(d)/(n*epsilon)")) == r"\frac{\sqrt{d}}{n \, \epsilon}"
    assert BoundExpr(parse("C*d/n^2"), "order").latex() == r"O\left(\frac{d}{n^{2}}\right)"


@pytest.mark.parametrize(("order", "power"), [(2.5, -0.1), (2.9, -(1 / 2 - 1 / 2.9)), (4, -1 / 4)])
def test_a_power_that_depends_on_a_name_is_taken_at_its_value(order: float, power: float) -> None:
    """The exponent of 004 Theorem 5 in n is -(1/2 - 1/q); without the value of q it would be that of a stand-in for the name."""
    e = parse_expr("C*d*log(n)*(log(d)/(n*epsilon^2))^(1/2 - 1/moment_order_y)")
    at = in_exponents(e, {"moment_order_y": order, "d": 5.0, "epsilon": 0.5})
    assert float(BoundExpr(at, "order").exponents("n").power) == pytest.approx(power, rel=1e-6)
    assert names(at) == names(e) - {"moment_order_y"}  # names outside of exponents stay: the rate in them is asked for too
