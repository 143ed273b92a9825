"""Arguments of calls in JSON text: rendered as `transformers` does, or decoded where the template encodes them a second time."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from nested import nested
from template_helpers import unfollowed

import fastpack

if TYPE_CHECKING:
    from pathlib import Path

ENCODES = (
    "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}{% for c in m.tool_calls or [] %}"
    "{{ c.function.name }}{{ c.function.arguments | tojson }}{% endfor %}{{ eos_token }}{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
#: Writes a text as it is.
KNOWS_TEXTS = ENCODES.replace(
    "{{ c.function.arguments | tojson }}",
    "{{ c.function.arguments if c.function.arguments is string else c.function.arguments | tojson }}",
)
ARGUMENTS = ['{"city": "Rome"}', '{"x": 1, "y": [1, 2]}', "{}", '"only a text"', "[1]", "{broken", "12"]


def record(arguments: object) -> dict[str, Any]:
    call = {"type": "function", "function": {"name": "weather", "arguments": arguments}}
    asked = {"role": "user", "content": "Weather?"}
    calling = {"role": "assistant", "content": "", "tool_calls": [call]}
    return {
        "messages": [
            asked,
            calling,
            {"role": "tool", "content": "sunny"},
            {"role": "assistant", "content": "Sunny."},
        ]
    }


def decoded(text: str) -> object:
    """The object of a JSON text; other texts stay."""
    try:
        value = json.loads(text)
    except ValueError:
        return text
    return value if isinstance(value, dict) else text


def rows(table: pa.Table) -> list[tuple[list[int], list[int]]]:
    return sorted(zip(table["input_ids"].to_pylist(), table["labels"].to_pylist(), strict=True))


@pytest.mark.parametrize("template", [ENCODES, unfollowed(ENCODES), KNOWS_TEXTS])
def test_they_are_decoded_on_request_where_the_template_encodes_them(
    template: str, tokenizer_dir: Path, tmp_path: Path
) -> None:
    options: Any = {"chat_template": template, "max_length": 512, "strategy": "none"}
    given = [record(text) for text in ARGUMENTS] + [record({"city": "Rome"})]
    wanted = [record(decoded(text)) for text in ARGUMENTS] + [record({"city": "Rome"})]
    as_given = rows(fastpack.pack_records(given, tokenizer_dir, **options))
    kept = given if template == KNOWS_TEXTS else wanted
    expected = rows(fastpack.pack_records(kept, tokenizer_dir, **options))
    expected_each = rows(fastpack.pack_records(kept, tokenizer_dir, **options, turns="each"))
    assert (expected == as_given) == (template == KNOWS_TEXTS)
    path = tmp_path / "calls.jsonl"
    path.write_text("".join(json.dumps(it) + "\n" for it in given), encoding="utf-8")
    options |= {"chat_template": fastpack.ChatTemplate(template, decode_arguments=True)}
    tables = [
        fastpack.pack_records(given, tokenizer_dir, **options),
        fastpack.pack_files(path, tokenizer_dir, **options, threads=1),
        fastpack.pack_files(path, tokenizer_dir, **options, threads=3),
        pa.concat_tables(fastpack.stream(path, tokenizer_dir, **options)),
    ]
    texts = [
        it for it in given if isinstance(it["messages"][1]["tool_calls"][0]["function"]["arguments"], str)
    ]
    of_table = rows(fastpack.pack_table(pa.Table.from_pylist(texts), tokenizer_dir, **options))
    for table in tables:
        assert rows(table) == expected
    each = fastpack.pack_files(path, tokenizer_dir, **options, threads=3, turns="each")
    assert rows(each) == expected_each != expected
    assert all(row in expected for row in of_table)
    assert len(of_table) == len(texts)
    fastpack.pack_dir(path, tmp_path / "out", tokenizer=tokenizer_dir, **options)
    assert rows(fastpack.read(tmp_path / "out")) == expected
    scanned = {name: value for name, value in options.items() if name != "strategy"}
    # Arguments that are no JSON stay encoded twice.
    left = fastpack.scan(path, tokenizer_dir, **scanned).encoded_arguments.records
    assert left == (0 if template == KNOWS_TEXTS else 1)
    with pytest.raises(fastpack.OutputError, match="decode_arguments"):
        fastpack.pack_dir(
            path,
            tmp_path / "out",
            tokenizer=tokenizer_dir,
            **options | {"chat_template": fastpack.ChatTemplate(template, decode_arguments=False)},
        )


@pytest.mark.parametrize("template", [ENCODES, KNOWS_TEXTS])
def test_those_of_prompts_and_compared_answers_are_decoded_too(template: str, tokenizer_dir: Path) -> None:
    def compared(arguments: object) -> dict[str, Any]:
        calls = record(arguments)["messages"]
        other = [{"role": "assistant", "content": "Rainy."}]
        asked = [*calls, {"role": "user", "content": "Sure?"}]
        return {"prompt": asked, "chosen": calls[1:], "rejected": other}

    def asked(arguments: object) -> dict[str, Any]:
        return {"prompt": compared(arguments)["prompt"]}

    for objective, made in (("preference", compared), ("generation", asked)):
        options: Any = {"chat_template": template, "max_length": 512, "objective": objective}
        given = [made(text) for text in ARGUMENTS]
        kept = given if template == KNOWS_TEXTS else [made(decoded(text)) for text in ARGUMENTS]
        expected = fastpack.pack_records(kept, tokenizer_dir, **options)
        found = fastpack.pack_records(given, tokenizer_dir, **nested({"decode_arguments": True}, options))
        assert found.equals(expected)
        plain = fastpack.pack_records(given, tokenizer_dir, **options)
        assert plain.equals(expected) == (template == KNOWS_TEXTS)
