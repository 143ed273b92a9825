"""The resources of a call: threads, memory, ranks; and its progress."""
