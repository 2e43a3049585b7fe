"""Copies and moves that keep the memory which tensors share."""
