"""X-ray transforms of images and volumes: geometries, line integrals, filtered back projection."""
