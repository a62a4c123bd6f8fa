"""What a plan promises to one unit, and when one promise implies another. Derivations: docs/accounting.md, "Which promise implies which".

``implies`` is sound and not complete: it says yes only where a derivation stands in that section, so that nothing is ever called stronger
that might not be.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from dpspec.privacy.guarantees import Approx, Gdp, Pure, Zcdp, group, pure_to_gdp, zcdp_epsilon

Statement: TypeAlias = Pure | Approx | Zcdp | Gdp

#: Models of privacy, each implied by the next.
MODELS: Final = ("central", "sldp", "nldp")
RELATIONS: Final = ("replace-one", "add-remove", "zero-out")
PROTECTED: Final = ("records", "labels", "attributes")
STATUSES: Final = ("private", "public")
KINDS: Final = ("pure", "approx", "zcdp", "gdp")
#: Fields of a plan's guarantee that the promise is read from, and those that say how it was computed.
PROMISED: Final = ("model", "kind", "epsilon", "delta", "rho", "mu", "neighbours", "unit", "protects")
COMPUTED: Final = ("accountant", "checked_by", "checked_epsilon")
#: Two plans of one spec are compared, whose last bits may differ.
_TOLERANCE: Final = 1e-9


@dataclass(frozen=True, slots=True)
class Promise:
    """``statements`` all hold between neighbours under ``neighbours``, for what is ``protects`` of one ``unit``."""

    status: str
    model: str
    protects: str
    unit: str
    neighbours: str
    statements: tuple[Statement, ...]


class NotUnderstood(Exception):
    """A plan says something that has no meaning here. ``where``: the field."""

    def __init__(self, where: str, value: Any) -> None:
        super().__init__(f"{where}: {value!r}")
        self.where = where
        self.value = value


def promise_of(plan: Mapping[str, Any]) -> Promise:
    """The promise of a plan in its JSON form. Raises :class:`NotUnderstood` for an unknown word, a missing number, a field of its own."""
    g = plan.get("guarantee")
    if not isinstance(g, Mapping):
        raise NotUnderstood("guarantee", g)
    for key in g:
        if key not in PROMISED and key not in COMPUTED:
            raise NotUnderstood(f"guarantee: {key}", g[key])
    return Promise(
        status=_word(plan, "status", STATUSES),
        model=_word(g, "model", MODELS),
        protects=_word(g, "protects", PROTECTED),
        unit=_text(g, "unit"),
        neighbours=_word(g, "neighbours", RELATIONS),
        statements=_statements(g),
    )


def _word(body: Mapping[str, Any], name: str, known: tuple[str, ...]) -> str:
    value = body.get(name)
    if not isinstance(value, str) or value not in known:
        raise NotUnderstood(name, value)
    return value


def _text(body: Mapping[str, Any], name: str) -> str:
    value = body.get(name)
    if not isinstance(value, str) or not value.strip():
        raise NotUnderstood(name, value)
    return value.strip()


def _amount(g: Mapping[str, Any], name: str) -> float | None:
    value = g.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < 1e300 or (name == "delta" and value >= 1):
        raise NotUnderstood(name, value)
    return float(value)


def _statements(g: Mapping[str, Any]) -> tuple[Statement, ...]:
    kind = _word(g, "kind", KINDS)
    epsilon, delta, rho, mu = (_amount(g, name) for name in ("epsilon", "delta", "rho", "mu"))
    needed = {"pure": ("epsilon",), "approx": ("epsilon", "delta"), "zcdp": ("rho",), "gdp": ("mu",)}[kind]
    for name in needed:
        if g.get(name) is None:
            raise NotUnderstood(name, None)
    if (delta is not None and epsilon is None) or (kind == "pure" and delta):
        raise NotUnderstood("delta", delta)
    found: list[Statement] = []
    if epsilon is not None:
        found.append(Approx(epsilon, delta) if delta else Pure(epsilon))
    if rho is not None:
        found.append(Zcdp(rho))
    if mu is not None:
        found.append(Gdp(mu))
    return tuple(found)


# ------------------------------------------------------------------------------------------------------------- implication


def implies(p: Promise, q: Promise) -> bool:
    """Does every mechanism that keeps ``p`` keep ``q``?"""
    if q.status == "public":  # public data are promised nothing
        return True
    if p.status == "public" or _people(p.unit) != _people(q.unit):
        return False
    if MODELS.index(p.model) < MODELS.index(q.model):
        return False
    if p.protects != q.protects and not (p.protects == "records" and q.neighbours == "replace-one"):
        return False
    times = _steps(p.neighbours, q.neighbours)
    return times is not None and all(any(_carried(s, t, times) for s in p.statements) for t in q.statements)


def _people(unit: str) -> tuple[str, str]:
    """The word for a unit, in any case, and the column that tells units apart, whose name is as it is written."""
    word, _, column = unit.partition(" identified by ")
    return word.casefold(), column


def _steps(old: str, new: str) -> int | None:
    """How many neighbouring steps under ``old`` make one under ``new``; None where no number does."""
    if old == new or (old, new) == ("add-remove", "zero-out"):
        return 1
    return 2 if new == "replace-one" else None


def _carried(s: Statement, t: Statement, times: int) -> bool:
    """Does ``s`` for one step imply ``t`` for ``times`` of them? Either order of weakening and group privacy will do."""
    if times == 1:
        return implied(s, t)
    return _tried(lambda: implied(group(s, times), t)) or implied(s, _divided(t, times))


def _divided(t: Statement, k: int) -> Statement:
    """The statement whose group of k is ``t``: the inverse of :func:`dpspec.privacy.guarantees.group`."""
    match t:
        case Pure(epsilon=e):
            return Pure(e / k)
        case Zcdp(rho=r):
            return Zcdp(r / k**2)
        case Gdp(mu=m):
            return Gdp(m / k)
        case Approx(epsilon=e, delta=d):
            return Approx(e / k, d / _geometric(e / k, k))


def _geometric(e: float, k: int) -> float:
    """1 + e^e + ... + e^((k-1) e), infinite where it overflows."""
    return math.inf if (k - 1) * e > 700 else sum(math.exp(j * e) for j in range(k))


def _tried(question: Any) -> bool:
    try:
        return bool(question())
    except (ValueError, ArithmeticError):  # numbers beyond what the conversions take prove nothing
        return False


def implied(s: Statement, t: Statement) -> bool:
    """Does every mechanism with ``s`` have ``t``, under one relation? Up to a relative 1e-9."""
    return _tried(lambda: _implied(s, t))


def _le(a: float, b: float) -> bool:
    return a <= b * (1 + _TOLERANCE)


def _implied(s: Statement, t: Statement) -> bool:
    match s, t:
        case (Pure(epsilon=a), Pure(epsilon=b)) | (Zcdp(rho=a), Zcdp(rho=b)) | (Gdp(mu=a), Gdp(mu=b)):
            return _le(a, b)
        case ((Pure() | Approx()), Approx(epsilon=e, delta=d)):
            delta = s.delta if isinstance(s, Approx) else 0.0
            return _le(_delta_of_lines(s.epsilon, delta, e * (1 + _TOLERANCE)), d)
        case Pure(epsilon=e), Zcdp(rho=r):  # order a: divergence at most min(a e^2/2, e)
            return _le(min(e * e / 2, e), r)
        case Pure(), Gdp(mu=m):
            return _le(pure_to_gdp(s).mu, m)
        case Zcdp(rho=r), Approx(epsilon=e, delta=d):
            return _le(zcdp_epsilon(r, d), e)
        case Zcdp(rho=r), Gdp(mu=m):
            return r == 0 or _zcdp_within_gaussian(r, m)
        case Gdp(mu=m), Zcdp(rho=r):
            return _le(m * m / 2, r)
        case Gdp(mu=m), Approx(epsilon=e, delta=d):
            from dpspec.privacy.gaussian import delta_upper

            return m == 0 or _le(delta_upper(e * (1 + _TOLERANCE), m), d)
        case _:
            return False


def _delta_of_lines(epsilon: float, delta: float, at: float) -> float:
    """The least delta at epsilon = ``at`` of all (epsilon, delta)-DP mechanisms: with probability delta all is told, else randomised
    response at epsilon (Kairouz, Oh, Viswanath 2015)."""
    if at >= epsilon:
        return delta
    return delta + (1 - delta) * -math.expm1(at - epsilon) / (1 + math.exp(-epsilon))


# ------------------------------------------------------------------------------------------------ zCDP against a Gaussian


def _zcdp_within_gaussian(rho: float, mu: float) -> bool:
    """Is delta(epsilon) of rho-zCDP at most that of the Gaussian mu at every epsilon >= 0? Then rho-zCDP implies mu-GDP (Dong, Roth, Su
    2022, Proposition 2.13: a Gaussian trade-off is the set of its (epsilon, delta)). False where it could not be shown.

    Beyond ``end`` by the logarithms of exp(-(e - rho)^2/(4 rho)) and of the lower bound phi(a)*mu/(b^2 + 3), a = e/mu - mu/2, b = e/mu +
    mu/2 (the Mills ratio R has -R'(b) = 1 - b R(b) >= 1/(b^2 + 3) and is convex): their difference has the derivative
    e*(1/(2 rho) - 1/mu^2) - 2 b/(mu*(b^2 + 3)), positive from 0.578/mu over the bracket on. Before it by intervals [a, b]: both are
    decreasing, so delta_rho(a) <= delta_mu(b) settles one, else it is halved.
    """
    gap = 1 / (2 * rho) - 1 / mu**2
    if not gap > 1e-6 / rho:
        return False
    end = max(0.578 / mu / gap, rho, mu)
    for _ in range(200):
        a, b = end / mu - mu / 2, end / mu + mu / 2
        if (end - rho) ** 2 / (4 * rho) - a * a / 2 - 0.919 + math.log(mu) - math.log(b * b + 3) > 1e-6:
            break
        end *= 1.25
    else:
        return False
    open_: list[tuple[float, float, int]] = [(0.0, end, 0)]
    for _ in range(4000):
        if not open_:
            return True
        low, high, depth = open_.pop()
        if _log_delta_zcdp(rho, low) <= _log_delta_gaussian(mu, high) - 1e-9:
            continue
        if depth > 40:
            return False
        middle = (low + high) / 2
        open_ += [(low, middle, depth + 1), (middle, high, depth + 1)]
    return False


def _log_delta_zcdp(rho: float, epsilon: float) -> float:
    """An upper bound of log delta(epsilon): total variation is at most sqrt(rho/2) (Pinsker), and the conversion of every order > 1."""
    best = math.log(rho / 2) / 2
    for order in _orders(rho, epsilon):
        best = min(best, (order - 1) * (rho * order - epsilon + math.log1p(-1 / order)) - math.log(order))
    return best


def _orders(rho: float, epsilon: float) -> Iterator[float]:
    centre = max((epsilon + rho) / (2 * rho), 1 + 1e-6)
    for factor in (0.5, 0.8, 0.9, 0.95, 1.0, 1.05, 1.1, 1.2, 1.5, 2.0):
        yield max(1 + (centre - 1) * factor, 1 + 1e-9)


def _log_delta_gaussian(mu: float, epsilon: float) -> float:
    """log delta(epsilon) of the Gaussian mu, or a lower bound of it far out."""
    from scipy.special import log_ndtr

    a, b = epsilon / mu - mu / 2, epsilon / mu + mu / 2
    first, second = float(log_ndtr(-a)), epsilon + float(log_ndtr(-b))
    if first - second > 1e-3:
        return first + math.log1p(-math.exp(second - first))
    return -a * a / 2 - 0.919 + math.log(mu) - math.log(b * b + 3)
