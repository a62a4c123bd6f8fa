"""Online pairwise learning by noisy gradient steps that feed the released point back, with an added ridge (OnPairC, central model).

    w_q = argmin over the set of <g_q + noise, w> + r(w) + alpha/2 |w - w_0|^2 + A (q + c - 1)/2 |w - w_{q-1}|^2,
    g_q = 1/b sum over the b records t of block q of 1/(t-1) sum_{i<t} grad phi(w_{q-1}; z_t, z_i).

The whole transcript w_0, ..., w_Q is released, each point when its block is complete, and is private as a whole. Sensitivity (replace-one
or zero-out; one record moves its own block's gradient by S/b (1 + a little) and later ones by S/b sum 1/(t-1)), accounting and regret are
derived in :mod:`dpspec.algorithms.pairwise._stream`.

Source: 000, section 3.3.2, Algorithms 3.3.9 and 3.3.10, Theorem 3.3.3. Differences: the released point is fed back, as the pseudo-code
has it; the document's proofs speak of a hidden chain without noise, each iterate of which is released with noise of its own: that costs a
factor of about sqrt((n - T_1)/3) in the noise and needs smoothness and a long start phase. Blocks of b records. The ridge is in the
proximal step, and cancels between pairs, so it is in no sensitivity.
"""

from __future__ import annotations

from typing import Any

from dpspec.algorithms.card import Bound, Card, Fault, Need, Problem, Source, Tunable, Tunables
from dpspec.algorithms.estimate import Published
from dpspec.algorithms.formulas import STRENGTH, STRENGTH_SOURCE
from dpspec.algorithms.pairwise import _stream
from dpspec.algorithms.pairwise._printed import feedback
from dpspec.algorithms.pairwise._stream import accepts, bound_terms, explicit_bounds, influence, predicted, run, schedule, sensitivity

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

#: Serves `privacy central, online`: each point of the transcript is released when its block is complete.
ONLINE = True

_TESTS = "tests/algorithms/pairwise/test_on_pair_c.py::"
_STRONG = "tests/algorithms/pairwise/test_on_pair_str_c.py::"
_OFFLINE = "tests/algorithms/pairwise/test_off_pair_c.py::"

CARD = Card(
    id="on-pair-c",
    title="Online pairwise learning with an added ridge",
    family="pairwise",
    task="minimise-pairwise",
    models=("central",),
    guarantees=("approx", "zcdp", "gdp"),
    sources=(Source("000", "3.3.2", "Algorithm 3.3.10 (with 3.3.9)", ("Theorem 3.3.3", "Theorem 3.3.1")),),
    summary="Each block of records takes one noisy gradient step against all earlier records from the released point; all "
    "points are released.",
    needs=(
        Need("lipschitz", "privacy", "the gradient of every pair has l2 norm at most L on the set"),
        Need("convex", "utility", "the loss of a pair is convex in w"),
    ),
    tunables={
        "reach": _stream.REACH,
        "strength": Tunable(STRENGTH, STRENGTH_SOURCE),
        "every": _stream.EVERY,
        "T_1": _stream.T_1_EARLIER,
        "alpha": _stream.ALPHA,
        "shift": _stream.shift("alpha + lam"),
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
            "C*D*(L*sqrt(1/n) + L*(d*log(1/delta))^(1/4)/sqrt(n*epsilon))",
            "proved",
            "the explicit bound at the best alpha, shift and block",
            conditions="every = sqrt(d log(1/delta))/epsilon or 1",
        ),
        Bound(
            "regret",
            "order",
            "upper",
            "C*B^2*L^2*D^2*sqrt(d)*log(n/zeta)^(3/2)*sqrt(log(1/delta))/(n^(1/4)*epsilon)",
            "claimed",
            "000 Theorem 3.3.3, (3.110) over n",
            probability="1 - zeta",
            conditions="of the hidden chain; a product that stands for a sum, so only where L, B and D are at least 1",
            when=("L >= 1", "B >= 1", "D >= 1"),
            where={"B": "smoothness"},
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
            "000 section 3.3.5: delta = 1/n for n between 40 and 350",
            "to publish a random record is (0, 1/n)-DP: what is stated holds and promises little",
            _OFFLINE + "test_delta_of_one_over_n_publishes_a_record",
            "text",
        ),
        Fault(
            "000 Algorithm 3.3.10: alpha = O(n^(-1/4)), no constant, with T_1 = 16 (B + alpha)^2/alpha^2",
            "at B = 4 no step is taken unless n is above 65,000; with the point fed back no start phase is needed",
            _TESTS + "test_the_printed_start_phase_takes_no_step",
            "utility",
        ),
        Fault(
            "000 Theorem 3.3.3: a regret of n^(3/4)",
            "with the released point fed back, and blocks, it is sqrt(n)",
            _TESTS + "test_the_regret_grows_as_the_square_root",
            "utility",
        ),
        Fault(
            "000 (3.110): L_s^2 G^2 |C|^2 in front",
            "an upper bound of the sum that the proof gives only where every factor is at least 1: it shrinks faster than the sum",
            _TESTS + "test_the_printed_product_is_no_bound_for_small_constants",
            "utility",
        ),
    ),
    margins="several",
    cost={"gradients": "n^2/2", "rounds": "n/every", "memory_bytes": "8*n*(d + 2)"},
    spec="specs/pairwise/on-pair-c.dps",
)


def published(p: Problem, t: Tunables, budget: Any) -> tuple[Published, ...]:
    """The printed noise, read with the released point fed back, and what it really spends."""
    return feedback(p, t, budget, "000 Algorithm 3.3.10", _stream.strength_of(p, t), float(t.alpha))
