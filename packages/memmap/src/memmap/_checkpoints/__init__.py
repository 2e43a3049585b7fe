"""Rewriting checkpoints, and comparing them."""
