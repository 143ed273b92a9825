"""Measures fastpack beside its peers in one run: whole processes in turn, medians, peak memory.

    python benches/python/run.py [--megabytes 30] [--rounds 3] [--seeded] [--without NAME ...] [--out results.json]

Real tokenizers and conversations are used where `$FASTPACK_DATA` (or `../shared/data` beside the checkout) has
them; else a small tokenizer is trained on the seeded corpus. The table says which. `--seeded` makes conversations of
any size for the real tokenizers, none of which comes twice: `--seeded --megabytes 500` on a machine that has an hour.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from pathlib import Path

import fastpack._fastpack as native

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(HERE.parent), str(HERE)]

import contenders  # noqa: E402

import corpus  # noqa: E402

#: Templates that TRL ships with `{% generation %}` blocks, and the shared tokenizer that each fits.
PAIRS = [("llama3", "llama3_training.jinja"), ("qwen", "qwen2_5_training.jinja")]


@dataclass(frozen=True)
class Case:
    """One corpus, tokenizer and template that all contenders get."""

    name: str
    corpus: Path
    tokenizer: Path
    template: Path


@dataclass(frozen=True)
class Run:
    """One process of one contender."""

    seconds: float
    tokens: int
    trained: int
    rows: int
    peak_mb: float


def data() -> Path | None:
    """Find the folder of real tokenizers and corpora, if there is one."""
    folder = Path(os.environ.get("FASTPACK_DATA", ROOT.parent / "shared" / "data"))
    return folder if folder.is_dir() else None


def templates() -> Path:
    """Find the chat templates in TRL's wheel."""
    spec = importlib.util.find_spec("trl")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent / "chat_templates"


def head(source: Path, out: Path, megabytes: float) -> Path:
    """Copy the first `megabytes` of whole lines."""
    left = int(megabytes * 1e6)
    with source.open("rb") as lines, out.open("wb") as file:
        for line in lines:
            left -= len(line)
            if left < 0:
                break
            file.write(line)
    return out


def cases(scratch: Path, megabytes: float, *, seeded: bool = False) -> list[Case]:
    """Make what is measured."""
    shared = data()
    seeded_file = scratch / "seeded.jsonl"
    if seeded or shared is None:
        corpus.write(seeded_file, megabytes=megabytes, seed=0)
    if shared is not None:
        chat = (
            seeded_file
            if seeded
            else head(shared / "corpora" / "chat.jsonl", scratch / "chat.jsonl", megabytes)
        )
        return [
            Case(f"{chat.stem}, {name}", chat, shared / "tokenizers" / name, templates() / template)
            for name, template in PAIRS
        ]
    tokenizer = train(seeded_file, scratch / "tokenizer")
    return [
        Case(
            "seeded corpus, trained tokenizer", seeded_file, tokenizer, templates() / "qwen2_5_training.jinja"
        )
    ]


def train(seeded: Path, out: Path) -> Path:
    """Train a byte-level BPE tokenizer of 32,000 entries on the seeded corpus."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    specials = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=32_000, special_tokens=specials, initial_alphabet=alphabet, show_progress=False
    )
    with seeded.open(encoding="utf-8") as lines:
        texts = (message["content"] for line in lines for message in json.loads(line)["messages"])
        tokenizer.train_from_iterator(texts, trainer)
    out.mkdir()
    tokenizer.save(str(out / "tokenizer.json"))
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<|im_end|>"}
    (out / "tokenizer_config.json").write_text(json.dumps(settings), encoding="utf-8")
    return out


def measure(contender: str, case: Case) -> Run:
    """Run one contender once; its peak memory is that of its largest process."""
    command = [sys.executable, str(HERE / "contenders.py"), contender, str(case.corpus), str(case.tokenizer)]
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        process = subprocess.Popen([*command, str(case.template)], stdout=output, stderr=errors)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        errors.seek(0)
        if process.returncode != 0:
            raise SystemExit(f"{contender} failed:\n{errors.read().decode()}")
        *_, last = output.read().decode().splitlines()
    return Run(peak_mb=usage.ru_maxrss * 1024 / 1e6, **json.loads(last))


def machine() -> str:
    """The day, and where this runs."""
    processor = next(
        (line for line in Path("/proc/cpuinfo").read_text().splitlines() if "model name" in line), ""
    )
    return (
        f"{datetime.now(timezone.utc):%Y-%m-%d}, {processor.partition(': ')[2]}, {os.cpu_count()} cores, "
        f"Python {platform.python_version()}"
    )


def table(case: Case, runs: dict[str, list[Run]], reference: str) -> str:
    """Lay out the medians of one case as a Markdown table."""
    size = case.corpus.stat().st_size
    median = {name: statistics.median(run.seconds for run in of) for name, of in runs.items()}
    lines = [
        f"### {case.name}: {size / 1e6:.1f} MB, rows of {contenders.MAX_LENGTH}",
        "",
        f"| | seconds | MB/s | Mtok/s | × {reference} | peak MB | tokens | trained | rows |",
        "|---|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for name, of in runs.items():
        seconds = median[name]
        peak = statistics.median(run.peak_mb for run in of)
        run = of[0]
        lines.append(
            f"| {name} | {seconds:.2f} | {size / seconds / 1e6:.2f} | {run.tokens / seconds / 1e6:.2f} "
            f"| {median[reference] / seconds:.2f} | {peak:.0f} | {run.tokens:,} | {run.trained:,} | {run.rows:,} |"
        )
    return "\n".join(lines)


def main() -> None:
    """Run as a program."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--megabytes", type=float, default=30, help="size of the corpus (default: 30)")
    parser.add_argument("--rounds", type=int, default=3, help="runs of each contender (default: 3)")
    parser.add_argument("--seeded", action="store_true", help="make the conversations, in any number")
    parser.add_argument("--without", nargs="+", default=[], help="contenders to leave out", metavar="NAME")
    parser.add_argument("--out", type=Path, help="also write all runs as JSON")
    arguments = parser.parse_args()
    if native.build_profile != "release":
        raise SystemExit("the extension is a debug build: `make bench` builds the right one")

    print(f"{machine()}, medians of {arguments.rounds} rounds in turn\n")
    results = {}
    with tempfile.TemporaryDirectory() as scratch:
        for case in cases(Path(scratch), arguments.megabytes, seeded=arguments.seeded):
            runs: dict[str, list[Run]] = {
                name: [] for name in contenders.CONTENDERS if name not in arguments.without
            }
            for _ in range(arguments.rounds):
                for name, of in runs.items():
                    of.append(measure(name, case))
            print(table(case, runs, "TRL, 2 processes"), end="\n\n", flush=True)
            results[case.name] = {name: [asdict(run) for run in of] for name, of in runs.items()}
    if arguments.out:
        arguments.out.write_text(json.dumps(results, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
