"""Rows with pictures train as their conversations do one by one, as the processor of the model makes them."""

from __future__ import annotations

import base64
import json
import pickle
import random

import numpy as np
import picture_models
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
import transformers
import trl
from PIL import Image
from ranks import run_ranks
from torch.utils.data import DataLoader

import fastpack
import fastpack.hf
from fastpack.torch import CheckCallback, PackedDataset, PictureCollator, check, collate

FAMILIES = ["qwen2_5_vl", "qwen3_vl", "gemma3", "llava_onevision", "smolvlm"]


def picture(path, size, seed, **options):
    """A picture of noise, in a file."""
    pixels = np.random.default_rng(seed).integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)
    Image.fromarray(pixels).save(path, **options)


def conversations(folder, count=9):
    """Conversations with none to three pictures, which lie in a folder; pictures of a message stand side by side."""
    chance = random.Random(5)
    made = []
    for number in range(count):
        messages = []
        for turn in range(1 + number % 2):
            parts = []
            for place in range((number + turn) % 3):
                path = folder / f"{number}_{turn}_{place}.png"
                picture(
                    path, (chance.randint(30, 150), chance.randint(30, 150)), number * 9 + turn * 3 + place
                )
                parts.append({"type": "image", "path": str(path)})
            parts.append({"type": "text", "text": "What is in the picture? " + "river " * number})
            messages.append({"role": "user", "content": parts})
            messages.append(
                {"role": "assistant", "content": [{"type": "text", "text": "The boat, and trees."}]}
            )
        made.append(messages)
    return made


class Packed:
    """Packed conversations of a family.

    Attributes:
        family: The family.
        options: Options of the image processor.
        folder: The folder of the processor.
        processor: The live processor.
        conversations: The conversations.
        rows: The packed folder.
    """

    def __init__(self, name, root):
        self.family, _, variant = name.partition(":")
        self.options = picture_models.FAMILIES[self.family].options[variant]
        name = self.family
        self.folder = picture_models.save_processor(name, root / name)
        self.processor = transformers.AutoProcessor.from_pretrained(self.folder)
        pictures = root / f"{name}_pictures"
        pictures.mkdir()
        self.conversations = conversations(pictures)
        self.data = root / f"{name}.jsonl"
        self.data.write_text("".join(json.dumps({"messages": each}) + "\n" for each in self.conversations))
        self.rows = root / f"{name}_rows"
        self.report = fastpack.pack_dir(
            self.data,
            self.rows,
            tokenizer=self.folder,
            max_length=700,
            reading=fastpack.Reading(images=fastpack.Images(processor_kwargs=self.options or None)),
            progress=False,
        )

    def model(self, name, attention="sdpa"):
        """A model with random weights; those that begin as zeros, as the projection of Gemma 3 does, would hide pictures."""
        model = picture_models.model_of(name, self.processor, attention)
        for weights in model.parameters():
            if weights.dim() > 1 and not weights.any():
                torch.nn.init.normal_(weights, std=0.3)
        return model

    def alone(self, conversation):
        """The arguments of a model for one conversation, as the processor makes them."""
        return self.processor.apply_chat_template(
            conversation,
            tokenize=True,
            return_dict=True,
            return_tensors="pt",
            processor_kwargs={"images_kwargs": self.options},
        )


@pytest.fixture(scope="module")
def packed(tmp_path_factory):
    """Makes the packed conversations of a family once."""
    made = {}

    def of(name):
        if name not in made:
            made[name] = Packed(name, tmp_path_factory.mktemp("packed"))
        return made[name]

    return of


def documents_of(batch, lengths):
    """The ids and labels of each document of a batch."""
    ends = np.cumsum(lengths)
    return [
        (batch["input_ids"][0, end - n : end], batch["labels"][0, end - n : end])
        for end, n in zip(ends, lengths, strict=True)
    ]


def double(values):
    return {
        name: value.double() if isinstance(value, torch.Tensor) and value.is_floating_point() else value
        for name, value in values.items()
    }


def loss_of(logits, labels):
    return torch.nn.functional.cross_entropy(logits[:-1], labels[1:], ignore_index=-100, reduction="sum")


def gradients_of(model):
    found = {
        name: torch.zeros_like(each) if each.grad is None else each.grad.clone()
        for name, each in model.named_parameters()
    }
    model.zero_grad()
    return found


@pytest.mark.parametrize(
    ("name", "attention"),
    [
        *((name, "sdpa") for name in FAMILIES),
        ("gemma3:pan_and_scan", "sdpa"),
        ("gemma3", "eager"),
        ("qwen3_vl", "eager"),
    ],
)
def test_logits_and_gradients_of_a_batch_are_those_of_its_conversations(packed, name, attention):
    given = packed(name)
    model = given.model(given.family, attention).double()
    rows = list(PackedDataset(given.rows))
    batch = PictureCollator(given.processor, model, packed=given.rows)(rows)
    lengths = np.concatenate([row["seq_lengths"] for row in rows])
    documents = documents_of(batch, lengths)
    logits = model(**double(batch)).logits[0]
    ends = np.cumsum(lengths)
    total = sum(
        loss_of(logits[end - n : end], labels)
        for end, n, (_, labels) in zip(ends, lengths, documents, strict=True)
    )
    total.backward()
    together = gradients_of(model)

    alone = {}
    for conversation in given.conversations:
        inputs = given.alone(conversation)
        alone[tuple(inputs["input_ids"][0].tolist())] = inputs
    assert len(alone) == len(documents) == len(given.conversations)
    losses = []
    for end, (ids, labels) in zip(ends, documents, strict=True):
        expected = model(**double(alone[tuple(ids.tolist())]), use_cache=False).logits[0]
        assert torch.allclose(logits[end - len(ids) : end], expected, atol=1e-5, rtol=0)
        losses.append(loss_of(expected, labels))
        losses[-1].backward()
    assert sum(len(row["images"]) for row in rows) > len(rows)
    assert torch.allclose(total, sum(losses), atol=1e-5)
    one_by_one = gradients_of(model)
    for each in together:
        assert torch.allclose(together[each], one_by_one[each], atol=1e-5, rtol=1e-5), each
    assert any(together[each].abs().max() > 1e-3 for each in together if "vision" in each or "visual" in each)


@pytest.mark.parametrize("workers", [0, 2])
def test_a_pickled_collator_makes_the_same_batches_in_workers(packed, workers):
    given = packed("qwen2_5_vl")
    rows = PackedDataset(given.rows)
    collator = PictureCollator(given.folder, given.model("qwen2_5_vl").config, packed=rows)
    # As a worker that is not forked gets it.
    copy = pickle.loads(pickle.dumps(collator))
    loader = DataLoader(rows, batch_size=1, collate_fn=copy, num_workers=workers)
    for row, batch in zip(rows, loader, strict=True):
        expected = collator([row])
        assert batch.keys() == expected.keys() >= {"pixel_values", "image_grid_thw", "mm_token_type_ids"}
        for name, value in expected.items():
            assert torch.equal(torch.as_tensor(batch[name]), torch.as_tensor(value)), name


def test_a_collator_keeps_no_weights(packed):
    given = packed("qwen2_5_vl")
    model = given.model("qwen2_5_vl")
    collator = PictureCollator(given.processor, model)
    weights = sum(each.numel() * each.element_size() for each in model.parameters())
    with_weights, with_configuration = (
        len(pickle.dumps(PictureCollator(given.processor, each))) for each in (model, model.config)
    )
    assert abs(with_weights - with_configuration) < weights / 10
    assert collator._rope_index is not None


def test_positions_of_each_document_are_those_of_the_model(packed):
    given = packed("qwen2_5_vl")
    model = given.model("qwen2_5_vl")
    rows = PackedDataset(given.rows)
    batch = PictureCollator(given.processor, model)(list(rows))
    assert batch["position_ids"].shape == (4, 1, batch["input_ids"].shape[1])
    of_conversations = {}
    for conversation in given.conversations:
        inputs = given.alone(conversation)
        ids = inputs["input_ids"]
        expected = torch.arange(ids.shape[1]).expand(3, 1, -1)
        if "image_grid_thw" in inputs:
            expected = model.model.get_rope_index(
                ids, image_grid_thw=inputs["image_grid_thw"], mm_token_type_ids=inputs["mm_token_type_ids"]
            )[0]
        of_conversations[tuple(ids[0].tolist())] = expected
    at = 0
    for length in np.concatenate([row["seq_lengths"] for row in rows]):
        positions = batch["position_ids"][:, :, at : at + length]
        assert torch.equal(positions[0, 0], torch.arange(length))
        assert torch.equal(
            positions[1:], of_conversations[tuple(batch["input_ids"][0, at : at + length].tolist())]
        )
        at += length


def held_by_records(kind, root, paths):
    """A file of two conversations whose records hold the bytes of pictures."""
    contents = [path.read_bytes() for path in paths]
    encoded = [base64.b64encode(each).decode() for each in contents]
    question, answer = {"type": "text", "text": "What is it?"}, {"role": "assistant", "content": "A boat."}
    if kind == "jsonl":
        sources = [
            {"type": "image", "base64": encoded[1]},
            {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{encoded[2]}"}},
        ]
        records = [
            {
                "messages": [{"role": "user", "content": [question, {"type": "image"}]}, answer],
                "images": [{"bytes": encoded[0]}],
            },
            {"messages": [{"role": "user", "content": [*sources, question]}, answer]},
        ]
        (root / "data.jsonl").write_text("".join(json.dumps(each) + "\n" for each in records))
        return root / "data.jsonl"
    texts = [[f"{'<image>' * count} What is it?", "A boat."] for count in (1, 2)]
    messages = [
        [{"role": role, "content": text} for role, text in zip(("user", "assistant"), each, strict=True)]
        for each in texts
    ]
    images = [[contents[0]], contents[1:]]
    table = pa.table(
        {"messages": messages, "images": [[{"bytes": each, "path": None} for each in row] for row in images]}
    )
    path = root / f"data.{kind}"
    write_rows(table, path, rows=2)
    return path


def write_rows(table, path, *, rows):
    """Writes a table into a Parquet file or an Arrow stream, with so many rows a part."""
    if path.suffix == ".parquet":
        pq.write_table(table, path, row_group_size=rows)
        return
    with pa.ipc.new_stream(path, table.schema) as writer:
        writer.write_table(table, max_chunksize=rows)


@pytest.mark.parametrize("kind", ["jsonl", "parquet", "arrow"])
def test_pictures_that_records_hold_are_found(packed, tmp_path, kind):
    given = packed("qwen2_5_vl")
    paths = [tmp_path / f"{number}.png" for number in range(3)]
    for number, path in enumerate(paths):
        picture(path, (60 + number, 50), number)
    data = held_by_records(kind, tmp_path, paths)
    table = fastpack.pack_files(
        data,
        tokenizer=given.folder,
        max_length=400,
        reading=fastpack.Reading(images="reference"),
        progress=False,
    )
    rows = table.to_pylist()
    assert [(each["path"], each["row"] > 0) for row in rows for each in row["images"]] == [
        (str(data), True)
    ] * 3
    if kind != "jsonl":
        # The records stay, in other parts of the file.
        table = pq.read_table(data) if kind == "parquet" else pa.ipc.open_stream(data.read_bytes()).read_all()
        write_rows(table, data, rows=1)
    batch = PictureCollator(given.processor, given.model("qwen2_5_vl"))(rows)
    order = [(each["row"], each["number"]) for row in rows for each in row["images"]]
    files = {(1, 0): paths[0], (2, 0): paths[1], (2, 1): paths[2]}
    expected = given.processor.image_processor(
        [Image.open(files[each]) for each in order], return_tensors="pt"
    )
    assert torch.equal(batch["pixel_values"], expected["pixel_values"])
    assert torch.equal(batch["image_grid_thw"], expected["image_grid_thw"])


@pytest.fixture
def small(packed, tmp_path):
    """A packed row of one conversation with one picture, its file and a collator."""
    given = packed("qwen2_5_vl")
    path = tmp_path / "picture.png"
    picture(path, (64, 48), 1)
    content = [{"type": "image", "path": "picture.png"}, {"type": "text", "text": "What is it?"}]
    messages = [{"role": "user", "content": content}, {"role": "assistant", "content": "A boat."}]
    (tmp_path / "data.jsonl").write_text(json.dumps({"messages": messages}) + "\n")
    table = fastpack.pack_files(
        tmp_path / "data.jsonl",
        tokenizer=given.folder,
        max_length=400,
        reading=fastpack.Reading(images="reference"),
        progress=False,
    )
    return given, table.to_pylist()[0], path


def test_a_picture_that_is_gone_or_no_picture_is_named_with_its_row(small):
    given, row, path = small
    collator = PictureCollator(given.processor, given.model("qwen2_5_vl"))
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(
        fastpack.BatchError, match=rf"row 1 of the batch: the picture `{path}` cannot be opened: .*truncated"
    ):
        collator([text_row(row), row])
    path.unlink()
    with pytest.raises(
        fastpack.BatchError,
        match=rf"row 0 of the batch: the picture `{path}` cannot be opened: .*No such file",
    ):
        collator([row])


def text_row(row):
    """A row without pictures."""
    return {
        "input_ids": row["input_ids"][:3],
        "labels": [-100] * 3,
        "seq_lengths": [3],
        "mm_token_type_ids": [0] * 3,
        "images": [],
    }


def test_a_picture_of_another_size_is_named(small):
    given, row, path = small
    picture(path, (64, 47), 1)
    with pytest.raises(
        fastpack.BatchError, match=rf"`{path}` has 64 x 47 pixels, but had 64 x 48 when it was packed"
    ):
        PictureCollator(given.processor, given.model("qwen2_5_vl"))([row])


def test_another_picture_of_the_same_size_is_named(small):
    given, row, path = small
    before = path.stat().st_size
    Image.new("RGB", (64, 48), "red").save(path)
    after = path.stat().st_size
    with pytest.raises(
        fastpack.BatchError, match=rf"`{path}` has {after:,} bytes, but had {before:,} when it was packed"
    ):
        PictureCollator(given.processor, given.model("qwen2_5_vl"))([row])


@pytest.mark.parametrize("form", ["base64", "data URL", "bytes"])
def test_another_picture_of_the_same_size_in_a_record_is_named(form, packed, tmp_path):
    given = packed("qwen2_5_vl")
    data = tmp_path / ("data.parquet" if form == "bytes" else "data.jsonl")

    def content_of(*, is_changed):
        path = tmp_path / "picture.png"
        picture(path, (64, 48), 1)
        if is_changed:
            Image.new("RGB", (64, 48), "red").save(path)
        content = path.read_bytes()
        question = [{"type": "image"}, {"type": "text", "text": "What is it?"}]
        answer = [{"type": "text", "text": "A boat."}]
        messages = [{"role": "user", "content": question}, {"role": "assistant", "content": answer}]
        if form == "bytes":
            pq.write_table(pa.Table.from_pylist([{"messages": messages, "images": [content]}]), data)
            return len(content)
        encoded = base64.b64encode(content).decode()
        held = {"base64": encoded} if form == "base64" else {"url": f"data:image/png;base64,{encoded}"}
        messages[0]["content"][0] = {"type": "image", **held}
        data.write_text(json.dumps({"messages": messages}) + "\n")
        return len(content)

    before = content_of(is_changed=False)
    options = {"max_length": 400, "reading": fastpack.Reading(images="reference"), "progress": False}
    rows = fastpack.pack_files(data, tokenizer=given.folder, **options).to_pylist()
    assert rows[0]["images"][0]["file_bytes"] == before
    packed_rows = tmp_path / "packed"
    fastpack.pack_dir(data, packed_rows, tokenizer=given.folder, **options)
    assert fastpack.verify(packed_rows, pictures=True).ok
    collator = PictureCollator(given.processor, given.model("qwen2_5_vl"))
    collator(rows)
    after = content_of(is_changed=True)
    assert after != before
    told = f"has {after:,} bytes, but had {before:,} when it was packed"
    with pytest.raises(fastpack.BatchError, match=told):
        PictureCollator(given.processor, given.model("qwen2_5_vl"))(rows)
    (problem,) = fastpack.verify(packed_rows, sample=0, pictures=True).problems
    assert told in problem


def test_pictures_lie_elsewhere_now(small, tmp_path):
    given, row, path = small
    model = given.model("qwen2_5_vl")
    expected = PictureCollator(given.processor, model)([row])
    (tmp_path / "now" / "here").mkdir(parents=True)
    path.rename(tmp_path / "now" / "here" / path.name)
    moved = {tmp_path.parent: "/nowhere", tmp_path: tmp_path / "now" / "here"}
    batch = PictureCollator(given.processor, model, moved=moved)([row])
    assert torch.equal(batch["pixel_values"], expected["pixel_values"])


def test_pictures_are_upright_and_in_rgb(small):
    given, row, path = small
    upright = Image.open(path)
    exif = Image.Exif()
    exif[0x0112] = 6
    upright.transpose(Image.Transpose.ROTATE_90).save(path, exif=exif)
    row = {**row, "images": [{**row["images"][0], "file_bytes": path.stat().st_size}]}
    batch = PictureCollator(given.processor, given.model("qwen2_5_vl"))([row])
    expected = given.processor.image_processor([upright], return_tensors="pt")
    assert torch.equal(batch["pixel_values"], expected["pixel_values"])


def test_another_processor_than_the_rows_were_packed_with_is_refused(packed):
    given = packed("qwen2_5_vl")
    model = given.model("qwen2_5_vl")
    PictureCollator(given.processor, model, packed=PackedDataset(given.rows))
    with pytest.raises(
        fastpack.OptionError,
        match=r"`processor`: has `max_pixels` 9408, but the rows in .* were packed with None",
    ):
        PictureCollator(given.processor, model, packed=given.rows, processor_kwargs={"max_pixels": 9408})
    other = picture_models.FAMILIES["qwen2_5_vl"].make()
    other.image_processor.size = {"shortest_edge": 3136, "longest_edge": 9408}
    with pytest.raises(fastpack.OptionError, match=r"has `size` .*9408.* were packed with .*18816"):
        PictureCollator(other, model, packed=given.rows)


def test_a_row_whose_tokens_are_not_those_of_its_pictures_is_refused(packed):
    given = packed("qwen2_5_vl")
    row = next(iter(PackedDataset(given.rows)))
    collator = PictureCollator(
        given.processor, given.model("qwen2_5_vl"), processor_kwargs={"max_pixels": 9408}
    )
    with pytest.raises(
        fastpack.BatchError, match=r"the processor makes .* tokens of the picture .*, but the row has"
    ):
        collator([row])


@pytest.mark.parametrize("name", FAMILIES)
def test_a_batch_without_pictures_runs_the_vision_part_with_zero_gradients(packed, name):
    given = packed(name)
    model = given.model(name)
    collator = PictureCollator(given.processor, model, stand_in=True)
    alone = text_row_of(given)
    with_stand_in, without = collator([alone]), PictureCollator(given.processor, model)([alone])
    assert "pixel_values" in with_stand_in
    assert "pixel_values" not in without
    length = without["input_ids"].shape[1]
    outputs = model(**with_stand_in)
    expected = model(**without)
    assert torch.allclose(outputs.logits[:, :length], expected.logits, atol=1e-5)
    assert torch.allclose(outputs.loss, expected.loss, atol=1e-6)
    expected.loss.backward()
    wanted = gradients_of(model)
    outputs.loss.backward()
    missing = {each for each, weights in model.named_parameters() if weights.grad is None}
    found = gradients_of(model)
    for each in wanted:
        assert torch.allclose(found[each], wanted[each], atol=1e-5), each
    model(**collator([PackedDataset(given.rows)[0]])).loss.backward()
    # A batch with pictures leaves out the same: weights that the model has and never uses.
    assert missing == {each for each, weights in model.named_parameters() if weights.grad is None}


def of_document(row, number):
    """A row of one of the documents of a row, without its pictures."""
    end = int(np.cumsum(row["seq_lengths"])[number])
    start = end - int(row["seq_lengths"][number])
    tokens = len(row["input_ids"])
    made = {
        name: value[start:end]
        for name, value in row.items()
        if len(value) == tokens and name not in {"images", "seq_lengths"}
    }
    return {**made, "seq_lengths": [end - start], "images": []}


def text_row_of(given):
    """A row of a document without pictures."""
    rows = [dict(row) for row in PackedDataset(given.rows)]
    documents = [of_document(row, number) for row in rows for number in range(len(row["seq_lengths"]))]
    picture_id = given.processor.image_token_id
    return next(each for each in documents if picture_id not in each["input_ids"])


@pytest.mark.slow
def test_a_rank_without_pictures_trains_beside_one_that_has_them(packed, tmp_path):
    given = packed("qwen2_5_vl")
    row = next(dict(row) for row in PackedDataset(given.rows) if row["images"])
    rows = [row, text_row_of(given)]
    listed = [{name: np.asarray(value).tolist() for name, value in each.items()} for each in rows]
    (tmp_path / "rows.json").write_text(json.dumps(listed))
    out = tmp_path / "gradients.pt"
    done = run_ranks("picture_ranks.py", given.folder, tmp_path / "rows.json", out, ranks=2)
    assert done.returncode == 0, done.stderr[-3000:]
    model = picture_models.model_of("qwen2_5_vl", given.processor)
    collator = PictureCollator(given.processor, model)
    expected = {}
    for each in rows:
        model(**collator([each])).loss.backward()
        for name, gradient in gradients_of(model).items():
            expected[name] = expected.get(name, 0) + gradient / 2
    for kind, found in torch.load(out).items():
        assert any("visual" in name for name in found)
        for name, gradient in found.items():
            assert torch.allclose(gradient, expected[name], atol=1e-5), (kind, name)
        assert all(name in found or not gradient.any() for name, gradient in expected.items())


def trained(trainer):
    """The losses of the steps of a trainer."""
    trainer.train()
    return [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]


SETTINGS = {
    "per_device_train_batch_size": 1,
    "num_train_epochs": 3,
    "learning_rate": 3e-3,
    "logging_steps": 1,
    "save_strategy": "no",
    "report_to": [],
    "use_cpu": True,
    "disable_tqdm": True,
}


@pytest.mark.parametrize("name", ["qwen2_5_vl", "gemma3"])
def test_a_trainer_trains_on_pictures(packed, tmp_path, name):
    given = packed(name)
    rows, model = PackedDataset(given.rows), given.model(name)
    trainer = transformers.Trainer(
        model=model,
        args=transformers.TrainingArguments(
            output_dir=str(tmp_path), dataloader_num_workers=1, remove_unused_columns=True, **SETTINGS
        ),
        train_dataset=rows,
        data_collator=PictureCollator(given.processor, model, packed=rows),
        callbacks=[CheckCallback()],
    )
    losses = trained(trainer)
    assert len(losses) == 3 * len(rows)
    assert losses[-1] < losses[0]


@pytest.mark.parametrize("name", ["qwen2_5_vl", "gemma3"])
def test_a_trainer_of_trl_trains_on_pictures(packed, tmp_path, name):
    given = packed(name)
    rows, model = fastpack.hf.load(given.rows), given.model(name)
    trainer = trl.SFTTrainer(
        model=model,
        args=fastpack.hf.sft_config(images=True, output_dir=str(tmp_path), bf16=False, **SETTINGS),
        train_dataset=rows,
        data_collator=PictureCollator(given.processor, model, packed=rows),
        processing_class=given.processor,
        callbacks=[CheckCallback()],
    )
    batch = next(iter(trainer.get_train_dataloader()))
    assert {"pixel_values", "position_ids"} <= set(batch)
    losses = trained(trainer)
    assert len(losses) == 3 * len(rows)
    assert losses[-1] < losses[0]


def test_a_trainer_of_trl_with_its_own_collator_is_refused(packed, tmp_path):
    given = packed("qwen2_5_vl")
    with pytest.raises(fastpack.BatchError, match=r"data_collator=fastpack\.torch"):
        trl.SFTTrainer(
            model=given.model("qwen2_5_vl"),
            args=fastpack.hf.sft_config(images=True, output_dir=str(tmp_path), bf16=False, **SETTINGS),
            train_dataset=fastpack.hf.load(given.rows),
            processing_class=given.processor,
        )


def test_settings_of_trl_that_refuse_pictures_are_refused(tmp_path):
    with pytest.raises(fastpack.OptionError, match="`padding_free`: must be False for packed rows"):
        fastpack.hf.sft_config(images=True, padding_free=True, output_dir=str(tmp_path))


def test_collate_refuses_rows_with_pictures(packed):
    rows = PackedDataset(packed("qwen2_5_vl").rows)
    with pytest.raises(
        fastpack.BatchError, match=r"row 0 of the batch has pictures .* fastpack\.torch\.PictureCollator"
    ):
        collate([rows[0]])


def test_check_sees_documents_that_see_each_other(packed):
    given = packed("qwen2_5_vl")
    model = given.model("qwen2_5_vl")
    batch = PictureCollator(given.processor, model)([PackedDataset(given.rows)[0]])
    check(model, batch)
    # Without the first row of positions the model makes a row one document.
    with pytest.raises(
        fastpack.BatchError, match=r"documents in this batch see each other: .*\.PictureCollator"
    ):
        check(model, {**batch, "position_ids": batch["position_ids"][1:]}, seq_lengths=[lengths_in(batch)])


def lengths_in(batch):
    starts = (batch["position_ids"][0, 0] == 0).nonzero().flatten().tolist()
    ends = [*starts[1:], batch["input_ids"].shape[1]]
    return [end - start for start, end in zip(starts, ends, strict=True)]
