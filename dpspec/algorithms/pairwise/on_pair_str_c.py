"""Online pairwise learning on the spec's own ridge by noisy gradient steps that feed the released point back (OnPairStrC, central model).

    w_q = argmin over the set of <g_q + noise, w> + r(w) + lam (q + c - 1)/2 |w - w_{q-1}|^2,
    g_q = 1/b sum over the b records t of block q of 1/(t-1) sum_{i<t} grad phi(w_{q-1}; z_t, z_i).

Derived in :mod:`dpspec.algorithms.pairwise._stream`, with alpha = 0. A loss without a ridge is for on-pair-c.

Source: 000, section 3.3.2, Algorithm 3.3.9, Lemma 3.3.1, Theorems 3.3.1 and 3.3.2. Differences: those of on-pair-c. The document counts
the ridge into G and the strong convexity alike; here the loss of a pair is certified without it.
"""

from __future__ import annotations

from typing import Any

from dpspec.algorithms.card import Bound, Card, Fault, Need, Problem, Source, Tunable, Tunables
from dpspec.algorithms.estimate import Published
from dpspec.algorithms.formulas import STRENGTH, STRENGTH_SOURCE
from dpspec.algorithms.pairwise import _stream
from dpspec.algorithms.pairwise._printed import feedback
from dpspec.algorithms.pairwise._stream import bound_terms, explicit_bounds, influence, predicted, run, schedule, sensitivity

__all__ = [
    "CARD",
    "ONLINE",
    "accepts",
    "bound_terms",
    "explicit_bounds",
    "influence",
    "predicted",
    "published",
    "run",
    "schedule",
    "sensitivity",
]

ONLINE = True

_TESTS = "tests/algorithms/pairwise/test_on_pair_str_c.py::"
_OFFLINE = "tests/algorithms/pairwise/test_off_pair_c.py::"

CARD = Card(
    id="on-pair-str-c",
    title="Online pairwise learning with a ridge",
    family="pairwise",
    task="minimise-pairwise",
    models=("central",),
    guarantees=("approx", "zcdp", "gdp"),
    sources=(Source("000", "3.3.2", "Algorithm 3.3.9", ("Lemma 3.3.1", "Theorem 3.3.1", "Theorem 3.3.2")),),
    summary="Each block of records takes one noisy gradient step of the spec's strong convexity from the released point; all are released.",
    needs=(
        Need("lipschitz", "privacy", "the gradient of every pair has l2 norm at most L on the set"),
        Need("convex", "utility", "the loss of a pair is convex in w"),
        Need("strongly-convex", "utility", "the loss has a ridge lam/2*|w|^2, which sets the steps"),
    ),
    tunables={
        "reach": _stream.REACH,
        "strength": Tunable(STRENGTH, STRENGTH_SOURCE),
        "every": _stream.EVERY,
        "T_1": _stream.T_1_EARLIER,
        "shift": _stream.shift("lam"),
        "tail": _stream.TAIL,
    },
    bounds=(
        Bound(
            "regret",
            "explicit",
            "upper",
            "(first*L*D + every*(A*c*D^2/2 + (L^2 + d*scale^2)/(2*A)*H + Q*ridge*D^2/2))/(n - 1)",
            "proved",
            _stream.THEOREM,
            conditions="mean over the penalties of all sequences of records, in expectation over the noise",
            where={
                "first": "records of the start phase, less one",
                "A": "strength: lam, or alpha + lam",
                "ridge": "what is added to lam, alpha or 0",
                "c": "shift of the steps",
                "Q": "blocks after the start phase",
                "H": "sum over j < Q of 1/(j + c), at most log((Q + c)/c) + 1/c",
            },
        ),
        Bound(
            "regret",
            "order",
            "upper",
            "C*L^2*log(n)/(lam*n)*(1 + sqrt(d*log(1/delta))/epsilon)",
            "proved",
            "the explicit bound at the best block",
            conditions="every = sqrt(d log(1/delta))/epsilon or 1",
        ),
        Bound(
            "regret",
            "order",
            "upper",
            "C*(L^2*sqrt(d)*log(n/zeta)^(3/2)*sqrt(log(1/delta))/(lam*epsilon*sqrt(n)) + L*B^2/lam^2*D/n + L^2*log(n)/(lam*n))",
            "claimed",
            "000 Theorem 3.3.2, (3.108) over n",
            probability="1 - zeta",
            conditions="of the hidden chain",
        ),
    ),
    faults=(
        Fault(
            "000 section 3.3.5: raw features, and G, B of the loss without its ridge",
            "records are enforced to lie in the declared set, each by itself, and the ridge cancels between pairs",
            _OFFLINE + "test_raw_features_break_the_printed_sensitivity",
            "privacy",
        ),
        Fault(
            "000 section 3.3.5: delta = 1/n for n between 40 and 90",
            "to publish a random record is (0, 1/n)-DP: what is stated holds and promises little",
            _OFFLINE + "test_delta_of_one_over_n_publishes_a_record",
            "text",
        ),
        Fault(
            "000 Lemma 3.3.1, first case: eta_t G for the step that reads the replaced record",
            "two gradients of length G are up to 2 G apart; what is concluded, 8 G/(alpha t), holds all the same, and so "
            "does the guarantee",
            _OFFLINE + "test_the_first_case_of_the_lemma_is_short_by_two",
            "text",
        ),
        Fault(
            "000 Algorithm 3.3.9, steps 11 to 13: w_t is the iterate without noise and the released point",
            "two algorithms: the proofs speak of a hidden chain; with the released point fed back, as here, the printed noise spends a "
            "share of about 3/(n - T_1) of its budget",
            _TESTS + "test_what_the_printed_noise_spends_with_the_point_fed_back",
            "utility",
        ),
        Fault(
            "000 Algorithm 3.3.9: T_1 = max(ceil(16 L_s^2/alpha^2), 7), with alpha = 1e-3 and n <= 90 in section 3.3.5",
            "T_1 is 2.6e8 and no step is taken, and sigma_n is above 1000 a coordinate; feedback needs no start phase",
            _TESTS + "test_the_printed_experiment_takes_no_step",
            "utility",
        ),
    ),
    margins="several",
    cost={"gradients": "n^2/2", "rounds": "n/every", "memory_bytes": "8*n*(d + 2)"},
    spec="specs/pairwise/on-pair-str-c.dps",
)


def accepts(p: Problem, t: Tunables) -> str | None:
    if p.loss is not None and not p.loss.l2 > 0:
        return "the loss has no ridge term lam/2*|w|^2, which sets its steps (on-pair-c adds one)"
    return _stream.accepts(p, t)


def published(p: Problem, t: Tunables, budget: Any) -> tuple[Published, ...]:
    """The printed noise, read with the released point fed back, and what it really spends."""
    return feedback(p, t, budget, "000 Algorithm 3.3.9", _stream.strength_of(p, t), 0.0)
