"""Mean Hessians of records, as central algorithms release them: sensitivities, the noisy draw, the trust-region subproblem.

The Hessian of a record is c x x^T, c = phi''(<w, x>, y) in [b, C], C a bound of |phi''| and b >= -C one of phi'' from below, |x| <= R. For
two records |c x x^T - e z z^T|_F^2 = c^2 |x|^4 + e^2 |z|^4 - 2 c e <x, z>^2, which is at most 2 C^2 R^4 where c e >= 0 (the last term is
not positive) and at most (c - e)^2 R^4 otherwise. So under replace-one the mean Hessian moves in the Frobenius norm, in which its noise is
isotropic, by at most

    max(sqrt(2) C, C - b) R^2/n,

free of d; and an eigenvalue by at most (C - min(b, 0)) R^2/n, as c x x^T - e z z^T has eigenvalues between -(C - min(b, 0)) R^2 and that.
Where a record vanishes both are C R^2/n. The documents print 2 M sqrt(d)/n (000, section 4.3).

The Hessian of a record of a network has a Frobenius norm of at most F (:mod:`dpspec.symbolic.network_bounds`), and a mean of them and its
eigenvalues move by at most 2 F/n, F/n where a record vanishes.

In doubles: every c is brought into [b, C], and the Hessian of a record of a network within F, before
it multiplies x, the products round by a few u each, and sums as :mod:`sums` says.
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from dpspec.algorithms import sums
from dpspec.algorithms.card import Loss, Problem
from dpspec.algorithms.gradients import moved
from dpspec.algorithms.network import Network
from dpspec.algorithms.objective import Objective, margins
from dpspec.algorithms.sets import Vector
from dpspec.privacy.mechanisms.symmetric import GaussianSymmetric

#: Roundings of c*x_j*x_k and of R^2, in u, with room.
_TERMS: Final = 16
#: Hessians are d x d matrices: beyond, products with vectors take their place.
LARGEST_DIMENSION: Final = 2000


def spread(loss: Loss) -> float:
    """max(sqrt(2) C, C - b) R^2: how far apart two records' Hessians are in the Frobenius norm. Of a network twice the bound of one."""
    if loss.network is not None:
        return 2 * loss.frobenius
    return max(math.sqrt(2.0), _range(loss)) * loss.smooth * (1 + 2.0**-50)


def _range(loss: Loss) -> float:
    """(C - min(b, 0))/C, between 1 and 2."""
    return 1.0 + min(1.0, max(0.0, -loss.least_curve) / loss.curve) if 0 < loss.curve < math.inf else 2.0


def sensitivity(p: Problem, count: int | None = None) -> float:
    """Frobenius sensitivity of (1/count) sum of the records' Hessians, with the public divisor ``count`` (n when left out), rounded up."""
    assert p.loss is not None
    n = p.n if count is None else count
    most = spread(p.loss) if moved(p) == 2 else _length(p.loss)
    return _rounded(p, most, n)


def eigenvalue_sensitivity(p: Problem) -> float:
    """By how much an eigenvalue of the mean Hessian over all records moves."""
    assert p.loss is not None
    if p.loss.network is not None:  # what is enforced of a record's Hessian is its Frobenius norm
        return _rounded(p, moved(p) * p.loss.frobenius, p.n)
    return _rounded(p, (_range(p.loss) if moved(p) == 2 else 1.0) * p.loss.smooth, p.n)


def _length(loss: Loss) -> float:
    """A bound of a record's Hessian in the Frobenius norm: of c x x^T it is the operator norm."""
    return loss.smooth if loss.network is None else loss.frobenius


def _rounded(p: Problem, most: float, n: int) -> float:
    """``most``/n and what rounding adds, which is relative to the length C R^2 (of a network F) of the terms, of which ``moved``
    are counted."""
    assert p.loss is not None
    whole = moved(p) * _length(p.loss) / n
    extra = sums.sensitivity(whole, n, moved(p), hidden=p.neighbours == "add-remove", terms=_TERMS) - whole
    return math.nextafter((most / n + extra) * (1 + 2.0**-50), math.inf)


def refused(p: Problem, *, lipschitz: bool = True, large: bool = False) -> str | None:
    """What the second-order methods require of a loss beside what the first-order ones do; ``large``: no matrix will be made."""
    loss = p.loss
    if loss is None:
        return "the loss has no certificate"
    if loss.classes > 1:
        return "its Hessian is that of phi(<w, x>, y) or of a network, and this loss has a margin a class"
    if not (0 < loss.smooth < math.inf and 0 < loss.curve < math.inf):
        return "no bound of a record's Hessian is proved over the enforced record domain"
    if not loss.smooth_penalty:
        return "an l1 or group term has no Hessian"
    if lipschitz and not (0 < loss.hessian_lipschitz() < math.inf):
        return "no Hessian-Lipschitz constant of the loss is proved, and its steps need one"
    if p.d > LARGEST_DIMENSION and not large:
        return f"a Hessian of {p.d} x {p.d} numbers is beyond {LARGEST_DIMENSION}"
    return None


def mechanism(p: Problem, count: int | None = None) -> GaussianSymmetric:
    return GaussianSymmetric(sensitivity(p, count), p.d)


def mean_hessian(records: Any, p: Problem[Objective], w: Vector, count: int | None = None) -> Vector:
    """(1/count) sum of phi''(<w, x>, y) x x^T, (d, d), every phi'' in its certified range; of a network each Hessian within its certified
    Frobenius norm. Without noise: for the meter alone."""
    assert p.loss is not None
    if p.loss.network is not None:
        return p.objective.data_hessian(w, records, p.n if count is None else count)
    total = sums.Sum((w.size, w.size))
    with np.errstate(all="ignore"):
        for x, c in _curvatures(records, p, w):
            if isinstance(x, np.ndarray):
                total.add(x.T @ (x * c[:, None]))
            else:
                total.add((x.T @ x.multiply(c[:, None]).tocsr()).toarray())
        return total.value / (p.n if count is None else count)


def product(records: Any, p: Problem[Objective], w: Vector, v: Vector) -> Vector:
    """The mean Hessian times v, (d,), without the matrix."""
    if isinstance(p.objective, Network):
        return p.objective.data_product(w, v, records, p.n)
    total = sums.Sum(w.size)
    with np.errstate(all="ignore"):
        for x, c in _curvatures(records, p, w):
            total.add(x.T @ (c * margins(x, v)))
        return total.value / p.n


def _curvatures(records: Any, p: Problem[Objective], w: Vector) -> Any:
    """Blocks of x and of phi'' at w, in the certified range; 0 brought into it where it is no number."""
    assert p.loss is not None
    f, high = p.objective, p.loss.curve
    low = max(p.loss.least_curve, -high)
    assert f.curvature is not None
    for x, y in records.blocks(sums.block_rows(1 << 16, max(w.size, 1))):
        c = f.curvature(margins(x, w), y)
        yield x, np.clip(np.where(np.isfinite(c), c, 0.0), low, high)


def symmetric(H: Vector) -> Vector:
    """The symmetric matrix of an upper triangle: products of BLAS need not be one."""
    return np.asarray(np.triu(H) + np.triu(H, 1).T)


def noisy_hessian(release: Any, records: Any, p: Problem[Objective], w: Vector) -> Vector:
    """The draw ``hessian`` of the mean Hessian of the data part at ``w``, the ridge added after it: symmetric, (d, d)."""
    assert p.loss is not None
    noisy: Vector = release.draw("hessian", mean_hessian(records, p, w), sensitivity=sensitivity(p))
    return noisy + p.loss.l2 * np.eye(w.size)


def least_eigenvalue(records: Any, p: Problem[Objective], w: Vector) -> float:
    """Of the Hessian of F with its ridge; by products with vectors (Lanczos) where a matrix would be too large. Without noise."""
    d, l2 = w.size, float(p.objective.l2)
    if d <= LARGEST_DIMENSION:
        return float(np.linalg.eigvalsh(mean_hessian(records, p, w), UPLO="U")[0]) + l2
    from scipy.sparse.linalg import LinearOperator, eigsh

    operator = LinearOperator((d, d), matvec=lambda v: product(records, p, w, np.ravel(v)), dtype=np.float64)
    return float(eigsh(operator, k=1, which="SA", return_eigenvectors=False, tol=1e-8)[0]) + l2


def trust_region(g: Vector, H: Vector, radius: float) -> tuple[Vector, float]:
    """(h, lam): the minimiser of <g, h> + h^T H h/2 over |h| <= radius, and its multiplier: (H + lam I) h = -g, H + lam I positive
    semidefinite, lam >= 0, lam (|h| - radius) = 0 (More and Sorensen 1983). In the hard case, where g has no part in the lowest
    eigenspace and h is short, a lowest eigenvector is added up to the boundary.
    """
    values, Q = np.linalg.eigh(H)
    b = Q.T @ g
    low = max(0.0, -float(values[0]))

    def step(lam: float) -> Vector:
        gaps = values + lam
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            h = np.where(b == 0.0, 0.0, -b / gaps)
        return np.asarray(h)

    def length(lam: float) -> float:
        h = step(lam)
        return float(np.sqrt(h @ h)) if np.isfinite(h).all() else math.inf

    size = float(np.sqrt(b @ b))
    if values[0] > 0 and length(0.0) <= radius:
        return Q @ step(0.0), 0.0
    high = low + size / radius + 1e-300
    near = low + 1e-14 * max(low, float(np.abs(values).max()), 1e-300)
    if length(near) <= radius:  # the hard case
        h = np.where(values + low > near - low, step(near), 0.0)
        rest = math.sqrt(max(0.0, radius**2 - float(h @ h))) if low > 0 else 0.0
        h[0] += rest
        return Q @ h, low
    from scipy.optimize import brentq

    lam = float(brentq(lambda v: 1.0 / radius - 1.0 / length(v), near, max(high, near) * (1 + 1e-12), xtol=1e-300, rtol=1e-14, maxiter=200))
    h = step(lam)
    if low > 0:  # next to the hard case doubles between two multipliers are few: the lowest eigenvector makes up for it
        h[0] = math.copysign(math.sqrt(max(0.0, radius**2 - float(h[1:] @ h[1:]))), h[0])
    return Q @ h, lam


def least_quadratic(H: Vector, w: Vector, radius: float, g: Vector, slack: float) -> tuple[Vector, float]:
    """(u, q): a minimiser of q = (u - w)^T H (u - w) over |u| <= radius and <g, u - w> <= slack, for |w| <= radius and slack >= 0.

    Where the half-space is active the rest is a trust-region problem in its hyperplane. Where it is not, u is w, or a local minimiser over
    the ball on its boundary: (H + lam I) u = H w for a root lam of |u| = radius, all of which are eigenvalues of a 2d x 2d matrix (Gander,
    Golub and von Matt 1989), or in the hard case for lam = -lambda_min with any lowest eigenvector, of which the half-space likes one best.
    """
    found = [w, *_on_the_sphere(H, H @ w, radius, g)]
    size = float(g @ g)
    if size > 0:
        found += _in_the_plane(H, w, radius, g, w + slack * g / size)
    values = [float((u - w) @ H @ (u - w)) if (u - w) @ g <= slack + 1e-9 * (math.sqrt(size) * radius + slack) else math.inf for u in found]
    best = int(np.argmin(values))
    u = found[best] if best == 0 else found[best] * min(1.0, radius / max(float(np.sqrt(found[best] @ found[best])), 1e-300))
    return u, values[best]


def _on_the_sphere(H: Vector, a: Vector, radius: float, g: Vector) -> list[Vector]:
    """Points of |u| = radius with (H + lam I) u = a, lam >= 0."""
    eye = np.eye(len(a))
    roots = np.linalg.eigvals(np.block([[-H, np.outer(a, a) / radius**2], [eye, -H]]))
    real = sorted({float(v.real) for v in roots if abs(v.imag) <= 1e-7 * (1 + abs(v)) and v.real >= -1e-12})
    found: list[Vector] = []
    values, Q = np.linalg.eigh(H)
    b = Q.T @ a
    tiny = 1e-14 * max(1e-300, float(np.abs(values).max()))
    for lam in real:
        gaps = values + max(lam, 0.0)
        held = np.abs(gaps) > tiny  # least squares of least norm where a root meets an eigenvalue
        u = Q[:, held] @ (b[held] / gaps[held])
        size = float(np.sqrt(u @ u))
        if 0 < size < math.inf and abs(size / radius - 1) < 1e-3:
            found.append(np.asarray(u * (radius / size)))
    if values[0] < 0:
        lowest = values <= values[0] + 1e-10 * max(1.0, float(np.abs(values).max()))
        u = Q[:, ~lowest] @ (b[~lowest] / (values[~lowest] - values[0]))
        rest = radius**2 - float(u @ u)
        if rest >= 0 and float(np.abs(b[lowest]).max()) <= 1e-9 * (1.0 + float(np.abs(b).max())):
            down = Q[:, lowest] @ (Q[:, lowest].T @ g)
            size = float(np.sqrt(down @ down))
            z = Q[:, 0] if size <= 1e-12 * (1 + float(np.sqrt(g @ g))) else down / size
            found += [u - math.sqrt(rest) * z, u + math.sqrt(rest) * z]
    return found


def _in_the_plane(H: Vector, w: Vector, radius: float, g: Vector, origin: Vector) -> list[Vector]:
    """The minimiser over the part of the ball in the hyperplane through ``origin`` orthogonal to g; empty where they do not meet."""
    N = np.linalg.svd(g[None, :])[2][1:].T  # (d, d - 1), an orthonormal basis of the plane
    centre = origin - N @ (N.T @ origin)  # the point of the plane nearest to 0
    rest = radius**2 - float(centre @ centre)
    if rest < 0:
        return []
    if N.shape[1] == 0 or rest == 0:
        return [centre]
    t, _ = trust_region(2 * N.T @ (H @ (centre - w)), 2 * N.T @ H @ N, math.sqrt(rest))
    return [centre + N @ t]
