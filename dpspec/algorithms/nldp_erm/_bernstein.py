"""What the three local Bernstein mechanisms share: a loss known at the points of a grid, one point a user, and the polynomial through them.

    1. The box around the set has K = (k+1)^d grid points; users are dealt to them evenly, by their numbers.
    2. A user of point v holds phi(<v, x>, y) - phi(<c, x>, y), c the middle of the box, which a Lipschitz loss keeps within L |v - c|. It
       is stretched by (the distance of a corner)/|v - c| and reported through a channel that clips it at ``half``.
    3. The server averages the reports of a point, undoes the stretching (so near the middle there is little noise), takes the iterated
       Bernstein polynomial of order h through the averages,
    4. adds the public regulariser, and minimises over the set.

The value at c is one number a record, so it moves no minimiser; differences are at most L |v - c|.

The polynomial. B_k f(w) = sum_v f(v) prod_j b_(v_j, k)(w_j) on [0, 1]^d; of order h, I - (I - B_k)^h in every coordinate. With
N the matrix of the basis at its own nodes, its coefficients are sum_(i<h) (I - N)^i of the values, axis by axis. The basis is raised
degree by degree, sums of positive numbers: stable for every k.

Errors, side s of the box, h = 1 (t(1-t) <= 1/4; Jensen for the Lipschitz one):

    sup |B_k l - l| <= s^2 B/(8 k) for a B-smooth loss,     <= L s sqrt(d)/(2 sqrt(k)) for an L-Lipschitz one;
    sup |B_k e| <= max_v |e_v|.

Order h: noise grows by the norm a^d of the operator, a = max_t sum_v |b_v(t)|, which is computed (at most 2^h - 1, as the documents have
it in D_h; really 1.2 to 1.3 at h = 2 to 4). Bias falls like k^(-h) for smooth losses with a constant that is open, D_h; what is proved
here for any h, from |I - B| <= 2 and coordinate after coordinate, is 2^(h-1) a^(d-1) times that of order 1: of the logistic loss on
[-2, 2] the bias is 0.149, 0.055, 0.023 and 0.012 at k = 3 and h = 1 to 4. So the default is h = 4 with a low degree, which leaves noise no
bumps to make false minima of; the bound, which sees the largest error alone, is least at h = 1 and a higher degree.

If m = floor(n/K) users share each of the K points, reports of length R are off by at most R sqrt(2 log(2 K/zeta)/m) at all of them:
Hoeffding; for the records at hand, in any order, Maclaurin's inequality for groups that are drawn without replacement. The minimiser of
a function that is within e of F is within 2 e of min F.

Source: 000, section 5.1.3, Algorithm 5.1.31, Theorems 5.1.2 to 5.1.6.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from itertools import product as pairs
from typing import Final

import numpy as np
from numpy.typing import NDArray

from dpspec.algorithms.card import Bound, Fault, Need, Problem, Tunable, Tunables
from dpspec.algorithms.estimate import Estimate
from dpspec.algorithms.objective import Objective, margins
from dpspec.algorithms.sets import ConstraintSet, Vector, constraint_set
from dpspec.data.records import round_bounds
from dpspec.models.door import Door
from dpspec.models.rows import Rows

EVIDENCE: Final = "tests/algorithms/nldp_erm/test_local_bernstein.py::"

#: Coefficients of the polynomial, and coordinates: (k+1)^d grows with d in the exponent whatever k is.
MOST: Final = 20_000
DIMENSIONS: Final = 8
#: Points at which the server looks for the minimum before it refines the best of them.
LATTICE: Final = 4000
STARTS: Final = 3
STEPS: Final = 60
#: A step of that share of the box ends the search.
STILL: Final = 1e-6

BIAS: Final = "Bernstein polynomial of the grid values, and the minimiser of a function within e of F"
POPULATION: Final = "the same for the mean loss of the law"

_CLIPS = "each client's channel clips the value of its loss"
NEEDS: Final = (
    Need("x", "privacy", "a report is private whatever the record holds", enforced_by=_CLIPS),
    Need("y", "privacy", "a report is private whatever the record holds", enforced_by=_CLIPS),
    Need("lipschitz", "utility", "values over the box are within `half` of the one in its middle"),
)
OPTIONS: Final = {"server": ("search", "descent")}
HALF: Final = Tunable(
    "L*w_linf*sqrt(d) else L*w_radius else 1",
    "largest change of a Lipschitz loss from the middle of the box to a corner; 000: losses in [0, 1]",
    minimum=1e-100,
    maximum=1e100,
)
_SIDE: Final = "2*w_linf else 2*w_radius else 2"
_FIT: Final = "max(1, floor(min(n, 20_000)^(1/d) + 1/10^9) - 1)"
SIDE: Final = Tunable(_SIDE, "side of the box; the set's own where it is known", minimum=1e-100, maximum=1e100)
ORDER: Final = Tunable(
    "2",
    "order of the iterated operator: smooth losses have a bias of order k^(-h); 000: h = d and more",
    integer=True,
    minimum=1,
    maximum=8,
)
MU: Final = Tunable(
    "0", "ridge that the server adds; 000 Theorem 5.1.3: n^(-1/12), which uniform convergence makes needless", minimum=0.0, maximum=1e100
)


def degree(spread: str) -> Tunable:
    """The degree at which the slopes of bias and noise are least together, when the average of n reports is off by ``spread``/sqrt(n).

    What moves the minimiser is the slope of an error. The bias is s^2 B/(8 k^((h+1)/2)), see :func:`error` (of a Lipschitz loss that of
    order 1), noise is spread k^(d/4)/sqrt(n), and its slope is sqrt(k) times steeper than that of the loss. No more points than users."""
    smooth = f"((h + 1)*side^2*B*sqrt(n)/(4*(d + 2)*{spread}))^(4/(d + 2*h + 4))"
    rough = f"(L*side*sqrt(d*n)/((d + 2)*{spread}))^(4/(d + 4))"
    formulas = [f"max(1, min({_FIT}, floor({formula})))" for formula in (smooth, rough)]
    return Tunable(
        " else ".join([*formulas, _FIT]), "equal slopes of bias and noise; 000: printed with an open D_h", integer=True, minimum=1
    )


def sample_size(statement: str) -> Bound:
    """The documents' count of users."""
    return Bound(
        "excess-empirical-risk",
        "order",
        "upper",
        "C*sqrt(log(1/zeta))*2^(d*(d + 1)/2)*sqrt(d)/(n^(1/4)*sqrt(epsilon))",
        "claimed",
        statement,
        probability="1 - zeta",
        conditions="h = d, D_d left out; n of the order 4^(d*(d + 1))*d/(epsilon^2*error^4), exponential in d",
        regime="C*4^(d*(d + 1))/epsilon^2",
    )


def bounds(length: str) -> tuple[Bound, ...]:
    expression = "2*(bias + a^d*off)"
    conditions = "independent records, a box or d = 1, (k + 1)^d <= n, and the server finds the least value"
    where = {
        "bias": "2^(h-1)*a^(d-1)*side^2*B/(8*k), or with L*side*sqrt(d)/(2*sqrt(k)) for side^2*B/(8*k) where that is less",
        "a": "norm of the operator: 1 for h = 1, else computed",
        "off": f"error of the averages at K = (k+1)^d points: {length}*sqrt(2*log(2*K/zeta)/floor(n/K)) and its like",
    }
    return (
        Bound(
            "excess-empirical-risk",
            "explicit",
            "upper",
            expression,
            "proved",
            BIAS,
            probability="1 - zeta",
            conditions=conditions,
            where=where,
        ),
        Bound(
            "excess-population-risk",
            "explicit",
            "upper",
            expression,
            "proved",
            POPULATION,
            probability="1 - zeta",
            conditions=conditions,
            where=where,
        ),
        Bound(
            "excess-empirical-risk",
            "order",
            "upper",
            "C*B*side^2*(d*(1 + 1/epsilon)*half/(B*side^2*sqrt(n)))^(4/(d + 4))",
            "claimed",
            "bias and noise at their best k, the basis spreading noise over sqrt(k) points a coordinate",
            conditions="h = 1, logs left out: n grows like error^(-(2 + d/2))",
            options={"h": 1.0},
        ),
    )


FAULTS: Final = (
    Fault(
        "000 section 5.1.3: losses in [0, 1] are a promise about the data",
        "a record whose loss is larger would break the channel; every client's channel clips",
        "tests/algorithms/test_printed_leaks.py::test_a_value_beyond_the_promised_range_spends_its_multiple",
        "privacy",
    ),
    Fault(
        "000 Theorem 5.1.2 (5.3): the power of d",
        "with the stated k the bias has d^(1/2 + d/(2(h+d))): the root of h + d divides the noise alone",
        "docs/faults.md#dimension-in-the-bernstein-rate",
        "utility",
    ),
    Fault(
        "000 Theorem 5.1.2: D_h is a constant",
        "it hides the norm of the iterated operator in d coordinates, (2^h - 1)^d in the proof; computed, it is 1.2^d at h = 2",
        EVIDENCE + "test_the_norm_of_the_iterated_operator",
        "utility",
    ),
    Fault(
        "000 Theorem 5.1.3: n^(-1/12) for the population",
        "the reports of independent records are as far from the mean loss of the law: the same bound without the twelfth root",
        EVIDENCE + "test_the_bound_holds",
        "utility",
    ),
    Fault(
        "000 Theorem 5.1.6: accuracy 16348 d alpha of the approximately convex search",
        "vacuous: above the range of the loss unless alpha < 1/(16348 d)",
        "docs/faults.md#accuracy-of-an-approximately-convex-search",
        "utility",
    ),
)


def refusal(p: Problem, t: Tunables) -> str | None:
    """What all three need of the spec."""
    if p.loss is None:
        return "the loss has no certificate"
    if not p.loss.smooth_penalty:
        return "its server knows a ridge term, and no l1 or group term"
    over = constraint_set(p.task.over, p.facts)
    if not (over.convex and math.isfinite(over.diameter(p.d))):
        return "a polynomial on a grid needs a bounded convex set (`over box(-1, 1)` or `over ball(l2, 1)`)"
    count = points(p, t)
    if p.d > DIMENSIONS or count > MOST:
        return (
            f"a polynomial of degree k = {t.k} in each of d = {p.d} coordinates has (k + 1)^d = {count:.3g} coefficients; the limits are "
            f"{MOST} and d = {DIMENSIONS}: the number of users it needs is exponential in d"
        )
    return None


def points(p: Problem, t: Tunables) -> int:
    """K = (k+1)^d."""
    return int((int(t.k) + 1) ** p.d)


def groups(p: Problem, t: Tunables) -> int:
    """Sets of users, each with a point of its own: no more than there are users."""
    return min(points(p, t), p.n)


def box(over: ConstraintSet, d: int) -> tuple[Vector, Vector]:
    """The ends of the box around the set, (d,) each."""
    match over.kind:
        case "box":
            low, high = over.low, over.high
        case "simplex":
            low, high = 0.0, 1.0
        case "polytope":
            assert over.vertices is not None
            return over.vertices.min(axis=0), over.vertices.max(axis=0)
        case _:
            low, high = -over.radius, over.radius
    return np.full(d, low), np.full(d, high)


def centre(over: ConstraintSet, d: int) -> Vector:
    """The middle of the box, (d,)."""
    low, high = box(over, d)
    return np.asarray((low + high) / 2)


def grid(over: ConstraintSet, d: int, k: int) -> Vector:
    """The (k+1)^d points, the last coordinate running fastest, shape (K, d)."""
    low, high = box(over, d)
    return low + (high - low) * np.array(list(pairs(range(k + 1), repeat=d)), dtype=np.float64) / k


# ------------------------------------------------------------------------------------------------------------------- clients


def averages(records: Rows, p: Problem[Objective], t: Tunables, release: Door) -> Vector:
    """The average report of each grid point, shape (K,), one point a user; 0, the value in the middle, where no user is left for it."""
    over = constraint_set(p.task.over, p.facts)
    nodes, middle = grid(over, p.d, int(t.k)), centre(over, p.d)
    order, served = dealt(p.n), dealt(len(nodes))[: groups(p, t)]
    found, far = np.zeros(len(nodes)), stretch(nodes, middle)
    for v, (start, stop) in zip(served, round_bounds(p.n, len(served)), strict=True):
        group = records.take(np.sort(order[start:stop]))
        found[v] = float(np.ravel(release.mean_blocks("value", values(group, nodes[v : v + 1], middle, far[v : v + 1], p.objective)))[0])
    return shrunk(found, far)


def dealt(n: int) -> NDArray[np.intp]:
    """0, ..., n-1 in an order of public steps, the golden share of n or next to it: neighbours in a file fall on points far apart, so
    sorted files do no harm, and a client knows its place from its own number. Consecutive users of it form a group."""
    step = max(1, round(n * (math.sqrt(5) - 1) / 2))
    while math.gcd(step, n) > 1:
        step += 1
    return np.arange(n) * step % n


def stretch(nodes: Vector, middle: Vector) -> Vector:
    """The factors of the values at the nodes, (K,); 0 in the middle itself, where the value is 0."""
    far = np.linalg.norm(nodes - middle, axis=1)
    return np.where(far > 0, far.max() / np.where(far > 0, far, 1.0), 0.0)


def shrunk(reports: Vector, far: Vector) -> Vector:
    """The values from the averages of their reports, (K,)."""
    return np.asarray(np.where(far > 0, reports / np.where(far > 0, far, 1.0), 0.0))


def values(records: Rows, nodes: Vector, middle: Vector, far: Vector, objective: Objective, rows: int = 8192) -> Iterator[Vector]:
    """What clients report: phi at the nodes (K, d) less phi in the middle, stretched, in blocks (users, K). What is no number is 0 to the
    channel."""
    for x, y in records.blocks(rows):
        with np.errstate(all="ignore"):
            base = objective.phi(margins(x, middle), y)
            yield np.column_stack([f * (objective.phi(margins(x, v), y) - base) for v, f in zip(nodes, far, strict=True)])


# -------------------------------------------------------------------------------------------------------- the server's polynomial


def basis(points: Vector, k: int) -> Vector:
    """b_(v, k) at the points of [0, 1], shape (m, k+1), degree by degree: sums of positive numbers."""
    s = points[:, None]
    out = np.zeros((len(points), k + 1))
    out[:, 0] = 1.0
    for m in range(1, k + 1):
        raised = out[:, :m] * s
        out[:, :m] *= 1 - s
        out[:, 1 : m + 1] += raised
    return out


def iterated(values: Vector, k: int, h: int) -> Vector:
    """The coefficients of the polynomial of order h, an array (k+1, ..., k+1): sum_(i<h) (I - N)^i along every axis."""
    if h == 1:
        return values
    left = np.eye(k + 1) - basis(np.arange(k + 1) / k, k)
    total = power = np.eye(k + 1)
    for _ in range(h - 1):
        power = power @ left
        total = total + power
    for axis in range(values.ndim):
        values = np.moveaxis(np.tensordot(total, values, axes=(1, axis)), 0, axis)
    return values


def polynomial(coefficients: Vector, at: Vector) -> tuple[float, Vector]:
    """The value and the gradient at one point of [0, 1]^d; ``coefficients``: (k+1, ..., k+1)."""
    k, d = coefficients.shape[0] - 1, coefficients.ndim
    slope, lower = np.zeros((d, k + 1)), basis(at, k - 1)
    slope[:, 1:] += k * lower
    slope[:, :k] -= k * lower
    one = np.zeros((d, k + 1))
    one[:, :k] = lower * (1 - at[:, None])
    one[:, 1:] += lower * at[:, None]
    gradient = np.empty(d)
    for j in range(d):
        gradient[j] = _contract(coefficients, [slope[i] if i == j else one[i] for i in range(d)])
    return _contract(coefficients, list(one)), gradient


def _contract(coefficients: Vector, weights: list[Vector]) -> float:
    out = coefficients
    for w in weights:
        out = np.tensordot(w, out, axes=(0, 0))
    return float(out)


def minimum(coefficients: Vector, over: ConstraintSet, ridge: float, server: str) -> Vector:
    """A point of the set where the polynomial plus ridge/2 |w|^2 is least: ``search`` looks at a lattice and refines its best points,
    ``descent`` starts once, in the middle, and takes time polynomial in d for what is nearly convex."""
    d = coefficients.ndim
    low, high = box(over, d)
    side = np.where(high > low, high - low, 1.0)

    def f(w: Vector) -> tuple[float, Vector]:
        value, g = polynomial(coefficients, np.clip((w - low) / side, 0.0, 1.0))
        return value + ridge / 2 * float(w @ w), g / side + ridge * w

    starts = [over.project((low + high) / 2)]
    if server == "search":
        starts += _best(coefficients, over, ridge)
    found = [_descent(f, over, w, float(side.max())) for w in starts]
    return min(found, key=lambda pair: pair[0])[1]


def _best(coefficients: Vector, over: ConstraintSet, ridge: float) -> list[Vector]:
    """The best points of a lattice of the box that lie in the set."""
    d, k = coefficients.ndim, coefficients.shape[0] - 1
    m = max(3, int(LATTICE ** (1 / d)))
    ticks = np.linspace(0, 1, m)
    table, b = coefficients, basis(ticks, k)
    for axis in range(d):
        table = np.moveaxis(np.tensordot(b, table, axes=(1, axis)), 0, axis)
    low, high = box(over, d)
    w = low + (high - low) * np.stack(np.meshgrid(*[ticks] * d, indexing="ij"), axis=-1).reshape(-1, d)
    total = table.ravel() + ridge / 2 * (w * w).sum(axis=1)
    kept: list[Vector] = []
    lowest = np.argpartition(total, min(50 * STARTS, total.size - 1))[: 50 * STARTS]
    for i in lowest[np.argsort(total[lowest], kind="stable")]:
        if len(kept) < STARTS and np.allclose(over.project(w[i]), w[i], atol=1e-9 * (1 + float(np.abs(w[i]).max()))):
            kept.append(w[i])
    return kept


def _descent(f: Callable[[Vector], tuple[float, Vector]], over: ConstraintSet, w: Vector, side: float) -> tuple[float, Vector]:
    """Projected gradient with backtracking; ends at a point that is no worse than the start."""
    value, g = f(w)
    step = side / max(float(np.linalg.norm(g)), 1e-300)
    for _ in range(STEPS):
        new = over.project(w - step * g)
        at, slope = f(new)
        moved = float(np.linalg.norm(w - new))
        if at <= value - moved**2 / (4 * step):
            w, value, g, step = new, at, slope, 2 * step
        else:
            step /= 2
        if moved <= STILL * side:
            break
    return value, w


def finish(values: Vector, p: Problem, t: Tunables) -> Estimate:
    """The estimate from the (K,) values at the grid."""
    over = constraint_set(p.task.over, p.facts)
    assert p.loss is not None
    k = int(t.k)
    coefficients = iterated(values.reshape((k + 1,) * p.d), k, int(t.h))
    return Estimate(minimum(coefficients, over, p.loss.l2 + t.mu, str(t.server)), {"grid": values})


# --------------------------------------------------------------------------------------------------- what is known beforehand


def bias(p: Problem, t: Tunables) -> float:
    """sup |B_k l - l| over the box for h = 1; the smoother coordinates add up."""
    assert p.loss is not None
    low, high = box(constraint_set(p.task.over, p.facts), p.d)
    side = float((high - low).max())
    return float(min(side**2 * p.loss.smooth / (8 * t.k), p.loss.lipschitz * side * math.sqrt(p.d) / (2 * math.sqrt(t.k))))


def norm(k: int, h: int) -> float:
    """Bounds max_t sum_v |b_v(t)| of order h: at m Chebyshev points, where a polynomial of degree k is at least cos(pi k/(2 m)) of its
    maximum (Ehlich and Zeller 1964)."""
    if h == 1:
        return 1.0
    m = 16 * (k + 1)
    at = (1 + np.cos(math.pi * (np.arange(m) + 0.5) / m)) / 2
    table = np.column_stack([iterated(unit, k, h) for unit in np.eye(k + 1)])
    most = float(np.abs(basis(at, k) @ table).sum(axis=1).max()) / math.cos(math.pi * k / (2 * m))
    return min(most * (1 + 1e-9), 2.0**h - 1)


def stated(p: Problem, t: Tunables, off: Callable[[int, int], float]) -> dict[str, float]:
    """The explicit bounds; ``off(K, m)``: how far the averages of m reports at K points are from the values, with probability 1 - zeta."""
    over = constraint_set(p.task.over, p.facts)
    assert p.loss is not None
    low, high = box(over, p.d)
    reach = p.loss.lipschitz * float(np.linalg.norm(high - low)) / 2
    if (
        points(p, t) > p.n
        or t.mu > 0
        or t.server != "search"
        or not (p.d == 1 or over.kind in ("box", "linf"))
        or t.half < reach * (1 - 1e-12)
    ):
        return {}
    count = points(p, t)
    a = norm(int(t.k), int(t.h))
    bound = 2 * (2 ** (int(t.h) - 1) * a ** (p.d - 1) * bias(p, t) + a**p.d * off(count, p.n // count))
    return {BIAS: bound, POPULATION: bound} if math.isfinite(bound) else {}


def terms(p: Problem, t: Tunables, off: Callable[[int, int], float]) -> dict[str, dict[str, float]]:
    """The names of the explicit bounds."""
    count, a = points(p, t), norm(int(t.k), int(t.h))
    if count > p.n:
        return {}
    names = {"bias": 2 ** (int(t.h) - 1) * a ** (p.d - 1) * bias(p, t), "a": a, "off": off(count, p.n // count)}
    return {BIAS: names, POPULATION: names}


def hoeffding(length: float, zeta: float) -> Callable[[int, int], float]:
    """Averages of m numbers in [-length, length] at K points."""
    return lambda count, m: length * math.sqrt(2 * math.log(2 * count / zeta) / m)


def error(p: Problem, t: Tunables, spread: float) -> float:
    """Predicted excess risk; ``spread``: standard deviation of a report. The basis averages over about sqrt(pi k) points a coordinate, of
    order h over sqrt(h) times fewer. Noise costs its square over the curvature, as it moves a minimum, or itself where it is larger than
    the loss; the bias of a smooth loss falls with every order by a factor k."""
    over = constraint_set(p.task.over, p.facts)
    assert p.loss is not None
    low, high = box(over, p.d)
    noise = spread * math.sqrt(points(p, t) / p.n) * (t.h / (math.pi * t.k)) ** (p.d / 4)
    curvature = p.loss.smooth * float((high - low).max()) ** 2
    moved = 16 * p.d * noise**2 * t.k / curvature if 0 < curvature < math.inf else math.inf
    most = p.loss.lipschitz * over.diameter(p.d)
    found = [bias(p, t) / (t.k + 1) ** (t.h - 1) + min(2 * noise, moved), most]
    return float(min([x for x in found if math.isfinite(x)] or [2 * noise]))


def warned(p: Problem, t: Tunables, spread: float) -> list[str]:
    """Where the noise of a grid value is about as large as what the loss can change, with the number of users that would do."""
    count = points(p, t)
    noise = spread * math.sqrt(count / p.n)
    if noise <= t.half / 2:
        return []
    needed = p.n * (4 * noise / t.half) ** 2
    return [
        f"each of {count} grid values is off by about {noise:.3g}, and they differ by at most {2 * t.half:.3g}: n of about {needed:.2g} "
        f"would quarter that; it grows exponentially with d = {p.d}"
    ]
