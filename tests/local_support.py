"""Plans of the local model with a client, at sizes for tests."""

from __future__ import annotations

from typing import Any

import numpy as np

from dpspec.compiler.plan import Plan, make_plan
from dpspec.lang.source import parse_text

COLUMNS = """
data
  n = {n}, d = 3
  from memory columns [age, hours, tenure]
  private, unit person, neighbours replace-one
  x in box(0, 100) by clip

privacy nldp
  epsilon = 1

release answer
  {question}
"""

VECTORS = """
data
  n = {n}, d = {d}
  from memory
  private, unit person, neighbours replace-one
  x in ball(l2, 1) by scale
{constants}
privacy nldp
  epsilon = 2{delta}

release answer
  {question}
"""

PAIRS = """
data
  n = {n}, d = 3
  from memory
  private, unit person, neighbours replace-one

privacy nldp
  epsilon = 4, delta = 1e-7

assume
  sparse(2)
  eigenvalues in [1, 1] of x
  sub-gaussian(1) of x
  sub-gaussian(1) of y

release theta
  estimate theta in y = <theta, x> + noise
  by nldp-sparse-linear-regression
"""

ROUNDS = """
data
  n = {n}, d = 4
  from memory
  private, unit person, neighbours replace-one

privacy sldp
  epsilon = 8

assume
  sparse(2)
  isotropic
  sub-gaussian(1) of x
  sub-gaussian(1) of y

release theta
  estimate theta in y = <theta, x> + noise
  by ldp-iht with T = 3, kept = 2, tau1 = 1, tau2 = 2, clip = residual, tau_res = 2
"""

MARGINS = """
data
  n = {n}, d = 3
  from memory
  private, unit person, neighbours replace-one
  x in ball(l2, 1) by scale
  y in {{-1, 1}} by map(-1 -> -1, 1 -> 1)

privacy sldp
  epsilon = 4

release weights
  minimise {loss} over ball(l2, 2)
  by interactive-ldp-sgd with T = 3
"""

MOMENTS = """
data
  n = {n}, d = 3
  from memory
  private, unit person, neighbours replace-one
  x in ball(l2, 2) by scale
  y in [-2, 2] by clip

privacy nldp
  epsilon = 8, delta = 1e-7

release theta
  estimate theta in y = <theta, x> + noise over ball(l2, 1)
  by ldp-direct-perturbation with report = moments
"""

VOTES = """
data
  n = {n}, d = 5
  from memory
  private, unit worker, neighbours replace-one
  x in {{-1, 0, 1}} by map(0 -> 0, -1 -> -1, 1 -> 1)

privacy nldp, attribute
  epsilon = 1

assume
  one-coin
  advantage(0.2) of workers

release labels
  infer truth from labels
  by private-majority-voting with abstain = symbol
"""


TAILS = """
data
  n = {n}, d = 3
  from memory
  private, unit person, neighbours replace-one

privacy nldp
  epsilon = 2{delta}

assume
  moment(order 2, bound 2) of x

release answer
  estimate mean(x)
  by ldp-heavy-tailed-mean
"""

LATENT = """
data
  n = {n}, d = 3
  sigma = 0.5
  from memory
  private, unit person, neighbours replace-one

privacy sldp
  epsilon = 2

assume
  signal-to-noise(3)

release centre
  fit {model}
  by ldp-gradient-em with T = 3
"""


def vectors(question: str, n: int = 60, d: int = 4, delta: str = "", constants: str = "") -> str:
    return VECTORS.format(n=n, d=d, question=question, delta=delta, constants=constants)


#: Text and whether records have y, by the algorithm whose clients are tried.
TEXTS: dict[str, tuple[str, bool]] = {
    "ldp-column-mean": (COLUMNS.format(n=60, question="estimate mean(age)\n  by ldp-column-mean"), False),
    "ldp-count": (COLUMNS.format(n=60, question="estimate count where age >= 18 and hours > 0\n  by ldp-count"), False),
    "ldp-histogram": (COLUMNS.format(n=60, question="estimate histogram(age, 0, 18, 40, 65, 100)\n  by ldp-histogram"), False),
    "ldp-mean hemisphere": (vectors("estimate mean(x)\n  by ldp-mean with channel = hemisphere"), False),
    "ldp-mean priv-unit": (vectors("estimate mean(x)\n  by ldp-mean with channel = priv-unit"), False),
    "ldp-mean sampled-coordinate": (vectors("estimate mean(x)\n  by ldp-mean with channel = sampled-coordinate"), False),
    "ldp-mean laplace": (vectors("estimate mean(x)\n  by ldp-mean with channel = laplace"), False),
    "ldp-mean gaussian": (vectors("estimate mean(x)\n  by ldp-mean with channel = gaussian", delta=", delta = 1e-6"), False),
    "ldp-pca-gaussian": (vectors("estimate subspace(x, 2)\n  by ldp-pca-gaussian", delta=", delta = 1e-6"), False),
    "ldp-precision": (vectors("estimate precision(x)\n  by ldp-precision", delta=", delta = 1e-6"), False),
    "nldp-sparse-linear-regression": (PAIRS.format(n=60), True),
    "ldp-iht": (ROUNDS.format(n=60), True),
    "interactive-ldp-sgd logistic": (MARGINS.format(n=60, loss="logistic"), True),
    "interactive-ldp-sgd smooth-hinge": (MARGINS.format(n=60, loss="smooth-hinge"), True),
    "ldp-direct-perturbation": (MOMENTS.format(n=60), True),
    "ldp-heavy-tailed-mean": (TAILS.format(n=60, delta=""), False),
    "ldp-heavy-tailed-mean gaussian": (TAILS.format(n=60, delta=", delta = 1e-6").rstrip() + " with channel = gaussian\n", False),
    "ldp-gradient-em gmm": (LATENT.format(n=60, model="gmm(2)"), False),
    "ldp-gradient-em regressions": (LATENT.format(n=60, model="mixture-of-regressions(2)"), True),
    "ldp-gradient-em missing": (LATENT.format(n=60, model="regression-with-missing(0.1)"), True),
    "private-majority-voting": (VOTES.format(n=60), False),
}


def plan_of(text: str) -> Plan:
    return make_plan(parse_text('analysis "local"\n' + text))


def records(plan: Plan, seed: int = 0, *, labelled: bool = False, hostile: bool = False) -> tuple[Any, Any]:
    """x (n, d) and y (n,) or None; with ``hostile`` numbers of every kind among them."""
    n, d = int(plan.draft.facts["n"]), int(plan.draft.facts["d"])
    rng = np.random.default_rng(seed)
    x, y = rng.normal(0, 1, (n, d)), rng.normal(0, 1, n)
    if plan.draft.releases[0].module.CARD.family == "statistics":
        x = rng.uniform(-10, 110, (n, d))
    if plan.draft.releases[0].module.CARD.family == "crowdsourcing":
        x = rng.choice([-1.0, 0.0, 1.0, 7.0], (n, d))
    if hostile:
        odd = [np.nan, np.inf, -np.inf, 1e300, -1e300, 5e-324, 1.7e308, 0.0]
        for i, value in enumerate(odd):
            x[i, i % d] = value
            x[i + len(odd)] = value
            y[i + 2 * len(odd)] = value
    return x, y if labelled else None
