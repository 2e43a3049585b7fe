"""The core: where a tensor lies (`View`), and exactly which bytes it touches (`Footprint`).

Builds on no other folder. Overlaps, unions, groups, copies, hazards and owners of memory are
questions to this one, in bytes.
"""
