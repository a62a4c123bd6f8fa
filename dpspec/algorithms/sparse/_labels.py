"""What the label-private algorithms share: one noisy response a user, and least squares on public features.

The features are public (``labels only``), so only y_i differs between neighbours. A user clips its response to [-y_clip, y_clip]
around a public centre and sends it once, with noise for the diameter 2*y_clip. Everything else is post-processing: it may pass
over the reports as often as it likes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np

from dpspec.algorithms.card import Fault, Need, Problem, Tunable, Tunables
from dpspec.algorithms.estimate import Published
from dpspec.algorithms.sets import Vector, hard_threshold, project_l2
from dpspec.privacy.channels.gaussian_vector import GaussianVector
from dpspec.privacy.channels.laplace_vector import LaplaceVector
from dpspec.privacy.schedule import Draw, Tree

EVIDENCE: Final = "tests/algorithms/sparse/test_label_private.py::"
NOISE: Final = ("gaussian", "laplace")
NEED_Y: Final = Need(
    "y", "privacy", "the response lies within y_clip of the public centre", enforced_by="each client clips its own response"
)
NEED_X: Final = Need("public features", "utility", "x is public: the server knows every x_i (the guarantee is about y alone)")
Y_CLIP: Final = (
    "min(y_abs, w_radius*x_linf*sqrt(k) + noise_bound) else y_abs else x_linf*sqrt(k) + noise_bound"
    " else sigma_y*sqrt(2*log(n)) else sigma*sqrt(2*log(n))"
)
CLIP: Final = Tunable(
    Y_CLIP,
    "declared range of y: sqrt(k) + C of the thesis' model (x in the cube, |theta| <= 1), or the largest of n responses",
    minimum=1e-12,
)

FAULTS: Final = (
    Fault(
        "000 Algorithms 5.3.42 and 5.3.45, step 1: noise 32 C^2 ln(1.25/delta)/epsilon^2 from y in <x, theta> +- C",
        "that takes theta as known; y ranges over 2(sqrt(k) + C): at C = 0.05, epsilon 1, delta 1e-3 the true epsilon is 11.8 for k = 1",
        EVIDENCE + "test_the_thesis_noise_spends_far_more_than_stated",
        "privacy",
    ),
    Fault(
        "corrected scale 8 y_clip^2 ln(1.25/delta)/epsilon^2 for every epsilon",
        "the classical formula holds for epsilon <= 1 and is too small above about 8 (delta 1e-5); the noise here is exact",
        EVIDENCE + "test_the_classical_label_noise_fails_at_large_epsilon",
        "privacy",
    ),
    Fault(
        "000 experiments: 10 runs on the same labels, the one with the least error kept",
        "ten releases of every label, chosen by the truth: 10 noisy copies at epsilon 1 spend more than 3",
        EVIDENCE + "test_ten_runs_on_the_same_labels_spend_more",
        "privacy",
    ),
)


def refusal(p: Problem, t: Tunables) -> str | None:
    if "labels-only" not in p.modifiers:
        return "it protects the responses only (`privacy nldp labels only`); here the features are private too"
    if t.noise == "gaussian" and "delta" not in p.facts and not {"rho", "mu"} & p.facts.keys():
        return "Gaussian noise needs a delta; noise = laplace is pure"
    return None


def schedule(t: Tunables) -> Tree:
    channel: Any = LaplaceVector(1, t.y_clip, "linf") if t.noise == "laplace" else GaussianVector(1, t.y_clip)
    return Draw("label", channel, per="user")


def noisy_labels(records: Any, release: Any, centre: float = 0.0) -> Vector:
    """The reports, shape (n,): clipped responses plus noise, around the centre again."""
    y = np.concatenate([np.asarray(block, dtype=np.float64) for _, block in records.blocks()])
    reports = np.asarray(release.reports("label", (y - centre)[:, None]), dtype=np.float64).reshape(-1)
    return reports + centre


def blocks(records: Any, labels: Vector) -> Iterator[tuple[Any, Vector]]:
    """(x, noisy labels) in cache-sized blocks; x dense or CSR, as it came."""
    start, rows = 0, 1 << 16 if getattr(records, "sparse", False) else max(256, (1 << 18) // max(records.d, 1))
    for x, _ in records.blocks(rows):
        stop = start + x.shape[0]
        yield x, labels[start:stop]
        start = stop


def threshold_steps(records: Any, labels: Vector, t: Tunables, eta: float, slope: Callable[[Vector, Vector], Vector]) -> Vector:
    """T steps theta <- P(Trunc(theta - eta*(1/n) sum slope(<x_i, theta>, y_i) x_i, kept)) from 0; P projects on the l2 ball of radius
    ``ball``."""
    theta = np.zeros(records.d)
    with np.errstate(over="ignore", invalid="ignore"):  # public features may be anything
        for _ in range(t.T):
            gradient = np.zeros(records.d)
            for x, y in blocks(records, labels):
                gradient += x.T @ slope(np.asarray(x @ theta), y)
            theta = project_l2(hard_threshold(finite(theta - (eta / records.n) * gradient), t.kept), t.ball)
    return theta


def cross(records: Any, labels: Vector) -> Vector:
    """(1/n) sum x_i*report_i, (d,): what the reports say of theta before any threshold; released beside the estimate."""
    total = np.zeros(records.d)
    with np.errstate(over="ignore", invalid="ignore"):
        for x, y in blocks(records, labels):
            total += x.T @ (y / records.n)
    return finite(total)


def finite(v: Vector) -> Vector:
    """NaN to 0 and infinities to 1e150."""
    return v if np.isfinite(v.sum()) else np.nan_to_num(v, nan=0.0, posinf=1e150, neginf=-1e150)


def standard_deviation(t: Tunables, calibrated: Any) -> float:
    """Of the noise of one report."""
    return float(calibrated.scale("label")) * (math.sqrt(2.0) if t.noise == "laplace" else 1.0)


def published(p: Problem, t: Tunables, budget: Any, source: str) -> tuple[Published, ...]:
    """The thesis' noise, with what it would spend on responses that range over the declared clip."""
    if budget.kind != "approx" or "noise_bound" not in p.facts:
        return ()
    from dpspec.privacy.gaussian import epsilon_of

    e, delta, c = float(budget.epsilon_exact), float(budget.delta_exact), p.facts["noise_bound"]
    scale = math.sqrt(32 * math.log(1.25 / delta)) * c / e
    return (
        Published(
            source,
            "label",
            "sqrt(32*log(1.25/delta))*noise_bound/epsilon",
            scale,
            epsilon_of(2 * t.y_clip / scale, delta),
            "its sensitivity 2 C takes <x, theta> as known; on the clipped responses it is 2*y_clip",
        ),
    )
