"""Local, non-interactive minimisation of any Lipschitz loss on a net, cited for comparison: bounds only, nothing to run.

Smith, Thakurta and Upadhyay 2017, Claim 4 ([257]). The document gives its rate and no randomiser: losses at the points of an alpha-net, a
user a point. local-bernstein-1bit at order 1 is such a scheme, with a polynomial between the points.
Source: 000, section 5.1, Table 5.1.
"""

from __future__ import annotations

from dpspec.algorithms.card import Bound, Card, Source

CARD = Card(
    id="nldp-grid-lipschitz",
    title="Lipschitz losses on a net (bound quoted for comparison)",
    family="nldp_erm",
    task="minimise",
    models=("nldp",),
    guarantees=("pure",),
    sources=(Source("000", "5.1", "[257, Claim 4] in Table 5.1"),),
    summary="4^d/(alpha^(d+2) epsilon^2) users for an error of alpha. Cited only.",
    bounds=(
        Bound(
            "excess-empirical-risk",
            "order",
            "upper",
            "C*(4^d/(n*epsilon^2))^(1/(d + 2))",
            "claimed",
            "[257] Claim 4",
            conditions="1-Lipschitz losses on the unit ball, logs left out; the table has n = 4^d/(alpha^(d + 2)*epsilon^2)",
        ),
    ),
    role="cited",
)
