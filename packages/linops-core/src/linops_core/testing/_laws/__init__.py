"""The laws of linear operators as test classes to inherit."""
