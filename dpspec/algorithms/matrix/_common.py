"""What the cards of this family share: the faults that recur in 000, chapter 6, and what its printed noise would really spend."""

from __future__ import annotations

import math
from typing import Any, Final, Literal

from dpspec.algorithms.card import Fault, Need, Problem, Tunable
from dpspec.algorithms.estimate import Published
from dpspec.algorithms.sets import unkept

TESTS: Final = "tests/algorithms/matrix/test_matrix_faults.py::"
#: Dense d x d eigen-decompositions stay bearable up to here.
LARGEST: Final = 5000

CENTRAL_X: Final = Need("x", "privacy", "|x|_2 <= r for every record: one record moves the second moment by sqrt(2)*r^2/n")
LOCAL_X: Final = Need(
    "x", "privacy", "|x|_2 <= r for every record", enforced_by="each client scales its own record into the ball of radius r, silently"
)
RADIUS: Final = Tunable("x_l2 else 1", "000 assumes |x|_2 <= 1; every sensitivity is a multiple of r^2", minimum=1e-12)

CLIP_LOCAL: Final = Fault(
    "000, 6.1.3: |X_i|_2 <= 1 holds with high probability, 'we always assume the event holds'",
    "privacy has to hold for every input: each client scales its record into the ball; how many were scaled is not released",
    TESTS + "test_a_record_outside_the_ball_breaks_the_printed_guarantee_and_not_ours",
    "privacy",
)
CLIP_CENTRAL: Final = Fault(
    "000, 6.2 and 6.3: |x_i|_2 <= 1 is a promise about the data",
    "one row of norm c multiplies the sensitivity by c^2; every row is scaled into the declared ball",
    TESTS + "test_a_record_outside_the_ball_breaks_the_printed_guarantee_and_not_ours",
    "privacy",
)
EXISTS: Final = Fault(
    "000, Algorithms 6.3.51 to 6.3.53: the graphical lasso of the noisy covariance has a minimiser",
    "the noisy matrix is indefinite; with S_ii <= -rho or lambda_min <= -rho*d the objective is unbounded below. It is projected on "
    "the positive semi-definite cone first, which brings it no further from S",
    TESTS + "test_the_printed_objective_is_unbounded_below",
    "utility",
)


def sensitivity_fault(where: str, message: str = "x x^T") -> Fault:
    """The missing sqrt(2) of ``where``."""
    return Fault(
        f"{where}: Gaussian noise for sensitivity 1 of {message}, any epsilon > 0",
        "replacing a unit record moves the upper triangle by sqrt(2) (e1 against e2): at delta 1e-4 a stated epsilon of 1 is 1.042, 2 is "
        "2.302; at delta 1e-6 a stated 1 is 1.138. The noise is calibrated to sqrt(2)*r^2 by the exact Gaussian curve",
        TESTS + "test_printed_gaussian_noise_spends_more_than_stated",
        "privacy",
    )


PURE_WISHART: Final = (
    "Wishart noise is not pure DP for any epsilon: the output exceeds S in the Loewner order, so neighbours have different supports. "
    "Witness: S against S + e1 e1'/n with the printed scale 3/(2 n epsilon) I and d + 1 degrees: the output rules one of the two out with "
    "probability 1 - exp(-epsilon/3), 0.28 at epsilon 1. State a delta (noise = wishart is then (epsilon, delta)-DP), or take "
    "noise = symmetrised-wishart, which is pure"
)
ONE_SIDED: Final = Fault(
    "000, Lemma 6.3.2, Theorems 6.3.1 and 6.3.4, Algorithm 6.3.52: Wishart noise with d + 1 degrees is epsilon-DP",
    "supports of neighbours differ: delta is at least 1 - exp(-epsilon/3) for every epsilon claimed. W1 - W2 with W_d(d + 1, t I) each, "
    "t = nuclear sensitivity/(2 epsilon), is epsilon-DP",
    TESTS + "test_one_sided_wishart_noise_is_never_pure_and_the_difference_is",
    "privacy",
)


def below(delta: float) -> float:
    """The budget's delta, which was rounded to a double, taken down one step: a mechanism made for it never asks for more."""
    return math.nextafter(delta, 0.0)


def replaced(p: Problem) -> bool:
    return p.neighbours == "replace-one" or p.model != "central"


def printed_gaussian(p: Problem, budget: Any, source: str, draw: str, weight: float, radius: float) -> tuple[Published, ...]:
    """The classical scale for sensitivity ``weight``*r^2, and what it spends with the true one."""
    if budget.kind != "approx":
        return ()
    from dpspec.privacy.gaussian import epsilon_of

    e, delta = float(budget.epsilon_exact), float(budget.delta_exact)
    sigma = math.sqrt(2 * math.log(1.25 / delta)) / e
    true = math.sqrt(2.0) if replaced(p) and p.d > 1 else 1.0
    remark = "calibrated to the sensitivity of adding a record; replacing one moves the matrix sqrt(2) times as far" if true > 1 else ""
    if e >= 1:
        remark += ("; " if remark else "") + "the formula is proved for epsilon < 1 only"
    return (
        Published(source, draw, "sqrt(2*log(1.25/delta))/epsilon*r^2", sigma * weight * radius**2, epsilon_of(true / sigma, delta), remark),
    )


def wrong_task(p: Problem, what: Literal["covariance", "precision", "subspace"]) -> str | None:
    if p.task.what != what and (what, p.task.what) != ("covariance", "second-moment"):
        return f"it estimates {what}(x), not {p.task.what}(x)"
    if p.task.of != "x":
        return f"it estimates {what}(x) from the records x"
    if (outside := unkept(p)) is not None:
        return outside
    if p.d > LARGEST:
        return f"it decomposes dense {p.d} x {p.d} matrices; d is at most {LARGEST}"
    if p.n < 2:
        return "it needs at least two records"
    return None


def central_radius(p: Problem) -> float:
    """The enforced bound of |x|_2."""
    return float(p.facts["x_l2"])


def central_refusal(p: Problem) -> str | None:
    if "x_l2" not in p.facts:
        return "the enforced domain of x bounds no l2 norm (x in ball(l2, 1) by scale)"
    return None
