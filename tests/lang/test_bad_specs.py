"""Every file of tests/bad_specs gives exactly the language diagnostics that its index states: code, line and column."""

from __future__ import annotations

import pytest

from dpspec.lang.render import render
from dpspec.lang.source import parse_file
from dpspec.spec.codes import CODES
from dpspec.spec.diagnostics import SpecError
from tests.bad_spec_index import FOLDER, INDEX, marks

OURS = {name: [e[:3] for e in entries] for name, entries in INDEX.items() if any(e[0].startswith("DP1") for e in entries)}


def test_marks() -> None:
    assert marks("data\n#^^^ DP408\n  by dp-gdd\n#    ^^^^^^ DP404\n# ^^ DP407\n") == [
        ("DP408", 1, 1, 5),
        ("DP404", 3, 6, 12),
        ("DP407", 3, 3, 5),
    ]


def test_index_lists_every_file() -> None:
    assert {p.name for p in FOLDER.iterdir()} - {"expected.yaml"} == set(INDEX)


def test_there_are_many_mistakes() -> None:
    assert len(OURS) >= 60


@pytest.mark.parametrize("name", sorted(OURS))
def test_diagnostics(name: str) -> None:
    with pytest.raises(SpecError) as caught:
        parse_file(FOLDER / name)
    found = [(d.code, d.span.line if d.span else 0, d.span.column if d.span else 0) for d in caught.value.diagnostics]
    text = "\n".join(render(d, caught.value.text, name) for d in caught.value.diagnostics)
    assert sorted(found) == sorted(e for e in OURS[name] if e[0].startswith("DP1")), text
    for d in caught.value.diagnostics:
        assert d.help, f"{d.code} in {name} gives no remedy"
        assert f"{name}:{d.span.line}:{d.span.column}" in text if d.span else True
        assert CODES[d.code].explanation
