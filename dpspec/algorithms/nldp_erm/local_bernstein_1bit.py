"""Local Bernstein mechanism with one bit a user.

What is shared with the other versions, the errors and their proofs stand in :mod:`._bernstein`. A user sends a private sign whose mean is
its value:

    v = phi(<node, x>, y) - phi(<middle, x>, y) in [-half, half], by clip;   a sign of mean v/half, kept with probability e^eps/(1 + e^eps)

Privacy: the last step is randomised response on a sign, ratio exactly e^eps between the ends and less elsewhere, for any record and any
loss. The printed message is another one: b = 1 with probability (1/2) p(y; v)/p(y; 0) for a public Laplace sample y. Its 1 is within
epsilon; its 0 has the ratio 1/(2 - e^eps), above e^eps for every epsilon and infinite at log 2. Run at eps0 = log(2 - e^(-eps)) it would
be private, with a variance about 4/eps0^2 times that of a sign. The public partition and the server are as printed; its factor n/|I| is
2/|I|.

Source: 000, section 5.1.3, Algorithm 5.1.32, Theorem 5.1.4; Duchi, Jordan and Wainwright 2018 for the bit.
"""

from __future__ import annotations

import math
from typing import Any

from dpspec.algorithms.card import Card, Fault, Problem, Source, Tunable, Tunables
from dpspec.algorithms.estimate import Estimate, Published
from dpspec.algorithms.nldp_erm import _bernstein as shared
from dpspec.algorithms.objective import Objective
from dpspec.models.door import Door
from dpspec.models.rows import Rows
from dpspec.privacy.channels.one_bit import OneBitMean
from dpspec.privacy.schedule import Disjoint, Draw, Tree

CARD = Card(
    id="local-bernstein-1bit",
    title="Loss on a grid from one bit a user, and a Bernstein polynomial",
    family="nldp_erm",
    task="minimise",
    models=("nldp", "sldp"),
    guarantees=("pure",),
    sources=(Source("000", "5.1.3", "Algorithm 5.1.32", ("Theorem 5.1.4", "Theorem 5.1.6")),),
    summary="Users send one private bit about their loss at a grid point; the server minimises the polynomial through them.",
    needs=shared.NEEDS,
    options=shared.OPTIONS,
    tunables={
        "half": shared.HALF,
        "side": shared.SIDE,
        "h": shared.ORDER,
        "k": shared.degree("half*(1 + 2/epsilon)"),
        "mu": shared.MU,
        "zeta": Tunable("1/20", "the probability that a bound fails", minimum=1e-12, maximum=0.5),
    },
    bounds=(*shared.bounds("scale"), shared.sample_size("000 Theorem 5.1.4")),
    faults=(
        *shared.FAULTS,
        Fault(
            "000 Theorem 5.1.4: the bit is epsilon-LDP for epsilon <= log 2",
            "its 0 has the loss -log(2 - e^eps): 1.05 at a nominal 0.5, infinite at log 2; a sign kept with e^eps/(1 + e^eps) has epsilon",
            shared.EVIDENCE + "test_the_printed_bit_is_not_private",
            "privacy",
        ),
        Fault(
            "000 Theorem 5.1.6: the server on one-bit reports is epsilon-LDP",
            "post-processing, so what the bit spends: the same fault",
            shared.EVIDENCE + "test_the_printed_bit_is_not_private",
            "privacy",
        ),
        Fault(
            "000 Algorithm 5.1.32 line 17: the average is n/|I| times the sum of y b",
            "E y b = v/2, so 2/|I|",
            shared.EVIDENCE + "test_the_printed_server_is_off_by_the_number_of_users",
            "utility",
        ),
        Fault(
            "000 Theorem 5.1.4: as good as Algorithm 5.1.31",
            "better: one point a user costs sqrt((k+1)^d) less",
            shared.EVIDENCE + "test_one_point_a_user_has_less_noise_than_all",
            "utility",
        ),
    ),
    cost={"gradients": "0", "rounds": "1", "bits_per_user": "1", "memory_bytes": "8*(8192*features + 4*(k + 1)^d)"},
    reads="rows",
    spec="specs/nldp_erm/local-bernstein-1bit.dps",
)


#: Losses of one bit are bounded by how far the values of two records are apart, and convex losses do not reach both ends of their range.
AUDIT_FACTOR = 16.0


def accepts(p: Problem, t: Tunables) -> str | None:
    return shared.refusal(p, t)


def schedule(p: Problem, t: Tunables) -> Tree:
    return Disjoint(Draw("value", OneBitMean(t.half), per="user"), shared.groups(p, t))


def run(records: Rows, p: Problem[Objective], t: Tunables, release: Door) -> Estimate:
    return shared.finish(shared.averages(records, p, t, release), p, t)


def explicit_bounds(p: Problem, t: Tunables, calibrated: Any) -> dict[str, float]:
    return shared.stated(p, t, shared.hoeffding(calibrated.scale("value"), t.zeta))


def bound_terms(p: Problem, t: Tunables, calibrated: Any) -> dict[str, dict[str, float]]:
    return shared.terms(p, t, shared.hoeffding(calibrated.scale("value"), t.zeta))


def predicted(p: Problem, t: Tunables, calibrated: Any) -> float:
    return shared.error(p, t, calibrated.scale("value"))


def warnings(p: Problem, t: Tunables, calibrated: Any) -> list[str]:
    return shared.warned(p, t, calibrated.scale("value"))


def published(p: Problem, t: Tunables, budget: Any) -> tuple[Published, ...]:
    if budget.kind != "pure":
        return ()
    e = float(budget.epsilon_exact)
    spent = -math.log(2 - math.exp(e)) if e < math.log(2) else math.inf
    return (Published("000 Algorithm 5.1.32", "value", "2*half/epsilon", 2 * t.half / e, spent, "the message 0 of its bit"),)
