"""Bits of a report: what clients of finite channels really send is counted, and a plan states those of its own channel."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from dpspec.compiler.passes import compile_draft
from dpspec.lang.source import parse_text
from dpspec.privacy.channels.cube import Cube
from dpspec.privacy.channels.gaussian_outer import GaussianOuter
from dpspec.privacy.channels.hadamard_response import HadamardResponse
from dpspec.privacy.channels.one_bit import OneBitMean
from dpspec.privacy.channels.protocol import message_bits
from dpspec.privacy.channels.randomized_response import KaryResponse
from dpspec.privacy.channels.sampled_coordinate import SampledCoordinate
from dpspec.privacy.channels.subset_selection import SubsetSelection
from dpspec.privacy.channels.unary_encoding import UnaryEncoding
from dpspec.privacy.noise import StudyNoise

TABLES = """\
analysis "tables"

data
  n = 10_000, d = 6
  from memory
  private, unit person, neighbours replace-one
  x in {0, 1} by map(0 -> 0, 1 -> 1)

privacy nldp
  epsilon = 1

release tables
  answer marginals(3)
  by marginals-fourier-ldp with method = METHOD
"""


def distinct(channel: Any, records: np.ndarray) -> int:
    reports = np.asarray(channel.encode(records, 0.5, StudyNoise(0)))
    return len(np.unique(reports.reshape(len(reports), -1), axis=0))


@pytest.mark.parametrize(
    ("channel", "records", "messages"),
    [
        (OneBitMean(1.0), np.zeros((4000, 1)), 2),
        (SampledCoordinate(5, 1.0), np.zeros((4000, 5)), 10),
        (Cube(3, 1.0), np.zeros((4000, 3)), 8),
        (KaryResponse(6), np.zeros(4000, dtype=np.int64), 6),
        (HadamardResponse(6), np.zeros(4000, dtype=np.int64), 8),
        (HadamardResponse(8), np.zeros(4000, dtype=np.int64), 16),
        (UnaryEncoding(4), np.zeros(8000, dtype=np.int64), 16),
        (UnaryEncoding(4, "symmetric"), np.zeros(8000, dtype=np.int64), 16),
    ],
    ids=lambda v: getattr(v, "kind", ""),
)
def test_the_bits_count_the_messages(channel, records, messages):
    assert distinct(channel, records) == messages
    assert message_bits(channel) == math.ceil(math.log2(messages))


def test_a_subset_is_a_bit_a_category_and_numbers_have_64():
    channel = SubsetSelection(5)
    assert message_bits(channel) == 5 >= math.log2(distinct(channel, np.zeros(4000, dtype=np.int64)))
    assert message_bits(GaussianOuter(3, 1.0)) == 64 * 6


@pytest.mark.parametrize(("method", "bits"), [("parities", 1), ("cells", 3)])
def test_a_plan_states_the_bits_of_the_channel_that_it_takes(method, bits):
    (release,) = compile_draft(parse_text(TABLES.replace("METHOD", method), surface="dps")).releases
    assert release.cost["bits_per_user"] == bits
