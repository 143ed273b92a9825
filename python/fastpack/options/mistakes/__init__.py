"""Suggestions for mistakes: the words of other tools (`foreign`), near words (`suggestions`), and errors that name both (`refusals`)."""
