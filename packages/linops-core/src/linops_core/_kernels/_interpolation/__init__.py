"""Interpolation from a grid: weights of kernels, sums over neighbours, and tables of both."""
