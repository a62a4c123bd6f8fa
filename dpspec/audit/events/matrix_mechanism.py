"""Correlated noise: a matrix mechanism, banded or not (DP-MF, BandMF, BLT, DP-FTRL by factorisation)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dpspec.audit.component import Component, Context, Missing, assuming
from dpspec.audit.event import Event
from dpspec.audit.events._additive import gaussian_shifts
from dpspec.audit.events._linear import PART, release, times
from dpspec.audit.events._patterns import encoder, toeplitz
from dpspec.audit.kinds import L2, Kind

KIND = Kind(
    "Gaussian noise on C x, x the sums of the steps (a matrix mechanism)",
    (*L2, "sigma", "noise_multiplier", "variance", "coefficients", "encoder", "steps", "pattern", *PART),
    (("sigma", "noise_multiplier", "variance"), ("coefficients", "encoder")),
    noise="gaussian",
    aliases=("matrix_factorization", "matrix_factorisation", "dp_mf", "banded_matrix", "bandmf", "correlated_noise"),
    attained="a unit that takes part at one pattern of steps, always in the same direction",
)
EXAMPLE = {
    "type": "matrix_mechanism",
    "clip_norm": 1,
    "sigma": 4,
    "coefficients": [1, 0.5, 0.375, 0.3125],
    "steps": 100,
    "participations": 3,
    "separation": 10,
}
RELATION = "zero_out"
_MOST_COEFFICIENTS, _MOST_STEPS, _MOST_TIMES = 1_000_000, 400, 100


def model(event: Event, context: Context) -> list[Component]:
    """``coefficients``: the first column of a lower triangular Toeplitz C, over ``steps`` steps; ``encoder``: C itself, row by row.
    ``pattern: fixed``: a unit comes back after exactly ``separation`` steps (batches in one order, epoch by epoch), else after at least so
    many."""
    (k, separation), fixed = times(event), event.fields.get("pattern") == "fixed"
    column, rows = event.fields.get("coefficients"), event.fields.get("encoder")
    if column is not None and rows is not None:
        raise Missing("one of coefficients and encoder, not both")
    if column is not None:
        steps = event.number("steps")
        if steps is None:
            raise Missing("steps")
        if len(column) > _MOST_COEFFICIENTS or k > 10_000:
            return [Component(event.what, unknown=f"{event.what}: more than {_MOST_COEFFICIENTS} coefficients or 10000 times", how="DP673")]
        return release(event, context, toeplitz(column, int(steps), k, separation, fixed))
    if not isinstance(rows, Sequence):
        raise Missing("coefficients (or encoder)")
    if len(rows) > 10 * _MOST_STEPS or len(rows[0]) > _MOST_STEPS or k > _MOST_TIMES:
        why = f"{event.what}: an encoder of more than {_MOST_STEPS} steps or {_MOST_TIMES} times; give its coefficients"
        return [Component(event.what, unknown=why, how="DP673")]
    found = release(event, context, encoder(rows, k, separation, fixed))
    if not _looks_back(rows):
        return assuming(found, f"no step of {event.what} depends on what was released before (its encoder is not lower triangular)")
    return found


def _looks_back(rows: Sequence[Sequence[Any]]) -> bool:
    return all(value == 0 for i, row in enumerate(rows) for value in row[i + 1 :])


def stated(event: Event, context: Context) -> Mapping[str, Mapping[str, float]]:
    return {"noise (as mu of a step)": gaussian_shifts(event, context)}
