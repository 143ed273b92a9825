"""Servers on the loopback address that answer as Google Cloud Storage (its XML protocol) and Azure Blob Storage do.

They hold what the published references say of the requests that are made: lists in pages, ranges, conditions by generation and
by etag, uploads in parts and in blocks, copies, and removals one by one and in batches. Azure's signatures by the key of the
account are checked. Google's tokens are not asked for.
"""

from __future__ import annotations

import base64
import email.utils
import hashlib
import hmac
import itertools
import json
import re
import threading
import time
import urllib.parse
from contextlib import contextmanager
from dataclasses import dataclass, field
from xml.sax.saxutils import escape

from loopback import LoopbackServer, SilentHandler, running

ACCOUNT = "anaccount"
ACCOUNT_KEY = base64.b64encode(b"a-secret-key-of-an-account").decode()

# The entries of a page of a list: so few that lists have several.
PAGE = 5


class Refused(Exception):  # noqa: N818 - an answer, and no error of the server
    """The answer to a request that is not done."""

    def __init__(self, status, code):
        super().__init__(status, code)
        self.status = status
        self.body = f"<Error><Code>{code}</Code></Error>".encode()


@dataclass
class Blob:
    """One object."""

    content: bytes
    headers: dict[str, str]
    generation: int
    modified: float = field(default_factory=time.time)

    @property
    def etag(self):
        """The etag without its quotes."""
        return f"0x{self.generation:x}{hashlib.md5(self.content).hexdigest()[:8]}"

    @property
    def date(self):
        return email.utils.formatdate(self.modified, usegmt=True)


class CloudServer(LoopbackServer):
    """Buckets of objects in memory. `delay` is put before each answer, in seconds."""

    def __init__(self, handler, *buckets, delay=0.0):
        self.buckets = {name: {} for name in buckets}
        self.uploads = {}
        self.generations = itertools.count(1)
        self.requests = []
        self.delay = delay
        self.failing = None
        # Called with the method, bucket and key of each request before it is done.
        self.before = None
        # True if objects are copied over others, whatever the request says.
        self.careless = False
        self.lock = threading.RLock()
        super().__init__(handler)

    def put(self, bucket, key, content, headers=()):
        with self.lock:
            blob = Blob(bytes(content), dict(headers), next(self.generations))
            self.buckets[bucket][key] = blob
            return blob

    def listing(self, bucket, prefix=""):
        """The bytes of the objects by their keys."""
        with self.lock:
            found = self.buckets[bucket].items()
            return {key: blob.content for key, blob in sorted(found) if key.startswith(prefix)}


class CloudHandler(SilentHandler):
    """The part of the protocols that both have."""

    metadata = ""

    def answer_all(self):
        self.body = self.read_body()
        time.sleep(self.server.delay)
        url = urllib.parse.urlsplit(self.path)
        self.query = dict(urllib.parse.parse_qsl(url.query, keep_blank_values=True))
        request = f"{self.command} {urllib.parse.unquote(self.path)}"
        with self.server.lock:
            self.server.requests.append(request)
        bucket, _, key = urllib.parse.unquote(url.path).lstrip("/").partition("/")
        try:
            self.refuse(request)
            with self.server.lock:
                if self.server.before:
                    self.server.before(self.command, bucket, key)
                self.request_of(bucket, key)
        except Refused as refused:
            self.answer(refused.status, refused.body)

    def refuse(self, request):
        """Refuses a request that the test has named."""
        if self.server.failing and re.search(self.server.failing, request):
            raise Refused(403, "AuthenticationFailed")

    def __getattr__(self, name):
        """The method of a request: `do_GET` and so on."""
        if name.startswith("do_"):
            return self.answer_all
        raise AttributeError(name)

    def read_body(self):
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def answer(self, status, body=b"", headers=(), length=None):
        self.send_response(status)
        for name, value in dict(headers).items():
            self.send_header(name, str(value))
        self.send_header("Content-Length", str(len(body) if length is None else length))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def told(self, blob):
        """The headers of an object."""
        return {**blob.headers, "ETag": f'"{blob.etag}"', "Last-Modified": blob.date, **self.versions(blob)}

    def versions(self, blob):
        return {}

    def given(self):
        """The metadata that a request gives to an object."""
        return {name: value for name, value in self.headers.items() if name.lower().startswith(self.metadata)}

    def send_object(self, blob):
        if blob is None:
            raise Refused(404, "NoSuchKey")
        if wanted := self.headers.get("If-Match"):
            if not re.fullmatch(r'"[^"]*"', wanted):
                raise Refused(400, "InvalidHeaderValue")
            if wanted != f'"{blob.etag}"':
                raise Refused(412, "ConditionNotMet")
        size = len(blob.content)
        span = self.headers.get("Range") or self.headers.get("x-ms-range")
        if not span:
            return self.answer(200, blob.content, self.told(blob), size)
        start, end = (int(it) if it else None for it in re.fullmatch(r"bytes=(\d*)-(\d*)", span).groups())
        if start is None:
            start, end = max(size - end, 0), size - 1
        end = size - 1 if end is None else min(end, size - 1)
        if start > end:
            return self.answer(416)
        part = blob.content[start : end + 1]
        told = {**self.told(blob), "Content-Range": f"bytes {start}-{end}/{size}"}
        return self.answer(206, part, told)

    def page(self, bucket, token, start_after=""):
        """The objects of a page of a list, and the token of the next page."""
        found = self.server.buckets[bucket]
        prefix = self.query.get("prefix", "")
        keys = sorted(key for key in found if key.startswith(prefix) and key > (token or start_after))
        here = keys[:PAGE]
        return [(key, found[key]) for key in here], here[-1] if len(keys) > PAGE else ""


class GoogleHandler(CloudHandler):
    """Google Cloud Storage."""

    metadata = "x-goog-meta-"

    def versions(self, blob):
        return {"x-goog-generation": blob.generation}

    def request_of(self, bucket, key):
        objects = self.server.buckets.get(bucket)
        if objects is None:
            raise Refused(404, "NoSuchBucket")
        upload = self.query.get("uploadId")
        if self.command in {"GET", "HEAD"}:
            self.send_object(objects.get(key)) if key else self.send_list(bucket)
        elif self.command == "DELETE":
            found = self.server.uploads.pop(upload, None) if upload else objects.pop(key, None)
            self.answer(204 if found else 404)
        elif self.command == "POST":
            self.upload(bucket, key)
        elif upload:
            self.put_part(upload)
        else:
            self.put_object(bucket, key)

    def put_part(self, upload):
        if upload not in self.server.uploads:
            raise Refused(404, "NoSuchUpload")
        self.server.uploads[upload][1][int(self.query["partNumber"])] = self.body
        self.answer(200, headers={"ETag": f'"{hashlib.md5(self.body).hexdigest()}"'})

    def put_object(self, bucket, key):
        objects = self.server.buckets[bucket]
        held = objects[key].generation if key in objects else 0
        careless = self.server.careless and self.headers.get("x-goog-copy-source")
        wanted = self.headers.get("x-goog-if-generation-match")
        if wanted and int(wanted) != held and not careless:
            raise Refused(412, "PreconditionFailed")
        if source := self.headers.get("x-goog-copy-source"):
            from_bucket, _, from_key = urllib.parse.unquote(source).partition("/")
            copied = self.server.buckets[from_bucket].get(from_key)
            if copied is None:
                return self.answer(404)
            blob = self.server.put(bucket, key, copied.content, copied.headers)
            return self.answer(200, b"<CopyObjectResult/>", self.told(blob))
        blob = self.server.put(bucket, key, self.body, self.given())
        return self.answer(200, headers=self.told(blob))

    def upload(self, bucket, key):
        if "uploads" in self.query:
            name = f"upload-{next(self.server.generations)}"
            self.server.uploads[name] = (self.given(), {})
            body = (
                f"<InitiateMultipartUploadResult><UploadId>{name}</UploadId></InitiateMultipartUploadResult>"
            )
            return self.answer(200, body.encode())
        headers, parts = self.server.uploads.pop(self.query["uploadId"], ({}, None))
        if parts is None:
            raise Refused(404, "NoSuchUpload")
        listed = re.findall(rb"<ETag>(.*?)</ETag><PartNumber>(\d+)</PartNumber>", self.body)
        for etag, number in listed:
            content = parts[int(number)]
            # Google takes the parts of an upload that are smaller than this only at the end.
            assert len(content) >= 5 << 20 or int(number) == len(listed)
            assert etag.decode().strip('"') == hashlib.md5(content).hexdigest()
        whole = b"".join(parts[int(number)] for _, number in listed)
        blob = self.server.put(bucket, key, whole, headers)
        body = f'<CompleteMultipartUploadResult><ETag>"{blob.etag}"</ETag></CompleteMultipartUploadResult>'
        return self.answer(200, body.encode(), {"x-goog-generation": blob.generation})

    def send_list(self, bucket):
        objects, after = self.page(
            bucket, self.query.get("continuation-token"), self.query.get("start-after", "")
        )
        entries = "".join(
            f"<Contents><Key>{escape(key)}</Key><Generation>{blob.generation}</Generation>"
            f"<LastModified>{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(blob.modified))}.000Z</LastModified>"
            f'<ETag>"{blob.etag}"</ETag><Size>{len(blob.content)}</Size></Contents>'
            for key, blob in objects
        )
        goes_on = f"<NextContinuationToken>{escape(after)}</NextContinuationToken>" if after else ""
        body = (
            f"<?xml version='1.0' encoding='UTF-8'?><ListBucketResult>{entries}{goes_on}</ListBucketResult>"
        )
        return self.answer(200, body.encode())


class AzureHandler(CloudHandler):
    """Azure Blob Storage."""

    metadata = "x-ms-meta-"

    def signature(self, method, path, query, headers):
        """The signature of a request by the key of the account."""

        def header(name):
            return headers.get(name) or ""

        length = header("Content-Length")
        own = sorted(
            (name.lower(), value) for name, value in headers.items() if name.lower().startswith("x-ms-")
        )
        lines = [
            method,
            header("Content-Encoding"),
            header("Content-Language"),
            "" if length == "0" else length,
            header("Content-MD5"),
            header("Content-Type"),
            header("Date"),
            header("If-Modified-Since"),
            header("If-Match"),
            header("If-None-Match"),
            header("If-Unmodified-Since"),
            header("Range"),
            *(f"{name}:{value}" for name, value in own),
            f"/{ACCOUNT}{path}",
            *(f"{name.lower()}:{value}" for name, value in sorted(query.items())),
        ]
        key = base64.b64decode(ACCOUNT_KEY)
        signed = hmac.new(key, "\n".join(lines).encode(), hashlib.sha256).digest()
        return f"SharedKey {ACCOUNT}:{base64.b64encode(signed).decode()}"

    def request_of(self, bucket, key):
        path = urllib.parse.urlsplit(self.path).path
        if self.headers.get("Authorization") != self.signature(self.command, path, self.query, self.headers):
            raise Refused(403, "AuthenticationFailed")
        objects = self.server.buckets.get(bucket)
        if objects is None:
            raise Refused(404, "ContainerNotFound")
        if self.query.get("comp") == "batch":
            self.remove_all()
        elif self.command in {"GET", "HEAD"}:
            self.send_object(objects.get(key)) if key else self.send_list(bucket)
        elif self.command == "DELETE":
            self.answer(202 if objects.pop(key, None) else 404)
        elif self.query.get("comp") == "block":
            blocks = self.server.uploads.setdefault((bucket, key), {})
            blocks[self.query["blockid"]] = self.body
            self.answer(201)
        else:
            self.put_blob(bucket, key)

    def put_blob(self, bucket, key):
        held = self.server.buckets[bucket].get(key)
        careless = self.server.careless and self.headers.get("x-ms-copy-source")
        if self.headers.get("If-None-Match") == "*" and held and not careless:
            raise Refused(409, "BlobAlreadyExists")
        if (wanted := self.headers.get("If-Match")) and (held is None or wanted != f'"{held.etag}"'):
            raise Refused(412, "ConditionNotMet")
        status, headers = 201, self.given()
        if self.query.get("comp") == "blocklist":
            blocks = self.server.uploads.pop((bucket, key), {})
            names = re.findall(r"<Uncommitted>(.*?)</Uncommitted>", self.body.decode())
            if not all(name in blocks for name in names):
                raise Refused(400, "InvalidBlockList")
            content = b"".join(blocks[name] for name in names)
        elif source := self.headers.get("x-ms-copy-source"):
            path = urllib.parse.unquote(urllib.parse.urlsplit(source).path)
            from_bucket, _, from_key = path.lstrip("/").partition("/")
            copied = self.server.buckets[from_bucket].get(from_key)
            if copied is None:
                raise Refused(404, "BlobNotFound")
            status, headers, content = 202, copied.headers, copied.content
        elif self.headers.get("x-ms-blob-type") == "BlockBlob":
            content = self.body
        else:
            raise Refused(400, "MissingRequiredHeader")
        blob = self.server.put(bucket, key, content, headers)
        self.answer(status, headers={**self.told(blob), "x-ms-copy-status": "success"})

    def remove_all(self):
        """Removes the objects of a batch."""
        boundary = self.headers["Content-Type"].partition("boundary=")[2]
        answers = []
        for part in self.body.decode().split(f"--{boundary}")[1:-1]:
            number = re.search(r"Content-ID: (\d+)", part).group(1)
            path = re.search(r"DELETE (\S+) HTTP/1.1", part).group(1)
            inner = part.partition("HTTP/1.1\r\n")[2]
            headers = dict(line.split(": ", 1) for line in inner.splitlines() if ": " in line)
            bucket, _, key = urllib.parse.unquote(path).lstrip("/").partition("/")
            if headers.get("Authorization") != self.signature("DELETE", path, {}, headers):
                status = "403 Forbidden"
            elif self.server.buckets[bucket].pop(key, None):
                status = "202 Accepted"
            else:
                status = "404 The specified blob does not exist."
            answers.append(
                f"--{boundary}\r\nContent-Type: application/http\r\nContent-ID: {number}\r\n\r\n"
                f"HTTP/1.1 {status}\r\nx-ms-request-id: 1\r\n\r\n"
            )
        body = "".join(answers) + f"--{boundary}--\r\n"
        return self.answer(202, body.encode(), {"Content-Type": f"multipart/mixed; boundary={boundary}"})

    def send_list(self, bucket):
        objects, after = self.page(bucket, self.query.get("marker"))
        # Azure writes the etags of a list without quotes.
        entries = "".join(
            f"<Blob><Name>{escape(key)}</Name><Properties><Last-Modified>{blob.date}</Last-Modified>"
            f"<Etag>{blob.etag}</Etag><Content-Length>{len(blob.content)}</Content-Length>"
            "<Content-Type>application/octet-stream</Content-Type></Properties></Blob>"
            for key, blob in objects
        )
        body = (
            f"<?xml version='1.0' encoding='utf-8'?><EnumerationResults><Blobs>{entries}</Blobs>"
            f"<NextMarker>{escape(after)}</NextMarker></EnumerationResults>"
        )
        return self.answer(200, body.encode())


@dataclass
class Cloud:
    """A bucket of a running server, and the options that open it."""

    scheme: str
    server: CloudServer
    options: dict[str, str]

    def url(self, key=""):
        return f"{self.scheme}://bucket/{key}"

    def put(self, folder):
        for path in folder.rglob("*"):
            if path.is_file():
                self.server.put("bucket", str(path.relative_to(folder)), path.read_bytes())

    def listing(self, prefix="packed/"):
        return self.server.listing("bucket", prefix)


@contextmanager
def cloud(scheme, delay=0.0):
    """A bucket of the store of a scheme, for a while."""
    google = scheme == "gs"
    with running(CloudServer(GoogleHandler if google else AzureHandler, "bucket", delay=delay)) as server:
        if google:
            names = ["client_email", "private_key", "private_key_id"]
            account = {"gcs_base_url": server.url, "disable_oauth": True, **dict.fromkeys(names, "")}
            options = {"google_service_account_key": json.dumps(account)}
        else:
            options = {
                "azure_storage_account_name": ACCOUNT,
                "azure_storage_account_key": ACCOUNT_KEY,
                "azure_endpoint": server.url,
                "azure_allow_http": "true",
            }
        yield Cloud(scheme, server, options)
