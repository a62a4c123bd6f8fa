"""off-pair-online-to-batch: the average of a transcript, which is post-processing, without its start phase."""

from __future__ import annotations

import numpy as np
import pytest

from dpspec.algorithms.pairwise import _stream, on_pair_c
from dpspec.algorithms.pairwise import off_pair_online_to_batch as module
from tests.algorithms.pairwise.streams import Fed, bound
from tests.algorithms.pairwise.test_off_pair_c import drafted, sample


def test_the_start_phase_is_not_in_the_average():
    p, t, _ = bound(module, n=60, d=2, options="every = 5, T_1 = 30, alpha = 1, shift = 2, tail = 1")
    answers = np.random.default_rng(2).normal(size=(6, 2))
    other, settings, _ = bound(on_pair_c, n=60, d=2, options="every = 5, T_1 = 30, alpha = 1, shift = 2")
    path = on_pair_c.run(sample(60, 2), other, settings, Fed(answers)).extras["transcript"]
    estimate = module.run(sample(60, 2), p, t, Fed(answers))
    assert estimate.theta == pytest.approx(path[:6].mean(axis=0))
    assert not estimate.extras
    random_points = np.concatenate([np.random.default_rng(1).normal(size=(30, 2)), path[:6]])
    assert np.linalg.norm(random_points.mean(axis=0) - estimate.theta) > 0.05


def test_it_costs_what_the_online_method_costs():
    p, t, calibrated = bound(module, n=400, d=2, options="every = 20, T_1 = 40")
    other, settings, theirs = bound(on_pair_c, n=400, d=2, options="every = 20, T_1 = 40")
    assert module.sensitivity(p, t) == on_pair_c.sensitivity(other, settings)
    assert calibrated.scale("gradients") == theirs.scale("gradients")
    assert calibrated.tree.mechanism.count == _stream.blocks(p, t).count


def test_it_does_not_release_as_records_arrive():
    draft = drafted(algorithm="off-pair-online-to-batch", online=", online")
    assert any("leave `online` out" in str(d.help) for d in draft.diagnostics if d.severity == "error")
    assert not [d for d in drafted(algorithm="on-pair-c", online=", online").diagnostics if d.severity == "error"]
