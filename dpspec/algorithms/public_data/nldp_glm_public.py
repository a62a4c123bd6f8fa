"""Generalised linear model from one report a user and public unlabelled records (non-interactive local model).

    user i: x_i (y_i - y0) and triu(x_i x_i^T), each plus Gaussian noise;   server: v = A^{-1} b, theta = c v, c from the public records.

Privacy: each client scales x_i into the l2 ball of radius r and clips y_i - y0 at tau, so two records' messages differ by at most
sqrt(2) r^2 (upper triangle) and 2 r tau in l2, whatever they hold. The two Gaussian draws are calibrated together: with noise of l_1 and
l_2 sensitivities they are mu-GDP, mu^2 = 1/l_1^2 + 1/l_2^2. Local, replace-one, one message a user. The public records must be other
people's: the compiler and the loader refuse a public file that is the private one.

Source: 000, section 5.2.3, Algorithm 5.2.39, Theorems 5.2.1 (privacy), 5.2.2 and 5.2.3 (utility). Differences:

* halves of (epsilon, delta) by the classical formula become one exact calibration; the matrix has sensitivity sqrt(2) r^2, printed 2 r^2;
* y is centred at the middle y0 of its range: of labels 0 and 1 the product has half of the sensitivity. Labels -1 and 1 serve the
  logistic model as well: (y + 1)/2 is the label, so b is halved after the release;
* ``moment = public`` takes A from the public records and spends the whole budget on the product; ``auto`` chooses it where the public
  records say more than the reports, which is nearly always (m >= n mu^2/(2 d^2 + 8 d sqrt(2 d)));
* ``root = score`` (default) finds c from mean(u (f(c u) - f(0))) = mean(u^2), u = <x, v>, the score equation along v: unique, and right
  for every elliptical x. ``root = stein``: 1 = c mean(f'(c u)) as printed, right for Gaussian x. Without a root, which is decided from the
  released v and public records, the maximiser of Stein's form is taken and ``scale_found`` = 0 stands beside the estimate;
* eigenvalues of A are raised to its noise or to eig_min; the sum of noisy matrices is indefinite at the documents' sizes;
* noise of b has a known variance: directions in which it is all there is are shrunk, and the score equation has <b, v> less its share of
  noise on its right side (proof in _scaled.py). As printed, noise lengthens v, and c with it where f is bounded.

Several links from one collection are post-processing: v is released as ``direction``, and newton-scale-root gives any link's scale from it.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dpspec.algorithms.card import Bound, Card, Fault, Problem, Source, Tunable, Tunables
from dpspec.algorithms.estimate import Estimate, Published
from dpspec.algorithms.public_data import _scaled as scaled
from dpspec.algorithms.public_data import newton_scale_root as root
from dpspec.models.door import Door
from dpspec.models.rows import Rows
from dpspec.privacy.schedule import Tree
from dpspec.spec.expr import Name
from dpspec.symbolic.links import GLM_LOSSES
from dpspec.symbolic.margin import expit

_EVIDENCE = "tests/algorithms/public_data/test_nldp_glm_public.py::"

CARD = Card(
    id="nldp-glm-public",
    title="Generalised linear model with public unlabelled records",
    family="public_data",
    task="estimate-theta",
    models=("nldp", "sldp"),
    guarantees=("approx", "zcdp", "gdp"),
    sources=(Source("000", "5.2.3", "Algorithm 5.2.39", ("Theorem 5.2.1", "Theorem 5.2.2", "Theorem 5.2.3", "Lemma 5.2.9")),),
    summary="One message a user gives the direction by noisy least squares; public records give the length through the link.",
    needs=scaled.NEEDS,
    options=scaled.OPTIONS,
    tunables={
        "r": scaled.RADIUS,
        "y0": scaled.Y0,
        "tau": Tunable(
            "max(y_high - y0, y0 - y_low) else y_abs + abs(y0)", "half of the range of y; 000: |y| <= 1", minimum=1e-100, maximum=1e70
        ),
        **scaled.TUNABLES,
    },
    bounds=(
        Bound(
            "l2-error",
            "order",
            "upper",
            "C*(r*sqrt(d*log(1/delta))/(eig_min*epsilon*sqrt(n)) + sqrt(d/n) + sqrt(d/m))",
            "proved",
            "noise of b - A v through A^{-1}, and the score equation",
            conditions="elliptical x, theta of order one, epsilon = O(1), r tau of order r; the root exists",
            regime=scaled.REGIME,
            when=("epsilon <= C",),
        ),
        Bound(
            "l2-error",
            "order",
            "upper",
            "C*(d^(3/2)*sqrt(log(1/delta))/(r*epsilon*sqrt(n)) + sqrt(d/m))",
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
            "000 Theorem 5.2.2 (5.20), its eigenvalue written out",
            probability="1 - exp(-d) - zeta",
            conditions="sub-Gaussian x, |x|_1 <= r, Sigma^(1/2) diagonally dominant, f' bounded and Lipschitz, a root; 1/sqrt(d) stays",
            regime="C*d^2*log(1/delta)*log(d)/(epsilon^2*eig_min*min(eig_min, 1)) else C*d^2*log(d)/epsilon^2",
            needs=("sub-gaussian of x",),
        ),
        Bound(
            "linf-error",
            "order",
            "upper",
            "C*d*sqrt(log(1/delta))/(epsilon*sqrt(n))",
            "refuted",
            "000, the discussion of Theorem 5.2.2: n = O(d^2/(epsilon^2 alpha^2))",
            conditions="hides eig_min, which is at most r^2/d",
        ),
    ),
    faults=(
        Fault(
            "000 Algorithm 5.2.39: |x|_1 <= r and |y| <= 1 are promises about the data",
            "a record outside moves its message without limit; clients scale and clip",
            _EVIDENCE + "test_no_record_moves_a_message_by_more_than_its_sensitivity",
            "privacy",
        ),
        Fault(
            "000 section 5.2.5: n private and n public rows from one training split, 390,000 of each from 406,708",
            "they overlap, and the x of private users is used without noise; a public file that is the private one is refused",
            "tests/algorithms/test_printed_leaks.py::test_rows_that_are_public_and_private_show_without_noise",
            "privacy",
        ),
        Fault(
            "000 section 5.2.5: features normalised and correlated columns dropped by statistics of the private records; delta = 1/n",
            "such statistics are releases without noise; scaling here takes declared radii and public rows alone",
            "tests/algorithms/test_printed_leaks.py::test_variables_chosen_by_their_spread_differ",
            "privacy",
        ),
        Fault(
            "000 Algorithm 5.2.39: an initial value of Newton's iteration, in the literature 2/Var(y)",
            "a statistic of private labels; the search starts from a constant",
            "tests/algorithms/test_printed_leaks.py::test_a_start_from_the_labels_variance_differs_and_stays",
            "privacy",
        ),
        Fault(
            "000 Algorithm 5.2.39: x x^T has sensitivity 2 r^2, halves of the budget by the classical formula",
            "sqrt(2) r^2, and the pair spends epsilon 0.43 of a stated 1 at delta 1e-5",
            _EVIDENCE + "test_the_printed_noise_spends_less_than_half",
            "utility",
        ),
        Fault(
            "000 step 3: w = A^{-1} b",
            "A is indefinite unless n is of the order r^4 d log(1/delta)/(epsilon eig_min)^2",
            _EVIDENCE + "test_the_noisy_moment_is_indefinite_at_small_n",
            "utility",
        ),
        Fault(
            "000 Theorem 5.2.2: n = O(d^2/(epsilon^2 alpha^2))",
            "|x|_2 <= r forces eig_min <= r^2/d, so d^3 at best",
            _EVIDENCE + "test_the_least_eigenvalue_is_at_most_r2_over_d",
            "utility",
        ),
        Fault(
            "000 Lemma 5.2.9: n >= kappa^4 |Sigma|^2 d r^4 log(1/delta)/(epsilon^2 eig_min^2)",
            "two conditions multiplied: the sampling one and the noise one are needed separately",
            "docs/faults.md#two-errors-of-a-second-moment",
            "utility",
        ),
        Fault(
            "000 section 5.2.5: x = +-1/d with noise for |x|_1 <= 1",
            "the noise drowns the signal; only |x|_2 enters",
            "docs/faults.md#records-far-inside-the-ball",
            "utility",
        ),
        Fault(
            "000 (5.20), (5.60), (5.46): three spellings of one bound",
            "log arguments and |Sigma^(1/2)| differ",
            "docs/faults.md#spellings-of-one-bound",
            "text",
        ),
    ),
    cost={"gradients": "0", "rounds": "1", "bits_per_user": "64*(d*(d + 1)/2 + d)", "memory_bytes": "8*(m*d + 2*d*d)"},
    reads="sums",
    spec="specs/public_data/nldp-glm-public.dps",
)


def accepts(p: Problem, t: Tunables) -> str | None:
    return unknown(p) or scaled.refusal(p, t)


def unknown(p: Problem) -> str | None:
    """Why there is no such model for these responses."""
    if p.task.form != "glm":
        return "the model is not a generalised linear one (`estimate theta in y ~ glm(logistic)`)"
    link = link_of(p)
    if link not in GLM_LOSSES:
        return f"the link {link} has no known likelihood; known are {', '.join(GLM_LOSSES)}"
    low, high = p.facts.get("y_low", -math.inf), p.facts.get("y_high", math.inf)
    if GLM_LOSSES[link] == "poisson" and -math.inf < low < 0:
        return f"counts are not negative, and y may be {low:g}; y in [0, 20] by clip"
    if link == "logistic" and not (low >= -1 and high <= 1):
        return "the logistic model has labels 0 and 1, or -1 and 1: y in {0, 1} by map(0 -> 0, 1 -> 1)"
    return None


def schedule(p: Problem, t: Tunables) -> Tree:
    return scaled.schedule(p, t)


def run(records: Rows, p: Problem, t: Tunables, release: Door) -> Estimate:
    mean, slope = functions(link_of(p))
    return scaled.estimate(records, p, t, release, mean, slope, halves(p))


def link_of(p: Problem) -> str:
    return p.task.link.id if isinstance(p.task.link, Name) else str(p.task.link)


def halves(p: Problem) -> float:
    """Labels -1 and 1 of the logistic model are 2 y - 1."""
    return 0.5 if link_of(p) == "logistic" and p.facts.get("y_low", 0.0) < 0 else 1.0


def functions(link: str) -> tuple[root.Function, root.Function]:
    """The mean function of a link and its derivative."""
    match GLM_LOSSES[link]:
        case "logistic-glm":
            return expit, lambda u: expit(u) * expit(-u)
        case "poisson":
            return np.exp, np.exp
        case _:
            return lambda u: u, np.ones_like


def predicted(p: Problem, t: Tunables, calibrated: Any) -> float:
    return scaled.predicted(p, t, calibrated)


def warnings(p: Problem, t: Tunables, calibrated: Any) -> list[str]:
    return scaled.warnings(p, t, calibrated)


def published(p: Problem, t: Tunables, budget: Any) -> tuple[Published, ...]:
    """000, Algorithm 5.2.39: both draws by the classical formula at halves of the budget."""
    return scaled.printed(p, t, budget, "000 Algorithm 5.2.39", t.tau + abs(t.y0))
