"""Simulated devices are for a process without others: there, the tests are skipped."""

import pytest
import torch


@pytest.fixture(autouse=True)
def no_other_accelerator() -> None:
    accelerator = torch.accelerator.current_accelerator(check_available=True)
    if accelerator is not None and accelerator.type != "sim":
        pytest.skip(f"there is a real accelerator in this process, {accelerator}")
