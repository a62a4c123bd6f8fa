"""The documentation of the data layer holds: its blocks parse, its laws draw, its rules enforce."""

import re
from pathlib import Path

import numpy as np
import pytest

from dpspec.data.enforce import rules_of
from dpspec.data.laws import WORDS, Simulation

TEXT = (Path(__file__).parents[2] / "docs" / "data.md").read_text(encoding="utf-8")
BEFORE = 'analysis "t"\ndata\n  n = 1000, d = 5, r = 2, a = 1\n'
AFTER = "privacy central\n  epsilon = 1, delta = 1e-6\nrelease w\n  minimise logistic over ball(l2, 1)\n"


def parse(data="  private\n", study=""):
    from dpspec.lang.source import parse_text

    return parse_text(BEFORE + data + AFTER + study, path="t.dps").analysis


def test_the_encode_block():
    (block,) = re.findall(r"```\n(encode.*?)```", TEXT, re.DOTALL)
    data = parse(data="  private\n" + "".join(f"  {line}\n" for line in block.splitlines())).data
    assert [e.how for e in data.encode] == ["one-hot", "levels", "range", "standard"]
    assert data.intercept


def test_the_simulate_block():
    (block,) = re.findall(r"```\n(simulate.*?)```", TEXT, re.DOTALL)
    assert Simulation(parse(study=block).simulate, {"n": 1000, "d": 5}).trial(7, 0)[0].x.shape == (1000, 5)


LAW_LINES = (
    [f"x ~ normal(0, {c})" for c in ("I", "4*I", "toeplitz(0.3)", "banded(2, 0.5)", "spiked(2, 3)", "diagonal(1, 2, 3, 4, 5)")]
    + [
        f"x ~ {law}"
        for law in [
            "student-t(3)",
            "cauchy",
            "pareto(2)",
            "pareto(2,3)",
            "lognormal(0,1)",
            "log-logistic(0,1)",
            "weibull(2)",
            "laplace(1)",
            "laplace(0,1)",
            "logistic(1)",
            "logistic(0,1)",
            "exponential(2)",
            "gamma(1,2)",
            "chi2(3)",
            "beta(1,2)",
            "uniform(0,1)",
            "bernoulli(0.5)",
            "bernoulli-logistic(1)",
            "rademacher",
            "poisson(3)",
            "uniform-cube",
            "sphere(2)",
            "uniform-ball(2)",
            "simplex",
            "mixture(0.5,laplace(1),0.5,cauchy)",
            "mixture(laplace(1),cauchy)",
            "centred(pareto(2))",
            "missing(0.1,normal(0,I))",
        ]
    ]
    + [
        "theta = sparse(3) unit l1, x ~ gmm(theta, 1)",
        "theta = dense unit linf, x ~ gmm(theta, 1)",
        "theta = constant(2), x ~ normal(theta, I)",
        "truth ~ rademacher, x ~ one-coin(truth, beta(4, 2), 0.5)",
        "mu = constant(1), y ~ rademacher, x = y*mu + normal(0, I)",
    ]
)


@pytest.mark.parametrize("line", LAW_LINES)
def test_documented_laws(line):
    r, _ = Simulation(parse(study=f"simulate\n  {line}\n").simulate, {"n": 50, "d": 5}).trial(1, 0)
    assert np.isfinite(r.x).all()


def test_every_word_of_a_law_is_documented():
    assert [w for w in WORDS if w not in TEXT and w not in {"centered", "log-normal", "loglogistic", "uniform-sphere", "identity"}] == []


@pytest.mark.parametrize(
    "line",
    [
        "x in ball(l2, r) by scale",
        "x in ball(l1, 1/2) by scale",
        "x in box(-1, 2) by clip",
        "x in ball(linf, r) by clip",
        "x in ball(linf, 1) by shrink(1)",
        "x in ball(l2, 1) by reject",
        "y in [-1, 1] by clip",
        'y in {-1, 1} by map("yes" -> 1, "no" -> -1)',
        "y in {-1, 1} by map(0 -> -1, 1 -> 1)",
    ],
)
def test_documented_rules(line):
    data = parse(data=f"  private\n  {line}\n").data
    variable = line[0]
    assert len(rules_of(data, variable, 5 if variable == "x" else 1, {"r": 2, "d": 5}).rules) == 1
