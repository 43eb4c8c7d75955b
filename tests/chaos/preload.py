"""What the server of `lives` imports before it forks. None of it may start a thread or open a file."""

import mcp.server  # noqa: F401
import uvicorn  # noqa: F401
import watchfiles  # noqa: F401

import daemon.process.run  # noqa: F401
from daemon.cli import doctor, dream, ingest, note, restore, serve, status  # noqa: F401
from tests.support import killing_preload  # noqa: F401
