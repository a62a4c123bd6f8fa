"""Outputs of a mechanism as a matrix of floats: shape (runs, width).

Strings and other labels become codes, missing and infinite entries indicator columns, outputs of unequal length are padded. The coding is
fitted on the training part only: what the held-out part contains cannot influence the event it is used to test."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dpspec.audit.empirical.diagnose import unusable

Floats = npt.NDArray[np.float64]
_HUGE = 1e100


@dataclass(frozen=True, slots=True)
class Coding:
    """``labels[j]``: the known labels of column j (None for a column of numbers); ``holes``: whether non-finite entries occurred in
    training."""

    labels: tuple[tuple[str, ...] | None, ...]
    holes: bool


def as_matrix(samples: Any) -> npt.NDArray[Any]:
    """A two-dimensional array: n outputs of one shape, n scalars, or a list of outputs of unequal length (padded with NaN, length in
    front)."""
    if isinstance(samples, np.ndarray) and samples.dtype != object:
        array: npt.NDArray[Any] = samples
    else:
        try:
            array = np.asarray(samples)
        except ValueError:
            array = _pad(samples)
        if array.dtype == object and array.ndim == 1 and len(array) and isinstance(array[0], np.ndarray | list | tuple):
            array = _pad(list(array))
    if array.ndim == 0:
        array = array.reshape(1, 1)
    array = array.reshape(len(array), -1) if array.size else array.reshape(len(array), 1 if array.ndim == 1 else -1)
    if np.iscomplexobj(array):
        array = np.concatenate([array.real, array.imag], axis=1)
    return array


def _pad(samples: Sequence[Any]) -> npt.NDArray[Any]:
    rows = [np.asarray(s, dtype=float).ravel() for s in samples]
    width = max((len(r) for r in rows), default=0)
    out = np.full((len(rows), width + 1), np.nan)
    for i, row in enumerate(rows):
        out[i, 0] = len(row)
        out[i, 1 : len(row) + 1] = row
    return out


def check_pair(a: npt.NDArray[Any], b: npt.NDArray[Any], *, least: int = 40) -> None:
    """Raises SpecError (DP653) unless both are usable and of one width."""
    if min(len(a), len(b)) < least:
        raise unusable(f"{len(a)} and {len(b)} outputs: at least {least} runs on each input are needed")
    if a.shape[1] != b.shape[1]:
        raise unusable(f"the outputs have {a.shape[1]} and {b.shape[1]} columns")
    if a.shape[1] == 0:
        raise unusable("the outputs are empty")


def fit_coding(a: npt.NDArray[Any], b: npt.NDArray[Any]) -> Coding:
    labels: list[tuple[str, ...] | None] = []
    holes = False
    for j in range(a.shape[1]):
        both = np.concatenate([a[:, j], b[:, j]]) if a.dtype == b.dtype else np.array([*a[:, j], *b[:, j]], dtype=object)
        numbers = _numbers(both)
        if numbers is None:
            labels.append(tuple(sorted({str(v) for v in both})[:4096]))
        else:
            labels.append(None)
            holes = holes or not bool(np.all(np.isfinite(numbers)))
    return Coding(tuple(labels), holes)


def _numbers(column: npt.NDArray[Any]) -> Floats | None:
    try:
        return np.asarray(column.astype(float), dtype=float)
    except (TypeError, ValueError):
        return None


def encode(coding: Coding, x: npt.NDArray[Any]) -> Floats:
    """Finite floats, shape (n, width), or (n, 3 width) when training saw holes: values, then 'is not a number', then the sign of an
    infinity."""
    columns: list[Floats] = []
    for j, known in enumerate(coding.labels):
        if known is None:
            numbers = _numbers(x[:, j])
            columns.append(np.array([_float(v) for v in x[:, j]]) if numbers is None else numbers)
        else:
            code = {v: float(i) for i, v in enumerate(known)}
            columns.append(np.array([code.get(str(v), -1.0) for v in x[:, j]]))
    raw = np.stack(columns, axis=1)
    finite = np.clip(np.nan_to_num(raw, nan=0.0, posinf=0.0, neginf=0.0), -_HUGE, _HUGE)
    if not coding.holes:
        return finite
    return np.concatenate([finite, np.isnan(raw).astype(float), np.where(np.isinf(raw), np.sign(raw), 0.0)], axis=1)


def _float(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        return float("nan")


def read_samples(path: str | Path) -> npt.NDArray[Any]:
    """Samples from ``.npy`` (no pickles) or CSV, one output a row; a first row that holds no number beside a numeric body is a header."""
    path = Path(path)
    try:
        if path.suffix == ".npy":
            return as_matrix(np.load(path, allow_pickle=False))
        with path.open(newline="", encoding="utf-8") as handle:
            rows = [r for r in csv.reader(handle) if r]
    except (OSError, ValueError, UnicodeDecodeError) as e:
        raise unusable(f"cannot read samples from {path}: {e}") from e
    if not rows:
        raise unusable(f"{path} holds no samples")
    if len({len(r) for r in rows}) != 1:
        raise unusable(f"{path}: rows of different length")
    table = np.array(rows, dtype=str)
    header = _numbers(table[0]) is None and len(table) > 1 and _numbers(table[1]) is not None
    body = table[1:] if header else table
    numbers = _numbers(body.ravel())
    return body.astype(object) if numbers is None else numbers.reshape(body.shape)


def write_samples(path: str | Path, x: npt.NDArray[Any]) -> None:
    """One row a record, 17 significant digits: a float survives the round trip."""
    path = Path(path)
    if path.suffix == ".npy":
        np.save(path, x, allow_pickle=False)
    else:
        two = x.reshape(len(x), -1) if x.size else x.reshape(0, 1)
        np.savetxt(path, two, delimiter=",", fmt="%.17g" if np.issubdtype(two.dtype, np.floating) else "%s")
