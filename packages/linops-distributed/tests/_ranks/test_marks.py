"""Marks show whether ranks are at the same step, for any number of ranks; no rank is needed."""

import pytest
import torch

from linops_distributed._ranks._marks import is_sum_of, mark_of

DTYPES = [torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.int64]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n_ranks", [2, 256, 257, 512, 2**17])
def test_one_rank_or_half_of_them_at_another_step(dtype: torch.dtype, n_ranks: int) -> None:
    mark, other = (mark_of(text, dtype, torch.device("cpu")) for text in ("a step", "another"))

    def total(n_others: int) -> torch.Tensor:
        return ((n_ranks - n_others) * mark.double() + n_others * other.double()).to(dtype)

    assert is_sum_of(total(0), mark)
    for n_others in {1, n_ranks // 2}:
        assert not is_sum_of(total(n_others), mark)
        assert not is_sum_of(total(n_others), other)
