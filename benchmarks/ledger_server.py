"""layerlore over stdio whose CPU is booked to its parts, for measuring.

``python ledger_server.py FILE`` takes the settings from the environment. At each SIGUSR1 it writes to FILE what the parts
have used so far, as JSON; nothing of the product knows of it.
"""

import gc
import importlib
import json
import signal
import sys
from pathlib import Path
from typing import Any

from benchmarks.cpu_parts import Books, booked, booked_by_caller, replace_everywhere
from layerlore.server.process.logs import configure_logging
from layerlore.server.process.shutdown import StopRequest
from layerlore.server.process.standard_streams import claim_stdio
from layerlore.server.runtime.tool_server import build_server
from layerlore.server.settings.settings import load_settings
from layerlore.server.stdio.stdio_transport import run_stdio

LOOP = "event loop"
SDK = "the SDK"
HOPS = "waiting for threads"
STATEMENT = "statement"
BASES = {"MainThread": LOOP, "": HOPS}
OTHERS = ("mcp.", "anyio.")
# What a process does beside its calls.
BACKGROUND = ("vectors of messages", "background work")

# By part the functions that it is, each with all that it calls, but for what another part has.
PARTS = {
    # Its dispatcher, its layers around a call with its checks of what is asked and answered, and the streams that it takes.
    SDK: [
        "mcp.shared.jsonrpc_dispatcher:JSONRPCDispatcher.run",
        "mcp.shared.jsonrpc_dispatcher:JSONRPCDispatcher._handle_request",
        "anyio.streams.memory:MemoryObjectReceiveStream.receive",
        "anyio.streams.memory:MemoryObjectSendStream.send",
    ],
    "transport": [
        "server.stdio.stdio_transport:LineConnection._read",
        "server.stdio.stdio_transport:LineConnection._write",
    ],
    "choosing the tool": ["server.runtime.tool_server:ToolServer.call_tool"],
    "schema checks": [
        "server.runtime.tool_server:check_arguments",
        "server.runtime.tool_server:make_result",
        "server.runtime.tool_server:admit",
        "memory.parts.message_shapes:parse_messages",
    ],
    "the tool": ["server.runtime.runtime:Runtime.act"],
    HOPS: [
        "storage.drivers.sqlite.database:SqliteDatabase.read_installation",
        "storage.drivers.sqlite.database:SqliteDatabase._read_on",
        "storage.drivers.sqlite.database:SqliteDatabase.write_installation",
        "storage.drivers.sqlite.database:SqliteDatabase.version",
        "storage.drivers.sqlite.group_commit:Writer._drain",
        "memory.embedding.service:EmbeddingService.query",
    ],
    "begin, commit, end": [
        "storage.drivers.sqlite.database:_read_unit",
        "storage.drivers.sqlite.group_commit:commit_group",
    ],
    "the stores": ["storage.drivers.sqlite.transaction:drive"],
    "the query's vector": ["memory.embedding.service:EmbeddingService._embed_query"],
    "ranking": ["memory.recall.recall:find_hits", "memory.recall.candidates:match_words"],
    "rendering": ["memory.recall.recall_text:render_text", "memory.recall.recall_text:render_json"],
    "token counts": ["memory.parts.tokens:TokenCounter.text"],
    "context": ["memory.context.context:_measure", "memory.context.material:gather_context"],
    "masking": ["memory.secrets.redaction:Redactor.json", "memory.secrets.redaction:Redactor.text"],
    "search words": ["memory.parts.index_texts:make_index_texts"],
    "vectors of messages": [
        "memory.recall.vector_writer:VectorWriter._work",
        "memory.embedding.service:EmbeddingService._embed_batch",
    ],
    "background work": [
        "extraction.jobs.worker:JobWorker._fill",
        "extraction.jobs.worker:JobWorker._work",
        "server.subscriptions.watcher:Watcher.run",
        "storage.drivers.sqlite.database:_poll",
    ],
}
_TRANSACTION = "layerlore.storage.drivers.sqlite.transaction"
_STATEMENTS = ("_fetch", "each", "many", "run")
# What else the tools load late, so that all names of a function are there when it is replaced.
_LATE = (
    "memory.messages.reader",
    "memory.messages.addition",
    "memory.context.context",
    "memory.recall.recall_text",
    "extraction.jobs.registry",
)
_OWN_FILES = ("storage/drivers/sqlite/transaction.py", "cpu_parts.py")


def book_parts() -> Books:
    """Wrap the functions of every part. Raises AttributeError where one has gone."""
    books = Books(BASES)
    for name in _LATE:
        importlib.import_module(f"layerlore.{name}")
    for part, functions in PARTS.items():
        for place in functions:
            _replace(place, lambda function, part=part: booked(books, part, function))
    transaction = importlib.import_module(_TRANSACTION).SqliteTx
    for name in _STATEMENTS:
        function = getattr(transaction, name)
        setattr(transaction, name, booked_by_caller(books, STATEMENT, function, _OWN_FILES))
    return books


def _replace(place: str, wrap: Any) -> None:
    module_name, _, path = place.partition(":")
    owner: Any = importlib.import_module(module_name if module_name.startswith(OTHERS) else f"layerlore.{module_name}")
    *outer, name = path.split(".")
    for each in outer:
        owner = getattr(owner, each)
    old = getattr(owner, name)
    if outer:
        setattr(owner, name, wrap(old))
    else:
        replace_everywhere("layerlore", old, wrap(old))


def main() -> None:
    file = Path(sys.argv[1])
    fds = claim_stdio()
    settings = load_settings()
    configure_logging(settings.log_level)
    books = book_parts()

    def write(*_: Any) -> None:
        written = file.with_suffix(".new")
        written.write_text(json.dumps(books.spent()), encoding="utf-8")
        written.replace(file)

    signal.signal(signal.SIGUSR1, write)
    gc.freeze()
    stop = StopRequest()
    sys.exit(run_stdio(build_server(settings, stop=stop), fds, stop=stop))


if __name__ == "__main__":
    main()
