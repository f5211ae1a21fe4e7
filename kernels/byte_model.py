"""How many vectors depth routing must move through memory: what the benchmark sets its times against."""

from headcount.kernels.forward import partition, partition_delta
from headcount.kernels.launch import BLOCK_SITES
from headcount.kernels.measurement import Shape


def vectors_moved(shape: Shape, implementation: str) -> float:
    """Vectors of width d a token's routing must move through memory, forward and backward."""
    reads = shape.reads()
    if shape.block_size is not None:
        return _vectors_moved_in_blocks(shape, shape.block_size)
    if implementation == "fused":
        # backward: read each source, write its gradient, and let autograd add it to the others (two in,
        # one out)
        added = sum(reads) - max(reads)
        return sum(reads) + len(reads) + 2 * sum(reads) + 2 * len(reads) + 3 * added
    total = 0
    for block in partition(shape.sites, BLOCK_SITES):
        own = range(block.first_site, block.first_site + block.num_sites)
        later = own.stop < shape.sites
        if block.num_old:
            total += block.num_old + block.num_sites  # partial results
            total += (
                block.num_old * (2 if later else 1) + 2 + 3
            )  # deferred gradients, delta, the first own source
        for site in own[1 if block.num_old else 0 :]:
            total += site + 1 - block.num_old + (1 if block.num_old else 0) + 1  # merge
            total += 1 + later + (own.stop - site) + 1 + 1  # finalise
        total += own.stop + len(own[own.start == 0 :])  # deferred: sources, and gradients but of site 0
    return total


def _vectors_moved_in_blocks(shape: Shape, block_size: int) -> int:
    """The same of the delta form, with the running sum that is read and the sum that results."""
    total = 0
    for block in partition_delta(shape.sites, block_size, BLOCK_SITES):
        later = block.first_site + block.num_sites < shape.sites
        total += block.num_all + block.num_sites  # partial results
        total += block.num_sites * (3 + 2)  # gates forward and backward
        total += block.num_all * (3 if later else 2) + block.num_sites  # deferred gradients
    return total + 3 * max(shape.reads())  # finalise
