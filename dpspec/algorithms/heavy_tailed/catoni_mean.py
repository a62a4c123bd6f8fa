"""The smoothed, softly truncated mean as a catalogue entry: :mod:`dpspec.numeric.robust`.

dp-catoni-mean and the heavy-tailed sparse algorithms add noise to it; alone it spends nothing and protects nobody.
"""

from __future__ import annotations

from dpspec.algorithms.card import Bound, Card, Fault, Need, Source

_EVIDENCE = "tests/algorithms/sparse/test_robust.py::"

CARD = Card(
    id="catoni-mean",
    title="Robust mean by scaling, soft truncation and smoothing",
    family="heavy_tailed",
    task="primitive",
    models=("central", "nldp", "sldp"),
    guarantees=(),
    sources=(
        Source("000", "3.2.4", "equations (3.64) to (3.77)", ("Lemma 3.2.3",)),
        Source("002", "4.2", "mechanism (18)", ("Lemma 2",)),
        Source("003", "4", "equations (1) to (5)"),
    ),
    summary="(s/n) sum E phi(x_i (1 + eta)/s), eta ~ N(0, 1/beta), in closed form: one record moves it by at most 2 cap(beta) s/n.",
    needs=(Need("moment", "utility", "E x_j^2 is at most tau"),),
    bounds=(
        Bound(
            "linf-error",
            "explicit",
            "upper",
            "tau*(1 + 1/beta)/(2*s) + s*(beta/2 + log(2*d/zeta))/n",
            "proved",
            "002 equation (36), PAC-Bayes with the Gaussian prior and posterior of (18)",
            probability="1 - zeta",
            where={
                "tau": "second moment, at most",
                "s": "scale of the truncation",
                "beta": "precision of the multiplicative noise",
                "zeta": "chance of failure",
            },
        ),
    ),
    faults=(
        Fault(
            "000 (3.68) to (3.77), 002 (18), 003 (5): the closed form, clipped or not, bounds the influence of a record",
            "in doubles it cancels beyond |x|/s of about 1e4 and is NaN for tiny, huge and missing entries, which no clip "
            "removes; here the argument is cut first and each term is clipped",
            _EVIDENCE + "test_the_bare_closed_form_breaks_its_bound",
            "privacy",
        ),
        Fault(
            "000 Algorithm 3.2.8: beta = log(1/zeta), Lemma 3.2.3: 2 log(1/zeta)",
            "one rate; beta is a parameter",
            "docs/faults.md#catoni-one-rate",
            "text",
        ),
    ),
    role="primitive",
)
