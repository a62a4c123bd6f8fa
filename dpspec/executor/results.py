"""What a record hands over: a table with the names of what was released, and predictions that treat records as the run did.

A record keeps the text of its spec (public, as the plan is). Names of columns and levels, the encoding and the rules of enforcement
follow from that text alone; nothing here reads the records of the run.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dpspec.data.problems import fail, integer
from dpspec.data.sources import known_values, load, load_public
from dpspec.spec.expr import evaluate, is_network
from dpspec.spec.model import Analysis, Data, EstimateTheta, MemorySource, Minimise

#: The columns of a table of results, in this order; the last five where a release states them.
CARRIED = ("standard_error", "low", "high", "rank_error", "rank_within")
ENDINGS = (".csv", ".json", ".parquet")


def analysis_of(body: Mapping[str, Any]) -> Analysis:
    """The spec that a record was made from. Raises SpecError (DP513) for a record without its text."""
    from dpspec.lang.source import parse_text

    text = (body.get("spec") or {}).get("text")
    if not isinstance(text, str):
        fail("DP513", "the record holds no spec, so neither names nor encodings are known", "run again with this version of dpspec")
    return parse_text(text, surface="dps").analysis


def columns(data: Data) -> tuple[str, ...] | None:
    """The names of the encoded columns of x, as :attr:`dpspec.data.sources.Raw.columns` has them, from the spec alone; None where it does
    not list the columns."""
    listed = getattr(data.source, "columns", ())
    if not listed:
        return None
    env, encodings, names = known_values(data), {e.column: e for e in data.encode}, []
    for name in listed:
        e = encodings.get(name)
        if name == getattr(data.source, "target", None):
            continue
        if e is not None and e.how == "levels":
            names += [f"{name}={word}" for word in e.levels]
        elif e is not None and e.how == "one-hot":
            names += [f"{name}={j}" for j in range(integer(e.args[0], env, f"one-hot of {name!r}", "DP514"))]
        else:
            names.append(name)
    return (*names, *(("intercept",) if data.intercept else ()))


# ------------------------------------------------------------------------------------------------------------------- tables


def rows(body: Mapping[str, Any], outputs: Mapping[str, Mapping[str, Any]]) -> list[dict[str, Any]]:
    """A row for each released number: ``release``, ``what`` (its name), ``value``, and what is known of its noise.

    Coefficients are named by column and level, entries of a matrix by two names, anything else by its array and place."""
    known = columns(analysis_of(body).data) if body.get("spec") else None
    return [{"release": release, **row} for release, arrays in outputs.items() for row in _rows(arrays, known)]


def _rows(arrays: Mapping[str, Any], known: tuple[str, ...] | None) -> Iterator[dict[str, Any]]:
    main = "value" if "name" in arrays else "theta" if "theta" in arrays else next(iter(arrays), None)
    if main is None:
        return
    value = np.asarray(arrays[main])
    told = {word: np.asarray(arrays[word]) for word in CARRIED if word in arrays and np.shape(arrays[word]) == value.shape}
    names = [str(name) for name in arrays["name"]] if main == "value" else _names(main, value.shape, known)
    for place, name in zip(np.ndindex(value.shape), names, strict=True):
        yield {"what": name, "value": value[place].item(), **{word: float(of[place]) for word, of in told.items()}}
    for word, array in arrays.items():
        if word in (main, "name", *told):
            continue
        other = np.asarray(array)
        for place, name in zip(np.ndindex(other.shape), _names(word, other.shape, None), strict=True):
            yield {"what": name, "value": other[place].item()}


def _names(array: str, shape: tuple[int, ...], known: tuple[str, ...] | None) -> list[str]:
    """``known``: the columns of x, where the axes of that length are theirs."""
    axes = [known if known is not None and len(known) == size else None for size in shape]
    if not any(axes):
        return [array if not shape else f"{array}[{', '.join(map(str, place))}]" for place in np.ndindex(shape)]
    return [", ".join(str(i) if names is None else names[i] for i, names in zip(place, axes, strict=True)) for place in np.ndindex(shape)]


def header(table: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """The columns of a table: those of the noise only where some row has them."""
    return ("release", "what", "value", *(word for word in CARRIED if any(word in row for row in table)))


def write(table: Sequence[Mapping[str, Any]], file: Path) -> Path:
    """The table as CSV, JSON (a list of objects) or Parquet, by the ending of ``file``, which appears whole or not at all. Raises
    ValueError for another ending."""
    ending = file.suffix.lower()
    if ending not in ENDINGS:
        raise ValueError(f"{file.name}: a table is written as {', '.join(ENDINGS)}, by the ending of the file")
    partial, names = file.with_name(file.name + ".partial"), header(table)
    if ending == ".parquet":
        import pyarrow as pa
        import pyarrow.parquet as pq

        held = {name: [row.get(name) for row in table] for name in names}
        values: list[Any] = [row["value"] for row in table]
        held["value"] = [str(v) for v in values] if any(isinstance(v, str) for v in values) else [float(v) for v in values]
        pq.write_table(pa.table(held), partial)
    elif ending == ".csv":
        import csv

        with partial.open("w", newline="", encoding="utf-8") as out:
            writer = csv.DictWriter(out, names, restval="")
            writer.writeheader()
            writer.writerows(table)
    else:
        plain = [{k: v if not isinstance(v, float) or math.isfinite(v) else None for k, v in row.items()} for row in table]
        partial.write_text(json.dumps(plain, indent=2) + "\n", encoding="utf-8")
    partial.replace(file)
    return file


# -------------------------------------------------------------------------------------------------------------- predictions


def encode(body: Mapping[str, Any], x: Any) -> Any:
    """Records as the run's algorithm saw its own: encoded and enforced, (rows, d). ``x``: a file, or what ``run`` takes. The records
    count as public: a value that the spec does not know is refused with its row and cell. Raises SpecError (DP5xx)."""
    from dpspec.data.enforce import enforce
    from dpspec.data.records import Records

    data = analysis_of(body).data
    env = known_values(data)
    source = data.source
    target = getattr(source, "target", None)
    features = tuple(c for c in getattr(source, "columns", ()) if c != target)
    public = data.model_copy(update={"status": "public", "n": None, "domains": tuple(d for d in data.domains if d.variable == "x")})
    encodings = tuple(e for e in data.encode if e.column != target)
    if isinstance(x, (str, Path)):
        matrix = load_public(x, public.model_copy(update={"encode": encodings}), columns=features, values=env, counted=False)
    else:
        held = public.model_copy(update={"source": MemorySource(columns=features), "encode": encodings})
        matrix = load(held, memory=x, values=env, counted=False).records.x
    enforced, _ = enforce(Records(matrix), public, {k: v for k, v in env.items() if k not in ("n", "d")})
    return enforced.x


def predictor(body: Mapping[str, Any], release: str | None = None) -> tuple[str, Minimise | EstimateTheta]:
    """The release that predicts: a loss of one record, or a linear model. Raises ValueError where there is none, or several and none is
    named."""
    found = {
        r.name: r.task
        for r in analysis_of(body).releases
        if (isinstance(r.task, Minimise) and not r.task.pairwise) or (isinstance(r.task, EstimateTheta) and r.task.form == "linear")
    }
    if release is not None and release not in found:
        raise ValueError(f"release {release!r} predicts nothing" + (f"; {', '.join(found)} do" if found else ""))
    if release is None and len(found) != 1:
        raise ValueError(f"name the release that predicts: {', '.join(found)}" if found else "no release of this record predicts anything")
    name = release or next(iter(found))
    return name, found[name]


def predict(body: Mapping[str, Any], outputs: Mapping[str, Mapping[str, Any]], x: Any, release: str | None = None) -> Any:
    """What the released weights say of each row of ``x``, which is encoded and enforced first: the number <w, x>; of labels -a and a (``y
    in {-1, 1}``) and of the classes of ``multinomial(K)`` the likeliest label, as the spec's map writes it."""
    name, task = predictor(body, release)
    w, data = np.asarray(outputs[name]["theta"], dtype=np.float64), analysis_of(body).data
    if isinstance(task, Minimise) and is_network(task.loss):
        raise ValueError(
            f"release {name!r} is of a network: what it predicts is an expression of its margins that the record does not state"
        )
    margins = np.asarray(encode(body, x) @ w.T)
    if margins.ndim == 2:
        return _labels(data, np.argmax(margins, axis=1).astype(np.float64))
    images = _images(data)
    if isinstance(task, Minimise) and len(images) == 2 and images[0] == -images[1] < 0:
        return _labels(data, np.where(margins > 0, images[1], images[0]))
    return margins


def _images(data: Data) -> list[float]:
    """The values that the domain of y lists, rising."""
    domain = next((d for d in data.domains if d.variable == "y"), None)
    values = getattr(domain.set, "values", ()) if domain is not None else ()
    return sorted(float(evaluate(e, known_values(data))) for e in values)


def _labels(data: Data, images: Any) -> Any:
    """The labels whose images these are: the keys of the map on y, the numbers themselves where it has none."""
    rule = next((d.by for d in data.domains if d.variable == "y" and d.by is not None and d.by.how == "map"), None)
    if rule is None:
        return images
    env = known_values(data)
    keys: dict[float, str] = {}
    for key, image in rule.mapping:
        keys.setdefault(float(evaluate(image, env)), key)
    return np.array([keys.get(float(v), f"{v:g}") for v in images])
