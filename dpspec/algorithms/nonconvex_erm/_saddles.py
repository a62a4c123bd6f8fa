"""What the methods for second-order points share: tunables, and what trust-region steps reach with noise of a given size.

F with Hessians that are rho-Lipschitz, a step h of length at most r = sqrt(alpha/rho) that solves the subproblem of g~ and H~, its
multiplier lam, |g~ - grad F| <= e1, |H~ - Hessian| <= e2. While lam > sqrt(alpha rho) the step is as long as r and

    F(w + h) <= F(w) + <g~, h> + h^T H~ h/2 + e1 r + e2 r^2/2 + rho r^3/6 < F(w) - kappa alpha^(3/2)/sqrt(rho),
    kappa = 1/3 - e1/alpha - e2/(2 sqrt(alpha rho)),

as <g~, h> + h^T H~ h/2 <= -lam r^2/2. So T >= sqrt(rho) DF/(kappa alpha^(3/2)) steps meet a multiplier of at most sqrt(alpha rho), and
there

    |grad F(w + h)| <= lam |h| + e1 + e2 r + rho r^2/2 <= 3 alpha/2 + e1 + e2 r,
    lambda_min(w + h) >= -lam - e2 - rho r >= -2 sqrt(alpha rho) - e2.

000, (4.85) leaves out rho r^3/6: with its noise levels alpha/6 and sqrt(alpha rho)/3 kappa is 0. Half of them make it 1/6.
"""

from __future__ import annotations

import math
from typing import Final

from dpspec.algorithms.card import Need, Problem, Tunable
from dpspec.algorithms.formulas import STRENGTH, STRENGTH_SOURCE

HESSIAN_LIPSCHITZ: Final = Need(
    "hessian-lipschitz",
    "utility",
    "the Hessian of a record's loss is rho-Lipschitz",
    enforced_by="proved by the certificate of the loss; refused without",
)
STRENGTH_TUNABLE: Final = Tunable(STRENGTH, STRENGTH_SOURCE)
GAP: Final = Tunable("at_zero else 1", "a public bound of F(w_0) - F*; 000: F(w_0) - F* on the data", minimum=1e-300, maximum=1e100)
#: rho of the text; the name rho is that of a budget.
BEND: Final = Tunable("hessian_lipschitz else 1", "the Hessian-Lipschitz constant (without one it is refused)", False, 1e-300, 1e100)
ZETA: Final = Tunable("0.05", "probability that the noise exceeds what the bound allows for", minimum=1e-12, maximum=0.5)
#: alpha at which noise of half the budget each, for T = 6 sqrt(rho) DF/alpha^1.5, has the sizes alpha/12 and sqrt(alpha rho)/6.
_LEAST: Final = (
    "max((24*L*sqrt(12*sqrt(bend)*gap)*(sqrt(d) + 5)/(n*strength))^(4/7), "
    "(6*hessian_spread*sqrt(12*sqrt(bend)*gap)*(sqrt(2*d) + 5)/(n*strength*sqrt(bend)))^(4/5)) else "
)
ALPHA: Final = _LEAST + "0.1"
#: 1.15 times that, for dp-tr. There 4.8 sqrt(rho) DF/alpha^1.5 steps are enough: their noise is sqrt(4.8/6 1.15^(-3/2)) = 0.805 of the
#: one above, so that e1 <= 0.805 alpha/(12*1.15), e2 <= 0.805 sqrt(alpha rho)/(6*1.15^(1/2)), and kappa >= 1/3 - 0.0584 - 0.0626 = 0.212,
#: which is more than 1/4.8.
WIDER: Final = "1.15*" + _LEAST + "0.115"


def vector_noise(scale: float, d: int, eta: float) -> float:
    """|e| of N(0, scale^2 I), exceeded with probability ``eta``: a norm is 1-Lipschitz."""
    return scale * (math.sqrt(d) + math.sqrt(2 * math.log(1 / eta)))


def matrix_noise(scale: float, d: int, eta: float) -> float:
    """The operator norm of isotropic symmetric noise: its mean is at most scale*sqrt(2 d) at each end of the spectrum (Gordon)."""
    return scale * (math.sqrt(2 * d) + math.sqrt(2 * math.log(2 / eta)))


def sampling(length: float, batch: int, n: int, eta: float) -> float:
    """How far the mean of a uniform batch is from that of all n vectors of norm at most ``length``: mean square at most length^2/b, and
    bounded differences of 2 length/b (Hoeffding: sampling without replacement is no worse)."""
    return 0.0 if batch >= n else length / math.sqrt(batch) * (1 + math.sqrt(2 * math.log(1 / eta)))


def reached(alpha: float, bend: float, T: int, DF: float, e1: float, e2: float, proved: float | None = None) -> float:
    """The least a for which the point of a first multiplier of at most sqrt(alpha rho) is an a-second-order point; infinite where T steps
    need not meet one. ``proved``: the constant by which a is measured, where ``bend`` is a larger one."""
    curve = math.sqrt(alpha * bend)
    kappa = 1 / 3 - e1 / alpha - e2 / (2 * curve)
    if not kappa > 0 or math.sqrt(bend) * DF / (kappa * alpha**1.5) * (1 - 1e-12) > T:
        return math.inf
    return max(1.5 * alpha + e1 + e2 * math.sqrt(alpha / bend), (2 * curve + e2) ** 2 / (bend if proved is None else min(bend, proved)))


def better(output: str, multiplier: float, least: float, enough: float) -> bool:
    """Whether a point takes the place of the one that would be released, whose multiplier is ``least``. ``first``: the first that passes,
    before it the least; ``least``: the least of all, the latest of equal ones (0 from where Newton steps fit the region)."""
    return multiplier < least and least > enough if output == "first" else multiplier <= least


def unbounded(p: Problem) -> str | None:
    """The methods whose steps leave any set."""
    if p.task.over.kind != "reals":
        return "its steps are those of R^d (over an l2 ball: dp-gd-so)"
    return None if p.loss is not None and math.isfinite(p.loss.at_zero) else "no bound of the loss at 0 above its infimum is proved"
