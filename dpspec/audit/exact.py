"""Exact audit of a local randomizer: the largest log-ratio over outputs and pairs of inputs, and delta at any epsilon.

A finite channel is a matrix of conditional probabilities; structured channels (unary encoding, subset selection, ...) are reduced to
the matrix of the outputs that can tell two inputs apart, so that a domain of any size costs nothing.
"""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from dpspec.audit.chains import chain, positions
from dpspec.audit.deployment import ChannelSpec, numeric
from dpspec.audit.events.laplace import vote_loss
from dpspec.audit.matrices import ExactResult, keep_of, matrix_privacy, need, refuse
from dpspec.audit.pairs import Array, Atoms, GaussianPair, LaplacePair, randomized_response
from dpspec.spec.diagnostics import Diagnostic, SpecError


def audit_exact(channel: ChannelSpec | Array | Sequence[Sequence[Any]]) -> ExactResult:
    """The exact privacy of a channel: a :class:`ChannelSpec`, or a matrix with one row an input and one column an output.

    Raises :class:`SpecError` (DP675) when rows are no probability distributions or parameters are missing or out of range.
    """
    if isinstance(channel, ChannelSpec):
        model = _MODELS.get(channel.kind)
        if model is None:
            raise refuse(f"no model for the channel {channel.fields.get('type', channel.kind)!r}")
        return model(channel)
    return matrix_privacy(channel)


def load_channel(text: str, name: str = "") -> ChannelSpec:
    """A channel from CSV (optionally with a header of outputs and a first column of inputs) or JSON (a matrix, or the YAML shape)."""
    stripped = text.lstrip()
    if stripped.startswith(("{", "[")):
        try:
            data = json.loads(text)
        except (ValueError, RecursionError) as error:
            why = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
            raise SpecError([Diagnostic("DP670", "error", f"this is not JSON: {why}")], path=name) from None
        if isinstance(data, list):
            return ChannelSpec("matrix", {"rows": data})
        body = data.get("channel", data)
        if not isinstance(body, dict) or "rows" not in body:
            raise refuse("a channel in JSON needs rows")
        return ChannelSpec("matrix", dict(body))
    try:
        table = [row for row in csv.reader(io.StringIO(text)) if any(cell.strip() for cell in row)]
    except csv.Error as error:
        raise SpecError([Diagnostic("DP670", "error", f"this is not comma-separated text: {error}")], path=name) from None
    if not table:
        raise refuse("the file is empty")

    def is_number(cell: str) -> bool:
        return isinstance(numeric(cell), (int, float))

    fields: dict[str, Any] = {}
    header = not all(is_number(c) for c in table[0][1:]) or (not is_number(table[0][0]) and len(table) > 1 and not table[0][0].strip())
    if header:
        fields["outputs"] = [c.strip() for c in table[0]]
        table = table[1:]

    def total(cells: Sequence[str]) -> float:
        values = [numeric(c) for c in cells]
        return sum(v for v in values if isinstance(v, (int, float)))

    # a first column of input names, which may be numbers: then the rest of every row sums to 1 and the whole row does not
    named = header and all(abs(total(row[1:]) - 1) < 1e-5 for row in table) and any(abs(total(row) - 1) >= 1e-5 for row in table)
    if table and (named or not all(is_number(row[0]) for row in table)):
        fields["inputs"] = [row[0].strip() for row in table]
        table = [row[1:] for row in table]
        if "outputs" in fields:
            fields["outputs"] = fields["outputs"][1:]
    fields["rows"] = [[c.strip() for c in row] for row in table]
    return ChannelSpec("matrix", fields)


# ----------------------------------------------------------------------------------------------------------- structured channels


def _matrix(c: ChannelSpec) -> ExactResult:
    rows = c.fields.get("rows")
    if not isinstance(rows, (list, tuple)):
        raise refuse("a channel matrix needs rows")
    pairs = c.fields.get("neighbours")
    chosen = None
    if pairs is not None:
        if not isinstance(pairs, (list, tuple)) or not all(_is_pair(x) for x in pairs):
            raise refuse("neighbours must be a list of pairs of row numbers", "count rows from 0, as in [[0, 1], [1, 2]]")
        chosen = [(int(a), int(b)) for a, b in pairs]
        met = {x for i, j in chosen if i != j for x in (i, j)}
        alone = next((i for i in range(len(rows)) if i not in met), None)
        if met and alone is not None:
            raise refuse(
                f"row {alone} is in no pair of neighbours, so it is compared with none", "list its neighbours, or leave the row out"
            )
    names = (c.fields.get("inputs"), c.fields.get("outputs"))
    if any(x is not None and not isinstance(x, (list, tuple)) for x in names):
        raise refuse("inputs and outputs must be lists of names")
    return matrix_privacy(rows, c.fields.get("inputs"), c.fields.get("outputs"), chosen)


def _is_pair(item: Any) -> bool:
    def whole(x: Any) -> bool:
        return isinstance(x, (int, float)) and not isinstance(x, bool) and math.isfinite(x) and x == int(x)

    return isinstance(item, (list, tuple)) and len(item) == 2 and all(whole(x) for x in item)


def _bits(c: ChannelSpec) -> tuple[float, float]:
    return need(c, "p_true_bit", "p", low=0, high=1), need(c, "q_other_bit", "q", low=0, high=1)


def _two_bits(p: float, q: float, times: int = 1) -> ExactResult:
    """Inputs whose encodings differ in ``times`` bits each way: outputs of the bits that differ, of one such pair of bits."""
    first = np.array([[p * q, p * (1 - q), (1 - p) * q, (1 - p) * (1 - q)], [q * p, q * (1 - p), (1 - q) * p, (1 - q) * (1 - p)]])
    one = matrix_privacy(first, ("first", "second"), ("11", "10", "01", "00"), how="the bits in which two encodings differ, exactly")
    if times == 1:
        return one
    rows = first
    for _ in range(times - 1):
        rows = np.stack([np.outer(rows[0], first[0]).ravel(), np.outer(rows[1], first[1]).ravel()])
    return matrix_privacy(rows, ("first", "second"), how=f"{2 * times} differing bits, exactly")


def _unary(c: ChannelSpec) -> ExactResult:
    p, q = _bits(c)
    return _two_bits(p, q, int(need(c, "hot_bits", low=1, high=5) if c.number("hot_bits") is not None else 1))


def _unary_subset(c: ChannelSpec) -> ExactResult:
    p, q = _bits(c)
    # the outputs that were sampled are the worst ones, so that the profile is one from above
    if need(c, "sampled_bits", low=1) >= 2:
        return replace(_two_bits(p, q), attained=False, under=None)
    how = "one sampled bit: at most one bit differs"
    one = matrix_privacy([[p, 1 - p], [q, 1 - q]], ("value", "another value"), ("1", "0"), how=how)
    return replace(one, attained=False, under=None)


def _response(c: ChannelSpec, word: str) -> ExactResult:
    k = int(need(c, word, low=2))
    keep = keep_of(c, k)
    other = (1 - keep) / (k - 1)
    rest = [max(1 - keep - other, 0.0)] if k > 2 else []
    names = ("value", "another value", "any other")[: 2 + len(rest)]
    found = matrix_privacy(
        [[keep, other, *rest], [other, keep, *rest]], ("value", "another value"), names, how=f"{k}-ary randomized response"
    )
    # a public hash may give two values the same bucket: exact without a delta, an upper bound with one
    return found if word == "categories" else replace(found, attained=False, under=None)


def _subset_selection(c: ChannelSpec) -> ExactResult:
    k, w = need(c, "categories", low=2), need(c, "size", low=1)
    if w >= k:
        raise refuse(f"a subset of {w:g} of {k:g} values tells nothing or everything")
    stated, epsilon = c.number("include"), c.number("epsilon")
    if stated is None and epsilon is None:
        raise refuse("channel subset_selection needs include or epsilon")
    found = [] if stated is None else [need(c, "include", low=0, high=1)]
    if epsilon is not None:
        found.append(w / (w + (k - w) * math.exp(-need(c, "epsilon", low=0))))
    include = max(found, key=lambda x: math.inf if x in (0.0, 1.0) else abs(math.log(x / (1 - x) * (k - w) / w)))
    # classes of outputs by membership of the two inputs; within a class all sets have equal probability
    both = include * (w - 1) / (k - 1)
    only_first, only_second = include - both, (1 - include) * w / (k - 1)
    none = 1 - both - only_first - only_second
    how = "a set's probability depends on membership of the value only"
    rows = [[both, only_first, only_second, none], [both, only_second, only_first, none]]
    return matrix_privacy(rows, ("first", "second"), ("both in", "first in", "second in", "none in"), how=how)


def _hadamard(c: ChannelSpec) -> ExactResult:
    keep = keep_of(c, 2)
    return matrix_privacy([[keep, 1 - keep], [1 - keep, keep]], ("+1", "-1"), ("+1", "-1"), how="one coefficient, sign flipped")


def _rappor(c: ChannelSpec) -> ExactResult:
    h, f = need(c, "hashes", low=1), need(c, "f", low=0, high=1)
    p, q = need(c, "p", low=0, high=1), need(c, "q", low=0, high=1)
    q_star, p_star = f / 2 * (p + q) + (1 - f) * q, f / 2 * (p + q) + (1 - f) * p
    long_run = math.inf if f == 0 else 2 * h * math.log((1 - f / 2) / (f / 2))
    top, low = q_star * (1 - p_star), p_star * (1 - q_star)
    one = 0.0 if top == low else math.inf if min(top, low) == 0 else h * abs(math.log(top / low))
    # all reports of one value show its 2h permanent bits in which two values differ: as many answers of randomized response
    bits = int(2 * h)
    from scipy.stats import binom

    agree = np.arange(bits + 1)
    p_all, q_all = binom.pmf(agree, bits, 1 - f / 2), binom.pmf(agree, bits, f / 2)
    pair = Atoms(tuple(p_all.tolist()), tuple(q_all.tolist()))

    def delta_at(e: float) -> float:
        return float(np.sum(np.maximum(p_all - math.exp(min(e, 709.0)) * q_all, 0.0)))

    how = "all reports of one value: 2h ln((1 - f/2)/(f/2)); one report: h ln(q*(1-p*)/(p*(1-q*)))"
    over = randomized_response(long_run) if 0 < long_run < 500 else None
    names = ("a value", "one with disjoint bits")
    return ExactResult(long_run, how, names, None, 1.0 if f == 0 else 0.0, delta_at, one, over=over, under=pair)


def _half_cube(c: ChannelSpec) -> ExactResult:
    d = int(need(c, "dimension", low=1, high=10_000))
    keep = keep_of(c, 2)
    ties = str(c.fields.get("ties", "both"))
    even = d % 2 == 0
    if not even or ties in ("none", "split"):
        # of v and -v; inputs that agree on some outputs differ on fewer
        how = "no output is orthogonal to an input"
        found = matrix_privacy([[keep, 1 - keep], [1 - keep, keep]], ("v", "-v"), ("y with y.v > 0", "y with y.v < 0"), how=how)
        return replace(found, attained=not even)  # how a split of ties is drawn is not described
    # every y.v >= 0 and every y.v <= 0 set has the same size, and both hold the y with y.v = 0, whose probability is keep + (1 - keep)
    low = min(keep, 1 - keep)
    eps = math.inf if low == 0 else math.log(1 / low)
    how = "even dimension: outputs orthogonal to the input lie in both half-cubes"
    over = randomized_response(eps) if 0 < eps < 500 else None
    return ExactResult(eps, how, ("v orthogonal to y", "v' with y.v' < 0"), "y with y.v = 0", 1.0 if low == 0 else 0.0, over=over)


def _laplace_channel(c: ChannelSpec) -> ExactResult:
    width = need(c, "range", low=0)
    scale, epsilon = c.number("scale"), c.number("epsilon")
    if scale is None and epsilon is None:
        raise refuse("channel laplace needs scale or epsilon")
    found = [] if epsilon is None else [need(c, "epsilon", low=0)]
    if scale is not None:
        found.append(0.0 if width == 0 else math.inf if need(c, "scale", low=0) == 0 else width / scale)
    eps = max(found)

    def delta_at(e: float) -> float:
        return max(0.0, -math.expm1((e - eps) / 2))

    pair = LaplacePair(eps) if 0 < eps < 500 else None
    ends, needed = ("lower end", "upper end"), 1.0 if math.isinf(eps) else 0.0
    return ExactResult(eps, "range over scale", ends, "any output beyond", needed, delta_at, over=pair, under=pair)


def _gaussian_channel(c: ChannelSpec) -> ExactResult:
    width, sigma = need(c, "range", low=0), need(c, "sigma", low=0)
    if width == 0:
        return ExactResult(0.0, "every input is the same", None, None, 0.0, lambda _: 0.0)
    if sigma == 0:
        return ExactResult(math.inf, "no noise", None, None, 1.0, lambda _: 1.0)
    from dpspec.privacy.gaussian import delta_upper

    mu = width / sigma
    pair = GaussianPair(mu)
    how = "Gaussian noise: no finite pure epsilon"
    return ExactResult(math.inf, how, None, None, 0.0, lambda e: delta_upper(e, mu), over=pair, under=pair)


def _vote(c: ChannelSpec) -> ExactResult:
    low, high = need(c, "low"), need(c, "high")
    top = c.number("sensitivity")
    scale, threshold = need(c, "scale", low=0), need(c, "threshold")
    if not low < high:
        raise refuse(f"vote: low {low:g} must lie below high {high:g}")
    if scale == 0:
        return ExactResult(math.inf, "no noise on the vote", None, None, 1.0, lambda _: 1.0)
    top = high - low if top is None else need(c, "sensitivity", low=0)
    if top == 0:
        return ExactResult(0.0, "no vote moves the count", None, None, 0.0, lambda _: 0.0)
    eps, pair = vote_loss(low, high, top, scale, threshold)
    found = matrix_privacy([list(pair.p), list(pair.q)], ("more votes", "fewer votes"), ("1", "0"), how="the bit alone is released")
    if top >= high - low:
        return replace(found, epsilon=eps)  # one pair of counts alone is as far apart
    return replace(found, epsilon=eps, delta_at=None)  # which counts show the most at a delta is not worked out


def _stated_epsilon(c: ChannelSpec) -> float:
    return need(c, "epsilon", low=0, high=500)


def _window(inside: float, outside: float, width: float, domain: float, how: str) -> ExactResult:
    """Densities ``inside`` a window of ``width`` that follows the input and ``outside`` of it, on outputs of length ``domain``: of two
    inputs as far apart as may be, whose windows share what cannot be helped."""
    alone = min(width, domain - width)  # of a window and not of the other one
    rest = (width - alone) * inside + (domain - width - alone) * outside
    rows = [[alone * inside, alone * outside, rest], [alone * outside, alone * inside, rest]]
    return matrix_privacy(rows, ("lower end", "upper end"), ("in the first window", "in the second window", "elsewhere"), how=how)


def _piecewise(c: ChannelSpec) -> ExactResult:
    """A number of [-1, 1] (Wang et al. 2019, "Collecting and analyzing multidimensional data with local differential privacy", III)."""
    eps = _stated_epsilon(c)
    if eps == 0:
        return matrix_privacy([[1.0], [1.0]], how="epsilon 0")
    root = math.exp(eps / 2)
    ends = 1 / math.tanh(eps / 4)  # (e^(eps/2) + 1)/(e^(eps/2) - 1), outputs in [-ends, ends]
    inside = root * math.expm1(eps / 2) / (2 * (root + 1))
    return _window(inside, inside * math.exp(-eps), ends - 1, 2 * ends, "the windows of -1 and 1 share no output")


def _square_wave(c: ChannelSpec) -> ExactResult:
    """A number of [0, 1], outputs in [-b, 1 + b] (Li et al. 2020, "Estimating numerical distributions under local differential privacy",
    section 5); ``width``: b, the one with the most information when it is not stated."""
    eps, stated = _stated_epsilon(c), c.number("width")
    if eps == 0:
        return matrix_privacy([[1.0], [1.0]], how="epsilon 0")
    e = math.exp(eps)
    b = (eps * e - e + 1) / (2 * e * (e - 1 - eps)) if stated is None else need(c, "width", low=0)
    if b == 0:
        return ExactResult(0.0, "a window without width shows nothing", None, None, 0.0, lambda _: 0.0)
    outside = 1 / (2 * b * e + 1)
    found = _window(e * outside, outside, 2 * b, 1 + 2 * b, "the windows of 0 and 1")
    return found


def _count_mean_sketch(c: ChannelSpec) -> ExactResult:
    """A public hash to one of m places, every place of the one-hot vector flipped on its own: with chance 1/(1 + e^(epsilon/2))
    (Apple 2017, "Learning with privacy at scale"). Values in one place are not told apart, so a profile is one from above."""
    keep = c.number("keep")
    if keep is None:
        keep = 1 / (1 + math.exp(-_stated_epsilon(c) / 2))
    else:
        keep = need(c, "keep", low=0, high=1)
    return replace(_two_bits(keep, 1 - keep), attained=False)


def _priv_unit(c: ChannelSpec) -> ExactResult:
    """A unit vector: with chance ``keep`` a uniform point of its cap {u: <u, x> >= gamma}, else one of the rest of the sphere (Bhowmick et
    al. 2018, "Protection against reconstruction and its applications in private federated learning", Algorithm 1)."""
    from scipy.special import betainc

    keep, gamma, d = need(c, "keep", low=0, high=1), need(c, "gamma", low=0, high=1), int(need(c, "dimension", low=2))
    cap = 0.5 * float(betainc((d - 1) / 2, 0.5, 1 - gamma * gamma))
    if cap == 0:
        return ExactResult(math.inf, "a cap without area", None, None, keep)
    other = (1 - keep) * cap / (1 - cap)
    rest = max(1 - keep - other, 0.0)
    how = "a vector and its opposite: caps that share nothing"
    return matrix_privacy([[keep, other, rest], [other, keep, rest]], ("x", "-x"), ("cap of x", "cap of -x", "rest"), how=how)


def _sampled_attribute(c: ChannelSpec) -> ExactResult:
    """One of d attributes of k values each, drawn at random, is reported by randomized response; with ``fakes`` the others are sent too,
    uniform, and which one is real is not shown. ``differs``: whether inputs differ in one attribute or in all of them; where all differ, an
    output that agrees with one input everywhere and with the other nowhere shows as much as the one report does."""
    from scipy.special import gammaln

    d, k = int(need(c, "attributes", low=1, high=200)), int(need(c, "categories", low=2))
    keep = keep_of(c, k)
    other, differs = (1 - keep) / (k - 1), c.fields.get("differs")
    if differs not in ("attribute", "record"):
        raise refuse("channel sampled_attribute needs differs: attribute or record")
    if not isinstance(c.fields.get("fakes"), bool):
        raise refuse("channel sampled_attribute needs fakes: true or false")
    if not c.fields["fakes"]:
        rest = [max(1 - keep - other, 0.0)] if k > 2 else []
        if differs == "attribute":
            rows = [[*(x / d for x in (keep, other, *rest)), 1 - 1 / d], [*(x / d for x in (other, keep, *rest)), 1 - 1 / d]]
        else:
            rows = [[keep, other, *rest], [other, keep, *rest]]
        return matrix_privacy(rows, ("first", "second"), how="the attribute that was drawn is shown")
    many = d if differs == "record" else 1
    rows, names = [[], []], []
    same = d - many
    for shared in range(same + 1):  # where the inputs agree: how many values of the output are theirs
        for first in range(many + 1):
            for second in range(many - first + 1):
                free = many - first - second
                if free and k == 2:
                    continue
                ways = gammaln(same + 1) - gammaln(shared + 1) - gammaln(same - shared + 1)
                ways += gammaln(many + 1) - gammaln(first + 1) - gammaln(second + 1) - gammaln(free + 1)
                ways += (same - shared) * math.log(k - 1) + (free * math.log(k - 2) if free else 0.0) - (d - 1) * math.log(k)
                for row, own in zip(rows, (first, second), strict=True):
                    hits = shared + own
                    row.append(math.exp(ways) * (hits * keep + (d - hits) * other) / d)
                names.append(f"{shared + first} of the first, {shared + second} of the second")
    return matrix_privacy(rows, ("first", "second"), names, how="outputs by how many values they share with either input")


def _cosine(c: ChannelSpec) -> ExactResult:
    """cos(pi j x) of a number x of [0, 1], j from 1 public: a bit that is 1 with probability (1 + (2 keep - 1) cos)/2, or Laplace noise.
    x = 0 and x = 1/j have the values 1 and -1, so that it shows as much as a number of [-1, 1]."""
    scale = c.number("scale")
    if scale is not None:
        return _laplace_channel(replace(c, fields={**c.fields, "range": 2.0}))
    keep = keep_of(c, 2)
    how = "a bit of a cosine: inputs where it is 1 and -1"
    return matrix_privacy([[keep, 1 - keep], [1 - keep, keep]], ("cosine 1", "cosine -1"), ("1", "0"), how=how)


_MODELS: Mapping[str, Callable[[ChannelSpec], ExactResult]] = {
    "matrix": _matrix,
    "unary": _unary,
    "unary_subset": _unary_subset,
    "randomized_response": lambda c: _response(c, "categories"),
    "local_hashing": lambda c: _response(c, "buckets"),
    "subset_selection": _subset_selection,
    "hadamard": _hadamard,
    "rappor": _rappor,
    "half_cube": _half_cube,
    "laplace": _laplace_channel,
    "gaussian": _gaussian_channel,
    "vote": _vote,
    "piecewise": _piecewise,
    "square_wave": _square_wave,
    "count_mean_sketch": _count_mean_sketch,
    "priv_unit": _priv_unit,
    "sampled_attribute": _sampled_attribute,
    "cosine": _cosine,
    "chain": chain,
    "positions": lambda c: positions(c, audit_exact),
}
