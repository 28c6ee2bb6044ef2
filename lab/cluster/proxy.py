"""A loopback TCP proxy between clients and a broker, which can stall or cut the network of single ones.

It can also be as far away as a broker in another building: then each way takes half of a round trip longer.

Brokers advertise it as a listener of their own (`Shape.proxied`), so that clients never find a way around it.
The client id in a connection's first Kafka request says whose it is (header: int32 size, int16 API, int16
version, int32 correlation, nullable string client id).
"""

from __future__ import annotations

import asyncio
import struct
import threading
from contextlib import suppress
from typing import Self

from rebalance_monitor.lab.cluster.properties import HOST

_CHUNK = 65_536
# So many chunks at most are on their way.
_UNDER_WAY = 256
_Way = asyncio.Queue[tuple[float, bytes]]
"""What is on its way, and when (by the loop's clock, s) it arrives; nothing at the end."""

_HEADER = struct.Struct(">ihhih")
_LOOK_S = 0.05


class Proxy:
    """Forwards `port` to `target` on loopback, from a thread of its own, until closed.

    `away_ms`: how much longer a round trip takes; as many bytes pass as before.
    """

    def __init__(self, port: int, target: int, away_ms: float = 0.0) -> None:
        self._port, self._target, self._way_s = port, target, away_ms / 2_000
        self._stalled: frozenset[str] = frozenset()
        self._cut: frozenset[str] = frozenset()
        self._open: dict[asyncio.StreamWriter, str] = {}
        self._server: asyncio.Server | None = None
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def open(self) -> Self:
        """Start listening."""
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result(10)
        return self

    async def _listen(self) -> None:
        self._server = await asyncio.start_server(self._serve, HOST, self._port)

    def close(self) -> None:
        """Stop; connections are dropped."""
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(timeout=5)
        self._loop.close()

    async def _end(self) -> None:
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        if self._server is not None:
            self._server.close()

    def stall(self, client_id: str) -> None:
        """Let nothing of this client through, in either direction; its connections stay open."""
        self._stalled |= {client_id}

    def cut(self, client_id: str) -> None:
        """Drop this client's connections, and every one that it opens from now on."""
        self._cut |= {client_id}
        self._loop.call_soon_threadsafe(self._drop, client_id)

    def mend(self, client_id: str) -> None:
        """Undo `stall` and `cut`."""
        self._stalled -= {client_id}
        self._cut -= {client_id}

    def _drop(self, client_id: str) -> None:
        for writer in [one for one, owner in self._open.items() if owner == client_id]:
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.IncompleteReadError):
            head = await reader.readexactly(_HEADER.size)
            length = _HEADER.unpack(head)[-1]
            name = await reader.readexactly(max(0, length))
            client_id = name.decode(errors="replace")
            if client_id not in self._cut:
                await self._forward(client_id, reader, writer, head + name)
        writer.close()

    async def _forward(
        self, client_id: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, first: bytes
    ) -> None:
        from_broker, to_broker = await asyncio.open_connection(HOST, self._target)
        self._open |= {writer: client_id, to_broker: client_id}
        try:
            ways = self._pump(client_id, reader, to_broker, first), self._pump(client_id, from_broker, writer)
            tasks = [asyncio.ensure_future(way) for way in ways]
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in tasks:
                task.cancel()
        finally:
            for one in (writer, to_broker):
                self._open.pop(one, None)
                one.close()

    async def _pump(
        self, client_id: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, first: bytes = b""
    ) -> None:
        under_way: _Way = asyncio.Queue(_UNDER_WAY)
        leaving = asyncio.ensure_future(self._leave(reader, under_way, first))
        try:
            await self._arrive(client_id, under_way, writer)
        finally:
            leaving.cancel()

    async def _leave(self, reader: asyncio.StreamReader, under_way: _Way, data: bytes) -> None:
        with suppress(OSError):
            data = data or await reader.read(_CHUNK)
            while data:
                await under_way.put((self._loop.time() + self._way_s, data))
                data = await reader.read(_CHUNK)
        await under_way.put((self._loop.time() + self._way_s, b""))

    async def _arrive(self, client_id: str, under_way: _Way, writer: asyncio.StreamWriter) -> None:
        due, data = await under_way.get()
        with suppress(OSError):
            while data:
                await asyncio.sleep(due - self._loop.time())
                await self._unless_stalled(client_id)
                writer.write(data)
                await writer.drain()
                due, data = await under_way.get()

    async def _unless_stalled(self, client_id: str) -> None:
        while client_id in self._stalled:  # noqa: ASYNC110 - it is set from other threads
            await asyncio.sleep(_LOOK_S)
