"""`fastpack.Tokenizer`, and tokenizers as arguments of other calls."""
