"""The words that entries rest on, as answers show them."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from layerlore.memory.engine.engine import Engine
from layerlore.memory.engine.speech import said
from layerlore.memory.entries.entry_answers import QuotedSource
from layerlore.memory.text.quotation import join_lines
from layerlore.storage.core.records import Message, Scope
from layerlore.storage.core.transaction import Tx
from layerlore.storage.derived import entries, entry_marks
from layerlore.storage.derived.entries import PLACE, Shown
from layerlore.storage.derived.subjects import find_others
from layerlore.storage.messages import indexed_rows


async def add_quotes(
    tx: Tx, scope: Scope, engine: Engine, shown: Sequence[Message], subject: str = ""
) -> list[Message]:
    """The messages, those that are entries with the quotation of each of their sources that is about no other
    ``subject``."""
    ids = _list_entries(shown)
    if not ids:
        return list(shown)
    others = (await find_others(tx, scope, subject)).uids
    found = await entries.sources_of(tx, scope, ids)
    sources = {id_: [source for source in each if source.thread_uid not in others] for id_, each in found.items()}
    places = [(source.thread_uid, source.seq) for each in sources.values() for source in each]
    read = await indexed_rows.messages_of(tx, scope, places)

    def quote(source: Shown) -> QuotedSource:
        quoted: QuotedSource = {"thread_id": source.thread_id, "seq": source.seq, "label": source.label}
        message = read.get((source.thread_uid, source.seq))
        if message is not None:
            text = join_lines(said(engine, message)[source.starts : source.ends])
            if text:
                quoted["quote"] = text
        return quoted

    return [
        replace(message, metadata={**message.metadata, "sources": [quote(each) for each in sources[message.id]]})
        if message.id in sources
        else message
        for message in shown
    ]


async def add_contradicted(tx: Tx, scope: Scope, shown: Sequence[Message]) -> list[Message]:
    """The messages, with the entries that say otherwise than those among them: the newer one first, directly before what
    it contradicts. Their metadata say so: ``newer`` is the id of the newer entry, ``older`` those of the older."""
    ids = _list_entries(shown)
    pairs = await entry_marks.find_contradicted(tx, scope, ids) if ids else {}
    there = await entries.as_messages(tx, scope, {*pairs, *pairs.values()})
    # Of a pair of which one cannot be seen any more the other stands alone.
    pairs = {older: newer for older, newer in pairs.items() if older in there and newer in there}
    found = list(shown)
    for older, newer in pairs.items():
        at = {message.id: place for place, message in enumerate(found)}
        if older not in at:
            found.insert(at[newer] + 1, there[older])
        elif newer not in at:
            found.insert(at[older], there[newer])
        elif at[older] < at[newer]:
            found.insert(at[older], found.pop(at[newer]))
    return [_mark(message, pairs) for message in found]


def _list_entries(shown: Sequence[Message]) -> list[str]:
    return [message.id for message in shown if message.thread_id.startswith(PLACE)]


def _mark(entry: Message, pairs: Mapping[str, str]) -> Message:
    older = sorted(old for old, new in pairs.items() if new == entry.id)
    if not older and entry.id not in pairs:
        return entry
    marks = {**({"newer": pairs[entry.id]} if entry.id in pairs else {}), **({"older": older} if older else {})}
    return replace(entry, metadata={**entry.metadata, **marks})
