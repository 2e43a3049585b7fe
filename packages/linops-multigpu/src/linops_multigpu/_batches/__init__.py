"""Batch sizes and devices, and the operator made from them."""
