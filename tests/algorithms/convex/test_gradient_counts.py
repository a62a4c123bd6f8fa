"""How many gradients of single records a run evaluates, against what the card says: the slope of the loss is counted, record by record."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dpspec.algorithms.convex_erm import svrg
from dpspec.algorithms.registry import all_modules
from dpspec.data.records import Records
from dpspec.lang.source import parse_expr
from dpspec.privacy.noise import PublicRandomness
from dpspec.spec.expr import evaluate
from tests.algorithms.support import logistic, minimise, tunables
from tests.docs.test_generated import load

MODULES = [m for m in all_modules() if m.CARD.family == "convex_erm" and m.CARD.role == "algorithm"]
tables = load("gen_tables")

#: Certified solvers go on until their tolerance holds; how long that takes depends on the records, and the card states a ceiling.
SOLVERS = {"objective-perturbation", "approximate-minima-perturbation"}


@pytest.mark.parametrize("n", [40, 300])
@pytest.mark.parametrize("module", MODULES, ids=lambda m: m.CARD.id)
def test_a_run_evaluates_the_gradients_that_its_card_states(module, n):
    stated, measured = tables.counted(module, n=n, d=3)
    if module.CARD.id in SOLVERS:
        assert 0 < measured <= stated
    else:
        assert measured == stated


def test_the_reference_evaluates_the_gradients_that_its_card_states():
    p = minimise(40, 3, logistic(l2=0.1))
    slope = tables.Counted(p.objective.slope)
    p = replace(p, oracle=replace(p.objective, slope=slope))
    t = tunables(svrg, p, T=3, m=7)
    rng = np.random.default_rng(0)

    class Public:
        public = PublicRandomness(0)

    svrg.run(Records(rng.standard_normal((40, 3)), np.sign(rng.standard_normal(40))), p, t, Public)
    assert slope.records == evaluate(parse_expr(svrg.CARD.cost["gradients"]), {"n": 40.0, "T": 3.0, "m": 7.0}) == 3 * (40 + 14)


def test_every_row_of_the_printed_tables_stands_beside_its_card():
    """Each printed method has its row with the printed entries, the card's formula and a count, and each privacy fault is marked."""
    rows = [line for _, table, _ in tables.TABLES for line in tables.printed(table, {m.CARD.id: "7" for m in MODULES})[2:]]
    assert len(rows) == 8 + 5 + 4  # Tables 3.1 to 3.3 with two lower bounds
    for line in rows:
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        assert all(cells[:4][:3]), line
        assert cells[0] == "lower bound" or (cells[3] and cells[5] and cells[6] == "7"), line
    corrected = {row.card for _, table, _ in tables.TABLES for row in table if row.holds.startswith("**")}
    assert corrected >= {"dp-svrg", "dp-katyusha", "dp-svrg-pp", "dp-accmd"}
