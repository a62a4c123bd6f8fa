"""Writes docs/assumptions.md from the registry of assumptions and the cards: ``python docs/gen_assumptions.py [OUT]``."""

from __future__ import annotations

import inspect
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

HEAD = """# Assumptions

Every word that may stand in the `assume` block, from the registry `dpspec/spec/assumptions.py` and the tasks; an unknown word is an error
([DP226](diagnostics/DP226.md)). What a word may be said of stands after `of`; without it the first of the list is meant. A card's need
is met by the word and its target, other spellings and what implies it included.

Status of an assumption in a plan: **proved** by a certificate, **enforced** by the data section or a client, **tested** where neither the
law of the `simulate` block nor public records refute it, **declared** otherwise. What they refute is an error in `check` and in `study`
([DP225](diagnostics/DP225.md)). Public records are data that the spec calls public (files, scikit-learn's sets, and what a study of
public data or `study --data` is handed), and the x of `with public x`; of fewer than 200 nothing is said, and of many some 20,000 are
looked at. Private records never are. A test calls a true statement false with probability about 1e-6 if records are independent draws;
not refuted is not proved, and bounds go on to say that they hold if it does. That a mean is too small is called later where its numbers
are so skewed that a few decide it: no sample says what rare large records add. An assumption is refuted only if the records as drawn and
as enforced both contradict it, and what a sample does not show (the noise of public data, a margin without weights) is not called
tested.
A statement about gradients is not tested: its constants are over every w of the set. Statements about a loss that no certificate decides
are held against the mean loss of the law at weights that are chosen on other records, for losses of one margin. `tests/data/test_refute.py`
and `tests/data/test_refute_loss.py` hold every procedure against a law on the limit of what is declared (level) and one beyond it (power);
`tests/compiler/test_public_refutes.py` does so with files.
"""


def _row(*cells: str) -> str:
    return "| " + " | ".join(c.replace("|", "\\|") for c in cells) + " |"


def document() -> str:
    from dpspec.algorithms.registry import all_modules
    from dpspec.data.refute import ON_ROWS, ON_SAMPLE
    from dpspec.data.refute_loss import ON_LOSS
    from dpspec.spec.assumptions import ASSUMPTIONS
    from dpspec.tasks.registry import tasks

    needed: dict[str, set[str]] = {}
    for module in all_modules():
        for need in module.CARD.needs:
            needed.setdefault(need.name, set()).add(module.CARD.id)
    tests = {**ON_ROWS, **ON_SAMPLE, **ON_LOSS}
    out = [HEAD, "## The registry", ""]
    out += [_row("assumption", "other words", "of", "means", "implies", "facts", "proved or tested", "needed by"), _row(*["---"] * 8)]
    for word, a in ASSUMPTIONS.items():
        where = f"`{tests[a.test].__module__.rpartition('.')[2]}.{a.test}`" if a.test else ""
        tested = " ".join((inspect.getdoc(tests[a.test]) or "").split()).split(": ")[0].rstrip(".") if a.test else ""
        how = "; of the population ".join(x for x in (a.shown, f"tested: {tested} ({where})" if a.test else "") if x)
        out.append(
            _row(
                f"`{word}{a.args}`",
                ", ".join(f"`{w}`" for w in a.also),
                ", ".join(a.of),
                a.means,
                ", ".join(f"`{w}`" for w in a.implies),
                ", ".join(f"`{f}`" for f in a.facts),
                how,
                ", ".join(sorted(needed.get(word, ()))),
            )
        )
    out += ["", "## Words of one kind of question", "", _row("assumption", "question", "means", "facts", "needed by"), _row(*["---"] * 5)]
    for task in tasks():
        for word, a in task.assumes.items():
            facts, ids = ", ".join(f"`{f}`" for f in a.facts), ", ".join(sorted(needed.get(word, ())))
            out.append(_row(f"`{word}`", task.name, a.means, facts, ids))
    stated = {*ASSUMPTIONS, *(word for task in tasks() for word in task.assumes)}
    out += ["", "## Needs that stand elsewhere than in `assume`", "", _row("need", "of"), _row("---", "---")]
    out += [_row(f"`{word}`", ", ".join(sorted(ids))) for word, ids in sorted(needed.items()) if word not in stated]
    return "\n".join(out) + "\n"


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs" / "assumptions.md"
    target.write_text(document(), encoding="utf-8")
