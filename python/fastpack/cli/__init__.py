"""The command line: `fastpack pack`, `fastpack repack`, `fastpack scan`, `fastpack inspect` and `fastpack verify`."""

from fastpack.cli.commands import main, parser

__all__ = ["main", "parser"]
