"""The command line: `fastpack pack`, `scan`, `inspect` and the other commands."""

from fastpack.cli.main import main
from fastpack.cli.parser import parser

__all__ = ["main", "parser"]
