"""The bytes of pictures that records hold, found again by their numbers in the conversation."""

import base64
import json

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastpack import _fastpack

READING = {"shape": None, "fields": {}, "prompt": None, "examples": [], "separator": None}


def reading(**fields):
    return json.dumps({**READING, "fields": fields})


def base64_of(content):
    return base64.b64encode(content).decode()


#: The ways in which a part or an entry of a column holds bytes.
FORMS = {
    "base64": lambda content: {"base64": base64_of(content)},
    "bytes": lambda content: {"bytes": base64_of(content), "path": "not read"},
    "data": lambda content: {"image": f"data:image/png;base64,{base64_of(content)}"},
    "url": lambda content: {"image_url": {"url": f"data:image/jpeg;base64,{base64_of(content)}"}},
    "nested": lambda content: {"image": {"path": None, "bytes": base64_of(content)}},
}


@st.composite
def held(draw):
    """A conversation with pictures in its parts and beside it, and their bytes in the order of the conversation."""
    messages, column, contents = [], [], []
    for turn in range(draw(st.integers(1, 3))):
        parts = []
        for content in draw(st.lists(st.none() | st.binary(min_size=1, max_size=40), max_size=5)):
            if content is None:
                parts.append({"type": "text", "text": "what?"})
                continue
            contents.append(content)
            made = FORMS[draw(st.sampled_from(sorted(FORMS)))](content)
            if draw(st.booleans()):
                column.append(made)
                made = {}
            parts.append({"type": "image", **made})
        parts.append({"type": "text", "text": "Well?"})
        messages += [{"role": "user", "content": parts}, {"role": "assistant", "content": f"It is {turn}."}]
    return messages, column, contents


@given(held(), st.sampled_from(["messages", "conversation", "dialog"]), st.booleans())
def test_pictures_of_a_line_are_found_by_their_order_in_the_conversation(made, field, is_said):
    messages, column, contents = made
    record = {"kind": ["of", {"role": "none"}], field: messages, **({"images": column} if column else {})}
    line = json.dumps(record).encode()
    readings = [reading(messages=field)] if is_said else []
    assert [_fastpack.held_picture(line, readings, number) for number in range(len(contents))] == contents
    with pytest.raises(ValueError, match=f"it has no picture {len(contents)}"):
        _fastpack.held_picture(line, readings, len(contents))


@given(st.lists(st.binary(min_size=1, max_size=40), min_size=1, max_size=4), st.booleans(), st.data())
def test_pictures_of_a_row_are_those_of_its_marks(contents, is_struct, data):
    kind = data.draw(st.sampled_from([pa.binary(), pa.large_binary(), pa.binary_view()]))
    entries = [{"bytes": content, "path": "not read"} for content in contents] if is_struct else contents
    entry = pa.struct({"bytes": kind, "path": pa.string()}) if is_struct else kind
    messages = [
        [{"role": "user", "content": "<image>" * len(contents)}, {"role": "assistant", "content": "A."}]
    ]
    columns = {
        "id": pa.array([b"\x00"], pa.binary()),
        "messages": pa.array(messages),
        "images": pa.array([entries], pa.list_(entry)),
    }
    row = pa.record_batch(columns)
    assert [_fastpack.held_picture(row, [], number) for number in range(len(contents))] == contents


def test_pictures_of_a_prompt_and_its_completion_are_one_conversation():
    pictures = [{"type": "image", "base64": base64_of(content)} for content in (b"one", b"two", b"three")]
    prompt = [{"role": "user", "content": pictures[:2]}]
    completion = [{"role": "assistant", "content": "Yes?"}, {"role": "user", "content": pictures[2:]}]
    completion.append({"role": "assistant", "content": "No."})
    line = json.dumps({"q": prompt, "a": completion}).encode()
    readings = [reading(), reading(prompt="q", completion="a")]
    found = [_fastpack.held_picture(line, readings, number) for number in range(3)]
    assert found == [b"one", b"two", b"three"]


@pytest.mark.parametrize(
    ("record", "said"),
    [
        (
            {"messages": [{"role": "user", "content": [{"type": "image", "path": "a.png"}]}]},
            "the file `a.png`",
        ),
        ({"messages": [{"role": "user", "content": [{"type": "image", "base64": "%"}]}]}, "no base64"),
        ({"messages": [{"role": "user", "content": [{"type": "image", "url": "data:,a"}]}]}, "not in base64"),
        ({"text": "<image>"}, "0 of its fields hold messages"),
        (
            {"a": [{"role": "user", "content": "x"}], "b": [{"role": "user", "content": "x"}]},
            "2 of its fields",
        ),
        ([1], "expected an object"),
    ],
)
def test_a_record_without_the_bytes_says_why(record, said):
    with pytest.raises(ValueError, match=said):
        _fastpack.held_picture(json.dumps(record).encode(), [], 0)


def test_a_manifest_of_other_options_is_refused():
    with pytest.raises(ValueError, match="the manifest has no options of reading"):
        _fastpack.held_picture(b"{}", ['{"shape": 5}'], 0)
