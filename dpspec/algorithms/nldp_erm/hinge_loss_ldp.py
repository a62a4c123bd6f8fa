"""Hinge loss in the non-interactive local model: one Gaussian report of y x, and gradients of a convex polynomial near the hinge.

    minimise (1/n) sum max(0, m - y <w, x>) over a bounded set, the hinge or its smoothed form (000: m = 1/2, |w|, |x|, |y| <= 1)

Everything but the list of losses is :mod:`._polynomial_loss`, with general-linear-ldp; errors and proofs stand there.

Privacy: the channel scales y x into the ball of radius r tau and adds Gaussian noise for its diameter 2 r tau: mu-GDP exactly, for any
record. Local, replace-one, one report a user.

Source: 000, section 5.1.4, Algorithm 5.1.33, Theorems 5.1.7, 5.1.8, Lemma 5.1.8, Remark 5.1.1 (population). Differences: one report in
the place of 2(p(p+1) + 1) noisy copies; the polynomial is near the loss on [-1, 1], where the printed Bernstein nodes cover [0, 1] and it
explodes below 0; each user is used once, so its noise is fresh.
"""

from __future__ import annotations

from typing import Any

from dpspec.algorithms.card import Card, Fault, Problem, Source, Tunables
from dpspec.algorithms.estimate import Estimate, Published
from dpspec.algorithms.nldp_erm import _polynomial_loss as shared
from dpspec.models.door import Door
from dpspec.models.rows import Rows
from dpspec.privacy.schedule import Tree

_EVIDENCE = "tests/algorithms/nldp_erm/test_polynomial_loss.py::"

#: One pass over two reports ends near the start whatever they say: an audit takes four, and an eighth of the noise.
AUDIT_RECORDS = 4
AUDIT_FACTOR = 8

CARD = Card(
    id="hinge-loss-ldp",
    title="Hinge loss from one noisy record a user, by a convex polynomial",
    family="nldp_erm",
    task="minimise",
    models=("nldp", "sldp"),
    guarantees=("approx", "zcdp", "gdp"),
    sources=(Source("000", "5.1.4", "Algorithm 5.1.33", ("Theorem 5.1.7", "Theorem 5.1.8", "Lemma 5.1.8", "Remark 5.1.1")),),
    summary="Each user sends y x with Gaussian noise; the server takes unbiased gradients of a convex polynomial near the hinge.",
    needs=shared.NEEDS,
    options=shared.OPTIONS,
    tunables=shared.TUNABLES,
    bounds=shared.bounds("000 Theorem 5.1.8"),
    faults=(
        Fault(
            "000 Theorem 5.1.8: the noise of the copies is (epsilon, delta)-LDP by basic composition, for any epsilon > 0",
            "basic composition gives (3 epsilon, 2 (p(p+1) + 1) delta); exactly, 3.19 at p = 1 and a nominal 3",
            _EVIDENCE + "test_the_printed_copies_spend_more_than_they_say",
            "privacy",
        ),
        Fault(
            "000 Assumption 2: |x| <= 1 and |y| <= 1 are promises about the data",
            "a record outside moves its report without limit; the channel scales it into the ball",
            _EVIDENCE + "test_no_record_moves_a_report_by_more_than_its_sensitivity",
            "privacy",
        ),
        Fault(
            "000 Algorithm 5.1.33: Bernstein nodes j/p in [0, 1] for y <w, x> in [-1, 1]",
            "it diverges on [-1, 0): at a width of 1/4 off by 48 at p = 16, 5e4 at p = 32; nodes over the whole range are off by 0.07",
            _EVIDENCE + "test_printed_nodes_diverge_on_the_negative_half",
            "utility",
        ),
        Fault(
            "000 Algorithm 5.1.33 line 3: users are drawn with replacement",
            "the noise of a user that comes again is in w already, so its gradient is no longer unbiased; one pass without replacement",
            _EVIDENCE + "test_each_report_is_used_once",
            "utility",
        ),
        Fault(
            "000 Theorem 5.1.8: p = 32/alpha^3 copies",
            "256 for alpha = 1/2, with a variance of order (p^4/epsilon^2)^p: out of reach; degrees above 11 are refused",
            _EVIDENCE + "test_the_printed_degree_is_out_of_reach",
            "utility",
        ),
        Fault(
            "000 Theorem 5.1.7: Var(t) with sigma^2 of order p(p+1)/epsilon^2",
            "the copies of the algorithm have p^2 (p+1)^2/epsilon^2",
            "docs/faults.md#variance-of-the-noisy-copies",
            "utility",
        ),
        Fault(
            "000 Definition 5.1.9 with Theorem 5.1.7: 0 <= f(v) - ...",
            "a polynomial on both sides of the loss needs it lowered by its error, which doubles gamma",
            "docs/faults.md#lower-side-of-an-oracle",
            "text",
        ),
        Fault(
            "000 Remark 5.1.1: sigma^2 is the variance of the loss",
            "of its gradient",
            "docs/faults.md#variance-of-a-gradient",
            "text",
        ),
    ),
    cost={"gradients": "n", "rounds": "1", "bits_per_user": "64*d", "memory_bytes": "8*n*d"},
    spec="specs/nldp_erm/hinge-loss-ldp.dps",
)


def accepts(p: Problem, t: Tunables) -> str | None:
    form = shared.form_of(p, t)
    if p.loss is not None and (form is None or form.name not in ("hinge", "smoothed-hinge")):
        return (
            "the loss is not the hinge, nor the smoothed one (`hinge`, `smooth-hinge(b, m)`); general-linear-ldp takes other convex losses"
        )
    return shared.refusal(p, t)


def schedule(p: Problem, t: Tunables) -> Tree:
    return shared.schedule(p, t)


def run(records: Rows, p: Problem, t: Tunables, release: Door) -> Estimate:
    return shared.estimate(records, p, t, release)


def explicit_bounds(p: Problem, t: Tunables, calibrated: Any) -> dict[str, float]:
    return shared.explicit_bounds(p, t, calibrated)


def bound_terms(p: Problem, t: Tunables, calibrated: Any) -> dict[str, dict[str, float]]:
    return shared.bound_terms(p, t, calibrated)


def predicted(p: Problem, t: Tunables, calibrated: Any) -> float:
    return shared.predicted(p, t, calibrated)


def warnings(p: Problem, t: Tunables, calibrated: Any) -> list[str]:
    return shared.warnings(p, t, calibrated)


def published(p: Problem, t: Tunables, budget: Any) -> tuple[Published, ...]:
    return shared.published(p, t, budget, "000 Algorithm 5.1.33")
