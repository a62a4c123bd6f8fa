"""Convex losses of one number from one Gaussian report a user: a convex polynomial near the loss, and its unbiased gradients.

A loss f(y <w, x>) is f(<w, v>) with v = y x; a loss f(<w, x> - y) is f(<o, v>) with v = (x, (r/tau) y), o = (w, -tau/r). A user sends

    z = v + N(0, s^2 I),   v scaled into its ball by the channel;   one report, whatever the loss, the degree and the set are.

The server replaces f on the range [-U, U] of <o, v> by a convex polynomial P, and takes one pass of averaged projected gradient (or
:mod:`.sigm`) over batches of users. With t = s|o|, H_k(a) = t^k He_k(a/t) (He_k: Hermite, so E H_k(b + t N) = b^k), p = P' = sum c_k u^k,
p~ = sum c_k H_k, and a = <o, z>:

    g = p~(a) z - s^2 p~'(a) o     has the mean  p(<o, v>) v     (Stein: E phi(a) N = s E phi'(a) o).

The documents send 2(p(p+1) + 1) noisy copies in its place, one for every factor of every power, and split the budget among them.

Variance. E p~(b + t N)^2 = sum_m t^(2m) p^(m)(b)^2/m!, and the part of g along o is p~ of u p(u), over |o|. With S_m = max |p^(m)|
over [-U, U], |v| <= R, |o| <= Q, D coordinates, T = s Q:

    E|g|^2 <= V = (R^2 + (D-1) s^2) sum_m T^(2m) S_m^2/m!  +  sum_m (R T^m S_m + m s T^(m-1) S_(m-1))^2/m!.

Error, for independent records and a reach d >= |w - w_0|, T steps of b >= floor(n/T) users: with E = max |P - f| over [-U, U],

    E excess population risk <= 2 E + d sqrt(G^2/T + V/(T b)),   G = R S_0 + lam diameter,

since users of a batch are independent of its w, and P is convex. T = n/10 up to 2000 makes the first term small. V grows like s^(2 deg):
the degree is that of the least bound, and is 1 or 2 unless the budget or n is very large. P is the convex polynomial of least E (a linear
programme), or, for ``approximation = bernstein``, the Bernstein polynomial of f: convex, and with no need to smooth f first.

Source: 000, section 5.1.4, Algorithms 5.1.33 and 5.1.34; Stein 1981 for the identity.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.polynomial import chebyshev

from dpspec.algorithms.card import Bound, Need, Problem, Tunable, Tunables
from dpspec.algorithms.estimate import Estimate, Published
from dpspec.algorithms.nldp_erm.sigm import Steps, sigm
from dpspec.algorithms.sets import Vector, constraint_set
from dpspec.models.door import Door
from dpspec.models.rows import Rows
from dpspec.privacy.channels.gaussian_vector import GaussianVector
from dpspec.privacy.schedule import Draw, Tree
from dpspec.symbolic.margin import MarginLoss, margin_functions
from dpspec.symbolic.normal import NoNormalForm

#: Of the derivative of the polynomial. Beyond it the noise is above every loss: (s Q)^(2 degree), and doubles lose the coefficients.
HIGHEST: Final = 11
#: Half of the shortest range of a loss: its twelfth power is far from the smallest double.
SHORTEST: Final = 1e-12
#: Numbers of reports that a server keeps (8 GB).
MOST: Final = 10**9
POPULATION: Final = "one pass over fresh users on a convex polynomial within E of the loss"

_CLIPS = "each client's channel scales its record into the ball"
NEEDS: Final = (
    Need("x", "privacy", "a report is private whatever the record holds", enforced_by=_CLIPS),
    Need("y", "privacy", "a report is private whatever the record holds", enforced_by=_CLIPS),
    Need("convex", "utility", "the loss is convex in w"),
    Need("lipschitz", "utility", "the loss is Lipschitz over the range of <w, x>"),
)
OPTIONS: Final = {"approximation": ("uniform", "bernstein"), "server": ("average", "sigm")}
TUNABLES: Final = {
    "r": Tunable(
        "min(x_l2, sigma_x*(sqrt(d) + sqrt(2*log(n)))) else x_l2 else sigma_x*(sqrt(d) + sqrt(2*log(n)))",
        "concentration of |x|_2; 000 Assumption 2: 1",
        minimum=1e-6,
        maximum=1e6,
    ),
    "tau": Tunable(
        "min(y_abs, sigma_y*sqrt(2*log(n))) else y_abs else sigma_y*sqrt(2*log(n))",
        "the range of y; 000 Assumption 2: 1",
        minimum=1e-6,
        maximum=1e6,
    ),
    "degree": Tunable(
        "0",
        "of the polynomial's derivative; 0: that of the least bound. 000: 32/alpha^3, which is out of reach for every alpha",
        integer=True,
        minimum=0,
        maximum=HIGHEST,
    ),
    "T": Tunable("max(1, min(2000, floor(n/10)))", "batches of one pass; G^2/T far below V/n", integer=True, minimum=1),
}


def bounds(statement: str) -> tuple[Bound, ...]:
    return (
        Bound(
            "excess-population-risk",
            "explicit",
            "upper",
            "2*E + reach*sqrt(G^2/T + V/(T*floor(n/T)))",
            "proved",
            POPULATION,
            conditions="in expectation; independent records that no client changes",
            options={"server": "average"},
            where={
                "E": "error of the polynomial of the chosen degree",
                "G": "slope of the polynomial",
                "V": "variance of a user's gradient",
                "reach": "distance of the start to a point of the set, at most",
            },
        ),
        Bound(
            "excess-empirical-risk",
            "order",
            "upper",
            "C*d^(1/2)*(degree + 1)^(4*degree + 4)*C2^degree/(epsilon^(2*degree + 2)*sqrt(n)) + error",
            "claimed",
            statement,
            conditions="in expectation; error of a polynomial of degree p; n exponential in p, and p = 32/error^3: exponential in 1/error",
            where={"C2": "unspecified", "error": "error of a polynomial of this degree"},
        ),
        Bound(
            "excess-population-risk",
            "order",
            "upper",
            "C*sqrt(d*log(1/delta)/n)/epsilon",
            "proved",
            "the first, at a degree that is fixed, beside the error of its polynomial",
            conditions="in expectation, epsilon of order one; 2 E stays",
            when=("epsilon <= C",),
        ),
    )


@dataclass(frozen=True, slots=True)
class Form:
    """A loss as a function f of one number; ``kind``: ``margin`` f(y <w, x>), ``residual`` f(<w, x> - y)."""

    kind: str
    value: Callable[[Vector], Vector]
    name: str


def form_of(p: Problem, t: Tunables) -> Form | None:
    """The loss of the question, None where it is neither on the range of <w, x> and y."""
    loss = getattr(p.task, "loss", None)
    if loss is None:
        return None
    try:
        f = margin_functions(loss, dict(p.facts))
    except NoNormalForm:
        return None
    far = constraint_set(p.task.over, p.facts).distance_bound(p.d)
    return _form(f, float(p.facts.get("w_radius", far)) * float(t.r), float(t.tau))


def across(span: float) -> Vector:
    """Points at which a form is tested: a lattice around 0, and one of the whole range with its ends, where a part that another one does
    not have is largest."""
    near = min(3.0, span)
    small = near * (np.linspace(-1.0, 1.0, 61) * (1 - 1 / 97) + 1 / 97)
    return np.concatenate([small, np.linspace(-span, span, 400)]) if math.isfinite(span) else small


@functools.lru_cache(maxsize=64)
def _form(f: MarginLoss, span: float, tau: float) -> Form | None:
    u = across(span)
    with np.errstate(all="ignore"):
        margin = all(_same(y * f.derivative(y * u, 1.0), f.derivative(u, y)) for y in (-1.0, 0.5, -0.25, tau, -tau))
        if margin:
            return Form("margin", lambda v: f.value(v, np.ones_like(v)), f.name)
        if all(_same(f.derivative(u - y, 0.0), f.derivative(u, y)) for y in (-1.0, 0.5, 2.0, tau, -tau)):
            return Form("residual", lambda v: f.value(v, np.zeros_like(v)), f.name)
    return None


def _same(a: Vector, b: Vector) -> bool:
    return bool(np.allclose(a, b, rtol=1e-9, atol=1e-9, equal_nan=True))


# ------------------------------------------------------------------------------------------------------------- the polynomial


@dataclass(frozen=True, slots=True, eq=False)
class Surrogate:
    """``p``: power coefficients of P', (degree + 1,); ``error``: E, a bound of max |P - f| on [-U, U]; ``sizes``: S_0, ..., S_degree."""

    p: Vector
    error: float
    sizes: Vector


def surrogate(f: Callable[[Vector], Vector], u: float, degree: int, approximation: str) -> Surrogate:
    """A convex polynomial of degree + 1 near f on [-u, u]."""
    u = float(u)  # powers of a whole number would leave the integers
    c = _bernstein(f, u, degree + 1) if approximation == "bernstein" else _uniform(f, u, degree + 1)
    c = np.pad(c, (0, degree + 2 - len(c)))
    dip = -_extreme(-chebyshev.chebder(c, 2))
    if dip < 0:  # the programme sees a lattice: what is concave between its points is lifted by a square, (t^2)'' = 2
        c[:3] += chebyshev.poly2cheb([0.0, 0.0, -dip / 2])
    t = np.cos(np.linspace(0, math.pi, 20_001))
    values = f(u * t)
    slope = _extreme(chebyshev.chebder(c), both=True)
    rise = float(np.abs(np.diff(values) / np.diff(t)).max())  # chords of a convex function: its slope, but in the last cells
    error = float(np.abs(chebyshev.chebval(t, c) - values).max() + (slope + 2 * rise) * np.abs(np.diff(t)).max() / 2)
    p = np.pad(chebyshev.cheb2poly(chebyshev.chebder(c)), (0, degree + 1))[: degree + 1] / u ** np.arange(1, degree + 2)
    sizes = [_extreme(chebyshev.chebder(c, m + 1), both=True) / u ** (m + 1) for m in range(degree + 1)]
    return Surrogate(np.asarray(p), error, np.array(sizes))


def _extreme(c: Any, both: bool = False) -> float:
    """max, or max of the absolute value, of a Chebyshev series on [-1, 1]: the ends and the roots of the derivative."""
    points = [-1.0, 1.0]
    if len(c) > 2:
        roots = chebyshev.chebroots(chebyshev.chebder(c))
        points += [float(z.real) for z in roots if abs(z.imag) < 1e-6 and -1 <= z.real <= 1]
    values = chebyshev.chebval(np.array(points), c)
    return float(np.abs(values).max() if both else values.max())


def _uniform(f: Callable[[Vector], Vector], u: float, degree: int) -> Vector:
    """Chebyshev coefficients of the convex polynomial of least max |P - f|, on a lattice, by a linear programme."""
    from scipy.optimize import linprog

    t = np.cos(np.linspace(0, math.pi, 40 * degree + 1))
    basis = chebyshev.chebvander(t, degree)
    curved = np.column_stack([chebyshev.chebval(t, chebyshev.chebder(np.eye(degree + 1)[j], 2)) for j in range(degree + 1)])
    one, zero, y = np.ones((t.size, 1)), np.zeros((t.size, 1)), f(u * t)
    found = linprog(
        np.append(np.zeros(degree + 1), 1.0),
        A_ub=np.vstack([np.hstack([basis, -one]), np.hstack([-basis, -one]), np.hstack([-curved, zero])]),
        b_ub=np.concatenate([y, -y, np.zeros(t.size)]),
        bounds=[(None, None)] * (degree + 2),
        method="highs",
    )
    if found.x is None:
        return _bernstein(f, u, degree)
    return np.asarray(found.x[:-1])


def _bernstein(f: Callable[[Vector], Vector], u: float, degree: int) -> Vector:
    """Chebyshev coefficients of the Bernstein polynomial of f on [-u, u], nodes over the whole range."""
    values = f(u * (2 * np.arange(degree + 1) / degree - 1))
    c = np.zeros(1)
    for v, value in enumerate(values):
        term = np.array([math.comb(degree, v) * float(value)])
        for _ in range(v):
            term = chebyshev.chebmul(term, np.array([0.5, 0.5]))
        for _ in range(degree - v):
            term = chebyshev.chebmul(term, np.array([0.5, -0.5]))
        c = chebyshev.chebadd(c, term)
    return np.asarray(c)


# ------------------------------------------------------------------------------------------------------------------ the sizes


@dataclass(frozen=True, slots=True)
class Sizes:
    """``dim``: numbers of a report; ``radius``: of its ball, R; ``weight``: |o| <= Q; ``last``: the last coordinate of o; ``span``: U."""

    dim: int
    radius: float
    weight: float
    last: float
    span: float


def sizes_of(p: Problem, t: Tunables, kind: str) -> Sizes:
    over = constraint_set(p.task.over, p.facts)
    far = float(p.facts.get("w_radius", over.distance_bound(p.d)))
    if kind == "margin":
        return Sizes(p.d, t.r * t.tau, far, 0.0, far * t.r * t.tau)
    last = t.tau / t.r
    return Sizes(p.d + 1, math.sqrt(2.0) * t.r * (1 + 2.0**-40), math.hypot(far, last), -last, far * t.r + t.tau)


def variance(fit: Surrogate, z: Sizes, s: float) -> float:
    """V of the head of this file."""
    total = along = 0.0
    reach = s * z.weight
    for m, size in enumerate(fit.sizes):
        total += reach ** (2 * m) * size**2 / math.factorial(m)
        below = m * s * reach ** (m - 1) * fit.sizes[m - 1] if m else 0.0
        along += (z.radius * reach**m * size + below) ** 2 / math.factorial(m)
    m = len(fit.sizes)  # u p(u) has one derivative more
    along += (m * s * reach ** (m - 1) * fit.sizes[-1]) ** 2 / math.factorial(m)
    return float((z.radius**2 + (z.dim - 1) * s**2) * total + along)


@dataclass(frozen=True, slots=True, eq=False)
class Choice:
    degree: int
    fit: Surrogate
    variance: float
    slope: float  # G
    reach: float  # d
    bound: float


def choose(p: Problem, t: Tunables, form: Form, s: float) -> Choice:
    """The degree of the option, or that of the least bound: E falls with the degree, V grows like s^(2 degree)."""
    z = sizes_of(p, t, form.kind)
    over, lam = constraint_set(p.task.over, p.facts), p.loss.l2 if p.loss is not None else 0.0
    reach = over.distance_bound(p.d)
    found: list[Choice] = []
    for degree in [int(t.degree)] if t.degree else range(1, HIGHEST + 1):
        fit = _fitted(form, z.span, degree, str(t.approximation))
        v = variance(fit, z, s)
        g = z.radius * float(fit.sizes[0]) + lam * over.diameter(p.d)
        noise = v / (t.T * (p.n // t.T)) if p.n >= t.T else math.inf
        found.append(Choice(degree, fit, v, g, reach, 2 * fit.error + reach * math.sqrt(g**2 / t.T + noise)))
        if reach * math.sqrt(noise) > min(c.bound for c in found):
            break
    return min(found, key=lambda c: c.bound)


@functools.lru_cache(maxsize=256)
def _fitted(form: Form, span: float, degree: int, approximation: str) -> Surrogate:
    return surrogate(form.value, span, degree, approximation)


# ----------------------------------------------------------------------------------------------------------------------- runs


def refusal(p: Problem, t: Tunables) -> str | None:
    if p.loss is None:
        return "the loss has no certificate"
    form = form_of(p, t)
    if form is None:
        return "the loss is no function of y*<w, x> alone, nor of <w, x> - y alone"
    if not (p.loss.data_convex or p.loss.convex):
        return "the loss is not convex"
    if not p.loss.smooth_penalty:
        return "its steps know a ridge term, and no l1 or group term"
    over = constraint_set(p.task.over, p.facts)
    if not (over.convex and math.isfinite(over.distance_bound(p.d))):
        return "a polynomial is near the loss over a bounded range only: the set has to be bounded and convex (`over ball(l2, 1)`)"
    span = sizes_of(p, t, form.kind).span
    if not SHORTEST <= span <= 1 / SHORTEST:
        return (
            f"the loss is taken over [-{span:.3g}, {span:.3g}], whose powers leave the doubles; the limits are {SHORTEST:g} and its inverse"
        )
    if p.n * (p.d + 1) > MOST:
        return f"the server keeps n*(d + 1) = {p.n * (p.d + 1):.3g} numbers of reports; the limit is {MOST:.0e}"
    if p.n < t.T:
        return f"T = {t.T} batches need at least as many users"
    return None


def schedule(p: Problem, t: Tunables) -> Tree:
    form = form_of(p, t)
    assert form is not None
    z = sizes_of(p, t, form.kind)
    return Draw("record", GaussianVector(z.dim, z.radius), per="user")


def held(records: Rows, t: Tunables, kind: str, rows: int = 8192) -> Iterator[Vector]:
    """v of each user, (users, dim), before the channel scales it into the ball. What is no number is the record 0."""
    for x, y in records.blocks(rows):
        dense = np.asarray(x if isinstance(x, np.ndarray) else x.toarray())
        with np.errstate(all="ignore"):
            if kind == "margin":
                yield dense * y[:, None]
            else:
                yield np.column_stack([dense, y * (t.r / t.tau)])


def hermite(p: Vector, a: Vector, t: float) -> tuple[Vector, Vector]:
    """p~ and its derivative at a, (n,) each, for power coefficients p: H_(k+1) = a H_k - k t^2 H_(k-1), H_k' = k H_(k-1)."""
    value, slope = np.full_like(a, p[0]), np.zeros_like(a)
    before, now = np.ones_like(a), a.copy()
    for k in range(1, len(p)):
        value += p[k] * now
        slope += k * p[k] * before
        before, now = now, a * now - k * t**2 * before
    return value, slope


def gradient(p: Vector, z: Vector, o: Vector, s: float) -> Vector:
    """The mean of g over the reports z, (b, dim) to (dim,)."""
    value, slope = hermite(p, z @ o, s * float(np.linalg.norm(o)))
    return np.asarray(value @ z / len(z) - s**2 * float(slope.mean()) * o)


def estimate(records: Rows, p: Problem, t: Tunables, release: Door) -> Estimate:
    form = form_of(p, t)
    assert form is not None
    assert p.loss is not None
    lam = p.loss.l2
    z = release.reports("record", np.concatenate(list(held(records, t, form.kind))))
    s = release.scale("record")
    c, size, over = choose(p, t, form, s), sizes_of(p, t, form.kind), constraint_set(p.task.over, p.facts)
    cuts = np.linspace(0, len(z), int(t.T) + 1).astype(int)

    def oracle(w: Vector, k: int) -> Vector:
        o = w if form.kind == "margin" else np.append(w, size.last)
        return gradient(c.fit.p, z[cuts[k] : cuts[k + 1]], o, s)[: p.d] + lam * w

    noise = c.variance / (p.n // t.T)
    w = over.start(p.d)
    if t.server == "sigm" and c.reach > 0:
        curve = float(c.fit.sizes[1]) * size.radius**2 + lam
        w = over.project(sigm(oracle, w, over.project, Steps(curve, math.sqrt(noise), c.reach), int(t.T) - 1))
    else:
        step, total = c.reach / math.sqrt(t.T * (c.slope**2 + noise)), np.zeros(p.d)
        for k in range(int(t.T)):  # the bound is about the average of the points at which gradients are taken
            total += w
            w = over.project(w - step * oracle(w, k))
        w = over.project(total / t.T)
    return Estimate(w, {"degree": c.degree})


# --------------------------------------------------------------------------------------------------- what is known beforehand


def _chosen(p: Problem, t: Tunables, calibrated: Any) -> Choice | None:
    form = form_of(p, t)
    return None if form is None else choose(p, t, form, calibrated.scale("record"))


def explicit_bounds(p: Problem, t: Tunables, calibrated: Any) -> dict[str, float]:
    """Where no client's record is changed; nothing for server = sigm, whose constant is open."""
    c = _chosen(p, t, calibrated)
    whole = t.r >= p.facts.get("x_l2", math.inf) * (1 - 1e-12) and t.tau >= p.facts.get("y_abs", math.inf) * (1 - 1e-12)
    return {POPULATION: c.bound} if c is not None and whole and t.server == "average" and math.isfinite(c.bound) else {}


def bound_terms(p: Problem, t: Tunables, calibrated: Any) -> dict[str, dict[str, float]]:
    c = _chosen(p, t, calibrated)
    return {} if c is None else {POPULATION: {"E": c.fit.error, "G": c.slope, "V": c.variance, "reach": c.reach}}


def _trivial(p: Problem) -> float:
    """What any point of the set has at most, Lipschitz constant times diameter."""
    assert p.loss is not None
    return p.loss.lipschitz * constraint_set(p.task.over, p.facts).diameter(p.d)


def predicted(p: Problem, t: Tunables, calibrated: Any) -> float:
    """A quarter of the bound, as for other single passes, and no more than a quarter of the loss's range."""
    c = _chosen(p, t, calibrated)
    assert c is not None
    return float(min(c.bound, _trivial(p))) / 4


def warnings(p: Problem, t: Tunables, calibrated: Any) -> list[str]:
    c = _chosen(p, t, calibrated)
    if c is None:
        return []
    noise, half = c.reach * math.sqrt(c.variance / p.n), _trivial(p) / 8
    said = []
    if noise > half:
        needed = p.n * (noise / half) ** 2
        said.append(
            f"gradients of degree {c.degree} are so noisy that the bound has {noise:.3g} for them, and the loss varies by {8 * half:.3g}: "
            f"about n = {needed:.2g} users would do; every degree more multiplies that by about {calibrated.scale('record') ** 2:.2g}"
        )
    if 2 * c.fit.error > half:
        said.append(
            f"a convex polynomial with a derivative of degree {c.degree} is {c.fit.error:.3g} from the loss, which stays for every n; "
            "more needs a larger budget, or rounds (interactive-ldp-sgd)"
        )
    return said


def copies_spend(epsilon: float, delta: float, degree: int) -> float:
    """What the printed noise really spends, for |x|, |y| <= 1: copy 0 of x and of y at variance 32 log(1.25/delta)/epsilon^2, N = p(p+1)
    more of each at 8 N^2 log(1.25/delta)/epsilon^2, sensitivity 2 each: mu^2 = epsilon^2 (1/4 + 1/N)/log(1.25/delta)."""
    from dpspec.privacy.gaussian import epsilon_of

    many = degree * (degree + 1)
    return float(epsilon_of(epsilon * math.sqrt((0.25 + 1 / many) / math.log(1.25 / delta)), delta))


def published(p: Problem, t: Tunables, budget: Any, source: str) -> tuple[Published, ...]:
    """The printed copies at the degree of the option, or 1."""
    form = form_of(p, t)
    if budget.kind != "approx" or form is None:
        return ()
    e, delta = float(budget.epsilon_exact), float(budget.delta_exact)
    degree = max(int(t.degree), 1)
    many = degree * (degree + 1)
    scale = many * math.sqrt(8 * math.log(1.25 / delta)) / e * sizes_of(p, t, form.kind).radius
    remark = f"{2 * (many + 1)} noisy copies at p = {degree}; its basic composition is 3 epsilon"
    formula = "sqrt(8*log(1.25/delta))*p*(p + 1)/epsilon"
    return (Published(source, "record", formula, scale, copies_spend(e, delta, degree), remark),)
