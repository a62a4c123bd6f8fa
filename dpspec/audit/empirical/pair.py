"""Audit from two sets of outputs: one of a mechanism on some input, one on a neighbouring input."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dpspec.audit.empirical import diagnose
from dpspec.audit.empirical.binomial import (
    Counts,
    clopper_pearson_epsilon,
    delta_lower,
    dp_curve,
    epsilon_lower,
    evidence,
    gdp_curve,
    lower_bound,
    mu_lower,
    refutes,
    upper_bound,
)
from dpspec.audit.empirical.events import Aim, Event, choose_event
from dpspec.audit.empirical.result import Claim, EmpiricalResult, check_confidence
from dpspec.audit.empirical.samples import as_matrix, check_pair, encode, fit_coding
from dpspec.audit.empirical.statistics import AUTO, candidates
from dpspec.spec.diagnostics import Diagnostic

Floats = npt.NDArray[np.float64]

TRAIN_SHARE = 0.3
TRAIN_MOST = 20_000
RESERVE = 10  # of the stated error only this part is spent, see audit_pair
_THOROUGH = (*AUTO, "boosting")


def audit_pair(
    sample_a: Any,
    sample_b: Any,
    *,
    delta: float = 0.0,
    confidence: float = 0.99,
    claim: float | None = None,
    mu: float | None = None,
    statistics: str | Iterable[str] = "auto",
    seed: int = 0,
) -> EmpiricalResult:
    """A lower bound of the epsilon that a mechanism really has, from its outputs on two neighbouring inputs.

    sample_a, sample_b: (n_a, width) and (n_b, width), one independent run a row; numbers, labels or a mix; n scalars or ragged outputs
    are accepted. claim: the stated epsilon at ``delta``; mu: the stated Gaussian-DP parameter, instead. statistics: ``auto``,
    ``thorough`` (adds boosted trees) or family names of :mod:`dpspec.audit.empirical.statistics`. seed: shuffles the rows before the
    split, nothing else.

    The first part of the runs (30 %, at most 20,000 a side) chooses one event and its direction; the bound counts it on the rest
    (:mod:`dpspec.audit.empirical.binomial`), so no correction over statistics is due. Verdict ``violated`` only if the claim is rejected at
    the confidence, else ``not-certified``.

    The bound is exact, and mechanisms often meet their claim with equality, so an error of 1 - confidence would really be made: one
    correct mechanism in a hundred accused at 0.99. An accusation should be rarer than that, and rounding in the audited sampler is not in
    the model either. So a tenth of the error is spent, the rest is reserve; ``error`` in the result says what was spent.

    Raises SpecError: DP653 (samples), DP659 (parameters); ValueError for an unknown statistic.
    """
    statement = Claim(None if mu is not None and claim is None else claim, delta, mu)
    return audit_samples_pair(
        sample_a, sample_b, statement, confidence=confidence, alpha=(1 - confidence) / RESERVE, statistics=statistics, seed=seed
    )


def audit_samples_pair(
    sample_a: Any, sample_b: Any, claim: Claim, *, confidence: float, alpha: float, statistics: str | Iterable[str], seed: int
) -> EmpiricalResult:
    """As :func:`audit_pair` with the error of this pair, ``alpha``, given apart (a share of 1 - confidence when several pairs are
    tested)."""
    check_confidence(confidence)
    a, b = as_matrix(sample_a), as_matrix(sample_b)
    check_pair(a, b)
    suspicions = _dependence(a, b)
    rng = np.random.default_rng(seed)
    a, b = a[rng.permutation(len(a))], b[rng.permutation(len(b))]
    train = min(max(20, math.ceil(TRAIN_SHARE * min(len(a), len(b)))), TRAIN_MOST)
    coding = fit_coding(a[:train], b[:train])
    ta, tb = encode(coding, a[:train]), encode(coding, b[:train])
    n_test = min(len(a), len(b)) - train
    families = AUTO if statistics == "auto" else _THOROUGH if statistics == "thorough" else tuple(statistics)
    event = choose_event(candidates(families, ta, tb), ta, tb, aim_of(claim, alpha, n_test))
    n = min(len(a), len(b))
    if event is None:
        return _nothing(claim, confidence, n, n_test, suspicions)
    ka, kb = event.hits(encode(coding, a[train:])), event.hits(encode(coding, b[train:]))
    na, nb = len(a) - train, len(b) - train
    counts = Counts(ka, na, kb, nb) if event.likelier == "a" else Counts(kb, nb, ka, na)
    return conclude(
        event, counts, claim, confidence=confidence, alpha=alpha, samples=n, coupled=suspicions.coupled, extra=suspicions.diagnostics
    )


def conclude(
    event: Event,
    counts: Counts,
    claim: Claim,
    *,
    confidence: float,
    alpha: float,
    samples: int,
    coupled: bool = False,
    extra: tuple[Diagnostic, ...] = (),
) -> EmpiricalResult:
    """The bounds from held-out counts of an event chosen elsewhere. ``coupled``: the two sides may depend on each other, then each
    probability is bounded by itself (Clopper-Pearson), which needs no independence between the sides."""
    claimed = 0.0 if claim.epsilon is None else claim.epsilon
    least_mu: float | None = None
    if coupled:
        low, high = lower_bound(counts.k_p, counts.n_p, alpha / 2), upper_bound(counts.k_q, counts.n_q, alpha / 2)
        eps = max(0.0, clopper_pearson_epsilon(counts, claim.delta, alpha))
        least_delta = max(0.0, low - math.exp(min(claimed, 700.0)) * high)
        if claim.mu is not None:
            least_mu = _mu(low, high)
    else:
        e = evidence(counts, alpha=alpha, order_delta=claim.delta if claim.mu is None else _intercept(claim.mu, event.rare))
        eps = epsilon_lower(e, claim.delta)
        if claim.epsilon is not None and eps <= claim.epsilon < eps + 0.1 and refutes(e, dp_curve(claim.epsilon + 1e-9, claim.delta)):
            eps = claim.epsilon + 1e-9  # refuted, by less than the resolution of the search
        least_delta = delta_lower(e, claimed) if claim.epsilon is not None else 0.0
        if claim.mu is not None:
            least_mu = mu_lower(e, start=claim.mu)
    broken = eps > claimed if claim.mu is None or least_mu is None else least_mu > claim.mu
    broken = broken and claim.stated
    found: list[Diagnostic] = list(extra)
    if broken:
        bound = f"mu >= {least_mu:.4g}" if claim.mu is not None else f"epsilon >= {eps:.4g}"
        found.append(
            diagnose.violated(
                f"{claim.text()} is refuted at confidence {confidence:g}: {bound} by the event '{event.text()}' "
                f"({counts.k_p} of {counts.n_p} runs against {counts.k_q} of {counts.n_q})"
            )
        )
    else:
        found.append(diagnose.not_certified(f"no violation found: epsilon >= {eps:.4g} at confidence {confidence:g}, {claim.text()}"))
        if claim.stated and not _could_refute(counts.n_p, counts.n_q, claim, alpha):
            found.append(diagnose.too_few(f"{counts.n_p} held-out runs cannot refute {claim.text()} at confidence {confidence:g}"))
    return EmpiricalResult(
        epsilon_lower=eps,
        confidence=confidence,
        samples=samples,
        statistic=event.statistic,
        claim=claim,
        verdict="violated" if broken else "not-certified",
        event=event.text(),
        likelier=event.likelier,
        tested=min(counts.n_p, counts.n_q),
        hits=counts.k_p,
        misses=counts.k_q,
        delta_lower=None if claim.epsilon is None else least_delta,
        mu_lower=least_mu,
        error=alpha,
        diagnostics=tuple(found),
    )


def _intercept(mu: float, q: float) -> float:
    """Where the tangent at q of the trade-off curve of mu-GDP meets q = 0: near there the curve is the line of an (epsilon, delta)
    statement."""
    from scipy.special import ndtr, ndtri

    x = float(ndtri(q))
    slope = math.exp(min(x * x / 2 - (x + mu) ** 2 / 2, 700.0))
    return min(0.999, max(0.0, float(ndtr(x + mu)) - slope * q))


def _mu(p: float, q: float) -> float:
    from scipy.special import ndtri

    return max(0.0, float(ndtri(min(max(p, 1e-12), 1 - 1e-12)) - ndtri(min(max(q, 1e-12), 1 - 1e-12))))


def _normal_quantile(alpha: float) -> float:
    from scipy.special import ndtri

    return float(-ndtri(alpha))


def aim_of(claim: Claim, alpha: float, n_test: int) -> Aim:
    gaussian = claim.mu is not None
    return Aim(claim.mu if gaussian else claim.epsilon, claim.delta, max(2.0, _normal_quantile(alpha)), n_test, gaussian)


def _could_refute(n_p: int, n_q: int, claim: Claim, alpha: float) -> bool:
    """Whether an event seen in all runs on one side and in none on the other would refute the claim."""
    epsilon = claim.epsilon or 0.0
    e = evidence(Counts(n_p, n_p, 0, n_q), alpha=alpha, order_delta=claim.delta)
    return refutes(e, dp_curve(epsilon, claim.delta) if claim.mu is None else gdp_curve(claim.mu))


def _nothing(claim: Claim, confidence: float, samples: int, tested: int, suspicions: _Suspicions) -> EmpiricalResult:
    note = diagnose.not_certified("every statistic is constant over all training runs of both inputs: nothing tells them apart")
    lower = None if claim.epsilon is None else 0.0
    return EmpiricalResult(
        0.0, confidence, samples, "none", claim, "not-certified", tested=tested, delta_lower=lower, error=0.0,
        diagnostics=(*suspicions.diagnostics, note),
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Suspicions:
    coupled: bool
    diagnostics: tuple[Diagnostic, ...]


def _dependence(a: npt.NDArray[Any], b: npt.NDArray[Any]) -> _Suspicions:
    """Signs of reused randomness: rows of a continuous law that recur, sides that move together row by row."""
    try:
        x, y = np.asarray(a[:, 0], dtype=float), np.asarray(b[:, 0], dtype=float)
    except (TypeError, ValueError):
        return _Suspicions(False, ())
    found: list[Diagnostic] = []
    for side, column in (("first", x), ("second", y)):
        if _recurs(column):
            found.append(diagnose.repeated(f"the outputs on the {side} input recur in the same order, to the last digit"))
    n = min(len(x), len(y), 20_000)
    coupled = False
    u, v = (np.nan_to_num(w[:n], posinf=1e100, neginf=-1e100) for w in (x, y))
    if min(len(np.unique(u)), len(np.unique(v))) > 1 and max(len(np.unique(u)), len(np.unique(v))) > 2:
        u, v = (np.argsort(np.argsort(w, kind="stable"), kind="stable").astype(float) for w in (u, v))
        coupled = abs(float(np.corrcoef(u, v)[0, 1])) * math.sqrt(n) > 6
    if coupled:
        found.append(
            diagnose.repeated("row i of one input moves with row i of the other: the two sides share randomness; a weaker bound is used")
        )
    return _Suspicions(coupled, tuple(found))


def _recurs(x: Floats) -> bool:
    """Whether equal outputs are mostly followed by equal outputs, in a law of many values: a stretch of noise was used again."""
    values, inverse = np.unique(x, return_inverse=True)
    if len(values) < max(20, 0.02 * len(x)):
        return False
    order = np.argsort(inverse, kind="stable")
    i, j = order[:-1], order[1:]
    twins = (inverse[i] == inverse[j]) & (j < len(x) - 1)
    if np.count_nonzero(twins) < 0.2 * len(x):
        return False
    return bool(np.mean(inverse[i[twins] + 1] == inverse[j[twins] + 1]) > 0.5)
