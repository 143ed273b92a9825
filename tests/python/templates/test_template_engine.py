"""`template_engine="python"`: templates that are refused by name, rendered by transformers itself."""

from __future__ import annotations

import datetime as dt
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from conftest import conversation

import fastpack

transformers = pytest.importorskip("transformers")

MARKED = (
    "{%- for role, group in messages | groupby('role') %}{{ role }}:"
    "{%- for m in group %}"
    "{%- if m.role == 'assistant' %}{% generation %}{{ m.content + '<|end|>' }}{% endgeneration %}"
    "{%- else %}{{ m.content }}{% endif %}{% endfor %}{% endfor %}"
)
REFUSED = {
    "groupby": MARKED,
    "recursive loop": "{% for m in messages recursive %}{{ m.content | upper }}<|end|>{% endfor %}",
    "cycler": "{% set c = cycler('a', 'b') %}{% for m in messages %}{{ c.next() }}{{ m.content }}{% endfor %}",
    "xmlattr": "{% for m in messages %}<m{{ {'role': m.role} | xmlattr }}>{{ m.content }}{% endfor %}",
}
PLAIN = (
    "{% for m in messages %}<|start|>{{ m.role }}\n{{ m.content }}<|end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|start|>assistant\n{% endif %}"
)
RECORDS = [conversation(number) for number in range(12)]
OPTIONS = {"max_length": 512, "strategy": "none", "order": "input", "overlong": "truncate"}


@pytest.fixture
def path(write_jsonl):
    return write_jsonl(RECORDS)


@pytest.fixture(scope="module")
def oracle(tokenizer_dir):
    return transformers.AutoTokenizer.from_pretrained(tokenizer_dir)


def pack(path, tokenizer, template, *, variables=None, now=None, **options):
    options = {"threads": 1} | options
    outside = fastpack.ChatTemplate(template, engine="python", variables=variables, now=now)
    return fastpack.pack_files(path, tokenizer, **OPTIONS, chat_template=outside, **options)


def expected(oracle, template, **options):
    return [
        oracle.apply_chat_template(
            record["messages"], chat_template=template, tokenize=True, return_dict=True, **options
        )
        for record in RECORDS
    ]


@pytest.mark.parametrize("name", REFUSED)
def test_a_refused_template_renders_as_in_transformers(name, path, tokenizer_dir, oracle):
    refusals = (fastpack.TemplateError, fastpack.RecordError)
    with pytest.raises(refusals, match=r"not supported; chat_template=ChatTemplate|is not known to render"):
        fastpack.pack_files(path, tokenizer_dir, **OPTIONS, chat_template=REFUSED[name])
    packed = pack(path, tokenizer_dir, REFUSED[name], train_on="all")
    assert packed["input_ids"].to_pylist() == [
        chat["input_ids"][: OPTIONS["max_length"]] for chat in expected(oracle, REFUSED[name])
    ]


def test_masks_are_those_of_transformers(path, tokenizer_dir, oracle):
    packed = pack(path, tokenizer_dir, MARKED).to_pylist()
    chats = expected(oracle, MARKED, return_assistant_tokens_mask=True)
    for row, chat in zip(packed, chats, strict=True):
        labels = [token if mark else -100 for token, mark in zip(*list(chat.values())[::2], strict=True)]
        assert row["labels"] == [-100, *labels[1:]]


def test_what_the_assistant_wrote_is_derived_where_it_is_not_marked(path, tokenizer_dir):
    refused = PLAIN + "{% for x in [] recursive %} {% endfor %}"
    rows = fastpack.pack_files(path, tokenizer_dir, **OPTIONS, chat_template=PLAIN).to_pylist()
    assert pack(path, tokenizer_dir, refused).to_pylist() == rows


def test_the_report_says_who_rendered_and_why(path, tokenizer_dir):
    refused = "{% set varargs = 1 %}" + MARKED
    report = fastpack.Report.of(pack(path, tokenizer_dir, refused))
    [warning] = report.warnings
    assert warning.startswith("chat template `chat_template`, line 1: ")
    assert "transformers renders it" in warning
    [warning] = fastpack.Report.of(pack(path, tokenizer_dir, MARKED)).warnings
    assert "some conversations are rendered by transformers" in warning
    native = fastpack.Report.of(
        fastpack.pack_files(
            path, tokenizer_dir, **OPTIONS, chat_template=fastpack.ChatTemplate(engine="python")
        )
    )
    assert native.warnings == []


def test_a_value_that_is_refused_is_rendered_outside_too(write_jsonl, tokenizer_dir, oracle):
    template = "{% for m in messages %}{{ m.content ~ (m.n | string) }}{% endfor %}"
    record = {"messages": [{"role": "user", "content": "x", "n": 2**70}]}
    packed = pack(write_jsonl([record]), tokenizer_dir, template, train_on="all")
    chat = oracle.apply_chat_template(record["messages"], chat_template=template, return_dict=True)
    assert packed["input_ids"].to_pylist() == [chat["input_ids"]]


def test_tools_documents_tokens_and_variables_arrive(write_jsonl, tokenizer_dir, oracle):
    template = (
        "{% for x in [0] recursive %}{{ tools | tojson }}|{{ documents | tojson }}|{{ eos_token }}|{{ mood }}|{{ extra }}|"
        "{{ add_generation_prompt }}|{{ strftime_now('%Y-%m-%d') }}|{% endfor %}{{ messages | tojson }}"
    )
    tools = [{"type": "function", "function": {"name": "f", "parameters": {"n": 1.5, "é": [None, True]}}}]
    record = {
        "messages": [{"role": "user", "content": "é🙂", "reasoning": "why", "gone": None}],
        "tools": tools,
        "chat_template_kwargs": {"mood": "sad", "documents": [{"title": "t", "text": "d"}]},
    }
    text = fastpack.Tokenizer(tokenizer_dir).decode(
        pack(
            write_jsonl([record]),
            tokenizer_dir,
            template,
            train_on="all",
            variables={"extra": 3, "mood": "glad", "add_generation_prompt": True},
            now=dt.datetime(2031, 2, 3),  # noqa: DTZ001  templates know no zones
        )["input_ids"][0].as_py()
    )
    reference = oracle.apply_chat_template(
        record["messages"],
        tools=tools,
        documents=[{"title": "t", "text": "d"}],
        mood="sad",
        extra=3,
        add_generation_prompt=True,
        chat_template=template.replace("strftime_now('%Y-%m-%d')", "'2031-02-03'"),
        tokenize=False,
    )
    assert text == reference


def test_rows_do_not_depend_on_threads(write_jsonl, tokenizer_dir):
    path = write_jsonl([conversation(number) for number in range(1500)])
    one, two = (pack(path, tokenizer_dir, MARKED, threads=threads) for threads in (1, 2))
    assert one.equals(two)


def test_a_single_conversation_renders_too(tokenizer_dir, oracle):
    tokenizer = fastpack.Tokenizer(tokenizer_dir)
    messages = RECORDS[1]["messages"]
    text = tokenizer.apply_chat_template(
        messages, chat_template=fastpack.ChatTemplate(MARKED, engine="python"), tokenize=False
    )
    assert text == oracle.apply_chat_template(messages, chat_template=MARKED, tokenize=False)


def test_an_exception_in_the_template_is_the_records(write_jsonl, tokenizer_dir):
    template = "{% for x in [] recursive %}{% endfor %}{{ raise_exception('no ' + messages[0].content) }}"
    path = write_jsonl([{"messages": [{"role": "user", "content": "way"}]}])
    with pytest.raises(fastpack.RecordError, match=r"data.jsonl:1: .*TemplateError: no way") as caught:
        pack(path, tokenizer_dir, template, train_on="all")
    assert caught.value.reason == "template"
    skipped = {"on_bad_record": "skip", "max_lost": "100%"}
    report = fastpack.Report.of(pack(path, tokenizer_dir, template, train_on="all", **skipped))
    assert report.dropped["template"].documents == 1


def test_a_template_that_transformers_refuses_too_is_named(path, tokenizer_dir):
    with pytest.raises(fastpack.TemplateError, match="line 2: TemplateSyntaxError") as caught:
        pack(path, tokenizer_dir, "{% for x in [] recursive %}{% endfor %}\n{% nonsense %}")
    assert caught.value.line == 2


def test_an_unknown_engine_is_refused(path, tokenizer_dir):
    with pytest.raises(fastpack.OptionError, match='must be one of "native", "python"') as caught:
        fastpack.pack_files(
            path, tokenizer_dir, max_length=16, chat_template=fastpack.ChatTemplate(engine="jinja")
        )
    assert caught.value.option == "chat_template.engine"


def children():
    """The processes that this one has started and not yet waited for."""
    listed = subprocess.run(
        ["ps", "-o", "pid=", "--ppid", str(os.getpid())], capture_output=True, check=False
    )
    return [int(pid) for pid in listed.stdout.split()]


@pytest.mark.skipif(sys.platform != "linux", reason="looks at processes as Linux lists them")
def test_no_process_is_left(path, tokenizer_dir):
    before = set(children())
    pack(path, tokenizer_dir, MARKED, threads=2)
    left = set(children()) - before
    assert len(left) <= 1, "only `ps` itself"


ENDLESS = "{% for x in [] recursive %}{% endfor %}{% for n in range(99999) %}{% for m in range(99999) %}{% endfor %}{% endfor %}"


DYING = """
import os, signal, sys
sys.stdin.readline()
print('"ready"', flush=True)
sys.stdin.readline()
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.skipif(os.name != "posix", reason="signals as POSIX has them")
def test_a_process_that_dies_ends_the_run_with_the_reason(path, tokenizer_dir, monkeypatch):
    monkeypatch.setattr("fastpack.tokenizer.arguments.command", lambda: [sys.executable, "-c", DYING])
    with pytest.raises(fastpack.TemplateError, match=r"it ended by itself \(signal: 9 \(SIGKILL\)\)"):
        pack(path, tokenizer_dir, MARKED, on_bad_record="skip", threads=2)


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("", r"it ended by itself \(exit status: 0\)"),
        ("print('no JSON')", "it answered something else"),
        (
            """print('{"missing": "No module named transformers"}')""",
            "transformers cannot be used: No module",
        ),
    ],
)
def test_a_process_that_does_not_start_is_named(code, message, path, tokenizer_dir, monkeypatch):
    monkeypatch.setattr("fastpack.tokenizer.arguments.command", lambda: [sys.executable, "-c", code])
    with pytest.raises(fastpack.OptionError, match=message) as caught:
        pack(path, tokenizer_dir, MARKED)
    assert caught.value.option == "chat_template.engine"


@pytest.mark.skipif(sys.platform != "linux", reason="looks at processes as Linux lists them")
def test_ctrl_c_ends_a_template_that_does_not_end(path, tokenizer_dir, python):
    code = (
        "import fastpack, sys, time\n"
        "try:\n"
        "    fastpack.pack_files(sys.argv[1], sys.argv[2], max_length=64,\n"
        "        chat_template=fastpack.ChatTemplate(sys.argv[3], engine='python'),\n"
        "        threads=2)\n"
        "except KeyboardInterrupt:\n"
        "    print('interrupted', flush=True)\n"
    )
    process = python("-c", code, str(path), str(tokenizer_dir), ENDLESS)
    renderers = wait_for_renderers(process.pid)
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    stdout, stderr = process.communicate(timeout=20)
    assert stdout == "interrupted\n", stderr
    assert not any(alive(pid) for pid in renderers)


def alive(pid):
    return Path(f"/proc/{pid}").exists()


def wait_for_renderers(parent):
    for _ in range(300):
        listed = subprocess.run(["ps", "-o", "pid=", "--ppid", str(parent)], capture_output=True, check=False)
        if found := [int(pid) for pid in listed.stdout.split()]:
            return found
        time.sleep(0.1)
    return []
