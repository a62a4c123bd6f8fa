"""What a spec's assumptions are held against: draws of its own law, and public records.

Private records are none of it: a message about them would be an answer that nobody accounted for. Of public data, and of the public
records beside private ones, some :data:`MOST` are looked at, which are chosen without a look at them and taken in another order, so that
a file that is sorted is not read as two laws.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from dpspec.compiler.draft import Draft, Stage
from dpspec.compiler.files import base_dir
from dpspec.data.files import local
from dpspec.data.records import Records, is_sparse
from dpspec.data.refute import WIDEST, Sample
from dpspec.spec.diagnostics import SpecError
from dpspec.spec.expr import Bin, Expr, names
from dpspec.spec.model import CsvSource, Data, Law, SklearnSource
from dpspec.tasks.registry import of

#: Numbers in a sample (records times coordinates), and the most and the fewest records of a law.
NUMBERS: Final = 2**19
MOST: Final = 20_000
FEWEST: Final = 2_000
#: Fewer public records than this refute nothing.
LEAST: Final = 200
_SEED: Final = 20_261_128
_CHOICE: Final = 20_261_130


@dataclass(frozen=True, slots=True)
class Evidence:
    """Samples that speak of one thing: the law as drawn and as enforced, or the public records likewise. ``subject``: who refutes;
    ``tested``: what a statement was held against; ``remedy``: what an author does about it; ``only``: the targets that the sample shows (of
    every one when empty)."""

    subject: str
    tested: str
    remedy: str
    samples: tuple[Sample, ...] = ()
    only: frozenset[str] = frozenset()


# ------------------------------------------------------------------------------------------------------------------ the law


def of_law(draft: Draft[Stage]) -> Evidence | None:
    """A sample of the ``simulate`` block."""
    from dpspec.data.laws import Simulation

    d = int(draft.facts["d"])
    size = _rows(d)

    def drawn(laws: tuple[Law, ...]) -> tuple[Any, Any]:
        blocks = list(Simulation(laws, draft.facts).checking(_SEED, 0, size))
        return np.concatenate([x for x, _ in blocks]), None if blocks[0][1] is None else np.concatenate([y for _, y in blocks])

    parameters = dict(Simulation(draft.analysis.simulate, draft.facts).trial(_SEED, 0)[1].parameters)
    x, y = drawn(draft.analysis.simulate)
    if not np.isfinite(x).all():
        return None
    noise_laws = _noise(draft.analysis.simulate)
    noise = None if noise_laws is None or y is None else drawn(noise_laws)[1]
    return Evidence(
        "the law of the simulate block refutes",
        f"{size:,} draws of the law",
        "state what the law has, or simulate a law that has it: defaults and bounds rest on the declaration",
        _both(draft, Sample(x, y, parameters, noise), draft.analysis.data),
    )


def _rows(d: int) -> int:
    return min(MOST, max(FEWEST, NUMBERS // max(d, 1)))


def _both(draft: Draft[Stage], raw: Sample, data: Data, mapped: frozenset[str] = frozenset()) -> tuple[Sample, ...]:
    """The sample as it is, and with the domains of the data section made true (but for what is ``mapped`` already)."""
    from dpspec.data.enforce import enforce

    if not any(domain.by is not None for domain in data.domains):
        return (raw,)
    records = Records(raw.x.copy(), None if raw.y is None else raw.y.copy(), None, mapped)
    made, _ = enforce(records, data, values(draft), missing=missing(draft), apart=draft.analysis.privacy.attribute)
    return raw, replace(raw, x=np.asarray(made.x), y=made.y)


def _noise(laws: tuple[Law, ...]) -> tuple[Law, ...] | None:
    """The laws with y replaced by the terms of its law in which no record stands: the noise of ``y = f(<theta, x>) + noise``."""
    for i, law in enumerate(laws):
        if law.variable == "y":
            terms = [e for e in _terms(law.law) if "x" not in names(e)]
            if not terms or len(terms) == len(_terms(law.law)):
                return None
            total = terms[0]
            for e in terms[1:]:
                total = Bin("+", total, e)
            return (*laws[:i], law.model_copy(update={"law": total}), *laws[i + 1 :])
    return None


def _terms(e: Expr) -> list[Expr]:
    return [*_terms(e.left), *_terms(e.right)] if isinstance(e, Bin) and e.op == "+" else [e]


# ----------------------------------------------------------------------------------------------------------- public records


def public_sources(draft: Draft[Stage], memory: Any = None, file: str | None = None) -> Iterator[tuple[str, str]]:
    """(what, fingerprint) of the public records that there are: the data where they are public, and the x beside private ones. Of what is
    handed over, in memory or as a ``file``, the fingerprint is empty: nothing about it is kept."""
    content = {(f.role, f.path): f.sha256 for f in draft.files}
    data, beside_them = draft.analysis.data, draft.analysis.privacy.public
    source = data.source
    if file is not None:
        yield "data", ""
    elif data.status == "public":
        if memory is not None:
            yield "data", ""
        elif isinstance(source, SklearnSource):
            yield "data", source.name
        elif isinstance(source, CsvSource) and (found := content.get(("public data", source.path))):
            yield "data", found
    if beside_them is not None and beside_them.path is not None and (found := content.get(("public records", beside_them.path))):
        yield "x", found


def of_public(draft: Draft[Stage], what: str, memory: Any = None, file: str | None = None) -> Evidence | None:
    """The public records of ``data``, or the public ``x`` beside private ones; None where they cannot be read (who loads them says why) or
    are fewer than :data:`LEAST`."""
    data = draft.analysis.data
    try:
        if what == "data":
            records, total, where = _public_data(draft, memory, file)
        else:
            records, total, where = _public_x(draft)
            data = data.model_copy(update={"domains": tuple(domain for domain in data.domains if domain.variable == "x")})
    except (SpecError, OSError, ValueError):
        return None
    if records.n < LEAST:
        return None
    raw = Sample(np.asarray(records.x), records.y, {})
    looked = f"{records.n:,} of the {total:,} public records" if records.n < total else f"the {total:,} public records"
    return Evidence(
        f"public records ({where}) refute",
        f"{looked} of {where}",
        "state what these records have; where they are of another law than the assumption speaks of, they do not belong into this spec",
        _both(draft, raw, data, records.mapped),
        frozenset() if what == "data" else frozenset({"x", "public"}),
    )


def _public_data(draft: Draft[Stage], memory: Any, file: str | None) -> tuple[Records, int, str]:
    from dpspec.data.sources import load, reading_of
    from dpspec.data.stream import of_file

    data = draft.analysis.data
    assert data.status == "public" or file is not None
    base = base_dir(draft.parsed.path)
    told: dict[str, Any] = {"missing": missing(draft), "beside": beside(draft)}
    plain = data.n is not None and not told["beside"] and not any(e.how == "auto" for e in data.encode)
    if memory is None and file is None and isinstance(data.source, CsvSource) and plain:
        reading = reading_of(data, values(draft), **told)
        stream = None if reading.long else of_file(local(data.source.path, base), reading, lambda records, _: records)
        rows = None if stream is None else stream.rows()
        if stream is not None and rows is not None:
            chosen = _chosen(rows, stream.d)
            parts, at = [], 0
            for x, y in stream.chunks():
                here = np.flatnonzero((chosen >= at) & (chosen < at + len(x)))
                parts.append((here, x[chosen[here] - at], None if y is None else y[chosen[here] - at]))
                at += len(x)
            order = np.argsort(np.concatenate([here for here, _, _ in parts]))
            y_rows = None if not stream.has_y else np.concatenate([part[2] for part in parts])[order]
            found = Records(np.concatenate([part[1] for part in parts])[order], y_rows, None, stream.mapped)
            return found, rows, data.source.path
    if file is not None:
        raw = load(data, data_file=file, base_dir=base, values=values(draft), private=False, counted=False, **told)
        return _taken(raw.records), raw.records.n, Path(file).name
    raw = load(data, memory=memory, base_dir=base, values=values(draft), private=False, **told)
    where = "memory" if memory is not None else getattr(data.source, "path", "") or getattr(data.source, "name", "")
    return _taken(raw.records), raw.records.n, where


def _public_x(draft: Draft[Stage]) -> tuple[Records, int, str]:
    from dpspec.data.sources import load_public

    public = draft.analysis.privacy.public
    assert public is not None
    assert public.path is not None
    rows = load_public(public.path, draft.analysis.data, base_dir=base_dir(draft.parsed.path), values=values(draft))
    return _taken(Records(rows)), len(rows), public.path


def _chosen(n: int, d: int) -> Any:
    """Places of the records that are looked at, in the order that they are looked at."""
    return np.random.Generator(np.random.Philox(_CHOICE)).permutation(n)[: _rows(min(d, WIDEST))]


def _taken(records: Records) -> Records:
    found = records.take(_chosen(records.n, records.d))
    return replace(found, x=found.x.toarray()) if is_sparse(found.x) else found


# ------------------------------------------------------------------------------------- what a spec says of how it is read


def missing(draft: Draft[Stage]) -> bool:
    """Whether entries of x may be missing: where every question that is asked allows it."""
    return all(of(r.release.task).missing(r.release.task) for r in draft.releases)


def beside(draft: Draft[Stage]) -> tuple[str, ...]:
    """Columns of words that the spec names, and that are no features: those of ``group by``, and the one that tells units apart."""
    source = draft.analysis.data.source
    features = (*getattr(source, "columns", ()), getattr(source, "target", None), "x", "y")
    named = (getattr(r.release.task, "group", "") for r in draft.releases)
    return tuple(dict.fromkeys(name for name in (*named, draft.analysis.data.identified) if name and name not in features))


def values(draft: Draft[Stage]) -> Mapping[str, Any]:
    """The public numbers that expressions of the data section may use."""
    return {k: v for k, v in draft.facts.items() if k not in ("n", "d")}
