"""Reports of runs and scans, and how they are shown."""
