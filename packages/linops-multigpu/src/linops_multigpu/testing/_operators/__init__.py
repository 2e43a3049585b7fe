"""The operators of torch on the simulated machine and on its host."""
