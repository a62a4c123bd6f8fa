"""Training configurations as people write them, one file a tool, found by file name.

A file holds ``TOOL``: its title, the words of its configuration by what they mean, and the words that only it has (:class:`Tool`). What is
special about it is in ``translate(keys)``, which reads every word through :class:`~dpspec.audit.configs._keys.Keys`; a key that it does not
read is refused by name. Files whose names begin with an underscore are shared.
"""

from __future__ import annotations

import difflib
import importlib
import pkgutil
from collections.abc import Mapping
from functools import cache
from typing import Any

from dpspec.audit.configs._keys import leaves, refuse, word_of
from dpspec.audit.configs._tool import Configured, Tool
from dpspec.audit.deployment import Deployment

__all__ = ["Configured", "Tool", "read_config", "recognise", "tools"]

_NAMED = ("tool", "framework", "library")


@cache
def tools() -> Mapping[str, Tool]:
    """The known tools by name (that of the file, with hyphens)."""
    names = sorted(m.name for m in pkgutil.iter_modules(__path__) if not m.name.startswith("_"))
    return {name.replace("_", "-"): importlib.import_module(f"{__name__}.{name}").TOOL for name in names}


def _tool_name(word: str) -> str:
    name = word_of(word).replace("_", "-")
    for known, tool in tools().items():
        if name == known or name in tool.names:
            return known
    near = difflib.get_close_matches(name, list(tools()), 1)
    raise refuse("DP676", f"no tool {word!r} is known", f"did you mean {near[0]!r}?" if near else f"known: {', '.join(tools())}")


def _known(word: str) -> bool:
    name = word_of(word).replace("_", "-")
    return any(name == known or name in tool.names for known, tool in tools().items())


def recognise(data: Mapping[str, Any]) -> str:
    """The tool whose own words a configuration has, or the empty word: most marks win, the tool that the file names wins over all."""
    for key in _NAMED:
        if isinstance(data.get(key), str) and (key == "tool" or _known(data[key])):
            return _tool_name(data[key])
    paths = [at for at, _ in leaves(data)]
    present = {".".join(at[i:]) for at in paths for i in range(len(at))} | {part for at in paths for part in at}
    texts = {word_of(v) for _, value in leaves(data) for v in (value if isinstance(value, list) else [value]) if isinstance(v, str)}
    scores = {name: sum(mark in present or mark in texts for mark in tool.marks) for name, tool in tools().items()}
    best = max(scores, key=lambda name: (scores[name], tools()[name].rank))
    if scores[best] == 0:
        return ""
    noise = {
        w for t in tools().values() for m in ("multiplier", "noise_std", "target_epsilon", "epsilon") for w in t.all_words().get(m, ())
    }
    return best if present & noise or tools()[best].alone else ""


def read_config(data: Mapping[str, Any], tool: str = "") -> Deployment:
    """A training configuration as a deployment. Raises :class:`~dpspec.spec.diagnostics.SpecError`: DP676 when no tool is recognised, DP671
    for a key that nothing reads, DP672 for a value, DP674 for what is missing."""
    name = _tool_name(tool) if tool else recognise(data)
    if not name:
        raise refuse("DP676", "no tool is recognised by the words of this configuration", f"state tool, one of {', '.join(tools())}")
    return tools()[name].read({k: v for k, v in data.items() if k not in _NAMED})
