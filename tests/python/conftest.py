"""A tiny tokenizer and small corpora for the tests."""

from __future__ import annotations

import importlib.util
import json
import logging
import os
import random
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

# Tests and their support modules import each other by their names, in any folder.
TESTS = Path(__file__).parent
sys.path[1:1] = [str(path) for path in TESTS.glob("**/") if path != TESTS and path.name != "__pycache__"]

# An example may take any time. Every run tries the same examples, so a change passes or fails by itself; `make campaign` tries
# others, of all tests.
settings.register_profile("fastpack", deadline=None, derandomize="FASTPACK_CAMPAIGN" not in os.environ)
settings.load_profile("fastpack")

os.environ["HF_HUB_OFFLINE"] = "1"
# numpy's threads for matrices wait busily, and no test multiplies any.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.pop("LOCAL_WORLD_SIZE", None)

# A shell that runs the tests in the background has them ignore Ctrl-C, and so would the processes that they start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from types import ModuleType
    from typing import Any

ROOT = Path(__file__).parents[2]

DATA = Path(os.environ.get("FASTPACK_DATA", ROOT.parent / "shared" / "data"))
"""The folder of real tokenizers and corpora, if there are any."""

WORDS = [
    "the",
    "a",
    "river",
    "town",
    "boat",
    "morning",
    "letter",
    "clock",
    "bread",
    "window",
    "old",
    "small",
    "quiet",
    "green",
    "walks",
    "sees",
    "writes",
    "opens",
    "keeps",
    "and",
    "but",
    "while",
    "over",
    "under",
    "beside",
    "naïve",
    "日本語",
    "Ж",
    "🙂",
]

TEMPLATE = (
    "{%- for message in messages %}"
    "{{- '<|start|>' + message['role'] + '\n' }}"
    "{%- if message['role'] == 'assistant' %}"
    "{%- generation %}{{- message['content'] + '<|end|>' }}{%- endgeneration %}"
    "{%- else %}{{- message['content'] + '<|end|>' }}{%- endif %}"
    "{{- '\n' }}"
    "{%- endfor %}"
)


def sentence(number: int, words: int) -> str:
    """A sentence that is determined by its arguments."""
    return " ".join(WORDS[(number * 7 + at * at * 3 + at) % len(WORDS)] for at in range(words)) + "."


def conversation(number: int) -> dict[str, object]:
    """A conversation of one to three turns."""
    messages: list[dict[str, str]] = []
    if number % 4 == 0:
        messages.append({"role": "system", "content": sentence(number, 6)})
    for turn in range(1 + number % 3):
        messages.append({"role": "user", "content": sentence(number + turn, 4 + number % 9)})
        messages.append({"role": "assistant", "content": sentence(number * 3 + turn, 5 + number % 23)})
    return {"messages": messages}


@pytest.fixture(scope="session")
def tokenizer_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a byte-level BPE of 400 entries and a template with generation blocks."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    folder = tmp_path_factory.mktemp("tokenizer")
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=400,
        special_tokens=["<|endoftext|>", "<|start|>", "<|end|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator([sentence(number, 40) for number in range(60)], trainer)
    tokenizer.save(str(folder / "tokenizer.json"))
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<|endoftext|>"}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings), encoding="utf-8")
    (folder / "chat_template.jinja").write_text(TEMPLATE, encoding="utf-8")
    return folder


@pytest.fixture(scope="session")
def bare_tokenizer_dir(tokenizer_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same tokenizer without a chat template."""
    folder = tmp_path_factory.mktemp("bare")
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (folder / name).write_bytes((tokenizer_dir / name).read_bytes())
    return folder


@pytest.fixture
def write_jsonl(tmp_path: Path) -> Callable[..., Path]:
    """Writes records, or raw lines, to a file."""

    def write(records: Iterable[object], name: str = "data.jsonl") -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = [line if isinstance(line, bytes) else json.dumps(line).encode() for line in records]
        path.write_bytes(b"".join(line + b"\n" for line in lines))
        return path

    return write


def write_chats(folder: Path, name: str, numbers: Iterable[int], *, how: str = "w") -> Path:
    """Writes conversations of these numbers to a file; with `how="a"` behind those in it."""
    path = folder / f"{name}.jsonl"
    with path.open(how, encoding="utf-8") as file:
        file.writelines(json.dumps(conversation(number)) + "\n" for number in numbers)
    return path


@pytest.fixture
def parts(tmp_path: Path) -> list[Path]:
    """Three files of conversations, the first the longest: for calls that add files to a folder."""
    (tmp_path / "data").mkdir()
    ranges = [range(200), range(200, 230), range(230, 300)]
    return [write_chats(tmp_path / "data", f"part-{at}", numbers) for at, numbers in enumerate(ranges)]


@pytest.fixture
def without_privileges() -> Iterator[None]:
    """Runs as an unprivileged user if this is the superuser, so that file modes apply."""
    if os.name != "posix":
        pytest.skip("files have modes on POSIX alone")
    user = os.geteuid()
    if user == 0:
        os.seteuid(65534)
    yield
    os.seteuid(user)


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that everybody may use: those of pytest are for its own user."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o777)
        yield folder


@pytest.fixture
def corpus(write_jsonl: Callable[..., Path]) -> Path:
    """A file of 200 conversations."""
    return write_jsonl(map(conversation, range(200)), "corpus.jsonl")


@pytest.fixture(scope="session")
def big_corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of 80,000 conversations: for calls that are stopped on the way."""
    return repeated(tmp_path_factory.mktemp("big") / "big.jsonl", 40)


@pytest.fixture(scope="session")
def long_corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of 10,000 conversations: for calls that are long enough to look at, and still end."""
    return repeated(tmp_path_factory.mktemp("long") / "long.jsonl", 5)


def repeated(path: Path, times: int) -> Path:
    """Writes 2,000 conversations several times over."""
    lines = [json.dumps(conversation(number)) for number in range(2_000)]
    path.write_text("\n".join(lines * times) + "\n", encoding="utf-8")
    return path


@pytest.fixture(scope="session")
def python() -> Callable[..., subprocess.Popen[str]]:
    """Starts a Python process that runs some code, or a module."""

    def start(*arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, *arguments],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    return start


@pytest.fixture(scope="session")
def trl_data_utils() -> ModuleType:
    """TRL's packing, loaded by its path: importing the package takes torch and a trainer."""
    found = importlib.util.find_spec("trl")
    if found is None or not found.submodule_search_locations:
        pytest.skip("trl is not installed")
    pytest.importorskip("transformers")
    path = Path(found.submodule_search_locations[0]) / "data_utils.py"
    spec = importlib.util.spec_from_file_location("trl_data_utils", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


KEYS = {"aws_access_key_id": "an-access-key", "aws_secret_access_key": "a-secret-key"}


@pytest.fixture(scope="session")
def store() -> Iterator[dict[str, str]]:
    """The options of an S3 server on this machine."""
    moto_server = pytest.importorskip("moto.server")
    logging.getLogger("werkzeug").setLevel(logging.WARNING)
    server = moto_server.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield {
        **KEYS,
        "aws_endpoint": f"http://{host}:{port}",
        "aws_allow_http": "true",
        "aws_region": "us-east-1",
    }
    server.stop()


@pytest.fixture(scope="session")
def client(store: dict[str, str]) -> Any:
    """A client of the S3 server, of another library."""
    return pytest.importorskip("boto3").client(
        "s3",
        endpoint_url=store["aws_endpoint"],
        region_name="us-east-1",
        aws_access_key_id=KEYS["aws_access_key_id"],
        aws_secret_access_key=KEYS["aws_secret_access_key"],
    )


@pytest.fixture
def bucket(client: Any, request: pytest.FixtureRequest) -> str:
    """A bucket of the test's own."""
    name = f"bucket-{random.Random(request.node.nodeid).randrange(10**12)}"
    client.create_bucket(Bucket=name)
    return name


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """The `work_dir` of jobs that write into buckets."""
    return tmp_path / "work"


def listing(client: Any, bucket: str, prefix: str = "packed/") -> dict[str, bytes]:
    """The objects of a bucket by their keys."""
    pages = client.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix)
    keys = [entry["Key"] for page in pages for entry in page.get("Contents", [])]
    return {key: client.get_object(Bucket=bucket, Key=key)["Body"].read() for key in keys}
