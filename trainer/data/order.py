"""Which windows a step trains on: a pure function of (fingerprint, seed, step), with nothing to store.

Each epoch visits every window once, in its own order. The order is a permutation that is computed point by
point (a Feistel network, walked until it lands inside the range): a step costs the same in an epoch of any
length, a resumed job needs only its step, and no library's random generator can change it.
"""

import hashlib

import numpy as np
import numpy.typing as npt

_ROUNDS = 6

Indices = npt.NDArray[np.int64]


def windows_of_step(fingerprint: str, seed: int, step: int, batch: int, windows: int) -> Indices:
    """Indices in [0, windows) of the `batch` windows of update `step` (from 0). Epochs follow gaplessly."""
    positions = np.arange(step * batch, (step + 1) * batch, dtype=np.int64)
    epochs, offsets = positions // windows, positions % windows
    chosen = np.empty(batch, dtype=np.int64)
    for epoch in np.unique(epochs):
        inside = epochs == epoch
        key = hashlib.sha256(f"order/{fingerprint}/{seed}/{epoch}".encode()).digest()
        chosen[inside] = permute(offsets[inside], windows, key)
    return chosen


def permute(offsets: Indices, size: int, key: bytes) -> Indices:
    """Where a keyed permutation of [0, size) sends each of `offsets`. `key`: 32 bytes."""
    half_bits = np.uint64(max(1, ((size - 1).bit_length() + 1) // 2))
    low = np.uint64((1 << int(half_bits)) - 1)
    seeds = np.frombuffer(key, dtype="<u8").astype(np.uint64)
    round_keys = [_mix(seeds[r % 4 : r % 4 + 1] + np.uint64(r)) for r in range(_ROUNDS)]
    values = offsets.astype(np.uint64)
    outside = np.ones(len(values), dtype=bool)
    while outside.any():
        left, right = values[outside] >> half_bits, values[outside] & low
        for round_key in round_keys:
            left, right = right, left ^ (_mix(right ^ round_key) & low)
        values[outside] = (left << half_bits) | right
        outside = values >= size
    return values.astype(np.int64)


def evenly_spaced(count: int, windows: int) -> Indices:
    """`count` indices spread over [0, windows), or all of them where there are fewer."""
    count = min(count, windows)
    return np.arange(count, dtype=np.int64) * windows // count


def _mix(x: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """The finaliser of SplitMix64 (Steele, Lea, Flood 2014): every input bit moves every output bit."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))
