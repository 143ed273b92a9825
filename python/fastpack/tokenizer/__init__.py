"""`fastpack.Tokenizer`, and what is given as a tokenizer to other calls."""
