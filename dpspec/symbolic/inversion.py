"""The n or the epsilon at which a bound reaches a target, in closed form where sympy finds one."""

from __future__ import annotations

from typing import Any, Final

from dpspec.spec.expr import Expr, NotANumber, names
from dpspec.symbolic.to_sympy import to_sympy

#: The name of the target in a closed form.
TARGET: Final = "t"


def inverted(e: Expr, variable: str) -> Any:
    """The sympy expression of ``variable`` at which ``e`` is ``t``, all other names positive and fixed; None where there is none.

    ``e`` is a rest without the variable plus a falling power of it, or plus two of which one is the square of the other: then the root is
    that of a line or of a quadratic in the power, and the bound is at most t from there on where t is above the rest. Sums of other powers,
    logarithms and exponentials of the variable have no such form.
    """
    import sympy

    if variable not in names(e):
        return None
    try:
        f = sympy.expand(sympy.expand_power_base(to_sympy(e), force=True))
    except NotANumber:
        return None
    v, t = sympy.Symbol(variable, positive=True), sympy.Symbol(TARGET, positive=True)
    rest, parts = f.as_independent(v, as_Add=True)
    powers: dict[Any, Any] = {}
    for term in sympy.Add.make_args(parts):
        factor, core = term.as_independent(v, as_Add=False)
        base, power = core.as_base_exp()
        if base != v or not power.is_Rational or power >= 0:
            return None
        powers[power] = powers.get(power, 0) + factor
    if len(powers) == 1:
        ((power, a),) = powers.items()
        return ((t - rest) / a) ** (1 / power)
    if len(powers) == 2 and max(powers) * 2 == min(powers):
        p, a, b = max(powers), powers[max(powers)], powers[min(powers)]  # b s^2 + a s + rest = t in s = v^p, s > 0
        return ((sympy.sqrt(a**2 + 4 * b * (t - rest)) - a) / (2 * b)) ** (1 / p)
    return None


def text(expression: Any) -> str:
    """As the spec's language writes powers."""
    return str(expression).replace("**", "^")
