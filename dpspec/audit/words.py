"""The field's words for relations and models (:mod:`dpspec.spec.words`) as descriptions spell them: with underscores."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from dpspec.spec import words


def _spelt(word: str) -> str:
    return word.replace("-", "_").replace(" ", "_")


NEIGHBOURS: Final[tuple[str, ...]] = ("add_remove", "replace_one", "zero_out", "local_replace")

#: Other words for the four relations.
NEIGHBOUR_ALIASES: Final[Mapping[str, str]] = {
    **{_spelt(other): _spelt(name) for name, relation in words.RELATIONS.items() for other in relation.also},
    "add/remove": "add_remove",
}

#: Under these a record may turn into any other; a norm bound C then gives a sum the sensitivity 2C.
REPLACING: Final[tuple[str, ...]] = tuple(_spelt(name) for name, relation in words.RELATIONS.items() if relation.replacing)

#: Whom the users of a deployment trust.
MODELS: Final[tuple[str, ...]] = ("central", "local", "shuffle", "tool", "federated", "nldp", "sldp")


def relation_of(text: str) -> str:
    """One of :data:`NEIGHBOURS` for a word that means it, in any spelling with blanks, hyphens or underscores; else the text itself."""
    found = words.relation_of(text)
    return text if found is None else _spelt(found)
