"""Connections that say nothing are closed: a request's head arrives whole, soon and within bounds, or not at all.

uvicorn waits for ever for the first request of a connection and takes headers of any size; a few hundred strangers who
send one word each would keep everybody else out.
"""

import asyncio
from typing import Any, Final

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

_SECONDS: Final = 15.0
_BYTES: Final = 2**16


class Connection(HttpToolsProtocol):
    _timer: asyncio.TimerHandle | None = None
    _head = 0  # bytes of a head that has not ended

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._timer = self.loop.call_later(_SECONDS, transport.close)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        if self._timer is None:
            self._timer = self.loop.call_later(_SECONDS, self.transport.close)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._timer is not None:
            self._head += len(data)
            if self._head > _BYTES:
                self.transport.close()

    def on_headers_complete(self) -> None:
        self._heard()
        super().on_headers_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        self._heard()
        super().connection_lost(exc)

    def _heard(self) -> None:
        self._head = 0
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
