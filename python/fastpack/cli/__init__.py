"""The command line: `fastpack pack`, `fastpack repack`, `fastpack scan` and `fastpack inspect`."""

from fastpack.cli.commands import main, parser

__all__ = ["main", "parser"]
