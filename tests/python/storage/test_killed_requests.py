"""A job that writes into a bucket is killed at each of its requests, and goes on to the files of a job in a folder."""

from __future__ import annotations

import json
import os
import random
import re
import shutil

import pytest
from campaign import tries
from conftest import conversation
from faulty_proxy import killing
from group_jobs import ended, is_the_same, left, packed_files
from nested import flat
from processes import OPTIONS, start

pytestmark = [
    pytest.mark.skipif(os.name != "posix", reason="signals as POSIX has them"),
]

RANK = {"rank": 0, "world_size": 1}

JOBS = {
    "shards": {"shard_size": 20_000},
    "tokens": {"keep_tokens": True, "validation": 5},
    "layout": {"hf_layout": True, "validation": 5},
    "overwrite": {"overwrite": True, "shard_size": 20_000},
    "groups": {"group_size": 10_000, "validation": 5, **RANK},
    "groups_overwrite": {"group_size": 10_000, "overwrite": True, **RANK},
}


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    """Two files of conversations."""
    folder = tmp_path_factory.mktemp("inputs")
    for number in range(2):
        lines = [json.dumps(conversation(100 * number + record)) for record in range(40)]
        (folder / f"part-{number}.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder


@pytest.mark.parametrize("done", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("job", tries(["overwrite", "groups"], list(JOBS)))
def test_killed_at_any_request_a_job_goes_on_to_the_same_files(
    job, done, inputs, tokenizer_dir, store, client, bucket, work, tmp_path
):
    """Each request is a step of the job: of its locks, its records and files, of the output, and of the end."""
    out, options = f"s3://{bucket}/packed", {**OPTIONS, **JOBS[job], "threads": 1}
    earlier = {**OPTIONS, "threads": 1, "max_length": 200}
    local, before = tmp_path / "local", tmp_path / "before"
    flat.pack_dir([inputs], local, tokenizer=tokenizer_dir, **options)
    flat.pack_dir([inputs], before, tokenizer=tokenizer_dir, **earlier)

    def run(at):
        """Runs the job anew until its request number `at`; returns all requests that came, and what it said."""
        for name in packed_files(client, bucket):
            client.delete_object(Bucket=bucket, Key=f"packed/{name}")
        shutil.rmtree(work, ignore_errors=True)
        if options.get("overwrite"):
            for path in before.iterdir():
                client.put_object(Bucket=bucket, Key=f"packed/{path.name}", Body=path.read_bytes())
        with killing(store["aws_endpoint"], at=at, done=done) as proxy:
            through = {**store, "aws_endpoint": proxy.url}
            proxy.process = started(through)
            said, _ = proxy.process.communicate()
            return proxy.seen, said

    def started(through):
        return start(inputs, tokenizer_dir, out, **options, storage_options=through, work_dir=str(work))

    requests, said = run(0)
    assert said.startswith("rows "), said
    assert len(requests) > 20
    # A process that fetches a group leaves a part of it. The last requests end the job.
    fetched = [at for at, it in enumerate(requests, 1) if re.match("GET .*/groups/.*-(tokens|rows)/", it)]
    count = len(requests)
    some = {random.Random(count).randrange(1, count), *fetched[-1:], *range(count - 2, count + 1)}
    for at in tries(sorted(some), range(1, count + 1)):
        seen, said = run(at)
        ended([started(store)])
        where = (at, seen[-3:], said)
        assert is_the_same(packed_files(client, bucket), local), where
        assert not left(work), where
