"""An instance of every kind of mechanism and channel, made from its fields: a new file in either folder is picked up by itself."""

from __future__ import annotations

from typing import Any, get_args

from dpspec.privacy.forms import _fields, classes
from dpspec.privacy.schedule import Mechanism

_BY_NAME: dict[str, Any] = {"delta": 1e-6, "smoothing": 0.05, "tolerance": 1e-6, "moved": 2.0, "parties": 5, "missing": 1, "server": False}
_BY_NAME |= {"kept": 2, "share": 0.4, "n": 1000, "freedom": 3, "neighbours": "replace-one", "l2": 0.1, "ridge": 0.0}
_BY_TYPE: dict[Any, Any] = {int: 8, float: 2.0, bool: False}


def instance(kind: str) -> Mechanism:
    cls = classes()[kind]
    values: dict[str, Any] = {}
    for name, hint in _fields(cls).items():
        if name in ("noise", "form"):  # the field that decides the kind
            values[name] = next(word for word in get_args(hint) if kind.startswith(word) or kind.endswith(word))
        elif name == "sensitivity" and kind == "gaussian-vector":
            values[name] = 4.5
        elif name == "smoothing" and kind == "smooth-student-vector":  # times size + 2 it is a part of epsilon
            values[name] = 0.005
        elif name in _BY_NAME:
            values[name] = _BY_NAME[name]
        else:
            values[name] = _BY_TYPE[hint] if hint in _BY_TYPE else get_args(hint)[-1]
    made: Mechanism = cls(**values)
    return made


KINDS = sorted(classes())
