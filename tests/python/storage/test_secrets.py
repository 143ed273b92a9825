"""No key, token or signature is told: by no manifest, report, error, progress line or file that a call leaves."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from conftest import conversation
from containers import lines
from web_server import Faults, serving

SECRETS = {
    "aws_access_key_id": "AKIDs3cr3tIdentity",
    "aws_secret_access_key": "s3cr3tKeyOfAmazon",
    "aws_session_token": "s3cr3tSessionOfAmazon",
    "azure_storage_account_key": "czNjcjN0S2V5T2ZBenVyZQ==",
    "google_service_account_key": '{"private_key": "s3cr3tKeyOfGoogle"}',
}

TOKEN = "hf_" + "s3cr3t" * 5 + "abcd"

TOLD = [*SECRETS.values(), "s3cr3tKeyOfGoogle", TOKEN, "hunter22", "s1gnatur3"]
"""Secrets that must not appear anywhere."""

SCRIPT = """
import json, sys, traceback, fastpack
calls = json.loads(sys.argv[1])
for name, arguments in calls:
    if "storage" in arguments:
        arguments["storage"] = fastpack.Storage(**arguments["storage"])
    try:
        made = getattr(fastpack, name)(**arguments)
        if name == "stream":
            for table in made:
                print(table.num_rows, made.state_dict())
            print(made.report, made.stats)
        print(repr(made), str(made), getattr(fastpack.Report.of(made), "to_dict", str)() if name == "pack_files" else "")
    except Exception as error:
        print(type(error).__name__, error)
        traceback.print_exc()
"""


def told(calls, *, by_environment):
    """The output of some calls on both of their channels, with the secrets in the environment or in their options."""
    environment = dict(os.environ)
    if by_environment:
        environment |= {name.upper(): secret for name, secret in SECRETS.items()}
        environment["HF_TOKEN"] = TOKEN
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, json.dumps(calls)],
        env=environment | {"RUST_LOG": "trace", "RUST_BACKTRACE": "1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def left(folder):
    """The names and contents of all files below a folder."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return "\n".join(f"{path} {path.read_bytes().decode('latin-1')}" for path in files)


@pytest.mark.parametrize("by_environment", [False, True])
@pytest.mark.parametrize("status", [None, 401, 403, 404, 500])
def test_nothing_that_a_call_says_or_leaves_holds_a_secret(status, by_environment, tokenizer_dir, tmp_path):
    web, out = tmp_path / "web", tmp_path / "out"
    (web / "bucket").mkdir(parents=True)
    (web / "bucket/0.jsonl").write_bytes(lines([conversation(number) for number in range(60)]))
    with serving(web, Faults(always=status)) as server:
        host = server.url.removeprefix("http://")
        options = {
            "max_retries": "0",
            "aws_endpoint": server.url,
            "aws_allow_http": "true",
            "aws_region": "x",
        }
        options |= {} if by_environment else SECRETS
        given = {"tokenizer": str(tokenizer_dir), "max_length": 256, "storage": {"options": options}}
        address = f"http://user:hunter22@{host}/bucket/0.jsonl?X-Amz-Signature=s1gnatur3&token=s1gnatur3"
        cache = {"storage": {"options": options, "block_cache": "1GB"}, "cache_dir": str(out / "cache")}
        folder = {"output": str(out / "packed"), "progress": True}
        calls = [
            ["pack_dir", {**given, **folder, "files": address}],
            ["pack_files", {**given, **cache, "files": address}],
            ["stream", {**given, "files": address}],
            ["scan", {**given, "files": address}],
            ["pack_files", {**given, "files": "s3://bucket/0.jsonl"}],
            ["pack_files", {**given, "files": "s3://bucket/*.jsonl"}],
            ["pack_files", {**given, "files": "az://container/0.jsonl"}],
            ["pack_files", {**given, "files": "gs://bucket/0.jsonl"}],
            ["pack_files", {**given, "files": address.replace("0.jsonl", "{0..1}.jsonl")}],
            [
                "pack_dir",
                {
                    **given,
                    "files": address,
                    "output": "s3://bucket/out",
                    "storage": {"options": options, "work_dir": str(out / "work")},
                },
            ],
            ["pack_dir", {**given, **folder, "files": address, "max_length": 128}],
            ["status", {"folder": str(out / "packed")}],
        ]
        said = told(calls, by_environment=by_environment)
        asked = [path for _, path, _ in server.requests]
    assert any("s1gnatur3" in path for path in asked), "the server is asked with the signature"
    assert "0.jsonl" in said
    assert status is not None or (out / "packed/manifest.json").exists()
    for secret in TOLD:
        assert secret not in said, said[: said.index(secret) + 200][-2000:]
        assert secret not in left(out), secret


@pytest.mark.parametrize("option", sorted(SECRETS))
def test_an_option_that_a_store_cannot_use_is_refused_without_its_value(option, tokenizer_dir, tmp_path):
    spoilt = "s3cr3t\nKeyOfAmazon{"
    given = {"tokenizer": str(tokenizer_dir), "max_length": 256, "storage": {"options": {option: spoilt}}}
    urls = [
        "s3://bucket/0.jsonl",
        "az://container/0.jsonl",
        "gs://bucket/0.jsonl",
        "http://127.0.0.1:9/0.jsonl",
    ]
    options = given["storage"]["options"] | {"max_retries": "0", "connect_timeout": "1s", "timeout": "1s"}
    options |= {"aws_endpoint": "http://127.0.0.1:9", "aws_allow_http": "true", "aws_region": "x"}
    options |= {
        "azure_storage_account_name": "x",
        "azure_endpoint": "http://127.0.0.1:9",
        "azure_allow_http": "true",
    }
    options |= {"aws_access_key_id": "x", "aws_secret_access_key": "x"} | {option: spoilt}
    calls = [["pack_files", {**given, "storage": {"options": options}, "files": url}] for url in urls]
    said = told(calls, by_environment=False)
    assert said.count("Error ") >= len(urls), said
    assert "s3cr3t" not in said, said
    assert "KeyOfAmazon" not in said, said
