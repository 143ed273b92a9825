"""The folders of the checkout, for the processes that tests start."""

from __future__ import annotations

import os
from pathlib import Path

SUPPORT = Path(__file__).parent
"""The folder of the scripts that they run."""

ROOT = SUPPORT.parents[2]

PYTHONPATH = os.pathsep.join([str(SUPPORT), str(ROOT / "python")])
"""The paths of the package, and of the modules of this folder."""
