"""Sums of texts: whether everybody heard what was broadcast, without sending a text along.

A text is its 64-bit digest. Of the deliveries of one origin's messages two sums are made, modulo
2^64, of two numbers that depend on the name and the digest; the slab makes the same sums of what
was broadcast. For a given name the first number is a permutation of the digests, so a sum with
*one* altered text is always wrong. Several can hide each other with a chance of about 2^-128 for
texts that were not made for the salt, and that is drawn for each audit. A wrong sum only makes
the slab suspected: then the digests themselves are sent, and compared one by one.
"""

import numpy as np

from tidings.pipeline.arrays.findings import Array

LANES = 2

_A, _B, _C, _D = (
    np.uint64(odd)
    for odd in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB, 0xD6E8FEB86659FD93)
)


def mixed(seq: Array, digest: Array, salt: int) -> tuple[Array, Array]:
    """Two numbers for each text."""
    with np.errstate(over="ignore"):
        one = seq.astype(np.uint64)
        one *= _A
        one += np.uint64(salt)
        one ^= digest.view(np.uint64)
        one *= _B
        one ^= one >> np.uint64(31)
        other = one * _C
        other ^= other >> np.uint64(29)
        other *= _D
        other ^= other >> np.uint64(32)
    return one, other
