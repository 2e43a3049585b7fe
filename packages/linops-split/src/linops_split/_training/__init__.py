"""Gradients of a table, to its input and to its weights, computed part by part."""
