"""Modules and their tensors: found, taken apart, made again, counted, changed all at once."""
