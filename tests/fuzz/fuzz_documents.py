"""Coverage-guided fuzzing of what ``dpspec audit`` and ``dpspec diff`` read.

``python tests/fuzz/fuzz_documents.py descriptions|plans [libFuzzer options]``, run from the root.

A document (a description of a deployment; a plan or record of ours) has values replaced, removed, doubled, moved and renamed, or its text
is cut. Nothing but SpecError may leave the audit, no reading may take longer than ten seconds of processor time, and a verdict is one of
those that are documented. Not part of the test run: atheris is installed apart; findings become cases of ``test_fuzz_documents.py``.
"""

from __future__ import annotations

import copy
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, get_args

import atheris
import typer

ROOT = Path(__file__).parent.parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "lang")]

with atheris.instrument_imports(include=["dpspec.audit", "dpspec.privacy.forms", "dpspec.compiler.diff", "dpspec.compiler.promise"]):
    from dpspec.audit import audit
    from dpspec.audit.verdict import Verdict
    from dpspec.audit.yamlread import read_yaml
    from dpspec.cli.common import MALFORMED
    from dpspec.cli.plan import read_plan
    from dpspec.compiler.diff import compare
    from dpspec.compiler.plan import make_plan
    from dpspec.lang.source import parse_file
    from dpspec.spec.diagnostics import SpecError
    from tests.fuzz.test_fuzz_documents import DESCRIPTIONS, HOSTILE, places, yaml_of

LIMIT = 10.0
FOLDER = Path(tempfile.mkdtemp())


def seeds(kind: str) -> list[Any]:
    """Descriptions: the forms of the test beside this file, and every event and channel of the readings of real cases in a setting of its
    own. Plans: those of every spec of the gallery."""
    if kind == "plans":
        return [make_plan(parse_file(p)).to_json() for p in sorted((ROOT / "specs").rglob("*.dps")) if "reproduce" not in p.parts]
    found = list(DESCRIPTIONS)
    for reading in read_yaml((ROOT / "tests" / "audit" / "readings.yaml").read_text(encoding="utf-8")).data["readings"]:
        for body in (reading, *reading.get("variants", ())):
            what = {key: body[key] for key in ("events", "channel", "facts", "tool") if key in body}
            if what:
                setting = {"model": "central", "unit": "record", "neighbouring": "add_remove", "n": 1000}
                found.append({"audit": 1, "subject": "a case", "setting": setting, "claim": {"epsilon": 1, "delta": 1e-6}, **what})
    return found


def mutate(data: atheris.FuzzedDataProvider, body: Any, values: list[Any]) -> Any:
    out = copy.deepcopy(body)
    for _ in range(data.ConsumeIntInRange(1, 4)):
        where = places(out)
        if not where:
            return out
        *path, last = where[data.ConsumeIntInRange(0, len(where) - 1)]
        parent = out
        for key in path:
            parent = parent[key]
        how = data.ConsumeIntInRange(0, 7)
        if how == 0:
            del parent[last]
        elif how == 1 and isinstance(parent, list):
            parent.append(copy.deepcopy(parent[last]))
        elif how == 2:
            parent[last] = data.ConsumeFloat()
        elif how == 3:
            parent[last] = data.ConsumeInt(4)
        elif how == 4 and isinstance(parent, dict):
            parent[data.ConsumeUnicode(8)] = parent.pop(last)
        elif how == 5:
            parent[last] = copy.deepcopy(values[data.ConsumeIntInRange(0, len(values) - 1)])
        else:
            parent[last] = copy.deepcopy(HOSTILE[data.ConsumeIntInRange(0, len(HOSTILE) - 1)])
    return out


def main() -> None:
    kind = sys.argv.pop(1)
    documents = seeds(kind)
    values = [v for body in documents for v in inside(body)]
    file, other = FOLDER / f"a.{'json' if kind == 'plans' else 'yaml'}", FOLDER / "b.json"
    other.write_text(yaml_of(documents[0]))

    def one_input(raw: bytes) -> None:
        data = atheris.FuzzedDataProvider(raw)
        text = yaml_of(mutate(data, documents[data.ConsumeIntInRange(0, len(documents) - 1)], values))
        if data.ConsumeIntInRange(0, 9) == 0:
            text = text[: data.ConsumeIntInRange(0, len(text))] + data.ConsumeUnicode(5)
        file.write_text(text, encoding="utf-8", errors="replace")
        start = time.process_time()
        try:
            result = audit(file)
        except SpecError:
            pass
        else:
            assert result.verdict in get_args(Verdict)
            result.text(), json.dumps(result.to_json())
        if kind == "plans":
            for pair in ((file, other), (other, file)):
                try:
                    compare(*(read_plan(p) for p in pair))
                except (SpecError, typer.Exit, *MALFORMED):  # the command turns these into words, as it does here
                    continue
        assert time.process_time() - start < LIMIT, "too slow"

    atheris.Setup(sys.argv, one_input)
    atheris.Fuzz()


def inside(body: Any) -> list[Any]:
    out = []
    for path in places(body):
        value = body
        for key in path:
            value = value[key]
        out.append(value)
    return out


if __name__ == "__main__":
    main()
