"""Local, non-interactive minimisation of convex Lipschitz losses, cited for comparison: bounds only, nothing to run.

Smith, Thakurta and Upadhyay 2017, Theorem 10 ([257]). The document gives its rate and neither a mechanism nor its noise.
Source: 000, section 5.1, Theorem 5.1.1, Table 5.1.
"""

from __future__ import annotations

from dpspec.algorithms.card import Bound, Card, Source

CARD = Card(
    id="nldp-convex-lipschitz",
    title="Convex Lipschitz losses without interaction (bound quoted for comparison)",
    family="nldp_erm",
    task="minimise",
    models=("nldp",),
    guarantees=("pure",),
    sources=(Source("000", "5.1", "[257, Theorem 10] in Table 5.1", ("Theorem 5.1.1",)),),
    summary="2^d/(alpha^(d+1) epsilon^2) users for an error of alpha. Cited only.",
    bounds=tuple(
        Bound(
            measure,
            "order",
            "upper",
            "C*(sqrt(d)*log(1/zeta)^2/(n*epsilon^2))^(1/(d + 1))",
            "claimed",
            "000 Theorem 5.1.1 (5.1)",
            probability="1 - zeta",
            conditions="convex 1-Lipschitz losses on the unit ball, logs left out",
        )
        for measure in ("excess-population-risk", "excess-empirical-risk")
    ),
    role="cited",
)
