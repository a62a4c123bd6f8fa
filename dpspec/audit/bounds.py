"""Composition of components: an upper and a lower bound on the true epsilon (or rho) of everything that a description releases."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from dpspec.audit.component import Component, Family
from dpspec.audit.conversions import zcdp_epsilon
from dpspec.audit.losses import TooFine, bracket, delta_at_most
from dpspec.audit.lower import delta_at_least
from dpspec.audit.pairs import Atoms, GaussianPair, Pair

_AGREE = 1e-6  # estimated rounding errors: by so little two bounds may cross without either being wrong


@dataclass(frozen=True, slots=True)
class Range:
    """``low`` <= true epsilon <= ``high`` at some delta; ``how``: one line. ``crossed``: one of the two must be wrong."""

    low: float
    high: float
    how: str

    @property
    def crossed(self) -> bool:
        return self.low > self.high * (1 + _AGREE) + _AGREE

    @property
    def tight(self) -> bool:
        return math.isfinite(self.high) and self.high - self.low <= 0.01 * self.high + 1e-12


def gaussian_only(parts: Sequence[Component]) -> float | None:
    """mu of the composition when every part is exactly Gaussian."""
    if not parts or any(c.mu is None or c.breach is not None or c.unknown for c in parts):
        return None
    try:
        return math.sqrt(math.fsum((c.mu or 0.0) ** 2 * c.count for c in parts))
    except OverflowError:
        return math.inf


def attained(parts: Sequence[Component]) -> bool:
    """Whether neighbours are known that show every part at once as far as it can be moved."""
    return all(c.under is not None or c.mu == 0 for c in parts)


def epsilon_range(parts: Sequence[Component], delta: float) -> Range:
    """Bounds on epsilon at ``delta`` (0 for pure)."""
    if delta >= 1:
        return Range(0.0, 0.0, "everything holds at delta 1")
    certain = [c for c in parts if c.breach is not None and (c.breach.delta > delta or (delta == 0 and c.breach.delta == 0))]
    if certain:
        return Range(math.inf, math.inf, "an event of probability above delta is impossible under a neighbour")
    if not parts:
        return Range(0.0, math.inf, "no event is described")
    mu = gaussian_only(parts)
    exact_gaussian = mu is not None and attained(parts)
    if mu is not None and delta > 0:
        if mu == 0:
            return Range(0.0, 0.0, "nothing depends on the record")
        from dpspec.privacy.gaussian import epsilon_of

        value = epsilon_of(mu, delta) if math.isfinite(mu) else math.inf
        return Range(value if exact_gaussian else 0.0, value, f"Gaussian DP, mu = {mu:.6g}, analytic profile")
    high, how = _upper(parts, delta)
    low = _lower(parts, delta)
    if delta > 0 and low < high:
        better_low, better_high = _by_losses(parts, delta)
        low = max(low, better_low)
        if better_high < high:
            high, how = better_high, "privacy-loss distributions, rounded outwards"
    return Range(min(low, high) if low <= high * (1 + _AGREE) + _AGREE else low, high, how)


def epsilon_at_most(parts: Sequence[Component], delta: float) -> float:
    """The upper end of :func:`epsilon_range` alone, for searches."""
    bare = [replace(c, under=None, pure_at_least=0.0) for c in parts]
    return epsilon_range(bare, delta).high


def _upper(parts: Sequence[Component], delta: float) -> tuple[float, str]:
    if any(c.unknown or (c.breach is not None and c.breach.delta == 0) for c in parts):
        return math.inf, "no theorem bounds a part of it"
    best, how = math.inf, "no finite bound at this delta"
    slack = math.fsum(c.slack * c.count for c in parts)
    if slack <= delta * (1 + 1e-9):
        total = math.fsum(c.pure * c.count for c in parts)
        if total < best:
            best, how = total, "sum of the parts" if len(parts) > 1 or parts[0].count > 1 else "one release"
    if delta > 0 and slack == 0:
        rho = math.fsum(c.rho * c.count for c in parts)
        if math.isfinite(rho):
            value = zcdp_epsilon(rho, delta)
            if value < best:
                best, how = value, f"zCDP, rho = {rho:.6g}, optimal conversion"
    return best, how


def _lower(parts: Sequence[Component], delta: float) -> float:
    if delta > 0:
        return 0.0
    return math.fsum(c.pure_at_least * c.count for c in parts if c.pure_at_least > 0)


def _by_losses(parts: Sequence[Component], delta: float) -> tuple[float, float]:
    certifiable = all((c.over is not None or c.pure == 0) and not c.unknown for c in parts)
    slack = math.fsum(c.slack * c.count for c in parts if not _holds_slack(c))
    upper: list[tuple[Pair, int]] | None = None
    room = delta - slack
    if certifiable and not any(c.breach is not None and c.breach.delta == 0 for c in parts):
        upper = _merged([(c.over, c.count, c.mu) for c in parts])
    lower = _merged([(lower_pair(c.under, delta, c.count), c.count, c.mu) for c in parts])
    if upper is not None and room <= 0 < slack:
        upper = None
    if slack and upper is not None:
        _, high = bracket(upper, [], room)
        low, _ = bracket(None, lower, delta)
        return low, high
    return bracket(upper, lower, delta)


def _holds_slack(c: Component) -> bool:
    """Whether the dominating pair itself carries the failure probability (an atom at infinity)."""
    return isinstance(c.over, Atoms) and any(q == 0 < p for p, q in zip(c.over.p, c.over.q, strict=True))


def _merged(pairs: Sequence[tuple[Pair | None, int, float | None]]) -> list[tuple[Pair, int]]:
    """Gaussian parts as one Gaussian, equal pairs counted together."""
    square, found = 0.0, dict[Pair, int]()
    for pair, count, _ in pairs:
        if pair is None:
            continue
        if isinstance(pair, GaussianPair):
            square += pair.mu**2 * count
        else:
            found[pair] = found.get(pair, 0) + count
    merged: list[tuple[Pair, int]] = list(found.items())
    if square > 0:
        merged.append((GaussianPair(math.sqrt(square)), 1))
    return merged


def lower_pair(pair: Pair | None, delta: float, count: int) -> Pair | None:
    """The member of a family of real pairs that shows the most at ``delta`` in one use."""
    if not isinstance(pair, Family):
        return pair

    def shows(a: Atoms) -> float:
        best = 0.0
        for p, q in zip(a.p, a.q, strict=True):
            if p > delta and q > 0:
                best = max(best, math.log((p - delta) / q))
            if q > delta and p > 0:
                best = max(best, math.log((q - delta) / p))
        return best

    return max(pair.members, key=shows) if pair.members else None


def _best_at(pair: Pair | None, epsilon: float) -> Pair | None:
    """The member of a family of real pairs with the largest delta at ``epsilon``."""
    if not isinstance(pair, Family):
        return pair
    factor = math.exp(min(epsilon, 700.0))

    def shows(a: Atoms) -> float:
        return sum(max(p - factor * q, 0.0) for p, q in zip(a.p, a.q, strict=True))

    return max(pair.members, key=shows) if pair.members else None


def rho_range(parts: Sequence[Component]) -> Range:
    """Bounds on the zCDP parameter; lower bounds add up for the same neighbours only when all parts are Gaussian."""
    if any(c.breach is not None for c in parts):
        return Range(math.inf, math.inf, "an event is impossible under a neighbour")
    mu = gaussian_only(parts)
    if mu is not None:
        return Range(mu * mu / 2 if attained(parts) else 0.0, mu * mu / 2, "Gaussian: rho = mu^2/2")
    unknown = not parts or any(c.unknown for c in parts)
    high = math.inf if unknown else math.fsum(c.rho * c.count for c in parts)
    low = max((c.rho_at_least * c.count for c in parts), default=0.0)
    return Range(low, high, "sum of the parts' zCDP parameters")


def delta_range(parts: Sequence[Component], epsilon: float) -> tuple[float, float] | None:
    """Bounds on delta at ``epsilon`` >= 0."""
    breach = max((c.breach.delta for c in parts if c.breach is not None), default=0.0)
    mu = gaussian_only(parts)
    if mu is not None and mu > 0:
        from dpspec.privacy.gaussian import delta_lower, delta_upper

        low = delta_lower(epsilon, min(mu, 1e150)) if attained(parts) else 0.0
        return low, 1.0 if math.isinf(mu) else delta_upper(epsilon, mu)  # beyond the doubles; delta grows with mu
    low = max(breach, delta_at_least(_merged([(_best_at(c.under, epsilon), c.count, c.mu) for c in parts]), epsilon))
    upper = _merged([(c.over, c.count, c.mu) for c in parts])
    if not upper or len(upper) > 8 or breach > 0 or any(c.over is None and c.pure > 0 for c in parts) or any(c.unknown for c in parts):
        return low, 1.0
    try:
        return low, delta_at_most(upper, epsilon)
    except TooFine:
        return low, 1.0
