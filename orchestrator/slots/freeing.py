"""A card's memory, given back between two jobs of one process. Needs torch alone."""

import gc


def free_memory() -> bool:
    """Give back the GPU memory of jobs that have ended; whether all of it is. The context itself stays.

    Tensors and graphs go with the job that made them, here those in cycles too; then the allocator's cache
    and the pools of graphs, which are of it, go back to the card.
    """
    import torch

    if not torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        return True
    gc.collect()
    torch._C._cuda_clearCublasWorkspaces()  # they lie in the allocator's memory
    torch.cuda.empty_cache()
    return torch.cuda.memory_allocated() == 0
