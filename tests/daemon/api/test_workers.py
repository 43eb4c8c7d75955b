"""Workers: a call goes on when its caller has left, and its error is logged in one line then, without a traceback."""

import asyncio
import io
import json
import threading
from contextlib import suppress

from daemon.api.workers import Limits, Workers
from daemon.observability import logs
from state.errors import StorageError


def test_an_error_after_the_caller_has_left_is_logged() -> None:
    told: list[dict[str, object]] = []
    going = threading.Event()

    def failing() -> None:
        going.wait(30)
        raise StorageError("state.db is unwell", "run 'dreamd doctor'")

    async def main() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context))
        workers = Workers(Limits())
        caller = asyncio.create_task(workers.run(failing))
        await asyncio.sleep(0.01)
        caller.cancel()
        with suppress(asyncio.CancelledError):
            await caller
        going.set()
        await asyncio.wait(workers._tasks)
        await workers.close()

    logs.configure("json", stream=(stream := io.StringIO()))
    try:
        asyncio.run(main())
    finally:
        logs._Sink.emit = None
    (event,) = map(json.loads, stream.getvalue().splitlines())
    assert (event["event"], event["level"]) == ("call_failed_after_its_caller_left", "warning")
    assert "state.db is unwell" in str(event)
    assert told == []
