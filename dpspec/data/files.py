"""The files that a spec names: where they are, whether two of them are one, what they hold.

A name is resolved against the folder of the spec and opened as a regular file of this machine: never fetched, never decompressed, never
unpickled. What enters a release without noise (public records, vertices of a set, public data) is hashed by content into the plan. Of a
private file a plan holds the name alone.

Whether a public file is the private one is decided before either is read as records: by path, by link (one inode), or because the bytes
agree. A copy that was written anew (other columns, another format, other line ends) cannot be told without comparing records, and the
outcome would be a statement about them: that a public file is public remains the author's word.
"""

from __future__ import annotations

import fnmatch
import hashlib
import math
import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

from dpspec.data.problems import fail, nearest
from dpspec.spec.databases import KINDS, scheme, shown
from dpspec.spec.diagnostics import SpecError
from dpspec.spec.model import Polytope

Role: TypeAlias = Literal["private data", "public data", "public records", "vertices", "vectors"]
Rows: TypeAlias = tuple[tuple[float, ...], ...]
#: Files whose content is a part of a plan.
CONTENT: Final[tuple[Role, ...]] = ("public records", "vertices", "vectors")

#: A scheme with a slash behind it, or the name of another machine. ``Path`` writes ``http://host`` as ``http:/host``.
_ADDRESS: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:[/\\]|\\\\|//")
_NUMBER: Final = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?", re.ASCII)
#: Vertices are kept in memory and are one choice each of an exponential mechanism; more than this is no list of corners.
MOST_BYTES: Final = 16 * 2**20


class Corners(Polytope):
    """A polytope whose file has been read: ``rows``, a vertex each."""

    rows: Rows = ()


@dataclass(frozen=True, slots=True)
class SpecFile:
    """A file that a spec names. ``path``: as the spec writes it; ``where``: resolved. ``sha256``, ``size``: of the content, None for
    private data, and for public data that are not there. ``rows``: of vertices. ``query``: of a database, whose address is the path."""

    role: Role
    path: str
    where: Path
    sha256: str | None = None
    size: int | None = None
    rows: Rows = ()
    query: str | None = None

    def to_json(self) -> dict[str, Any]:
        if self.query is not None:
            return {"role": self.role, "path": self.path, "query_sha256": hashlib.sha256(self.query.encode()).hexdigest()}
        if self.role == "private data":
            return {"role": self.role, "path": self.path}
        return {"role": self.role, "path": self.path, "sha256": self.sha256, "bytes": self.size}


def local(name: str | Path, base: str | Path = ".") -> Path:
    """The place of a named file, relative to ``base``. Raises SpecError (DP501) for an address or a name that no file can have."""
    text = str(name)
    if _ADDRESS.match(text):
        help_ = (
            'add its query: from "postgresql://host/db" query "select ..."' if scheme(text) in KINDS else "save it to a file and name that"
        )
        fail("DP501", f"{shown(text)} is an address, and nothing is fetched", help_, path=shown(text))
    if not text or "\0" in text:
        fail("DP501", "a file needs a name" if not text else "the name of the file holds a NUL character", "name a file", path=text)
    return Path(base) / text


def regular(path: Path) -> os.stat_result:
    """The facts of an existing regular file that can be opened. Raises SpecError (DP501) for anything else: a pipe or a device may wait, or
    never end."""
    reason, found = "", None
    try:
        found = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        reason = "missing"
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "it cannot be opened"
    if found is None and reason == "missing":
        near = nearest(path.name, (p.name for p in path.parent.iterdir())) if path.parent.is_dir() else None
        help_ = f"did you mean {near!r}?" if near else "relative paths are taken from the folder of the spec"
        fail("DP501", f"there is no file {path}", help_, path=str(path))
    if found is not None and stat.S_ISDIR(found.st_mode):
        fail("DP501", f"{path} is a folder, not a file", "name the file in it", path=str(path))
    if found is not None and not stat.S_ISREG(found.st_mode):
        fail("DP501", f"{path} is not a regular file", "save it to a file and name that", path=str(path))
    if found is None or not os.access(path, os.R_OK):
        fail("DP501", f"{path} cannot be read: {reason or 'permission denied'}", "check its permissions", path=str(path))
    return found


def is_pattern(path: Path) -> bool:
    """Whether a name that no file has is a pattern (``part-*.parquet``)."""
    return any(c in path.name for c in "*?[") and not os.path.lexists(path)


def members(path: Path) -> tuple[Path, ...]:
    """The files behind a name, sorted by path: the file itself, all files of a folder and its folders, or those that a pattern in the last
    part of the name matches. Names that begin with ``_`` or ``.`` are left out, as engines write them beside the data; links to folders
    are not followed. Raises SpecError (DP501) where there is none."""
    if path.is_dir():
        found: list[Path] = []
        for folder, folders, files in os.walk(path):
            folders[:] = [f for f in folders if not f.startswith(("_", "."))]
            found += [Path(folder) / f for f in files if not f.startswith(("_", "."))]
    elif is_pattern(path):
        # not Path.glob, which from 3.13 on sees the pattern characters of the folders as well
        there = os.listdir(path.parent) if path.parent.is_dir() else []
        found = [path.parent / f for f in fnmatch.filter(there, path.name) if not f.startswith(("_", "."))]
    else:
        return (path,)
    if not found:
        fail("DP501", f"there is no file of records in {path}", "name the folder that holds them", path=str(path))
    return tuple(sorted(found, key=lambda p: p.relative_to(path.parent).as_posix()))


_DIGESTS: dict[tuple[int, ...], str] = {}
_VERTICES: dict[tuple[Any, ...], tuple[Rows, str, int]] = {}


def _key(s: os.stat_result) -> tuple[int, ...]:
    """What changes when a file does."""
    return s.st_dev, s.st_ino, s.st_size, s.st_mtime_ns, s.st_ctime_ns


def _keep(cache: dict[Any, Any], key: Any, value: Any, most: int) -> Any:
    while len(cache) >= most:
        cache.pop(next(iter(cache)))
    cache[key] = value
    return value


def _blocks(path: Path, size: int) -> Iterator[bytes]:
    """The content, which must be ``size`` bytes: a file of the kernel may say 0 and never end."""
    left = size
    try:
        with path.open("rb") as f:
            while left and (block := f.read(min(left, 1 << 20))):
                left -= len(block)
                yield block
    except OSError:
        left = -1
    if left:
        fail("DP501", f"{path} cannot be read", "check its permissions, and that nobody writes to it", path=str(path))


def digest(path: Path, *, fresh: bool = False) -> tuple[str, int]:
    """SHA-256 and size of a regular file. A file that has not been touched since is not read again unless ``fresh``.

    Raises SpecError: DP501 (no such file), DP509 (empty).
    """
    s = regular(path)
    if not s.st_size:
        fail("DP509", f"{path.name} is empty", "name a file with something in it", path=str(path))
    key = _key(s)
    if fresh or key not in _DIGESTS:
        content = hashlib.sha256()
        for block in _blocks(path, s.st_size):
            content.update(block)
        _keep(_DIGESTS, key, content.hexdigest(), 256)
    return _DIGESTS[key], s.st_size


def same(one: Path, other: Path) -> bool:
    """Whether two names lead to one content: by path, by link, or because the bytes agree. Neither file need exist."""
    if os.path.realpath(one) == os.path.realpath(other):
        return True
    try:
        a, b = one.stat(), other.stat()
    except (OSError, ValueError):
        return False
    if os.path.samestat(a, b):
        return True
    if not (stat.S_ISREG(a.st_mode) and stat.S_ISREG(b.st_mode)) or a.st_size != b.st_size or not a.st_size:
        return False
    if not (os.access(one, os.R_OK) and os.access(other, os.R_OK)):
        return False
    return digest(one, fresh=True)[0] == digest(other, fresh=True)[0]


def private_one(public: SpecFile, private: Path) -> str:
    """What is wrong when a public file is the private one, or one of those of a private folder; empty when it is not."""
    several = private.is_dir() or is_pattern(private)
    if not any(same(public.where, one) for one in (_there(private) if several else (private,))):
        return ""
    what = {"vertices": "the vertices of the set", "vectors": "the numbers of an option"}.get(public.role, "the public records")
    return f"{what}, {public.path}, are the private file {private.name}: by path, by link, or byte for byte"


def _there(path: Path) -> tuple[Path, ...]:
    try:
        return members(path)
    except SpecError:  # the loader says so
        return ()


REMEDY: Final = "public input enters a release without noise; name a file that does not come from the private records"


def numbers(path: Path, width: int | None = None, what: str = "vertex") -> tuple[Rows, str, int]:
    """The vertices of a polytope, or vectors, a row each, with the digest and the size of the very bytes that were parsed.

    Comma-separated numbers in UTF-8 without a header row; blank lines and what follows a ``#`` are skipped. Raises SpecError: DP501 (no
    such file), DP502 (not such text, or too large), DP508 (not ``width`` numbers a row), DP509 (no row). No cell is shown.
    """
    where, stat_ = path.name, regular(path)
    if stat_.st_size > MOST_BYTES:
        fail("DP502", f"{where} has more than {MOST_BYTES >> 20} MiB, too much for a list", "fewer rows", path=str(path))
    key = (*_key(stat_), width, what)
    if key in _VERTICES:
        return _VERTICES[key]
    raw = b"".join(_blocks(path, stat_.st_size))
    rows: list[tuple[float, ...]] = []
    wrong = 0
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        text, wrong = "", -1
    if wrong:
        fail("DP502", f"{where} is not UTF-8 text", f"save them as comma-separated numbers, one {what} a line", path=str(path))
    for i, line in enumerate(text.splitlines(), 1):
        cells = line.partition("#")[0].strip()
        if not cells:
            continue
        words = [c.strip() for c in cells.split(",")]
        row = tuple(float(w) if _NUMBER.fullmatch(w) else math.nan for w in words)
        if not all(math.isfinite(v) for v in row):
            fail("DP502", f"line {i} of {where} is not a row of finite numbers", "comma-separated numbers, no header row", path=str(path))
        if len(row) != (width or len(rows[0] if rows else row)):
            wanted = f"d = {width}" if width else f"{len(rows[0])}, as in the first row"
            fail("DP508", f"line {i} of {where} has {len(row)} numbers, a {what} has {wanted}", "one coordinate a column", path=str(path))
        rows.append(row)
    if not rows:
        fail("DP509", f"{where} holds no {what}", f"one {what} a line", path=str(path))
    found: tuple[Rows, str, int] = _keep(_VERTICES, key, (tuple(rows), hashlib.sha256(raw).hexdigest(), len(raw)), 4)
    return found
