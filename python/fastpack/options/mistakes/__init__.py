"""What a caller probably meant: words of other tools (`foreign`), near words (`suggestions`), and errors with both (`hints`)."""
