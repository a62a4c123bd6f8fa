"""The files that a spec names, part of the pass resolve: found, told apart from the private one, read or hashed.

A plan rests on the content of whatever enters without noise, so that content is in its hash; of private data it holds the name, and that
file need not be there when a plan is made.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path as FilePath

from dpspec.compiler.draft import Draft, Number, Path, Resolved
from dpspec.data.files import CONTENT, REMEDY, Role, Rows, SpecFile, digest, local, numbers, private_one
from dpspec.lang.source import Parsed
from dpspec.spec.databases import several, shown
from dpspec.spec.diagnostics import SpecError
from dpspec.spec.model import Analysis, CsvSource, Polytope, SqlSource


def base_dir(path: str) -> FilePath:
    """What the relative names of a spec are relative to: its folder; for a text that is no file, the working directory."""
    return FilePath(path).parent if path and not path.startswith("<") else FilePath()


def named(a: Analysis) -> Iterator[tuple[Role, str, Path]]:
    """Every file that an analysis names, the data first, with its place in the model."""
    if isinstance(a.data.source, CsvSource):
        yield ("private data" if a.data.status == "private" else "public data"), a.data.source.path, ("data", "source", "path")
    if a.privacy.public is not None and a.privacy.public.path is not None:
        yield "public records", a.privacy.public.path, ("privacy", "public", "path")
    for i, domain in enumerate(a.data.domains):
        if isinstance(domain.set, Polytope):
            yield "vertices", domain.set.vertices, ("data", "domains", i, "set", "vertices")
    for i, release in enumerate(a.releases):
        for option, name in release.by.files:
            yield "vectors", name, ("releases", i, "by", "options", option)
        over = getattr(release.task, "over", None)
        if isinstance(over, Polytope):
            yield "vertices", over.vertices, ("releases", i, "task", "over", "vertices")


def find(draft: Draft[Resolved], facts: Mapping[str, Number]) -> Draft[Resolved]:
    """Fill ``files``; report what is no file of this machine (DP501), cannot be read (DP502, DP508, DP509), is the private file (DP518) or
    should be looked at (DP519)."""
    base = base_dir(draft.parsed.path)
    width = int(facts["d"]) if "d" in facts else None
    found: list[SpecFile] = []
    private: SpecFile | None = None
    if isinstance(asked := draft.analysis.data.source, SqlSource):
        found, draft = [_asked(draft, asked)], _told(draft, asked)
    for role, name, path in named(draft.analysis):
        if any(f.role == role and f.path == name for f in found):
            continue
        try:
            file = SpecFile(role, name, local(name, base))
            if role == "private data":
                private = file
            elif role == "public data" and not file.where.exists():
                pass  # the loader says so; nothing of them is protected, and a plan without them is still a plan
            else:
                if private is not None and (wrong := private_one(file, private.where)):
                    draft = draft.report("DP518", wrong, path=path, help=REMEDY)
                    continue
                file = _read(file, width)
        except SpecError as error:
            for d in error.diagnostics:
                draft = draft.report(d.code, d.message, path=path, help=d.help)
            continue
        found.append(file)
        if role == "vertices" and draft.analysis.data.status == "private" and path[0] == "releases":
            draft = draft.report(
                "DP519",
                f"points of polytope({name}) are mixtures of its vertices, released as they are: they must not come from the records",
                path=path,
                help="nothing to do when the vertices were chosen without looking at the records; the plan holds the file's content",
                severity="warning",
            )
    return replace(draft, files=tuple(found))


def _asked(draft: Draft[Resolved], source: SqlSource) -> SpecFile:
    role: Role = "private data" if draft.analysis.data.status == "private" else "public data"
    return SpecFile(role, shown(source.url), FilePath(), query=source.query)


def _told(draft: Draft[Resolved], source: SqlSource) -> Draft[Resolved]:
    """That a record is a row of the result is the author's word, and on private data the guarantee is about such rows."""
    if draft.analysis.data.status != "private":
        return draft
    words = several(source.query)
    seen = f"; this query has {', '.join(words)}" if words else ""
    return draft.report(
        "DP529",
        f"the guarantee is about rows of the query's result: one {draft.analysis.data.unit} must change one of them, and no other{seen}",
        path=("data", "source"),
        help="one row of one table each, or a row a unit (group by its identifier); no rank, share or average over rows of others",
        severity="warning",
    )


def contents(parsed: Parsed) -> tuple[str, ...]:
    """Digests of the files whose content a result depends on beside the data: what is kept for one content is not for another."""
    base = base_dir(parsed.path)
    found = []
    for role, name, _ in named(parsed.analysis):
        if role in CONTENT:
            try:
                found.append(digest(local(name, base))[0])
            except SpecError:
                found.append("")  # the compiler says what is wrong with it
    return tuple(found)


def _read(file: SpecFile, width: int | None) -> SpecFile:
    if file.role in ("vertices", "vectors"):
        rows, sha256, size = numbers(file.where, width, "vertex" if file.role == "vertices" else "vector")
        return replace(file, sha256=sha256, size=size, rows=rows)
    sha256, size = digest(file.where)
    return replace(file, sha256=sha256, size=size)


def vectors(draft: Draft[Resolved], index: int) -> dict[str, Rows]:
    """The rows of the files that are options of a release's algorithm, by option; without those that were refused."""
    read = {f.path: f.rows for f in draft.files if f.role == "vectors"}
    return {option: read[path] for option, path in draft.analysis.releases[index].by.files if path in read}


def rows_of(draft: Draft[Resolved], over: Polytope) -> tuple[tuple[float, ...], ...]:
    """The vertices that were read for a set; none when its file has been refused."""
    return next((f.rows for f in draft.files if f.role == "vertices" and f.path == over.vertices), ())
