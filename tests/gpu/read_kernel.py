"""A kernel that does nothing but read, in Triton: what a product that reads its weights once is held to."""
import torch
import triton
import triton.language as tl

BLOCK = 4096  # words that a program reads
NOWHERE = 0x5A5A5A5A  # as good as never among random words; what is not looked at is not loaded


@triton.jit
def read(words, found, SIZE: tl.constexpr, LOOKED_FOR: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * SIZE + tl.arange(0, SIZE)
    word = tl.load(words + at, eviction_policy="evict_first")
    tl.store(found + at % SIZE, word, mask=word == LOOKED_FOR)


def reader(tensor):
    """A function that launches the kernel on all of a tensor, of a multiple of 16 KiB."""
    words = tensor.view(torch.int32).flatten()
    assert words.numel() % BLOCK == 0, f"{words.numel()} words are not a multiple of {BLOCK}"
    found = torch.empty(BLOCK, dtype=torch.int32, device=tensor.device)
    grid = (words.numel() // BLOCK,)
    return lambda: read[grid](words, found, BLOCK, NOWHERE, num_warps=16)
