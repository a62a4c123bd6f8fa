"""mkdocs hooks: the pages of algorithms and diagnostics are generated from the code before a build."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent


def on_pre_build(config: Any) -> None:
    sys.path[:0] = [str(HERE), str(HERE.parent)]
    import gen_algorithms
    import gen_diagnostics

    gen_algorithms.main(HERE / "algorithms" / "cards")
    gen_diagnostics.main(HERE / "diagnostics")
