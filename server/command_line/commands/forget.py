"""``layerlore forget``, ``edit`` and ``undo``: remove or change memories after a preview, and undo that."""

import asyncio
import difflib
import json
import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from layerlore.memory.entries.entry_answers import EntryRow, RememberedEntry
from layerlore.memory.entries.entry_curation import show_entry
from layerlore.memory.entries.remember_requests import RememberRequest, remember
from layerlore.memory.removal import forget_text
from layerlore.memory.removal.removal_answers import ForgetPreviewAnswer, ForgottenAnswer
from layerlore.memory.rules.ages import local_time
from layerlore.server.access.credentials import LOCAL_TENANT
from layerlore.server.command_line.known_engine import Ask, calling
from layerlore.server.command_line.options import AsJson, TenantOption, print_json, read_settings
from layerlore.server.command_line.owner import describe_scope, scope_of
from layerlore.server.command_line.suggestions import suggest
from layerlore.server.command_line.tables import ask_person, print_table
from layerlore.server.relay.server_query import mask_controls
from layerlore.server.settings.settings import Settings, SettingsError
from layerlore.server.tools import curation, entries, threads, working_memory
from layerlore.server.tools.declaration import Call
from layerlore.storage.core import linear_re
from layerlore.storage.core.errors import InvalidInput, NotFound
from layerlore.storage.core.records import Json, Scope

Edited = Literal["entries", "profile", "session", "thread"]

_ID = linear_re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_UNDONE = {
    "messages": ("message", "messages"),
    "entries": ("entry", "entries"),
    "documents": ("document", "documents"),
    "plans": ("plan", "plans"),
}


@dataclass(frozen=True, slots=True)
class Consent:
    """``dry_run``: only show what would happen; ``sure``: do not ask."""

    dry_run: bool
    sure: bool

    def check(self, command: str) -> None:
        """Raises SettingsError if there is no terminal to ask at."""
        if not (self.dry_run or self.sure or sys.stdin.isatty()):
            raise SettingsError(
                f"{command} asks first, and there is no terminal to ask at: use --yes to do it without asking, or "
                "--dry-run to see what it would do"
            )

    def ask(self, question: str) -> bool:
        """Whether to go on."""
        if self.dry_run:
            return False
        return self.sure or ask_person(question)


def run_forget(settings: Settings, tenant: str, what: Sequence[str], consent: Consent, *, as_json: bool) -> int:
    """Forget entries by their ids, or all about some words, after a preview. Returns the exit code: 1 if nothing was
    forgotten.

    Raises SettingsError, NotFound, InvalidInput, LimitExceeded, StorageUnavailable or DatabaseTooNew.
    """
    return asyncio.run(_forget(settings, scope_of(settings, tenant), list(what), consent, as_json))


async def _forget(settings: Settings, scope: Scope, what: list[str], consent: Consent, as_json: bool) -> int:
    ids = all(_ID.fullmatch(each) for each in what)
    async with calling(
        settings, scope, off="there is nothing to forget", absent="nothing is remembered", by_meaning=not ids
    ) as ask:
        chosen: Json = {"ids": what}
        if ids:
            preview = "This would be forgotten:"
            for each in what:
                entry: EntryRow = await ask(_show_entry, entry_id=each)
                preview += f"\n- entry {each}: {entry['content']}"
        # Words only find candidates, so the tool first shows them.
        else:
            found: ForgetPreviewAnswer = await ask(entries.forget, query=" ".join(what), format="json")
            preview = forget_text.render_preview(found)
            if "confirm" not in found:
                return _finish({"forgotten": False, "note": preview}, preview, as_json, 0)
            chosen = {"confirm": found["confirm"]}
        consent.check("forget")
        if not as_json or not (consent.sure or consent.dry_run):
            sys.stderr.write(mask_controls(preview) + "\n")
        if not consent.ask("Forget all of it?"):
            said = "nothing was forgotten"
            return _finish({"forgotten": False, "preview": preview}, said, as_json, 0 if consent.dry_run else 1)
        done: ForgottenAnswer = await ask(entries.forget, format="json", **chosen)
    counted = forget_text.render_counts(done)
    undo_ids = [each["undo"] for each in done["forgotten"] if "undo" in each]
    undone_by = [f" `{suggest('undo', each)}` undoes it." for each in undo_ids]
    answer: Json = {"forgotten": True, "note": counted}
    if undo_ids:
        answer["undo"] = undo_ids[0]
    return _finish(answer, counted + "".join(undone_by), as_json, 0)


def _finish(answer: Json, text: str, as_json: bool, code: int) -> int:
    if as_json:
        print_json(answer)
    else:
        sys.stdout.write(mask_controls(text) + "\n")
    return code


async def _show_entry(call: Call, entry_id: str) -> EntryRow:
    return await show_entry(call.engine, call.scope, entry_id)


@dataclass(frozen=True, slots=True)
class EditRequest:
    """The part to edit: an entry by its id, the profile, or the session memory or the title of a conversation. ``text``:
    the new text; None: the user writes it in an editor."""

    what: Edited
    id: str
    text: str | None

    def check(self) -> "EditRequest":
        """Return the request. Raises InvalidInput for values that do not go together."""
        if (self.what == "profile") == bool(self.id):
            raise InvalidInput(
                "edit profile takes no id" if self.id else f"edit {self.what} needs an id; `layerlore show` has the ids"
            )
        return self


def run_edit(settings: Settings, tenant: str, request: EditRequest, consent: Consent, *, as_json: bool) -> int:
    """Change a remembered text after a preview of the change. Returns the exit code: 1 if nothing was changed.

    Raises SettingsError, NotFound, Conflict, InvalidInput, LimitExceeded, StorageUnavailable or DatabaseTooNew.
    """
    request.check()
    return asyncio.run(_edit(settings, scope_of(settings, tenant), request, consent, as_json))


async def _edit(settings: Settings, scope: Scope, request: EditRequest, consent: Consent, as_json: bool) -> int:
    off, absent = "there is nothing to edit", "nothing is remembered"
    async with calling(settings, scope, off=off, absent=absent) as ask:
        before, version = await _read_text(ask, request)
        after = request.text
        if after is None:
            if not sys.stdin.isatty():
                raise SettingsError(
                    "edit opens an editor, and there is no terminal for it: give the new text with --text"
                )
            after = await asyncio.to_thread(_open_editor, before)
        # An editor may add a newline at the end, which does not count as a change.
        after = after.strip()
        if after == before.strip():
            return _finish({"changed": False}, "nothing changed", as_json, 0)
        consent.check("edit")
        shown = _describe_difference(before, after)
        if not as_json or not (consent.sure or consent.dry_run):
            sys.stderr.write(mask_controls(shown) + "\n")
        if not consent.ask("Keep this?"):
            said = "nothing was changed"
            return _finish({"changed": False, "preview": shown}, said, as_json, 0 if consent.dry_run else 1)
        answer: Json = await _write_text(ask, request, after, version)
    undo_id = answer.get("undo", "")
    if undo_id:
        undone_by = f"; `{suggest('undo', undo_id)}` undoes it"
    else:
        undone_by = ""
    return _finish({"changed": True, **answer}, f"changed{undone_by}", as_json, 0)


async def _read_text(ask: Ask, request: EditRequest) -> tuple[str, int]:
    """The current text, and the version of a document."""
    match request.what:
        case "entries":
            return (await ask(_show_entry, entry_id=request.id))["content"], 0
        case "thread":
            listed = (await ask(threads.list_threads, thread_id=request.id))["threads"]
            if not listed:
                raise NotFound(f"there is no conversation {request.id!r}; `layerlore show threads` lists them")
            return listed[0].get("title", ""), 0
    document = await ask(working_memory.get_working_memory, format="json", **_of_document(request))
    text = document["content"]
    if not isinstance(text, str):
        text = json.dumps(text, ensure_ascii=False, indent=2)
    return text, document["version"]


def _of_document(request: EditRequest) -> Json:
    if request.what == "profile":
        return {"scope": "resource"}
    return {"scope": "thread", "thread_id": request.id}


async def _write_text(ask: Ask, request: EditRequest, text: str, version: int) -> Json:
    answer: Json
    match request.what:
        # An empty text would leave an entry that shows nothing; forgetting also keeps its undo.
        case "entries" if not text:
            raise InvalidInput(f"an entry cannot be empty; `layerlore forget {request.id}` forgets it")
        case "entries":
            answer = await ask(_correct, entry_id=request.id, content=text)
        case "thread":
            answer = await ask(threads.update_thread, thread_id=request.id, title=text)
        case _ if not text:
            # With the version that was shown, a change by an agent in between is a conflict and not lost.
            answer = await ask(working_memory.clear_working_memory, expected_version=version, **_of_document(request))
        case _:
            answer = await ask(
                working_memory.update_working_memory,
                content=text,
                mode="replace",
                expected_version=version,
                **_of_document(request),
            )
    return answer


async def _correct(call: Call, entry_id: str, content: str) -> RememberedEntry:
    request = RememberRequest(content, replaces=entry_id, by_person=True)
    return await remember(call.engine, call.scope, "", request, sent=call.sent())


def _open_editor(text: str) -> str:
    """The text after a person has edited it. Raises InvalidInput if no editor exists or it fails."""
    editor = os.environ.get("VISUAL") or os.environ.get("EDITOR") or ("notepad" if os.name == "nt" else "vi")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "layerlore.md")
        file.write_text(text + "\n", encoding="utf-8")
        try:
            # The variable may hold arguments, such as "code --wait".
            subprocess.run([*shlex.split(editor), str(file)], check=True)  # noqa: S603 - what the person names
        except (OSError, subprocess.CalledProcessError) as error:
            raise InvalidInput(f"the editor {editor!r} failed ({error}); EDITOR names another, or use --text") from None
        return file.read_text(encoding="utf-8")


def _describe_difference(before: str, after: str) -> str:
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), "before", "after", lineterm="")
    return "\n".join(line for line in lines if not line.startswith("@@"))


def run_undo(settings: Settings, tenant: str, undo_id: str, *, force: bool, as_json: bool) -> int:
    """Undo an act (``last``: the newest), or without an id list those that can be undone. Returns the exit code.

    Raises NotFound, Conflict, InvalidInput, LimitExceeded, StorageUnavailable or DatabaseTooNew.
    """
    scope = scope_of(settings, tenant)
    answer = asyncio.run(_undo(settings, scope, undo_id, force))
    if as_json:
        print_json(answer)
    elif undo_id:
        _show_undone(answer)
    else:
        _list(scope, answer["acts"])
    return 0


async def _undo(settings: Settings, scope: Scope, undo_id: str, force: bool) -> Json:
    async with calling(settings, scope, off="nothing can be undone", absent="nothing was done") as ask:
        answer: Json = await ask(curation.undo, undo_id=undo_id, force=force)
        return answer


def _show_undone(answer: Json) -> None:
    if answer.get("already"):
        sys.stdout.write(f"{answer['undo_id']} ({answer['tool']}) is undone already\n")
        return
    counts = [
        f"{answer[name]} {one if answer[name] == 1 else many}"
        for name, (one, many) in _UNDONE.items()
        if name in answer
    ]
    if counts:
        back = f"back: {', '.join(counts)}"
    else:
        back = "it was so already"
    sys.stdout.write(f"undid {answer['undo_id']} ({answer['tool']}); {back}\n")
    if "undo" in answer:
        sys.stdout.write(f"`{suggest('undo', answer['undo'])}` undoes that\n")
    for why in answer.get("left", ()):
        sys.stdout.write(f"left as it is: {mask_controls(why)}\n")


def _list(scope: Scope, acts: list[Json]) -> None:
    if not acts:
        sys.stdout.write(f"nothing to undo for {describe_scope(scope)}\n")
        return
    rows = []
    for act in acts:
        at, until = local_time(act["at"])[: len("2024-03-15 09:30")], local_time(act["until"])[: len("2024-03-15")]
        rows.append([act["undo_id"], mask_controls(act["what"]), act["tool"], at, until])
    print_table(("id", "what", "by", "at", "until"), rows)
    sys.stdout.write(f"`{suggest('undo', 'ID')}` undoes one; `last` is the newest.\n")


_DryRun = Annotated[bool, typer.Option("--dry-run", help="Only show what would be changed.")]
_Yes = Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")]


def forget(
    flags: dict[str, Any],
    what: Annotated[
        list[str], typer.Argument(metavar="WHAT...", help="Ids of notes, or words: all about them.", show_default=False)
    ],
    dry_run: _DryRun = False,
    yes: _Yes = False,
    tenant: TenantOption = LOCAL_TENANT,
    as_json: AsJson = False,
) -> int:
    """Forget notes, or everything about something. It shows first what would go; undo brings it back."""
    return run_forget(read_settings(flags), tenant, what, Consent(dry_run, yes), as_json=as_json)


def edit(
    flags: dict[str, Any],
    what: Annotated[
        Literal["entries", "profile", "session", "thread"],
        typer.Argument(
            metavar="WHAT",
            help="entries, profile, session (a conversation's session memory) or thread (its title).",
            show_default=False,
        ),
    ],
    id_: Annotated[str, typer.Argument(metavar="ID", help="Of the note or the conversation; none for profile.")] = "",
    text: Annotated[
        str | None, typer.Option(help="The new text. Without it, an editor (EDITOR) opens.", show_default=False)
    ] = None,
    dry_run: _DryRun = False,
    yes: _Yes = False,
    tenant: TenantOption = LOCAL_TENANT,
    as_json: AsJson = False,
) -> int:
    """Correct what is remembered. It shows first what changes; undo brings back all but a title."""
    request = EditRequest(what, id_, text)
    return run_edit(read_settings(flags), tenant, request, Consent(dry_run, yes), as_json=as_json)


def undo(
    flags: dict[str, Any],
    undo_id: Annotated[
        str, typer.Argument(metavar="ID", help="What to undo; last is the newest. Without it, list what can be.")
    ] = "",
    force: Annotated[
        bool, typer.Option("--force", help="Bring a document's earlier version back over later changes.")
    ] = False,
    tenant: TenantOption = LOCAL_TENANT,
    as_json: AsJson = False,
) -> int:
    """Undo a deletion, a forgotten note, a replaced document or plan, or list what can be undone."""
    return run_undo(read_settings(flags), tenant, undo_id, force=force, as_json=as_json)
