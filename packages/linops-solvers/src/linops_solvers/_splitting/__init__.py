"""Least squares with penalties that have a proximal map."""
