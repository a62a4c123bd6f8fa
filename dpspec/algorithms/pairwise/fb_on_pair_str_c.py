"""Online pairwise learning with a buffer of s records on the spec's own ridge, the released point fed back (FBOnPairStrC, central model).

    w_q = argmin over the set of <g_q + noise, w> + r(w) + lam (q + c - 1)/2 |w - w_{q-1}|^2,
    g_q = 1/(b |B_q|) sum over the b records t of block q and i in B_q of grad phi(w_{q-1}; z_t, z_i).

fb-on-pair-c with alpha = 0; derived in :mod:`dpspec.algorithms.pairwise._stream`. A loss without a ridge is for fb-on-pair-c.

Source: 000, section 3.3.2, Algorithms 3.3.11 and 3.3.12, Lemmas 3.3.3 and 3.3.4, Theorem 3.3.4. Differences: those of fb-on-pair-c.
"""

from __future__ import annotations

from typing import Any

from dpspec.algorithms.card import Bound, Card, Fault, Need, Problem, Source, Tunable, Tunables
from dpspec.algorithms.estimate import Published
from dpspec.algorithms.formulas import STRENGTH, STRENGTH_SOURCE
from dpspec.algorithms.pairwise import _stream
from dpspec.algorithms.pairwise._printed import chain
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

_TESTS = "tests/algorithms/pairwise/test_fb_on_pair_str_c.py::"
_OFFLINE = "tests/algorithms/pairwise/test_off_pair_c.py::"

CARD = Card(
    id="fb-on-pair-str-c",
    title="Online pairwise learning with a buffer and a ridge",
    family="pairwise",
    task="minimise-pairwise",
    models=("central",),
    guarantees=("approx", "zcdp", "gdp"),
    sources=(Source("000", "3.3.2", "Algorithm 3.3.12 (with 3.3.11)", ("Lemma 3.3.3", "Lemma 3.3.4", "Theorem 3.3.4")),),
    summary="Each block of records takes one noisy gradient step of the spec's strong convexity against a buffer of s earlier records.",
    needs=(
        Need("lipschitz", "privacy", "the gradient of every pair has l2 norm at most L on the set"),
        Need("convex", "utility", "the loss of a pair is convex in w"),
        Need("strongly-convex", "utility", "the loss has a ridge lam/2*|w|^2, which sets the steps"),
    ),
    tunables={
        "reach": _stream.REACH,
        "strength": Tunable(STRENGTH, STRENGTH_SOURCE),
        "every": _stream.EVERY,
        "size": _stream.SIZE,
        "T_1": _stream.T_1_BUFFER,
        "coins": _stream.COINS,
        "shift": _stream.shift("lam"),
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
            "C*(L^2*B^2*D*sqrt(d)*log(n/zeta)^(3/2)*sqrt(log(1/delta))/(sqrt(n)*lam^2*epsilon) + L*D*sqrt(d*log(n/zeta)/size))",
            "claimed",
            "000 Theorem 3.3.4, (3.113) with Lemma 3.3.4 (left-hand sides of (3.114) and (3.115) put right)",
            probability="1 - zeta",
            conditions="of the hidden chain, which is not private at the printed noise; RS-x; C_d of the document read as L*D*sqrt(d)",
        ),
    ),
    faults=(
        Fault(
            '000 Theorem 3.3.4: FBOnPairStrC is (epsilon, delta)-DP, "follow the proof of Theorem 3.3.1"',
            "not for the chain without noise, of which Lemma 3.3.2 and the regret speak: in the buffer a record weighs m/s "
            "and stays for a part "
            "of the stream, so it moves the iterate by about 2 G m/(alpha s) and not by 8 G/(alpha t)",
            _TESTS + "test_the_hidden_chain_breaks_its_guarantee",
            "privacy",
        ),
        Fault(
            "000 section 3.3.2: the adversary does not see the state of the buffer",
            "averaged over secret coins the hidden chain still exceeds delta; with the released point fed back the coins may be public",
            _TESTS + "test_secret_coins_do_not_save_the_hidden_chain",
            "privacy",
        ),
        Fault(
            "000 Theorem 3.3.4 with FIFO in the buffer's place: an iterate moves by at most 8 G/(alpha t)",
            "at s = 1 it moves by more, so single releases cost more than rho/(n - T_1); they are few, and for FIFO their "
            "sum stays below rho, so that the guarantee holds",
            _TESTS + "test_the_lemma_fails_for_a_first_in_first_out_buffer",
            "text",
        ),
        Fault(
            "000 section 3.3.5: raw features, and G, B of the loss without its ridge",
            "records are enforced to lie in the declared set, each by itself, and the ridge cancels between pairs",
            _OFFLINE + "test_raw_features_break_the_printed_sensitivity",
            "privacy",
        ),
        Fault(
            "000 Lemmas 3.3.3 and 3.3.4: which regret each bounds, without the division by n - 1",
            "(3.114) is that of the law and needs R/(n-1) on its left, (3.115) that of all pairs: the left-hand sides are exchanged",
            "docs/faults.md#pairwise-exchanged-lemmas",
            "text",
        ),
    ),
    margins="several",
    cost={"gradients": "n*size", "rounds": "n/every", "memory_bytes": "8*size*(d + 2)"},
    spec="specs/pairwise/fb-on-pair-str-c.dps",
)


def accepts(p: Problem, t: Tunables) -> str | None:
    if p.loss is not None and not p.loss.l2 > 0:
        return "the loss has no ridge term lam/2*|w|^2, which sets its steps (fb-on-pair-c adds one)"
    return _stream.accepts(p, t)


def published(p: Problem, t: Tunables, budget: Any) -> tuple[Published, ...]:
    """The printed noise with the released point fed back, and on the hidden chain, and what each really spends."""
    return chain(p, t, budget, "000 Algorithm 3.3.12", _stream.strength_of(p, t), 0.0)
