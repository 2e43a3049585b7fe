"""Sparse fits, robust fits, and minima of smooth functions."""
