"""The non-uniform Fourier transform: methods and libraries, normal operator, density weights."""
