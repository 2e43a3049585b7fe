"""Functions on tensors alone, with which operators compute."""
