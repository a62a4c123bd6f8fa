"""Deviations with explicit constants: of a second moment of bounded records from its mean, and of symmetric noise.

r bounds |x|_2 (records are clipped to it), ``eta`` is the probability of failure.
"""

from __future__ import annotations

import math

#: Probability that the explicit bounds of this family may fail with, split over the events they need.
FAILURE = 0.05


def sampling_operator(n: float, d: float, radius: float, top: float, eta: float) -> float:
    """|S - E x x^T|_2 by matrix Bernstein: variance at most r^2*``top``/n with ``top`` >= the largest eigenvalue of E x x^T (r^2 always
    serves), each term at most r^2/n, P(>= t) <= 2 d exp(-t^2/2/(v + R t/3))."""
    big, variance, log = radius**2 / n, radius**2 * min(top, radius**2) / n, math.log(2 * d / eta)
    half = big * log / 3
    return half + math.sqrt(half**2 + 2 * variance * log)


def sampling_max(n: float, d: float, radius: float, eta: float) -> float:
    """max_ij |S_ij - E x_i x_j| by Hoeffding: x_i x_j lies in an interval of length r^2; d(d+1)/2 entries."""
    return radius**2 * math.sqrt(math.log(d * (d + 1) / eta) / (2 * n))


def gaussian_operator(sd: float, d: float, eta: float, *, isotropic: bool) -> float:
    """|N|_2 of symmetric Gaussian noise, both ends of the spectrum.

    ``isotropic``: sd^2 on the diagonal, sd^2/2 off it: E lambda_max <= sd*sqrt(2 d) (Gordon), and lambda_max is sd-Lipschitz in
    orthonormal coordinates. Otherwise sd^2 everywhere: E lambda_max <= 2 sd sqrt(d) (the diagonal of the Gaussian orthogonal ensemble is
    twice as wide, and more independent noise raises a convex mean), Lipschitz sqrt(2)*sd.
    """
    step = math.sqrt(2 * math.log(2 / eta))
    if isotropic:
        return sd * (math.sqrt(2 * d) + step)
    return sd * (2 * math.sqrt(d) + math.sqrt(2.0) * step)


def gaussian_max(sd: float, d: float, eta: float) -> float:
    """max_ij |N_ij| with entries of standard deviation at most ``sd``: a union over d(d+1)/2 entries."""
    return sd * math.sqrt(2 * math.log(d * (d + 1) / eta))


def gaussian_frobenius(sd: float, d: float, eta: float, *, isotropic: bool) -> float:
    """|N|_F: sd times the length of a normal vector of d(d+1)/2 coordinates (isotropic), at most sqrt(2) times that otherwise."""
    length = math.sqrt(d * (d + 1) / 2) + math.sqrt(2 * math.log(1 / eta))
    return sd * length * (1.0 if isotropic else math.sqrt(2.0))


def laplace_frobenius(b: float, d: float, eta: float) -> float:
    """|N|_F of Laplace(b) on the upper triangle, copied: the sum of D squares has mean 2 D b^2 and variance 20 D b^4 (Chebyshev)."""
    count = d * (d + 1) / 2
    return b * math.sqrt(2 * (2 * count + math.sqrt(20 * count / eta)))


def wishart_frobenius(scale: float, degrees: float, d: float, eta: float) -> float:
    """|W|_F <= sqrt(d) |W|_2, and |W|_2 <= scale*(sqrt(m) + sqrt(d) + sqrt(2 log(1/eta)))^2 (the upper half of 000, Lemma 6.3.3, any m)."""
    return math.sqrt(d) * scale * (math.sqrt(degrees) + math.sqrt(d) + math.sqrt(2 * math.log(1 / eta))) ** 2


def symmetrised_frobenius(t: float, d: float, eta: float, degrees: float = 0.0) -> float:
    """|W1 - W2|_F with m degrees each (d + 1 unless given): the mean of its square is 2 t^2 m d(d+1), by Markov; or the two norms added."""
    m = degrees or d + 1
    markov = t * math.sqrt(2 * m * d * (d + 1) / eta)
    return min(markov, 2 * wishart_frobenius(t, m, d, eta / 2))
