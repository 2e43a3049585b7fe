"""Sensitivities of receiver coils, and matrices that mix the coils."""
