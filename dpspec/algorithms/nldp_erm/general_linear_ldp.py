"""Any convex Lipschitz loss of y <w, x> or of <w, x> - y in the non-interactive local model, from one Gaussian report a user.

    minimise (1/n) sum f(y <w, x>)       or       (1/n) sum f(<w, x> - y)  (l1 and quantile regression, Huber's loss)

Everything is :mod:`._polynomial_loss`, with hinge-loss-ldp; errors and proofs stand there.

Privacy: the channel scales y x, or (x, (r/tau) y), into its ball and adds Gaussian noise for the diameter: mu-GDP exactly, for any record
and any f. Local, replace-one, one report a user.

Source: 000, section 5.1.4, Algorithm 5.1.34, Theorem 5.1.9, Lemma 5.1.9, Remark 5.1.2 (l1 regression). The document writes f as a mixture
of hinges at random places s, and estimates the gradient at a drawn s; with one s for all factors that is unbiased, with one a factor, as
printed, it is not. A polynomial near f itself needs no mixture, and no case for linear f.
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
    id="general-linear-ldp",
    title="Convex losses of one number from one noisy record a user, by a convex polynomial",
    family="nldp_erm",
    task="minimise",
    models=("nldp", "sldp"),
    guarantees=("approx", "zcdp", "gdp"),
    sources=(Source("000", "5.1.4", "Algorithm 5.1.34", ("Theorem 5.1.9", "Lemma 5.1.9", "Remark 5.1.2")),),
    summary="Each user sends its record with Gaussian noise; the server takes unbiased gradients of a convex polynomial near the loss.",
    needs=shared.NEEDS,
    options=shared.OPTIONS,
    tunables=shared.TUNABLES,
    bounds=shared.bounds("000 Theorem 5.1.9"),
    faults=(
        Fault(
            "000 Algorithm 5.1.34: the copies of Algorithm 5.1.33, (epsilon, delta)-LDP by basic composition",
            "basic composition gives 3 epsilon; composed exactly, 3.19 at p = 1 and a nominal 3",
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
            "000 Algorithm 5.1.34 line 13: an s of its own for every factor",
            "estimates h'((u - E s)/2) and not E h'((u - s)/2): 0.974 in the place of 0.571 for s = +-0.8, u = 0.6, width 0.1",
            _EVIDENCE + "test_a_place_for_every_factor_is_biased",
            "utility",
        ),
        Fault(
            "000 Algorithm 5.1.34: Bernstein nodes in [0, 1] for (u - s)/2 in [-1, 1]",
            "diverges on the negative half",
            _EVIDENCE + "test_printed_nodes_diverge_on_the_negative_half",
            "utility",
        ),
        Fault(
            "000 Algorithm 5.1.34: G = (...) y_0 x_0 + f'(-1)",
            "a number added to a vector: f'(-1) multiplies y_0 x_0",
            "docs/faults.md#slope-of-a-linear-part",
            "utility",
        ),
        Fault(
            "000 Lemma 5.1.9 for f with f'(1) = f'(-1)",
            "the law of s is not defined; a linear f has its own gradient",
            _EVIDENCE + "test_a_linear_loss_is_its_own_polynomial",
            "utility",
        ),
        Fault(
            "000 Theorem 5.1.9: f maps [-1, 1] to [-1, 1]",
            "constants do not matter, and l1 regression has residuals up to 2: only slope and range enter",
            "docs/faults.md#range-of-a-convex-loss",
            "text",
        ),
        Fault("000 Algorithm 5.1.34: products from jd + i", "jd + j", "docs/faults.md#indices-of-the-products", "text"),
    ),
    cost={"gradients": "n", "rounds": "1", "bits_per_user": "64*(d + 1)", "memory_bytes": "8*n*(d + 1)"},
    spec="specs/nldp_erm/general-linear-ldp.dps",
)


def accepts(p: Problem, t: Tunables) -> str | None:
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
    return shared.published(p, t, budget, "000 Algorithm 5.1.34")
