"""The words of the field for relations between neighbours and for models of trust."""

from __future__ import annotations

from collections.abc import Mapping

NEIGHBOURS = ("add_remove", "replace_one", "zero_out", "local_replace")

#: Words of the field for the four relations, spelt with underscores; :func:`relation_of` reads them.
NEIGHBOUR_ALIASES: Mapping[str, str] = {
    "add/remove": "add_remove",
    "add_or_remove": "add_remove",
    "add_or_remove_one": "add_remove",
    "add_remove_one": "add_remove",
    "insert_delete": "add_remove",
    "symmetric": "add_remove",
    "symmetric_distance": "add_remove",
    "symmetric_difference": "add_remove",
    "unbounded": "add_remove",
    "replace": "replace_one",
    "replacement": "replace_one",
    "substitution": "replace_one",
    "substitute": "replace_one",
    "substitute_one": "replace_one",
    "change_one": "replace_one",
    "change_one_distance": "replace_one",
    "swap": "replace_one",
    "swap_one": "replace_one",
    "hamming": "replace_one",
    "hamming_distance": "replace_one",
    "bounded": "replace_one",
    "zero": "zero_out",
    "zeroing": "zero_out",
    "zeroed": "zero_out",
    "replace_special": "zero_out",
    "replace_null": "zero_out",
    "replace_with_null": "zero_out",
    "local": "local_replace",
}

#: Under these a record may turn into any other; a norm bound C then gives a sum the sensitivity 2C.
REPLACING = ("replace_one", "local_replace")

MODELS = ("central", "local", "shuffle", "tool", "federated", "nldp", "sldp")


def relation_of(text: str) -> str:
    """One of :data:`NEIGHBOURS` for a word that means it, in any spelling with blanks, hyphens or underscores; else the text itself."""
    word = "_".join(text.lower().replace("-", " ").replace("_", " ").split())
    return word if word in NEIGHBOURS else NEIGHBOUR_ALIASES.get(word, text)
