"""The second accountant: every guarantee is computed again, by other code, from the same tree.

The tree becomes a ``dp_accounting.DpEvent`` (:func:`to_dp_event`, its own walk), and Google's library does the rest: its privacy-loss
distributions, discretisation and transforms share nothing with :mod:`dpspec.privacy.pld`. Where the library has no event, its building
blocks are fed with a profile written down here. Gaussian DP is recomputed without it (importing it takes longer than all the rest of a
plan): the first accountant evaluates a closed form in ball arithmetic, this one integrates the divergence in doubles; that both agree with
the library's closed form and with its PLD of the composed steps is a test (``tests/privacy/test_second.py``).

=================================  ================================================================================
guarantee                          recomputed by
=================================  ================================================================================
pure sum                           exact fractions over the events (floats where sampling amplifies)
Gaussian DP                        quadrature of the divergence of two unit Gaussians, 1/sigma of all steps apart
zCDP sum                           library's RDP accountant on a fine set of orders (it knows the Gaussian and zCDP events)
PLD, optimal composition           library's PLD
=================================  ================================================================================

Three traps of dp_accounting 0.6.0 are avoided by construction. Its accountants read ``GaussianDpEvent`` differently under REPLACE_ONE,
so events are always normalised (sensitivity 1) and accounted as a plain adjacent pair. ``PLDAccountant`` forgets the count of a
self-composed ``RandomizedResponseDpEvent``, and its default grid of 1e-4 is too coarse for many steps at a small epsilon, so compositions
are assembled here from its distributions.

A schedule with parts is taken apart here once more (:func:`_ways`, no shared code): each way of one record through the parts must keep
the stated guarantee (its kind too: a Gaussian draw has no finite epsilon at delta 0), each part's own calibration is recomputed like a
schedule of its own, and the largest must be what is stated.

**Tolerance.** Closed forms against closed forms: 1e-6 of epsilon, either way. zCDP against the RDP accountant: 1e-3 above (its best order
is one of a list). PLD against PLD: 0.25 % above, 0.25 % below, of epsilon or of delta (the library's grid is chosen for 0.03 % and refined
when that does not suffice). A first accountant that is no tight one (pure sum, zCDP) may be any amount above. Beyond:
:class:`AccountingMismatch`. The library's transform has a floor near 1e-15, so below delta = 1e-10 a PLD is compared at delta = 1e-9,
and the first accountant, so
checked, is run once more on the levels at the delta that was asked for.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Iterable, Mapping
from collections.abc import Sequence as Sequence_
from fractions import Fraction
from typing import Any, NamedTuple, TypeAlias

from dpspec.privacy.calibrated import Calibrated
from dpspec.privacy.guarantees import Guarantee
from dpspec.privacy.samplers import Neighbours, removal
from dpspec.privacy.schedule import Disjoint, Draw, Leaf, Parallel, Repeat, Sampled, Sequence, Tree

_CLOSED, _ORDERS, _GRID, _ABSOLUTE = 1e-6, 1e-3, 2.5e-3, 1e-10
_FLOOR, _COMPARED_AT = 1e-10, 1e-9
_AT_MOST = 1.6e7  # grid points; a second or two


class AccountingMismatch(Exception):
    """DP307: two accountants disagree. An internal error: no plan may be made from it."""

    code = "DP307"


class Recheck(NamedTuple):
    """The epsilon that the second accountant finds at ``delta``, and its name."""

    epsilon: float
    delta: float
    accountant: str


# ----------------------------------------------------------------------------------------------------------------- events


def to_dp_event(tree: Tree, levels: Mapping[str, float]) -> Any:
    """The calibrated tree as a ``dp_accounting.DpEvent``, with noise over sensitivity as noise multiplier.

    A pure draw is the randomised response of its epsilon (the worst epsilon-DP mechanism), a bounded-range draw a zCDP event of
    epsilon^2/8. ``Disjoint`` is its body once. ``Sampled`` is Poisson sampling or sampling without replacement of the composed body.
    """
    import dp_accounting as da

    match tree:
        case Draw(name=name, mechanism=mechanism):
            level = levels[name]
            match mechanism.family:
                case "gaussian":
                    return da.GaussianDpEvent(level)
                case "laplace":
                    return da.LaplaceDpEvent(level)
                case "bounded-range":
                    return da.ZCDpEvent(level**2 / 8)
                case _:
                    return da.RandomizedResponseDpEvent(2 / (1 + math.exp(level)), 2)
        case Sequence(parts=parts):
            return da.ComposedDpEvent([to_dp_event(part, levels) for part in parts])
        case Repeat(body=body, count=count):
            return da.SelfComposedDpEvent(to_dp_event(body, levels), count)
        case Disjoint(body=body):
            return to_dp_event(body, levels)
        case Sampled(body=body, method="poisson", rate=rate):
            return da.PoissonSampledDpEvent(rate, to_dp_event(body, levels))
        case Sampled(body=body, rate=rate, n=n):
            return da.SampledWithoutReplacementDpEvent(n, max(1, round(rate * n)), to_dp_event(body, levels))
    raise TypeError(f"{tree!r} is no schedule")


def _flat(tree: Tree, times: int = 1) -> list[tuple[Draw | Sampled, int]]:
    """The draws and sampled bodies of a tree with their multiplicity (a walk of its own, on purpose)."""
    match tree:
        case Draw():
            return [(tree, times)]
        case Sequence(parts=parts):
            return [entry for part in parts for entry in _flat(part, times)]
        case Repeat(body=body, count=count):
            return _flat(body, times * count)
        case Disjoint(body=body):
            return _flat(body, times)
        case Sampled(body=body, rate=rate):
            return _flat(body, times) if rate >= 1 else [(tree, times)]
    raise TypeError(f"{tree!r} is no schedule without parts")


_Way: TypeAlias = tuple[tuple[Draw | Sampled, int], ...]


def _ways(tree: Tree) -> list[_Way]:
    """Every way of one record through a schedule: draws and sampled bodies with their multiplicity (a walk of its own, on purpose)."""
    match tree:
        case Draw():
            return [((tree, 1),)]
        case Parallel(parts=parts):
            return [way for part in parts for way in _ways(part)]
        case Sequence(parts=parts):
            joined: list[_Way] = [()]
            for part in parts:
                joined = [(*before, *after) for before in joined for after in _ways(part)]
            return joined
        case Disjoint(body=body):
            return _ways(body)
        case Repeat(body=body, count=count):
            once = _ways(body)
            shares = [()] if len(once) == 1 else _splits(count, len(once) - 1)
            return [
                tuple((entry, k * times) for k, way in zip((*share, count - sum(share)), once, strict=True) if k for entry, times in way)
                for share in shares
            ]
        case Sampled(body=body, rate=rate):
            inside = _ways(body)
            if rate >= 1:
                return inside
            if len(inside) > 1:
                raise AccountingMismatch("DP307: a sample is cut into parts, which nothing here accounts for")
            return [((tree, 1),)]
    raise TypeError(f"{tree!r} is no schedule")


def _splits(count: int, kinds: int) -> list[tuple[int, ...]]:
    """Every way to give at most ``count`` uses to ``kinds`` kinds."""
    if kinds == 0:
        return [()]
    return [(k, *rest) for k in range(count + 1) for rest in _splits(count - k, kinds - 1)]


def _pure_epsilon(draw: Draw, level: float) -> Fraction:
    return 1 / Fraction(level) if draw.mechanism.family == "laplace" else Fraction(level)


# --------------------------------------------------------------------------------------------------------------- profiles

_Profile = Callable[[Any], Any]  # epsilon (array, any sign) -> delta


def _base_profile(kind: str, parameter: float) -> _Profile:
    """The privacy profile of one mechanism, for epsilon of either sign, in floats."""
    import numpy as np
    from scipy.special import ndtr

    def gaussian(x: Any) -> Any:
        return ndtr(parameter / 2 - x / parameter) - np.exp(x) * ndtr(-parameter / 2 - x / parameter)

    def laplace(x: Any) -> Any:
        inside = -np.expm1((np.clip(x, -parameter, parameter) - parameter) / 2)
        return np.where(x >= parameter, 0.0, np.where(x <= -parameter, -np.expm1(x), inside))

    def pure(x: Any) -> Any:
        inside = (math.exp(parameter) - np.exp(np.minimum(x, parameter))) / (1 + math.exp(parameter))
        return np.maximum(inside, np.maximum(-np.expm1(x), 0.0))

    def bounded_range(x: Any) -> Any:
        inside = np.expm1((np.clip(x, -parameter, parameter) - parameter) / 2) ** 2 / -math.expm1(-parameter)
        return np.where(x >= parameter, 0.0, np.where(x <= -parameter, -np.expm1(x), inside))

    return {"gaussian": gaussian, "laplace": laplace, "pure": pure, "bounded-range": bounded_range}[kind]


def _mirror(profile: _Profile) -> _Profile:
    """The profile with the two laws exchanged."""
    import numpy as np

    return lambda x: -np.expm1(x) + np.exp(x) * profile(-x)


def _with_record(base: _Profile, rate: float) -> _Profile:
    """((1 - q)Q + qP against Q): P' - e^x Q = q(P - e^y Q), e^y = 1 + (e^x - 1)/q."""
    import numpy as np

    def profile(x: Any) -> Any:
        inner = 1 + np.expm1(x) / rate
        return np.where(inner > 0, rate * base(np.log(np.maximum(inner, 1e-300))), -np.expm1(x))

    return profile


def _exchanged(base: _Profile, rate: float) -> _Profile:
    """Replace-one on a uniform subset: the profile above for x >= 0, its mirror image for x < 0."""
    import numpy as np

    above = _with_record(base, rate)
    below = _mirror(above)
    return lambda x: np.where(x >= 0, above(np.maximum(x, 0.0)), below(np.minimum(x, 0.0)))


def _dots(profile: _Profile, step: float, span: float) -> Any:
    """The library's connect-the-dots distribution of a profile, on [-span, span]."""
    import numpy as np
    from dp_accounting.pld import pld_pmf

    index = np.arange(-math.ceil(span / step), math.ceil(span / step) + 1)
    return pld_pmf.create_pmf_pessimistic_connect_dots(step, index, np.clip(profile(index * step), 0.0, 1.0))


# ------------------------------------------------------------------------------------------------------------------- PLD


def _body(body: Tree, levels: Mapping[str, float]) -> tuple[str, float]:
    """One pair for all draws from one sample: Gaussians add in mu^2, pure draws in epsilon; a mix through Gaussian DP."""
    inner = _flat(body)
    draws = [(d, k) for d, k in inner if isinstance(d, Draw)]
    if len(draws) != len(inner):
        raise ValueError("sampling inside sampling")
    families = {d.mechanism.family for d, _ in draws}
    if families == {"gaussian"}:
        return "gaussian", math.sqrt(sum(k / levels[d.name] ** 2 for d, k in draws))
    if "gaussian" not in families:
        total = float(sum(k * _pure_epsilon(d, levels[d.name]) for d, k in draws))
        only = draws[0][0].mechanism.family
        return (only if len(draws) == 1 and draws[0][1] == 1 else "pure"), total
    from scipy.special import ndtri

    squared = 0.0
    for d, k in draws:
        level = levels[d.name]
        mu = 1 / level if d.mechanism.family == "gaussian" else -2 * float(ndtri(1 / (1 + math.exp(float(_pure_epsilon(d, level))))))
        squared += k * mu**2
    return "gaussian", math.sqrt(squared)


def _opposite_reach(body: Tree, levels: Mapping[str, float]) -> float | None:
    """The share of the sensitivity by which a left-out record moves a Gaussian body; None when it is not at most one half."""
    total = reached = 0.0
    for d, k in _flat(body):
        assert isinstance(d, Draw)
        share = removal(Leaf(d, 1, 1, None))
        if d.mechanism.family != "gaussian" or share is None or share > 0.5:
            return None
        total += k / levels[d.name] ** 2
        reached += k * share**2 / levels[d.name] ** 2
    return math.sqrt(reached / total)


def _distribution(tree: Tree, levels: Mapping[str, float], neighbours: Neighbours, step: float) -> Any:
    from dp_accounting.pld import privacy_loss_distribution as library

    whole = library.identity(value_discretization_interval=step)
    plain = 0.0
    for entry, times in _flat(tree):
        if isinstance(entry, Draw):
            level = levels[entry.name]
            match entry.mechanism.family:
                case "gaussian":
                    plain += times / level**2
                    continue
                case "laplace":
                    one = library.from_laplace_mechanism(level, value_discretization_interval=step)
                case family:
                    one = library.PrivacyLossDistribution(_dots(_base_profile(family, level), step, level + 2 * step))
        else:
            kind, parameter = _body(entry.body, levels)
            one = _sampled(entry, kind, parameter, _opposite_reach(entry.body, levels), neighbours, step)
        whole = whole.compose(one.self_compose(times) if times > 1 else one)
    if plain:
        whole = whole.compose(library.from_gaussian_mechanism(1 / math.sqrt(plain), value_discretization_interval=step))
    return whole


def _sampled(entry: Sampled, kind: str, parameter: float, reach: float | None, neighbours: Neighbours, step: float) -> Any:
    import dp_accounting as da
    from dp_accounting.pld import privacy_loss_distribution as library

    rate = float(entry.rate)
    if entry.method == "poisson" and neighbours != "replace-one":
        if kind == "gaussian":
            return library.from_gaussian_mechanism(1 / parameter, sampling_prob=rate, value_discretization_interval=step)
        if kind == "laplace":
            return library.from_laplace_mechanism(1 / parameter, sampling_prob=rate, value_discretization_interval=step)
        profile = _with_record(_base_profile(kind, parameter), rate)
        span = parameter + 2 * step
        return library.PrivacyLossDistribution(_dots(profile, step, span), _dots(_mirror(profile), step, span))
    if entry.method == "poisson" and reach is not None:
        return library.from_gaussian_mechanism(
            1 / (parameter * reach),
            sampling_prob=rate,
            value_discretization_interval=step,
            neighboring_relation=da.NeighboringRelation.REPLACE_ONE,
        )
    span = parameter + 2 * step
    if kind == "gaussian":
        span = math.log1p(rate * math.expm1(min(parameter**2 / 2 + 8.5 * parameter, 600))) + 2 * step
    return library.PrivacyLossDistribution(_dots(_exchanged(_base_profile(kind, parameter), rate), step, span))


def _step(tree: Tree, levels: Mapping[str, float], epsilon: float, delta: float) -> float:
    """A pitch that costs about 0.03 % of epsilon: delta grows by T*lam*(lam + 1)*h^2/12 at tilt lam, which is near log(1/delta)/epsilon."""
    draws = _flat(tree)
    gaussian_only = all(isinstance(d, Draw) and d.mechanism.family == "gaussian" for d, _ in draws)
    uses = 1 if gaussian_only else sum(k for _, k in draws)
    tilt = max(1.0, min(1.2 * math.log(1 / delta) / max(epsilon, 1e-9), 1 / delta))  # it is at most P(L > epsilon)/delta
    share = 0.0003 if tilt < 1 / delta else 0.003  # losses of 1e-8 on a finer grid drown in the rounding of the library
    error = 12 * share * max(tilt * max(epsilon, 1e-9), 1.0) / (tilt * (tilt + 1))
    step = math.sqrt(error / uses)
    sizes = []
    for entry, _ in draws:
        if isinstance(entry, Sampled):
            kind, parameter = _body(entry.body, levels)
            sizes.append(
                float(entry.rate) * math.sqrt(math.expm1(min(parameter**2, 4.0))) if kind == "gaussian" else float(entry.rate) * parameter
            )
        elif entry.mechanism.family != "gaussian":
            sizes.append(float(_pure_epsilon(entry, levels[entry.name])))
    for size in sizes:
        step = min(step, 0.1 * size) if size > 0 else step
    step = min(step, max(epsilon, 1e-9, 1 / tilt) / 50)
    # records that hardly any step reads: nearly all losses lie far within one step and add step*|loss| instead of step^2
    often = sum(k * float(d.rate) if isinstance(d, Sampled) else k for d, k in draws)
    rare = min(error / 12 / often, math.sqrt(error), max(epsilon, 1e-9, 1 / tilt) / 100)
    return rare if rare > 4 * step else step


def pld_epsilon(tree: Tree, levels: Mapping[str, float], epsilon: float, delta: float, neighbours: Neighbours) -> float:
    """The epsilon at ``delta`` by the library's privacy-loss distributions. ``epsilon``: its rough size, for the grid only."""
    return _by_pld(tree, levels, epsilon, delta, neighbours)[0]


def _by_pld(tree: Tree, levels: Mapping[str, float], epsilon: float, delta: float, neighbours: Neighbours) -> tuple[float, float]:
    """(epsilon at ``delta``, delta at ``epsilon``)."""
    step = _step(tree, levels, epsilon, delta)
    found = spent = math.inf
    for _ in range(4):  # few steps of a bounded loss need a finer grid than the rule says
        try:
            whole = _distribution(tree, levels, neighbours, step)
        except (ArithmeticError, LookupError, MemoryError, ValueError) as problem:  # doubles fail the library at the rim
            raise AccountingMismatch(f"DP307: dp_accounting has no distribution for levels {dict(levels)}: {problem}") from problem
        found = min(found, float(whole.get_epsilon_for_delta(delta)))
        spent = min(spent, float(whole.get_delta_for_epsilon(epsilon)))
        if found <= epsilon * (1 + _GRID) or spent <= delta * (1 + _GRID):
            break
        step /= 8
        if _span(tree, levels) / step > 3e6 or not _points(tree, levels, epsilon, step) <= 1e6:
            break
    return found, spent


def bearable(tree: Tree, levels: Mapping[str, float], epsilon: float, delta: float, most: float = _AT_MOST) -> bool:
    """Whether :func:`recheck` of distributions takes seconds: by the number of grid points of one use of each draw, and of all together."""
    if delta < _FLOOR:
        delta, epsilon = _COMPARED_AT, max(epsilon, 1e-9)
    return _points(tree, levels, epsilon, _step(tree, levels, epsilon, delta)) <= most


def _points(tree: Tree, levels: Mapping[str, float], epsilon: float, step: float) -> float:
    """Roughly the grid points of the composed losses at a pitch."""
    width = 2 * epsilon
    for entry, times in _flat(tree):
        if isinstance(entry, Sampled):
            kind, parameter = _body(entry.body, levels)
            top = parameter**2 / 2 + 9 * parameter if kind == "gaussian" else parameter
            rate = float(entry.rate)
            top = math.log1p(rate * math.expm1(min(top, 600.0)))
            each = min(rate * math.sqrt(math.expm1(min(parameter**2, 600.0))), top)
        elif entry.mechanism.family == "gaussian":
            top = each = 0.0
            width += 18 * math.sqrt(times) / levels[entry.name]
        else:
            top = each = float(_pure_epsilon(entry, levels[entry.name]))
        width += top + 18 * math.sqrt(times) * each
    return width / step


def _span(tree: Tree, levels: Mapping[str, float]) -> float:
    """Roughly the width of the composed losses."""
    width = 0.0
    for d, k in _draws(tree):
        level = levels[d.name]
        width += 16 * math.sqrt(k) / level if d.mechanism.family == "gaussian" else 2 * k * float(_pure_epsilon(d, level))
    return width


# --------------------------------------------------------------------------------------------------------------- recheck


def recheck(calibrated: Calibrated) -> Recheck:
    """Recompute the guarantee of a calibrated schedule. Raises :class:`AccountingMismatch` when the two do not agree."""
    if calibrated.ways or _parted(calibrated.tree):
        return _recheck_parts(calibrated)
    g = calibrated.guarantee
    if g.kind == "pure":
        return _recheck_pure(calibrated)
    if {d.mechanism.family for d, _ in _draws(calibrated.tree)} == {"approx"}:
        return _recheck_tail(calibrated)
    delta = g.delta or 1e-6
    first = g.epsilon if g.epsilon is not None else _implied(calibrated, delta)
    if calibrated.accountant == "pure sum":
        return _recheck_pure(calibrated)
    if calibrated.accountant == "zCDP sum":
        second = _rdp_epsilon(calibrated, delta)
        name = "dp_accounting RDP"
        _compare(first, second, calibrated, name, over=_ORDERS, under=_ORDERS)
    elif calibrated.accountant == "Gaussian DP":
        gaussian_only = {d.mechanism.family for d, _ in _draws(calibrated.tree)} == {"gaussian"}
        second = _gaussian_epsilon(calibrated, delta) if gaussian_only else _mu_epsilon(calibrated, delta)
        name = "quadrature of the divergence"
        _compare(first, second, calibrated, name, over=_CLOSED, under=_CLOSED)
    elif delta >= _FLOOR:
        second, spent = _by_pld(calibrated.tree, calibrated.levels, first, delta, calibrated.neighbours)
        name = "dp_accounting PLD"
        if delta * (1 - _GRID) <= spent <= delta * (1 + _GRID):  # an epsilon far below delta is no measure: delta is nearly flat there
            _within_budget(calibrated)
            return Recheck(second, delta, name) if second <= first * (1 + _GRID) else Recheck(first, spent, f"{name}, delta compared")
        # the first adds a bound of its transform's rounding, which grows with the number of uses and asks for more noise
        uses = sum(k for _, k in _draws(calibrated.tree))
        _compare(first, second, calibrated, name, over=_GRID, under=min(1.0, max(_GRID, 2e-14 * uses / delta)))
    else:
        from dpspec.privacy.spent import epsilon_spent

        name = f"dp_accounting PLD, compared at delta {_COMPARED_AT:g}"
        there = epsilon_spent(calibrated.tree, calibrated.levels, Fraction(_COMPARED_AT), calibrated.neighbours, first)
        second = pld_epsilon(calibrated.tree, calibrated.levels, there, _COMPARED_AT, calibrated.neighbours)
        if second > there * (1 + _GRID):  # at that delta zCDP may be the better one of the two, as for many exponential mechanisms
            second, name = _rdp_epsilon(calibrated, _COMPARED_AT), f"dp_accounting RDP, compared at delta {_COMPARED_AT:g}"
        _compare(there, second, calibrated, name, over=_GRID, under=_GRID)
        second = epsilon_spent(calibrated.tree, calibrated.levels, Fraction(delta), calibrated.neighbours, first)
        _compare(first, second, calibrated, "the first accountant, run again", over=_GRID, under=1.0)  # its noise may be for a coarser grid
    _within_budget(calibrated)
    return Recheck(second, delta, name)


def _compare(first: float, second: float, calibrated: Calibrated, name: str, *, over: float, under: float) -> None:
    if not first * (1 - under) - _ABSOLUTE <= second <= first * (1 + over) + _ABSOLUTE:
        raise AccountingMismatch(
            f"DP307: {calibrated.accountant} says epsilon {first:.6g}, {name} says {second:.6g}, for levels {dict(calibrated.levels)}"
        )


def _within_budget(calibrated: Calibrated) -> None:
    """The stated guarantee against the budget, in exact numbers."""
    budget, g = calibrated.budget, calibrated.guarantee
    if budget is None:
        return
    for name in ("epsilon", "delta", "rho", "mu"):
        allowed, stated = getattr(budget, name), getattr(g, name)
        if allowed is not None and stated is not None and Fraction(stated) > Fraction(allowed) * (1 + Fraction(1, 10**12)):
            raise AccountingMismatch(f"DP307: the schedule spends {name} {stated:.6g} of a budget of {float(Fraction(allowed)):.6g}")


def _draws(tree: Tree) -> list[tuple[Draw, int]]:
    found: list[tuple[Draw, int]] = []
    for entry, times in _flat(tree):
        found += [(entry, times)] if isinstance(entry, Draw) else [(d, k * times) for d, k in _draws(entry.body)]
    return found


def _recheck_pure(calibrated: Calibrated) -> Recheck:
    """The pure sum again: exact fractions, and where sampling amplifies an epsilon, 50-digit decimals."""
    total = _pure_total(_flat(calibrated.tree), calibrated.levels)
    assert calibrated.guarantee.epsilon is not None
    first, second = calibrated.guarantee.epsilon, float(total)
    if abs(second - first) > 1e-12 * first:
        raise AccountingMismatch(f"DP307: the pure sum is {second!r}, the plan says {first!r}")
    _within_budget(calibrated)
    return Recheck(second, calibrated.guarantee.delta or 0.0, "exact sum of fractions")


def _pure_total(entries: Iterable[tuple[Draw | Sampled, int]], levels: Mapping[str, float]) -> Fraction:
    from decimal import Decimal, localcontext

    total = Fraction(0)
    for entry, times in entries:
        inside = [(entry, 1)] if isinstance(entry, Draw) else _draws(entry.body)
        for d, _ in inside:
            if d.mechanism.family in ("gaussian", "approx"):
                raise AccountingMismatch(f"DP307: draw {d.name!r} ({d.mechanism.family}) has no finite epsilon at delta 0")
        base = sum((k * _pure_epsilon(d, levels[d.name]) for d, k in inside), Fraction(0))
        if isinstance(entry, Draw):
            total += times * base
            continue
        with localcontext() as context:
            context.prec = 50
            whole = Decimal(base.numerator) / Decimal(base.denominator)
            rate = Fraction(entry.rate)
            amplified = (1 + Decimal(rate.numerator) / Decimal(rate.denominator) * (whole.exp() - 1)).ln()
        total += times * Fraction(amplified)
    return total


# ----------------------------------------------------------------------------------------------------------------- parts


def _parted(tree: Tree) -> bool:
    match tree:
        case Draw():
            return False
        case Parallel():
            return True
        case Sequence(parts=parts):
            return any(_parted(part) for part in parts)
        case _:
            return _parted(tree.body)


def _recheck_parts(calibrated: Calibrated) -> Recheck:
    """Every way of one record through the parts against what is stated, from the tree; each part two-sided; the largest is stated."""
    g = calibrated.guarantee
    for way in _ways(calibrated.tree):
        _keeps(way, calibrated)
    each = [recheck(dataclasses.replace(way, budget=calibrated.budget)) for way in calibrated.ways]
    if not each:
        raise AccountingMismatch("DP307: a schedule with parts comes without the calibration of each part")
    largest = max(each, key=lambda found: found.epsilon)
    if g.epsilon is not None:
        most = max(_stated(way.guarantee) for way in calibrated.ways)
        if not abs(g.epsilon - most) <= 1e-9 * most:
            raise AccountingMismatch(f"DP307: epsilon {g.epsilon:.6g} is stated, the largest of the parts has {most:.6g}")
    _within_budget(calibrated)
    names = ", ".join(dict.fromkeys(found.accountant for found in each))
    return Recheck(largest.epsilon, g.delta or largest.delta, names)


def _stated(g: Guarantee) -> float:
    return g.epsilon if g.epsilon is not None else 0.0


def _keeps(way: _Way, calibrated: Calibrated) -> None:
    """Whether one way of a record keeps the guarantee that is stated for the whole; raises :class:`AccountingMismatch`."""
    g, levels = calibrated.guarantee, calibrated.levels
    slack = 1 + _GRID
    draws = [(d, k * times) for entry, times in way for d, k in ([(entry, 1)] if isinstance(entry, Draw) else _draws(entry.body))]
    if g.rho is not None:
        found = sum(k * _rho_of(d, levels[d.name]) for d, k in draws)
        if found > g.rho * (1 + 1e-9):
            raise AccountingMismatch(f"DP307: rho {g.rho:.6g} is stated and a part spends {found:.6g}")
    if g.mu is not None:
        found = math.sqrt(sum(k * _mu_of(d, levels[d.name]) ** 2 for d, k in draws))
        if found > g.mu * (1 + 1e-9):
            raise AccountingMismatch(f"DP307: mu {g.mu:.6g} is stated and a part spends {found:.6g}")
    if g.epsilon is None or g.kind in ("zcdp", "gdp"):
        return  # the epsilon of a rho or a mu is that of its conversion
    if not g.delta:
        total = float(_pure_total(way, levels))
        if g.kind != "pure" or total > g.epsilon * (1 + 1e-9):
            raise AccountingMismatch(f"DP307: {g.kind} epsilon {g.epsilon:.6g} at delta 0 is stated and a part spends {total:.6g}")
        return
    if g.kind == "pure":
        raise AccountingMismatch("DP307: a pure guarantee is stated with a delta")
    found = _least_epsilon(way, draws, calibrated, g.epsilon, g.delta)
    if found > g.epsilon * slack + _ABSOLUTE:
        raise AccountingMismatch(f"DP307: epsilon {g.epsilon:.6g} at delta {g.delta:g} is stated and a part spends {found:.6g}")


def _rho_of(draw: Draw, level: float) -> float:
    match draw.mechanism.family:
        case "approx":
            return math.inf
        case "gaussian":
            return 1 / (2 * level**2)
        case "bounded-range":
            return level**2 / 8
        case _:
            return float(_pure_epsilon(draw, level)) ** 2 / 2


def _mu_of(draw: Draw, level: float) -> float:
    from statistics import NormalDist

    match draw.mechanism.family:
        case "approx":
            return math.inf
        case "gaussian":
            return 1 / level
        case _:
            epsilon = float(_pure_epsilon(draw, level))
            return -2 * NormalDist().inv_cdf(1 / (1 + math.exp(epsilon))) if epsilon < 700 else math.inf


def _least_epsilon(way: _Way, draws: Sequence_[tuple[Draw, int]], calibrated: Calibrated, near: float, delta: float) -> float:
    """The least epsilon at ``delta`` that this file can show for one way."""
    levels = calibrated.levels
    families = {d.mechanism.family for d, _ in draws}
    if "approx" in families:
        if len(draws) > 1 or draws[0][1] > 1 or isinstance(way[0][0], Sampled):
            raise AccountingMismatch(f"DP307: a draw known by one (epsilon, delta) composes with nothing: {[d.name for d, _ in draws]}")
        ((draw, _),) = draws
        spent = float(draw.mechanism.delta_by_quadrature(levels[draw.name], near * (1 + _GRID)))  # type: ignore[attr-defined]
        return near if spent <= delta else math.inf
    if families == {"gaussian"} and all(isinstance(entry, Draw) for entry, _ in way):
        return gaussian_epsilon(math.sqrt(math.fsum(k / levels[d.name] ** 2 for d, k in draws)), delta)
    best = float(_pure_total(way, levels)) if "gaussian" not in families else math.inf
    if best <= near:
        return best
    tree = Sequence(tuple(Repeat(entry, times) for entry, times in way))
    if delta >= _FLOOR:
        return min(best, pld_epsilon(tree, levels, near, delta, calibrated.neighbours))
    from dpspec.privacy.spent import epsilon_spent  # below the library's floor: see the text at the top

    one = dataclasses.replace(calibrated, tree=tree, ways=())
    return min(best, _rdp_epsilon(one, delta), epsilon_spent(tree, levels, Fraction(delta), calibrated.neighbours, near))


def _recheck_tail(calibrated: Calibrated) -> Recheck:
    """The epsilon at which the mean of (1 - e^(epsilon - loss))_+ over the bounding loss is delta, by quadrature and bisection."""
    from scipy.optimize import brentq

    ((draw, _),) = _draws(calibrated.tree)
    delta = calibrated.guarantee.delta or 0.0
    first = calibrated.levels[draw.name]
    spend = draw.mechanism.delta_by_quadrature  # type: ignore[attr-defined]
    second = float(brentq(lambda e: math.log(max(spend(first, e), 1e-300) / delta), first * 0.5, first * 1.5, xtol=1e-10))
    _compare(first, second, calibrated, "tail by quadrature", over=_GRID, under=_GRID)
    _within_budget(calibrated)
    return Recheck(second, delta, "tail by quadrature")


#: Nodes and weights of a panel of the quadrature: Gauss-Legendre with 16 points.
_PANEL_POINTS = 16


def _gaussian_epsilon(calibrated: Calibrated, delta: float) -> float:
    """By quadrature, for all steps together: their losses add up to that of one Gaussian."""
    return gaussian_epsilon(math.sqrt(math.fsum(k / calibrated.levels[d.name] ** 2 for d, k in _draws(calibrated.tree))), delta)


def _mu_epsilon(calibrated: Calibrated, delta: float) -> float:
    """Gaussian DP with pure draws in it: mu of each by the standard library, then quadrature."""
    return gaussian_epsilon(math.sqrt(math.fsum(k * _mu_of(d, calibrated.levels[d.name]) ** 2 for d, k in _draws(calibrated.tree))), delta)


def gaussian_epsilon(mu: float, delta: float) -> float:
    """The least epsilon >= 0 at which two Gaussians of variance 1, ``mu`` apart, diverge by at most ``delta``, to about 1e-10 of it.

    With L the privacy loss, a Gaussian of mean mu^2/2 and variance mu^2, the divergence is the mean of (1 - e^(epsilon - L))_+, that is the
    integral over t > 0 of phi(z + t) (1 - e^(-mu t)) for z = (epsilon - mu^2/2)/mu. It falls with epsilon, so bisection finds the root.
    """
    if not mu > 0:
        return 0.0
    if math.isinf(mu) or not delta > 0:
        return math.inf
    wanted = math.log(delta)
    if _log_divergence(mu, 0.0) <= wanted:
        return 0.0
    low, high = 0.0, 1.0
    while _log_divergence(mu, high) > wanted:
        low, high = high, high * 4
    while high - low > 1e-11 * high:
        middle = (low + high) / 2
        if not low < middle < high:
            break
        low, high = (middle, high) if _log_divergence(mu, middle) > wanted else (low, middle)
    return high


def _log_divergence(mu: float, epsilon: float) -> float:
    """The logarithm of the divergence, by panels that grow from where the integrand begins (see :func:`gaussian_epsilon`)."""
    import numpy as np

    z = (epsilon - mu**2 / 2) / mu
    # phi(z + t) is e^(-z^2/2) e^(-z t - t^2/2)/sqrt(2 pi): the first factor is left out of the sum, so nothing underflows where z is large
    peak = max(0.0, -z)  # of the second factor
    start = max(0.0, peak - 40.0)
    short = min(1.0, 1 / mu, 1 / abs(z)) if z else min(1.0, 1 / mu)
    grown = start + short * 2.0 ** np.arange(-40, max(1, math.ceil(math.log2(1 / short))))
    ends = np.concatenate([[start], grown, np.arange(grown[-1], peak + 40.0, 0.5) + 0.5])
    nodes, weights = _panel()
    half = np.diff(ends)[:, None] / 2
    t = ends[:-1, None] + half * (1 + nodes)
    scale = peak * (-z) - peak**2 / 2
    total = float((half * weights * np.exp(-z * t - t * t / 2 - scale) * -np.expm1(-mu * t)).sum())
    return math.log(total) + scale - z * z / 2 - math.log(2 * math.pi) / 2 if total > 0 else -math.inf


@functools.lru_cache(maxsize=1)
def _panel() -> tuple[Any, Any]:
    from numpy.polynomial.legendre import leggauss

    return leggauss(_PANEL_POINTS)


def _rdp_epsilon(calibrated: Calibrated, delta: float) -> float:
    """The library's RDP accountant; pure draws enter as zCDP events, sampling is ignored (both safe)."""
    import dp_accounting as da
    import numpy as np
    from dp_accounting.rdp import RdpAccountant

    accountant = RdpAccountant(orders=list(1 + np.logspace(-3, 6, 1200)))
    for d, k in _draws(calibrated.tree):
        level = calibrated.levels[d.name]
        match d.mechanism.family:
            case "gaussian":
                event = da.GaussianDpEvent(level)
            case "bounded-range":
                event = da.ZCDpEvent(level**2 / 8)
            case _:
                event = da.ZCDpEvent(float(_pure_epsilon(d, level)) ** 2 / 2)
        accountant.compose(event, k)
    return float(accountant.get_epsilon(delta))


def _implied(calibrated: Calibrated, delta: float) -> float:
    from dpspec.privacy import gaussian
    from dpspec.privacy.guarantees import zcdp_epsilon

    g = calibrated.guarantee
    return zcdp_epsilon(g.rho, delta) if g.rho is not None else gaussian.epsilon_of(g.mu or 0.0, delta)
