"""Random bytes for secure noise: a stream cipher whose key and nonce come from the operating system.

Each thread has a ChaCha20 stream of its own (RFC 8439; the ``cryptography`` package, OpenSSL below it). What is handed out is key stream
that nothing else uses and that is not kept. The assumption that this adds to that of the system's own generator, itself ChaCha20 on Linux,
is that ChaCha20 under a fresh 256-bit key cannot be told from random bytes; in exchange bytes cost a tenth.

A stream is keyed anew after :data:`MOST` bytes and in every process that ``fork`` makes (a copy of the state would repeat its parent's
noise: two releases with one noise give the difference of their values away). Keys are in memory alone: no object here can be pickled or
copied, and nothing writes one.

A device that runs :mod:`dpspec.client` may have NumPy and no ``cryptography``: all bytes are then those of the system's generator itself,
which is slower and needs no assumption beside its own.
"""

from __future__ import annotations

import os
import threading
from typing import Any, Final

#: Bytes of one key. The block counter of ChaCha20, which begins at 0, would last 256 GiB; the library raises where it overflows.
MOST: Final = 1 << 30
_COUNTER: Final = bytes(4)
#: Small requests are cut from a block of this many bytes.
BLOCK: Final = 1 << 15


class _Stream:
    """The key stream of one thread. ``process``: whose; ``left``: bytes until the next key."""

    __slots__ = ("block", "cipher", "left", "process", "used")

    def __init__(self) -> None:
        self.process, self.left, self.used, self.block = -1, 0, 0, b""
        self.cipher: Any = None

    def _bytes(self, n: int) -> bytes:
        cipher = self.cipher
        if self.left < n or self.process != os.getpid():
            try:
                from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
            except ImportError:
                return os.urandom(n)
            cipher = self.cipher = Cipher(algorithms.ChaCha20(os.urandom(32), _COUNTER + os.urandom(12)), mode=None).encryptor()
            self.process, self.left = os.getpid(), MOST
        self.left -= n
        out: bytes = cipher.update(bytes(n))
        return out

    def take(self, n: int) -> bytes:
        if n > BLOCK // 8:
            return b"".join(self._bytes(min(MOST, n - start)) for start in range(0, n, MOST))
        if self.used + n > len(self.block) or self.process != os.getpid():
            self.block, self.used = self._bytes(BLOCK), 0
        out = self.block[self.used : self.used + n]
        self.used += n
        return out

    def __reduce__(self) -> Any:
        raise TypeError("a source of secure noise cannot be copied or written")


class _Streams(threading.local):
    def __init__(self) -> None:
        self.stream = _Stream()
        self.ahead: dict[Any, Any] = {}
        self.process = os.getpid()


_streams = _Streams()
if hasattr(os, "register_at_fork"):  # beside the check of the process: its number may come round again
    os.register_at_fork(after_in_child=lambda: _streams.__init__())  # type: ignore[misc]


def random_bytes(n: int) -> bytes:
    """``n`` bytes that nobody has seen."""
    return _streams.stream.take(n)


def drawn_ahead() -> dict[Any, Any]:
    """Noise that this thread has drawn and not yet handed out, by law; empty in a process that ``fork`` made."""
    if _streams.process != os.getpid():
        _streams.__init__()  # type: ignore[misc]
    return _streams.ahead
