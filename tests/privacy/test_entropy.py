"""The stream of random bytes: fresh for every thread and every forked process, keyed anew in time, and never written."""

from __future__ import annotations

import copy
import multiprocessing
import os
import pickle
import threading

import numpy as np
import pytest
from scipy import stats

from dpspec.privacy import entropy


def test_bytes_are_uniform_and_do_not_repeat():
    for size in (1, 7, entropy.BLOCK // 8, entropy.BLOCK, 100_000):
        assert len(entropy.random_bytes(size)) == size
    assert entropy.random_bytes(0) == b""
    found = np.frombuffer(entropy.random_bytes(1 << 20), dtype=np.uint8)
    assert stats.chisquare(np.bincount(found, minlength=256)).pvalue > 1e-6
    words = np.frombuffer(b"".join(entropy.random_bytes(8) for _ in range(20_000)), dtype=np.uint64)
    assert np.unique(words).size == words.size  # two alike have a probability of 1e-11


def test_the_stream_is_that_of_the_cipher(monkeypatch):
    """Bytes 8 to 40 of the first block of RFC 8439, 2.4.2, whose counter begins at 1: nothing is left out, and nothing handed out twice."""
    key, nonce = bytes(range(32)), bytes.fromhex("01000000000000000000004a00000000")
    monkeypatch.setattr(entropy.os, "urandom", lambda n: key if n == 32 else nonce[-n:])
    stream = entropy._Stream()
    stream.take(64)  # the block of the counter 0
    expected = bytes.fromhex(
        "224f51f3401bd9e12fde276fb8631ded8c131f823d2c06e27e4fcaec9ef3cf788a3b0aa372600a92b57974cded2b9334794cba40c63e34cdea212c4cf07d41b7"
    )
    assert stream.take(8) + stream.take(32) + stream.take(24) == expected


def test_a_stream_lasts_as_long_as_its_key_whatever_the_nonce(monkeypatch):
    """The first four bytes of what the library calls the nonce are the block counter, and it raises where that overflows. A counter that
    is drawn at random overflows before the key is changed once in 256 streams, in the middle of a release that is charged already."""
    monkeypatch.setattr(entropy.os, "urandom", lambda n: b"\xff" * n)
    stream = entropy._Stream()
    assert len(stream.take(3 * entropy.BLOCK)) == 3 * entropy.BLOCK
    assert entropy.MOST < 64 << 32


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_process_has_a_stream_of_its_own():
    """What a parent had left in its block, or drawn ahead, must not be drawn by its child too."""
    entropy.random_bytes(8)
    entropy.drawn_ahead()["law"] = [1]
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    child = context.Process(target=lambda: queue.put((entropy.random_bytes(64), dict(entropy.drawn_ahead()))))
    child.start()
    there, ahead = queue.get(timeout=30)
    child.join()
    assert there != entropy.random_bytes(64)
    assert ahead == {}
    assert entropy.drawn_ahead().pop("law") == [1]


def test_a_copied_process_number_is_noticed_too(monkeypatch):
    """Where no hook runs at a fork: the number of the process tells."""
    entropy.drawn_ahead()["law"] = [1]
    before = entropy._streams.stream
    number = os.getpid()
    monkeypatch.setattr(entropy.os, "getpid", lambda: number + 1)
    assert entropy.drawn_ahead() == {}
    assert entropy._streams.stream is not before


def test_threads_have_streams_of_their_own():
    found: list[bytes] = []
    threads = [threading.Thread(target=lambda: found.append(entropy.random_bytes(32))) for _ in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(set(found)) == 8


def test_keys_are_changed_in_time(monkeypatch):
    monkeypatch.setattr(entropy, "MOST", entropy.BLOCK * 4)
    keys: list[int] = []
    real = os.urandom
    monkeypatch.setattr(entropy.os, "urandom", lambda n: keys.append(n) or real(n))
    stream = entropy._Stream()
    for _ in range(16):
        stream.take(entropy.BLOCK)
    assert keys.count(32) == 4
    assert len(stream.take(entropy.BLOCK * 9)) == entropy.BLOCK * 9  # longer than a key lasts
    assert keys.count(32) == 7


def test_a_stream_is_never_written():
    for write in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError):
            write(entropy._streams.stream)
