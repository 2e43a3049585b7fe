"""The simulated machine: streams, the order of their work, memory and time."""
