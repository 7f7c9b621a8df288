"""What memory_status does."""

from importlib.metadata import version

from memstrata.memory.tokens import ESTIMATE, PER_IMAGE
from memstrata.memory.usage import shown_lines
from memstrata.server.actions.call import Call
from memstrata.storage import counts, sqlite_driver, usage
from memstrata.storage.records import Json


async def memory_status(call: Call) -> Json:
    if call.settings.memory == "off":
        held, spent = counts.Counts(0, 0, 0, 0), []
    else:
        held = await call.engine.database.read(counts.of_scope_now, call.scope)
        spent = await call.engine.database.read(usage.of_resource, call.scope)
    database: Json = {"kind": call.engine.database.dialect}
    if call.engine.database.dialect == "sqlite":
        able = sqlite_driver.abilities()
        database |= {
            "sqlite": able.version,
            "module": able.module,
            "vector_extension": able.vector_extension or "none",
            "erases_words_at_once": able.fts5_secure_delete,
            "safe_for_several_processes": able.wal_safe,
        }
    return {
        "memory": call.settings.memory,
        "version": version("memstrata"),
        "database": database,
        "scope": {"agent": call.scope.agent_id, "resource": call.scope.resource_id},
        "counts": {
            "threads": held.threads,
            "messages": held.messages,
            "tokens": held.tokens,
            "restorable_deletes": held.restorable_deletes,
        },
        "tokens": {"encoding": call.engine.tokens.name, "image": PER_IMAGE},
        "usage": shown_lines(spent),
        "recall": {"signals": ["lexical"]},
        "degraded": degraded(call),
    }


def degraded(call: Call) -> list[str]:
    """What does not work as it should, and how to mend it."""
    found = []
    if call.engine.tokens.name == ESTIMATE:
        found.append("tokens are estimated: no encoding file was found; reinstall litellm, which ships it")
    if call.engine.database.dialect == "sqlite" and not sqlite_driver.abilities().wal_safe:
        found.append(
            f"SQLite {sqlite_driver.driver.sqlite_version} can corrupt a file that several processes write; "
            "use one process, or a Python for which pysqlite3 has a wheel"
        )
    if call.settings.redaction != "all":
        found.append(f"redaction is {call.settings.redaction!r}: secrets in messages are stored as sent")
    return found
