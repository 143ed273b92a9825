"""Ctrl-C is answered at once in every phase of a call, whatever input makes it long."""

from __future__ import annotations

import json
import os
import signal
import time

import pytest
from conftest import conversation
from pace import paced

pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals as POSIX has them")

BUSY = 0.5
"""Seconds in which Ctrl-C is answered, on a machine that does nothing else."""

AGAIN = """
import contextlib, sys, time
import numpy as np
import pyarrow as pa
import fastpack
files, tokenizer, out = sys.argv[1:]
loaded = fastpack.Tokenizer(tokenizer)
PREPARE
print("started", flush=True)
try:
    while True:
        CALL
except KeyboardInterrupt:
    print(time.monotonic(), flush=True)
"""

MILLIONS = "lengths = np.random.default_rng(7).integers(1, 4096, 3_000_000)"
LONG = "text = 'The river walks over ' * 3_000_000"
CONVERSATION = """
line = {"messages": [{"role": "user", "content": "a river " * 4_000_000}, {"role": "assistant", "content": "b"}]}
"""
TEMPLATE = (
    "{% for message in messages %}{{ message.content|list|sort|join|replace('a', 'b')|length }}{% endfor %}"
    * 9
)
ROWS = "table = pa.table({'input_ids': pa.array([list(range(3, 300))] * 100_000, pa.list_(pa.int32()))})"

PHASES = {
    "plan balanced": (MILLIONS, "fastpack.plan(lengths, max_length=4096, order=fastpack.Balanced(8))"),
    "plan balanced for many ranks": (
        MILLIONS,
        "fastpack.plan(lengths, max_length=4096, order=fastpack.Balanced(10_000))",
    ),
    "plan in input order": (MILLIONS, "fastpack.plan(lengths, max_length=4096, order='input')"),
    "plan best_fit": (MILLIONS, "fastpack.plan(lengths, max_length=4096, strategy='best_fit')"),
    "plan heap": (MILLIONS, "fastpack.plan(lengths, max_length=4096, strategy='heap')"),
    "plan concat": (MILLIONS, "fastpack.plan(lengths, max_length=64, strategy='concat')"),
    "plan lengths that differ": (
        "lengths = np.random.default_rng(7).integers(1, 2**31 - 1, 3_000_000)",
        "fastpack.plan(lengths, max_length=2**31 - 1, strategy='heap')",
    ),
    "plan pieces": ("", "fastpack.plan([10_000_000], max_length=1, overlong='split')"),
    "plan what is left out": (
        MILLIONS,
        "fastpack.plan(lengths, max_length=4096, order=fastpack.Balanced(10**9, on_remainder='drop'))",
    ),
    "tokenize one text": (LONG, "loaded.encode(text)"),
    "tokenize one word": ("text = 'abc' * 10_000_000", "loaded.encode(text)"),
    "tokenize one record": (
        LONG,
        "fastpack.pack_records([{'text': text}], loaded, max_length=4096, max_lost=1.0)",
    ),
    "render and tokenize one conversation": (
        CONVERSATION,
        "fastpack.pack_records([line], loaded, max_length=4096, max_lost=1.0)",
    ),
    "read one line": (
        """open(files, "w").write('{"text": "a", "x": "' + "b" * 150_000_000 + '"}\\n')""",
        "fastpack.pack_files(files, loaded, max_length=64)",
    ),
    "parse one line": (
        """
pair = '{"role": "user", "content": ["a"]}, {"role": "assistant", "content": "b"}, '
open(files, "w").write('{"messages": [' + pair * 1_000_000 + '{"role": "user", "content": "c"}]}\\n')
""",
        "fastpack.pack_files(files, loaded, max_length=64, on_bad_record='skip')",
    ),
    "read a header": (
        """
open(files + ".csv", "w").write(",".join(f"column {number}" for number in range(3_000_000)) + "\\n")
""",
        "with contextlib.suppress(fastpack.FastpackError): fastpack.pack_files(files + '.csv', loaded, max_length=64)",
    ),
    "discover": (
        "",
        "with contextlib.suppress(fastpack.FastpackError): fastpack.scan('/usr/**/nothing.jsonl', loaded)",
    ),
    "render one conversation": (
        f"{CONVERSATION}template = {TEMPLATE!r}",
        "fastpack.pack_records([line], loaded, max_length=4096, chat_template=template, train_on='all')",
    ),
    "write": (
        ROWS,
        "fastpack.pack_table(table, max_length=512, output=out, exists='overwrite', format='jsonl')",
    ),
    "compress": (
        ROWS,
        "fastpack.pack_table(table, max_length=512, output=out, exists='overwrite', format='parquet')",
    ),
    "rows in memory": (ROWS, "fastpack.pack_table(table, max_length=512)"),
    "stream": ("", "list(fastpack.stream(files, loaded, max_length=512))"),
    "scan": ("", "fastpack.scan(files, loaded)"),
    "repack": (
        "fastpack.pack_dir(files, out + '-kept', tokenizer=loaded, max_length=512, keep_tokens=True)",
        "fastpack.repack(out + '-kept', out, max_length=256, exists='overwrite')",
    ),
    "cache": ("", "fastpack.pack_files(files, loaded, max_length=512, cache_dir=out)"),
    "verify": ("", "fastpack.pack_files(files, loaded, max_length=512, verify=10_000)"),
    "load": ("", "fastpack.Tokenizer(tokenizer)"),
}


@pytest.fixture(scope="module")
def lines():
    """Some 8 MB of conversations."""
    return "".join(json.dumps(conversation(number)) + "\n" for number in range(10_000))


@pytest.mark.parametrize("phase", PHASES)
def test_ctrl_c_is_answered_in_every_phase(phase, lines, tokenizer_dir, tmp_path, python):
    prepare, call = PHASES[phase]
    files = tmp_path / "data.jsonl"
    files.write_text(lines, encoding="utf-8")
    code = AGAIN.replace("PREPARE", prepare).replace("CALL", call)
    process = python("-c", code, str(files), str(tokenizer_dir), str(tmp_path / "out"))
    assert process.stdout.readline().strip() == "started", process.communicate()[1]
    # Not to wait for something, but to be somewhere in the call, which is made again and again.
    time.sleep(0.35)
    with paced() as machine:
        sent = time.monotonic()
        process.send_signal(signal.SIGINT)
        stdout, stderr = process.communicate(timeout=60)
    assert stdout, stderr
    assert float(stdout) - sent <= BUSY * machine.slowness


#: The first array of a process asks numpy for its version, in Python, where Ctrl-C can arrive.
WHILE_NUMPY_IS_READ = """
import os, signal, sys
from numpy.lib import NumpyVersion
usual = NumpyVersion.__init__
def interrupted(self, text):
    os.kill(os.getpid(), signal.SIGINT)
    usual(self, text)
NumpyVersion.__init__ = interrupted
import fastpack
try:
    CALL
except KeyboardInterrupt:
    print("interrupted")
"""


@pytest.mark.parametrize(
    "call",
    ["fastpack.Tokenizer(sys.argv[1]).encode('a')", "fastpack.plan([1, 2], max_length=4)"],
)
def test_ctrl_c_while_the_first_array_is_made_is_no_panic(call, tokenizer_dir, python):
    process = python("-c", WHILE_NUMPY_IS_READ.replace("CALL", call), str(tokenizer_dir))
    stdout, stderr = process.communicate(timeout=60)
    assert (stdout, stderr) == ("interrupted\n", "")
