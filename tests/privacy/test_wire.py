"""The wire form of every channel: bytes and back, exact sums that give the channel's own estimate, bounds of what one report moves."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dpspec.privacy.channels.cube import Cube
from dpspec.privacy.channels.gaussian_ball_product import GaussianBallProduct
from dpspec.privacy.channels.gaussian_outer import GaussianOuter
from dpspec.privacy.channels.gaussian_product import GaussianProduct
from dpspec.privacy.channels.gaussian_vector import GaussianVector
from dpspec.privacy.channels.genprot import GenProt
from dpspec.privacy.channels.hadamard_response import HadamardResponse
from dpspec.privacy.channels.hemisphere import Hemisphere
from dpspec.privacy.channels.laplace_vector import LaplaceVector
from dpspec.privacy.channels.one_bit import OneBitMean
from dpspec.privacy.channels.priv_unit import PrivUnit
from dpspec.privacy.channels.randomized_response import BinaryResponse, KaryResponse
from dpspec.privacy.channels.sampled_coordinate import SampledCoordinate
from dpspec.privacy.channels.subset_selection import SubsetSelection
from dpspec.privacy.channels.unary_encoding import UnaryEncoding
from dpspec.privacy.channels.wishart_outer import WishartOuter
from dpspec.privacy.noise import SecureNoise
from dpspec.privacy.wire import _MAKERS, Steps, Tally, WireError, codec

N = 300
RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(N, 3)), RNG.normal(size=N)
#: Channel, level, records.
CASES: list[tuple[Any, float, Any]] = [
    (Cube(4, 2.0), 1.0, RNG.normal(size=(N, 4))),
    (GaussianBallProduct(3, 1.0, 2.0), 0.7, (X, Y)),
    (GaussianOuter(3, 1.5), 3.0, X),
    (GaussianProduct(3, 1.0, 2.0), 0.02, (X, Y)),
    (GaussianVector(3, 1e-8), 0.5, X),
    (HadamardResponse(5), 1.0, RNG.integers(0, 5, N)),
    (Hemisphere(3, 1e9), 1.0, X),
    (LaplaceVector(3, 1.0, "linf"), 5.0, X),
    (OneBitMean(3.0), 0.3, Y[:, None]),
    (PrivUnit(3, 1.0), 4.0, X),
    (BinaryResponse(), 1.0, RNG.integers(0, 2, N)),
    (KaryResponse(7), 2.0, RNG.integers(0, 7, N)),
    (SampledCoordinate(3, 1.0), 1.0, X),
    (SubsetSelection(6), 0.5, RNG.integers(0, 6, N)),
    (UnaryEncoding(6, "optimised"), 1.0, RNG.integers(0, 6, N)),
    (UnaryEncoding(6, "symmetric"), 1.0, RNG.integers(0, 6, N)),
    (WishartOuter(3, 1.0), 1.0, X),
]
IDS = [channel.kind for channel, _, _ in CASES]


def test_every_kind_is_tried() -> None:
    assert set(IDS) == set(_MAKERS)


@pytest.mark.parametrize(("channel", "level", "records"), CASES, ids=IDS)
def test_a_tally_of_bytes_is_the_channels_own_aggregate(channel: Any, level: float, records: Any) -> None:
    reports = channel.encode(records, level, SecureNoise())
    c = codec(channel, level)
    numbers = c.numbers(reports)
    bits = c.pack(numbers)
    assert bits.shape == (N, c.bits)
    back, valid = c.unpack(bits)
    assert valid.all()
    np.testing.assert_array_equal(back, numbers)
    whole, parts = Tally.empty(c), Tally.empty(c)
    whole.add(numbers)
    for part in np.array_split(numbers[::-1], 7):  # another order, other blocks
        parts.add(part)
    np.testing.assert_array_equal(whole.mean(), parts.mean())
    theirs = channel.aggregate(reports, level)
    np.testing.assert_allclose(whole.mean(), theirs, rtol=0, atol=1e-8 * max(1e-300, float(np.abs(theirs).max()), channel.scale(level)))


@pytest.mark.parametrize(("channel", "level", "records"), CASES, ids=IDS)
def test_the_reach_holds_any_two_valid_reports(channel: Any, level: float, records: Any) -> None:
    c = codec(channel, level)
    rng = np.random.default_rng(1)
    bits = rng.random((500, c.bits)) < rng.choice([0.0, 0.05, 0.5, 0.95, 1.0], (500, 1))
    numbers, valid = c.unpack(bits)
    pool = np.concatenate([numbers[valid], c.numbers(channel.encode(records, level, SecureNoise()))[:50]])
    values = []
    for row in pool:
        tally = Tally.empty(c)
        tally.add(row[None])
        values.append(np.ravel(tally.mean()))
    far = np.linalg.norm(np.array(values)[:, None] - np.array(values)[None], axis=2).max()
    assert far <= c.reach() * (1 + 1e-9)


def test_sums_of_steps_do_not_overflow() -> None:
    c = Steps(2, -20, 2**52, np.inf)
    tally = Tally.empty(c)
    for _ in range(4):
        tally.add(np.tile(np.array([[2**52, -(2**52)]]), (2**12, 1)))
    assert tally.mean().tolist() == [2.0**32, -(2.0**32)]


def test_a_channel_without_a_form_is_named() -> None:
    with pytest.raises(WireError, match="genprot"):
        codec(GenProt(1.0, 16, 3), 1.0)
