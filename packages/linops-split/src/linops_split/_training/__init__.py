"""Gradients of a table to its input and its weights, computed part by part."""
