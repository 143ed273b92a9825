"""The slowness of the machine while a test measures a time: other work must not make a test fail."""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager


class Pace:
    """The slowness of the machine over a while.

    Attributes:
        slowness: How many seconds passed for each second that a busy thread had a processor: 1 on a machine that does nothing
            else, 8 where eight want the same core.
    """

    def __init__(self):
        self.slowness = 1.0


@contextmanager
def paced():
    """Measures how slow the machine is within the block. The thread that measures it takes a processor if it is given one."""
    pace, ended = Pace(), threading.Event()

    def work():
        began, worked = time.monotonic(), time.thread_time()
        while not ended.is_set():
            sum(range(10_000))
        pace.slowness = max(1.0, (time.monotonic() - began) / max(time.thread_time() - worked, 1e-9))

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield pace
    finally:
        ended.set()
        thread.join()
