"""Every shape of records is recognised, put into words as documented, and trained where it should be."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from conftest import conversation, sentence
from test_containers import CONTAINERS

import fastpack

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

USER, ASSISTANT = "the old boat", "a quiet river"
MESSAGES = [{"role": "user", "content": USER}, {"role": "assistant", "content": ASSISTANT}]
ALPACA = (
    "Below is an instruction that describes a task. Write a response that appropriately completes the "
    "request.\n\n### Instruction:\nthe old boat\n\n### Response:\n"
)
ALPACA_INPUT = (
    "Below is an instruction that describes a task, paired with an input that provides further context. "
    "Write a response that appropriately completes the request.\n\n### Instruction:\nthe old boat\n\n"
    "### Input:\nbread\n\n### Response:\n"
)
VICUNA = (
    "A chat between a curious user and an artificial intelligence assistant. The assistant gives helpful, "
    "detailed, and polite answers to the user's questions. USER: the old boat ASSISTANT: "
)


def pack(path: Path, tokenizer: Path, **options: Any) -> Any:
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

SHAPES: dict[str, tuple[dict[str, Any], str, tuple[str, ...], str]] = {
    "messages": ({"messages": MESSAGES}, "conversations", ("messages",), CHAT),
    "conversations": (
        {"conversations": [{"from": "human", "value": USER}, {"from": "gpt", "value": ASSISTANT}]},
        "conversations",
        ("conversations",),
        CHAT,
    ),
    "messages and system": (
        {"messages": MESSAGES, "system": "the town"},
        "conversations",
        ("messages", "system"),
        turns(("system", "the town"), ("user", USER), ("assistant", ASSISTANT)),
    ),
    "prompt and completion": (
        {"prompt": USER, "completion": ASSISTANT},
        "prompt_completion",
        ("prompt", "completion"),
        USER + ASSISTANT + END,
    ),
    "prompt and completion of messages": (
        {"prompt": MESSAGES[:1], "completion": MESSAGES[1:]},
        "prompt_completion",
        ("prompt", "completion"),
        CHAT,
    ),
    "instruction": (
        {"instruction": USER, "input": "", "output": ASSISTANT},
        "instruction",
        ("instruction", "output", "input"),
        CHAT,
    ),
    "instruction and input": (
        {"instruction": USER, "input": "bread", "output": ASSISTANT},
        "instruction",
        ("instruction", "output", "input"),
        turns(("user", f"{USER}\nbread"), ("assistant", ASSISTANT)),
    ),
    "question and answer": (
        {"question": USER, "answer": ASSISTANT},
        "question_answer",
        ("question", "answer"),
        CHAT,
    ),
    "query and response": (
        {"query": USER, "response": ASSISTANT},
        "question_answer",
        ("query", "response"),
        CHAT,
    ),
    "text": ({"text": USER}, "text", ("text",), USER + END),
    "tokens": (
        {"input_ids": [5, 6, 7, 8], "labels": [-100, -100, 7, 8]},
        "tokens",
        ("input_ids", "labels"),
        "",
    ),
}


@pytest.mark.parametrize("container", CONTAINERS)
@pytest.mark.parametrize("name", SHAPES)
def test_a_shape_is_recognised_in_every_container(name, container, tmp_path, tokenizer_dir):
    record, shape, fields, text = SHAPES[name]
    if name == "prompt and completion of messages" and ("csv" in container or "tsv" in container):
        pytest.skip("a prompt in a table of texts is a text")
    path = tmp_path / f"data.{container}"
    path.write_bytes(CONTAINERS[container]([record] * 3))
    found = fastpack.Report.of(pack(path, tokenizer_dir)).inputs
    assert [(it.files, it.shape, sorted(it.fields)) for it in found] == [(1, shape, sorted(fields))]
    if text:
        assert [whole for whole, _ in texts(path, tokenizer_dir)] == [text] * 3
    else:
        assert pack(path, tokenizer_dir)["input_ids"].to_pylist() == [record["input_ids"]] * 3


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
        # This template has no generation prompt: what follows the request begins with the header.
        assert texts(one(record), tokenizer_dir) == [(CHAT, "<|start|>assistant\n" + trained)]
    plain = one({"prompt": USER + "\n", "completion": ASSISTANT})
    assert texts(plain, tokenizer_dir) == [(f"{USER}\n{ASSISTANT}{END}", ASSISTANT + END)]


def test_train_on_chooses_the_turns(write_jsonl, tokenizer_dir):
    path = write_jsonl(
        [{"messages": [*MESSAGES, {"role": "user", "content": "b"}, {"role": "assistant", "content": "c"}]}]
    )
    trained = {
        wish: texts(path, tokenizer_dir, train_on=wish)[0][1]
        for wish in ("auto", "assistant", "last_assistant")
    }
    both = f"{ASSISTANT}<|end|>c<|end|>"
    assert trained == {"auto": both, "assistant": both, "last_assistant": "c<|end|>"}
    with pytest.raises(fastpack.RecordError, match="no completion") as caught:
        pack(path, tokenizer_dir, train_on="completion")
    assert caught.value.reason == "unmaskable"


@pytest.mark.parametrize("train_on", ["assistant", "last_assistant", "completion"])
def test_a_text_has_neither_assistant_nor_completion(train_on, one, tokenizer_dir):
    with pytest.raises(fastpack.RecordError) as caught:
        pack(one({"text": "a"}), tokenizer_dir, train_on=train_on)
    assert caught.value.reason == "unmaskable"


PROMPTS = {
    "alpaca": ("alpaca", ALPACA, ""),
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
    [(whole, trained)] = texts(path, tokenizer_dir, prompt=prompt)
    assert whole == expected[0]
    # A token that straddles the boundary is trained.
    assert trained in {expected[1], " " + expected[1]}


def test_alpaca_has_a_place_for_the_input(one, tokenizer_dir):
    path = one({"instruction": USER, "input": "bread", "output": ASSISTANT})
    assert texts(path, tokenizer_dir, prompt="alpaca") == [(ALPACA_INPUT + ASSISTANT + END, ASSISTANT + END)]


def test_without_a_template_requests_are_put_as_alpaca_has_them(one, bare_tokenizer_dir):
    path = one({"question": USER, "answer": ASSISTANT})
    assert texts(path, bare_tokenizer_dir) == [(ALPACA + ASSISTANT + END, ASSISTANT + END)]
    assert fastpack.Report.of(pack(path, bare_tokenizer_dir)).inputs[0].prompt == "alpaca"


def test_a_prompt_can_be_a_file(one, tokenizer_dir, tmp_path):
    (tmp_path / "prompt.txt").write_text("Q: {question} A: ", encoding="utf-8")
    path = one({"question": USER, "answer": ASSISTANT})
    expected = texts(path, tokenizer_dir, prompt="Q: {question} A: ")
    assert texts(path, tokenizer_dir, prompt=tmp_path / "prompt.txt") == expected


@pytest.mark.parametrize("answer", [ASSISTANT, ASSISTANT + END])
def test_the_end_of_text_stands_once(answer, one, tokenizer_dir):
    for path in (one({"prompt": USER, "completion": answer}), one({"instruction": USER, "output": answer})):
        [(whole, _)] = texts(path, tokenizer_dir, prompt="alpaca")
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
        pack(one({"question": USER, "answer": ASSISTANT}), tokenizer_dir, prompt=prompt)
    assert caught.value.option == "prompt"


def test_a_system_text_without_a_place_is_refused(one, tokenizer_dir):
    path = one({"instruction": USER, "output": ASSISTANT, "system": "the town"})
    with pytest.raises(fastpack.RecordError, match="no place"):
        pack(path, tokenizer_dir, prompt="alpaca")
    [(whole, _)] = texts(path, tokenizer_dir, prompt="vicuna")
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
    paths = [write_jsonl([record], f"{at}.jsonl") for at, (record, *_) in enumerate(SHAPES.values())]
    report = fastpack.Report.of(fastpack.pack_files(paths, tokenizer_dir, max_length=512))
    assert report.documents.kept == sum(it.files for it in report.inputs) == len(SHAPES)


def test_a_shape_that_is_named_is_not_looked_for(write_jsonl, tokenizer_dir):
    path = write_jsonl([{"messages": MESSAGES, "text": USER}])
    assert texts(path, tokenizer_dir)[0][0] == CHAT
    assert texts(path, tokenizer_dir, shape="text")[0][0] == USER + END
    with pytest.raises(fastpack.RecordError, match="question_answer"):
        pack(path, tokenizer_dir, shape="question_answer")


def test_fields_may_have_any_names(one, tokenizer_dir):
    path = one({"a": USER, "b": ASSISTANT, "text": "no"})
    named = texts(path, tokenizer_dir, fields={"question": "a", "answer": "b"})
    assert named == texts(one({"question": USER, "answer": ASSISTANT}), tokenizer_dir)
    with pytest.raises(fastpack.OptionError, match="names parts of"):
        pack(path, tokenizer_dir, fields={"question": "a", "text": "b"})


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


CALL = '{"name": "weather", "arguments": {"town": "Bergen"}}'
CALLING = {
    "conversations": [
        {"from": "human", "value": USER},
        {"from": "function_call", "value": CALL},
        {"from": "observation", "value": "rain"},
        {"from": "gpt", "value": ASSISTANT},
    ]
}


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


def test_labels_of_completions_are_those_of_trl(write_jsonl, tokenizer_dir):
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
        table = pack(path, tokenizer_dir, chat_template=template)
        found = list(zip(table["input_ids"].to_pylist(), table["labels"].to_pylist(), strict=True))
        assert found == [trl_labels(reference, json.loads(json.dumps(record))) for record in records]
