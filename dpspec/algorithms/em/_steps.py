"""What the private gradient EM algorithms share: the robust mean of gradients, the public start, and what the documents say of both."""

from __future__ import annotations

import math
from typing import Any, Final, Protocol

import numpy as np

from dpspec.algorithms import sums
from dpspec.algorithms.card import Fault, Need, Problem, Tunable, Tunables
from dpspec.models.door import Door
from dpspec.models.rows import Rows
from dpspec.numeric import robust

_EVIDENCE = "tests/algorithms/em/test_dp_gradient_em_full.py::"

NEEDS: Final = (
    Need("x", "privacy", "a record has bounded influence", enforced_by="the kernel is bounded whatever a record's gradient is"),
    Need("signal-to-noise", "utility", "|beta*| is large against sigma: EM contracts around beta*"),
    Need("start", "utility", "the start is within |beta*|/8 of beta* or -beta* (gmm; |beta*|/64 for regressions)"),
)
START: Final = ("random", "diagonal")
ETA: Final = Tunable("1", "2/(smoothness + strong concavity), both 1 for these models (000 Theorem 7.2.3)", minimum=1e-6, maximum=1.0)
ROUNDS: Final = "ceil(2 + log(n)/2 + log(1/kappa)/log(2))"
ZETA: Final = Tunable("1/20", "the probability that the bound fails", minimum=1e-12, maximum=0.5)
TAU: Final = Tunable("gradient_moment else gradient_sd^2", "second moment of a gradient's coordinate; only bounds use it", minimum=1e-200)
RADIUS: Final = Tunable("signal_to_noise*sigma else 2*sigma", "length of the start", minimum=1e-100, maximum=1e100)
FAULTS: Final = (
    Fault(
        "000 Algorithm 7.2.56, 002 Algorithm 2: the closed form bounds the influence of a record",
        "not in doubles: it cancels for large entries and is NaN for tiny, huge and missing ones, and NaN plus noise is NaN",
        "tests/algorithms/sparse/test_robust.py::test_the_bare_closed_form_breaks_its_bound",
        "privacy",
    ),
    Fault(
        "000 Algorithm 7.2.56, 002 Algorithm 2: tau and beta_0 are inputs; Assumption 7.2.1: known",
        "computed from the records they are releases that nobody pays for: here s, tau and the start are public",
        _EVIDENCE + "test_a_start_from_the_records_would_show_them",
        "privacy",
    ),
    Fault(
        "002 section 6, Figure 8: classes of equal size, shifted by the midpoint of their means; sigma and beta* from the same records",
        "one record moves all of them, so the sensitivity of a mean is that of another data set: here constants of `encode` and sigma",
        _EVIDENCE + "test_a_shift_by_the_records_moves_all_of_them",
        "privacy",
    ),
    Fault(
        "000 (7.45), (7.47), 002 (5), (7): w = 1/(1 + exp(-<beta, y>/sigma^2))",
        "the posterior has 2<beta, y>/sigma^2; the printed step ends elsewhere, and at 0 for signal-to-noise ratios up to 1",
        _EVIDENCE + "test_the_printed_posterior_is_not_self_consistent",
        "utility",
    ),
    Fault(
        "000 Lemma 7.2.4, 002 Lemma 4: tau = O(|beta*|_inf^2 + sigma^2) for all beta of the ball",
        "the mean of a gradient alone may be kappa |beta*|_2 in one coordinate; at the truth it is sigma^2 (here, derived)",
        _EVIDENCE + "test_a_gradient_at_the_truth_spreads_by_at_most_sigma",
        "utility",
    ),
    Fault(
        "000 section 7.2.7, 002 section 6: |beta - beta*| with a random start",
        "half of the starts end at -beta*: measured up to sign",
        _EVIDENCE + "test_half_of_the_random_starts_end_at_the_other_sign",
        "text",
    ),
)


class Model(Protocol):
    """What is asked of the latent model."""

    def gradients(self, beta: Any, x: Any, y: Any) -> Any:
        """The gradient of each record's Q(.; beta) at beta, (rows, d), a function of the record and of beta alone."""


def refusal(p: Problem) -> str | None:
    if "components" in p.facts:
        return "it fits two components of opposite means; components with means of their own are fitted by dp-em"
    return None if "sigma" in p.facts else "the noise level of the model is not stated: sigma = 0.5 in the data section"


def sensitivity(p: Problem, t: Tunables, n: int) -> float:
    """l2 distance between neighbours of the robust mean of the gradients of ``n`` records (of the public number of them): each entry of a
    record's part lies in [-cap, cap] s/n whatever the record holds, and a zeroed record still has the gradient of 0."""
    moved = 1.0 if p.neighbours == "add-remove" else 2.0
    exact = moved * robust.supremum(t.b) * t.s * math.sqrt(p.d) / n
    return sums.sensitivity(exact, n, moved, hidden=p.neighbours == "add-remove")


def start(p: Problem, t: Tunables, release: Door) -> Any:
    """A public vector of length ``radius``."""
    direction = np.ones(p.d) if t.start == "diagonal" else release.public.generator("start").standard_normal(p.d)
    return direction * (t.radius / float(np.linalg.norm(direction)))


def robust_gradient(records: Rows, model: Model, t: Tunables, beta: Any, n: int) -> Any:
    """(s/n) sum kernel(q_i/s), (d,): each record's part is a function of it and of beta alone, cut to [-cap s, cap s] in every entry."""
    total = sums.Sum(records.d)
    for x, y in records.blocks(sums.block_rows(1 << 15, records.d, 64)):
        total.add(robust.column_sums(model.gradients(beta, x, y), None, t.s, t.b))
    return total.value / n


def deviation(p: Problem, t: Tunables, n: int, scale: float) -> float:
    """With probability 1 - zeta every round's noisy mean of n fresh records is this close to the population gradient, in l2: 002 equation
    (36) on both sides of d coordinates and T rounds, and the norm of a Gaussian vector."""
    entry = t.tau * (1 + 1 / t.b) / (2 * t.s) + t.s * (t.b / 2 + math.log(4 * p.d * t.T / t.zeta)) / n
    return float(math.sqrt(p.d) * entry + scale * (math.sqrt(p.d) + math.sqrt(2 * math.log(2 * t.T / t.zeta))))


def contracted(p: Problem, t: Tunables, error: float, eta: float | None = None) -> float | None:
    """Distance to beta* after T rounds that are each within ``error`` of the population's: q^T |start - beta*| + error/(1 - g), q = 1 -
    eta(1 - g), of steps of length t.eta or ``eta``.

    None where it is not known (`start` and `contraction` of the spec), or where iterates may leave the ball of radius kappa |beta*| in
    which tau and the contraction g hold: they stay while the start and error/(1 - g) are inside.
    """
    names = ("contraction", "start_within", "signal_to_noise", "kappa", "sigma")
    if any(name not in p.facts for name in names):
        return None
    g, within, size = p.facts["contraction"], p.facts["start_within"], p.facts["signal_to_noise"] * p.facts["sigma"]
    if not g < 1 or max(within * size, error / (1 - g)) > p.facts["kappa"] * size:
        return None
    eta = t.eta if eta is None else eta
    return float((1 - eta * (1 - g)) ** t.T * within * size + error / (1 - g))
