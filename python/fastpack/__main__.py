"""Runs the command line as `python -m fastpack`."""

import sys

from fastpack.cli import main

sys.exit(main())
