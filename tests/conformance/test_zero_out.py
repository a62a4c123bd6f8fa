"""Zero-out: a row of zeros in the file in place of one record, read, encoded and enforced like every row.

Every central algorithm that accepts the relation is run, in each of its variants, against a meter that answers without looking. Along
one transcript what is handed to the meter moves by at most the planned sensitivity, in exact arithmetic where a norm is one, and by a good
part of it somewhere. Which declarations turn a row of zeros into a record with x = 0 is derived by hand here, and the plan must count one
record's term for those and two for the others.
"""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpspec.compiler.passes import compile_draft
from dpspec.compiler.plan import make_plan
from dpspec.data.enforce import enforce
from dpspec.data.records import Records
from dpspec.data.sources import load
from dpspec.data.zeroed import obstacle
from dpspec.executor.bind import values
from dpspec.lang.source import Parsed, parse_text
from dpspec.privacy.schedule import draws
from dpspec.spec.model import CsvSource
from tests.conformance.cases import Case, case, labels
from tests.conformance.extremes import to_listed
from tests.conformance.replay import blind_run
from tests.conformance.test_add_remove import CENTRAL, errors, variants
from tests.conformance.test_replay import with_neighbours


def from_file(parsed: Parsed, target: str = "y") -> Parsed:
    """The spec with its records in rows.csv and without a law."""
    data = parsed.analysis.data.model_copy(update={"source": CsvSource(path="rows.csv", target=target)})
    return replace(parsed, analysis=parsed.analysis.model_copy(update={"data": data, "simulate": (), "study": None}))


CASES = [
    pytest.param(from_file(with_neighbours(parsed, "zero-out")), id=f"{module.CARD.id}, {what}")
    for module in CENTRAL
    for what, parsed in variants(module)
]


def test_who_refuses_the_relation_says_why() -> None:
    """Batches of a fixed size are accounted for under replace-one alone."""
    found = {m.CARD.id: errors(from_file(with_neighbours(variants(m)[0][1], "zero-out"))) for m in CENTRAL}
    refused = {name: diagnostics for name, diagnostics in found.items() if diagnostics}
    assert 1 <= len(refused) < len(CENTRAL) / 4
    for name, diagnostics in refused.items():
        assert {d.code for d in diagnostics} <= {"DP306", "DP407"}, name
        said = ("batch", "record", "pair", "which columns are features")  # keys: a file whose columns are not named has no key column
        assert any(word in diagnostics[0].message for word in said), diagnostics


def loaded(c: Case, folder: Path, table: np.ndarray) -> Records:
    """The records of a file with these rows, x and then y, by the loader."""
    names = [*(f"c{j}" for j in range(table.shape[1] - 1)), "y"]
    lines = [",".join(names), *(",".join(f"{v:.17g}" for v in row) for row in table)]
    (folder / "rows.csv").write_text("\n".join(lines) + "\n")
    return load(c.draft.analysis.data, base_dir=folder, values=values(c.draft)).records


def movement(mechanism: Any, level: float, u: Any, v: Any, tolerance: float) -> Fraction:
    """How far a value moved; exact in l1, l2 and linf (of l2 the square root, rounded down to 1e-18 of it)."""
    if mechanism.kind in (
        "objective-perturbation",
        "objective-gaussian",
        "wishart",
        "wishart-symmetrised",
        "laplace-symmetric",
        "smooth-student",
        "smooth-student-vector",
    ):
        return Fraction(mechanism.distance(level, u, v, tolerance))
    apart = [abs(Fraction(float(a)) - Fraction(float(b))) for a, b in zip(np.ravel(u), np.ravel(v), strict=True)]
    if mechanism.norm == "l1":
        return sum(apart, Fraction(0))
    if mechanism.norm != "l2":
        return max(apart, default=Fraction(0))
    square = sum((a * a for a in apart), Fraction(0))
    unit = 2**200
    return Fraction(math.isqrt(int(square * unit * unit)), unit)


def share(c: Case, folder: Path, table: np.ndarray, row: int) -> float:
    """The largest movement between the file and the file with zeros in ``row``, as a share of the planned sensitivity."""
    planned, tolerance = draws(c.release.tree), float(c.release.tunables.get("tolerance", 0.0))
    zeroed = table.copy()
    zeroed[row] = 0.0
    before, after = (blind_run(c, loaded(c, folder, t))[1].seen for t in (table, zeroed))
    assert [name for name, _ in before] == [name for name, _ in after]
    largest = 0.0
    for (name, u), (_, v) in zip(before, after, strict=True):
        leaf = next(planned[k] for k in (name, f"{name}/select", f"{name}/value") if k in planned)
        apart = movement(leaf.draw.mechanism, c.release.calibrated.levels[leaf.draw.name], u, v, tolerance)
        largest = max(largest, float(apart / Fraction(leaf.draw.mechanism.claim)))
    return largest


def hostile(c: Case, kind: str, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    n, d = int(c.draft.facts["n"]), int(c.draft.facts["d"])
    x, y = rng.normal(size=(n, d)), rng.choice([*labels(c), 0.0, 1.0], size=n)
    match kind:
        case "large":
            x *= 1e6
        case "small":
            x *= 1e-3
        case "alike":
            x[:], y[:] = np.eye(d)[0] * 1e3, max(labels(c))
        case "alone":  # every other row is zero already
            x[1:], y[1:] = 0.0, 0.0
            x[0], y[0] = 1e3, max(labels(c))
    return np.column_stack([to_listed(c.draft, x), y])


@pytest.mark.parametrize("parsed", CASES)
def test_a_zeroed_row_moves_each_value_by_at_most_its_sensitivity(parsed: Parsed, tmp_path: Path) -> None:
    if errors(parsed):
        return
    c = case(parsed)
    assert not c.draft.replaced, "the gallery's records begin at 0"
    assert c.draft.calibrated.neighbours == "zero-out"
    found = [share(c, tmp_path, hostile(c, kind, seed), 0) for seed, kind in enumerate(("typical", "large", "small", "alike", "alone"))]
    assert max(found) <= 1, found
    assert max(found) > 0.02, "neighbours that hardly move anything show nothing"


def test_the_planned_sensitivity_is_attained(tmp_path: Path) -> None:
    """Or nearly, by most algorithms: (the gradient of one extreme record)/n is what zero-out counts."""
    best = {}
    for param in (p for p in CASES if str(p.id).endswith("as it is") and not errors(p.values[0])):
        c = case(param.values[0])
        best[str(param.id)] = max(share(c, tmp_path, hostile(c, kind, 1), 0) for kind in ("alike", "alone", "large"))
    assert sum(v > 0.4 for v in best.values()) > len(best) / 2, best


# --------------------------------------------------------------------------------------- encodings and domains, by hand


TEXT = """analysis "zeroed"

data
  n = {n}, d = {d}
  from "rows.csv" target "y"
  private, unit person, neighbours {relation}
{lines}  x in {domain}
  y in {y}

privacy central
  epsilon = 1, delta = 1e-6

release a
  minimise {loss} over ball(l2, 1)
  by {by}
"""
BALL = "ball(l2, 1) by scale"
#: What, d, encodings, domain, whether a row of zeros stays in every sum.
DECLARED = [
    ("nothing", 2, "", BALL, False),
    ("intercept", 3, "intercept", BALL, True),
    ("one-hot: the code 0", 4, "encode c0 as one-hot(3)", BALL, True),
    ("levels: the word 0", 3, 'encode c0 as levels("0", "1")', BALL, True),
    ("range from below 0", 2, "encode c0 as range(-3, 1)", BALL, True),
    ("range from 0", 2, "encode c0 as range(0, 3)", BALL, False),
    ("range from above 0: clamped to its lower end", 2, "encode c0 as range(2, 3)", BALL, False),
    ("range below 0: clamped to its upper end", 2, "encode c0 as range(-3, -2)", BALL, True),
    ("standard with a mean", 2, "encode c1 as standard(1/2, 3)", BALL, True),
    ("standard without one", 2, "encode c1 as standard(0, 3)", BALL, False),
    ("the last column", 2, "encode c0 as range(0, 3), c1 as range(-1, 1)", BALL, True),
    ("the target alone", 2, "encode y as range(-1, 1)", BALL, False),
    ("box above 0", 2, "", "box(1, 1.01) by clip", True),
    ("box below 0", 2, "", "box(-2, -1) by clip", True),
    ("box from 0", 2, "", "box(0, 1) by clip", False),
    ("box around 0", 2, "", "box(-1/3, 1) by clip", False),
    ("box rejected", 2, "", "box(-1/3, 1) by reject", False),
    ("finite, 0 mapped away", 2, "", "{0, 1} by map(1 -> 0, 0 -> 1)", True),
    ("finite, 0 kept", 2, "", "{0, 1} by map(1 -> 1, 0 -> 0)", False),
    ("finite, 0 not listed and the first image is 1", 2, "", "{0, 1} by map(5 -> 1, 1 -> 0)", True),
    ("shrunk", 2, "", "ball(l2, 2) by shrink(1)", False),
    ("linf ball", 2, "", "ball(linf, 1) by clip", False),
    ("l1 ball", 2, "", "ball(l1, 1) by scale", False),
    ("ball rejected", 2, "", "ball(l2, 1) by reject", False),
    ("intercept rejected", 3, "intercept", "ball(l2, 2) by reject", True),
]


def written(d: int, lines: str, domain: str, **more: Any) -> Parsed:
    facts = {"n": 5, "relation": "zero-out", "y": "{-1, 1} by map(0 -> -1, 1 -> 1)", "loss": "logistic", "by": "dp-gd with T = 3", **more}
    return parse_text(TEXT.format(d=d, lines=f"  {lines}\n" if lines else "", domain=domain, **facts), surface="dps")


def tables() -> list[np.ndarray]:
    """Cells that every encoding above takes: the codes 0 and 1 in the first column."""
    firsts = ((1.0, 1.0, 1.0), (1.0, -1e6, 1.0), (0.0, 0.9, 1.0), (1.0, -3.0, 0.0), (0.0, 1e-3, 0.0))
    return [np.array([first, *([rest] * 4)]) for first in firsts for rest in ((0.0, 0.0, 0.0), (0.0, 0.1, 1.0))]


@pytest.mark.parametrize(("what", "d", "lines", "domain", "stays"), DECLARED, ids=[row[0] for row in DECLARED])
@pytest.mark.parametrize("by", ["dp-gd with T = 3", "dp-sgd with T = 3, b = 2", "output-perturbation", "dp-accmd"])
def test_a_plan_counts_a_zeroed_row_once_where_it_vanishes_and_twice_where_not(
    what: str, d: int, lines: str, domain: str, stays: bool, by: str, tmp_path: Path
) -> None:
    loss = "log(1 + exp(-y*<w, x>)) + 0.1/2*|w|^2" if by == "output-perturbation" else "logistic"
    c = case(written(d, lines, domain, by=by, loss=loss))
    (release,) = c.draft.releases
    assert c.draft.replaced == stays
    assert [x.code for x in c.draft.diagnostics if x.code == "DP315"] == (["DP315"] if stays else [])
    assert c.draft.calibrated.neighbours == release.problem.neighbours == ("replace-one" if stays else "zero-out")
    largest = 0.0
    for table in tables():
        largest = max(largest, share(c, tmp_path, table, 0))
    assert largest <= 1
    if by.startswith("dp-gd") and "reject" not in domain:
        assert largest > 0.2
    zeros, _ = enforce(loaded(c, tmp_path, np.zeros((5, 3))), c.draft.analysis.data, values(c.draft))
    assert bool(np.any(zeros.x)) == stays


SIGNS = "{-1, 1} by map(0 -> -1, 1 -> 1)"
TASKS = {
    "multinomial": ("minimise multinomial(3) over ball(l2, 1)", "dp-gd with T = 2", "{0, 1, 2} by reject"),
    "mirror descent": ("minimise hinge over ball(l1, 1)", "dp-mirror-descent", SIGNS),
    "frank-wolfe": ("minimise logistic over ball(l1, 1)", "dp-frank-wolfe with T = 3", SIGNS),
    "objective": ("minimise logistic + 0.5/2*|w|^2 over R^d", "objective-perturbation", SIGNS),
    "approximate minima": (
        "minimise logistic + 0.5/2*|w|^2 over R^d",
        "approximate-minima-perturbation",
        "{-1, 1} by map(0 -> -1, 1 -> 1)",
    ),
    "iht": ("minimise squared over sparse(1)", "dp-iht with T = 2, G = 1", "[-1, 1] by clip"),
    "second moment": ("estimate covariance(x)", "dp-covariance-gaussian", "[-1, 1] by clip"),
    "precision": ("estimate precision(x)", "dp-precision-covariance", "[-1, 1] by clip"),
    "thresholding": ("estimate covariance(x)", "dp-thresholding", "[-1, 1] by clip"),
    "peeling": ("estimate theta in y = <theta, x> + noise", "dp-iht-truncated with T = 1, kept = 2", "[-1, 1] by clip"),
    "robust mean": ("estimate mean(x)", "dp-sparse-mean-heavy-tailed with kept = 2", "[-1, 1] by clip"),
}


@pytest.mark.parametrize("what", TASKS)
@pytest.mark.parametrize("lines", ["", "intercept"])
def test_every_family_counts_an_ordinary_record_twice(what: str, lines: str, tmp_path: Path) -> None:
    """Whatever the algorithm, with the intercept it is planned as under replace-one, and without it as under zero-out."""
    task, by, y = TASKS[what]
    d = 3 if lines else 2
    text = TEXT.format(n=5, d=d, relation="zero-out", lines=f"  {lines}\n" if lines else "", domain=BALL, y=y, loss="LOSS", by=by)
    text = text.replace("minimise LOSS over ball(l2, 1)", task).replace(
        "release a", "assume\n  sparse(1)\n  sub-gaussian(1) of x\n\nrelease a"
    )
    c = case(parse_text(text, surface="dps"))
    assert c.release.problem.neighbours == ("replace-one" if lines else "zero-out")
    found = [share(c, tmp_path, table, 0) for table in tables()]
    assert max(found) <= 1, found
    assert max(found) > 0.02, found


def test_the_plan_states_the_relation_that_it_was_made_for() -> None:
    """The noise doubles, the guarantee says replace-one, and two accountants agree on it."""
    for relation, lines, d, stated, moves in (
        ("zero-out", "", 2, "zero-out", 1),
        ("zero-out", "intercept", 3, "replace-one", 2),
        ("replace-one", "intercept", 3, "replace-one", 2),
        ("add-remove", "intercept", 3, "add-remove", 1),
    ):
        plan = make_plan(written(d, lines, BALL, relation=relation, by="dp-gd with T = 1"))
        body = plan.to_json()
        assert body["guarantee"]["neighbours"] == stated
        steep = 1 / (1 + math.exp(-1))  # the logistic loss at the margin -1
        assert body["releases"][0]["noise"][0]["sensitivity"] == pytest.approx(moves * steep / 5, rel=1e-6)
        assert body["guarantee"]["checked_epsilon"] <= 1.001


@pytest.mark.parametrize("model", ["nldp", "sldp"])
@pytest.mark.parametrize("modifier", ["labels only", "attribute"])
def test_where_a_part_of_a_record_is_protected_it_is_not_zeroed_in_a_local_model_either(model: str, modifier: str) -> None:
    """A zeroed record has x = 0, and x is not protected there."""
    text = TEXT.format(n=50, d=2, relation="zero-out", lines="", domain=BALL, y="[-1, 1] by clip", loss="squared", by="auto")
    parsed = parse_text(text.replace("privacy central", f"privacy {model}, {modifier}"), surface="dps")
    assert "DP306" in {x.code for x in compile_draft(parsed).diagnostics if x.severity == "error"}


QUARTERS = st.integers(-12, 12).map(lambda k: Fraction(k, 4))


@settings(max_examples=60, deadline=None)
@given(st.tuples(QUARTERS, QUARTERS, QUARTERS, QUARTERS), st.integers(1, 9), st.integers(1, 9), st.booleans())
def test_what_becomes_of_a_row_of_zeros(quarters: tuple[Fraction, ...], width: int, s: int, intercept: bool) -> None:
    """By hand: clamp 0 to [a, a + width] and shift, subtract the mean, clamp to the box."""
    a, m, low, high = quarters
    high = low + abs(high) + 1
    lines = f"encode c0 as range({a}, {a + width}), c1 as standard({m}, {s})" + ("\n  intercept" if intercept else "")
    parsed = written(2 + intercept, lines, f"box({low}, {high}) by clip")
    image = [(min(max(Fraction(0), a), a + width) - a) / width, -m / s, *([Fraction(1)] if intercept else [])]
    image = [min(max(v, low), high) for v in image]
    cautious = any(v != 0 for v in ((min(max(Fraction(0), a), a + width) - a) / width, m)) or intercept or not low <= 0 <= high
    found = obstacle(parsed.analysis.data, {"n": Fraction(5), "d": Fraction(2 + intercept)}) is not None
    assert found == cautious
    assert found or not any(image)


LABELS = (
    "{-1, 1} by map(0 -> -1, 1 -> 1)",
    "{-1, 0, 1} by reject",
    "{2, 3} by map(5 -> 2, 6 -> 3)",
    "[1/3, 2/3] by clip",
    "[-1, 1/3] by reject",
)


def test_the_domain_holds_what_replaces_a_record_under_every_relation() -> None:
    """What `reject` and a cell that is not finite leave behind lies in the set on which certificates rest, in exact arithmetic."""
    from dpspec.domains.variable import NOTHING_SAID

    bad = [[math.nan, 1.0], [math.inf, 0.0], [-math.inf, math.nan], [1e308, -1e308], [7.0, 7.0], [0.0, 0.0]]
    for _, d, lines, domain, _ in DECLARED:
        if lines:
            continue
        for relation in ("replace-one", "zero-out", "add-remove"):
            for y in LABELS:
                draft = compile_draft(written(d, "", domain, relation=relation, y=y, loss="squared"))
                sets = {v: draft.domains.get(v, NOTHING_SAID).enforced for v in ("x", "y")}
                records, _ = enforce(Records(np.array(bad), np.array([r[0] for r in bad])), draft.analysis.data, values(draft))
                for row in records.x:
                    inside(sets["x"], [Fraction(float(v)) for v in row])
                for v in records.y:
                    inside(sets["y"], [Fraction(float(v))])


def inside(domain: Any, v: list[Fraction]) -> None:
    assert domain.low is None or all(domain.low <= c <= domain.high for c in v)
    assert not domain.values or all(c in domain.values for c in v)
    assert domain.l1 is None or sum(abs(c) for c in v) <= domain.l1
    assert domain.l2 is None or sum(c * c for c in v) <= domain.l2**2
