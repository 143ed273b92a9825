"""Records of the caller: inputs and sources, tables and iterables, functions over them."""
