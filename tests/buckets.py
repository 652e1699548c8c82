"""A real S3 server for the tests, which checks signatures, and a gate before a server that can be shut."""

import contextlib
import json
import os
import select
import socket
import subprocess
import sys
import threading
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import boto3
import httpx

from discretion import s3, stores
from tests import services

_UNCHECKED = 1_000_000_000  # requests that nobody has to sign


@dataclass
class Server:
    """moto in a process of its own. Whoever has no key that it made is refused."""

    port: int
    access_key: str = ""
    secret_key: str = field(default="", repr=False)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def prepare(self) -> None:
        self.access_key, self.secret_key = self._user("service")

    def limited(self, *denied: str) -> "Server":
        """The same server, to somebody who may not do some of it."""
        return Server(self.port, *self._user(f"user-{uuid.uuid4().hex}", *denied))

    def _user(self, name: str, *denied: str) -> tuple[str, str]:
        self._check_signatures(_UNCHECKED)
        iam = self._boto("iam", "anybody", "anything")
        iam.create_user(UserName=name)
        said = [{"Effect": "Allow", "Action": "s3:*", "Resource": "*"}]
        said += [{"Effect": "Deny", "Action": action, "Resource": "*"} for action in denied]
        document = json.dumps({"Version": "2012-10-17", "Statement": said})
        iam.put_user_policy(UserName=name, PolicyName="all", PolicyDocument=document)
        made = iam.create_access_key(UserName=name)["AccessKey"]
        self._check_signatures(0)
        return made["AccessKeyId"], made["SecretAccessKey"]

    def _check_signatures(self, after: int) -> None:
        httpx.post(f"{self.url}/moto-api/reset-auth", content=str(after), verify=False).raise_for_status()

    def _boto(self, service: str, key: str, secret: str) -> Any:
        named = {"aws_access_key_id": key, "aws_secret_access_key": secret, "region_name": "us-east-1"}
        return boto3.client(service, endpoint_url=self.url, **named)

    @property
    def client(self) -> Any:
        """Another's, to look at what ours has done."""
        return self._boto("s3", self.access_key, self.secret_key)

    def bucket(self, versions: str = "") -> str:
        """`versions` may be Enabled or Suspended; Suspended ones were kept before."""
        name = f"test-{uuid.uuid4().hex}"
        self.client.create_bucket(Bucket=name)
        if versions:
            self.keep_versions(name, versions)
        return name

    def keep_versions(self, bucket: str, state: str) -> None:
        self.client.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": state})

    def versions(self, bucket: str) -> set[str]:
        """The keys of which anything is kept, also if it was deleted."""
        found = self.client.list_object_versions(Bucket=bucket)
        assert not found["IsTruncated"]
        return {entry["Key"] for kind in ("Versions", "DeleteMarkers") for entry in found.get(kind, [])}

    def keys(self, bucket: str) -> set[str]:
        found = self.client.list_objects_v2(Bucket=bucket)
        assert not found["IsTruncated"]
        uploads = self.client.list_multipart_uploads(Bucket=bucket).get("Uploads", [])
        return {entry["Key"] for entry in found.get("Contents", [])} | {entry["Key"] for entry in uploads}

    def content(self, bucket: str) -> dict[str, bytes]:
        keys = self.keys(bucket)
        return {key: self.client.get_object(Bucket=bucket, Key=key)["Body"].read() for key in keys}

    def put(self, bucket: str, key: str, content: bytes) -> None:
        self.client.put_object(Bucket=bucket, Key=key, Body=content)

    def address(self, bucket: str, **changed: Any) -> s3.Address:
        named = {"endpoint": self.url, "bucket": bucket, "region": "us-east-1"}
        named |= {"access_key": self.access_key, "secret_key": self.secret_key}
        return s3.Address(**named | changed)

    def settings(self, bucket: str, url: str | None = None) -> dict[str, Any]:
        """What a service is told to use it, by way of a gate if `url` is one's."""
        named = {"store": f"s3://{bucket}/clinic?endpoint={url or self.url}&region=us-east-1"}
        return named | {"s3_access_key": self.access_key, "s3_secret_key": self.secret_key}


@contextlib.contextmanager
def serve(folder: Path) -> Iterator[Server]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    # Its own needs must not depend on whose machine this is.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    with (folder / "moto").open("wb") as log:
        command = [sys.executable, "-m", "moto.server", "--host", "127.0.0.1", "--port", str(port)]
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
    made = Server(port)
    try:
        services.wait_until(lambda: process.poll() is not None or _answers(made.url), 60)
        assert process.poll() is None, (folder / "moto").read_text()
        made.prepare()
        yield made
    finally:
        process.terminate()
        process.wait(30)


def _answers(url: str) -> bool:
    with contextlib.suppress(httpx.TransportError):
        return httpx.get(f"{url}/moto-api/", verify=False).is_success
    return False


def store(server: Server, bucket: str, stale: Any) -> stores.Bucket:
    return stores.Bucket(s3.Bucket(server.address(bucket)), "clinic/", stale)


class Gate:
    """A port that leads to another, until it is shut; everything on its way is dropped then.

    `look` sees what is asked, and may shut the gate before it is.
    """

    def __init__(self, target: Callable[[], socket.socket], host: str = "127.0.0.1", port: int = 0) -> None:
        self._target, self._host = target, host
        self.look: Callable[[bytes], None] = lambda asked: None
        self.seen: list[bytes] = []
        self._open: list[socket.socket] = []
        self._listening: socket.socket | None = None
        self.port = port
        self.open()

    @property
    def url(self) -> str:
        return f"http://{self._host}:{self.port}"

    def open(self) -> None:
        self._listening = socket.create_server((self._host, self.port))
        self.port = self._listening.getsockname()[1]
        threading.Thread(target=self._accept, args=(self._listening,), daemon=True).start()

    def shut(self) -> None:
        dropped, self._open = self._open, []
        for connection in [self._listening, *dropped]:
            if connection is not None:
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)
                connection.close()
        self._listening = None

    def _accept(self, listening: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                near = listening.accept()[0]
                far = self._target()
                self._open += [near, far]
                threading.Thread(target=self._carry, args=(near, far), daemon=True).start()

    def _carry(self, near: socket.socket, far: socket.socket) -> None:
        with contextlib.suppress(OSError, ValueError), near, far:
            while True:
                for ready in select.select([near, far], [], [])[0]:
                    if not (content := ready.recv(2**16)):
                        return
                    if ready is near:
                        self.seen.append(content[:200])
                        self.look(content)
                    (far if ready is near else near).sendall(content)


def gate(port: int, host: str = "127.0.0.1") -> Gate:
    return Gate(lambda: socket.create_connection(("127.0.0.1", port)), host)
