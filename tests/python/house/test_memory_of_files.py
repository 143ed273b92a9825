"""Memory grows by at most 1 KB for each input file, beside that of its documents."""

from __future__ import annotations

import subprocess
import sys

import pytest
from campaign import tries

FILES = 20_000

CALLS = [
    "pack_files",
    "scan",
    "stream",
    "a shuffled stream",
    "pack_dir",
    "pack_dir again",
    "pack_dir in groups",
    "verify",
    "reindex",
]

#: Prints the greatest memory of a process that makes a call, in bytes.
MEASURED = """
import sys
import fastpack
call, files, tokenizer, folder = sys.argv[1:]
given = {"max_length": 64, "progress": False, "threads": 2}
if call == "pack_files":
    fastpack.pack_files(files, tokenizer, **given)
elif call in ("pack_dir", "pack_dir again"):
    fastpack.pack_dir(files, folder, tokenizer=tokenizer, **given)
elif call == "pack_dir in groups":
    fastpack.pack_dir(files, folder, tokenizer=tokenizer, groups=100_000, **given)
elif call == "verify":
    assert fastpack.verify(folder, tokenizer=tokenizer)
elif call == "reindex":
    fastpack.reindex(files, folder, progress=False)
elif call == "scan":
    fastpack.scan(files, tokenizer, **given)
else:
    shuffled = call == "a shuffled stream"
    for _ in fastpack.stream(files, tokenizer, epochs=1, batch_size=64, ranks=fastpack.Ranks(lanes=4), shuffle=shuffled, **given):
        pass
with open("/proc/self/status") as status:
    peak, = (line for line in status if line.startswith("VmHWM"))
print(int(peak.split()[1]) << 10)
"""


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    """As many documents in a file each, and in one file."""
    folder = tmp_path_factory.mktemp("files")
    many, one = folder / "many", folder / "one"
    many.mkdir()
    one.mkdir()
    lines = [f'{{"text": "the river runs {number}"}}\n' for number in range(FILES)]
    for number, line in enumerate(lines):
        (many / f"part-{number:06}.jsonl").write_text(line)
    (one / "part.jsonl").write_text("".join(lines))
    return many, one


@pytest.mark.skipif(sys.platform != "linux", reason="the system tells it elsewhere")
@pytest.mark.parametrize("call", tries(["stream"], CALLS))
def test_a_file_takes_at_most_a_kilobyte_beside_its_documents(call, texts, tokenizer_dir, tmp_path):
    def peak(call, files):
        arguments = [call, str(files), str(tokenizer_dir), str(tmp_path / files.name)]
        command = [sys.executable, "-c", MEASURED, *arguments]
        return int(subprocess.run(command, capture_output=True, check=True, timeout=300).stdout)

    if call in {"pack_dir again", "verify"}:
        for files in texts:
            peak("pack_dir", files)
    many, one = (peak(call, files) for files in texts)
    assert (many - one) / FILES <= 1024
