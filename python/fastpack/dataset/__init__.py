"""A packed folder: its rows, and what is read, checked and written of it."""
