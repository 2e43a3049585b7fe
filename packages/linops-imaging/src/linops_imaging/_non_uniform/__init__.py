"""The non-uniform Fourier transform: its parts, its normal operator, its density weights."""
