"""Local Bernstein mechanism with short messages: an index into public Laplace samples.

What is shared with the other versions, the errors and their proofs stand in :mod:`._bernstein`; the message is that of
:class:`~dpspec.privacy.channels.genprot.GenProt`: log2(T) bits that say which of T public samples to take as the user's noisy value.

Privacy: the exact loss of an index over the window that acceptance probabilities are kept in is at most epsilon, for any record and any
loss. The documents run a base epsilon and promise ten times it; the base here is what the exact loss allows, about half of epsilon. The
public samples are drawn from the user's salt, which looks at no record.

Error: with probability 1 - n 2^(-T) every decoded sample has the Laplace law around its value; ``length`` is log2(2 n/zeta), so that this
is 1 - zeta/2.

Source: 000, section 5.1.7, Algorithm 5.1.37, Theorem 5.1.12; Bun, Nelson and Stemmer 2019.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from dpspec.algorithms.card import Card, Fault, Problem, Source, Tunable, Tunables
from dpspec.algorithms.estimate import Estimate, Published
from dpspec.algorithms.nldp_erm import _bernstein as shared
from dpspec.algorithms.objective import Objective
from dpspec.models.door import Door
from dpspec.models.rows import Rows
from dpspec.privacy.channels.genprot import GenProt, window_epsilon
from dpspec.privacy.schedule import Disjoint, Draw, Tree

CARD = Card(
    id="local-bernstein-genprot",
    title="Loss on a grid from an index a user, and a Bernstein polynomial",
    family="nldp_erm",
    task="minimise",
    models=("nldp", "sldp"),
    guarantees=("pure",),
    sources=(Source("000", "5.1.7", "Algorithm 5.1.37", ("Theorem 5.1.12",)),),
    summary="Users send log2(T) bits that point to a public Laplace sample; the server minimises the polynomial through the averages.",
    needs=shared.NEEDS,
    options=shared.OPTIONS,
    tunables={
        "half": shared.HALF,
        "side": shared.SIDE,
        "h": shared.ORDER,
        "k": shared.degree("half*(1 + 6/epsilon)"),
        "mu": shared.MU,
        "zeta": Tunable("1/20", "the probability that a bound fails", minimum=1e-12, maximum=0.5),
        "length": Tunable(
            "ceil(log(2*n/zeta)/log(2))", "T, public samples a user; 000: O(log(n/zeta))", integer=True, minimum=2, maximum=4096
        ),
    },
    bounds=(*shared.bounds("(half + 2*scale)"), shared.sample_size("000 Theorem 5.1.12")),
    faults=(
        *shared.FAULTS,
        Fault(
            "000 Theorem 5.1.12: 10 epsilon for a base epsilon <= 1/4",
            "at most 8 epsilon over its window, and 2 epsilon for this Laplace law: the base is set by the exact loss",
            shared.EVIDENCE + "test_an_index_spends_epsilon_exactly",
            "utility",
        ),
        Fault(
            "000 Algorithm 5.1.37 line 17: the server averages the indices g",
            "the public samples that they point to",
            shared.EVIDENCE + "test_the_printed_server_averages_indices",
            "utility",
        ),
    ),
    cost={"gradients": "0", "rounds": "1", "bits_per_user": "ceil(log(length)/log(2))", "memory_bytes": "8*(8192*features + 4*(k + 1)^d)"},
    reads="rows",
    spec="specs/nldp_erm/local-bernstein-genprot.dps",
)


#: Samples are accepted with probability e^(base/2)/2 at most, so a base is below 2 log 2: a weak report is weak only so far.
AUDIT_FACTOR = 16.0


def accepts(p: Problem, t: Tunables) -> str | None:
    return shared.refusal(p, t)


def schedule(p: Problem, t: Tunables) -> Tree:
    return Disjoint(Draw("value", GenProt(t.half, int(t.length)), per="user"), shared.groups(p, t))


def run(records: Rows, p: Problem[Objective], t: Tunables, release: Door) -> Estimate:
    return shared.finish(shared.averages(records, p, t, release), p, t)


def _off(p: Problem, t: Tunables, calibrated: Any) -> Callable[[int, int], float]:
    scale, lost = calibrated.scale("value"), 2.0 ** (1 - t.length)

    def off(count: int, m: int) -> float:
        four = math.log(8 * count / t.zeta)
        if four > m:
            return math.inf
        noise = scale * math.sqrt(8 * four / m)
        return float(t.half * math.sqrt(2 * four / m) + (noise + lost * t.half) / (1 - lost))

    return off


def explicit_bounds(p: Problem, t: Tunables, calibrated: Any) -> dict[str, float]:
    """As for Laplace reports at zeta/2, where no user's list was rejected whole with probability 1 - zeta/2."""
    return shared.stated(p, t, _off(p, t, calibrated)) if p.n * 2.0**-t.length <= t.zeta / 2 else {}


def bound_terms(p: Problem, t: Tunables, calibrated: Any) -> dict[str, dict[str, float]]:
    return shared.terms(p, t, _off(p, t, calibrated))


def _spread(t: Tunables, calibrated: Any) -> float:
    return math.hypot(t.half, math.sqrt(2) * calibrated.scale("value"))


def predicted(p: Problem, t: Tunables, calibrated: Any) -> float:
    return shared.error(p, t, _spread(t, calibrated))


def warnings(p: Problem, t: Tunables, calibrated: Any) -> list[str]:
    return shared.warned(p, t, _spread(t, calibrated))


def published(p: Problem, t: Tunables, budget: Any) -> tuple[Published, ...]:
    if budget.kind != "pure":
        return ()
    e = float(budget.epsilon_exact)
    spent = window_epsilon(e / 10, int(t.length)) if e / 10 < math.log(2) else math.inf
    return (
        Published(
            "000 Algorithm 5.1.37", "value", "2*half/(epsilon/10)", 20 * t.half / e, spent, "a base epsilon of a tenth, as asked for"
        ),
    )
