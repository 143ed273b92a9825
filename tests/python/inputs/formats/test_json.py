"""Lines of JSON: `json.loads` of Python reads and refuses the same."""

from __future__ import annotations

import json

import pytest
from campaign import tries
from hypothesis import example, given, settings
from hypothesis import strategies as st

import fastpack

TEXTS = st.text(max_size=20)
NUMBERS = st.one_of(
    st.integers(),
    st.floats(),
    st.sampled_from([0, -0.0, 1e400, 10**40, -(2**63), 2**64]),
)
VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), NUMBERS, TEXTS),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=6,
)

#: The blanks between the parts of a record.
SPACES = st.sampled_from(["", " ", "\t", "  ", "\r", "\f", "\u00a0"])

#: The texts of mutations: the characters of JSON, and some others.
PIECES = st.sampled_from(
    [*'{}[]",:\\/ \t-+.eE0189', "\\u", "\\ud83d", "\\ude00", "\\x", "\x00", "\x7f", "\x1f", "é", "NaN", "nul"]
)


@st.composite
def lines(draw):
    """A record with a text among other fields, written in one of many ways, and broken in some."""
    fields = [(name, draw(VALUES)) for name in draw(st.lists(st.text(max_size=4), max_size=3))]
    text = draw(st.one_of(TEXTS, TEXTS, VALUES))
    fields.insert(draw(st.integers(0, len(fields))), ("text", text))
    if draw(st.integers(0, 4)) == 0:
        fields.append(("text", draw(TEXTS)))
    ascii_only = draw(st.booleans())

    def written(value):
        return json.dumps(value, ensure_ascii=ascii_only)

    pairs = [f"{draw(SPACES)}{written(name)}:{draw(SPACES)}{written(value)}" for name, value in fields]
    line = f"{draw(SPACES)}{{{','.join(pairs)}{draw(SPACES)}}}{draw(SPACES)}"
    for _ in range(draw(st.sampled_from([0, 0, 1, 2]))):
        at = draw(st.integers(0, len(line)))
        cut = draw(st.integers(0, 2))
        line = line[:at] + draw(st.one_of(PIECES, st.just(""))) + line[at + cut :]
    return line.replace("\n", " ")


def text_of(line: str) -> str | None:
    """The text of a line by `json.loads`, if the line is a record with a text."""
    try:
        record = json.loads(line)
    except ValueError:
        return None
    text = record.get("text") if isinstance(record, dict) else None
    # Half of a pair of surrogates is no character: no tokenizer takes it.
    is_half = "\ud800".__le__
    has_half = isinstance(text, str) and any(is_half(it) and it <= "\udfff" for it in text)
    return text if isinstance(text, str) and not has_half else None


@pytest.fixture(scope="module")
def read(tokenizer_dir, tmp_path_factory):
    """Reads lines; the ids of each that is kept, by its number."""
    path = tmp_path_factory.mktemp("json") / "lines.jsonl"

    def read(lines: list[str]) -> dict[int, list[int]]:
        path.write_bytes("".join(f"{line}\n" for line in ['{"text": "first"}', *lines]).encode())
        table = fastpack.pack_files(
            path,
            tokenizer_dir,
            max_length=4096,
            reading="text",
            strategy="none",
            special_tokens=fastpack.SpecialTokens(eos=False),
            on_bad_record="skip",
            columns=["input_ids", "source_row"],
        )
        rows = zip(table["source_row"].to_pylist(), table["input_ids"].to_pylist(), strict=True)
        return {row[0] - 2: ids for row, ids in rows if row[0] > 1}

    return read


@settings(max_examples=tries(40, 200))
@given(st.lists(lines(), min_size=1, max_size=20))
@example(
    ['{"text": "a", "text": "b"}', '{"text": "\\ud83d\\ude00"}', '{"text": "\\ud83d"}', '{"text": "a"} x']
)
@example(['{"text": "ab", "n": NaN}', '{"text": "ab", "n": -Infinity}', '{"text": "ab", "n": 01}'])
@example(
    ['{"text": "ab", "\\ud83d": 1}', '{"text": "ab", "n": ["\\ud83d"]}', '{"text": "ab", "n": "\\ud83d"}']
)
@example(['{"text": "ab"', "[]", "7", '"text"', '{"text": 7}', '\ufeff{"text": "ab"}', '{"text": "a\tb"}'])
def test_a_line_is_read_as_python_reads_it(read, tokenizer_dir, lines):
    tokenizer = fastpack.Tokenizer(tokenizer_dir)
    texts = {number: text_of(line) for number, line in enumerate(lines)}
    ids = {number: tokenizer.encode(text).tolist() for number, text in texts.items() if text is not None}
    # The first token of a row is not trained, so a text of one token is none to learn from.
    assert read(lines) == {number: ids for number, ids in ids.items() if len(ids) > 1}
