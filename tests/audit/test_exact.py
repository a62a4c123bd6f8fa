"""Exact audits of channels against brute-force enumeration of their outputs."""

from __future__ import annotations

import json
import math
from itertools import combinations, product

import numpy as np
import pytest

from dpspec.audit import audit, audit_exact
from dpspec.audit.deployment import ChannelSpec
from dpspec.audit.exact import load_channel, matrix_privacy
from dpspec.spec.diagnostics import SpecError


def brute(rows: dict[object, dict[object, float]]) -> float:
    best = 0.0
    for a, b in product(rows, rows):
        for y in set(rows[a]) | set(rows[b]):
            p, q = rows[a].get(y, 0.0), rows[b].get(y, 0.0)
            if p > 0:
                best = max(best, math.inf if q == 0 else math.log(p / q))
    return best


def channel(kind: str, **fields: object) -> ChannelSpec:
    return ChannelSpec(kind, fields)


@pytest.mark.parametrize(("p", "q"), [(0.5, 0.27), (0.62, 0.38), (0.634471, 0.268941), (0.2, 0.7)])
@pytest.mark.parametrize("bits", [2, 4])
def test_unary(p: float, q: float, bits: int) -> None:
    rows = {
        v: {
            y: math.prod((p if j == v else q) if y[j] else 1 - (p if j == v else q) for j in range(bits))
            for y in product((0, 1), repeat=bits)
        }
        for v in range(bits)
    }
    assert audit_exact(channel("unary", p_true_bit=p, q_other_bit=q)).epsilon == pytest.approx(brute(rows))


@pytest.mark.parametrize("s", [1, 2, 3])
def test_unary_subset(s: int) -> None:
    p, q, b = 0.622459, 0.377541, 4
    rows: dict[object, dict[object, float]] = {}
    for v in range(b):
        rows[v] = {}
        for chosen in combinations(range(b), s):
            for y in product((0, 1), repeat=s):
                chance = math.prod((p if j == v else q) if bit else 1 - (p if j == v else q) for j, bit in zip(chosen, y, strict=True))
                rows[v][(chosen, y)] = chance / math.comb(b, s)
    assert audit_exact(channel("unary_subset", p_true_bit=p, q_other_bit=q, sampled_bits=s)).epsilon == pytest.approx(brute(rows))


@pytest.mark.parametrize(("k", "w", "include"), [(5, 2, 0.6), (6, 3, 0.7), (5, 1, 0.4)])
def test_subset_selection(k: int, w: int, include: float) -> None:
    rows: dict[object, dict[object, float]] = {}
    for v in range(k):
        rows[v] = {
            y: include / math.comb(k - 1, w - 1) if v in y else (1 - include) / math.comb(k - 1, w) for y in combinations(range(k), w)
        }
    found = audit_exact(channel("subset_selection", categories=k, size=w, include=include))
    assert found.epsilon == pytest.approx(brute(rows))
    factor = math.exp(0.2)
    delta = max(sum(max(rows[a][y] - factor * rows[b][y], 0) for y in rows[a]) for a, b in product(rows, rows))
    assert found.delta_at(0.2) == pytest.approx(delta)


@pytest.mark.parametrize("d", [1, 2, 3, 4, 6])
@pytest.mark.parametrize("epsilon", [0.1, 1.0])
def test_half_cube(d: int, epsilon: float) -> None:
    keep = math.exp(epsilon) / (1 + math.exp(epsilon))
    cube = list(product((-1, 1), repeat=d))
    rows: dict[object, dict[object, float]] = {}
    for v in cube:
        dots = {y: sum(a * b for a, b in zip(y, v, strict=True)) for y in cube}
        plus, minus = [y for y in cube if dots[y] >= 0], [y for y in cube if dots[y] <= 0]
        rows[v] = {y: keep * (y in plus) / len(plus) + (1 - keep) * (y in minus) / len(minus) for y in cube}
    assert audit_exact(channel("half_cube", dimension=d, epsilon=epsilon, ties="both")).epsilon == pytest.approx(brute(rows))


def test_rappor_by_enumeration_of_the_differing_bits() -> None:
    h, f, p, q = 2, 0.5, 0.5, 0.75
    first, second = (1, 1, 0, 0), (0, 0, 1, 1)

    def bit(b: int, long_run: bool) -> float:
        one = (1 - f) * b + f / 2
        return one if long_run else one * q + (1 - one) * p

    for long_run in (True, False):
        rows = {
            x: {
                y: math.prod(bit(b, long_run) if o else 1 - bit(b, long_run) for b, o in zip(x, y, strict=True))
                for y in product((0, 1), repeat=4)
            }
            for x in (first, second)
        }
        found = audit_exact(channel("rappor", hashes=h, f=f, p=p, q=q))
        assert (found.epsilon if long_run else found.one_report) == pytest.approx(brute(rows))


@pytest.mark.parametrize("k", [2, 3, 17])
def test_randomized_response_and_hashing(k: int) -> None:
    for kind, word in (("randomized_response", "categories"), ("local_hashing", "buckets")):
        assert audit_exact(channel(kind, **{word: k, "epsilon": 0.8})).epsilon == pytest.approx(0.8)
    keep = 0.6
    rows = {v: {y: keep if y == v else 0.4 / (k - 1) for y in range(k)} for v in range(k)}
    assert audit_exact(channel("randomized_response", categories=k, keep=keep)).epsilon == pytest.approx(brute(rows))


def test_matrix_looks_at_every_output_and_direction() -> None:
    found = matrix_privacy([["13/16", "3/16"], ["1/16", "15/16"]], (0, 1), (0, 1))
    assert found.epsilon == pytest.approx(math.log(13))
    assert found.pair == ("0", "1")
    assert found.output == "0"
    assert found.delta_at(1.0) == pytest.approx(max(13 / 16 - math.e / 16, 15 / 16 - math.e * 3 / 16))
    assert found.epsilon_at(0.1) == pytest.approx(math.log((13 / 16 - 0.1) * 16))


def test_zero_entries_need_a_delta() -> None:
    found = matrix_privacy([[0.5, 0.49, 0.01], [0.5, 0.5, 0.0]])
    assert math.isinf(found.epsilon)
    assert found.delta_needed == pytest.approx(0.01)
    assert math.isinf(found.epsilon_at(0.009))
    assert found.epsilon_at(0.02) == pytest.approx(0.0)


def test_neighbours_restrict_the_pairs() -> None:
    rows = [[0.5, 0.5], [0.6, 0.4], [0.9, 0.1]]
    assert matrix_privacy(rows).epsilon == pytest.approx(math.log(5))
    assert matrix_privacy(rows, neighbours=[(0, 1)]).epsilon == pytest.approx(math.log(0.5 / 0.4))


def test_random_matrices_agree_with_enumeration() -> None:
    rng = np.random.default_rng(1)
    for _ in range(20):
        p = rng.dirichlet(np.ones(5), size=4)
        rows = {i: dict(enumerate(p[i])) for i in range(4)}
        assert matrix_privacy(p).epsilon == pytest.approx(brute(rows))


@pytest.mark.parametrize(
    "rows",
    [
        [[0.5, 0.6], [0.5, 0.5]],
        [[1.0]],
        [],
        [[0.5, 0.5], [1.0]],
        [[-0.1, 1.1], [0.5, 0.5]],
        [["a", "b"], [0.5, 0.5]],
        [[math.nan, 1], [0, 1]],
    ],
)
def test_unusable_matrices_are_refused(rows: list[list[object]]) -> None:
    with pytest.raises(SpecError) as error:
        matrix_privacy(rows)
    assert error.value.diagnostics[0].code == "DP675"


@pytest.mark.parametrize(
    "text",
    [
        "0.75,0.25\n0.25,0.75\n",
        "in,yes,no\n0,0.75,1/4\n1,0.25,0.75\n",
        "yes,no\n0.75,0.25\n0.25,0.75\n",
        "a,0.75,0.25\nb,0.25,0.75\n",
        "[[0.75,0.25],[0.25,0.75]]",
    ],
)
def test_channel_files(text: str) -> None:
    assert audit_exact(load_channel(text)).epsilon == pytest.approx(math.log(3))


def test_audit_of_a_bare_matrix_and_of_a_claim_on_it() -> None:
    bare = audit(np.array([[0.75, 0.25], [0.25, 0.75]]))
    assert bare.exact is not None
    assert bare.exact.epsilon == pytest.approx(math.log(3))
    assert bare.verdict == "cannot-verify"
    stated = {"channel": {"type": "matrix", "rows": [[0.75, 0.25], [0.25, 0.75]]}, "claim": {"epsilon": 1.0}}
    assert audit(stated).verdict == "violated"
    stated["claim"] = {"epsilon": 1.1}
    result = audit(stated)
    assert result.verdict == "holds"
    assert result.exit_code == 0
    assert json.loads(result.dumps())["exact"]["epsilon"] == pytest.approx(math.log(3))
