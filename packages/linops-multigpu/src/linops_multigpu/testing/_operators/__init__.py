"""What the operators of torch do on the simulated machine, and on the host beside it."""
