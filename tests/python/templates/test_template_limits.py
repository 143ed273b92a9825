"""A template that would run for ever, or fill the memory, is refused soon; Ctrl-C is heard while it runs."""

from __future__ import annotations

import json
import os
import signal
import time

import pytest
from campaign import campaign_only
from pace import paced

import fastpack

FOR_EVER = (
    "{% set ns = namespace(s='xxxxxxxx', l=[1]) %}{% set text = messages[0].content %}\n"
    "{% for i in range(99999) %}{% for j in range(99999) %}BODY{% endfor %}{% endfor %}"
)
BODIES = {
    "loops": "",
    "a text that doubles": "{% set ns.s = ns.s ~ ns.s %}",
    "a list that doubles": "{% set ns.l = ns.l + ns.l %}",
    "a replacement that explodes": "{% set ns.s = text|replace('x', text) %}",
    "texts that are compared": "{% if text == text ~ '' %}{% endif %}",
    "texts that are searched": "{% if text[1:] ~ 'y' in text %}{% endif %}",
    "characters that are sorted": "{% set ns.l = text|list|sort %}",
}

PACK = """
import json, resource, sys, time
import fastpack
files, tokenizer, template = sys.argv[1:]
fastpack.pack_files(files, tokenizer, max_length=64, chat_template="{{ messages[0].role }}", train_on="all")
before, started = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
try:
    fastpack.pack_files(files, tokenizer, max_length=64, chat_template=template)
except fastpack.RecordError as error:
    said = [error.reason, error.line, str(error)]
took, peak = time.process_time() - started, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(json.dumps([said, took, (peak - before) / 1024]))
"""


def conversation(megabytes):
    return {
        "messages": [
            {"role": "user", "content": "x" * (megabytes << 20)},
            {"role": "assistant", "content": "y"},
        ]
    }


@pytest.mark.parametrize(
    "body", [*BODIES][:3] + [pytest.param(it, marks=campaign_only) for it in [*BODIES][3:]]
)
def test_a_template_without_end_is_refused_soon_and_takes_little_memory(
    body, write_jsonl, tokenizer_dir, python
):
    files = write_jsonl([conversation(1)])
    process = python("-c", PACK, str(files), str(tokenizer_dir), FOR_EVER.replace("BODY", BODIES[body]))
    stdout, stderr = process.communicate(timeout=600)
    assert not process.returncode, stderr
    (reason, line, message), seconds, megabytes = json.loads(stdout)
    assert (reason, line) == ("template", 1)
    assert "line 2: the template " in message
    assert "more work than" in message or "more memory than" in message
    assert seconds < 20
    assert megabytes < 300


def test_a_record_that_takes_too_much_is_left_out_and_counted(write_jsonl, tokenizer_dir):
    template = (
        "{% for m in messages %}{% if m.content == 'endless' %}{% for i in range(99999) %}"
        "{% for j in range(99999) %}{% endfor %}{% endfor %}{% endif %}{{ m.content }} {% endfor %}"
    )
    said = ["a", "endless", "b"]
    files = write_jsonl([{"messages": [{"role": "user", "content": text}]} for text in said])
    table = fastpack.pack_files(
        files, tokenizer_dir, max_length=64, chat_template=template, train_on="all", on_bad_record="skip"
    )
    report = fastpack.Report.of(table)
    assert (report.documents.read, report.documents.dropped) == (3, 1)
    assert report.dropped["template"].documents == 1


WAIT = """
import sys, time
import fastpack
files, tokenizer, template = sys.argv[1:]
messages = [{"role": "user", "content": "x" * (32 << 20)}, {"role": "assistant", "content": "y"}]
loaded = fastpack.Tokenizer(tokenizer)
print("started", flush=True)
try:
    CALL
except KeyboardInterrupt:
    print("interrupted", time.monotonic(), flush=True)
else:
    print("too fast", flush=True)
"""
CALLS = {
    "pack_files": "fastpack.pack_files(files, loaded, max_length=64, chat_template=template)",
    "scan": "fastpack.scan(files, loaded, chat_template=template)",
    "apply_chat_template": "loaded.apply_chat_template(messages, chat_template=template)",
}


@pytest.mark.skipif(os.name != "posix", reason="signals as POSIX has them")
@pytest.mark.parametrize("call", CALLS)
def test_ctrl_c_is_heard_while_a_template_runs(call, write_jsonl, tokenizer_dir, python):
    files = write_jsonl([conversation(32)])
    template = FOR_EVER.replace("BODY", "{% if text[1:] ~ 'y' in text %}{% endif %}")
    process = python("-c", WAIT.replace("CALL", CALLS[call]), str(files), str(tokenizer_dir), template)
    assert process.stdout.readline().strip() == "started", process.communicate()[1]
    time.sleep(1)
    with paced() as machine:
        sent = time.monotonic()
        process.send_signal(signal.SIGINT)
        said = process.stdout.readline().split()
    process.communicate(timeout=30)
    assert said[0] == "interrupted"
    assert float(said[1]) - sent <= 0.5 * machine.slowness
