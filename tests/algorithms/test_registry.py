"""Finding algorithms by file name."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from dpspec.algorithms import registry
from dpspec.algorithms.card import Tunable, Tunables

ROOT = Path(__file__).parents[2]


def test_ids_are_the_files():
    files = {p.stem.replace("_", "-") for p in (ROOT / "dpspec/algorithms").glob("*/*.py") if not p.stem.startswith("_")}
    assert set(registry.ids()) == files
    assert {"dp-gd", "ldp-iht", "nldp-sparse-linear-regression"} <= files


def test_a_lookup_imports_one_algorithm_and_no_numerical_giant():
    code = (
        "import sys; from dpspec.algorithms import registry; registry.get('dp-gd');"
        "loaded = [m for m in sys.modules if m.startswith('dpspec.algorithms.') and m.count('.') == 3 and '._' not in m];"
        "heavy = [m for m in ('sympy', 'scipy', 'sklearn', 'dp_accounting', 'opendp', 'pandas') if m in sys.modules];"
        "print(loaded, heavy)"
    )
    out = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert out.strip() == "['dpspec.algorithms.convex_erm.dp_gd'] []"


def test_a_misspelt_id_gets_the_nearest_one():
    with pytest.raises(registry.UnknownAlgorithm) as caught:
        registry.get("dp-dg")
    assert "dp-gd" in caught.value.help


def test_every_card_names_its_own_file_and_its_gallery_spec_exists():
    for card in registry.cards():
        assert registry.get(card.id).CARD is card
        if card.role == "algorithm":
            assert (ROOT / card.spec).is_file(), card.spec


def test_every_evidence_that_names_a_test_exists():
    for card in registry.cards():
        for fault in card.faults:
            file, _, name = fault.evidence.partition("::")
            if name:
                assert f"def {name}(" in (ROOT / file).read_text(), fault.evidence


@pytest.mark.parametrize("name", ["values", "items", "keys", "get", "_values", "lambda", "two words", ""])
def test_a_tunable_cannot_hide_behind_a_method(name: str):
    """``t.values`` would be the mapping's own method: a card with such a name is refused when its file is imported."""
    card = registry.get("dp-gd").CARD
    with pytest.raises(ValueError, match="no tunable or option may be called"):
        replace(card, tunables={**card.tunables, name: Tunable("1", "")})
    with pytest.raises(ValueError, match="no tunable or option may be called"):
        replace(card, options={**card.options, name: ("a", "b")})
    with pytest.raises(ValueError, match="no tunable or option may be called"):
        Tunables({name: 1.0})


def test_a_name_is_either_a_tunable_or_an_option():
    card = registry.get("dp-gd").CARD
    with pytest.raises(ValueError, match="both a tunable and an option"):
        replace(card, options={**card.options, "T": ("a", "b")})


def test_every_tunable_is_found_by_its_name():
    for card in registry.cards():
        found = Tunables({name: i for i, name in enumerate((*card.tunables, *card.options))})
        assert [getattr(found, name) for name in found] == list(range(len(found)))
