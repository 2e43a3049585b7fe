"""The laws of linear operators, as tests to inherit: a class for each kind, and one of all."""
