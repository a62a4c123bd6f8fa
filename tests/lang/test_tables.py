"""The generated tables are those of the grammar, and the grammar and the actions agree."""

from __future__ import annotations

from dpspec.lang import tables
from dpspec.lang.actions import ACTIONS
from dpspec.lang.build_tables import HERE, build
from dpspec.lang.vocabulary import SYMBOLS


def test_tables_are_fresh() -> None:
    """Also that the grammar is LALR(1) without conflicts: build() raises otherwise."""
    assert (HERE / "tables.py").read_text(encoding="utf-8") == build(), "run python -m dpspec.lang.build_tables"


def test_every_action_exists_and_is_used() -> None:
    used = {action for _, _, action, _ in tables.RULES if action}
    assert used == set(ACTIONS)


def test_rules_without_action_have_one_child() -> None:
    assert all(len(keep) == 1 for _, _, action, keep in tables.RULES if not action)


def test_symbols_stand_for_literals() -> None:
    assert set(SYMBOLS.values()) <= set(tables.LITERALS)
