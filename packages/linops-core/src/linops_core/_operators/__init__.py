"""The operators that are no compositions, one in a file with its close relatives.

Those on a grid have a base class here, and a class for the names of their dimensions.
"""
