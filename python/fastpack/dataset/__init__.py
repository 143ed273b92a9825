"""A packed folder: reading, checking and exporting it."""
