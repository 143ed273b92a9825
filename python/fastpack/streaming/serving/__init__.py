"""The loader process: the promises of a stream's server and its ranks to each other, and their messages."""
