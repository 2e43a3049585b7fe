"""Operators made of operators, and the rules by which expressions are made simpler."""
