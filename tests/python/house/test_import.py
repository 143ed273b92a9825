"""Importing fastpack is quick and brings nothing along."""

from __future__ import annotations

import statistics
import subprocess
import sys

import pytest

import fastpack

HEAVY = (
    "pyarrow",
    "numpy",
    "huggingface_hub",
    "transformers",
    "torch",
    "datasets",
    "argparse",
    "fastpack._fastpack",
)


@pytest.mark.alone
def test_import_takes_at_most_50_ms():
    # The time of the processor: other work on the machine is not the import's.
    code = "import time; start = time.process_time(); import fastpack; print(time.process_time() - start)"
    times = [
        float(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)
        for _ in range(5)
    ]
    assert statistics.median(times) <= 0.05


@pytest.mark.parametrize("module", HEAVY)
def test_import_brings_nothing_heavy(module):
    code = f"import sys, fastpack; sys.exit({module!r} in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_using_the_api_does_not_import_pyarrow():
    code = (
        "import sys, fastpack; fastpack.pack_files, fastpack.RecordError; sys.exit('pyarrow' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("tokenizer", ["{!r}", "fastpack.Tokenizer({!r})"], ids=["folder", "loaded"])
def test_a_job_brings_no_numpy(tokenizer, tmp_path, tokenizer_dir):
    """Importing numpy takes more processor time than loading most tokenizers."""
    (tmp_path / "a.jsonl").write_text('{"text": "a river"}\n')
    code = f"""
import sys
import fastpack
fastpack.pack_dir({str(tmp_path / "a.jsonl")!r}, {str(tmp_path / "out")!r}, tokenizer={tokenizer.format(str(tokenizer_dir))}, max_length=64)
sys.exit("numpy" in sys.modules)
"""
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_no_object_loads_what_shows_it_before_it_is_shown():
    code = """
import sys
import fastpack
for name in fastpack.__all__:
    getattr(fastpack, name)
sys.exit(any(module.startswith("fastpack.report.display") for module in sys.modules))
"""
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_every_public_name_is_there():
    assert {name: getattr(fastpack, name) for name in fastpack.__all__}
    assert set(fastpack.__all__) <= set(dir(fastpack))


def test_other_names_are_not():
    with pytest.raises(AttributeError, match="no attribute 'pack_everything'"):
        _ = fastpack.pack_everything
