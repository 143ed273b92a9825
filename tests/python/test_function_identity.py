"""What tells functions of the caller from others: the same in each process, and another after each change."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from datetime import date, datetime, timedelta, timezone
from pathlib import Path

import pytest

import fastpack

#: A module of filters, of which each is told from others; parts of it are changed by the tests.
FILTERS = """
import functools, logging, re
from dataclasses import dataclass, field
from enum import Enum
import numpy as np
import pyarrow.compute as pc
import helpers

LEAST = 3
WORDS = {"river", "town", "boat", "letter", "clock"}
PATTERN = re.compile("a+")
LOG = logging.getLogger("filters")

def score(batch):
    return batch["score"]

class Kind(Enum):
    CHAT = "chat"

class Base:
    step = 1
    def __call__(self, batch):
        return pc.greater(score(batch), self.least + self.step)

class Least(Base):
    def __init__(self, least, func=None):
        self.least = least
        self.func = func or score
        self.me = self

@dataclass
class Limits:
    least: int = 3
    kinds: list = field(default_factory=lambda: ["a"])
    @property
    def most(self):
        return self.least + 1
    @functools.cached_property
    def mean(self):
        return 2

def constant(batch):
    LOG.info("a batch")
    return pc.greater(score(batch), LEAST)
def members(batch):
    return [text in {"river", "town", "boat", "clock"} for text in batch["text"].to_pylist()]
def words(batch):
    return [bool(WORDS & set(text.split())) for text in batch["text"].to_pylist()]
def pattern(batch):
    return [bool(PATTERN.match(text)) for text in batch["text"].to_pylist()]
def helped(batch):
    return helpers.good(batch)
def inner(batch):
    def one(text):
        return len(text) > LEAST
    return [one(text) for text in batch["text"].to_pylist()]
def enumerated(batch):
    return [text == Kind.CHAT.value for text in batch["text"].to_pylist()]
def captured():
    limits, weights = Limits(), np.arange(5)
    return lambda batch: [limits.most > weights[0] for _ in batch["text"]]
def counted(batch, *, seen=None, most=frozenset({"x", "y", "z"})):
    return [True] * len(batch)
def recursive(batch, depth=0):
    return recursive(batch, depth + 1) if depth < 2 else constant(batch)

ALL = {
    "constant": constant, "members": members, "words": words, "pattern": pattern, "helped": helped, "inner": inner,
    "enumerated": enumerated, "captured": captured(), "counted": counted, "recursive": recursive, "object": Least(3),
    "method": Least(3).__call__, "partial": functools.partial(counted, seen={"b", "a", "c"}),
    "cached": functools.lru_cache(constant), "native": np.isfinite, "library": pc.is_valid,
}
"""

SHOW = """
import json, sys
sys.path.insert(0, sys.argv[1])
from fastpack._identity import identity
import filters
print(json.dumps({name: identity(function) for name, function in filters.ALL.items()}))
"""


@pytest.fixture(scope="module")
def identities(tmp_path_factory):
    """The identities of the filters in a process of its own, whose sets have another order each time."""
    seeds = iter(range(100))
    folder = tmp_path_factory.mktemp("filters")

    def told(*changes):
        text, helpers = FILTERS, "def good(batch):\n    return [True] * len(batch)\n"
        for before, after in changes:
            assert before in text + helpers
            text, helpers = text.replace(before, after), helpers.replace(before, after)
        (folder / "filters.py").write_text(text)
        (folder / "helpers.py").write_text(helpers)
        environment = {"PYTHONHASHSEED": str(next(seeds)), "PYTHONDONTWRITEBYTECODE": "1"}
        return shown(SHOW, folder, environment)

    return told


@pytest.fixture(scope="module")
def unchanged(identities):
    """The identities of the filters as they stand."""
    return identities()


def shown(code, folder, environment):
    """The JSON that some code prints in a new process."""
    command = [sys.executable, "-c", code, str(folder)]
    done = subprocess.run(command, env=os.environ | environment, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    return json.loads(done.stdout)


def test_they_are_the_same_in_each_process(identities, unchanged):
    assert len(set(unchanged.values())) == len(unchanged)
    assert identities() == unchanged
    # Neither what stands elsewhere in the module counts, nor where a function stands.
    assert identities(("LEAST = 3\n", "LEAST = 3\nOTHER = 4\n\n")) == unchanged


def test_common_functions_have_an_identity_in_each_process(tmp_path):
    """The second process reads the bytecode that the first wrote, after libraries that change what they find."""
    (tmp_path / "filters.py").write_bytes(Path(__file__).with_name("followed_functions.txt").read_bytes())
    code = SHOW.replace("filters.ALL.items()", "vars(filters).items() if callable(function)")
    first, second = (
        shown(more + code, tmp_path, {"PYTHONHASHSEED": seed, "PYTHONDONTWRITEBYTECODE": ""})
        for seed, more in (("1", ""), ("2", "import datasets, pandas, polars, typing_extensions"))
    )
    assert len(first) > 50
    assert list(tmp_path.glob("__pycache__/filters.*.pyc"))
    assert second == first


CHANGES = {
    "a constant of the module": (("LEAST = 3", "LEAST = 4"), {"constant", "inner", "recursive", "cached"}),
    "another function": (
        ('return batch["score"]', 'return batch["points"]'),
        {"constant", "recursive", "cached", "object", "method"},
    ),
    "a set": (('"boat", "letter"', '"boat", "latter"'), {"words"}),
    "a set in the code": (('"boat", "clock"}', '"boat", "watch"}'), {"members"}),
    "a pattern": (('"a+"', '"b+"'), {"pattern"}),
    "a module": (("[True]", "[False]"), {"helped", "counted", "partial"}),
    "a function inside": (("len(text) >", "len(text) <"), {"inner"}),
    "a member": (('CHAT = "chat"', 'CHAT = "talk"'), {"enumerated"}),
    "a property": (("self.least + 1", "self.least + 2"), {"captured"}),
    "a default of a class": (("least: int = 3", "least: int = 4"), {"captured"}),
    "an array": (("np.arange(5)", "np.arange(6)"), {"captured"}),
    "a base class": (("step = 1", "step = 2"), {"object", "method"}),
    "a state": (('"object": Least(3)', '"object": Least(4)'), {"object"}),
    "a default": (('"y", "z"})', '"y", "w"})'), {"counted", "partial"}),
    "a bound value": (('{"b", "a", "c"}', '{"b", "a", "d"}'), {"partial"}),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_makes_another_of_those_that_it_concerns(change, identities, unchanged):
    replaced, concerned = CHANGES[change]
    after = identities(replaced)
    assert {name for name in unchanged if unchanged[name] != after[name]} == concerned


def test_a_filter_is_no_map(write_jsonl, tokenizer_dir, tmp_path):
    path = write_jsonl([{"text": "a river"}])

    def same(batch):
        return batch

    options = {"tokenizer": tokenizer_dir, "max_length": 64}
    fastpack.pack_dir(path, tmp_path / "out", map=same, **options)
    with pytest.raises(fastpack.OutputError, match="`transform`"):
        fastpack.pack_dir(path, tmp_path / "out", filter=same, **options)


@pytest.mark.parametrize("wrong", ["x", "2026-01-31", 3, date(2026, 1, 31), timedelta(1)], ids=repr)
def test_a_now_that_is_no_moment_is_refused(wrong, corpus, tokenizer_dir, tmp_path):
    for call in (
        lambda: fastpack.pack_files(corpus, tokenizer_dir, max_length=64, now=wrong),
        lambda: fastpack.pack_dir(
            corpus, tmp_path / "out", tokenizer=tokenizer_dir, max_length=64, now=wrong
        ),
        lambda: fastpack.scan(corpus, tokenizer_dir, now=wrong),
    ):
        with pytest.raises(
            fastpack.OptionError, match=r"`now`: must be a datetime\.datetime such as"
        ) as refused:
            call()
        assert isinstance(refused.value, TypeError)
        assert refused.value.option == "now"


def test_a_now_of_a_zone_is_the_time_there(corpus, tokenizer_dir):
    template = "{{ strftime_now('%H:%M') }}{% for message in messages %}{{ message.content }}{% endfor %}"
    options = {"max_length": 256, "chat_template": template, "train_on": "all"}
    there = datetime(2026, 1, 31, 12, 30, tzinfo=timezone(timedelta(hours=9)))
    tables = [
        fastpack.pack_files(corpus, tokenizer_dir, now=now, **options)
        for now in (there, there.replace(tzinfo=None))
    ]
    assert tables[0].equals(tables[1])
