"""The message of every client of the one-report families, at the plan of its gallery spec: its law for two records, by enumeration or by
integration of known densities, against the stated budget. A new kind of report without a law here fails."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

from dpspec.compiler.passes import compile_draft
from dpspec.lang.source import parse_file
from dpspec.privacy.schedule import leaves

ROOT = Path(__file__).resolve().parents[3]
#: An index into public coins has its own enumeration: test_local_bernstein.test_an_index_spends_epsilon_exactly.
ELSEWHERE = {"local-bernstein-genprot"}
SPECS = sorted(f for family in ("nldp_erm", "public_data") for f in (ROOT / "specs" / family).glob("*.dps") if f.stem not in ELSEWHERE)
NASTY = [0.0, 1.0, -3.0, 1e154, -1.7e308, math.inf, math.nan, 5e-324]


class NoNoise:
    def add_gaussian(self, x, scale, *, sensitivity, dim):
        return x


def planned(spec: Path) -> Any:
    (release,) = compile_draft(parse_file(spec)).releases
    return release


def hostile(dim: int) -> np.ndarray:
    """Records with entries from NASTY in the first two places and in the last, rows of e_i and of ones among them."""
    rows = [np.array([a, b, *[0.0] * (dim - 2)])[:dim] for a, b in itertools.product(NASTY, repeat=2)]
    rows += [np.eye(dim)[i] * 9 for i in (0, min(1, dim - 1), dim - 1)] + [np.full(dim, 7.0), np.full(dim, -7.0)]
    return np.array(rows)


def moved(channel: Any) -> float:
    """The largest distance of what two records send before the noise, squares summed in exact fractions."""
    x = hostile(channel.dim)
    if hasattr(channel, "y_clip"):
        x, y = np.repeat(x, 3, axis=0), np.tile([1e308, -1e308, math.nan], len(x))
        sent = channel.encode((x, y), 1.0, NoNoise())
    else:
        sent = channel.encode(x, 1.0, NoNoise())
    different = np.unique(np.atleast_2d(sent), axis=0)
    scaled = different / channel.sensitivity
    apart = ((scaled[:, None, :] - scaled[None, :, :]) ** 2).sum(axis=-1) if different.size < 10**5 else _gram(scaled)
    far = Fraction(0)
    for flat in np.argsort(apart, axis=None)[-8:]:  # the pairs that are furthest apart in doubles, in exact fractions
        u, v = different[flat // len(different)], different[flat % len(different)]
        far = max(far, sum((Fraction(float(a)) - Fraction(float(b))) ** 2 for a, b in zip(u, v, strict=True)))
    assert far <= Fraction(channel.sensitivity) ** 2
    return math.sqrt(far)


def _gram(rows: np.ndarray) -> np.ndarray:
    """Squared distances of long rows."""
    inner = rows @ rows.T
    return np.asarray(np.diag(inner)[:, None] + np.diag(inner)[None, :] - 2 * inner)


def ratio_of(channel: Any, level: float) -> float:
    """log of the largest likelihood ratio of one report, by kind of law."""
    b = channel.scale(level)
    match channel.kind:
        case "one-bit-mean":  # two values +-B of mean x in [-r, r]
            return math.log((1 + channel.radius / b) / (1 - channel.radius / b))
        case "kary-response":  # k values: the true one with 1/k + (1 - 1/k) a, every other with (1 - a)/k; B = 1/a
            a = 1 / b
            return math.log((1 / channel.k + (1 - 1 / channel.k) * a) / ((1 - a) / channel.k))
        case "laplace-vector":
            return float(channel.sensitivity / b)
        case "hemisphere" | "priv-unit":  # two densities on the sphere; their ratio from the mean r/B along v and the mass of the cap
            height = channel.numbers(level)["height"] if channel.kind == "priv-unit" else 0.0
            weight = channel.dim - 3

            def slab(low: float, high: float, power: int) -> float:
                return quad(lambda t: t**power * (1 - t * t) ** (weight / 2), low, high)[0]

            whole = slab(-1, 1, 0)
            mass, lean = slab(height, 1, 0) / whole, slab(height, 1, 1) / whole  # outside the cap the mean is -lean of it
            # p/mass lean - (1 - p)/(1 - mass) lean = r/B
            p = (channel.radius / b / lean + 1 / (1 - mass)) * mass * (1 - mass)
            return math.log(p / mass * (1 - mass) / (1 - p))
    raise AssertionError(f"no law of {channel.kind} stands here")


@pytest.mark.parametrize("spec", SPECS, ids=lambda s: s.stem)
def test_a_message_keeps_the_budget_and_uses_it(spec):
    release = planned(spec)
    facts, sent = release.problem.facts, [leaf for leaf in leaves(release.tree) if leaf.draw.per == "user"]
    assert sent
    assert all(leaf.each == 1 for leaf in sent)
    channels = [(leaf.draw.mechanism, release.calibrated.levels[leaf.draw.name]) for leaf in sent]
    if all(c.family == "gaussian" for c, _ in channels):
        for c, _ in channels:
            assert moved(c) >= 0.49 * c.sensitivity  # rank-one differences may have no pair at the bound among these
        mu = math.sqrt(sum((c.sensitivity / c.scale(level)) ** 2 for c, level in channels))
        e = facts["epsilon"]
        delta = norm.cdf(mu / 2 - e / mu) - math.exp(e + norm.logcdf(-mu / 2 - e / mu))
        assert 0.999 * facts["delta"] <= delta <= facts["delta"] * (1 + 1e-6)
    else:
        assert len(channels) == 1
        ((c, level),) = channels
        loss = ratio_of(c, level)
        assert 0.999 * facts["epsilon"] <= loss <= facts["epsilon"] * (1 + 1e-9)
