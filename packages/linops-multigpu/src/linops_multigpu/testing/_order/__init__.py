"""Which accesses to memory are ordered: vector clocks, and who touched which byte."""
