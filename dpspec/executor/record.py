"""What happened: the record of a release, and the result of a study."""

from __future__ import annotations

import datetime as dt
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Record:
    """A finished release. It holds no error, no residual and no statistic of the data that the plan did not pay for.

    ``outputs``: the released arrays by release name and array name. ``body``: everything that is not an array.
    """

    body: Mapping[str, Any]
    outputs: Mapping[str, Mapping[str, Any]]

    @staticmethod
    def read(path: Path | str) -> Record:
        """The record of a folder that :meth:`write` wrote, or of its ``record.json``. Raises OSError, and ValueError for another file."""
        import numpy as np

        file = Path(path)
        file = file / "record.json" if file.is_dir() else file
        body = json.loads(file.read_text(encoding="utf-8"))
        if not isinstance(body, dict) or body.get("mode") != "release" or not isinstance(body.get("outputs"), dict):
            raise ValueError(f"{file} is no record of a release")
        outputs: dict[str, dict[str, Any]] = {}
        for name, out in body.pop("outputs").items():
            if "file" not in out:
                outputs[name] = {k: np.asarray(v) for k, v in out["values"].items()}
                continue
            with np.load(file.parent / out["file"], allow_pickle=False) as arrays:
                outputs[name] = {k: arrays[k] for k in arrays.files}
        return Record(body, outputs)

    def rows(self) -> list[dict[str, Any]]:
        """A row for each released number: ``release``, ``what``, ``value``, and where they are known ``standard_error``, ``low`` and
        ``high`` (the 95 % interval of the noise) or ``rank_error`` and ``rank_within``. Names are those of columns, levels, keys and
        cells."""
        from dpspec.executor.results import rows

        return rows(self.body, self.outputs)

    def frame(self) -> Any:
        """:meth:`rows` as a pandas data frame."""
        import pandas as pd

        from dpspec.executor.results import header

        table = self.rows()
        return pd.DataFrame(table, columns=list(header(table)))

    def export(self, file: Path | str) -> Path:
        """:meth:`rows` as a .csv, .json or .parquet file. Raises ValueError for another ending."""
        from dpspec.executor.results import write

        return write(self.rows(), Path(file))

    def encode(self, x: Any) -> Any:
        """Records as the run's algorithm saw its own, (rows, d): encoded and enforced by the spec. ``x``: a file or arrays, as ``run``
        takes them. Raises SpecError for a value that the spec does not know."""
        from dpspec.executor.results import encode

        return encode(self.body, x)

    def predict(self, x: Any, release: str | None = None) -> Any:
        """What released weights say of records: numbers, or labels as the spec writes them (:func:`dpspec.executor.results.predict`).
        ``release`` names one of several. Raises ValueError where nothing predicts, SpecError as :meth:`encode` does."""
        from dpspec.executor.results import predict

        return predict(self.body, self.outputs, x, release)

    def to_json(self) -> dict[str, Any]:
        """Everything, the released arrays as lists."""
        outputs = {name: {"values": {k: _plain(v) for k, v in arrays.items()}} for name, arrays in self.outputs.items()}
        return {**self.body, "outputs": outputs}

    def write(self, folder: Path) -> Path:
        """``record.json`` and one ``<release>.npz`` a release. Each file appears whole or not at all. Files of private records are as old
        as the start of the run: when it ended may tell about them."""
        import os

        import numpy as np

        folder.mkdir(parents=True, exist_ok=True)
        outputs: dict[str, Any] = {}
        for name, arrays in self.outputs.items():
            file = folder / f"{name}.npz"
            partial = folder / f"{name}.partial.npz"
            np.savez(partial, allow_pickle=False, **{k: np.asarray(v) for k, v in arrays.items()})
            partial.replace(file)
            outputs[name] = {"file": file.name, "shapes": {k: list(np.shape(v)) for k, v in arrays.items()}}
        written = write_json({**self.body, "outputs": outputs}, folder / "record.json")
        if self.body.get("finished") is None and self.body.get("started"):
            then = dt.datetime.fromisoformat(self.body["started"]).timestamp()
            for path in (*(folder / out["file"] for out in outputs.values()), written, folder):
                os.utime(path, (then, then))
        return written

    def _repr_html_(self) -> str:
        from dpspec.report.html import record_html

        return record_html(self.to_json())

    def __repr__(self) -> str:
        from dpspec.report.terminal import record_text

        return record_text(self.to_json())


class NotWritten(OSError):
    """A release that was made, and paid for, and could not be written: ``record`` holds it."""

    def __init__(self, record: Record, error: OSError) -> None:
        super().__init__(error.errno, error.strerror, error.filename)
        self.record = record


@dataclass(frozen=True)
class StudyResult:
    """Measured error against the bounds. ``body`` is the JSON form."""

    body: Mapping[str, Any]

    def to_json(self) -> dict[str, Any]:
        """The points, each with its errors, bound, target and what enforcement changed."""
        return dict(self.body)

    def to_dataframe(self) -> Any:
        """One row a point (pandas)."""
        import pandas as pd

        rows = []
        for p in self.body["points"]:
            bound = p["bound"] or {}
            rows.append(
                {
                    "release": p["release"],
                    "algorithm": p["algorithm"],
                    **p["at"],
                    "trials": p["trials"],
                    **{f"error_{k}": v for k, v in p["error"].items() if k not in ("ci95", "values")},
                    "ci_low": p["error"]["ci95"][0],
                    "ci_high": p["error"]["ci95"][1],
                    "bound": bound.get("value"),
                    "holds": bound.get("holds"),
                }
            )
        return pd.DataFrame(rows)

    def write(self, folder: Path) -> Path:
        """``study.json`` in a folder, which is made."""
        folder.mkdir(parents=True, exist_ok=True)
        return write_json(self.body, folder / "study.json")

    def _repr_html_(self) -> str:
        from dpspec.report.html import study_html

        return study_html(self.to_json())

    def __repr__(self) -> str:
        from dpspec.report.terminal import study_text

        return study_text(self.to_json())


def write_json(body: Mapping[str, Any], file: Path, *, exact: bool = False) -> Path:
    """The file appears whole or not at all. Numbers that JSON has no word for become null; ``exact`` keeps them as Python's JSON reads
    them (Infinity, NaN), for files that only dpspec reads."""
    partial = file.with_name(file.name + ".partial")
    text = json.dumps(body if exact else finite(body), indent=2, allow_nan=exact, default=_plain)
    partial.write_text(text + "\n", encoding="utf-8")
    partial.replace(file)
    return file


def finite(value: Any) -> Any:
    """The value with null for every number that is infinite or not a number."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {k: finite(v) for k, v in value.items()}
    if hasattr(value, "tolist"):
        return finite(value.tolist())
    return [finite(v) for v in value] if isinstance(value, (list, tuple)) else value


def _plain(value: Any) -> Any:
    return value.tolist() if hasattr(value, "tolist") else value


def environment() -> dict[str, str]:
    """Versions that a reader needs to repeat a result; nothing that names a machine or a person."""
    import platform
    from importlib.metadata import PackageNotFoundError, version

    from dpspec.version import __version__

    found = {"dpspec": __version__, "python": platform.python_version()}
    for package in ("numpy", "scipy", "cryptography", "dp-accounting", "python-flint"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found
