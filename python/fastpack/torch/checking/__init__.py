"""Checks of a model: that it keeps documents apart, and trains on the right labels."""
