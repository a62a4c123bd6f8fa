"""Regression through a known link from one report a user and public unlabelled records (non-interactive local model).

y = f(<theta, x>) + noise. As nldp-glm-public with f in the place of the mean function:

    user i: x_i (y_i - y0) and triu(x_i x_i^T), each plus Gaussian noise;   server: v = A^{-1} b, theta = c v, c from the public records.

Privacy: |x_i|_2 <= r and |y_i - y0| <= tau by the client's own clips, sensitivities sqrt(2) r^2 and 2 r tau; local, replace-one, one
message a user, the two draws calibrated together. The document derives the range of y from the model (|theta| <= 1, bounded noise),
which is a promise about data; here tau is a clip, and a y beyond it costs accuracy alone.

Source: 000, section 5.2.4, Algorithm 5.2.40, Theorems 5.2.4 (structure) and 5.2.5 (utility). Differences, beside those of nldp-glm-public:

* tau is half of the declared range of y; the printed one, L r + |f(0)| + C, is far larger than sup |f| over the predictions for bounded f;
* a decreasing f is the increasing -f of -y; an even one says nothing of theta through E x y, and is refused;
* the score equation needs f to grow away from 0 only, where Stein's c mean(f'(c u)) = 1 needs f'(0) > 0 or a bracket: for the cube, whose
  f' vanishes at 0, both have roots in closed form.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np

from dpspec.algorithms.card import Bound, Card, Fault, Problem, Source, Tunable, Tunables
from dpspec.algorithms.estimate import Estimate, Published
from dpspec.algorithms.public_data import _scaled as scaled
from dpspec.algorithms.public_data import newton_scale_root as root
from dpspec.models.door import Door
from dpspec.models.rows import Rows
from dpspec.privacy.schedule import Tree
from dpspec.spec.expr import Expr

_EVIDENCE = "tests/algorithms/public_data/test_nldp_nonlinear_regression_public.py::"

CARD = Card(
    id="nldp-nonlinear-regression-public",
    title="Regression through a known link with public unlabelled records",
    family="public_data",
    task="estimate-theta",
    models=("nldp", "sldp"),
    guarantees=("approx", "zcdp", "gdp"),
    sources=(Source("000", "5.2.4", "Algorithm 5.2.40", ("Theorem 5.2.4", "Theorem 5.2.5")),),
    summary="One message a user gives the direction by noisy least squares; public records give the length through the link.",
    needs=scaled.NEEDS,
    options=scaled.OPTIONS,
    tunables={
        "r": scaled.RADIUS,
        "y0": scaled.Y0,
        "tau": Tunable(
            "max(y_high - y0, y0 - y_low) else slope_max*r*w_radius + noise_bound else slope_max*r + noise_bound"
            " else slope_max*r + sigma_y*sqrt(2*log(n)) else sigma_y*sqrt(2*log(n)) else y_abs",
            "half of the range of y; 000: L r + |f(0)| + C for |theta| <= 1",
            minimum=1e-100,
            maximum=1e70,
        ),
        **scaled.TUNABLES,
    },
    bounds=(
        Bound(
            "l2-error",
            "order",
            "upper",
            "C*(r*tau*sqrt(d*log(1/delta))/(eig_min*epsilon*sqrt(n)) + tau*sqrt(d/n) + sqrt(d/m))",
            "proved",
            "noise of b - A v through A^{-1}, and the score equation",
            conditions="elliptical x, theta and the mean slope of f of order one, epsilon = O(1); the root exists",
            regime=scaled.REGIME,
            when=("epsilon <= C",),
        ),
        Bound(
            "l2-error",
            "order",
            "upper",
            "C*(tau*d^(3/2)*sqrt(log(1/delta))/(r*epsilon*sqrt(n)) + sqrt(d/m))",
            "proved",
            "the same at the largest least eigenvalue of records of norm r, r^2/d",
            conditions="isotropic x",
            regime=scaled.REGIME,
            needs=("isotropic",),
            when=("epsilon <= C",),
        ),
        Bound(
            "linf-error",
            "order",
            "upper",
            "C*(d*sqrt(log(1/delta)*log(d))/(epsilon*eig_min*sqrt(n)) + d/sqrt(m) + 1/sqrt(d))",
            "claimed",
            "000 Theorem 5.2.5 (5.27), its eigenvalue written out",
            probability="1 - exp(-d) - zeta",
            conditions="sub-Gaussian x, |x|_1 <= r, Sigma^(1/2) diagonally dominant, f' bounded and Lipschitz, a root; 1/sqrt(d) stays",
            regime="C*d^2*log(1/delta)*log(d)/(epsilon^2*eig_min*min(eig_min, 1)) else C*d^2*log(d)/epsilon^2",
            needs=("sub-gaussian of x",),
        ),
    ),
    faults=(
        Fault(
            "000 Algorithm 5.2.40: y in {0, 1}, and |x y| <= r (L r + |f(0)| + C) from the model",
            "a user whose y lies outside breaks the calibration; the client clips y - y0 at tau",
            _EVIDENCE + "test_a_response_outside_the_model_stays_within_the_sensitivity",
            "privacy",
        ),
        Fault(
            "000 Algorithm 5.2.40: an initial value of Newton's iteration, in the literature 2/Var(y)",
            "a statistic of private labels; the search starts from a constant",
            "tests/algorithms/test_printed_leaks.py::test_a_start_from_the_labels_variance_differs_and_stays",
            "privacy",
        ),
        Fault(
            "000 section 5.2.5: the cubic link, with the assumption f' >= M > 0 up to the root",
            "f'(0) = 0; the root is there in closed form, c = mean(u^2)^(-1/3)",
            "tests/algorithms/public_data/test_newton_scale_root.py::test_the_cube_has_a_closed_form",
            "utility",
        ),
        Fault(
            "000 section 5.2.5: x = +-1/d under the cubic link",
            "responses of 3e-4 drown in the noise at every printed size; only |x|_2 enters, and features of size one do",
            _EVIDENCE + "test_the_cubic_experiment_is_noise_at_its_printed_scale",
            "utility",
        ),
        Fault(
            "000 Algorithm 5.2.40: y clipped at L r + |f(0)| + C",
            "sup |f - y0| + C is enough, for tanh at r = 4 a quarter of it",
            _EVIDENCE + "test_the_range_of_a_bounded_link_is_smaller_than_printed",
            "utility",
        ),
        Fault(
            "000 proof of Theorem 5.2.4: factors L and d |Sigma|",
            "d lambda_min is what follows",
            "docs/faults.md#least-eigenvalue-of-a-trace",
            "text",
        ),
    ),
    cost={"gradients": "0", "rounds": "1", "bits_per_user": "64*(d*(d + 1)/2 + d)", "memory_bytes": "8*(m*d + 2*d*d)"},
    reads="sums",
    spec="specs/public_data/nldp-nonlinear-regression-public.dps",
)


def accepts(p: Problem, t: Tunables) -> str | None:
    if p.task.form != "nonlinear":
        return "the model has no known non-linear link (`estimate theta in y = f(<theta, x>) + noise`)"
    _, slope = functions(p)
    reach = t.r * p.facts.get("w_radius", 1.0)
    with np.errstate(all="ignore"):
        found = slope(np.linspace(-reach, reach, 2001))
    if not np.isfinite(found).all():
        return f"f' has no finite value somewhere on [-{reach:.3g}, {reach:.3g}], where predictions lie for |theta| <= 1"
    if abs(found.mean()) <= 1e-9 * np.abs(found).max():
        return "f is even, so E x y is 0 whatever theta is: least squares finds no direction"
    return scaled.refusal(p, t)


def schedule(p: Problem, t: Tunables) -> Tree:
    return scaled.schedule(p, t)


def run(records: Rows, p: Problem, t: Tunables, release: Door) -> Estimate:
    f, slope = functions(p)
    sign = rising(slope, t.r * p.facts.get("w_radius", 1.0))
    return scaled.estimate(records, p, t, release, lambda u: sign * f(u), lambda u: sign * slope(u), sign)


def rising(slope: root.Function, reach: float) -> float:
    """1 for a link that rises on the whole, -1 for one that falls."""
    with np.errstate(all="ignore"):
        return 1.0 if slope(np.linspace(-reach, reach, 2001)).mean() > 0 else -1.0


def functions(p: Problem) -> tuple[root.Function, root.Function]:
    """f, up to a constant, and f'."""
    assert p.task.link is not None
    return _functions(p.task.link, tuple(sorted(p.facts.items())))


@lru_cache(maxsize=16)
def _functions(link: Expr, facts: tuple[tuple[str, float], ...]) -> tuple[root.Function, root.Function]:
    from dpspec.symbolic.links import link_mean
    from dpspec.symbolic.margin import margin_functions

    f = margin_functions(link_mean(link), dict(facts))
    zero = np.zeros(())
    return (lambda u: f.value(u, zero)), (lambda u: f.derivative(u, zero))


def predicted(p: Problem, t: Tunables, calibrated: Any) -> float:
    return scaled.predicted(p, t, calibrated)


def warnings(p: Problem, t: Tunables, calibrated: Any) -> list[str]:
    return scaled.warnings(p, t, calibrated)


def published(p: Problem, t: Tunables, budget: Any) -> tuple[Published, ...]:
    """000, Algorithm 5.2.40: both draws by the classical formula at halves of the budget, at the range L r + C that it derives for y (ours
    where that is not finite)."""
    slope, reach = functions(p)[1], t.r * p.facts.get("w_radius", 1.0)
    steepest = float(np.abs(slope(np.linspace(-reach, reach, 2001))).max())
    y = steepest * reach + p.facts.get("noise_bound", 0.0)
    return scaled.printed(p, t, budget, "000 Algorithm 5.2.40", y if math.isfinite(y) else t.tau)
