"""Batch sizes for a memory budget: compute the peak of a call without data, then search."""
