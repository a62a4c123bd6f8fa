"""dp-pmd-nonconvex: the potentials, the bound over four sets, and what a short mirror mapping says."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest

from dpspec.algorithms.mirror import Geometry
from dpspec.algorithms.nonconvex_erm import dp_pmd_nonconvex as module
from dpspec.data.records import Records
from dpspec.measures.gradient import MIRROR_MAPPING_NORM, gradient_norm, mirror_mapping_norm
from dpspec.spec.diagnostics import SpecError
from tests.algorithms.nonconvex.test_dp_gld import metered
from tests.algorithms.nonconvex.test_dp_pgd_nonconvex import drafted, sample

SETS = {"l2": "ball(l2, 2)", "l1": "ball(l1, 3)", "linf": "ball(linf, 1)", "simplex": "simplex"}


def bound(over: str, n: int = 4000, d: int = 4, options: str = ""):
    from dpspec.compiler.passes import compile_draft
    from dpspec.executor.bind import bound_problem
    from dpspec.lang.source import parse_text
    from tests.algorithms.nonconvex.test_dp_pgd_nonconvex import SIGMOID, SPEC

    more = f" with {options}" if options else ""
    text = SPEC.format(
        n=n,
        d=d,
        loss=SIGMOID,
        over=over,
        y="{-1, 1} by map(0 -> -1, 1 -> 1)",
        neighbours="replace-one",
        options=more,
        epsilon="1",
        delta="1e-6",
    ).replace("by dp-pgd-nonconvex", "by dp-pmd-nonconvex")
    draft = compile_draft(parse_text(text, surface="dps"))
    release = draft.releases[0]
    assert release.module is module, [e.message for e in draft.diagnostics]
    return bound_problem(draft, release), release.tunables, draft.calibrated or release.calibrated


def norm_of(kind: str, v: np.ndarray) -> float:
    return {"l2": float(np.sqrt(v @ v)), "linf": float(np.abs(v).max())}.get(kind, float(np.abs(v).sum()))


def dual_norm(kind: str, v: np.ndarray) -> float:
    return {"l2": float(np.sqrt(v @ v)), "linf": float(np.abs(v).sum())}.get(kind, float(np.abs(v).max()))


@pytest.mark.parametrize("kind", SETS)
@pytest.mark.parametrize("d", [2, 7])
def test_the_potentials_are_strongly_convex_in_the_norm_of_their_set(kind: str, d: int):
    """A mirror step of a 1-strongly convex potential is 1-Lipschitz from the dual norm to the norm; and <g, u - u+> >= |u - u+|^2."""
    rng, shape = np.random.default_rng(d), Geometry(kind, 1.0, d)
    for _ in range(150):
        u = rng.exponential(size=d) * (1 if kind == "simplex" else rng.choice([-1, 1], size=d))
        u = u / norm_of(kind, u) * (1 if kind == "simplex" else rng.random() ** 0.3)
        g, h = rng.normal(size=(2, d)) * 10 ** rng.uniform(-2, 1)
        one, other = shape.step(u, g), shape.step(u, h)
        assert norm_of(kind, one - other) <= dual_norm(kind, g - h) * (1 + 1e-7) + 1e-9
        assert float(g @ (u - one)) >= norm_of(kind, u - one) ** 2 * (1 - 1e-6) - 1e-9
        assert shape.norm(one - other) == pytest.approx(norm_of(kind, one - other))


@pytest.mark.parametrize("kind", SETS)
def test_the_bound_is_that_of_the_docstring_and_holds(kind: str):
    p, t, c = bound(SETS[kind])
    (value,) = module.explicit_bounds(p, t, c).values()
    d, s, K = 4, c.scale("gradient"), math.ceil(t.T / 2)
    R, q = {"l2": (2, 1), "l1": (3, 1), "linf": (1, 2), "simplex": (1, 1)}[kind]
    S = math.tanh(0.5) / (2 + math.e + 1 / math.e) if kind == "simplex" else 1 / (6 * math.sqrt(3))  # margins in [-1, 1], or beyond 1.3
    M = (R * q) ** 2 * S
    W = R**2 * {"l2": d + 1, "linf": d * d * 2 / math.pi + d}.get(kind, 2 * math.log(2 * d) + 1)
    far = {"l2": 2, "l1": 3, "linf": 2}.get(kind, math.sqrt(1 - 1 / d))  # from the start
    DF = 0.25 * far if kind == "simplex" else min(0.5, 0.25 * far)
    assert value == pytest.approx(math.sqrt((2 * M * DF / K + W * s**2 * t.T / K) * 4 / 3) + s * math.sqrt(W), rel=1e-6)
    found = []
    for seed in range(3):
        r = sample(4000, d, seed)
        found.append(mirror_mapping_norm(metered(module, r, p, t, c, seed), SimpleNamespace(problem=p, records=r)))
    assert math.sqrt(np.mean(np.square(found))) <= value


def test_the_noise_counts_by_its_dual_norm():
    """E |b|_*^2 <= W by simulation, for each set."""
    rng = np.random.default_rng(0)
    for kind in SETS:
        for d in (1, 3, 40):
            b = rng.normal(size=(2000, d))
            mean = np.mean([dual_norm(kind, v) ** 2 for v in b])
            assert mean <= Geometry(kind, 1.0, d).width * 1.05


def test_the_plan_is_the_same_for_all_data():
    """T, the step and the gap are read off before a record is: the document's need F(x_1) - F* of the data."""
    p, t, _ = bound(SETS["l1"])
    assert t.gap == 0.5 == p.loss.at_zero
    gaps = []
    for seed, flip in ((0, False), (0, True)):
        r = sample(400, 4, seed)
        r = Records(r.x, np.random.default_rng(1).choice([-1.0, 1.0], size=400)) if flip else r
        points = np.random.default_rng(2).laplace(size=(300, 4))
        points *= 3 / np.abs(points).sum(axis=1, keepdims=True)
        gaps.append(0.5 - min(p.oracle.value(w, r) for w in points))
    assert gaps[0] > 2 * gaps[1]


def test_a_short_mirror_mapping_is_no_short_gradient():
    """Inside the l1 ball with the Euclidean potential (d/2)|u|^2, which is 1-strongly convex in |.|_1, the mapping is grad F/d."""
    d, rng = 50, np.random.default_rng(0)
    g = rng.normal(size=d) * 1e-3
    u = np.zeros(d)
    gamma = 0.5
    step = u - gamma * g / d  # argmin <gamma g, v> + d/2 |v - u|^2, inside the ball
    mapping = (u - step) / gamma
    assert np.abs(step).sum() < 1
    assert np.linalg.norm(mapping) == pytest.approx(np.linalg.norm(g) / d)
    # and with the map of this module the two measures rank two points differently
    p, _, _ = bound("ball(l1, 3)", d=7)
    r = sample(300, 7)
    trial = SimpleNamespace(problem=p, records=r)
    points = np.random.default_rng(4).laplace(size=(40, 7)) * 0.2
    by_mirror = np.argsort([mirror_mapping_norm(w, trial) for w in points])
    by_gradient = np.argsort([gradient_norm(w, trial) for w in points])
    assert list(by_mirror) != list(by_gradient)


def test_the_mapping_is_zero_at_stationary_points_and_asks_for_a_mirror_map():
    p, _, _ = bound("ball(l2, 2)")
    r = sample(200, 4)
    trial = SimpleNamespace(problem=p, records=r)
    w = np.zeros(4)
    for _ in range(3000):
        w = p.oracle.prox(w - 5 * p.oracle.gradient(w, r), 5)
    assert mirror_mapping_norm(w, trial) < 1e-6 < mirror_mapping_norm(np.zeros(4), trial)
    draft = drafted(loss="1/(1 + exp(y*<w, x>)) + 0.1*|w|_1", over="R^d")
    from dpspec.executor.bind import bound_problem

    with pytest.raises(SpecError, match="mirror mapping"):
        MIRROR_MAPPING_NORM.of(w[:3], SimpleNamespace(problem=bound_problem(draft, draft.releases[0]), records=sample(20, 3)))
