"""The loader process: what a stream's server and its ranks promise each other, and how it travels."""
