"""Arguments of public functions: their checks, and the messages about them."""
