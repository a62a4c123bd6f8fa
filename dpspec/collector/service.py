"""The collector over HTTP: an ASGI application (Starlette) on a store.

================== ==================================================================================================================
``GET /client``    the client file of the plan
``GET /state``     what the users of the open round are told
``GET /status``    the open round, whose reports came, how many were refused by reason
``POST /reports``  ``application/octet-stream``: reports of the plan, one after another; the answer counts what was accepted and refused
================== ==================================================================================================================

A request is one transaction: when it is answered its reports are on the disk, and a sender that gets no answer sends the same bytes again,
which count once. Nothing in an answer depends on a record. A body longer than :data:`MOST_BYTES` is refused before it is read whole.
"""

from __future__ import annotations

import threading
from collections import Counter
from typing import Any, Final

from dpspec.collector.closing import Collected, state_of
from dpspec.collector.export import client_form
from dpspec.collector.intake import split
from dpspec.collector.store import Store
from dpspec.compiler.plan import Plan

MOST_BYTES: Final = 1 << 23


class Service:
    """What the routes do; one writer at a time."""

    def __init__(self, plan: Plan, store: Store) -> None:
        self.plan, self.store = plan, store
        self.client = client_form(plan)
        self._lock = threading.Lock()
        self._state: dict[str, Any] = {}

    def take(self, body: bytes) -> dict[str, int]:
        with self._lock:
            found = take(self.store, [body])
            follow(self.plan, self.store)
        return dict(found)

    def state(self) -> dict[str, Any]:
        with self._lock:
            at = self.store.round
            if self._state.get("round") != at:
                self._state = open_state(self.plan, self.store)
            return self._state

    def status(self) -> dict[str, Any]:
        with self._lock:
            return status(self.store)


def take(store: Store, pieces: Any) -> Counter[str]:
    """Adds a stream of reports, a transaction a block, and counts."""
    total: Counter[str] = Counter()
    refused: Counter[str] = Counter()
    for rows in split(store.device, pieces, refused):
        total += store.take(rows, Counter())
    store.count(refused)
    return total + refused


def follow(plan: Plan, store: Store) -> None:
    """Opens the next round where the open one has all its users."""
    at = store.round
    if at < len(store.sizes) and store.users(at) >= store.sizes[at - 1]:
        store.advance(at + 1)


def collected(plan: Plan, store: Store) -> Collected:
    return Collected(plan, store.device, store.tallies())


def open_state(plan: Plan, store: Store) -> dict[str, Any]:
    return state_of(collected(plan, store), store.round)


def status(store: Store) -> dict[str, Any]:
    at = store.round
    return {
        "plan": store.device.plan.hex(),
        "round": at,
        "rounds": len(store.sizes),
        "users": [store.users(i + 1) for i in range(at)],
        "needed": list(store.sizes),
        "refused": store.refused(),
    }


def application(plan: Plan, store: Store) -> Any:
    """The ASGI application. Raises ``ImportError`` without the extra ``collector``."""
    from starlette.applications import Starlette
    from starlette.concurrency import run_in_threadpool
    from starlette.requests import Request
    from starlette.responses import JSONResponse, Response
    from starlette.routing import Route

    service = Service(plan, store)

    async def client(request: Request) -> Response:
        return JSONResponse(service.client)

    async def state(request: Request) -> Response:
        return JSONResponse(await run_in_threadpool(service.state))

    async def told(request: Request) -> Response:
        return JSONResponse(await run_in_threadpool(service.status))

    async def reports(request: Request) -> Response:
        if request.headers.get("content-type", "").partition(";")[0].strip() != "application/octet-stream":
            return JSONResponse({"error": "reports are application/octet-stream"}, 415)
        body = bytearray()
        async for piece in request.stream():
            body += piece
            if len(body) > MOST_BYTES:
                return JSONResponse({"error": f"a request has at most {MOST_BYTES} bytes"}, 413)
        return JSONResponse(await run_in_threadpool(service.take, bytes(body)))

    return Starlette(
        routes=[
            Route("/client", client),
            Route("/state", state),
            Route("/status", told),
            Route("/reports", reports, methods=["POST"]),
        ]
    )


def serve(plan: Plan, store: Store, host: str, port: int, *, quiet: bool = False) -> None:
    """Serves until it is interrupted."""
    import uvicorn

    uvicorn.run(application(plan, store), host=host, port=port, log_level="warning" if quiet else "info", access_log=False)
