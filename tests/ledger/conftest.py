"""A PostgreSQL server of the tests' own, where Debian's packages have put one (apt-get install postgresql); no service is touched."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


def _binaries() -> Path | None:
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb")) or [Path(p) for p in [shutil.which("initdb")] if p]
    return found[-1].parent if found else None


@pytest.fixture(scope="session")
def server() -> Iterator[Path]:
    """The folder of the server's socket. Skips, with the reason, where none can be started."""
    pytest.importorskip("psycopg", reason="psycopg is not installed (dpspec[postgresql])")
    binaries = _binaries()
    if binaries is None:
        pytest.skip("no PostgreSQL server is installed (apt-get install postgresql)")
    as_user = {"user": "postgres"} if os.geteuid() == 0 else {}
    folder = Path(tempfile.mkdtemp(prefix="pg"))
    folder.chmod(0o777)
    try:
        for command in (
            [binaries / "initdb", "-D", folder / "data", "-U", "dpspec", "-A", "trust", "-N"],
            [
                binaries / "pg_ctl",
                *("-D", folder / "data", "-w", "-l", folder / "log", "start"),
                *("-o", f"-k {folder} -c listen_addresses='' -c max_connections=60 -c fsync=off"),  # nobody pulls the plug here
            ],
        ):
            done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False, timeout=120, cwd="/", **as_user)
            if done.returncode:
                pytest.skip(f"PostgreSQL cannot be started here: {done.stderr.strip()[-200:]}")
        yield folder
    finally:
        stop = [binaries / "pg_ctl", "-D", folder / "data", "-m", "immediate", "stop"]
        subprocess.run(list(map(str, stop)), capture_output=True, check=False, cwd="/", **as_user)
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def postgresql(server: Path, request: pytest.FixtureRequest) -> str:
    """The URL of an empty database."""
    import psycopg

    name = f"t{abs(hash(request.node.nodeid))}"
    with psycopg.connect(host=str(server), user="dpspec", dbname="postgres", autocommit=True) as connection:
        connection.execute(f'DROP DATABASE IF EXISTS "{name}"')  # type: ignore[arg-type]
        connection.execute(f'CREATE DATABASE "{name}"')  # type: ignore[arg-type]
    return f"postgresql://dpspec@/{name}?host={server}"
