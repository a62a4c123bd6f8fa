"""Coverage-guided fuzzing of both parsers with atheris: ``python tests/fuzz/fuzz_parsers.py [libFuzzer options] [corpus]``.

Nothing but SpecError may leave the parsers; what parses must survive printing and formatting; no input may take longer than two
seconds of processor time. Seeds are the forms of the language. Not part of the test run: atheris is installed apart.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import atheris

ROOT = Path(__file__).parent.parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "lang")]

with atheris.instrument_imports(include=["dpspec.lang"]):
    from dpspec.lang.format import format_text
    from dpspec.lang.printer import to_dps, to_yaml
    from dpspec.lang.source import parse_text
    from dpspec.spec.diagnostics import SpecError

LIMIT = 2.0


def one_input(data: bytes) -> None:
    if not data:
        return
    path = "a.dps" if data[0] % 2 else "a.dpspec.yaml"
    text = (
        data[1:].decode("utf-8", "surrogatepass" if data[0] % 4 < 2 else "replace") if _decodable(data[1:]) else data[1:].decode("latin-1")
    )
    start = time.process_time()
    try:
        parsed = parse_text(text, path)
    except SpecError:
        assert time.process_time() - start < LIMIT, "too slow"
        return
    assert time.process_time() - start < LIMIT, "too slow"
    assert parse_text(to_dps(parsed.analysis), "a.dps").analysis == parsed.analysis
    assert parse_text(to_yaml(parsed.analysis), "a.yaml").analysis == parsed.analysis
    once = format_text(text, path)
    assert format_text(once, path) == once


def _decodable(data: bytes) -> bool:
    try:
        data.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return False
    return True


def write_seeds(folder: Path) -> None:
    """Both surfaces of every form, and every bad spec, as the starting corpus."""
    from forms import specs

    folder.mkdir(parents=True, exist_ok=True)
    for name, text in specs().items():
        (folder / f"{name}.dps").write_bytes(b"\x01" + text.encode())
        yaml = to_yaml(parse_text(text, "a.dps").analysis)
        (folder / f"{name}.yaml").write_bytes(b"\x00" + yaml.encode())
    for path in (ROOT / "tests" / "bad_specs").iterdir():
        if path.name != "expected.yaml":
            (folder / path.name).write_bytes((b"\x01" if path.suffix == ".dps" else b"\x00") + path.read_bytes())


if __name__ == "__main__":
    folders = [a for a in sys.argv[1:] if not a.startswith("-")]
    if folders:
        write_seeds(Path(folders[0]))
    atheris.Setup(sys.argv, one_input)
    atheris.Fuzz()
