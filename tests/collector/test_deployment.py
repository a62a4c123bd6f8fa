"""A deployment from end to end: reports made by the client package alone, over HTTP, among malformed and repeated ones, through a collector
that is killed on the way."""

from __future__ import annotations

import http.client
import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.cli.call import call
from tests.local_support import vectors

N, D = 10_000, 4
ROOT = Path(__file__).parents[2]

#: Run with the client package alone: nothing else of ours is imported.
PEOPLE = """
import json, sys
import numpy as np
from dpspec import client
device = client.load(sys.argv[1], epsilon=2.0, plan=sys.argv[2])
x = np.load(sys.argv[3])
with open(sys.argv[4], "wb") as out:
    for row in x:
        out.write(client.Client(device).report(row))
assert {m.split(".")[0] for m in sys.modules} - set(sys.stdlib_module_names) <= {"__main__", "dpspec", "numpy", "cryptography",
    "_cffi_backend"} | {m for m in sys.modules if m.startswith("_")}, sys.modules
assert not [m for m in sys.modules if m.startswith(("dpspec.collector", "dpspec.compiler", "dpspec.algorithms", "dpspec.spec"))]
"""


class Collector:
    """``dpspec collect --serve`` in a process of its own, on a port that is free."""

    def __init__(self, folder: Path) -> None:
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            self.port = s.getsockname()[1]
        words = [sys.executable, "-m", "dpspec", "collect", "plan.dps", "--serve", f"127.0.0.1:{self.port}", "-q"]
        self.process = subprocess.Popen(words, cwd=folder, env={**os.environ, "PYTHONPATH": str(ROOT)})
        for _ in range(600):
            try:
                self.connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
                self.connection.connect()
                return
            except OSError:
                time.sleep(0.1)
        raise AssertionError("the collector does not answer")

    def ask(self, method: str, path: str, body: bytes | None = None) -> Any:
        """Once more on a connection of its own where the server has closed the idle one: the same bytes count once."""
        for last in (False, True):
            try:
                self.connection.request(method, path, body, {"Content-Type": "application/octet-stream"})
                return json.loads(self.connection.getresponse().read())
            except (BrokenPipeError, ConnectionResetError, http.client.RemoteDisconnected):
                if last:
                    raise
                self.connection.close()

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()


@pytest.mark.slow
def test_ten_thousand_people_through_a_collector_that_is_killed(tmp_path: Path) -> None:
    """The l2 error of the mean is within the planned bound at probability 1 - 1e-7 (its tunable zeta)."""
    pytest.importorskip("uvicorn", reason="the extra `collector`")
    question = "estimate mean(x)\n  by ldp-mean with channel = hemisphere, zeta = 1e-7"
    (tmp_path / "plan.dps").write_text('analysis "deployment"\n' + vectors(question, n=N, d=D))
    assert call("plan", str(tmp_path / "plan.dps"), "--out", str(tmp_path / "plan.json"), "-q").code == 0
    plan = json.loads((tmp_path / "plan.json").read_text())
    rng = np.random.default_rng(11)
    x = np.array([0.5, -0.3, 0.2, 0.0]) + rng.normal(0, 0.1, (N, D))
    np.save(tmp_path / "x.npy", x)

    server = Collector(tmp_path)
    try:
        (tmp_path / "client.json").write_text(json.dumps(server.ask("GET", "/client")))
        files = [str(tmp_path / name) for name in ("client.json", "x.npy", "sent.bin")]
        words = [sys.executable, "-c", PEOPLE, files[0], plan["sha256"], *files[1:]]
        subprocess.run(words, check=True, env={**os.environ, "PYTHONPATH": str(ROOT)})
        data = (tmp_path / "sent.bin").read_bytes()
        length = len(data) // N
        sent = [data[i : i + length] for i in range(0, len(data), length)]

        mixer = random.Random(5)
        requests = [b"".join(sent[i : i + 20]) for i in range(0, N, 20)]
        bad = [mixer.choice([mixer.randbytes(length), sent[i][:-5], sent[i][:56] + mixer.randbytes(length - 56)]) for i in range(N // 100)]
        again = mixer.sample(sent, N // 100)
        requests += [*bad, *again]
        mixer.shuffle(requests)
        killed_at, lost = len(requests) // 2, requests[len(requests) // 2]
        for i, body in enumerate(requests):
            if i == killed_at:  # the request is on its way when the collector dies: its sender gets no answer and sends it again
                server.connection.request("POST", "/reports", body, {"Content-Type": "application/octet-stream"})
                server.kill()
                server = Collector(tmp_path)
                requests.append(lost)
                continue
            server.ask("POST", "/reports", body)
        server.ask("POST", "/reports", lost)
        status = server.ask("GET", "/status")
    finally:
        server.kill()
    assert status["users"] == [N]
    assert status["refused"]["malformed"] == N // 100
    assert N // 100 <= status["refused"]["duplicate"] <= N // 100 + 40

    done = call("collect", str(tmp_path / "plan.dps"), "--out", str(tmp_path / "released"), "--format", "json")
    assert done.code == 0, done.stderr
    record = json.loads((tmp_path / "released" / "record.json").read_text())
    assert record["plan_sha256"] == plan["sha256"]
    assert record["events"][0]["users"] == N
    with np.load(tmp_path / "released" / "answer.npz") as arrays:
        (name,) = arrays.files
        estimate = arrays[name]
    truth = np.array([0.5, -0.3, 0.2, 0.0])
    (bound,) = [b for b in plan["releases"][0]["bounds"] if b["measure"] == "l2-error" and b["kind"] == "explicit"]
    assert np.linalg.norm(estimate - truth) <= bound["value"]
    standard = plan["releases"][0]["noise"][0]["scale"] / np.sqrt(N * D)  # of a coordinate, about
    assert np.abs(estimate - truth).max() <= 6 * standard
    (influence,) = json.loads(done.stdout)["influence"]
    assert influence["moves"] == pytest.approx(2 * plan["releases"][0]["noise"][0]["scale"] / N, rel=1e-6)
