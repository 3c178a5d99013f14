# SPDX-License-Identifier: Apache-2.0
"""flex_attention as operators: torch.export traces it as one, which torch.export.save does not write."""
import contextlib
import unittest.mock
from typing import Any, Iterator

import torch
import torch.nn.attention.flex_attention as flex


def _attention(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, score_mod: Any, block_mask: tuple[Any, ...], scale: float,
               kernel_options: Any, *buffers: Any) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """What the kernel computes, over all places at once: the functions are given numbers of rows, heads and places that broadcast."""
    def numbers(count: int, axis: int) -> torch.Tensor:
        return torch.arange(count, device=query.device).view([-1 if k == axis else 1 for k in range(4)])

    batch, heads, rows, columns = query.shape[0], query.shape[1], query.shape[2], key.shape[2]
    if key.shape[1] != heads:  # groups of heads share keys
        key, value = (of.repeat_interleave(heads // key.shape[1], 1) for of in (key, value))
    at = numbers(batch, 0), numbers(heads, 1), numbers(rows, 2), numbers(columns, 3)
    scores = score_mod(query @ key.transpose(-2, -1) * scale, *at)
    scores = torch.where(block_mask[-1](*at), scores, float("-inf"))
    return torch.softmax(scores, -1) @ value, torch.logsumexp(scores, -1), scores.amax(-1)


def _block_mask(blocks: Any, mask_mod: Any, seq_lengths: tuple[int, int], q_block: int = 128, kv_block: int = 128) -> flex.BlockMask:
    """With the function alone: which blocks are skipped is the kernel's."""
    rows, columns = -(-seq_lengths[0] // q_block), -(-seq_lengths[1] // kv_block)
    counts, places = torch.zeros(1, 1, rows, dtype=torch.int32), torch.zeros(1, 1, rows, columns, dtype=torch.int32)
    return flex.BlockMask(seq_lengths=seq_lengths, kv_num_blocks=counts, kv_indices=places, full_kv_num_blocks=None, full_kv_indices=None,
                          q_num_blocks=None, q_indices=None, full_q_num_blocks=None, full_q_indices=None, BLOCK_SIZE=(q_block, kv_block), mask_mod=mask_mod)


@contextlib.contextmanager
def plain_attention() -> Iterator[None]:
    """flex_attention and create_block_mask are these operators, whoever imported them, and have gradients on CPUs."""
    def no_mask(*_: Any, **__: Any) -> torch.Tensor:
        return torch.zeros(1, 1, 1, 1, dtype=torch.bool)

    def everything(query: torch.Tensor, key: torch.Tensor) -> flex.BlockMask:
        return _block_mask(None, flex.noop_mask, (query.shape[2], key.shape[2]))

    with contextlib.ExitStack() as stack:
        for name, ours in (("flex_attention_hop", _attention), ("_validate_device", lambda *_: None), ("create_mask", no_mask), ("_create_empty_block_mask", everything),
                           ("_convert_mask_to_block_mask", lambda *_, **__: (None, None)), ("_create_sparse_block_from_block_mask", _block_mask),
                           ("_FLEX_ATTENTION_DISABLE_COMPILE_DEBUG", True)):
            if hasattr(flex, name):
                stack.enter_context(unittest.mock.patch.object(flex, name, ours))
        yield
