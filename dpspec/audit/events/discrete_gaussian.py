"""Discrete Gaussian noise on integers."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from dpspec.audit.component import Component, Context, gaussian_release
from dpspec.audit.event import Event
from dpspec.audit.events._additive import gaussian_shift, gaussian_shifts, norm_of, sum_sensitivity
from dpspec.audit.kinds import L2, Kind
from dpspec.audit.pairs import Atoms

KIND = Kind(
    "discrete Gaussian noise on integers",
    (*L2, "sigma", "noise_multiplier", "variance", "rho", "mu"),
    (("sigma", "noise_multiplier", "variance", "rho", "mu"),),
    aliases=("discrete_normal",),
    attained="two integers the whole part of the sensitivity apart",
)
EXAMPLE = {"type": "discrete_gaussian", "l2_sensitivity": 1, "sigma": 2}
RELATION = "add_remove"


def model(event: Event, context: Context) -> list[Component]:
    """Noise P(x) ~ exp(-x^2/(2 sigma^2)) on integers. The zCDP cost is that of the continuous law for every integer shift (Canonne,
    Kamath, Steinke 2020, Theorem 4); the profile is not, and that of a vector may lie above that of one number moved as far."""
    mu = gaussian_shift(event, context)
    whole = gaussian_release(event.what, mu)
    if whole.breach is not None or mu == 0:
        return [whole]
    if event.number("sigma", "variance", "noise_multiplier") is None:
        return [whole]  # known by its cost alone: many wide draws, the Gaussian limit (DP619 says so)
    by_norm = (
        event.number("noise_multiplier") is not None and norm_of(event) is None and event.number("l2_sensitivity", "sensitivity") is None
    )
    top = 1.0 if by_norm else sum_sensitivity(event, context, "l2_sensitivity", "sensitivity")
    sigma, step = top / mu, math.floor(top)
    rho = mu * mu / 2
    # a whole shift of one number is a real pair, and at a whole order its Renyi divergence is the continuous one
    low = (step / sigma) ** 2 / 2
    if step < 1 or not sigma <= 20_000:
        return [Component(event.what, pure_at_least=math.inf if step >= 1 else 0.0, rho=rho, rho_at_least=low)]
    pair = _discrete_gaussian_pair(sigma, step)
    return [Component(event.what, pure_at_least=math.inf, rho=rho, rho_at_least=low, over=pair if top == 1 else None, under=pair)]


def _discrete_gaussian_pair(sigma: float, top: int) -> Atoms:
    """The law moved by ``top`` against the law at 0, cut where less than 1e-32 lies beyond."""
    half = math.ceil(sigma * 12 + top)
    x = np.arange(-half, half + 1, dtype=float)
    with np.errstate(under="ignore"):
        weight = np.exp(-((x / sigma) ** 2) / 2)
    weight /= weight.sum()
    p, q = np.zeros(x.size + int(top)), np.zeros(x.size + int(top))
    q[: x.size], p[int(top) :] = weight, weight
    keep = (p > 0) & (q > 0)
    return Atoms(tuple(p[keep]), tuple(q[keep]))


def stated(event: Event, context: Context) -> Mapping[str, Mapping[str, float]]:
    return {"noise (as mu)": gaussian_shifts(event, context)}
