"""Streams: their tables, their states, and the process that loads for others."""
