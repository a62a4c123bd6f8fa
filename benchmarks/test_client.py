"""Local deployments: a client's report at d = 100 (limit 1 ms), its start (limit 150 ms, NumPy included), and a collector of a million
reports (limits 60 s and 300 MB)."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpspec import client
from dpspec.client.frame import ID_BYTES, header
from dpspec.collector.export import device_of
from dpspec.privacy.noise import SecureNoise
from tests.local_support import COLUMNS, plan_of, vectors

MILLION = 10**6
CHANNELS = {
    "hemisphere": vectors("estimate mean(x)\n  by ldp-mean with channel = hemisphere", d=100),
    "laplace": vectors("estimate mean(x)\n  by ldp-mean with channel = laplace", d=100),
    "gaussian": vectors("estimate mean(x)\n  by ldp-mean with channel = gaussian", d=100, delta=", delta = 1e-6"),
}
PLANS = {
    "one bit": 'analysis "local"\n' + COLUMNS.format(n=MILLION, question="estimate count where age >= 18\n  by ldp-count"),
    "hemisphere, d = 100": 'analysis "local"\n' + vectors("estimate mean(x)\n  by ldp-mean with channel = hemisphere", n=MILLION, d=100),
}


@pytest.mark.parametrize("name", sorted(CHANNELS))
def test_a_report_takes_less_than_a_millisecond(name: str, benchmark: Any) -> None:
    device = device_of(plan_of(CHANNELS[name]))
    x = np.random.default_rng(0).normal(size=100)
    benchmark(client.report, device, x)
    assert benchmark.stats.stats.median < 1e-3


def test_a_client_starts_within_150_ms(tmp_path: Path) -> None:
    """Processor time, the least of ten processes after one that compiles (other work only adds), the interpreter's own start taken off."""
    env = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"} | {"PYTHONPYCACHEPREFIX": str(tmp_path)}

    def seconds(code: str) -> float:
        times = []
        command = [sys.executable, "-S", "-c", f"import sys; sys.path[:] = {sys.path!r}\n{code}"]
        subprocess.run(command, check=True, env=env)
        for _ in range(10):
            start = resource.getrusage(resource.RUSAGE_CHILDREN)
            subprocess.run(command, check=True, env=env)
            end = resource.getrusage(resource.RUSAGE_CHILDREN)
            times.append(end.ru_utime - start.ru_utime + end.ru_stime - start.ru_stime)
        return min(times)

    bare, numpy, ours = seconds("pass"), seconds("import numpy"), seconds("import dpspec.client")
    print(f"numpy {1e3 * (numpy - bare):.0f} ms, with dpspec.client {1e3 * (ours - bare):.0f} ms")
    assert ours - bare < 0.150


def written(file: Path, text: str) -> None:
    """A million valid reports: encoded in blocks, as bytes of single clients."""
    device = device_of(plan_of(text.partition("\n")[2]))
    (draw,) = device.draws
    rng, noise = np.random.default_rng(0), SecureNoise()
    prefix = np.frombuffer(header(1, device.plan, bytes(ID_BYTES))[:-ID_BYTES], dtype=np.uint8)
    with file.open("wb") as out:
        for _ in range(MILLION // 10_000):
            x = rng.normal(size=(10_000, device.d))
            reports = draw.channel.encode(draw.feature.values(x, None, {}, rng)[0], draw.level, noise)
            payload = np.packbits(draw.codec.pack(draw.codec.numbers(reports)), axis=1, bitorder="little")
            ids = np.frombuffer(os.urandom(10_000 * ID_BYTES), dtype=np.uint8).reshape(10_000, ID_BYTES)
            out.write(np.concatenate([np.broadcast_to(prefix, (10_000, prefix.size)), ids, payload], axis=1).tobytes())


@pytest.mark.parametrize("name", sorted(PLANS))
def test_a_million_reports_take_less_than_a_minute_and_300_mb(name: str, tmp_path: Path) -> None:
    (tmp_path / "plan.dps").write_text(PLANS[name])
    written(tmp_path / "reports", PLANS[name])
    code = (
        "import resource, sys, time\n"
        "from dpspec.cli.main import main\n"
        "start = time.perf_counter()\n"
        "try:\n    main()\n"
        "finally:\n"
        "    used = resource.getrusage(resource.RUSAGE_SELF)\n"
        "    sys.stderr.write(f'{time.perf_counter() - start} {used.ru_utime + used.ru_stime} {used.ru_maxrss}')\n"
    )
    words = ["collect", "plan.dps", "reports", "--out", "released"]
    done = subprocess.run([sys.executable, "-c", code, *words], cwd=tmp_path, capture_output=True, text=True, check=True)
    seconds, processor, kilobytes = map(float, done.stderr.splitlines()[-1].split())
    print(f"\n{name}: {seconds:.1f} s ({processor:.1f} s of the processor), {kilobytes / 1024:.0f} MB")
    assert "1,000,000 of 1,000,000" in done.stdout
    assert seconds < 60
    assert kilobytes < 300 * 1024
