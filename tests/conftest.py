"""What all tests share."""

import pytest


@pytest.fixture(autouse=True)
def _same_numbers_every_time():
    """Each test draws the same random numbers, whatever ran before it."""
    import torch

    torch.manual_seed(0)
