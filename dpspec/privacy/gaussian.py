"""The privacy profile of the Gaussian mechanism, with rigorous enclosures.

A release of f + N(0, s^2 I) whose l2 sensitivity is D is exactly as private as telling N(0, 1) from N(mu, 1) with mu = D/s
(mu-GDP: Dong, Roth, Su 2022, Theorem 2). Its privacy profile is (Balle, Wang 2018, Theorem 8)

    delta(epsilon; mu) = Phi(mu/2 - epsilon/mu) - exp(epsilon) * Phi(-mu/2 - epsilon/mu),

and mu-GDP releases on the same records compose exactly: mu^2 = sum of mu_i^2 (ibid., Corollary 3.3). So every full-batch Gaussian
schedule, adaptive or not, is one closed form, and calibration is a root of one increasing function of mu,

    d delta/d mu      =  phi(mu/2 - epsilon/mu),
    d delta/d epsilon = -exp(epsilon) * Phi(-mu/2 - epsilon/mu).

Every number here is computed in ball arithmetic (python-flint ``arb``), which returns an interval that provably holds the value,
at a precision that is raised until the interval is narrow. Roots are found by Newton steps and then certified: what is returned
has been shown to satisfy the inequality, and is rounded to the safe side. Inputs may be ``int``, ``float`` (read exactly),
``Fraction`` or decimal text.

The thesis (document 000) calibrates the same schedules through zCDP (Lemmas 2.1.8 to 2.1.10; the printed Lemma 2.1.9 lacks the
square on the sensitivity), which is safe and adds 6 to 15 % more noise than needed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from typing import Any, TypeAlias

Number: TypeAlias = int | float | Fraction | str

_LADDER = (96, 192, 384, 768, 1536, 3072)


@contextmanager
def _precision(bits: int) -> Iterator[Any]:
    """Ball arithmetic at a working precision. An interval computed at a lower one (another thread) would be wider, never wrong."""
    import flint

    before = flint.ctx.prec
    flint.ctx.prec = bits
    try:
        yield flint
    finally:
        flint.ctx.prec = before


def exact(value: Number) -> Fraction:
    """The rational number that an input stands for. Raises ``ValueError`` for NaN, infinity or text that is no number."""
    if isinstance(value, bool):
        raise ValueError("a truth value is not a number")
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{value!r} is not a finite number")
    return Fraction(value)


def float_up(value: Fraction) -> float:
    """The least double that is not below ``value`` (infinity above the largest double)."""
    try:
        near = float(value)
    except OverflowError:
        return math.inf if value > 0 else -_MAX
    if math.isinf(near):
        return near if near > 0 else -_MAX
    return near if Fraction(near) >= value else math.nextafter(near, math.inf)


def float_down(value: Fraction) -> float:
    """The greatest double that is not above ``value``."""
    return -float_up(-value)


_MAX = 1.7976931348623157e308


def _ball(flint: Any, value: Fraction) -> Any:
    return flint.arb(flint.fmpz(value.numerator)) / flint.arb(flint.fmpz(value.denominator))


def _upper(flint: Any, ball: Any) -> float:
    top = ball.upper()
    near = float(top)
    for _ in range(3):
        if math.isinf(near) or flint.arb(near) >= top:
            return near
        near = math.nextafter(near, math.inf)
    return near


def _lower(flint: Any, ball: Any) -> float:
    return -_upper(flint, -ball)


def _profile(flint: Any, epsilon: Any, mu: Any) -> tuple[Any, Any]:
    """delta and exp(epsilon)*Phi(-mu/2 - epsilon/mu), as balls."""
    root = flint.arb(2).sqrt()
    shift, half = epsilon / mu, mu / 2
    far = (shift + half) / root
    if far > 1000:  # where erfc loses all its digits; epsilon - far^2 is -(shift - half)^2/2
        tail = (-((shift - half) ** 2) / 2).exp() * _scaled_erfc(flint, far) / 2
    else:
        tail = epsilon.exp() * far.erfc() / 2
    return ((shift - half) / root).erfc() / 2 - tail, tail


def _scaled_erfc(flint: Any, x: Any) -> Any:
    """e^(x^2) erfc(x) for large x > 0: its asymptotic series is alternating, so the error is at most the first term left out."""
    total, term, inverse = flint.arb(0), flint.arb(1), 1 / (2 * x * x)
    for k in range(1, 60):
        total += term
        term = -term * (2 * k - 1) * inverse
        if term.abs_upper() < flint.arb(2) ** (-flint.ctx.prec):
            break
    return (total + term.union(flint.arb(0))) / (x * flint.arb.pi().sqrt())


def _checked(epsilon: Number | None, delta: Number | None, mu: Number | None) -> tuple[Fraction, Fraction, Fraction]:
    e = Fraction(0) if epsilon is None else exact(epsilon)
    d = Fraction(1, 2) if delta is None else exact(delta)
    m = Fraction(1) if mu is None else exact(mu)
    if e < 0:
        raise ValueError(f"epsilon must not be negative, got {epsilon}")
    if not 0 < d < 1:
        raise ValueError(f"delta must lie strictly between 0 and 1, got {delta}")
    if m <= 0:
        raise ValueError(f"mu must be positive, got {mu}")
    return e, d, m


def _enclosed(epsilon: Fraction, mu: Fraction) -> tuple[float, float]:
    """Doubles below and above delta(epsilon; mu)."""
    low, high = 0.0, 1.0
    for bits in _LADDER:
        with _precision(bits) as flint:
            ball, _ = _profile(flint, _ball(flint, epsilon), _ball(flint, mu))
            low, high = max(low, _lower(flint, ball)), min(high, _upper(flint, ball))
            if ball.rel_accuracy_bits() >= 55 or high == 0.0:
                break
    return low, high


def delta_upper(epsilon: Number, mu: Number) -> float:
    """The delta that a mu-GDP release spends at ``epsilon`` >= 0, rounded up (never more than a few units in the last place)."""
    e, _, m = _checked(epsilon, None, mu)
    return _enclosed(e, m)[1]


def delta_lower(epsilon: Number, mu: Number) -> float:
    """As :func:`delta_upper`, rounded down: no mu-GDP mechanism that is a Gaussian has less."""
    e, _, m = _checked(epsilon, None, mu)
    return _enclosed(e, m)[0]


def _at_most(flint: Any, ball: Any, bound: Any) -> bool | None:
    """Whether every point of ``ball`` is at most every point of ``bound``; None when the balls are too wide to tell."""
    if ball <= bound:
        return True
    if ball > bound:
        return False
    return None


def _holds(epsilon: Fraction, mu: Fraction, delta: Fraction) -> bool:
    """A proof that delta(epsilon; mu) <= delta; False also when the finest precision cannot tell."""
    for bits in _LADDER:
        with _precision(bits) as flint:
            ball, _ = _profile(flint, _ball(flint, epsilon), _ball(flint, mu))
            answer = _at_most(flint, ball, _ball(flint, delta))
        if answer is not None:
            return answer
    return False


def mu_of(epsilon: Number, delta: Number) -> float:
    """The largest mu (a double, rounded down) for which mu-GDP is certified to imply (``epsilon``, ``delta``)-DP.

    ``epsilon`` >= 0, 0 < ``delta`` < 1. Balle and Wang 2018, Algorithm 1, solved for mu in place of the standard deviation.
    """
    e, d, _ = _checked(epsilon, delta, None)
    for bits in _LADDER:
        mu = _newton_mu(e, d, bits)
        if mu is not None:
            break
    else:
        raise ArithmeticError(f"no root of the Gaussian profile at epsilon {epsilon}, delta {delta}")
    step = math.nextafter(mu, math.inf)
    for _ in range(8):  # the root is known far better than a double: at most the last place is open
        if not _holds(e, Fraction(step), d):
            break
        mu, step = step, math.nextafter(step, math.inf)
    for _ in range(64):
        if _holds(e, Fraction(mu), d):
            return mu
        mu = math.nextafter(mu, 0.0)
    raise ArithmeticError(f"the root of the Gaussian profile at epsilon {epsilon}, delta {delta} could not be certified")


def _newton_mu(e: Fraction, d: Fraction, bits: int) -> float | None:
    """An approximate root; None when ``bits`` are too few. No guarantee rests on it."""
    with _precision(bits) as flint:
        epsilon, delta = _ball(flint, e), _ball(flint, d)
        log_delta = delta.log()
        room = -log_delta
        # two lower bounds on the root: delta(epsilon) <= delta(0) <= mu/sqrt(2 pi), and zCDP
        two_pi = 2 * flint.arb.pi()
        by_zcdp = (2 * (epsilon / ((room + epsilon).sqrt() + room.sqrt())) ** 2).sqrt()
        by_tv = delta * two_pi.sqrt()
        mu = (max(by_tv, by_zcdp)).mid()
        for _ in range(80):
            value, _ = _profile(flint, epsilon, mu)
            if value.rel_accuracy_bits() < 20 or not value > 0:
                return None
            density = (-((mu / 2 - epsilon / mu) ** 2) / 2).exp() / two_pi.sqrt()
            step = (log_delta - value.log()) * value / (density * mu)  # Newton for log delta as a function of log mu
            if step > 2:
                step = flint.arb(2)
            elif step < -2:
                step = flint.arb(-2)
            mu = (mu * step.exp()).mid()
            if abs(float(step)) < 1e-9:  # the next step would move it by about the square of this
                if abs(float(step)) < 1e-19 or value.rel_accuracy_bits() < 70:
                    return float(mu) if value.rel_accuracy_bits() >= 60 else None
                value, _ = _profile(flint, epsilon, mu)
                density = (-((mu / 2 - epsilon / mu) ** 2) / 2).exp() / two_pi.sqrt()
                return float((mu * (1 + (log_delta - value.log()) * value / (density * mu))).mid())
    return None


def epsilon_of(mu: Number, delta: Number) -> float:
    """The least epsilon >= 0 (a double, rounded up) for which mu-GDP is certified to imply (epsilon, ``delta``)-DP. Infinite where no
    double is certified (mu above 1e154)."""
    _, d, m = _checked(None, delta, mu)
    if _holds(Fraction(0), m, d):
        return 0.0
    if m > Fraction(10) ** 154:  # mu^2/2, which epsilon exceeds for every delta below 1/2, is near the end of doubles
        return math.inf
    for bits in _LADDER:
        epsilon = _newton_epsilon(m, d, bits)
        if epsilon is not None:
            break
    else:
        raise ArithmeticError(f"no root of the Gaussian profile at mu {mu}, delta {delta}")
    epsilon = max(epsilon, 5e-324)
    gap = 1
    for _ in range(64):
        if _holds(Fraction(epsilon), m, d):
            return epsilon
        for _ in range(gap):
            epsilon = math.nextafter(epsilon, math.inf)
        gap = min(2 * gap, 64)
    raise ArithmeticError(f"the root of the Gaussian profile at mu {mu}, delta {delta} could not be certified")


def _newton_epsilon(m: Fraction, d: Fraction, bits: int) -> float | None:
    """log delta is concave and falling in epsilon, so Newton steps from the zCDP value, which is never too small, fall to the root."""
    with _precision(bits) as flint:
        mu, delta = _ball(flint, m), _ball(flint, d)
        log_delta = delta.log()
        rho = mu * mu / 2
        epsilon = (rho + 2 * (rho * -log_delta).sqrt()).mid()
        for _ in range(200):
            value, tail = _profile(flint, epsilon, mu)
            if value.rel_accuracy_bits() < 30 or not value > 0:
                return None
            step = (value.log() - log_delta) * value / tail
            nearer = epsilon + step
            if nearer < 0:
                nearer = epsilon / 16
            epsilon = nearer.mid()
            if abs(float(step)) <= 1e-19 * abs(float(epsilon)):
                return float(epsilon)
            if abs(float(step)) <= 1e-9 * abs(float(epsilon)) and value.rel_accuracy_bits() >= 70:
                value, tail = _profile(flint, epsilon, mu)
                return float((epsilon + (value.log() - log_delta) * value / tail).mid())
    return None


def noise_multiplier(epsilon: Number, delta: Number, count: int = 1) -> float:
    """The least certified noise/sensitivity (a double, rounded up) of ``count`` Gaussian releases on the same records that are
    together (``epsilon``, ``delta``)-DP: sqrt(count)/mu."""
    if count < 1:
        raise ValueError(f"count must be at least 1, got {count}")
    return multiplier_for_mu(mu_of(epsilon, delta), count)


def multiplier_for_mu(mu: Number, count: int | Fraction = 1) -> float:
    """sqrt(count)/mu, rounded up: ``count`` releases at this noise/sensitivity are mu-GDP together."""
    m, c = exact(mu), Fraction(count)
    if m <= 0 or c <= 0:
        raise ValueError(f"mu and count must be positive, got {mu} and {count}")
    return sqrt_up(c / m**2)


def sqrt_up(value: Fraction) -> float:
    """The square root of a non-negative rational, rounded up to a double."""
    if value < 0:
        raise ValueError("square root of a negative number")
    if value == 0:
        return 0.0
    for bits in _LADDER:
        with _precision(bits) as flint:
            ball = _ball(flint, value).sqrt()
            near = _upper(flint, ball)
        below = math.nextafter(near, 0.0)
        if Fraction(below) ** 2 < value <= Fraction(near) ** 2:
            return near
    while Fraction(near) ** 2 < value:
        near = math.nextafter(near, math.inf)
    return near


def sqrt_down(value: Fraction) -> float:
    """The square root of a non-negative rational, rounded down to a double."""
    near = sqrt_up(value)
    return near if Fraction(near) ** 2 <= value else math.nextafter(near, 0.0)
