"""Headless Chromium over its debugging pipe: what a page logs, asks for and how wide it is."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest


def chromium() -> str:
    """The browser's path; skips the test with a reason when there is none."""
    for name in ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable"):
        found = shutil.which(name)
        if found:
            return found
    pytest.skip("no chromium on this machine: apt-get install chromium")


class Browser:
    """One page. ``events``: everything that the browser reported about it."""

    def __init__(self, send: int, receive: int) -> None:
        self._send, self._receive, self._rest, self._last, self._session = send, receive, b"", 0, ""
        self.events: list[dict[str, Any]] = []
        target = self("Target.createTarget", url="about:blank")["targetId"]
        self._session = self("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Network", "Log", "Runtime"):
            self(f"{domain}.enable")

    def __call__(self, method: str, **params: Any) -> dict[str, Any]:
        self._last += 1
        message = {"id": self._last, "method": method, "params": params, **({"sessionId": self._session} if self._session else {})}
        os.write(self._send, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._last:
                if "error" in answer:
                    raise RuntimeError(answer["error"])
                return dict(answer["result"])
            self.events.append(answer)

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            part = os.read(self._receive, 1 << 16)
            if not part:
                raise RuntimeError("the browser went away")
            self._rest += part
        line, _, self._rest = self._rest.partition(b"\0")
        return dict(json.loads(line))

    def open(self, page: Path, *, width: int, scheme: str) -> None:
        self.events.clear()
        self("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=width < 600)
        self("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        self("Page.navigate", url=page.as_uri())
        while not any(e.get("method") == "Page.loadEventFired" for e in self.events):
            self.events.append(self._next())

    def evaluate(self, expression: str) -> Any:
        return self("Runtime.evaluate", expression=expression, returnByValue=True)["result"].get("value")

    def screenshot(self, file: Path) -> None:
        size = self("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": min(size["height"], 6000), "scale": 1}
        data = self("Page.captureScreenshot", format="png", clip=clip, captureBeyondViewport=True)["data"]
        file.write_bytes(base64.b64decode(data))


@contextlib.contextmanager
def browser(profile: Path) -> Iterator[Browser]:
    program = chromium()
    ours, theirs = os.pipe(), os.pipe()  # (read, write): commands to it, answers from it
    words = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
    words += ["--disable-background-networking", "--remote-debugging-pipe"]
    script = f'exec "$0" "$@" 3<&{ours[0]} 4>&{theirs[1]}'
    process = subprocess.Popen(
        ["/bin/bash", "-c", script, program, *words, f"--user-data-dir={profile}"],
        pass_fds=(ours[0], theirs[1]),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    os.close(ours[0])
    os.close(theirs[1])
    try:
        yield Browser(ours[1], theirs[0])
    finally:
        os.close(ours[1])
        os.close(theirs[0])
        process.terminate()
        process.wait(20)
