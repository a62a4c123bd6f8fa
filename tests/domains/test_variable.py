"""One domain for each variable: its norms and ranges, the records that enforcement leaves, and the certificate say the same."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpspec import api
from dpspec.data.enforce import Entries, rules_of
from dpspec.domains.domain import closed, domain_of_set
from dpspec.domains.variable import Variable, from_line
from dpspec.numeric.rounding import up
from dpspec.spec.expr import Num
from dpspec.spec.model import Ball, Box, Data, Domain, Enforcement, Finite
from dpspec.symbolic.certify import certify

SPEC = """
analysis "one domain, several spellings"

data
  n = 1000, d = {d}
  from memory
  private, unit person, neighbours replace-one
  x in {domain}
  y in {{-1, 1}} by map(0 -> -1, 1 -> 1)

privacy central
  epsilon = 1, delta = 1e-6

release a
  minimise logistic over ball(l2, 1)
  by dp-gd
"""


def num(value: Fraction | int | str) -> Num:
    return Num(Fraction(value))


positive = st.fractions(min_value=Fraction(1, 1000), max_value=1000, max_denominator=1000)
number = st.fractions(min_value=-50, max_value=50, max_denominator=100)


@st.composite
def lines(draw: st.DrawFn) -> tuple[Domain, int]:
    """An enforced line of the data section that the executor accepts, and d."""
    d = draw(st.integers(1, 6))
    how = draw(st.sampled_from(["scale", "clip ball", "clip box", "shrink", "reject ball", "reject box"]))
    r = draw(positive)
    norm = draw(st.sampled_from(["l1", "l2", "linf"]))
    low, high = sorted((draw(number), draw(number)))
    match how:
        case "scale":
            return Domain(variable="x", set=Ball(norm=norm, radius=num(r)), by=Enforcement(how="scale")), d
        case "clip ball":
            return Domain(variable="x", set=Ball(norm="linf", radius=num(r)), by=Enforcement(how="clip")), d
        case "clip box":
            return Domain(variable="x", set=Box(low=num(low), high=num(high + 1)), by=Enforcement(how="clip")), d
        case "shrink":
            tau = r * draw(st.fractions(min_value=Fraction(1, 100), max_value=1, max_denominator=100)) / d
            return Domain(variable="x", set=Ball(norm=norm, radius=num(r)), by=Enforcement(how="shrink", tau=num(tau))), d
        case "reject ball":
            return Domain(variable="x", set=Ball(norm=norm, radius=num(r)), by=Enforcement(how="reject")), d
        case _:
            return Domain(variable="x", set=Box(low=num(-abs(low)), high=num(abs(high) + 1)), by=Enforcement(how="reject")), d


def holds(row: np.ndarray, variable: Variable) -> None:
    exact = [Fraction(float(v)) for v in row]
    inside = variable.enforced
    assert inside.l1 is not None
    assert inside.l2 is not None
    assert inside.linf is not None
    assert sum(abs(v) for v in exact) <= inside.l1
    assert sum(v * v for v in exact) <= inside.l2**2
    assert max(abs(v) for v in exact) <= inside.linf
    assert inside.low is not None
    assert inside.high is not None
    assert all(inside.low <= v <= inside.high for v in exact)


@settings(max_examples=150, deadline=None)
@given(lines(), st.integers(0, 2**32 - 1))
def test_enforced_records_lie_in_the_domain_that_certificates_use(drawn: tuple[Domain, int], seed: int) -> None:
    line, d = drawn
    rng = np.random.default_rng(seed)
    raw = rng.standard_normal((12, d)) * 10.0 ** rng.integers(-5, 6, size=(12, 1))
    raw[0], raw[1], raw[2], raw[3] = 0.0, 1e300, -1e-320, np.nan
    rules = rules_of(Data(domains=(line,)), "x", d, {"d": d})
    rows, _, _ = rules.apply(Entries(raw))
    variable = from_line(line, {}, dimension=d)
    zero_stays = line.by is not None and (line.by.how != "clip" or not isinstance(line.set, Box))
    for row in rows:
        holds(row, variable)
    if zero_stays:
        assert not rows[3].any()  # a record that is not finite becomes zeros, which every ball holds


@settings(max_examples=60, deadline=None)
@given(lines())
def test_the_certificate_of_a_linear_loss_is_the_norm_of_the_domain(drawn: tuple[Domain, int]) -> None:
    """loss <w, x>: the gradient is x, so L is the largest l2 norm, L_inf the largest entry; by another route from the stated numbers."""
    from dpspec.spec.expr import Inner, Name

    line, d = drawn
    variable = from_line(line, {}, dimension=d)
    found = certify(
        Inner(left=Name(id="w"), right=Name(id="x")), over=Ball(norm="l2", radius=num(1)), x=variable.enforced, y=Finite(values=(num(1),))
    )
    by = line.by
    assert by is not None
    if by.how == "shrink":
        tau = float(by.tau.value)  # type: ignore[union-attr]
        largest = min(math.sqrt(d) * tau, float(line.set.radius.value))  # type: ignore[union-attr]
        widest = tau
    elif isinstance(line.set, Box):
        widest = float(max(abs(line.set.low.value), abs(line.set.high.value)))  # type: ignore[attr-defined]
        largest = math.sqrt(d) * widest
    else:
        widest = float(line.set.radius.value)  # type: ignore[union-attr]
        largest = widest * (math.sqrt(d) if line.set.norm == "linf" else 1.0)  # type: ignore[union-attr]
    assert found.lipschitz == pytest.approx(largest, rel=1e-9)
    assert found.lipschitz_inf == pytest.approx(widest, rel=1e-9)


@pytest.mark.parametrize(
    "spelling",
    [
        "ball(linf, 5) by shrink(0.1)",
        "box(-3, 7) by shrink(0.1)",
        "ball(l1, 1) by shrink(0.1)",
        "box(-0.1, 0.1) by clip",
        "ball(linf, 0.1) by scale",
    ],
)
def test_spellings_of_the_same_enforced_records_give_the_same_noise(spelling: str) -> None:
    """By hand: |x|_2 <= 0.1*sqrt(4) = 0.2, so two gradients of the logistic loss are at most 2*0.2 apart."""

    def noise(domain: str) -> tuple[float, float]:
        plan = api.plan(api.loads(SPEC.format(d=4, domain=domain)))
        assert not plan.draft.failed, plan.diagnostics
        draw = plan.to_json()["releases"][0]["noise"][0]
        return draw["sensitivity"], draw["scale"]

    one, other = noise(spelling), noise("ball(linf, 0.1) by clip")
    assert one == pytest.approx(other, rel=1e-9)
    assert one[0] <= 2 * 0.2 / 1000 * (1 + 1e-6)


def test_map_leaves_the_images() -> None:
    line = Domain(variable="y", set=Box(low=num(-5), high=num(5)), by=Enforcement(how="map", mapping=(("no", num(0)), ("yes", num(1)))))
    found = from_line(line, {}, dimension=1)
    assert found.enforced.values == (0, 1)
    assert found.enforced.linf == 1
    assert found.said.linf == 5


def test_a_domain_without_a_rule_enforces_nothing() -> None:
    found = from_line(Domain(variable="x", set=Ball(norm="l2", radius=num(1))), {}, dimension=3)
    assert not found.enforced.bounded
    assert found.known.l2 == 1


@settings(max_examples=100, deadline=None)
@given(st.lists(number, min_size=2, max_size=6), st.sampled_from(["l1", "l2", "linf"]))
def test_closed_norms_hold_for_every_member(entries: list[Fraction], norm: str) -> None:
    """The norms that follow from one are never below those of a member."""
    sizes = {"l1": sum(map(abs, entries)), "linf": max(map(abs, entries))}
    square = sum(v * v for v in entries)
    radius = sizes[norm] if norm in sizes else Fraction(up(Fraction(math.isqrt(math.ceil(square)) + 1)))
    if radius == 0:
        return
    found = closed(domain_of_set(Ball(norm=norm, radius=num(radius)), {}, dimension=len(entries)))  # type: ignore[arg-type]
    assert found.l1 is not None
    assert found.l2 is not None
    assert found.linf is not None
    assert sizes["l1"] <= found.l1
    assert sizes["linf"] <= found.linf
    assert square <= found.l2**2
