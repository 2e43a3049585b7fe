"""How bytes travel: in portions where torch would allocate memory for the journey."""

from typing import Any

import pytest
import torch

from memmap._copies import _buffers


@pytest.mark.parametrize(
    ("source", "dtype", "sizes"),
    [
        (torch.ones(8, 8)[:, :6], torch.float32, [48] * 4),  # strided
        (torch.ones(32), torch.float64, [64] * 4),  # cast
        (torch.ones(32), torch.float32, [128]),  # as it is
        (torch.ones(2, 3).T, torch.float32, [24]),  # small
    ],
)
def test_what_goes_to_another_device_goes_in_portions(
    source: torch.Tensor, dtype: torch.dtype, sizes: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    copied: list[int] = []
    copy = torch.Tensor.copy_

    def noted(target: torch.Tensor, source: torch.Tensor, **options: Any) -> torch.Tensor:
        copied.append(target.nbytes)
        return copy(target, source, **options)

    monkeypatch.setattr(torch.Tensor, "copy_", noted)
    monkeypatch.setattr(_buffers, "UNDER_WAY", 64)
    target = torch.empty(source.shape, dtype=dtype)
    _buffers._send(target.to("meta"), source, non_blocking=False)
    assert copied == sizes
    _buffers._send(target, source, non_blocking=False)
    assert copied == [*sizes, target.nbytes], "on one device nothing is under way"
    assert torch.equal(target, source.to(dtype))
