"""The X-ray transform of parallel rays and of fans, and filtered back projection."""
