"""What the models of this family share: one report a user, a direction from the reports, a length from the public records.

    y = f(<theta, x>) + noise, or y ~ glm(link) with f the mean function. User i: x_i into the l2 ball of radius r, y_i - y0 cut at tau;

    1. x_i (y_i - y0) + Gaussian noise, sensitivity 2 r tau, and, unless the second moment is taken from the public records,
    2. triu(x_i x_i^T) + Gaussian noise, sensitivity sqrt(2) r^2 (proof at GaussianOuter);
    3. server: b and A the means, v = W b, W the inverse of A with its eigenvalues raised to their noise and directions of noise shrunk;
    4. theta = c v, c by newton-scale-root.

The noise of b has a known variance s^2 a coordinate, which steps 3 and 4 allow for. In an eigendirection of A of eigenvalue l, W is
l/(l^2 + s^2/w^2): the estimate of least expected square for coordinates of v of variance w^2 = tau^2/(4 tr A), predictions of half of
tau. And E <b, v> exceeds <E b, v> by s^2 tr W, so the score equation along v has <b, v> - s^2 tr W on its right side: for the identity
link theta = (1 - s^2 tr A^{-1}/(b^T A^{-1} b))_+ A^{-1} b where nothing is shrunk, the positive part of James and Stein. Where noise is
all that b holds, theta is 0, and not longer than the truth by the length of the noise.

That length is the one with which the direction of v explains E u y, and for links that grow faster than a line it is too long where
noise has turned v: for Gaussian x and the cube |theta| kappa^(1/3), kappa the cosine of the angle between v and theta, where
|theta| kappa has the least square error. kappa^2 is estimated by (<b, v> - s^2 tr W)/<b, v>, |theta| by the score equation with its
right side over kappa, and c is the lesser of both: for the identity link they are equal, and without noise kappa is 1.

A bounded f levels out, and where E u y is near its largest value noise decides where c ends, or whether it does. So c is at most twice the
root for one standard error less, 2 s |v|, though not for less than half of the estimate, nor for more than 19/20 of the largest value:
where f does not level out that never binds.

For x of mean 0 with E[x | <theta, x>] linear in
<theta, x> (every elliptical law; spherical ones stay so when scaled into a ball), v is a multiple of theta for any f. Steps 3 and 4 read
what was released and public records alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

import numpy as np

from dpspec.algorithms.card import Need, Problem, Tunable, Tunables
from dpspec.algorithms.estimate import Estimate, Published
from dpspec.algorithms.formulas import STRENGTH, STRENGTH_SOURCE
from dpspec.algorithms.gradients import norm
from dpspec.algorithms.public_data import newton_scale_root as root
from dpspec.algorithms.sets import Vector, constraint_set
from dpspec.models.door import Door
from dpspec.models.rows import Rows
from dpspec.privacy.channels.gaussian_ball_product import GaussianBallProduct
from dpspec.privacy.channels.gaussian_outer import GaussianOuter
from dpspec.privacy.schedule import Draw, Sequence, Tree

#: Share of the largest value of the score equation up to which c is told apart from a longer one.
_LEVEL: Final = 0.95
_CLIPS = "each client clips its own record"

NEEDS: Final = (
    Need("x", "privacy", "|x|_2 <= r", enforced_by=_CLIPS),
    Need("y", "privacy", "|y - y0| <= tau", enforced_by=_CLIPS),
    Need("elliptical", "utility", "x, private and public, has one law, of mean 0 and elliptical (else a bias of order 1/sqrt(d) stays)"),
    Need("eigenvalues", "utility", "the second moment of x has its least eigenvalue at eig_min > 0"),
)
OPTIONS: Final = {"moment": ("auto", "private", "public"), "root": ("score", "stein")}
RADIUS: Final = Tunable(
    "min(x_l2, sigma_x*(sqrt(d) + sqrt(2*log(n)))) else x_l2 else sigma_x*(sqrt(d) + sqrt(2*log(n)))",
    "concentration of |x|_2; 000: the l1 norm of a record, and only its l2 norm enters",
    minimum=1e-100,
    maximum=1e70,
)
Y0: Final = Tunable("(y_low + y_high)/2 else 0", "the middle of the range of y, which halves the noise of labels 0 and 1; 000: 0")
WEIGHT: Final = Tunable(
    "sqrt(d)/(sqrt(d) + 2*sqrt(2))",
    "share of the second moment in mu^2: least variance of b - A v at |v| = tau sqrt(d)/(2 r), predictions of half of tau for isotropic x",
    minimum=1e-6,
    maximum=1 - 1e-6,
)
REGIME: Final = (
    "C*r^4*d*log(1/delta)/(epsilon^2*eig_min^2) else C*r^4*d/(epsilon^2*eig_min^2) else C*d^3*log(1/delta)/epsilon^2 else C*d^3/epsilon^2"
)
TUNABLES: Final = {"strength": Tunable(STRENGTH, STRENGTH_SOURCE), "weight": WEIGHT}


def refusal(p: Problem, t: Tunables) -> str | None:
    """What both models need of the spec."""
    if "public" not in p.modifiers:
        return "it needs public records of x (`with public x (m = 10_000)`)"
    if p.d > 20_000:
        return f"the server inverts a matrix of {p.d} x {p.d} numbers"
    if t.moment == "public" and p.facts.get("m", math.inf) <= p.d:
        return f"m = {p.facts['m']:g} public records cannot give an invertible second moment in dimension d = {p.d}; moment = private"
    return None


def public_moment(p: Problem, t: Tunables) -> bool:
    """Whether the second moment comes from the public records. ``auto``: where their sampling variance of A v, r^2 tau^2/(4 m) for
    E x x^T = r^2/d I and |v| = tau sqrt(d)/(2 r), is below what noise on A adds to that on b: d r^2 tau^2 (d/2 + 2 sqrt(2 d))/(n mu^2)."""
    if t.moment != "auto":
        return bool(t.moment == "public")
    m = p.facts.get("m", 0.0)
    return bool(m > 2 * p.d and m * (2 * p.d**2 + 8 * p.d * math.sqrt(2 * p.d)) >= p.n * t.strength**2)


def schedule(p: Problem, t: Tunables) -> Tree:
    product = GaussianBallProduct(p.d, t.r, t.tau)
    if public_moment(p, t):
        return Draw("xy", product, per="user")
    return Sequence(
        (
            Draw("moment", GaussianOuter(p.d, t.r), per="user", weight=t.weight),
            Draw("xy", product, per="user", weight=1 - t.weight),
        )
    )


def blocks(records: Rows, y0: float, rows: int = 8192) -> Iterator[tuple[Vector, Vector]]:
    """Dense x and y - y0, which a client computes from its own record before its channel clips."""
    for x, y in records.blocks(rows):
        with np.errstate(over="ignore"):  # what leaves the doubles is 0 to the channel
            yield (x if isinstance(x, np.ndarray) else x.toarray()), y - y0


def estimate(
    records: Rows, p: Problem, t: Tunables, release: Door, f: root.Function, slope: root.Function, factor: float = 1.0
) -> Estimate:
    """theta, with the direction and the scale beside it. ``f``, ``slope``: the mean function and its derivative; ``factor``: what the
    responses are multiplied with after the release."""
    public = records.public_x
    if public is None:
        raise ValueError("the records come without public_x")
    rows = np.asarray(public if isinstance(public, np.ndarray) else public.toarray())
    if public_moment(p, t):
        b, a, noise = np.asarray(release.mean_blocks("xy", blocks(records, t.y0))), rows.T @ rows / len(rows), 0.0
    else:
        a, b = release.mean_blocks_many(("moment", "xy"), blocks(records, t.y0))
        noise = release.scale("moment") / math.sqrt(p.n)
    b, s, tau = factor * b, factor * release.scale("xy") / math.sqrt(p.n), factor * t.tau
    w = shrunk(a, max(p.facts.get("eig_min", 0.0), operator_norm(noise, p.d)), 2 * s / tau)
    v = w @ b
    scale = length(rows @ v, t, f, slope, float(b @ v), s * s * float(np.trace(w)), 2 * abs(s) * norm(v))
    theta = constraint_set(p.task.over, p.facts).project(scale.c * v)
    return Estimate(theta, {"direction": v, "scale": scale.c, "scale_found": int(scale.found)})


def length(u: Vector, t: Tunables, f: root.Function, slope: root.Function, product: float, noise: float, spread: float = 0.0) -> root.Scale:
    """The scale for ``product`` = <b, v>, of which ``noise`` is expected of noise alone and ``spread`` is the standard error: by the score
    equation, or kappa times the length of theta where that is less, or the most that a bounded f allows."""
    energy = product - noise
    found = scale_of(u, t, f, slope, energy)
    if t.root == "stein" or not 0.0 < energy < product:
        return found
    kappa = math.sqrt(energy / product)
    whole = scale_of(u, t, f, slope, energy / kappa)
    careful = scale_of(u, t, f, slope, min(max(energy - spread, energy / 2), _LEVEL * largest(u, f)))
    return replace(found, c=min(found.c, kappa * whole.c, 2 * careful.c))


def largest(u: Vector, f: root.Function) -> float:
    """The largest estimate of E u y that the score equation can meet, over the grid of c; infinite where that leaves the doubles."""
    together = max(1, min(root.STEPS, (1 << 18) // max(u.size, 1)))
    left, points = root.score(u, f, 1.0), root.points()
    values = np.concatenate([left(points[a : a + together]) for a in range(0, len(points), together)])
    return math.inf if np.isnan(values).any() else float(values.max())


def scale_of(u: Vector, t: Tunables, f: root.Function, slope: root.Function, energy: float) -> root.Scale:
    """The scale for predictions u on the public records, ``energy`` the estimate of E u y. Where the score of a bounded f has no root it
    goes on growing with c, and the place where Stein's form is largest is taken: the predictions then end where f bends. Where the
    estimate is not above 0, noise is all there is, and the scale is 0."""
    if t.root == "score" and not energy > 0.0:
        return root.Scale(0.0, False, 0.0)
    together = max(1, min(root.STEPS, (1 << 18) // max(u.size, 1)))
    scale = root.solve(root.stein(u, slope) if t.root == "stein" else root.score(u, f, energy), together)
    return scale if scale.found or t.root == "stein" else replace(root.solve(root.stein(u, slope), together), found=False)


def operator_norm(sd: float, d: int) -> float:
    """About the largest eigenvalue of a symmetric d x d matrix with independent N(0, sd^2) entries: 2 sd sqrt(d)."""
    return 2 * sd * math.sqrt(d)


def shrunk(a: Vector, floor: float, share: float = 0.0) -> Vector:
    """W of the module's text for a symmetric matrix, (d, d): eigenvalues below ``floor`` are raised to it, and l becomes
    l/(l^2 + share^2 tr A), share = 2 s/tau (0: the inverse)."""
    values, vectors = np.linalg.eigh(a)
    tiny = max(1e-12 * float(np.abs(values).max()), 1e-300)
    values = np.maximum(values, max(floor, tiny))
    ratio = share * math.sqrt(float(values.sum())) / values  # s/(w l): squares of eigenvalues may leave the doubles
    return np.asarray((vectors / (values * (1.0 + ratio * ratio))) @ vectors.T)


# --------------------------------------------------------------------------------------------------- what is known beforehand


def predicted(p: Problem, t: Tunables, calibrated: Any) -> float:
    """l2 error of theta of length 1: the relative error e of v at predictions of half of tau, shrunk to e/sqrt(1 + e^2), and that of m
    public records."""
    e = relative(p, t, calibrated)
    return float(e / math.hypot(1.0, e) + math.sqrt(p.d / p.facts["m"] if "m" in p.facts else 0.0))


def relative(p: Problem, t: Tunables, calibrated: Any) -> float:
    """The error that noise makes of v before anything is shrunk, over |v| = tau/(2 sqrt(eig_min)). The least eigenvalue is eig_min, or that
    of r^2/d I."""
    low = p.facts.get("eig_min", t.r**2 / p.d)
    size, b, moment = t.tau / (2 * math.sqrt(low)), calibrated.scale("xy") / math.sqrt(p.n), 0.0
    if not public_moment(p, t):
        moment = calibrated.scale("moment") / math.sqrt(p.n)
        low = max(low, operator_norm(moment, p.d))
    v = math.sqrt(p.d) * math.hypot(b, moment * size) / low
    return float(v / size)


def warnings(p: Problem, t: Tunables, calibrated: Any) -> list[str]:
    found = []
    if (e := relative(p, t, calibrated)) > 1.0:
        found.append(
            f"noise is about {e:.3g} times as long as the direction that it hides: the estimate is drawn towards 0, and being better than "
            f"that needs about n = {p.n * e * e:.2g} records"
        )
    return found + _inverse(p, t, calibrated)


def _inverse(p: Problem, t: Tunables, calibrated: Any) -> list[str]:
    if public_moment(p, t):
        return []
    low = p.facts.get("eig_min", t.r**2 / p.d)
    noise = operator_norm(calibrated.scale("moment") / math.sqrt(p.n), p.d)
    if noise <= low / 2:
        return []
    needed = p.n * (2 * noise / low) ** 2
    said = "about" if "eig_min" in p.facts else "at most"  # r^2/d: the trace over d
    return [
        f"the noise of the second moment has operator norm about {noise:.3g}, its least eigenvalue is {said} {low:.3g}: inverting it needs "
        f"about n = {needed:.2g} records; moment = public takes it from the public records, which are free"
    ]


def printed(p: Problem, t: Tunables, budget: Any, source: str, y: float) -> tuple[Published, ...]:
    """The documents' noise for |y| <= ``y``: both draws by the classical formula at halves of the budget."""
    if budget.kind != "approx":
        return ()
    from dpspec.privacy.gaussian import epsilon_of

    e, delta = float(budget.epsilon_exact), float(budget.delta_exact)
    c = math.sqrt(32 * math.log(2.5 / delta)) / e
    spent = epsilon_of(math.hypot(math.sqrt(2.0) / c, 2.0 / c), delta)  # sqrt(2) r^2 at c r^2, and 2 r y at c r y
    remark = "both draws together" + ("" if e <= 1 else "; the formula is proved for epsilon <= 1 only")
    second = Published(f"{source} step 2", "xy", "sqrt(32*log(2.5/delta))*r*y/epsilon", c * t.r * y, spent, remark)
    if public_moment(p, t):
        return (second,)
    return (Published(f"{source} step 1", "moment", "sqrt(32*log(2.5/delta))*r^2/epsilon", c * t.r**2, spent, remark), second)
