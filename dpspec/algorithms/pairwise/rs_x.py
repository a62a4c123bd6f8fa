"""RS-x, the buffer of the finite-buffer methods: s places, each a uniform earlier record, from public coins.

    t <= s: record t is added;   t = s + 1: s records are drawn from the s + 1 with replacement;   t > s + 1: each place becomes record t
    with probability 1/t, independently.

After record t every place holds each of the records 1..t with probability 1/t, and places are independent. What is kept is record
*numbers*: a function of n, s and public coins (:mod:`dpspec.numeric.coins`), known before any record is read, so the buffer alone spends
nothing and a plan can count how long each record stays. A record that takes a place at time i still holds it at time t with probability
i/t: some stay for most of a stream, which is what the printed calibration of the methods that read the buffer overlooks.

Source: 000, section 3.3.2, Algorithm 3.3.11. Difference: its first branch assigns to TMP and leaves the buffer empty.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpspec.algorithms.card import Card, Fault, Source
from dpspec.numeric.coins import coins

_TESTS = "tests/algorithms/pairwise/test_rs_x.py::"

CARD = Card(
    id="rs-x",
    title="Reservoir of s records with replacement",
    family="pairwise",
    task="primitive",
    models=("central",),
    guarantees=(),
    sources=(Source("000", "3.3.2", "Algorithm 3.3.11"),),
    summary="s places, each uniform on the records so far and independent of the others; decided by place in the stream and public coins.",
    no_bound="it estimates nothing; after record t a place holds each of the t records with probability 1/t",
    faults=(
        Fault(
            "000 Algorithm 3.3.11, line 3: TMP = B + {z_t} while the buffer is not full",
            "B stays empty for ever; B = B + {z_t} is meant",
            _TESTS + "test_the_printed_first_branch_leaves_the_buffer_empty",
            "text",
        ),
        Fault(
            "000 section 3.3.2: the adversary does not see the buffer, so its content and coins are of no concern",
            "secrecy of the coins does not save the methods that hide the iterate; with the iterate released the coins may "
            "be public, as here",
            "tests/algorithms/pairwise/test_fb_on_pair_str_c.py::test_secret_coins_do_not_save_the_hidden_chain",
            "privacy",
        ),
        Fault(
            "000, text after Theorem 3.3.4: s = omega(n)",
            "a buffer never needs more than n places: Omega(n), and Omega(sqrt(n)) in the convex case, is meant",
            _TESTS + "test_a_place_is_uniform_and_places_are_independent",
            "text",
        ),
    ),
    role="primitive",
)


def rs_x(held: NDArray[np.int64], seen: int, stop: int, size: int, seed: int) -> NDArray[np.int64]:
    """The record numbers, counted from 0, that the buffer holds after records ``seen`` .. ``stop`` - 1, from what it held before them."""
    if seen < size:  # the first s records, each in its place
        upto = min(size, stop)
        held, seen = np.concatenate([held, np.arange(seen, upto, dtype=np.int64)]), upto
    if seen == size and seen < stop:  # record s + 1: everything is drawn anew, with replacement
        toss = coins(seed, np.array([seen]), size)[0]
        held, seen = np.minimum((toss * (size + 1)).astype(np.int64), size), seen + 1
    rows = max(1, (1 << 20) // size)
    for start in range(seen, stop, rows):
        times = np.arange(start, min(start + rows, stop), dtype=np.int64)
        taken = coins(seed, times, size) * (times[:, None] + 1) < 1
        last = len(times) - 1 - np.argmax(taken[::-1], axis=0)
        held = np.where(taken.any(axis=0), times[last], held)
    return held
