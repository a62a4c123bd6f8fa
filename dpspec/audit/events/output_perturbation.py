"""Noise on the minimiser of a strongly convex risk."""

from __future__ import annotations

from dpspec.audit.component import Component, Context, Missing, assuming, gaussian_release, unattained
from dpspec.audit.event import Event
from dpspec.audit.events._additive import ratio
from dpspec.audit.kinds import Kind

KIND = Kind(
    "noise on the minimiser of a mean of n convex losses plus a ridge (output perturbation)",
    ("lipschitz", "strong_convexity", "n", "sigma", "epsilon"),
    (("lipschitz",), ("strong_convexity",), ("n",), ("sigma", "epsilon")),
    noise="gaussian",
    aliases=("sensitivity_method",),
)
EXAMPLE = {"type": "output_perturbation", "lipschitz": 1, "strong_convexity": 0.1, "n": 10000, "sigma": 0.01}
RELATION = "replace_one"


def model(event: Event, context: Context) -> list[Component]:
    """The minimiser of (1/n) sum loss(w; z_i) + (lam/2) |w|^2 moves by at most 2 L/(lam n) in l2 when a record is replaced, if every loss
    is convex and has gradients of at most L (Chaudhuri, Monteleoni, Sarwate 2011, Lemma 7 and Corollary 8; with n fixed, a record that
    vanishes costs L/(lam n)). ``sigma``: of Gaussian noise; ``epsilon``: noise of density exp(-|b| lam n epsilon/(2 L)). Conditions: the
    minimiser is exact, and L holds for every record and at every w that can be reached."""
    lipschitz, lam, n = event.number("lipschitz"), event.number("strong_convexity"), event.number("n")
    if lipschitz is None or lam is None or n is None:
        raise Missing("lipschitz, strong_convexity and n")
    top = (2 if context.replacing else 1) * lipschitz / (lam * n)
    found = []
    sigma, epsilon = event.number("sigma"), event.number("epsilon")
    if sigma is not None:
        found.append(gaussian_release(event.what, ratio(top, sigma)))
    if epsilon is not None:
        pure = epsilon if context.replacing else epsilon / 2
        found.append(Component(event.what, pure=pure, rho=pure**2 / 2))
    conditions = [f"the minimiser of {event.what} is exact, and {event.what}'s loss is convex with gradients of at most {lipschitz:g}"]
    if context.neighbouring == "add_remove":
        conditions.append(f"the n of {event.what} is a public number that does not follow the records")
    return assuming([c if c.breach is not None else unattained(c) for c in found], *conditions)
