"""Data sets: records, readers, downloads and the procedural ``scenes``."""
