"""Views of storages: footprints, exact overlaps and spans, all in bytes."""
