"""What the server stores of what hooks handed over: what was deleted, lost or set aside, and what sub-agents said."""

import asyncio
import contextlib
import os
import re
import shutil
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Literal

import pytest

from layerlore.memory.documents import working_memory
from layerlore.memory.engine.engine import Engine, WriteRequest
from layerlore.memory.messages import reader, threads
from layerlore.memory.removal import deletion
from layerlore.memory.rules.ages import iso
from layerlore.server.access.credentials import LOCAL_TENANT
from layerlore.server.capture.hook_service import MOST_FAILURES, HookService
from layerlore.server.capture.hook_sessions import Sessions
from layerlore.server.capture.host_events import CurrentConversations
from layerlore.server.capture.host_lines import read_new
from layerlore.server.command_line.commands.erase import ErasureRequest, run_erase
from layerlore.server.relay.launch import hook_folder
from layerlore.server.relay.spool import hand_over, list_set_aside, list_waiting
from layerlore.server.runtime.engines import close_engine, open_engine
from layerlore.server.settings.settings import Settings
from layerlore.storage.core.errors import NotFound, StorageUnavailable
from layerlore.storage.core.records import Origin, Scope

from ..transcripts import claude, claude_call, claude_result

pytestmark = pytest.mark.anyio

SCOPE = Scope(LOCAL_TENANT, "default", "default")
ALL = reader.PageRequest(100, 0, None, None, reader.check_roles([]), "high", None, None, None)


class Store:
    """A memory, and the hooks of a folder that it stores."""

    def __init__(self, engine: Engine, settings: Settings, hooks: Path) -> None:
        self.engine = engine
        self.settings = settings
        self.hooks = str(hooks)
        self.transcript = hooks / "s.jsonl"
        self.service = HookService(engine, self.hooks, lambda handed: settings, CurrentConversations())

    def write(self, *lines: str, mode: str = "a") -> None:
        with self.transcript.open(mode, encoding="utf-8") as file:
            file.writelines(lines)

    async def hook(self, event: str = "Stop", **given: Any) -> None:
        told = {"session_id": "s", "transcript_path": str(self.transcript), **given}
        hand_over(self.hooks, {"host": "claude-code", "event": event, "given": told, "folder": self.hooks})
        await self.service.drain()

    async def shown(self, event: str, session: str, **given: Any) -> str:
        """What a model is shown at an event."""
        texts = [""]

        async def show(text: str) -> bool:
            texts.append(text)
            return True

        handed = {
            "host": "claude-code",
            "event": event,
            "given": {"session_id": session, **given},
            "folder": self.hooks,
        }
        await self.service.answer(hand_over(self.hooks, handed), show)
        return texts[-1]

    async def delete(self, id_: str, thread: str) -> None:
        sent = WriteRequest(Origin("test", "delete_messages", "local"))
        roles = reader.check_roles([])
        await deletion.delete_messages(self.engine, SCOPE, thread, "ids", ids=[id_], roles=roles, sent=sent)

    async def said(self, thread: str = "s") -> list[str]:
        try:
            page = await reader.get_messages(self.engine, SCOPE, thread, ALL)
        except NotFound:
            return []
        return [part.get("text") or part.get("result") for each in page["messages"] for part in each["parts"]]


@contextlib.asynccontextmanager
async def opened(folder: Path, hooks: Path, **settings: Any) -> AsyncIterator[Store]:
    given = Settings(data_dir=folder, embedding={"embedder": "none"}, **settings)  # type: ignore[arg-type]
    hooks.mkdir(exist_ok=True)
    folder.mkdir(exist_ok=True)
    engine = await open_engine(given)
    try:
        yield Store(engine, given, hooks)
    finally:
        await close_engine(engine)


async def test_what_was_deleted_stays_deleted_when_its_transcript_is_read_again(tmp_path: Path) -> None:
    async with opened(tmp_path / "data", tmp_path / "hooks") as store:
        store.write(*(claude(n, "user", f"Line {n}.") for n in (1, 2, 3)))
        await store.hook()
        await store.delete("line-2", "s")
        store.write(*(claude(n, "user", f"Line {n}.") for n in (1, 2, 3, 4)), mode="w")
        await store.hook()
        assert await store.said() == ["Line 1.", "Line 3.", "Line 4."]


async def test_a_forked_session_is_stored_without_what_it_inherits(tmp_path: Path) -> None:
    async with opened(tmp_path / "data", tmp_path / "hooks") as store:
        said = [
            claude(1, "user", "Which pears?"),
            claude_call(2, "c", "Bash", command="ls"),
            claude_result(3, "c", "2"),
        ]
        answer = claude(4, "assistant", [{"type": "text", "text": "Two ripe ones."}])
        store.write(*said, answer)
        await store.hook()
        await store.delete("line-1", "s")
        # Claude Code copies the lines with their ids and times, and puts the new session's id into each.
        fork = store.transcript.with_name("fork.jsonl")
        fork.write_text("".join([*said, answer]).replace('"any"', '"fork"') + claude(5, "user", "And plums?"), "utf-8")
        await store.hook(session_id="fork", transcript_path=str(fork))
        assert await store.said("fork") == ["And plums?"]
        asked = "Which ripe pears are there?"
        assert "Two ripe ones." in await store.shown("UserPromptSubmit", "other", prompt=asked)
        assert "Two ripe ones." not in await store.shown("UserPromptSubmit", "fork", prompt=asked)
        store.write(claude(6, "user", "Bring them."))
        await store.hook()
        assert (await store.said())[-2:] == ["Two ripe ones.", "Bring them."]


async def test_a_fork_of_a_session_that_was_never_stored_is_stored_whole(tmp_path: Path) -> None:
    async with opened(tmp_path / "data", tmp_path / "hooks") as store:
        store.write(claude(1, "user", "Which pears?"), claude(2, "user", "And plums?"))
        await store.hook("SessionStart", source="fork")
        await store.hook()
        assert await store.said() == ["Which pears?", "And plums?"]


async def test_calls_that_load_our_tools_are_left_out_and_those_that_load_others_stay(tmp_path: Path) -> None:
    def loaded(*names: str) -> list[dict[str, str]]:
        return [{"type": "tool_reference", "tool_name": name} for name in names]

    own, other = ("mcp__layerlore__recall_memory", "mcp__layerlore__remember"), "mcp__tracker__find_issue"
    async with opened(tmp_path / "data", tmp_path / "hooks") as store:
        store.write(
            claude_call(1, "by name", "ToolSearch", query=f"select:{','.join(own)}", max_results=5),
            claude_result(2, "by name", loaded(*own)),
            claude_call(3, "by word", "ToolSearch", query="recall memory"),
            claude_result(4, "by word", loaded(*own)),
            claude_call(5, "not there", "ToolSearch", query="+layerlore notes"),
            claude_result(6, "not there", "No matching deferred tools found"),
            claude_call(7, "other", "ToolSearch", query="issues"),
            claude_result(8, "other", loaded(other)),
            claude_call(9, "both", "ToolSearch", query=f"select:{own[0]},{other}"),
            claude_result(10, "both", loaded(own[0], other)),
            claude_call(13, "listed", "ListMcpResourcesTool", server="layerlore"),
            claude_result(14, "listed", '[{"uri":"memory://profile","server":"layerlore"}]'),
            claude_call(11, "shell", "Bash", command="grep -o recall_memory notes"),
            claude_result(12, "shell", "recall_memory"),
        )
        await store.hook()
        said = await store.said()
    assert [each for each in said if each is not None] == [other, f"{own[0]}\n{other}", "recall_memory"]
    assert len(said) == 6


async def test_a_conversation_that_was_deleted_goes_on_with_what_is_new(tmp_path: Path) -> None:
    async with opened(tmp_path / "data", tmp_path / "hooks") as store:
        for n in (1, 2):
            store.write(claude(n, "user", f"Line {n}."))
            await store.hook()
        await deletion.delete_thread(
            store.engine, SCOPE, "s", sent=WriteRequest(Origin("test", "delete_thread", "local"))
        )
        for n in (3, 4):
            store.write(claude(n, "user", f"Line {n}."))
            await store.hook()
        assert await store.said() == ["Line 3.", "Line 4."]


async def test_a_transcript_is_read_again_where_an_older_store_was_put_back(tmp_path: Path) -> None:
    data, older = tmp_path / "data", tmp_path / "older"
    for n in (1, 2, 3):
        async with opened(data, tmp_path / "hooks") as store:
            store.write(claude(n, "user", f"Line {n}."))
            await store.hook()
        if n == 1:
            shutil.copytree(data, older)
    shutil.rmtree(data)
    older.rename(data)
    async with opened(data, tmp_path / "hooks") as store:
        await store.hook()
        assert await store.said() == ["Line 1.", "Line 2.", "Line 3."]


async def test_what_is_shown_keeps_to_its_tokens_and_says_no_line_twice(tmp_path: Path) -> None:
    rules = {"tokens": 300, "session_tokens": 900}
    async with opened(tmp_path / "data", tmp_path / "hooks", capture=rules) as store:
        facts = [
            f"The {what} of house {n} is painted in colour {n * 7}." for n in range(30) for what in ("door", "roof")
        ]
        store.write(*(claude(n, "user", fact) for n, fact in enumerate(facts)))
        await store.hook()
        profile = "\n".join(
            f"- Fact {n}: the user owns house {n}, which has {n + 3} windows and a red gate." for n in range(40)
        )
        sent = WriteRequest(Origin("test", "update_working_memory", "local"))
        await working_memory.update_document(
            store.engine, SCOPE, "resource", "", profile, mode="replace", expected_version=None, sent=sent
        )
        shown = [await store.shown("SessionStart", "other", source="startup")]
        for n in range(12):
            shown.append(
                await store.shown("UserPromptSubmit", "other", prompt=f"Which colour has the door of house {n}?")
            )
        tokens = [store.engine.tokens.text(text) for text in shown]
        assert max(tokens) <= 300
        assert 600 < sum(tokens) <= 900
        assert "Fact 0: the user" in shown[0]
        assert "The door of house 0 is" in shown[1]
        told = [line for text in shown for line in text.split("\n") if line.startswith(("- ", "#"))]
        assert len(told) == len(set(told)) > 15
        (counted,) = store.engine.counts.list_pending(SCOPE)
        assert (counted.source, counted.name) == ("hook", "claude-code")
        assert (counted.messages, counted.calls, counted.tokens) == (60, len(list(filter(None, shown))), sum(tokens))


async def test_a_line_of_session_memory_that_the_user_denies_is_marked_and_the_users_words_are_not_repeated(
    tmp_path: Path,
) -> None:
    async with opened(tmp_path / "data", tmp_path / "hooks") as store:
        sent = WriteRequest(Origin("test", "update_working_memory", "local"))
        await working_memory.update_document(
            store.engine, SCOPE, "thread", "s", "Launch: 1 December", mode=None, expected_version=None, sent=sent
        )
        later = iso(store.engine.now() + 1)
        for number, said in enumerate(["No, 8 December, not 1 December.", "No, invoice only."]):
            store.write(
                claude(2 * number, "user", said, timestamp=later),
                claude(2 * number + 1, "assistant", "I see.", timestamp=later),
            )
        await store.hook()
        shown = await store.shown("UserPromptSubmit", "s", prompt="What comes next?")
        assert re.search(r"^Launch: 1 December \(newer, \S+: No, 8 December, not 1 December\.\)$", shown, re.MULTILINE)
        assert "invoice" not in shown


async def test_sub_agents_are_kept_where_that_is_wanted(tmp_path: Path) -> None:
    async with opened(tmp_path / "data", tmp_path / "hooks", capture={"subagents": True}) as store:
        beside = store.transcript.with_suffix("") / "subagents" / "agent-1.jsonl"
        beside.parent.mkdir(parents=True)
        beside.write_text(claude(9, "assistant", [{"type": "text", "text": "I looked."}], isSidechain=True))
        store.write(claude(1, "user", "Look."), claude(2, "assistant", "A side line.", isSidechain=True))
        await store.hook()
        assert await store.said() == ["Look.", "A side line."]
        assert await store.said("s-agent-1") == ["I looked."]


async def test_long_texts_lose_their_middle_and_what_cannot_be_stored_keeps_nothing_else_out(tmp_path: Path) -> None:
    async with opened(tmp_path / "data", tmp_path / "hooks", capture={"tool_chars": 200}) as store:
        store.write(
            claude_call(1, "t1", "Write", content="x" * 5_000),
            claude_result(2, "t1", "begin " + "y" * 5_000 + " end"),
            claude(3, "user", "Before.", timestamp="yesterday"),
            claude_call(4, "", "no id"),
            claude(5, "user", "After \x00 all \ud800."),
            claude(6, "user", "z" * 200_000),
        )
        await store.hook()
        texts = [text for text in await store.said() if text]
        assert len(texts[0]) == 200
        assert texts[0].startswith("begin ")
        assert texts[0].endswith(" end")
        assert texts[1:3] == ["Before.", "After  all ?."]
        assert len(texts[3]) == 60_000


async def test_events_wait_for_a_database_and_are_set_aside_after_a_defect(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(tmp_path / "data", tmp_path / "hooks") as store:
        store.write(claude(1, "user", "Line 1."))

        async def fail(*_: Any, **__: Any) -> Any:
            raise error

        error: Exception = StorageUnavailable("down")
        with monkeypatch.context() as patch:
            patch.setattr("layerlore.memory.messages.addition.add_messages", fail)
            for _ in range(MOST_FAILURES + 1):
                await store.service.drain() if list_waiting(store.hooks) else await store.hook()
            assert len(list_waiting(store.hooks)) == 1
            error = ZeroDivisionError()
            for _ in range(MOST_FAILURES):
                await store.service.drain()
            assert (list_waiting(store.hooks), len(list_set_aside(store.hooks))) == ([], 1)
        await store.hook()
        assert await store.said() == ["Line 1."]
        (known,) = Sessions(store.hooks).list_all()
        assert (known.messages, known.last_seq) == (1, 1)


async def test_a_prompt_that_was_cut_in_a_character_is_answered_and_its_session_goes_on(tmp_path: Path) -> None:
    async with opened(tmp_path / "data", tmp_path / "hooks") as store:
        store.write(claude(1, "user", "My gate code is 4711."))
        await store.hook()
        assert "4711" in await store.shown("UserPromptSubmit", "other \ud83d", prompt="What is my gate code? \ud83d")
        await store.service.drain()
        assert list_set_aside(store.hooks) == []


async def test_an_event_that_cannot_be_stored_is_set_aside_with_its_secrets_masked(tmp_path: Path) -> None:
    secret = "ghp_" + "a1B2c3D4e5F6" * 3
    async with opened(tmp_path / "data", tmp_path / "hooks") as store:
        for number, text in enumerate(('{"prompt": "%s"', '["%s"]', "[" * 100_000 + "%s")):
            name = hand_over(store.hooks, {})
            (Path(store.hooks) / "spool" / name).write_text(text % secret, encoding="utf-8")
            await store.service.drain()
            assert (list_waiting(store.hooks), len(list_set_aside(store.hooks))) == ([], number + 1)
    assert not find_word(tmp_path / "hooks", secret)


async def test_an_erasure_leaves_no_word_of_it_in_the_data_folder_and_the_session_goes_on(
    tmp_path: Path,
) -> None:
    data = tmp_path / "data"
    hooks = Path(hook_folder(str(data), ""))
    hooks.mkdir(parents=True)
    word, resource = "quokkaword", "ana-quokkaword"
    transcript = tmp_path / f"{word}.jsonl"
    request = ErasureRequest(LOCAL_TENANT, resource, None, "")
    async with opened(data, hooks, resource=resource) as store:
        store.transcript = transcript
        store.write(claude(1, "user", f"My word is {word}."))
        await store.hook()
        name = hand_over(store.hooks, {"prompt": word})
        (hooks / "spool" / name).write_text(f'["{word}"]', encoding="utf-8")
        await store.service.drain()
        settings = store.settings
    (data / "local").mkdir()
    (data / "local" / "base-1.answers").write_text(word, encoding="utf-8")
    assert find_word(data, word)
    assert await asyncio.to_thread(lambda: run_erase(settings, request, dry_run=False, sure=True, as_json=True)) == 0
    assert find_word(data, word) == []
    async with opened(data, hooks, resource=resource) as store:
        store.transcript = transcript
        store.write(claude(2, "user", "Something new."))
        await store.hook()
        page = await reader.get_messages(store.engine, Scope(LOCAL_TENANT, "default", resource), "s", ALL)
        assert [part["text"] for each in page["messages"] for part in each["parts"]] == ["Something new."]


async def test_a_server_that_runs_meanwhile_does_not_write_down_again_what_was_erased(tmp_path: Path) -> None:
    data = tmp_path / "data"
    hooks = Path(hook_folder(str(data), ""))
    hooks.mkdir(parents=True)
    word = "quokkaword"
    request = ErasureRequest(LOCAL_TENANT, "default", None, "")
    async with opened(data, hooks) as store:
        store.transcript = tmp_path / "s.jsonl"
        store.write(claude(1, "user", f"My word is {word}."))
        await store.hook()
        assert word in await store.shown("UserPromptSubmit", "other", prompt=f"What is my {word}?")
        await store.service.drain()
        before = {each.session: each for each in Sessions(store.hooks).list_all()}
        assert (before["s"].messages, before["other"].shown) == (1, 1)
        settings = store.settings
        assert (
            await asyncio.to_thread(lambda: run_erase(settings, request, dry_run=False, sure=True, as_json=True)) == 0
        )
        store.write(claude(2, "user", "Something new."))
        await store.hook()
        assert await store.said() == ["Something new."]
        (after,) = [each for each in Sessions(store.hooks).list_all() if each.session == "s"]
        assert (after.messages, len(after.events["claude-code"])) == (1, 1)
        assert sum(count for count, _ in after.events["claude-code"].values()) == 1
        assert not any(each.shown for each in Sessions(store.hooks).list_all())


def find_word(folder: Path, word: str) -> list[Path]:
    """The files that have the word in their bytes."""
    return [each for each in folder.rglob("*") if each.is_file() and word.encode() in each.read_bytes()]


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such modes")
def test_all_folders_that_an_event_is_the_first_to_need_are_for_their_owner_alone(tmp_path: Path) -> None:
    hooks = tmp_path / "data" / "hooks" / "memory"
    hand_over(str(hooks), {})
    assert [each.stat().st_mode & 0o777 for each in (hooks / "spool", hooks, *hooks.parents[:2])] == [0o700] * 4


@pytest.mark.parametrize(("mode", "shown"), [("off", False), ("read-only", True)])
async def test_hooks_of_an_agent_whose_memory_is_closed_store_nothing(
    tmp_path: Path, mode: Literal["off", "read-only"], shown: bool
) -> None:
    folder, hooks = tmp_path / "data", tmp_path / "hooks"
    async with opened(folder, hooks) as store:
        store.write(claude(1, "user", "The deploy needs the staging key."))
        await store.hook()
        assert await store.said() == ["The deploy needs the staging key."]
    async with opened(folder, hooks, agents={"default": {"memory": mode}}) as store:
        store.write(claude(2, "user", "And a review."))
        await store.hook()
        assert await store.said() == ["The deploy needs the staging key."]
        text = await store.shown("UserPromptSubmit", "other", prompt="Which key does the deploy need?")
        assert ("staging key" in text) == shown


async def test_a_session_with_a_subject_is_shown_nothing_of_another(tmp_path: Path) -> None:
    async with opened(tmp_path / "data", tmp_path / "hooks") as store:
        store.write(claude(1, "user", "The customer's phone number is 0664 1234567."))
        await store.hook()
        sent = WriteRequest(Origin("test", "update_thread", "local"))
        prompt = "What is the customer's phone number?"
        assert "0664" in await store.shown("UserPromptSubmit", "s-2", prompt=prompt)
        for thread, subject in (("s", "1001"), ("s-3", "1004"), ("s-4", "1001")):
            named = {"subject": subject}
            await threads.update_thread(store.engine, SCOPE, thread, title=None, metadata=named, sent=sent)
        assert "0664" not in await store.shown("UserPromptSubmit", "s-3", prompt=prompt)
        assert "0664" in await store.shown("UserPromptSubmit", "s-4", prompt=prompt)


async def test_an_event_that_hangs_twice_is_set_aside_and_keeps_no_other_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a drive that does not answer: the thread that reads it never comes back."""
    monkeypatch.setattr("layerlore.server.capture.hook_service.EVENT_SECONDS", 2.0)

    def hang(path: str, *rest: Any, **more: Any) -> Any:
        return never.wait() if path.endswith("stuck.jsonl") else read_new(path, *rest, **more)

    never = threading.Event()
    monkeypatch.setattr("layerlore.server.capture.event_capture.read_new", hang)
    async with opened(tmp_path / "data", tmp_path / "hooks") as store:
        store.write(claude(1, "user", "Line 1."))
        (tmp_path / "stuck.jsonl").write_text(claude(1, "user", "Never read."))
        await store.hook(session_id="stuck", transcript_path=str(tmp_path / "stuck.jsonl"))
        assert len(list_waiting(store.hooks)) == 1
        await store.hook()
        assert await store.said() == ["Line 1."]
        assert (list_waiting(store.hooks), len(list_set_aside(store.hooks))) == ([], 1)
    never.set()


HUGE_RULES = {
    "one pattern of stars": "*a" * 32_000 + "b\n",
    "many patterns of stars": ("*a" * 100 + "b\n") * 300,
    "folders at any depth": "**/a*" * 12_000 + "\n",
    "too many lines": "never\n" * 2_001,
    "too many bytes": "never\n" + "#" * 65_536,
}


@pytest.mark.parametrize("rules", HUGE_RULES)
async def test_rules_that_are_too_complex_leave_out_everything_at_once(tmp_path: Path, rules: str) -> None:
    async with opened(tmp_path / "data", tmp_path / "hooks") as store:
        (Path(store.hooks) / ".layerloreignore").write_text(HUGE_RULES[rules])
        store.write(claude(1, "user", "Line 1."), claude_call(2, "t1", "Read", file_path="a" * 4_000))
        await store.hook()
        assert await store.said() == []
        assert (list_waiting(store.hooks), list_set_aside(store.hooks)) == ([], [])
