"""Conversations of many thousand messages take time in proportion to their messages."""

from __future__ import annotations

import time

import pytest

import fastpack


@pytest.mark.parametrize("turns", ["auto", "whole", "last"])
def test_the_time_of_a_conversation_grows_with_its_messages(turns, tokenizer_dir):
    """Of more messages than a plane of private-use characters has marks for, too."""
    loaded = fastpack.Tokenizer(tokenizer_dir)
    labels, seconds = [], []
    for count in (4_000, 40_000):
        messages = [
            {"role": ("user", "assistant")[number % 2], "content": ("so?", "yes")[number % 2]}
            for number in range(count)
        ]
        since = time.process_time()
        table = fastpack.pack_records(
            [{"messages": messages}],
            loaded,
            max_length=1 << 22,
            strategy="none",
            turns=turns,
            threads=1,
            progress=False,
        )
        seconds.append(time.process_time() - since)
        labels.append(sum(label != -100 for label in table["labels"][0].as_py()))
    assert labels[1] == (labels[0] if turns == "last" else 10 * labels[0]) > 0
    # Ten times as many messages; a search of each against each would take a hundred times as long.
    assert seconds[1] < 40 * max(seconds[0], 0.02)
