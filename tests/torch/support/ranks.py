"""The scripts of this folder, run by one process or by several ranks."""

from __future__ import annotations

import os
import subprocess
import sys

from places import PYTHONPATH, SUPPORT


def run_ranks(script, *arguments, ranks, timeout=200, **environment):
    """Runs a script of this folder to its end, on one thread a rank; without a launcher if there is one."""
    launcher = (
        ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}"] if ranks > 1 else []
    )
    return subprocess.run(
        [sys.executable, *launcher, str(SUPPORT / script), *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": PYTHONPATH, "OMP_NUM_THREADS": "1", **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=timeout,
    )
