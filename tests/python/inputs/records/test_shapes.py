"""Every shape of records is recognised, put into words as documented, and trained where it should be."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from conftest import conversation, sentence
from containers import CONTAINERS, ROADS, TEXT_FILES, pack_by
from nested import nested, place
from prompts import ALPACA, ALPACA_INPUT
from template_helpers import unfollowed

import fastpack

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

USER, ASSISTANT = "the old boat", "a quiet river"
MESSAGES = [{"role": "user", "content": USER}, {"role": "assistant", "content": ASSISTANT}]
VICUNA = (
    "A chat between a curious user and an artificial intelligence assistant. The assistant gives helpful, "
    "detailed, and polite answers to the user's questions. USER: the old boat ASSISTANT: "
)


def pack(path: Path | list[Path], tokenizer: Path, **options: Any) -> Any:
    return fastpack.pack_files(path, tokenizer, **{"max_length": 4096, "strategy": "none", **options})


def texts(path: Path, tokenizer: Path, **options: Any) -> list[tuple[str, str]]:
    """The text of each document, and the part of it that is trained."""
    tokens = fastpack.Tokenizer(tokenizer)
    table = pack(path, tokenizer, **options)
    return [
        (tokens.decode(ids), tokens.decode([label for label in labels if label != -100]))
        for ids, labels in zip(table["input_ids"].to_pylist(), table["labels"].to_pylist(), strict=True)
    ]


def turns(*pairs: tuple[str, str]) -> str:
    return "".join(f"<|start|>{role}\n{content}<|end|>\n" for role, content in pairs)


CHAT = turns(("user", USER), ("assistant", ASSISTANT))
END = "<|endoftext|>"


class Shape(NamedTuple):
    """A record, and its expected result."""

    record: dict[str, Any]
    shape: str
    fields: tuple[str, ...]
    text: str = ""
    trained: str = ""
    columns: dict[str, list[Any]] = {}  # noqa: RUF012  nobody changes it
    weight: float | None = None
    options: dict[str, Any] = {}  # noqa: RUF012


TOOLS_TEMPLATE = (
    "{%- if tools %}{{- '<|start|>tools\n' + (tools | tojson) + '<|end|>\n' }}{%- endif %}"
    "{%- for message in messages %}"
    "{{- '<|start|>' + message.role + '\n' }}"
    "{%- if message.role == 'assistant' %}{%- generation %}"
    "{%- for call in message.tool_calls or [] %}"
    "{{- call.function.name + (call.function.arguments | tojson) }}"
    "{%- endfor %}"
    "{{- (message.content or '') + '<|end|>' }}{%- endgeneration %}"
    "{%- else %}{{- message.content + '<|end|>' }}{%- endif %}"
    "{{- '\n' }}{%- endfor %}"
)
PARTS_TEMPLATE = (
    "{%- for message in messages %}"
    "{{- '<|start|>' + message.role + '\n' }}"
    "{%- for part in message.content %}"
    "{%- if message.role == 'assistant' %}{%- generation %}{{- part.text }}{%- endgeneration %}"
    "{%- else %}{{- part.text }}{%- endif %}"
    "{%- endfor %}"
    "{{- '<|end|>\n' }}{%- endfor %}"
)
TOWN = {"town": "Bergen"}
TOOL = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}
TOOL_TEXT = '{"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}'
CALLED = [
    {"role": "user", "content": USER},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"type": "function", "function": {"name": "weather", "arguments": TOWN}}],
    },
    {"role": "tool", "content": "rain"},
    {"role": "assistant", "content": ASSISTANT},
]
CALL = '{"name": "weather", "arguments": {"town": "Bergen"}}'
CALLING = {
    "conversations": [
        {"from": "human", "value": USER},
        {"from": "function_call", "value": CALL},
        {"from": "observation", "value": "rain"},
        {"from": "gpt", "value": ASSISTANT},
    ]
}
WITH_TOOLS = turns(
    ("tools", f"[{TOOL_TEXT}]"),
    ("user", USER),
    ("assistant", 'weather{"town": "Bergen"}'),
    ("tool", "rain"),
    ("assistant", ASSISTANT),
)
CALL_TRAINED = f'weather{{"town": "Bergen"}}<|end|>{ASSISTANT}<|end|>'

CHAT_TRAINED = f"{ASSISTANT}<|end|>"
# This template has no generation prompt: the text behind the request begins with the header.
ANSWER_TRAINED = f"<|start|>assistant\n{ASSISTANT}<|end|>\n"

SHAPES = {
    "messages": Shape({"messages": MESSAGES}, "conversations", ("messages",), CHAT, CHAT_TRAINED),
    "conversations": Shape(
        {"conversations": [{"from": "human", "value": USER}, {"from": "gpt", "value": ASSISTANT}]},
        "conversations",
        ("conversations",),
        CHAT,
        CHAT_TRAINED,
    ),
    "messages and system": Shape(
        {"messages": MESSAGES, "system": "the town"},
        "conversations",
        ("messages", "system"),
        turns(("system", "the town")) + CHAT,
        CHAT_TRAINED,
    ),
    "messages with calls and tools": Shape(
        {"messages": CALLED, "tools": [TOOL]},
        "conversations",
        ("messages", "tools"),
        WITH_TOOLS,
        CALL_TRAINED,
        options={"chat_template": TOOLS_TEMPLATE},
    ),
    "messages with calls and tools as text": Shape(
        {"messages": CALLED, "tools": f"[{TOOL_TEXT}]"},
        "conversations",
        ("messages", "tools"),
        WITH_TOOLS,
        CALL_TRAINED,
        options={"chat_template": TOOLS_TEMPLATE},
    ),
    "conversations with calls and tools": Shape(
        {**CALLING, "tools": [TOOL]},
        "conversations",
        ("conversations", "tools"),
        WITH_TOOLS,
        CALL_TRAINED,
        options={"chat_template": TOOLS_TEMPLATE},
    ),
    "conversations with calls that stay text": Shape(
        CALLING,
        "conversations",
        ("conversations",),
        turns(("user", USER), ("assistant", CALL), ("tool", "rain"), ("assistant", ASSISTANT)),
        f"{CALL}<|end|>{ASSISTANT}<|end|>",
    ),
    "messages of parts": Shape(
        {
            "messages": [
                {
                    "role": "user",
                    "content": [{"type": "text", "text": "the old "}, {"type": "text", "text": "boat"}],
                },
                {"role": "assistant", "content": [{"type": "text", "text": ASSISTANT}]},
            ]
        },
        "conversations",
        ("messages",),
        CHAT,
        ASSISTANT,
        options={"chat_template": PARTS_TEMPLATE},
    ),
    "messages that are trained or not": Shape(
        {"messages": [MESSAGES[0], {**MESSAGES[1], "train": False}, *MESSAGES]},
        "conversations",
        ("messages",),
        CHAT * 2,
        CHAT_TRAINED,
    ),
    "messages with weights": Shape(
        {
            "messages": [
                MESSAGES[0],
                {**MESSAGES[1], "weight": 0.5},
                MESSAGES[0],
                {**MESSAGES[1], "weight": 0.0},
            ]
        },
        "conversations",
        ("messages",),
        CHAT * 2,
        CHAT_TRAINED,
        weight=0.5,
    ),
    "prompt and completion": Shape(
        {"prompt": f"{USER}\n", "completion": ASSISTANT},
        "prompt_completion",
        ("prompt", "completion"),
        f"{USER}\n{ASSISTANT}{END}",
        ASSISTANT + END,
    ),
    "prompt and completion of messages": Shape(
        {"prompt": MESSAGES[:1], "completion": MESSAGES[1:]},
        "prompt_completion",
        ("prompt", "completion"),
        CHAT,
        ANSWER_TRAINED,
    ),
    "instruction": Shape(
        {"instruction": USER, "input": "", "output": ASSISTANT},
        "instruction",
        ("instruction", "output", "input"),
        CHAT,
        ANSWER_TRAINED,
    ),
    "instruction and input": Shape(
        {"instruction": USER, "input": "bread", "output": ASSISTANT},
        "instruction",
        ("instruction", "output", "input"),
        turns(("user", f"{USER}\nbread"), ("assistant", ASSISTANT)),
        ANSWER_TRAINED,
    ),
    "question and answer": Shape(
        {"question": USER, "answer": ASSISTANT},
        "question_answer",
        ("question", "answer"),
        CHAT,
        ANSWER_TRAINED,
    ),
    "query and response": Shape(
        {"query": USER, "response": ASSISTANT},
        "question_answer",
        ("query", "response"),
        CHAT,
        ANSWER_TRAINED,
    ),
    # The first letter is a token that nothing predicts.
    "text": Shape({"text": f"a {USER}"}, "text", ("text",), f"a {USER}{END}", f" {USER}{END}"),
    "tokens": Shape(
        {"input_ids": [5, 6, 7, 8]},
        "tokens",
        ("input_ids",),
        columns={"input_ids": [5, 6, 7, 8], "labels": [-100, 6, 7, 8]},
    ),
    "tokens and labels": Shape(
        {"input_ids": [5, 6, 7, 8], "labels": [-100, -100, 7, 8]},
        "tokens",
        ("input_ids", "labels"),
        columns={"input_ids": [5, 6, 7, 8], "labels": [-100, -100, 7, 8]},
    ),
    "tokens, labels and padding": Shape(
        {
            "input_ids": [0, 5, 6, 7, 8, 0],
            "labels": [-100, -100, -100, 7, 8, -100],
            "attention_mask": [0, 1, 1, 1, 1, 0],
        },
        "tokens",
        ("input_ids", "labels", "attention_mask"),
        columns={"input_ids": [5, 6, 7, 8], "labels": [-100, -100, 7, 8]},
    ),
    "tokens of the assistant": Shape(
        {"input_ids": [5, 6, 7, 8], "assistant_masks": [0, 1, 0, 1]},
        "tokens",
        ("input_ids", "assistant_masks"),
        columns={"input_ids": [5, 6, 7, 8], "labels": [-100, 6, -100, 8]},
    ),
}


def holds(road: str, name: str) -> bool:
    """True if records of a shape can come by a road: a prompt in a table of texts is a text."""
    if road in TEXT_FILES:
        return name == "text"
    return name != "prompt and completion of messages" or not ("csv" in road or "tsv" in road)


@pytest.mark.parametrize(
    ("name", "road"), [(name, road) for name in SHAPES for road in [*ROADS, *TEXT_FILES] if holds(road, name)]
)
def test_a_shape_is_recognised_by_every_road(name, road, tmp_path, tokenizer_dir):
    it = SHAPES[name]
    columns = ["input_ids", "labels", *([] if it.weight is None else ["loss_weights"])]
    options = {"max_length": 4096, "strategy": "none", "columns": columns, **it.options}
    table = pack_by(road, [it.record] * 3, tmp_path, tokenizer_dir, **options)
    found = fastpack.Report.of(table).inputs
    assert [(part.files, part.shape, sorted(part.fields)) for part in found] == [
        (1, it.shape, sorted(it.fields))
    ]
    decode = fastpack.Tokenizer(tokenizer_dir).decode
    rows = table.to_pylist()
    assert len(rows) == 3
    for row in rows:
        trained = [label for label in row["labels"] if label != -100]
        if it.columns:
            assert row == it.columns
        else:
            assert (decode(row["input_ids"]), decode(trained)) == (it.text, it.trained)
        if it.weight is not None:
            assert row["loss_weights"] == [0 if label == -100 else it.weight for label in row["labels"]]


@pytest.fixture
def one(write_jsonl: Callable[..., Path]) -> Callable[[dict[str, Any]], Path]:
    return lambda record: write_jsonl([record])


def test_what_answers_is_trained(one, tokenizer_dir):
    trained = ASSISTANT + "<|end|>\n"
    for record in (
        {"instruction": USER, "output": ASSISTANT},
        {"question": USER, "answer": ASSISTANT},
        {"prompt": MESSAGES[:1], "completion": MESSAGES[1:]},
    ):
        # This template has no generation prompt: the text behind the request begins with the header.
        assert texts(one(record), tokenizer_dir) == [(CHAT, "<|start|>assistant\n" + trained)]
    plain = one({"prompt": USER + "\n", "completion": ASSISTANT})
    assert texts(plain, tokenizer_dir) == [(f"{USER}\n{ASSISTANT}{END}", ASSISTANT + END)]


def test_train_on_chooses_the_turns(write_jsonl, tokenizer_dir):
    path = write_jsonl(
        [{"messages": [*MESSAGES, {"role": "user", "content": "b"}, {"role": "assistant", "content": "c"}]}]
    )
    trained = {wish: texts(path, tokenizer_dir, train_on=wish)[0][1] for wish in ("auto", "assistant")}
    both = f"{ASSISTANT}<|end|>c<|end|>"
    assert trained == {"auto": both, "assistant": both}
    assert [trained for _, trained in texts(path, tokenizer_dir, turns="last")] == ["c<|end|>"]
    with pytest.raises(fastpack.RecordError, match="no completion") as caught:
        pack(path, tokenizer_dir, train_on="completion")
    assert caught.value.reason == "unmaskable"


@pytest.mark.parametrize("train_on", ["assistant", "completion"])
def test_a_text_has_neither_assistant_nor_completion(train_on, one, tokenizer_dir):
    with pytest.raises(fastpack.RecordError) as caught:
        pack(one({"text": "a"}), tokenizer_dir, train_on=train_on)
    assert caught.value.reason == "unmaskable"


PROMPTS = {
    "alpaca": ("alpaca", ALPACA.format(instruction=USER), ""),
    "chatml": ("chatml", "<|im_start|>user\nthe old boat<|im_end|>\n<|im_start|>assistant\n", "<|im_end|>"),
    "vicuna": ("vicuna", VICUNA, ""),
    "a text": ("Q: {question}\nA: ", "Q: the old boat\nA: ", ""),
    "a text with an end": ("{{{question}}} {answer} !", "{the old boat} ", " !"),
}


@pytest.mark.parametrize("name", PROMPTS)
@pytest.mark.parametrize("request_field", ["instruction", "question", "prompt"])
def test_a_prompt_is_what_was_published(name, request_field, one, tokenizer_dir):
    prompt, before, after = PROMPTS[name]
    answer = {"instruction": "output", "question": "answer", "prompt": "completion"}[request_field]
    path = one({request_field: USER, answer: ASSISTANT})
    expected = (before + ASSISTANT + after + END, ASSISTANT + after + END)
    [(whole, trained)] = texts(path, tokenizer_dir, reading=fastpack.Reading(prompt=prompt))
    assert whole == expected[0]
    # A token that straddles the boundary is trained.
    assert trained in {expected[1], " " + expected[1]}


def test_alpaca_has_a_place_for_the_input(one, tokenizer_dir):
    path = one({"instruction": USER, "input": "bread", "output": ASSISTANT})
    assert texts(path, tokenizer_dir, reading=fastpack.Reading(prompt="alpaca")) == [
        (ALPACA_INPUT.format(instruction=USER, input="bread") + ASSISTANT + END, ASSISTANT + END)
    ]


def test_without_a_template_requests_are_put_as_alpaca_has_them(one, bare_tokenizer_dir):
    path = one({"question": USER, "answer": ASSISTANT})
    assert texts(path, bare_tokenizer_dir) == [
        (ALPACA.format(instruction=USER) + ASSISTANT + END, ASSISTANT + END)
    ]
    assert fastpack.Report.of(pack(path, bare_tokenizer_dir)).inputs[0].prompt == "alpaca"


def test_a_prompt_can_be_a_file(one, tokenizer_dir, tmp_path):
    (tmp_path / "prompt.txt").write_text("Q: {question} A: ", encoding="utf-8")
    path = one({"question": USER, "answer": ASSISTANT})
    expected = texts(path, tokenizer_dir, reading=fastpack.Reading(prompt="Q: {question} A: "))
    assert texts(path, tokenizer_dir, reading=fastpack.Reading(prompt=tmp_path / "prompt.txt")) == expected


def math(
    sys: str, query: str, after: str, resp: str, before: str = "", delim: str = "\n\n"
) -> dict[str, str]:
    """A prompt in the parts in which DART-Math publishes it."""
    names = ("sys_prompt", "query_prompt", "prompt_after_query", "resp_prompt", "prompt_before_resp", "delim")
    return dict(zip(names, (sys, query, after, resp, before, delim), strict=True))


BELOW = "Below is an instruction that describes a task. Write a response that appropriately completes the request.\n\n"
BOXED = "put your final answer within \\boxed{}.\n\n"
MATH = {
    "qa": math("", "User:\n", "\n\n", "Assistant:\n"),
    "alpaca": math(BELOW, "### Instruction:\n", "\n\n", "### Response:\n"),
    "wizardmath-cot": math(
        BELOW, "### Instruction:\n", "\n\n", "### Response: ", "Let's think step by step."
    ),
    "deepseekmath": math(
        "",
        "User: ",
        f"\nPlease reason step by step, and {BOXED}",
        "Assistant: ",
        delim="<｜end▁of▁sentence｜>",
    ),
    "deepseekmath-tool": math(
        "",
        "User: ",
        f"\nPlease integrate natural language reasoning with programs to solve the problem above, and {BOXED}",
        "Assistant: ",
        delim="<｜end▁of▁sentence｜>",
    ),
    "xwinmath": math(
        "A chat between a curious user and an artificial intelligence assistant. The assistant gives helpful, detailed, "
        "and polite answers to the user's questions. ",
        "USER: ",
        " Give your solution in detail. In the end, write your final answer in the format of 'The answer is: "
        "<ANSWER>.'.  ",
        "ASSISTANT: ",
    ),
    "mammoth2-cot": math(
        "You are supposed to provide a solution to a given problem.\n\n\n",
        "Problem:\n",
        "\n",
        "Solution: ",
        "Let's think step by step.\n",
    ),
    "llama3-math": math(
        "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\n"
        "You are a helpful agent on solving math problems.<|eot_id|>",
        "<|start_header_id|>user<|end_header_id|>\n\n",
        "<|eot_id|>",
        "<|start_header_id|>assistant<|end_header_id|>\n\n",
        delim="<|eot_id|>\n",
    ),
}
FEW_SHOT = [("1 + 1?", "2"), ("a boat?", "a river")]


def full_prompt(parts: dict[str, str], query: str, examples: list[tuple[str, str]]) -> str:
    """The rule of DART-Math: examples keep the blanks before their answers, the request does not."""
    asked = [
        f"{parts['query_prompt']}{asking}{parts['prompt_after_query']}{parts['resp_prompt']}{parts['prompt_before_resp']}"
        for asking in [*(request for request, _ in examples), query]
    ]
    shown = [text + answer for text, (_, answer) in zip(asked, examples, strict=False)]
    return parts["sys_prompt"] + parts["delim"].join([*shown, asked[-1].rstrip(" ")])


@pytest.mark.parametrize("examples", [[], FEW_SHOT])
@pytest.mark.parametrize("name", MATH)
def test_a_prompt_for_mathematics_is_what_was_published(name, examples, one, tokenizer_dir, tmp_path):
    path = one({"query": USER, "response": ASSISTANT})
    file = tmp_path / "prompt.json"
    file.write_text(json.dumps({"id": name, **MATH[name]}))
    expected = full_prompt(MATH[name], USER, examples) + ASSISTANT + END
    for prompt in (name, MATH[name], file):
        [(whole, trained)] = texts(
            path, tokenizer_dir, reading=fastpack.Reading(prompt=prompt, examples=examples)
        )
        assert whole == expected
        assert trained.strip() == ASSISTANT + END
    report = fastpack.Report.of(
        pack(path, tokenizer_dir, reading=fastpack.Reading(prompt=name, examples=examples))
    )
    assert report.inputs[0].prompt == name


def test_examples_go_through_the_chat_template_as_turns(one, tokenizer_dir):
    path = one({"question": USER, "answer": ASSISTANT})
    shown = [turn for request, answer in FEW_SHOT for turn in (("user", request), ("assistant", answer))]
    [(whole, trained)] = texts(path, tokenizer_dir, reading=fastpack.Reading(examples=FEW_SHOT))
    assert whole == turns(*shown) + CHAT
    assert trained.endswith(ASSISTANT + "<|end|>\n")
    assert "a river" not in trained.replace(ASSISTANT, "")


def test_examples_stand_before_any_prompt(one, tokenizer_dir):
    path = one({"prompt": USER, "completion": ASSISTANT})
    joined = "".join(f"{request}{answer}\n\n" for request, answer in FEW_SHOT)
    assert (
        texts(path, tokenizer_dir, reading=fastpack.Reading(examples=FEW_SHOT))[0][0]
        == f"{joined}{USER}{ASSISTANT}{END}"
    )
    asked = "".join(f"Q: {request} A: {answer}\n\n" for request, answer in FEW_SHOT)
    [(whole, _)] = texts(
        path, tokenizer_dir, reading=fastpack.Reading(prompt="Q: {question} A: ", examples=FEW_SHOT)
    )
    assert whole == f"{asked}Q: {USER} A: {ASSISTANT}{END}"


@pytest.mark.parametrize(
    ("option", "wrong"),
    [
        ("examples", [("a",)]),
        ("examples", "ab"),
        ("examples", [("a", 1)]),
        ("prompt", {"sys": "a"}),
        ("prompt", {"sys_prompt": 1}),
    ],
)
def test_examples_and_parts_that_are_none_are_refused(option, wrong, one, tokenizer_dir):
    with pytest.raises(fastpack.OptionError) as caught:
        pack(one({"question": USER, "answer": ASSISTANT}), tokenizer_dir, **nested({option: wrong}))
    assert caught.value.option == place(option)


def test_a_prompt_that_writes_the_begin_of_a_text_has_it_once(one, tmp_path):
    from tokenizers import Tokenizer, models, pre_tokenizers, processors

    words = ["<|begin_of_text|>", "</s>", "the", "old", "boat"]
    tokenizer = Tokenizer(models.WordLevel({word: at for at, word in enumerate(words)}, unk_token="boat"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.add_special_tokens(words[:2])
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<|begin_of_text|> $A", special_tokens=[("<|begin_of_text|>", 0)]
    )
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": "<|begin_of_text|>",
        "eos_token": "</s>",
    }
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    path = one({"question": USER, "answer": ASSISTANT})
    for prompt in ("llama3-math", "qa"):
        [ids] = pack(path, tmp_path, reading=fastpack.Reading(prompt=prompt))["input_ids"].to_pylist()
        assert (ids[0], ids.count(0), ids[-1], ids.count(1)) == (0, 1, 1, 1)


@pytest.mark.parametrize("answer", [ASSISTANT, ASSISTANT + END])
def test_the_end_of_text_stands_once(answer, one, tokenizer_dir):
    for path in (one({"prompt": USER, "completion": answer}), one({"instruction": USER, "output": answer})):
        [(whole, _)] = texts(path, tokenizer_dir, reading=fastpack.Reading(prompt="alpaca"))
        assert whole.endswith(ASSISTANT + END)
        assert whole.count(END) == 1


@pytest.mark.parametrize(
    ("prompt", "said"),
    [
        ("nowhere.txt", "must be one of"),
        ("{question} {topic}", "none of"),
        ("{output}", "no place for the request"),
        ("{question} { x", "alone"),
        ("{question} {answer} {answer}", "more than one"),
        ("{answer} {question}", "after that of the answer"),
    ],
)
def test_a_prompt_that_cannot_be_used_is_refused(prompt, said, one, tokenizer_dir):
    with pytest.raises(fastpack.OptionError, match=said) as caught:
        pack(
            one({"question": USER, "answer": ASSISTANT}),
            tokenizer_dir,
            reading=fastpack.Reading(prompt=prompt),
        )
    assert caught.value.option == "reading.prompt"


@pytest.mark.parametrize(
    ("record", "kind"),
    [
        ({"messages": MESSAGES}, "conversations"),
        ({"prompt": MESSAGES[:1], "completion": MESSAGES[1:]}, "prompts and completions that are messages"),
        ({"text": ASSISTANT}, "texts"),
        ({"input_ids": [5, 6, 7]}, "ids"),
    ],
)
def test_a_prompt_that_nothing_has_a_use_for_is_told(record, kind, one, tmp_path, tokenizer_dir):
    path = one(record)

    def warnings(*paths: Path, **options: Any) -> list[str]:
        return fastpack.Report.of(pack([*paths], tokenizer_dir, **options)).warnings

    [warning] = warnings(path, reading=fastpack.Reading(prompt="alpaca"))
    assert warning.startswith(f"`reading.prompt` has no use for {kind}")
    assert warnings(path) == []
    # With a use for the field, the others are there on purpose.
    request = tmp_path / "requests.jsonl"
    request.write_text(json.dumps({"question": USER, "answer": ASSISTANT}), encoding="utf-8")
    assert warnings(path, request, reading=fastpack.Reading(prompt="alpaca")) == []


def test_a_system_text_without_a_place_is_refused(one, tokenizer_dir):
    path = one({"instruction": USER, "output": ASSISTANT, "system": "the town"})
    with pytest.raises(fastpack.RecordError, match="no place"):
        pack(path, tokenizer_dir, reading=fastpack.Reading(prompt="alpaca"))
    [(whole, _)] = texts(path, tokenizer_dir, reading=fastpack.Reading(prompt="vicuna"))
    assert whole.startswith("the town USER: the old boat ASSISTANT:")


MIXED = [
    ({"messages": MESSAGES}, {"text": "a"}),
    ({"text": "a"}, {"prompt": "a", "completion": "b"}),
    ({"instruction": "a", "output": "b"}, {"question": "a", "answer": "b"}),
]


@pytest.mark.parametrize(("first", "second"), MIXED)
def test_a_file_of_two_shapes_names_the_line(first, second, write_jsonl, tokenizer_dir):
    path = write_jsonl([first, first, second, first])
    with pytest.raises(fastpack.RecordError, match="one shape") as caught:
        pack(path, tokenizer_dir)
    assert (caught.value.line, caught.value.reason) == (3, "other_shape")
    report = fastpack.Report.of(pack(path, tokenizer_dir, on_bad_record="skip"))
    assert report.documents == (4, 3, 1)


def test_each_file_has_its_own_shape(write_jsonl, tokenizer_dir):
    plain = [it for it in SHAPES.values() if not it.options and it.weight is None]
    paths = [write_jsonl([it.record], f"{at}.jsonl") for at, it in enumerate(plain)]
    report = fastpack.Report.of(fastpack.pack_files(paths, tokenizer_dir, max_length=512))
    assert report.documents.kept == sum(it.files for it in report.inputs) == len(plain)


def test_a_shape_that_is_named_is_not_looked_for(write_jsonl, tokenizer_dir):
    path = write_jsonl([{"messages": MESSAGES, "text": USER}])
    assert texts(path, tokenizer_dir)[0][0] == CHAT
    assert texts(path, tokenizer_dir, reading="text")[0][0] == USER + END
    with pytest.raises(fastpack.RecordError, match="question_answer"):
        pack(path, tokenizer_dir, reading="question_answer")


def test_fields_may_have_any_names(one, tokenizer_dir):
    path = one({"a": USER, "b": ASSISTANT, "text": "no"})
    named = texts(path, tokenizer_dir, reading=fastpack.Reading(fields={"question": "a", "answer": "b"}))
    assert named == texts(one({"question": USER, "answer": ASSISTANT}), tokenizer_dir)
    with pytest.raises(fastpack.OptionError, match="names parts of"):
        pack(path, tokenizer_dir, reading=fastpack.Reading(fields={"question": "a", "text": "b"}))


def test_a_part_that_not_all_records_have_is_found_in_those_that_do(write_jsonl, tokenizer_dir):
    requests = [
        {"instruction": USER, "response": ASSISTANT},
        {"instruction": USER, "context": "bread", "response": ASSISTANT},
        {"instruction": USER, "input": "", "context": "bread", "response": ASSISTANT},
        {"instruction": USER, "input": "bread", "response": ASSISTANT, "system_prompt": "the town"},
    ]
    asked = [whole for whole, _ in texts(write_jsonl(requests), tokenizer_dir)]
    with_bread = turns(("user", f"{USER}\nbread"), ("assistant", ASSISTANT))
    assert asked == [CHAT, with_bread, with_bread, turns(("system", "the town")) + with_bread]
    # Of parts that are named, nothing else is looked at.
    path = write_jsonl(requests[1:2])
    assert (
        texts(
            path,
            tokenizer_dir,
            reading=fastpack.Reading(fields={"instruction": "instruction", "input": "input"}),
        )[0][0]
        == CHAT
    )
    ids = [{"input_ids": [5, 6, 7]}, {"input_ids": [5, 6, 7], "completion_mask": [0, 0, 1]}]
    assert pack(write_jsonl(ids), tokenizer_dir)["labels"].to_pylist() == [[-100, 6, 7], [-100, -100, 7]]


@pytest.mark.parametrize("container", ["jsonl", "parquet", "csv"])
def test_a_system_prompt_beside_a_request_is_its_system_text(container, tmp_path, tokenizer_dir):
    records = [
        {"id": "1", "system_prompt": system, "question": USER, "response": ASSISTANT}
        for system in ("", "the town")
    ]
    path = tmp_path / f"data.{container}"
    path.write_bytes(CONTAINERS[container](records))
    assert [whole for whole, _ in texts(path, tokenizer_dir)] == [CHAT, turns(("system", "the town")) + CHAT]
    [found] = fastpack.Report.of(pack(path, tokenizer_dir)).inputs
    assert sorted(found.fields) == ["question", "response", "system_prompt"]


def test_padding_is_left_out_of_ids(one, tokenizer_dir):
    path = one({"input_ids": [0, 0, 5, 6, 7, 0], "attention_mask": [0, 0, 1, 1, 1, 0]})
    assert pack(path, tokenizer_dir)["input_ids"].to_pylist() == [[5, 6, 7]]
    path = one({"input_ids": [5, 6, 7], "assistant_masks": [0, 0, 1]})
    assert pack(path, tokenizer_dir)["labels"].to_pylist() == [[-100, -100, 7]]
    assert pack(path, tokenizer_dir, train_on="all")["labels"].to_pylist() == [[-100, 6, 7]]


BAD_TOKENS = [
    {"input_ids": [1, 2, -3]},
    {"input_ids": [1, 2], "labels": [1]},
    {"input_ids": [1, 2], "labels": [2, -100]},
    {"input_ids": [1, 2, 3], "attention_mask": [1, 0, 1]},
    {"input_ids": [1.5]},
    {"input_ids": "[1"},
]


@pytest.mark.parametrize("record", BAD_TOKENS)
def test_ids_that_are_none_are_refused(record, write_jsonl, tokenizer_dir):
    path = write_jsonl([{"input_ids": [1, 2]}, record])
    with pytest.raises(fastpack.RecordError) as caught:
        pack(path, tokenizer_dir)
    assert (caught.value.line, caught.value.reason in {"wrong_type", "invalid_json"}) == (2, True)


def test_calls_stay_text_where_the_template_knows_none(one, tokenizer_dir):
    expected = turns(("user", USER), ("assistant", CALL), ("tool", "rain"), ("assistant", ASSISTANT))
    assert texts(one(CALLING), tokenizer_dir)[0][0] == expected


def test_calls_are_structured_where_the_template_knows_them(one, tokenizer_dir):
    template = (
        "{% for message in messages %}{{ message.role }}:"
        "{% for call in message.tool_calls or [] %}{{ call.function.name }}({{ call.function.arguments.town }})"
        "{% endfor %}{{ message.content }};{% endfor %}"
    )
    [(whole, _)] = texts(one(CALLING), tokenizer_dir, chat_template=template, train_on="all")
    assert whole == f"user:{USER};assistant:weather(Bergen);tool:rain;assistant:{ASSISTANT};"


@pytest.mark.parametrize(
    ("role", "meant"),
    [
        ("assistent", "assistant"),
        ("Assistant", "assistant"),
        ("gpt", "assistant"),
        ("human", "user"),
        ("uesr ", None),
    ],
)
def test_a_role_that_is_almost_one_is_refused(role, meant, one, tokenizer_dir):
    messages = [{"role": "user", "content": USER}, {"role": role, "content": ASSISTANT}]
    path = one({"messages": messages})
    if meant is None:
        assert texts(path, tokenizer_dir, train_on="all")
        return
    with pytest.raises(fastpack.RecordError, match=f"`{role}`.*`{meant}` is meant") as caught:
        pack(path, tokenizer_dir)
    assert caught.value.reason == "unknown_role"
    template = "{% for message in messages %}{{ message.role }}:{{ message.content }};{% endfor %}"
    spoken_of = f"{{% if messages[1].role == '{role}' %}}!{{% endif %}}{template}"
    [(whole, _)] = texts(path, tokenizer_dir, train_on="all", chat_template=spoken_of)
    assert whole == f"!user:{USER};{role}:{ASSISTANT};"


@pytest.mark.parametrize("role", ["critic", "ipython", "cook", "narrator"])
def test_a_role_of_its_own_is_left_to_the_template(role, one, tokenizer_dir):
    path = one({"messages": [*MESSAGES, {"role": role, "content": "no"}]})
    assert texts(path, tokenizer_dir)[0][0] == CHAT + turns((role, "no"))


def test_a_system_text_must_not_differ_from_the_system_message(one, tokenizer_dir):
    system = {"role": "system", "content": "the town"}
    same = one({"messages": [system, *MESSAGES], "system": "the town"})
    assert texts(same, tokenizer_dir)[0][0].count("the town") == 1
    with pytest.raises(fastpack.RecordError, match="differs"):
        pack(one({"messages": [system, *MESSAGES], "system": "a letter"}), tokenizer_dir)


def trl_labels(tokenizer: Any, record: dict[str, Any]) -> tuple[list[int], list[int]]:
    """Ids and labels of a prompt and its completion, by the rule of TRL's SFTTrainer."""
    prompt, completion = record["prompt"], record["completion"]
    if isinstance(prompt, str):
        before = tokenizer(prompt)["input_ids"]
        ids = tokenizer(prompt + completion + tokenizer.eos_token)["input_ids"]
    else:
        before = tokenizer.apply_chat_template(prompt, add_generation_prompt=True)["input_ids"]
        ids = tokenizer.apply_chat_template(prompt + completion)["input_ids"]
    assert ids[: len(before)] == before, "a token straddles"
    return ids, [-100] * len(before) + ids[len(before) :]


@pytest.mark.parametrize("road", [str, unfollowed], ids=["compiled", "interpreted"])
def test_labels_of_completions_are_those_of_trl(road, write_jsonl, tokenizer_dir):
    transformers = pytest.importorskip("transformers")
    reference = transformers.AutoTokenizer.from_pretrained(tokenizer_dir)
    template = (
        "{% for message in messages %}<|start|>{{ message['role'] }}\n{{ message['content'] }}<|end|>\n"
        "{% endfor %}{% if add_generation_prompt %}<|start|>assistant\n{% endif %}"
    )
    reference.chat_template = template
    chats = [conversation(number)["messages"] for number in range(30)]
    plain = [{"prompt": sentence(n, 9) + "\n", "completion": sentence(n + 1, 7)} for n in range(30)]
    for records in (
        [{"prompt": chat[:-1], "completion": chat[-1:]} for chat in chats],
        plain,
    ):
        path = write_jsonl(records)
        table = pack(path, tokenizer_dir, chat_template=road(template))
        found = list(zip(table["input_ids"].to_pylist(), table["labels"].to_pylist(), strict=True))
        assert found == [trl_labels(reference, json.loads(json.dumps(record))) for record in records]
