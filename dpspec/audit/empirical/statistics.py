"""Scores: functions of one output whose threshold events may tell two neighbouring inputs apart.

A :class:`Statistic` is fitted on training outputs of both inputs (shape (n, width) each) and gives a score, (n, width) -> (n,). Fixed
ones ignore the training data; learned ones estimate a log likelihood ratio. Any score is valid; they differ in power only."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Score = Callable[[Floats], Floats]
Fit = Callable[[Floats, Floats], Score | None]

_FIT_ROWS = 6000  # rows a side that the regressions and the trees see


@dataclass(frozen=True, slots=True)
class Statistic:
    """``fit`` returns None where the statistic does not apply (a sum of one column). ``learned``: judge it on other rows than it was
    fitted on."""

    name: str
    fit: Fit
    learned: bool = False
    handicap: float = 0.0


AUTO = ("coordinates", "summaries", "positions", "atoms", "histogram", "grid", "linear", "regression")
FAMILIES = (*AUTO, "boosting", "digits")  # digits: opt in, it refutes every textbook mechanism on floats, and rightly


def candidates(families: Iterable[str], a: Floats, b: Floats) -> list[Statistic]:
    """The statistics of the named families that make sense for training outputs ``a`` and ``b``. ValueError for an unknown family."""
    chosen = tuple(families)
    unknown = sorted(set(chosen) - set(FAMILIES))
    if unknown:
        raise ValueError(f"unknown statistics {unknown}; known: {', '.join(FAMILIES)}")
    width = a.shape[1]
    columns = _liveliest(a, b, 12)
    out: list[Statistic] = []
    if "coordinates" in chosen:
        out += [Statistic(f"coordinate {j}", _column(j)) for j in columns]
    if "summaries" in chosen and width > 1:
        out += [Statistic(name, _fixed(f)) for name, f in _SUMMARIES]
    if "positions" in chosen and width > 1:
        out += _positions(a, b)
    if "atoms" in chosen:
        out.append(Statistic("exact outputs", _fit_atoms, learned=True))
        if width > 1:
            out.append(Statistic("pattern of exact values and the sum of the others", _fit_pattern, learned=True))
            out += [Statistic(f"exact values of coordinate {j}", _on_column(j, _fit_atoms), learned=True) for j in columns[:6]]
    if "histogram" in chosen:
        out += [Statistic(f"histogram of coordinate {j}", _on_column(j, _fit_histogram), learned=True, handicap=1.0) for j in columns[:6]]
        if width > 1:
            out += [
                Statistic(f"histogram of the {n}", _on_summary(f, _fit_histogram), learned=True, handicap=1.0)
                for n, f in _SUMMARIES
                if n in {"maximum", "norm"}
            ]
    if "digits" in chosen:
        out += [Statistic(f"fine digits of coordinate {j}", _on_column(j, _fit_digits), learned=True) for j in columns[:4]]
    if "grid" in chosen and 1 < width <= 8:
        out.append(Statistic("grid of all coordinates", _fit_grid, learned=True))
    if "linear" in chosen and width > 1:
        out.append(Statistic("linear discriminant", fit_linear, learned=True))
        out.append(Statistic("histogram of the linear discriminant", _fit_linear_histogram, learned=True, handicap=1.0))
    if "regression" in chosen and 1 < width <= 64:
        out.append(Statistic("logistic regression", _fit_regression, learned=True))
    if "boosting" in chosen:
        out.append(Statistic("gradient boosting", _fit_boosting, learned=True))
    return out


# ---- fixed scores ---------------------------------------------------------------------------------------------------------------------


def _second(x: Floats) -> Floats:
    part: Floats = np.partition(x, -2, axis=1)
    return np.asarray(part[:, -1] - part[:, -2], dtype=float)


_SUMMARIES: tuple[tuple[str, Score], ...] = (
    ("sum", lambda x: x.sum(axis=1)),
    ("maximum", lambda x: x.max(axis=1)),
    ("minimum", lambda x: x.min(axis=1)),
    ("norm", lambda x: np.sqrt((x * x).sum(axis=1))),
    ("gap of the two largest", _second),
    ("index of the maximum", lambda x: x.argmax(axis=1).astype(float)),
    ("index of the minimum", lambda x: x.argmin(axis=1).astype(float)),
)


def _fixed(f: Score) -> Fit:
    return lambda a, b: f


def _column(j: int) -> Fit:
    return lambda a, b: lambda x: x[:, j]


def _liveliest(a: Floats, b: Floats, most: int) -> list[int]:
    """The columns that differ most between the two sides in location or spread, at most ``most``."""
    if a.shape[1] <= most:
        return list(range(a.shape[1]))
    location = np.abs(a.mean(0) - b.mean(0)) / np.sqrt(a.var(0) / len(a) + b.var(0) / len(b) + 1e-300)
    spread = np.abs(np.log((a.std(0) + 1e-12) / (b.std(0) + 1e-12))) * np.sqrt(len(a) / 2)
    return [int(j) for j in np.argsort(-np.maximum(location, spread))[:most]]


def _positions(a: Floats, b: Floats) -> list[Statistic]:
    """For outputs over few values (sparse vector answers): how often and where first a value occurs."""
    values = np.unique(np.concatenate([a[:500], b[:500]]))
    if len(values) > 6:
        return []
    out: list[Statistic] = []
    for v in values:
        out.append(Statistic(f"count of {v:g}", _fixed(_count_of(float(v))), learned=False))
        out.append(Statistic(f"first position of {v:g}", _fixed(_first_of(float(v))), learned=False))
    return out


def _count_of(v: float) -> Score:
    return lambda x: np.asarray((x == v).sum(axis=1), dtype=float)


def _first_of(v: float) -> Score:
    def score(x: Floats) -> Floats:
        hit = x == v
        return np.asarray(np.where(hit.any(axis=1), hit.argmax(axis=1), x.shape[1]), dtype=float)

    return score


# ---- learned scores -------------------------------------------------------------------------------------------------------------------


def _on_column(j: int, fit: Fit) -> Fit:
    def on(a: Floats, b: Floats) -> Score | None:
        inner = fit(a[:, [j]], b[:, [j]])
        return None if inner is None else lambda x: inner(x[:, [j]])

    return on


def _on_summary(f: Score, fit: Fit) -> Fit:
    def on(a: Floats, b: Floats) -> Score | None:
        inner = fit(f(a)[:, None], f(b)[:, None])
        return None if inner is None else lambda x: inner(f(x)[:, None])

    return on


def _keys(x: Floats) -> npt.NDArray[np.uint64]:
    """One 64-bit key a row; -0.0 counts as 0.0."""
    bits = np.ascontiguousarray(x + 0.0).view(np.uint64)
    key = np.zeros(len(x), dtype=np.uint64)
    for j in range(x.shape[1]):
        key = (key ^ bits[:, j]) * np.uint64(0x9E3779B97F4A7C15)
        key ^= key >> np.uint64(29)
    return key


def _ratio_table(ka: npt.NDArray[Any], kb: npt.NDArray[Any], least: int) -> Callable[[npt.NDArray[Any]], Floats] | None:
    """Log ratio of the frequencies of each key that occurs at least ``least`` times; all other keys share one cell."""
    keys, inverse = np.unique(np.concatenate([ka, kb]), return_inverse=True)
    ca = np.bincount(inverse[: len(ka)], minlength=len(keys)).astype(float)
    cb = np.bincount(inverse[len(ka) :], minlength=len(keys)).astype(float)
    keep = ca + cb >= least
    if not keep.any():
        return None
    known, xa, xb = keys[keep], ca[keep], cb[keep]
    rest = _log_ratio(np.array([len(ka) - xa.sum()]), np.array([len(kb) - xb.sum()]), len(ka), len(kb))[0]
    value = _log_ratio(xa, xb, len(ka), len(kb))

    def score(k: npt.NDArray[Any]) -> Floats:
        at = np.clip(np.searchsorted(known, k), 0, len(known) - 1)
        return np.where(known[at] == k, value[at], rest)

    return score


def _log_ratio(ca: Floats, cb: Floats, na: int, nb: int) -> Floats:
    return np.asarray(np.log((ca + 1.0) / (na + 2.0)) - np.log((cb + 1.0) / (nb + 2.0)), dtype=float)


def _fit_atoms(a: Floats, b: Floats) -> Score | None:
    table = _ratio_table(_keys(a), _keys(b), least=6)
    return None if table is None else lambda x: table(_keys(x))


def _fit_pattern(a: Floats, b: Floats) -> Score | None:
    """For outputs that mix a few exact values with real ones (0 below, a noisy answer above): which entries are exact and to what value,
    and in which of ten cells the sum of the others lies. None unless both kinds occur."""
    both = np.concatenate([a, b])
    values, times = np.unique(both, return_counts=True)
    atoms = values[times >= max(10, 0.002 * both.size)]
    if not 0 < len(atoms) <= 16:
        return None

    def split(x: Floats) -> tuple[npt.NDArray[np.uint64], Floats]:
        at = np.clip(np.searchsorted(atoms, x), 0, len(atoms) - 1)
        exact = atoms[at] == x
        return _keys(np.where(exact, at + 1.0, 0.0)), np.where(exact, 0.0, x).sum(axis=1)

    _, rest = split(both)
    if not np.any(rest):
        return None
    edges = np.unique(np.quantile(rest[rest != 0], np.arange(1, 10) / 10))

    def key(x: Floats) -> npt.NDArray[np.uint64]:
        pattern, remainder = split(x)
        cell = np.searchsorted(edges, remainder, side="right").astype(np.uint64)
        return pattern ^ (cell * np.uint64(0xBF58476D1CE4E5B9))

    table = _ratio_table(key(a), key(b), least=6)
    return None if table is None else lambda x: table(key(x))


def _fit_histogram(a: Floats, b: Floats) -> Score | None:
    """Equal-mass cells of the pooled outputs with finer cells in the tails."""
    pooled = np.sort(np.concatenate([a[:, 0], b[:, 0]]))
    cells = int(np.clip(len(pooled) // 120, 8, 80))
    tail = np.array([0.0005, 0.001, 0.0025, 0.005])
    levels = np.concatenate([tail, np.arange(1, cells) / cells, 1 - tail])
    edges = np.unique(pooled[np.clip((levels * len(pooled)).astype(int), 0, len(pooled) - 1)])
    if len(edges) < 3:
        return None
    table = _ratio_table(np.searchsorted(edges, a[:, 0], side="right"), np.searchsorted(edges, b[:, 0], side="right"), least=1)
    return None if table is None else lambda x: table(np.searchsorted(edges, x[:, 0], side="right"))


def _fit_digits(a: Floats, b: Floats) -> Score | None:
    """Trailing zero bits of the significand: a grid that moves with the data shows here (Mironov 2012). None for whole numbers."""
    if np.all(a[:200] == np.round(a[:200])):
        return None
    table = _ratio_table(_trailing(a[:, 0]), _trailing(b[:, 0]), least=6)
    return None if table is None else lambda x: table(_trailing(x[:, 0]))


def _trailing(x: Floats) -> npt.NDArray[np.int64]:
    significand, exponent = np.frexp(x)
    whole = np.abs(significand * 2.0**53).astype(np.int64)
    low = whole & -whole
    zeros = np.where(whole > 0, np.round(np.log2(np.maximum(low, 1))), 53.0).astype(np.int64)
    return np.asarray(zeros * 4096 + np.clip(exponent + 1024, 0, 4095), dtype=np.int64)


def _fit_grid(a: Floats, b: Floats) -> Score | None:
    """Cells of the product of per-coordinate cells, so that about 25 rows fall into each."""
    both = np.concatenate([a, b])
    width = both.shape[1]
    levels = max(2, int((len(both) / 25) ** (1 / width)))
    edges: list[Floats] = []
    for j in range(width):
        values = np.unique(both[:, j])
        cut = values[1:] if len(values) <= levels + 1 else np.unique(np.quantile(both[:, j], np.arange(1, levels) / levels))
        edges.append(cut)

    def cell(x: Floats) -> npt.NDArray[np.int64]:
        code = np.zeros(len(x), dtype=np.int64)
        for j, cut in enumerate(edges):
            code = code * (len(cut) + 1) + np.searchsorted(cut, x[:, j], side="right")
        return code

    table = _ratio_table(cell(a), cell(b), least=4)
    return None if table is None else lambda x: table(cell(x))


def fit_linear(a: Floats, b: Floats) -> Score | None:
    """The direction pooled-covariance^-1 (mean_a - mean_b), with a ridge that grows as rows become scarce. Scaled to a log likelihood ratio
    of two Gaussians with one covariance."""
    width, rows = a.shape[1], len(a) + len(b)
    middle, half = np.concatenate([a, b]).mean(0), (a.mean(0) - b.mean(0))
    scale = np.sqrt((a.var(0) + b.var(0)) / 2)
    scale = np.where(scale > 0, scale, 1.0)
    ua, ub = (a - a.mean(0)) / scale, (b - b.mean(0)) / scale
    if width <= 400:
        cov = (ua.T @ ua + ub.T @ ub) / rows
        shrink = min(1.0, width / rows)
        cov = (1 - shrink) * cov + (shrink + 1e-9) * np.eye(width)
        direction = np.linalg.solve(cov, half / scale) / scale
    else:
        direction = half / scale**2
    if not np.all(np.isfinite(direction)) or not np.any(direction):
        return None
    return lambda x: np.asarray((x - middle) @ direction, dtype=float)


def _fit_linear_histogram(a: Floats, b: Floats) -> Score | None:
    linear = fit_linear(a, b)
    if linear is None:
        return None
    histogram = _fit_histogram(linear(a)[:, None], linear(b)[:, None])
    return None if histogram is None else lambda x: histogram(linear(x)[:, None])


def _thin(x: Floats) -> Floats:
    return x[:: max(1, len(x) // _FIT_ROWS)][:_FIT_ROWS]


def _features(both: Floats) -> Callable[[Floats], Floats]:
    """Standardised columns, squares, absolute values, products of pairs when few, indicators of each value of a column of few values."""
    width = both.shape[1]
    middle, scale = np.median(both, axis=0), both.std(axis=0)
    scale = np.where(scale > 0, scale, 1.0)
    codes = [(j, v) for j in range(width) for v in _few(both[:, j])]
    pairs = [(i, j) for i in range(width) for j in range(i)] if width <= 8 else []

    def features(x: Floats) -> Floats:
        u = np.clip((x - middle) / scale, -6, 6)
        parts = [u]
        if width <= 20:
            parts += [u * u - 1, np.abs(u)]
        if pairs:
            parts.append(np.stack([u[:, i] * u[:, j] for i, j in pairs], axis=1))
        if codes:
            parts.append(np.stack([(x[:, j] == v).astype(float) for j, v in codes], axis=1))
        return np.concatenate([*parts, np.ones((len(x), 1))], axis=1)

    return features


def _few(column: Floats) -> list[float]:
    values = np.unique(column)
    return [float(v) for v in values] if 2 < len(values) <= 6 else []


def _fit_regression(a: Floats, b: Floats) -> Score | None:
    """Ridge logistic regression by Newton's method on :func:`_features`."""
    a, b = _thin(a), _thin(b)
    features = _features(np.concatenate([a, b]))
    x = features(np.concatenate([a, b]))
    y = np.concatenate([np.ones(len(a)), np.zeros(len(b))])
    w = np.zeros(x.shape[1])
    ridge = np.full(x.shape[1], 3.0)
    for _ in range(8):
        p = 1 / (1 + np.exp(-np.clip(x @ w, -30, 30)))
        hessian = (x * (p * (1 - p))[:, None]).T @ x + np.diag(ridge)
        step = np.linalg.solve(hessian, x.T @ (y - p) - ridge * w)
        w = w + np.clip(step, -5, 5)
        if np.max(np.abs(step)) < 1e-3:
            break
    return lambda z: np.asarray(features(z) @ w, dtype=float)


def _fit_boosting(a: Floats, b: Floats) -> Score | None:
    from sklearn.ensemble import HistGradientBoostingClassifier

    a, b = _thin(a), _thin(b)
    model: Any = HistGradientBoostingClassifier(
        max_iter=60, max_leaf_nodes=12, min_samples_leaf=25, learning_rate=0.1, early_stopping=False, random_state=0
    )
    model.fit(np.concatenate([a, b]), np.concatenate([np.ones(len(a)), np.zeros(len(b))]))
    return lambda x: np.asarray(model.decision_function(x), dtype=float)
