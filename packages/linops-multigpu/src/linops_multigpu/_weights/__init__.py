"""Weights on the devices that use them: copies, what keeps them up to date, gradients."""
