"""TCP connections that a test can cut: what a Service and the network of a node are to pods.

A route listens on a port of its own and passes each connection on to one of the ports that it
leads to at that moment, one after the other, as a Service does with the pods that are ready.
Connections that are open stay with the port they have, whatever becomes of the route.
"""

import asyncio
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Final, Self

from tests.controlplane.processes import free_port

_PIECE: Final = 64 * 1024
_HOST: Final = "127.0.0.1"


class Network:
    """Routes in a thread of their own; it carries nothing before `start` and after `stop`."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="network")
        self._cut: dict[int, asyncio.Event] = {}
        self._turn = 0
        self._servers: list[asyncio.Server] = []
        self._carried: set[asyncio.Task[None]] = set()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def route(self, leads_to: Callable[[], Sequence[int]]) -> int:
        """Listen for connections to whatever ports ``leads_to`` names when one comes.

        A connection is refused while it names none.

        Returns:
            The port on 127.0.0.1.
        """
        port = free_port()

        async def listen() -> None:
            async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                task = asyncio.current_task()
                assert task is not None
                self._carried.add(task)  # asyncio itself may forget what waits
                with suppress(asyncio.CancelledError):  # at the end of the network
                    await self._carry(port, leads_to, reader, writer)
                self._carried.discard(task)

            self._servers.append(await asyncio.start_server(serve, _HOST, port, backlog=512))

        asyncio.run_coroutine_threadsafe(listen(), self._loop).result(30)
        return port

    @contextmanager
    def cut(self, *ports: int) -> Iterator[None]:
        """Inside the block nothing passes from or to these ports, and nobody is told.

        What was sent meanwhile arrives afterwards, as TCP sends it again.
        """
        self._cut |= {port: asyncio.Event() for port in ports}
        try:
            yield
        finally:
            for port in ports:
                self._loop.call_soon_threadsafe(self._cut.pop(port).set)

    def is_cut(self, port: int) -> bool:
        """Return whether nothing passes from or to a port."""
        return port in self._cut

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()
        for server in self._servers:
            server.close()
        carried = asyncio.all_tasks(self._loop)
        for task in carried:
            task.cancel()
        self._loop.run_until_complete(asyncio.gather(*carried, return_exceptions=True))
        self._loop.close()

    async def _carry(
        self,
        port: int,
        leads_to: Callable[[], Sequence[int]],
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        ends = leads_to()
        if not ends:
            writer.transport.abort()
            return
        self._turn += 1
        end = ends[self._turn % len(ends)]
        await self._passable(port, end)
        try:
            there, back = await asyncio.open_connection(_HOST, end)
        except OSError:
            writer.transport.abort()
            return
        pumps = [
            asyncio.create_task(self._pump(reader, back, port, end)),
            asyncio.create_task(self._pump(there, writer, port, end)),
        ]
        try:
            await asyncio.gather(*pumps)
        except OSError:  # one side has reset it
            await self._passable(port, end)
        finally:
            for pump in pumps:
                pump.cancel()
            for side in (writer, back):
                side.transport.abort()

    async def _pump(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *ports: int
    ) -> None:
        while data := await reader.read(_PIECE):
            await self._passable(*ports)
            writer.write(data)
            await writer.drain()
        await self._passable(*ports)
        with suppress(OSError, RuntimeError):
            writer.write_eof()

    async def _passable(self, *ports: int) -> None:
        for port in ports:
            while event := self._cut.get(port):
                await event.wait()
