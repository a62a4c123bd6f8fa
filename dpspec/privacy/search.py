"""Budgets with a delta for mixed, sampled or pure schedules: levels by a search over privacy-loss distributions.

One number is searched: rho, split over the draws by their shares (a draw of share w that is used c times costs rho*w/c of zCDP each time;
without sampling that is also its share of mu^2). Two valid closed forms compete: zCDP, and the pure sum where every draw is pure.

The search runs on log delta as a function of log rho, which is close to a line, first on a coarse grid, then on the fine one. The
pitch h of the grid follows from the error that is allowed: connecting the dots adds about h^2/6 to the variance of each of T losses,
which multiplies delta by about 1 + T*lam*(lam + 1)*h^2/12 at tilt lam. That is 2 % on the coarse and 0.05 % on the fine grid, and a
factor 1.0005 in delta is a factor of about 1.00003 in the noise. The result is on the safe side of the root on the fine grid.

The rule holds for smooth laws. A Laplace or pure draw has atoms at its greatest loss; beside other draws delta may fall there by a factor
e within 1/100 of epsilon, and a grid by the rule moves such an atom a long way up. There the fine grid is compared with finer ones
(:func:`dpspec.privacy.spent.root_of`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import TYPE_CHECKING

from dpspec.privacy import accounting, gaussian
from dpspec.privacy.accounting import blocks
from dpspec.privacy.calibrated import Calibrated, gaussian_levels
from dpspec.privacy.gaussian import exact, float_up
from dpspec.privacy.guarantees import Guarantee, zcdp_epsilon, zcdp_rho
from dpspec.privacy.samplers import CalibrationError, Neighbours
from dpspec.privacy.schedule import Leaf, Tree
from dpspec.privacy.spent import allowance, excess_of, lumped, root_of, uses

if TYPE_CHECKING:
    from dpspec.privacy.pld import Use


def search(
    tree: Tree, found: Mapping[str, Leaf], share: Mapping[str, Fraction], epsilon: Fraction, delta: Fraction, neighbours: Neighbours
) -> tuple[dict[str, float], Guarantee, str]:
    """Levels for (``epsilon``, ``delta``): the best of PLD, zCDP and, for pure draws, the pure sum."""
    by_zcdp = Fraction(zcdp_rho(epsilon, delta))
    if not by_zcdp > 0:
        raise CalibrationError(
            "DP308",
            f"epsilon {float(epsilon):.3g} with delta {float(delta):.3g} is too small a budget: no rho of zCDP fits into it",
            "raise epsilon or delta",
        )

    def levels_at(rho: Fraction) -> dict[str, float]:
        return {name: accounting.level_for_rho(leaf, rho * share[name] / leaf.count) for name, leaf in found.items()}

    def at(log_rho: float) -> tuple[tuple[tuple[Use, ...], ...], float]:
        return uses(tree, found, levels_at(Fraction(math.exp(log_rho))), neighbours), float(epsilon)

    excess = excess_of(at, float(delta))
    with allowance():
        root = root_of(excess, _start(found, share, by_zcdp, epsilon, delta), lumped(tree, found))
    rho, accountant = by_zcdp, "zCDP sum"
    if root is not None and Fraction(math.exp(root)) > by_zcdp:
        rho, accountant = Fraction(math.exp(root)), "PLD"
    levels = levels_at(rho)
    if {leaf.draw.mechanism.family for leaf in found.values()} == {"gaussian"}:
        mu = gaussian.mu_of(epsilon, delta)  # every draw counted as if it read all records
        if Fraction(mu) ** 2 / 2 >= rho or not _checkable(tree, levels, epsilon, delta, neighbours, accountant):
            levels, mu = gaussian_levels(found, exact(mu))
            return levels, Guarantee("approx", epsilon=gaussian.epsilon_of(mu, delta), delta=float_up(delta), mu=mu), "Gaussian DP"
    elif not _checkable(tree, levels, epsilon, delta, neighbours, accountant):
        rho, accountant = by_zcdp, "zCDP sum"
        levels = levels_at(rho)
    reached, spent = float_up(epsilon), None
    if accountant == "zCDP sum":
        spent = accounting.zcdp_sum(found, levels)
        reached = min(zcdp_epsilon(spent, delta), reached)
    if all(leaf.draw.mechanism.family != "gaussian" for leaf in found.values()):
        pure = accounting.pure_levels(tree, found, epsilon, share)
        gain = sum(float(share[n]) * (_log_epsilon(found[n], pure[n]) - _log_epsilon(found[n], levels[n])) for n in found)
        if gain > -1e-3:  # a tenth of a percent is not worth giving up delta = 0
            return pure, Guarantee("pure", epsilon=float_up(accounting.pure_sum(tree, found, pure)), delta=0.0), "pure sum"
        kinds = {(leaf.draw.mechanism.family, levels[name], leaf.sampling) for name, leaf in found.items()}
        if accountant == "PLD" and len(kinds) == 1 and next(iter(kinds))[0] == "pure" and next(iter(kinds))[2] is None:
            accountant = "optimal composition"
    return (
        levels,
        Guarantee("approx", epsilon=reached, delta=float_up(delta), rho=float_up(spent) if spent is not None else None),
        accountant,
    )


def _checkable(
    tree: Tree, levels: Mapping[str, float], epsilon: Fraction, delta: Fraction, neighbours: Neighbours, accountant: str
) -> bool:
    """Whether the second accountant can recompute distributions of these levels, in bearable time; what it cannot is not stated. At the
    rim (tiny budgets, very many uses, very rare sampling) doubles may fail either accountant, so there it is asked at once."""
    from dpspec.privacy import second

    if accountant != "PLD":
        return True
    if not second.bearable(tree, levels, float(epsilon), float(delta)):
        return False
    uses = sum(block.count for block in blocks(tree))
    rarest = min((block.sampling.rate for block in blocks(tree) if block.sampling is not None), default=1.0)
    if epsilon >= Fraction(1, 10**6) and uses <= 10**5 and rarest >= 1e-6:
        return True
    if not second.bearable(tree, levels, float(epsilon), float(delta), 5e5):
        return False
    stated = Guarantee("approx", epsilon=float_up(epsilon), delta=float_up(delta))
    try:
        second.recheck(Calibrated(tree, levels, stated, accountant, neighbours))
    except (second.AccountingMismatch, ArithmeticError, ValueError, MemoryError):
        return False
    return True


def _log_epsilon(leaf: Leaf, level: float) -> float:
    return -math.log(level) if leaf.draw.mechanism.family == "laplace" else math.log(level)


def _start(found: Mapping[str, Leaf], share: Mapping[str, Fraction], by_zcdp: Fraction, budget_epsilon: Fraction, delta: Fraction) -> float:
    """log of a first rho: the one at which the draws spend about the mu^2 of zCDP, a sampled use q^2 (e^(1/z^2) - 1) as in the central
    limit and any other use 1/z^2 = 2*rho*share/count (no guarantee rests on it)."""
    target = 2 * float(by_zcdp)
    normal = gaussian.mu_of(budget_epsilon, delta) ** 2
    if normal > 4 * target:  # delta pays for more than epsilon does, which zCDP does not see
        target = normal
    parts = [
        (leaf.count, float(leaf.sampling.rate) if leaf.sampling is not None and accounting.is_sampled(leaf) else 1.0, float(share[name]))
        for name, leaf in found.items()
    ]

    def spends(log_rho: float) -> float:
        each = [(count, rate, min(2 * math.exp(log_rho) * part / count, 500.0)) for count, rate, part in parts]
        return sum(count * (rate * rate * math.expm1(z) if rate < 1 else z) for count, rate, z in each)

    low = math.log(float(by_zcdp))
    high = low + 60.0
    if spends(low) >= 0.999 * target:
        return low
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if spends(middle) < target else (low, middle)
    return max(low + math.log(0.8), math.log(float(by_zcdp)))
