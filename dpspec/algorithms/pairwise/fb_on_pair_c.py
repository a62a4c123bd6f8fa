"""Online pairwise learning with a buffer of s records, the released point fed back, and an added ridge (FBOnPairC, central model).

    w_q = argmin over the set of <g_q + noise, w> + r(w) + alpha/2 |w - w_0|^2 + A (q + c - 1)/2 |w - w_{q-1}|^2,
    g_q = 1/(b |B_q|) sum over the b records t of block q and i in B_q of grad phi(w_{q-1}; z_t, z_i).

B_q is the buffer before the block: the last s records (``fifo``), or the reservoir RS-x (``rs-x``,
:mod:`dpspec.algorithms.pairwise.rs_x`). Time and memory O(n s d). A record moves its own block's gradient by S/b and each later one by S
times its share m/|B| of the places, so a transcript is Gaussian-DP with A_i^2 = 1/b^2 + sum_q (m_q/|B_q|)^2, maximised over the records
for the buffer that the run really has: its coins are public numbers of the plan. Derived, with the regret, in
:mod:`dpspec.algorithms.pairwise._stream`. FIFO has A^2 = 1/b^2 + 1/(s b); under RS-x some record stays for most of the stream, and A^2 is
up to n/(b s^2) and more.

Source: 000, section 3.3.2, Algorithms 3.3.11 to 3.3.13, Theorem 3.3.4. Differences: those of on-pair-c; and FIFO, which the text names,
is the default, because it needs the least noise where records come in no particular order. Sorted data are for RS-x.
"""

from __future__ import annotations

from typing import Any

from dpspec.algorithms.card import Bound, Card, Fault, Need, Problem, Source, Tunable, Tunables
from dpspec.algorithms.estimate import Published
from dpspec.algorithms.formulas import STRENGTH, STRENGTH_SOURCE
from dpspec.algorithms.pairwise import _stream
from dpspec.algorithms.pairwise._printed import chain
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

ONLINE = True

_STRONG = "tests/algorithms/pairwise/test_fb_on_pair_str_c.py::"
_OFFLINE = "tests/algorithms/pairwise/test_off_pair_c.py::"

CARD = Card(
    id="fb-on-pair-c",
    title="Online pairwise learning with a buffer and an added ridge",
    family="pairwise",
    task="minimise-pairwise",
    models=("central",),
    guarantees=("approx", "zcdp", "gdp"),
    sources=(Source("000", "3.3.2", "Algorithm 3.3.13 (with 3.3.11 and 3.3.12)", ("Theorem 3.3.4",)),),
    summary="Each block of records takes one noisy gradient step against a buffer of s earlier records from the released point.",
    needs=(
        Need("lipschitz", "privacy", "the gradient of every pair has l2 norm at most L on the set"),
        Need("convex", "utility", "the loss of a pair is convex in w"),
    ),
    tunables={
        "reach": _stream.REACH,
        "strength": Tunable(STRENGTH, STRENGTH_SOURCE),
        "every": _stream.EVERY,
        "size": _stream.SIZE,
        "T_1": _stream.T_1_BUFFER,
        "coins": _stream.COINS,
        "alpha": _stream.ALPHA,
        "shift": _stream.shift("alpha + lam"),
        "tail": _stream.TAIL,
    },
    options={"buffer": ("fifo", "rs-x")},
    bounds=(
        Bound(
            "buffer-regret",
            "explicit",
            "upper",
            "(first*L*D + every*(A*c*D^2/2 + (L^2 + d*scale^2)/(2*A)*H + Q*ridge*D^2/2))/(n - 1)",
            "proved",
            _stream.THEOREM,
            conditions="mean over the buffer's penalties, for every sequence of records, in expectation over the noise",
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
            "C*(B^2*L^2*D^2*sqrt(d)*log(n/zeta)^(3/2)*sqrt(log(1/delta))/(n^(1/4)*epsilon) + L*D*sqrt(d*log(n/zeta)/size))",
            "claimed",
            "000 Theorem 3.3.4 with Lemma 3.3.4 (left-hand sides of (3.114) and (3.115) put right)",
            probability="1 - zeta",
            conditions="of the hidden chain, which is not private at the printed noise; RS-x; C_d of the document read as L*D*sqrt(d)",
        ),
    ),
    faults=(
        Fault(
            "000 Theorem 3.3.4: FBOnPairC is (epsilon, delta)-DP by the proof of Theorem 3.3.1",
            "not for the chain without noise, of which that proof speaks: a record stays in the buffer for a part of the stream",
            _STRONG + "test_the_hidden_chain_breaks_its_guarantee",
            "privacy",
        ),
        Fault(
            "000 section 3.3.5: raw features, and G, B of the loss without its ridge",
            "records are enforced to lie in the declared set, each by itself, and the ridge cancels between pairs",
            _OFFLINE + "test_raw_features_break_the_printed_sensitivity",
            "privacy",
        ),
        Fault(
            "000, line before Theorem 3.3.4's last case: L + alpha |C| for the smoothness",
            "that is the Lipschitz constant's; the smoothness of the loss with the ridge is L_s + alpha",
            "tests/algorithms/pairwise/test_fb_on_pair_c.py::test_the_ridge_adds_alpha_to_the_smoothness",
            "text",
        ),
    ),
    margins="several",
    cost={"gradients": "n*size", "rounds": "n/every", "memory_bytes": "8*size*(d + 2)"},
    spec="specs/pairwise/fb-on-pair-c.dps",
)


def published(p: Problem, t: Tunables, budget: Any) -> tuple[Published, ...]:
    """The printed noise with the released point fed back, and on the hidden chain, and what each really spends."""
    return chain(p, t, budget, "000 Algorithm 3.3.13", _stream.strength_of(p, t), float(t.alpha))
