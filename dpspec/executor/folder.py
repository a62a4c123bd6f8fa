"""The folder that a release is written to, claimed before the first draw: a release that cannot be kept is paid for all the same."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from dpspec.spec.diagnostics import Diagnostic, SpecError

#: What a run holds while it goes on; :func:`dpspec.executor.record.write_json` makes the record of it.
CLAIM = "record.json.partial"


@contextmanager
def claimed(folder: Path | None, releases: tuple[str, ...]) -> Iterator[None]:
    """Holds ``folder`` for one run. What was made for it goes again when the run fails, also by an interrupt.

    Raises :class:`~dpspec.spec.diagnostics.SpecError` (DP416) when the folder cannot be made or written, when it holds a release (only
    its record tells that it was made), or when another run holds it.
    """
    if folder is None:
        yield
        return
    made = _made(folder)
    taken = [name for name in ("record.json", *(f"{r}.npz" for r in releases)) if os.path.lexists(folder / name)]
    if taken:
        _refuse(folder, made, f"holds {' and '.join(taken)}: a release that was paid for and is not replaced", "name another folder")
    try:
        os.close(os.open(folder / CLAIM, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
    except FileExistsError:
        _refuse(
            folder, made, f"holds {CLAIM}: a run writes here, or was killed", f"name another folder, or remove {CLAIM} if no run goes on"
        )
    except OSError as error:
        _refuse(folder, made, f"cannot be written ({error.strerror})", "name a folder that can be written")
    try:
        yield
    except BaseException:
        with suppress(OSError):
            (folder / CLAIM).unlink(missing_ok=True)
        _unmake(made)
        raise


def _made(folder: Path) -> list[Path]:
    """The folders that had to be made, the deepest first."""
    absent = [p for p in (folder, *folder.parents) if not os.path.lexists(p)]
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        reason = "is a file" if isinstance(error, FileExistsError) else f"cannot be made ({error.strerror})"
        _refuse(folder, absent, reason, "name a folder that can be made and written")
    return absent


def _unmake(made: list[Path]) -> None:
    for path in made:
        with suppress(OSError):  # not empty: somebody else's
            path.rmdir()


def _refuse(folder: Path, made: list[Path], reason: str, help: str) -> None:
    _unmake(made)
    raise SpecError([Diagnostic("DP416", "error", f"{folder} {reason}; no noise was drawn", help)])
