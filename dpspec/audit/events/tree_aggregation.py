"""Noisy sums over the nodes of a binary tree: prefix sums, DP-FTRL."""

from __future__ import annotations

import math
from collections.abc import Mapping

from dpspec.audit.component import Component, Context, Missing
from dpspec.audit.event import Event
from dpspec.audit.events._additive import gaussian_shifts
from dpspec.audit.events._linear import PART, release, times
from dpspec.audit.events._patterns import tree
from dpspec.audit.kinds import L2, Kind

KIND = Kind(
    "Gaussian noise on every node of a binary tree over the steps",
    (*L2, "sigma", "noise_multiplier", "variance", "steps", "levels", "restarts", *PART),
    (("sigma", "noise_multiplier", "variance"), ("steps", "levels")),
    noise="gaussian",
    aliases=("binary_tree", "dp_ftrl", "ftrl", "continual_counting"),
    attained="a unit in the first step of each of its times, every node that holds it moved by the sensitivity",
)
EXAMPLE = {"type": "tree_aggregation", "clip_norm": 1, "sigma": 20, "steps": 1024, "participations": 1, "restarts": 2}
RELATION = "zero_out"


def model(event: Event, context: Context) -> list[Component]:
    """``restarts``: how many trees were built one after another, a unit taking part in each of them. ``levels``: nodes from a leaf to the
    root."""
    trees, levels, steps = int(event.number("restarts") or 1), event.number("levels"), event.number("steps")
    k, separation = times(event)
    if steps is None:
        if levels is None or k > 1:
            raise Missing("steps")
        return release(event, context, (levels, levels), trees)
    low, high = tree(int(steps), k, separation)
    if levels is not None:
        if k > 1:
            raise Missing("steps alone (levels are for a unit that takes part once)")
        high = max(high, levels)
        low = min(low, levels)
    return release(event, context, (low, high), trees)


def stated(event: Event, context: Context) -> Mapping[str, Mapping[str, float]]:
    found: dict[str, Mapping[str, float]] = {"noise (as mu of a node)": gaussian_shifts(event, context)}
    steps, levels = event.number("steps"), event.number("levels")
    if steps is not None and levels is not None:
        found["nodes from a leaf to the root"] = {"steps": math.ceil(math.log2(steps)) + 1, "levels": levels}
    return found
