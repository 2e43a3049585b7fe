"""Where tensors lie, which bytes they touch, and which of them overlap, for any strides."""
