"""Weights on the devices that use them: copies, updates, gradients."""
