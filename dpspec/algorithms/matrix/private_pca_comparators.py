"""Private PCA of other papers, cited for comparison: bounds only, nothing to run.

Analyze Gauss (Dwork, Talwar, Thakurta and Zhang 2014, [106]), the exponential mechanism on the sphere (Chaudhuri, Sarwate and Sinha 2013,
[69]), the interactive local noisy power method ([21]) and the interactive sparse power method (Ge et al. 2018, [122]).
Source: 000, sections 6.1.1 and 6.1.3. dp-covariance-gaussian followed by eigenvectors is Analyze Gauss with clipping.
"""

from __future__ import annotations

from dpspec.algorithms.card import Bound, Card, Source

CARD = Card(
    id="private-pca-comparators",
    title="Private PCA bounds quoted for comparison",
    family="matrix",
    task="estimate",
    models=("central", "sldp"),
    guarantees=("approx", "pure"),
    sources=(Source("000", "6.1.1", "related work"), Source("000", "6.1.3", "comparison after Theorem 6.1.2")),
    summary="Bounds of Analyze Gauss, the exponential mechanism, and noisy power methods. Cited only.",
    bounds=(
        Bound(
            "subspace-distance",
            "order",
            "upper",
            "C*rank*d*log(1/delta)/((eig_max^2 - (eig_max - gap)^2)*n^2*epsilon^2)",
            "claimed",
            "[106] Theorem 7",
            conditions="as quoted; k equal leading eigenvalues; needs a gap of order sqrt(d) for the unnormalised matrix",
        ),
        Bound(
            "lost-variance",
            "order",
            "lower",
            "C*rank*d*log(1/delta)/(n^2*epsilon^2)",
            "claimed",
            "[106]",
            conditions="central, (epsilon, delta)",
        ),
        Bound("subspace-distance", "order", "lower", "C*d^2/(n^2*epsilon^2*gap^2)", "claimed", "[69]", conditions="central, pure, k = 1"),
        Bound(
            "subspace-distance",
            "order",
            "upper",
            "C*eig_max^2/gap^2*k_x*(rank + log(d))/n",
            "claimed",
            "[122]",
            conditions="interactive, sparse, in its 'privacy-free region'; a factor 1/(1 - rho^(1/4)) with rho depending on epsilon",
        ),
    ),
    role="cited",
)
