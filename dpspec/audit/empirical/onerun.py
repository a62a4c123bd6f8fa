"""Audit from one run with many canaries (Steinke, Nasr and Jagielski 2023, "Privacy auditing with one (1) training run", theorem 3.1 and
section 4).

Each of m canaries is put in or left out by its own fair coin; the mechanism runs once; a score is computed for each canary from the
output (large: "was in"). The r canaries with the most extreme scores are guessed, the others abstained from. If the mechanism is
(epsilon, delta)-DP for one canary more or less, the number of right guesses W among r obeys

    P[W >= v] <= f(v) + 2 m delta max_{1 <= i <= v} (f(v - i) - f(v)) / i,    f(v) = P[Binomial(r, e^eps / (e^eps + 1)) >= v].

r must not depend on who was in: the numbers of guesses tried are fixed in advance and share the error evenly.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from dpspec.audit.empirical import diagnose
from dpspec.audit.empirical.result import Claim, EmpiricalResult, check_confidence
from dpspec.spec.diagnostics import Diagnostic


def guess_tail(right: int, guesses: int, canaries: int, epsilon: float, delta: float) -> float:
    """The most that P[at least ``right`` of ``guesses`` are right] can be under (epsilon, delta)-DP with ``canaries`` canaries, at most
    1."""
    from scipy.special import bdtrc, xlogy
    from scipy.special import gammaln as lg

    if right <= 0:
        return 1.0
    q = 1 / (1 + math.exp(-epsilon))
    beyond = float(bdtrc(right - 1, guesses, q))
    if delta == 0:
        return min(1.0, beyond)
    k = np.arange(right - 1, -1, -1, dtype=float)  # right - i for i = 1 .. right
    n = float(guesses)
    pmf = np.exp(lg(n + 1) - lg(k + 1) - lg(n - k + 1) + xlogy(k, q) + xlogy(n - k, 1 - q))
    slope = float(np.max(np.cumsum(pmf) / np.arange(1, right + 1)))
    return min(1.0, beyond + 2 * canaries * delta * slope)


def one_run_epsilon(right: int, guesses: int, canaries: int, delta: float, alpha: float) -> float:
    """The largest epsilon refuted at level ``alpha`` by ``right`` right guesses; 0 when none is."""
    if guess_tail(right, guesses, canaries, 0.0, delta) > alpha:
        return 0.0
    low, high = 0.0, 40.0
    while high - low > 1e-6:
        mid = (low + high) / 2
        low, high = (mid, high) if guess_tail(right, guesses, canaries, mid, delta) <= alpha else (low, mid)
    return low


def audit_one_run(
    scores: npt.ArrayLike,
    included: npt.ArrayLike,
    *,
    delta: float = 0.0,
    confidence: float = 0.99,
    claim: float | None = None,
    guesses: int | tuple[int, ...] | None = None,
    one_sided: bool = False,
) -> EmpiricalResult:
    """A lower bound of epsilon from one run.

    scores: (m,), large where the output suggests that the canary was in. included: (m,) booleans, the coins. guesses: how many canaries
    are guessed, half from each end of the scores (all 'in' with ``one_sided``); several numbers share the error evenly; by default m/20,
    m/5 and all m (m/2 when one-sided). They may depend on m and the scores, never on ``included``. Ties are broken by position.

    Valid for add/remove of a canary, or for replacing it by nothing. Raises SpecError: DP653 (lengths, scores not finite), DP659.
    """
    check_confidence(confidence)
    statement = Claim(claim, delta)
    s, coins = np.asarray(scores, dtype=float), np.asarray(included)
    if s.ndim != 1 or s.shape != coins.shape or len(s) == 0:
        raise diagnose.unusable(f"scores of shape {s.shape} and inclusions of shape {coins.shape}: two arrays of one length are needed")
    if np.isnan(s).any() or not np.isin(coins, (0, 1)).all():
        raise diagnose.unusable("scores must be numbers and inclusions true or false")
    inside = coins.astype(bool)
    m = len(s)
    whole = m // 2 if one_sided else m
    tries = _numbers_of_guesses(guesses, whole)
    order = np.argsort(-s, kind="stable")
    best: tuple[float, int, int] | None = None
    for r in tries:
        top = r if one_sided else (r + 1) // 2
        right = int(inside[order[:top]].sum() + (~inside[order[m - (r - top) :]]).sum()) if r > top else int(inside[order[:top]].sum())
        eps = one_run_epsilon(right, r, m, delta, (1 - confidence) / len(tries))
        if best is None or eps > best[0]:
            best = (eps, right, r)
    if best is None:
        raise diagnose.unusable("no guesses")
    eps, right, r = best
    broken = claim is not None and eps > claim
    found: list[Diagnostic] = []
    if abs(2 * int(inside.sum()) - m) > 4.9 * math.sqrt(m):
        found.append(diagnose.unbalanced(f"{int(inside.sum())} of {m} canaries were in"))
    if broken:
        found.append(
            diagnose.violated(
                f"{statement.text()} is refuted at confidence {confidence:g}: epsilon >= {eps:.4g}, {right} of {r} guesses right"
            )
        )
    else:
        found.append(
            diagnose.not_certified(f"no violation found: epsilon >= {eps:.4g} at confidence {confidence:g}, {right} of {r} guesses right")
        )
        if claim is not None and one_run_epsilon(max(tries), max(tries), m, delta, (1 - confidence) / len(tries)) <= claim:
            found.append(
                diagnose.too_few(
                    f"{m} canaries cannot refute {statement.text()} at confidence {confidence:g}, even if every guess were right"
                )
            )
    return EmpiricalResult(
        epsilon_lower=eps,
        confidence=confidence,
        samples=m,
        statistic="one run, canary guesses",
        claim=statement,
        verdict="violated" if broken else "not-certified",
        event=f"at least {right} of {r} guesses right",
        likelier="a",
        tested=r,
        hits=right,
        misses=r - right,
        error=1 - confidence,
        diagnostics=tuple(found),
    )


def _numbers_of_guesses(guesses: Any, whole: int) -> tuple[int, ...]:
    wanted = (
        (max(1, whole // 20), max(1, whole // 5), whole) if guesses is None else (guesses,) if isinstance(guesses, int) else tuple(guesses)
    )
    if not wanted or min(wanted) < 1 or max(wanted) > max(1, whole):
        raise diagnose.bad_parameter(f"numbers of guesses {wanted} among {whole}")
    return tuple(sorted(set(wanted)))
