"""What several comparisons need."""

from collections.abc import Iterator

import pytest
import torch


@pytest.fixture(scope="session")
def torchvision_operators() -> Iterator[None]:
    """DeepInverse imports torchvision, which looks for operators that it brings for GPUs alone."""
    library = torch.library.Library("torchvision", "FRAGMENT")
    for name in ("nms", "qnms"):
        if not hasattr(torch.ops.torchvision, name):
            library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MPLBACKEND", "agg")
        yield
