"""`check` finds every wrong model and passes every right one, in each layout that `collate` makes."""

from __future__ import annotations

from itertools import accumulate
from types import SimpleNamespace

import pytest
import torch
from conftest import documents, pack
from small_models import VOCABULARY, model_of
from torch.nn.attention.flex_attention import BlockMask

from fastpack import BatchError
from fastpack.torch import check, collate

PACKED = {
    "end to end": {},
    "end to end, numbered": {"seq_idx": True},
    "padded": {"padded": "longest"},
    "padded to a number": {"padded": 80, "seq_idx": True},
    "padded, flex": {"padded": "longest", "mask": "flex"},
}
ALONE = {"one document a row": {"padded": "longest", "mask": "padding"}}
LAYOUTS = [
    (
        f"{name}{', shifted' if shift else ''}",
        options | {"shift_labels": shift},
        name in ALONE,
    )
    for name, options in (PACKED | ALONE).items()
    for shift in (False, True)
]


def rows_of(*, alone=False):
    """Packed rows of several documents each, of which one has an even number with two neighbours; or of one each."""
    columns = documents(14, longest=12, seed=3)
    return pack(columns, max_length=40, strategy="none" if alone else "sequential").to_pylist()


def documents_of(batch, rows):
    """The row, the start and the length of each document of a batch, as the packed rows say."""
    lengths = [row["seq_lengths"] for row in rows]
    if "cu_seq_lens_q" in batch:
        lengths = [[length for row in lengths for length in row]]
    return [
        (row, start, length)
        for row, each in enumerate(lengths)
        for start, length in zip(accumulate(each, initial=0), each, strict=False)
    ]


class Small(torch.nn.Module):
    """One layer that mixes the tokens of a document, and a loss; with a fault, if one is named."""

    def __init__(self, places, *, shift, fault="", kind="attention"):
        super().__init__()
        torch.manual_seed(1)
        self.embed = torch.nn.Embedding(VOCABULARY, 24)
        self.places = torch.nn.Embedding(128, 24)
        self.inner = torch.nn.Linear(24, 24)
        self.experts = torch.nn.ModuleList(torch.nn.Linear(24, 24) for _ in range(3))
        self.dropout = torch.nn.Dropout(0.5)
        self.out = torch.nn.Linear(24, VOCABULARY)
        self.documents, self.shift, self.fault, self.kind = places, shift, fault, kind

    def forward(
        self, input_ids, labels=None, position_ids=None, attention_mask=None, cu_seq_lens_q=None, **given
    ):
        rows, width = input_ids.shape
        seen = self.seen(rows, width, attention_mask, cu_seq_lens_q, position_ids)
        is_whole = input_ids.shape == getattr(self, "shape", input_ids.shape)
        positions = position_ids
        if self.fault == "positions go on" and is_whole:
            row, start, length = self.documents[-1]
            positions = position_ids.clone()
            positions[row, start : start + length] += 3
        state = self.embed(input_ids) + self.places(positions % 128)
        if self.fault == "ignores its tokens":
            state = self.places(positions % 128)
        if self.kind == "state space":
            ages = torch.arange(width)[:, None] - torch.arange(width)
            mixing = seen * 0.8 ** ages.clamp(min=0).to(state.dtype)
        else:
            scores = (self.inner(state) @ state.mT) / 24**0.5
            mixing = scores.masked_fill(~seen, torch.finfo(scores.dtype).min).softmax(-1) * seen.any(-1, True)
        mixed = self.dropout(state + mixing.to(state.dtype) @ state)
        more = None
        if self.kind == "experts":
            chosen = mixed[..., :3].argmax(-1)
            mixed = mixed + sum(
                expert(mixed) * (chosen == number)[..., None] for number, expert in enumerate(self.experts)
            )
            more = mixed[..., :3].softmax(-1).mean((0, 1)).square().sum()
        if is_whole:
            mixed = mixed + self.leak(state.detach(), attention_mask)
        logits = self.out(mixed)
        if self.fault in ("nan", "inf") and is_whole:
            row, start, _ = self.documents[len(self.documents) // 2]
            logits[row, start, 7] = float(self.fault)
        loss = None if labels is None else self.loss(logits, labels, input_ids, is_whole)
        if loss is not None and more is not None:
            loss = loss + 0.1 * more
        return SimpleNamespace(logits=logits, loss=loss, aux_loss=more)

    def seen(self, rows, width, mask, ends, positions):
        """The tokens that each token attends to."""
        causal = torch.ones(width, width, dtype=torch.bool).tril()
        if self.fault == "sees the row":
            return causal.expand(rows, width, width)
        if isinstance(mask, BlockMask):
            row, query, key = (
                torch.arange(rows)[:, None, None],
                torch.arange(width)[:, None],
                torch.arange(width),
            )
            return mask.mask_mod(row, torch.tensor(0), query, key)
        if mask is not None and mask.dim() == 4:
            return mask[:, 0] == 0
        if mask is not None:
            return causal & (mask[:, None] > 0)
        numbers = (positions == 0).cumsum(-1)
        if ends is not None:
            numbers = torch.searchsorted(ends.long(), torch.arange(width), right=True)[None]
        return causal & (numbers[:, :, None] == numbers[:, None, :])

    def leak(self, state, mask):
        """The leak from other documents, to be added to the state."""
        added = torch.zeros_like(state)
        pairs = {
            "first leaks into last": (0, -1, 1.0),
            "first leaks into third": (0, 2, 1.0),
            "last leaks into first": (-1, 0, 1.0),
            "second leaks into fourth a little": (1, 3, 0.05),
        }
        if self.fault in pairs:
            source, target, share = pairs[self.fault]
            row, start, length = self.documents[source]
            other, begin, size = self.documents[target]
            added[other, begin : begin + size] = share * state[row, start : start + length].mean(0)
        if self.fault == "padding leaks":
            row, start, length = self.documents[-1]
            padding = torch.ones(state.shape[:2], dtype=torch.bool)
            for line, begin, size in self.documents:
                padding[line, begin : begin + size] = False
            added[row, start : start + length] = state[padding].mean(0)
        return added

    def loss(self, logits, labels, ids, is_whole):
        """The mean over the labels, or a wrong one."""
        distance = 0 if self.shift else 1
        if is_whole:
            labels = self.spoilt(labels.clone(), ids, distance)
        distance += {"loss shifts once more": 1, "loss shifts twice more": 2, "loss shifts less": -1}.get(
            self.fault, 0
        )
        before, after = logits[:, : logits.shape[1] - max(distance, 0)], labels[:, max(distance, 0) :]
        if distance < 0:
            before, after = logits[:, 1:], labels[:, :-1]
        before = before.float() * (2 if self.fault == "colder loss" else 1)
        each = torch.nn.functional.cross_entropy(before.mT, after, reduction="none").flatten()
        mean = each.sum() / (after != -100).sum()
        wrong = {
            "weighs by place": (each * torch.linspace(0.5, 1.5, len(each))).sum() / (after != -100).sum(),
            "no number": mean * float("nan"),
            "adds to the loss": mean + 0.7,
            "sum": each.sum(),
        }
        return wrong.get(self.fault, mean)

    def spoilt(self, labels, ids, distance):
        """Labels of which a fault makes others."""
        if self.fault in ("trains first tokens", "trains first token of one document"):
            starts = [(row, start) for row, start, _ in self.documents if start]
            for row, start in starts if self.fault == "trains first tokens" else starts[:1]:
                labels[row, start - 1 + distance] = ids[row, start]
        if self.fault == "trains all tokens":
            return ids.roll(-1, -1) if self.shift else ids
        if self.fault == "leaves out a document":
            row, start, length = self.documents[1]
            labels[row, start : start + length] = -100
        return labels


FAULTS = [
    "nan",
    "inf",
    "sees the row",
    "first leaks into last",
    "first leaks into third",
    "last leaks into first",
    "second leaks into fourth a little",
    "padding leaks",
    "ignores its tokens",
    "positions go on",
    "loss shifts once more",
    "loss shifts twice more",
    "loss shifts less",
    "trains first tokens",
    "trains first token of one document",
    "trains all tokens",
    "leaves out a document",
    "colder loss",
    "weighs by place",
    "no number",
    "adds to the loss",
]

IMPOSSIBLE = {
    # Rows of one document: the row is the document.
    "sees the row": ("one document",),
    "positions go on": ("one document",),
    "trains first tokens": ("one document",),
    "trains first token of one document": ("one document",),
    # Rows end to end have no padding.
    "padding leaks": ("end to end",),
}
"""Faults that a layout cannot have."""


def small(options, *, alone, **given):
    rows = rows_of(alone=alone)
    batch = collate(rows, **options)
    model = Small(documents_of(batch, rows), shift=options["shift_labels"], **given)
    model.shape = batch["input_ids"].shape
    return model, batch, [row["seq_lengths"] for row in rows]


@pytest.mark.parametrize(("layout", "options", "alone"), LAYOUTS, ids=[layout[0] for layout in LAYOUTS])
@pytest.mark.parametrize("fault", FAULTS)
def test_every_wrong_model_is_found(fault, layout, options, alone):
    if layout.startswith(IMPOSSIBLE.get(fault, "-")):
        pytest.skip("the layout cannot have this fault")
    model, batch, lengths = small(options, alone=alone, fault=fault)
    with pytest.raises(BatchError) as caught:
        check(model, batch, seq_lengths=lengths)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("layout", "options", "alone"), LAYOUTS, ids=[layout[0] for layout in LAYOUTS])
@pytest.mark.parametrize("kind", ["attention", "experts", "state space"])
def test_every_right_model_passes(kind, layout, options, alone):
    for is_half in (False, True):
        model, batch, lengths = small(options, alone=alone, kind=kind)
        model.train()
        if is_half:
            model.to(torch.bfloat16)
        check(model, batch, seq_lengths=lengths)
        check(model, batch)
    model, batch, lengths = small(options, alone=alone, kind=kind, fault="sum")
    check(model, batch, seq_lengths=lengths)


@pytest.mark.parametrize(("layout", "options", "alone"), LAYOUTS, ids=[layout[0] for layout in LAYOUTS])
def test_batches_that_something_spoilt_are_found(layout, options, alone):
    model, batch, lengths = small(options, alone=alone)
    halves = [row[: len(row) // 2] for row in lengths]
    for spoilt in (
        halves,
        [[row[0] // 2] for row in lengths],
        [[] for _ in lengths],
        [[-1, *row] for row in lengths],
    ):
        with pytest.raises(BatchError, match="seq_lengths"):
            check(model, batch, seq_lengths=spoilt)
    shifted = torch.nn.functional.pad(batch["labels"][:, 1:], (0, 1), value=-100)
    with pytest.raises(BatchError, match="the labels"):
        check(model, batch | {"labels": shifted}, seq_lengths=lengths)
    if alone:
        return
    first = batch["labels"].clone()
    row, start, _ = next(each for each in model.documents[1:] if each[1])
    first[row, start - options["shift_labels"]] = batch["input_ids"][row, start]
    with pytest.raises(BatchError, match="predicted from another document"):
        check(model, batch | {"labels": first}, seq_lengths=lengths)


@pytest.mark.parametrize("documents_in_batch", [1, 2, 3, 6, 7, 20, 21, 70, 71])
def test_any_two_documents_that_leak_are_found(documents_in_batch):
    """And the number of passes is that of the docs."""
    lengths = [2] * documents_in_batch
    row = {"input_ids": [3 + at % 90 for at in range(sum(lengths))], "seq_lengths": lengths}
    row["labels"] = [-100 if at % 2 == 0 else token for at, token in enumerate(row["input_ids"])]
    batch = collate([row])
    places = documents_of(batch, [row])
    model = Small(places, shift=False)
    model.shape = batch["input_ids"].shape
    passes = []
    model.register_forward_hook(lambda *_: passes.append(1))
    check(model, batch)
    changing = next(
        number for number, most in ((2, 2), (4, 6), (6, 20), (8, 70), (10, 252)) if documents_in_batch <= most
    )
    assert len(passes) <= changing + 5
    if documents_in_batch == 1:
        return
    random = torch.Generator().manual_seed(documents_in_batch)
    for _ in range(12):
        source, target = torch.randperm(documents_in_batch, generator=random)[:2].tolist()
        leaking = Small(places, shift=False)
        leaking.shape, leaking.fault = batch["input_ids"].shape, "leak"

        def leak(state, mask, source=source, target=target):
            added = torch.zeros_like(state)
            _, start, length = places[source]
            _, begin, size = places[target]
            added[0, begin : begin + size] = state[0, start : start + length].mean(0)
            return added

        leaking.leak = leak
        with pytest.raises(BatchError, match="see each other"):
            check(leaking, batch)


@pytest.mark.parametrize("attention", ["sdpa", "eager", "flex_attention"])
@pytest.mark.parametrize("kind", ["float32", "bfloat16"])
def test_models_of_transformers_pass(attention, kind):
    rows = rows_of()
    for options in ({}, {"padded": "longest"}, {"padded": "longest", "mask": "flex"}):
        if (options.get("mask") == "flex") != (attention == "flex_attention") and options:
            continue
        model = model_of("llama", attention).to(getattr(torch, kind)).train()
        model.config.attention_dropout = 0.3
        batch = collate(rows, **options)
        if isinstance(batch.get("attention_mask"), torch.Tensor):
            batch["attention_mask"] = batch["attention_mask"].to(getattr(torch, kind))
        check(model, batch, seq_lengths=[row["seq_lengths"] for row in rows])


def test_a_mixture_of_experts_with_a_loss_of_its_router_passes():
    import transformers

    torch.manual_seed(0)
    config = transformers.MixtralConfig(
        vocab_size=VOCABULARY,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        num_local_experts=4,
        num_experts_per_tok=2,
        output_router_logits=True,
        sliding_window=None,
        initializer_range=0.3,
    )
    check(transformers.MixtralForCausalLM(config), collate(rows_of()))
