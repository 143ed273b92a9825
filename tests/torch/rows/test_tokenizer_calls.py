"""Calling a `fastpack.Tokenizer` with `return_tensors="pt"` gives the tensors of the transformers tokenizer's call."""

from __future__ import annotations

import pytest
import torch
from places import ROOT
from transformers import AutoTokenizer

import fastpack

TOKENIZER = ROOT / "examples" / "tokenizer"


@pytest.mark.parametrize("pair", [None, ["the other bank", "b"]])
def test_tensors_of_a_call_equal_those_of_transformers(pair):
    texts = ["a river", "the boat on the river"]
    ours, theirs = fastpack.Tokenizer(TOKENIZER), AutoTokenizer.from_pretrained(TOKENIZER)
    options = {"padding": "max_length", "truncation": True, "max_length": 6, "return_tensors": "pt"}
    got, want = ours(texts, pair, **options), theirs(texts, pair, **options)
    assert set(got) == set(want)
    for name, tensor in got.items():
        assert torch.equal(tensor, want[name]), name
        assert tensor.dtype == want[name].dtype
