"""Uploads: bytes stream in, a thread of their own checks and stores them, and nothing is kept of one that breaks off.

The event loop hands each chunk to that thread through a short queue, so a slow disk slows the sender down and memory
stays bounded. A sender that pauses too long is given up.
"""

import asyncio
import contextlib
import functools
import queue
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import UTC, datetime
from typing import Any, Final

import sqlalchemy as sa
from fastapi import Request
from starlette.concurrency import run_in_threadpool

from discretion import audit, catalogue, datasets, errors
from discretion.api import auth, schemas
from discretion.api.auth import Caller, Room, Running
from discretion.api.service import Service
from discretion.formats import Limits
from discretion.keys import Key
from discretion.privacy import tokens

room = Room("datasets")

THREAD: Final = "upload"
_WAITING: Final = 8  # chunks between the network and the disk
_DROPPED: Final = 2**26  # bytes taken after a refusal
_INTERRUPTED: Final = "The upload stopped half-way; nothing was kept. Send it again."
_BINARY: Final = {"schema": {"type": "string", "format": "binary"}}
_MEDIA_TYPES: Final = ("text/csv", "application/x-ndjson", "application/vnd.apache.parquet")


class _Pipe:
    """Chunks from the event loop to a thread; an interruption on either side ends it on the other."""

    def __init__(self) -> None:
        self._chunks: queue.Queue[bytes | None] = queue.Queue(_WAITING)
        self._given_up = threading.Event()  # by the sender
        self._refused = threading.Event()  # by the receiver

    async def fill(self, chunks: AsyncIterator[bytes]) -> None:
        try:
            after = 0
            async for chunk in chunks:
                await self._put(chunk)
                # Most clients hear an answer only when they have sent everything: some more is taken, and dropped.
                after += len(chunk) if self._refused.is_set() else 0
                if after > _DROPPED:
                    return
            await self._put(None)
        except BaseException:
            self._given_up.set()
            raise

    async def _put(self, item: bytes | None) -> None:
        while not self._refused.is_set():
            try:
                return self._chunks.put_nowait(item)
            except queue.Full:
                await asyncio.sleep(0.001)

    def __iter__(self) -> Iterator[bytes]:
        while True:
            try:
                chunk = self._chunks.get(timeout=0.5)
            except queue.Empty:
                if self._given_up.is_set():
                    raise errors.UploadInterrupted(_INTERRUPTED) from None
                continue
            if chunk is None:
                return
            yield chunk

    def refuse(self) -> None:
        self._refused.set()


@room.route(
    "PUT",
    "/v1/datasets/{dataset}/trajectories",
    "custodian",
    status=201,
    refusals=(408, 409, 413, 422, 507),
    response_model=schemas.Accepted,
    openapi_extra={"requestBody": {"required": True, "content": dict.fromkeys(_MEDIA_TYPES, _BINARY)}},
)
async def upload_trajectories(dataset: str, request: Request, caller: Caller, service: Running) -> Any:
    """The data, all or nothing: a bad row refuses the upload and names the first 20 problems."""
    began = datetime.now(UTC)
    media_type = request.headers.get("content-type", "").split(";")[0].strip().lower()
    if media_type not in _MEDIA_TYPES:
        raise errors.InvalidRequest(
            f"Send the header Content-Type: {', '.join(_MEDIA_TYPES[:-1])} or {_MEDIA_TYPES[-1]}."
        )
    found = await run_in_threadpool(_owned, service, caller, dataset)
    if dataset in service.uploading:
        raise errors.DatasetNotEmpty
    if len(service.uploading) >= service.settings.uploads:
        raise errors.TooManyRequests(10)
    limits = Limits(bytes=service.settings.max_upload_megabytes * 2**20)
    if int(request.headers.get("content-length") or 0) > limits.bytes:
        raise errors.UploadTooLarge(f"The upload is larger than {service.settings.max_upload_megabytes} MB.")
    service.uploading.add(dataset)
    service.measured.uploads += 1
    try:
        return vars(await _store(service, caller, found, request, media_type, limits, began))
    finally:
        service.uploading.discard(dataset)


def _owned(service: Service, caller: Key, dataset: str) -> catalogue.Dataset:
    """An empty dataset of the caller's; whether it still is when the data is there, `catalogue.fill` decides."""
    with service.reading() as connection:
        found = catalogue.dataset(connection, caller, dataset)
    if found.state != catalogue.EMPTY:
        raise errors.DatasetNotEmpty
    return found


async def _store(
    service: Service,
    caller: Key,
    found: catalogue.Dataset,
    request: Request,
    media_type: str,
    limits: Limits,
    began: datetime,
) -> datasets.Accepted:
    folder = tokens.identifier("up")
    pipe = _Pipe()
    loop = asyncio.get_running_loop()
    done: asyncio.Future[datasets.Accepted] = loop.create_future()

    def then(accepted: datasets.Accepted) -> None:
        with service.writing() as connection:
            catalogue.fill(connection, found.id, units=accepted.units, folder=folder, outcome=accepted.outcome)
            audit.record(connection, caller.id, "dataset.upload", found.id, at=began)

    def accept() -> None:
        try:
            begin()
            accepted = datasets.accept(pipe, media_type, found.schema, service.shelf.place(folder), limits, then)
        except BaseException as failure:
            pipe.refuse()
            # What could not be stored may not have been cleaned up either: its row stays, for `sweep` to find it.
            if isinstance(failure, errors.Refusal) and not isinstance(failure, errors.StorageFailed):
                with contextlib.suppress(sa.exc.SQLAlchemyError), service.writing() as connection:
                    catalogue.end_upload(connection, folder)
            tell(functools.partial(done.set_exception, failure))
        else:
            tell(functools.partial(done.set_result, accepted))

    def begin() -> None:
        try:
            with service.writing() as connection:
                catalogue.begin_upload(connection, found.id, folder)
        except sa.exc.OperationalError:  # an embedded database's disk is the store's
            raise errors.StorageFailed("The upload could not be stored, and nothing of it was kept.") from None

    def tell(settle: Callable[[], None]) -> None:
        """Unless nobody listens any more: asyncio would write what it could not deliver to the log."""
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(lambda: None if done.done() else settle())

    done.add_done_callback(lambda ended: ended.cancelled() or ended.exception())  # or its text would reach a log
    # A thread of its own: an upload may take an hour, and the others must not wait for it.
    threading.Thread(target=accept, name=THREAD, daemon=True).start()
    await pipe.fill(auth.received(request, service.settings.stall_seconds))
    return await done
