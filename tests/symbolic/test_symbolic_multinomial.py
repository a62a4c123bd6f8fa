"""The certificate of the multinomial loss against a search over margins, an enclosure, eigenvalues, and what it must refuse."""

from __future__ import annotations

import math
from fractions import Fraction as F

import numpy as np
import pytest

from dpspec.domains.domain import UNBOUNDED, finite, interval
from dpspec.lang.source import parse_expr
from dpspec.spec.expr import num
from dpspec.spec.model import Ball, Box, Reals, Simplex, Sparse
from dpspec.symbolic.certify import certify
from dpspec.symbolic.findings import Claim
from dpspec.symbolic.margin import margin_functions, margin_loss
from dpspec.symbolic.multinomial import extrema, reached
from dpspec.symbolic.normal import NoNormalForm

UNIT = Ball(norm="l2", radius=num(1))


def prove(loss="multinomial(3)", over=None, x=UNIT, classes=3, d=4, **more):
    return certify(parse_expr(loss), over=Reals() if over is None else over, x=x, y=finite(*range(classes)), names={"d": d}, **more)


def softmax(z):
    e = np.exp(z - z.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def steepest(classes, rho, starts=60, steps=1500):
    """max |softmax(z) - e_0| over |z| <= rho by projected ascent from random and symmetric points: a lower bound of the supremum."""
    rng = np.random.default_rng(classes)
    z = rng.normal(size=(starts, classes))
    z[0], z[1] = 0.0, 1.0
    z[0, :2], z[1, 0] = (-1.0, 1.0), 1.0 - classes
    z *= rho / np.linalg.norm(z, axis=1, keepdims=True)
    for i in range(steps):
        p = softmax(z)
        g = p - np.eye(classes)[0]
        ascent = p * g - p * (p * g).sum(axis=1, keepdims=True)
        z = z + 0.3 * rho / (1 + i / 50) * ascent / np.maximum(np.linalg.norm(ascent, axis=1, keepdims=True), 1e-300)
        z *= np.minimum(1.0, rho / np.linalg.norm(z, axis=1, keepdims=True))
    return float(np.linalg.norm(softmax(z) - np.eye(classes)[0], axis=1).max())


@pytest.mark.parametrize("classes", [2, 3, 5, 10, 50])
@pytest.mark.parametrize("rho", [0.1, 0.5, 1.0, 2.0, 5.0, 10.0])
def test_the_slope_is_an_upper_bound_and_tight(classes, rho):
    """The ascent finds the supremum from below. For K = 2 it is sqrt(2)/(1 + exp(-sqrt(2) rho)), which the bound meets; for more classes
    the three inequalities together lose a few per cent in the middle and nothing at either end."""
    bound, found = float(extrema(classes, F(rho)).slope), steepest(classes, rho)
    assert found <= bound
    assert bound <= math.sqrt(2) * (1 + 1e-12)
    assert float(reached(classes, F(rho))) <= found * (1 + 1e-9)
    if classes == 2:
        assert found == pytest.approx(math.sqrt(2) / (1 + math.exp(-math.sqrt(2) * rho)), rel=1e-9)
        assert bound == pytest.approx(found, rel=1e-9)
    assert bound <= found * (1.01 if rho in (0.1, 10.0) else 1.12)


@pytest.mark.parametrize("rho", [0.3, 1.0, 3.0])
def test_the_slope_of_three_classes_covers_an_enclosure_of_all_margins(rho):
    """p is a function of a = (z_1 - z_0, z_2 - z_0), and the least |z|^2 with these differences is |a|^2 - (a_1 + a_2)^2/3. On every cell
    of a grid 1 - p_0, p_1 and p_2 are monotone in each difference, so their largest values stand at corners: no margin is left out."""
    cells = 700
    edge = np.linspace(-math.sqrt(2) * rho, math.sqrt(2) * rho, cells + 1)
    low, high = edge[:-1], edge[1:]
    a1, a2 = np.meshgrid(low, low, indexing="ij")
    b1, b2 = np.meshgrid(high, high, indexing="ij")
    # the least form over a cell is at least that at its centre less the cell's diameter times the slope of its root, at most 1
    m1, m2 = (a1 + b1) / 2, (a2 + b2) / 2
    root = np.sqrt(m1**2 + m2**2 - (m1 + m2) ** 2 / 3)
    inside = root - math.hypot(edge[1] - edge[0], edge[1] - edge[0]) / 2 <= rho
    wrong = 1 - 1 / (1 + np.exp(b1) + np.exp(b2))
    p1 = 1 / (1 + np.exp(-b1) + np.exp(a2 - b1))
    p2 = 1 / (1 + np.exp(-b2) + np.exp(a1 - b2))
    enclosed = np.sqrt((wrong**2 + p1**2 + p2**2)[inside].max())
    assert steepest(3, rho) <= enclosed <= float(extrema(3, F(rho)).slope)
    assert wrong[inside].max() <= float(extrema(3, F(rho)).wrong) * (1 + 0.01)


def test_unbounded_weights_have_the_norms_sqrt_2_and_one_half():
    c = prove()
    assert math.sqrt(2) <= c.lipschitz <= math.sqrt(2) * (1 + 1e-15)
    assert F(c.lipschitz) ** 2 >= 2  # rounded up, not to nearest
    assert (c.smooth, c.lipschitz_inf, c.lipschitz_l1, c.smooth_l1) == (0.5, 1.0, 2.0 * 2.0, 0.25)
    assert c.convex is True
    assert c.method == "closed form"
    near = softmax(np.array([-30.0, 30.0, 0.0])) - np.eye(3)[0]
    assert np.linalg.norm(near) > c.lipschitz * (1 - 1e-9)
    p = softmax(np.array([30.0, 30.0, 0.0]))
    assert np.linalg.eigvalsh(np.diag(p) - np.outer(p, p))[-1] > 0.5 * (1 - 1e-9)


@pytest.mark.parametrize("classes", [2, 3, 4, 10])
@pytest.mark.parametrize("rho", [0.0, 0.5, 2.0, None])
def test_the_curvature_bounds_the_largest_eigenvalue(classes, rho):
    rng = np.random.default_rng(classes)
    size = rng.gamma(0.5, 8.0, size=(4000, 1)) if rho is None else rho * rng.random((4000, 1)) ** (1 / classes)
    z = rng.normal(size=(4000, classes))
    z[:classes] = np.eye(classes)
    z[classes : 2 * classes] = 1 - np.eye(classes)
    z = size * z / np.linalg.norm(z, axis=1, keepdims=True)
    p = softmax(z)
    largest = np.linalg.eigvalsh(np.einsum("ni,ij->nij", p, np.eye(classes)) - np.einsum("ni,nj->nij", p, p))[:, -1].max()
    curve = float(extrema(classes, None if rho is None else F(rho)).curve)
    assert largest <= curve * (1 + 1e-12)
    assert curve <= 0.5
    if rho == 0.0:
        assert curve == pytest.approx(1 / classes, rel=1e-12)
        assert largest == pytest.approx(1 / classes, rel=1e-12)


def test_weights_are_measured_in_all_their_coordinates():
    """The largest Frobenius norm of a 3 x 4 matrix with entries up to r is r sqrt(12), not r sqrt(4)."""
    r = F(1, 10)
    box = prove(over=Ball(norm="linf", radius=num(r)))
    frobenius = prove(over=Ball(norm="l2", radius=num(F(math.sqrt(12) / 10))))
    assert box.lipschitz == pytest.approx(frobenius.lipschitz, rel=1e-12)
    assert box.lipschitz > prove(over=Ball(norm="l2", radius=num(F(math.sqrt(4) / 10)))).lipschitz * 1.01
    assert prove(over=Box(low=num(-r), high=num(r))).lipschitz == pytest.approx(box.lipschitz, rel=1e-12)


def test_a_factor_and_a_regulariser():
    c = prove("2*multinomial(3) + 0.01/2*|w|^2 + 0.1*|w|_1 + 7")
    assert c.lipschitz == pytest.approx(2 * math.sqrt(2))
    assert (c.smooth, c.l2, c.l1, c.classes, c.factor) == (1.0, 0.01, 0.1, 3, 2)
    assert c.strongly_convex == pytest.approx(0.01)
    assert c.at_zero == pytest.approx(2 * math.log(3))
    assert prove("K*multinomial(2)", classes=2).findings[0].code == "DP213"
    assert prove(x=Ball(norm="linf", radius=num(1))).lipschitz_inf == 1.0


def test_the_evidence_says_the_derivation():
    words = " ".join(prove(over=UNIT).evidence)
    for piece in ("|z|_2 <= |W|_F |x|_2 <= 1", "(p - e_y) x^T", "(diag(p) - p p^T) kron x x^T", "1 - p_y <=", "convex"):
        assert piece in words
    assert "2 (1 - p_y)^2 < 2" in " ".join(prove().evidence)


@pytest.mark.parametrize(
    ("loss", "code"),
    [
        ("multinomial(3)*y", "DP200"),
        ("multinomial(3)^2", "DP200"),
        ("-multinomial(3)", "DP200"),
        ("multinomial(3) + <w, x>", "DP200"),
        ("max(multinomial(3), 0)", "DP200"),
        ("sqrt(1 + multinomial(3))", "DP200"),
        ("multinomial(3)*|w|^2", "DP200"),
        ("multinomial(1)", "DP216"),
        ("multinomial(5/2)", "DP216"),
        ("multinomial(10^50)", "DP216"),
        ("multinomial", "DP216"),
        ("multinomial(3) + |w|_1*|w|^2", "DP215"),
    ],
)
def test_what_it_is_not(loss, code):
    c = prove(loss)
    assert code in {f.code for f in c.findings}
    if code != "DP215":
        assert not math.isfinite(c.lipschitz)
    else:
        assert not c.exact_regulariser


@pytest.mark.parametrize("labels", [finite(0, 1), finite(0, 1, 3), finite(1, 2, 3), finite(0, 1, 2, 3), interval(0, 2), UNBOUNDED])
def test_labels_have_to_be_the_classes(labels):
    c = certify(parse_expr("multinomial(3)"), over=UNIT, x=UNIT, y=labels, names={"d": 4})
    assert [(f.code, f.severity) for f in c.findings] == [("DP220", "error")]
    assert not math.isfinite(c.lipschitz)


def test_sets_of_vectors_and_pairs_are_refused():
    for over in (Simplex(), Sparse(k=num(2))):
        c = prove(over=over)
        assert [f.code for f in c.findings] == ["DP221"]
        assert not math.isfinite(c.lipschitz)
    assert "DP200" in {f.code for f in prove(pairwise=True).findings}
    assert not math.isfinite(prove(x=UNBOUNDED).lipschitz)


def test_it_is_no_function_of_one_margin():
    with pytest.raises(NoNormalForm):
        margin_functions(parse_expr("multinomial(3)"))
    with pytest.raises(ValueError, match="no normal form"):
        margin_loss(prove())


@pytest.mark.parametrize(
    ("claim", "code"),
    [
        (Claim("lipschitz", F("1.4143")), None),
        (Claim("lipschitz", F(2)), "DP205"),
        (Claim("lipschitz", F("1.41")), "DP201"),
        (Claim("smooth", F("0.51")), None),
        (Claim("smooth", F("0.6")), "DP205"),
        (Claim("smooth", F("0.4")), "DP202"),
        (Claim("convex"), None),
        (Claim("strongly-convex", F("0.01")), None),
        (Claim("strongly-convex", F("0.001")), "DP205"),
        (Claim("strongly-convex", F("0.02")), "DP204"),
    ],
)
def test_claims(claim, code):
    """On R^d: |grad| < sqrt(2) and approached, |Hessian| <= 1/2 + lam and approached, strong convexity lam exactly."""
    found = [f.code for f in prove("multinomial(3) + 0.01/2*|w|^2", claims=(claim,)).findings]
    assert found == ([] if code is None else [code])


def test_a_claim_between_what_is_proved_and_what_is_reached_stays_open():
    """On the unit ball 1.10 is proved and 1.07 reached."""
    assert [f.code for f in prove(over=UNIT, claims=(Claim("lipschitz", F("1.09")),)).findings] == ["DP206"]
    assert [f.code for f in prove(over=UNIT, claims=(Claim("lipschitz", F("1.07")),)).findings] == ["DP201"]
