"""``layerlore import`` of what other programs keep, in the shapes in which they write it."""

import contextlib
import functools
import json
import os
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from layerlore.storage.drivers.sqlite import driver

from ..transcripts import claude, claude_call, claude_result, codex, spoken

Cli = Callable[..., tuple[int, str, str]]


@pytest.fixture
def kept(cli: Cli, tmp_path: Path) -> Cli:
    """The command line, on the memory of a folder."""
    return functools.partial(cli, f"--data-dir={tmp_path / 'memory'}")


def bring(kept: Cli, file: Path, *options: str) -> Any:
    code, out, err = kept("import", str(file), "--json", *options)
    assert code == 0, err
    return json.loads(out)


def stored(kept: Cli, *options: str) -> list[Any]:
    """The records of an export, but for its logs."""
    code, out, err = kept("export", "-", *options)
    assert code == 0, err
    return [json.loads(line) for line in out.splitlines()]


def told(kept: Cli, thread: str) -> list[tuple[str, Any]]:
    """Who said what in a thread: of a call its arguments, of a result what it is."""
    found = [each for each in stored(kept) if each["record"] == "message" and each["thread"] == thread]
    names = ("text", "arguments", "result")
    return [
        (each["role"], next(part[name] for name in names if name in part)) for each in found for part in each["parts"]
    ]


def entries(kept: Cli, *options: str) -> list[str]:
    return [each["content"] for each in stored(kept, *options) if each["record"] == "entry"]


def thread_of(kept: Cli, thread: str) -> Any:
    return next(each for each in stored(kept) if each["record"] == "thread" and each["thread"] == thread)


def node(id_: str, parent: str | None, children: list[str], **message: Any) -> tuple[str, Any]:
    """A node of ChatGPT's tree."""
    said = {"id": id_, "author": {"role": "user"}, "weight": 1.0, "recipient": "all", "metadata": {}, **message}
    return id_, {"id": id_, "parent": parent, "children": children, "message": said if message else None}


def text(*parts: Any) -> Any:
    return {"content_type": "text", "parts": list(parts)}


def chatgpt() -> list[Any]:
    """A conversation with an answer that was generated again, a call of a tool, an image, and what nobody sees."""
    of_model, of_tool = {"role": "assistant"}, {"role": "tool", "name": "python"}
    picture = {"content_type": "image_asset_pointer", "asset_pointer": "file-service://file-1", "width": 1}
    return [
        {
            "title": "Pears",
            "conversation_id": "c1",
            "create_time": 1699564800.5,
            "update_time": 1699568400.0,
            "current_node": "again",
            "default_model_slug": "gpt-4o",
            "mapping": dict(
                [
                    node("root", None, ["hidden"]),
                    node("hidden", "root", ["ask"], author={"role": "system"}, content=text(""), weight=0),
                    node("ask", "hidden", ["old", "call"], content={**text("How ripe?", picture), "content_type": "multimodal_text"}, create_time=1699564801.0),
                    node("old", "ask", [], author=of_model, content=text("Not at all."), create_time=1699564802.0),
                    node("call", "ask", ["result"], author=of_model, recipient="python", content={"content_type": "code", "language": "unknown", "text": "ripe()"}, create_time=1699564803.0),
                    node("result", "call", ["again"], author=of_tool, content={"content_type": "execution_output", "text": "80 %"}, create_time=None),
                    node("again", "result", [], author=of_model, content=text("80 % ripe."), create_time=1699564805.0),
                ]
            ),
        },
        {"id": "c2", "title": None, "mapping": dict([node("a", None, [], content=text("Plums?"))]), "current_node": "gone"},
    ]  # fmt: skip


def test_of_chatgpts_export_the_branch_shown_last_is_stored_with_its_times(kept: Cli, tmp_path: Path) -> None:
    archive = tmp_path / "export.zip"
    with zipfile.ZipFile(archive, "w") as out:
        out.writestr("conversations.json", json.dumps(chatgpt()))
        out.writestr("user.json", "{}")
    dry = bring(kept, archive, "--dry-run")
    assert (dry["from"], dry["counts"]["message"]) == ("chatgpt", {"added": 5})
    assert bring(kept, archive)["counts"] == {"message": {"added": 5}, "thread": {"added": 2}}
    assert told(kept, "chatgpt-c1") == [
        ("user", "How ripe?"),
        ("user", "[image]"),
        ("assistant", {"input": "```\nripe()\n```"}),
        ("tool", "80 %"),
        ("assistant", "80 % ripe."),
    ]
    thread = thread_of(kept, "chatgpt-c1")
    assert (thread["title"], thread["metadata"]) == ("Pears", {"source": "chatgpt", "model": "gpt-4o"})
    assert (thread["created_at"], thread["updated_at"]) == (1699564801000, 1699564805000)
    assert bring(kept, archive)["counts"] == {"message": {"unchanged": 5}, "thread": {"unchanged": 2}}


def one_message(said: str, **named: Any) -> Any:
    """A conversation of ChatGPT with one message, under the same id in each."""
    return {"mapping": dict([node("a", None, [], content=text(said))]), "current_node": "a", **named}


def one_of_claude(said: str, **named: Any) -> Any:
    return {"chat_messages": [{"sender": "human", "text": said}], **named}


@pytest.mark.parametrize(("made", "source"), [(one_message, "chatgpt"), (one_of_claude, "claude")])
def test_an_unpacked_export_is_imported_like_its_archive(
    kept: Cli, tmp_path: Path, made: Callable[..., Any], source: str
) -> None:
    folder = tmp_path / "export"
    (folder / "conversations-007.json").mkdir(parents=True)
    for number, said in enumerate(("How ripe?", "And plums?")):
        file = folder / f"conversations-00{number}.json"
        file.write_text(json.dumps([made(said, id=f"c{number}", uuid=f"c{number}")]), "utf-8")
    (folder / "conversations-002.json").write_text('[{"cut', "utf-8")
    (folder / "conversations-003.json").symlink_to(folder / "gone.json")
    (folder / "users.json").write_text("[]", "utf-8")
    found = bring(kept, folder)
    assert (found["from"], found["counts"]["message"]) == (source, {"added": 2})
    assert [each["where"] for each in found["skipped"]] == [
        str(folder / "conversations-002.json"),
        str(folder / "conversations-003.json"),
    ]
    assert "leads nowhere" in found["skipped"][1]["why"]
    assert told(kept, f"{source}-c1") == [("user", "And plums?")]
    assert bring(kept, folder, "--from", source)["counts"]["message"] == {"unchanged": 2}


@pytest.mark.parametrize("made", [one_message, one_of_claude])
def test_conversations_without_ids_stay_apart(kept: Cli, tmp_path: Path, made: Callable[..., Any]) -> None:
    file = tmp_path / "conversations.json"
    file.write_text(json.dumps([made("How ripe?"), made("And plums?")]), "utf-8")
    assert bring(kept, file)["counts"] == {"message": {"added": 2}, "thread": {"added": 2}}
    assert bring(kept, file)["counts"] == {"message": {"unchanged": 2}, "thread": {"unchanged": 2}}


def test_items_that_cannot_be_read_are_counted_and_named(kept: Cli, tmp_path: Path) -> None:
    file = tmp_path / "conversations.json"
    talk = one_of_claude("How ripe?", uuid="t1")
    talk["chat_messages"].append("lost")
    bad_id = one_message("And plums?", id="a\nb", title="Plums")
    file.write_text(json.dumps([7, talk, None, {"tea": 1}, bad_id]), "utf-8")
    found = bring(kept, file)
    assert found["counts"]["message"] == {"added": 1}
    # Neighbours with one reason are one entry: here item 1, a message of item 2, and item 3.
    assert [(each["where"], each["why"].partition(":")[0], each["count"]) for each in found["skipped"]] == [
        ("item 1", "it is no object", 3),
        ("item 4", "it is no conversation", 1),
        ("Plums", "its id", 1),
    ]


def test_of_claudes_export_the_branch_written_last_is_stored_with_calls_and_attachments(
    kept: Cli, tmp_path: Path
) -> None:
    def said(uuid: str, parent: str, sender: str, minute: int, *content: Any, **more: Any) -> Any:
        at = f"2025-03-01T10:{minute:02}:00.000000Z"
        texts = "".join(each.get("text", "") for each in content)
        more = {"attachments": [], "files": [], **more}
        return {"uuid": uuid, "parent_message_uuid": parent, "sender": sender, "created_at": at, "text": texts, "content": [*content], **more}  # fmt: skip

    root = "00000000-0000-4000-8000-000000000000"
    attached = {"file_name": "list.txt", "file_size": 5, "file_type": "txt", "extracted_content": "pears"}
    call = {"type": "tool_use", "name": "web_search", "input": {"query": "pears"}}
    result = {"type": "tool_result", "name": "web_search", "content": [{"type": "text", "text": "in season"}]}
    talk = {
        "uuid": "t1",
        "name": "Fruit",
        "created_at": "2025-03-01T10:00:00.000000Z",
        "updated_at": "2025-03-01T10:09:00.000000Z",
        "account": {"uuid": "me"},
        "chat_messages": [
            said("m1", root, "human", 1, {"type": "text", "text": "What is on it?"}, attachments=[attached]),
            said("m2", "m1", "assistant", 2, {"type": "text", "text": "Nothing."}),
            said("m3", "m1", "assistant", 3, {"type": "thinking", "thinking": "hm"}, call, result, {"type": "text", "text": "Pears."}),
            said("m4", "m3", "human", 4, {"type": "text", "text": ""}),
        ],
    }  # fmt: skip
    file = tmp_path / "conversations.json"
    file.write_text(json.dumps([talk]), "utf-8")
    assert bring(kept, file)["counts"]["message"] == {"added": 2}
    assert told(kept, "claude-t1") == [
        ("user", "What is on it?"),
        ("user", "list.txt:\npears"),
        ("assistant", {"query": "pears"}),
        ("assistant", "in season"),
        ("assistant", "Pears."),
    ]
    assert thread_of(kept, "claude-t1")["title"] == "Fruit"


def test_transcripts_are_stored_under_the_ids_that_capture_gives_them(kept: Cli, tmp_path: Path) -> None:
    folder = tmp_path / "projects" / "-home-me"
    folder.mkdir(parents=True)
    (folder / "s1.jsonl").write_text(
        claude(1, "user", "list it", sessionId="s1")
        + claude_call(2, "c1", "Bash", command="ls")
        + claude_result(3, "c1", "pears.txt")
        + claude(4, "assistant", [{"type": "text", "text": "one file"}]),
        "utf-8",
    )
    meta = {
        "timestamp": "2026-11-20T10:00:00.000Z",
        "type": "session_meta",
        "payload": {"id": "u-1", "cwd": "/home/me"},
    }
    rollout = tmp_path / "rollout-2026-11-20-u-1.jsonl"
    rollout.write_text(json.dumps(meta) + "\n" + codex("message", 1, **spoken("user", "and plums?")), "utf-8")
    assert bring(kept, tmp_path / "projects")["counts"]["message"] == {"added": 4}
    assert told(kept, "s1") == [
        ("user", "list it"),
        ("assistant", {"command": "ls"}),
        ("tool", "pears.txt"),
        ("assistant", "one file"),
    ]
    assert [each["id"] for each in stored(kept) if each["record"] == "message"] == [f"line-{n}" for n in (1, 2, 3, 4)]
    assert bring(kept, rollout)["from"] == "codex"
    assert told(kept, "u-1") == [("user", "and plums?")]
    assert bring(kept, tmp_path)["counts"]["message"] == {"unchanged": 5}


def test_sessions_that_were_forked_are_stored_without_what_they_inherit(kept: Cli, tmp_path: Path) -> None:
    folder = tmp_path / "projects"
    folder.mkdir()
    shared = [claude(1, "user", "Which pears?"), claude(2, "assistant", [{"type": "text", "text": "The ripe ones."}])]
    files = {"z-first": [*shared, claude(3, "user", "Thanks.")], "a-fork": [*shared, claude(4, "user", "And plums?")]}
    for age, (name, lines) in enumerate(files.items()):
        (folder / f"{name}.jsonl").write_text("".join(lines).replace('"any"', f'"{name}"'), "utf-8")
        os.utime(folder / f"{name}.jsonl", (1_700_000_000 + age, 1_700_000_000 + age))
    assert bring(kept, folder, "--dry-run")["counts"]["message"] == {"added": 4, "unchanged": 2}
    assert bring(kept, folder)["counts"]["message"] == {"added": 4, "unchanged": 2}
    assert told(kept, "a-fork") == [("user", "And plums?")]
    assert len(told(kept, "z-first")) == 3
    assert bring(kept, folder)["counts"]["message"] == {"unchanged": 6}


def test_every_line_of_server_memory_that_cannot_be_read_is_counted(kept: Cli, tmp_path: Path) -> None:
    graph = tmp_path / "memory.jsonl"
    lines = [
        {"type": "entity", "name": "Ana", "entityType": "person", "observations": ["likes pears", 7]},
        {"type": "entity", "entityType": "person", "observations": ["is nobody"]},
        {"type": "entity", "name": "Ben", "observations": "likes plums"},
        {"type": "relation", "from": "Ana", "to": "Acme"},
        ["entity"],
    ]
    graph.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    found = bring(kept, graph)
    assert found["counts"] == {"entry": {"added": 1}, "unread": {"skipped": 5}}
    assert [each["where"] for each in found["skipped"]] == [f"line {number}" for number in range(1, 6)]


def test_of_mem0_nothing_is_stored_where_several_people_would_be_mixed(kept: Cli, tmp_path: Path) -> None:
    file = tmp_path / "mem0.json"
    memories = [{"memory": "Ben likes nuts", "user_id": "ben"}, {"memory": "Cy likes tea", "user_id": 7}, 7]
    file.write_text(json.dumps(memories), "utf-8")
    code, _, err = kept("import", str(file))
    assert code == 1
    assert "memories of 2 people ('7', 'ben'): --everyone" in err
    assert entries(kept) == []
    found = bring(kept, file, "--everyone")
    assert (found["counts"]["entry"], found["skipped"][0]["where"]) == ({"added": 2}, "memory 3")
    assert entries(kept, "--resource=7") == ["Cy likes tea"]


def test_server_memorys_graph_and_mem0s_memories_become_entries(kept: Cli, tmp_path: Path) -> None:
    graph = tmp_path / "memory.jsonl"
    lines = [
        {"type": "entity", "name": "Ana", "entityType": "person", "observations": ["likes pears", "x " * 1500]},
        {"type": "relation", "from": "Ana", "to": "Acme", "relationType": "works_at"},
        {"type": "dream"},
    ]
    graph.write_text("".join(json.dumps(line) + "\n" for line in lines) + "no JSON\n", "utf-8")
    found = bring(kept, graph)
    assert (found["from"], found["counts"]["entry"]) == ("server-memory", {"added": 4})
    assert [each["where"] for each in found["skipped"]] == ["line 3"]
    assert found["skipped"][0]["count"] == 2
    assert {"Ana (person): likes pears", "Ana works_at Acme"} < set(entries(kept))
    assert bring(kept, graph)["counts"]["entry"] == {"unchanged": 4}

    memories = tmp_path / "mem0.json"
    memory = {"id": "1", "memory": "Ben is allergic to nuts", "hash": "h", "metadata": None, "user_id": "ben"}
    other = {**memory, "memory": "Key: ghp_" + "a1B2" * 9, "user_id": "cy"}
    times = {"created_at": "2024-07-26T08:29:36.751915-07:00", "updated_at": None}
    ends = {"expiration_date": "2100-01-01"}
    memories.write_text(
        json.dumps({"results": [{**memory, **times, **ends}, {**other, **times}], "relations": []}), "utf-8"
    )
    code, _, err = kept("import", str(memories))
    assert code == 1
    assert "--everyone" in err
    found = bring(kept, memories, "--everyone")
    assert (found["counts"]["entry"], found["masked"]) == ({"added": 2}, 1)
    of_ben = [each for each in stored(kept, "--resource=ben") if each["record"] == "entry"]
    assert [(each["content"], each["seen_at"], each["origin"], each["expires_at"]) for each in of_ben] == [
        ("Ben is allergic to nuts", 1722007776751, "caller", 4102531200000)
    ]


NOTE = """---
title: Coffee Brewing
type: note
permalink: coffee/brewing
created: 2024-05-01
---
# Coffee Brewing

Notes from the course.

## Observations
- [method] Pour over is clearer #brewing (tasted)
- [ ] buy filters
- [a link](https://example.org)

## Relations
- requires [[Grinder]] (burr)
- [[Tea]]
"""


def test_basic_memorys_notes_become_entries_and_their_prose_a_conversation(kept: Cli, tmp_path: Path) -> None:
    folder = tmp_path / "notes"
    (folder / ".obsidian").mkdir(parents=True)
    (folder / "tea.md").mkdir()
    (folder / "tea.md" / "mint.md").write_text("- [taste] Fresh", "utf-8")
    (folder / "gone.md").symlink_to("nowhere.md")
    (folder / ".obsidian" / "x.md").write_text("- [a] b", "utf-8")
    (folder / "coffee.md").write_text(NOTE, "utf-8")
    found = bring(kept, folder)
    assert found["counts"] == {
        "message": {"added": 1},
        "thread": {"added": 1},
        "entry": {"added": 4},
        "unread": {"skipped": 1},
    }
    assert found["skipped"][0]["why"] == "it is a link that leads nowhere"
    assert set(entries(kept)) == {
        "mint: Fresh [taste]",
        "Coffee Brewing: Pour over is clearer #brewing (tasted) [method]",
        "Coffee Brewing requires Grinder (burr)",
        "Coffee Brewing relates to Tea",
    }
    ((role, prose),) = told(kept, "basic-memory-coffee/brewing")
    assert role == "assistant"
    assert "Notes from the course." in prose
    assert "buy filters" in prose
    assert "Pour over" not in prose
    assert thread_of(kept, "basic-memory-coffee/brewing")["created_at"] == 1714521600000


CLAUDE_MEM = """CREATE TABLE sdk_sessions (id INTEGER PRIMARY KEY, content_session_id TEXT, memory_session_id TEXT,
    project TEXT, user_prompt TEXT, started_at_epoch INTEGER, custom_title TEXT);
CREATE TABLE user_prompts (id INTEGER PRIMARY KEY, content_session_id TEXT, prompt_number INTEGER,
    prompt_text TEXT, created_at_epoch INTEGER);
CREATE TABLE observations (id INTEGER PRIMARY KEY, memory_session_id TEXT, project TEXT, text TEXT, type TEXT,
    title TEXT, subtitle TEXT, facts TEXT, narrative TEXT, concepts TEXT, files_read TEXT,
    files_modified TEXT, created_at_epoch INTEGER);
CREATE TABLE session_summaries (id INTEGER PRIMARY KEY, memory_session_id TEXT, request TEXT,
    investigated TEXT, learned TEXT, completed TEXT, next_steps TEXT, notes TEXT, created_at_epoch INTEGER);
INSERT INTO sdk_sessions VALUES (1, 's1', 'm1', 'shop', 'fix the cart', 1759999000000, NULL);
INSERT INTO user_prompts VALUES (1, 's1', 1, 'fix the cart', 1759999000000);
INSERT INTO observations VALUES (1, 'm1', 'shop', NULL, 'bugfix', 'Cart', 'sums', '["tax was added twice"]',
    'The sum was wrong.', '[]', '["cart.py"]', '[]', 1759999001000);
INSERT INTO session_summaries VALUES (1, 'm1', 'fix', NULL, 'taxes', 'done', NULL, NULL, 1759999002000)
"""


def test_claude_mems_sessions_become_conversations(kept: Cli, tmp_path: Path) -> None:
    file = tmp_path / "claude-mem.db"
    made = driver.connect(str(file), synchronous="OFF")
    for statement in CLAUDE_MEM.split(";\n"):
        made.execute(statement)
    made.close()
    assert bring(kept, file)["from"] == "claude-mem"
    assert told(kept, "claude-mem-s1") == [
        ("user", "fix the cart"),
        ("assistant", "Cart: sums\nThe sum was wrong.\n- tax was added twice"),
        ("assistant", "request: fix\nlearned: taxes\ncompleted: done"),
    ]
    assert bring(kept, file)["counts"]["message"] == {"unchanged": 3}


def test_a_text_too_long_for_one_message_becomes_several_and_what_is_unknown_is_said(kept: Cli, tmp_path: Path) -> None:
    file = tmp_path / "conversations.json"
    (talk, _) = chatgpt()
    talk["mapping"]["again"]["message"]["content"] = text("pear " * 60_000)
    file.write_text(json.dumps([talk, {"tea": 1}])[:-1], "utf-8")
    code, _, err = kept("import", str(file))
    assert code == 1
    assert "conversations.json is no JSON, or cut off" in err
    whole = "".join(said for role, said in told(kept, "chatgpt-c1")[4:])
    assert whole == ("pear " * 60_000).strip()
    odd = tmp_path / "odd.json"
    odd.write_text('{"tea": 1}', "utf-8")
    code, _, err = kept("import", str(odd))
    assert (code, "is in no format that is known; --from names one: layerlore, shared, chatgpt, " in err) == (1, True)


def test_a_long_name_before_short_entries_is_cut_and_the_note_ends(
    kept: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAYERLORE_ENTRIES__MAX_ENTRY_LENGTH", "40")
    graph = tmp_path / "memory.jsonl"
    entity = {"type": "entity", "name": "Ana " * 30, "entityType": "person", "observations": ["likes pears and plums"]}
    graph.write_text(json.dumps(entity) + "\n", "utf-8")
    assert bring(kept, graph)["counts"]["entry"] == {"added": 2}
    found = entries(kept)
    assert all(len(each) <= 40 for each in found)
    assert sorted(each.partition(": ")[2] for each in found) == ["likes pears and", "plums"]


@pytest.mark.parametrize("odd", [["m1"], {"m1": 1}, 7])
def test_ids_that_are_no_text_keep_no_conversation_out(kept: Cli, tmp_path: Path, odd: Any) -> None:
    plums = {**chatgpt()[1], "current_node": odd}
    said = {"sender": "human", "text": "Grapes?", "content": [{"type": "text", "text": "Grapes?"}]}
    messages = [{**said, "uuid": "m1"}, {**said, "uuid": odd}, {**said, "uuid": "m2", "parent_message_uuid": odd}]
    grapes = {"uuid": "u1", "name": "Grapes", "current_leaf_message_uuid": odd, "chat_messages": messages}
    file = tmp_path / "conversations.json"
    file.write_text(json.dumps([plums, grapes]), "utf-8")
    assert bring(kept, file)["counts"]["thread"] == {"added": 2}
    assert told(kept, "chatgpt-c2") == [("user", "Plums?")]
    assert ("user", "Grapes?") in told(kept, "claude-u1")


def test_an_archive_that_unpacks_to_much_more_than_it_claims_is_refused_before_it_is_read(
    kept: Cli, tmp_path: Path
) -> None:
    archive = tmp_path / "export.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as out:
        out.writestr("conversations.json", "[" + " " * 20_000_000 + "]")
    code, _, err = kept("import", str(archive), "--from", "chatgpt")
    assert code != 0
    assert "more than 200 times what it takes in the archive" in err


@pytest.mark.parametrize("name", ["deep.json", "deep.jsonl"])
def test_a_file_that_is_nested_too_deeply_is_refused_in_a_sentence(kept: Cli, tmp_path: Path, name: str) -> None:
    deep = tmp_path / name
    deep.write_text("[" * 100_000 + "]" * 100_000)
    for given in ((), ("--from", "chatgpt"), ("--from", "layerlore"), ("--from", "mem0")):
        code, _, err = kept("import", str(deep), *given)
        assert code != 0
        assert err.startswith("layerlore: ")
        assert "Traceback" not in err


def test_a_view_without_an_end_in_place_of_a_table_is_not_read(kept: Cli, tmp_path: Path) -> None:
    file = tmp_path / "claude-mem.db"
    with contextlib.closing(driver.connect(str(file), synchronous="OFF")) as made:
        made.execute(
            "CREATE VIEW sdk_sessions AS WITH RECURSIVE n(id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM n) "
            "SELECT id, id AS started_at_epoch, 's' AS content_session_id FROM n"
        )
    assert bring(kept, file, "--from", "claude-mem")["counts"] == {}


CLAUDE_INDEX = """# Memory

- [User role](user_role.md) — the user is an SRE
- Deploys run from Makefile, target `ship`

## Tests
The suite needs redis.
Start it first.

1. `make redis`
"""
CLAUDE_ROLE = """---
name: user-role
description: "The user is an SRE who says \\"ship it\\""
metadata:
  node_type: memory
  type: user
  modified: 2026-09-03T00:00:00.000Z
---

Ana runs the platform team.

**Why:** she said so.
"""


def test_claude_codes_memory_becomes_entries_and_a_changed_file_takes_the_place_of_what_it_said(
    kept: Cli, tmp_path: Path
) -> None:
    folder = tmp_path / "projects" / "-home-ana-shop" / "memory"
    folder.mkdir(parents=True)
    (folder / "MEMORY.md").write_text(CLAUDE_INDEX, "utf-8")
    (folder / "user_role.md").write_text(CLAUDE_ROLE, "utf-8")
    (folder / "secret.md").symlink_to(tmp_path / "elsewhere.md")
    found = bring(kept, folder)
    assert (found["from"], found["counts"]["entry"]) == ("claude-memory", {"added": 4})
    assert [each["where"] for each in found["skipped"]] == [str(folder / "secret.md")]
    role = 'The user is an SRE who says "ship it": Ana runs the platform team. **Why:** she said so.'
    assert set(entries(kept)) == {
        role,
        "Memory: Deploys run from Makefile, target `ship`",
        "Memory / Tests: The suite needs redis. Start it first.",
        "Memory / Tests: `make redis`",
    }
    (entry,) = [each for each in stored(kept) if each["record"] == "entry" and each["content"] == role]
    assert entry["model"].endswith("/-home-ana-shop/memory/user_role.md")
    assert (entry["trust"], entry["seen_at"]) == ("assistant", 1788393600000)
    assert bring(kept, folder)["counts"]["entry"] == {"unchanged": 4}

    (folder / "MEMORY.md").write_text(CLAUDE_INDEX.replace("redis", "valkey"), "utf-8")
    assert bring(kept, folder)["counts"]["entry"]["superseded"] == 2
    active = {each["content"] for each in stored(kept) if each["record"] == "entry" and each["status"] == "active"}
    assert active == {
        role,
        "Memory: Deploys run from Makefile, target `ship`",
        "Memory / Tests: The suite needs valkey. Start it first.",
        "Memory / Tests: `make valkey`",
    }


def test_a_repetition_in_a_hosts_file_leaves_the_users_own_word_the_users(kept: Cli, tmp_path: Path) -> None:
    file = tmp_path / "MEMORY.md"
    file.write_text("- Ana never eats meat.\n", "utf-8")
    bring(kept, file)
    (entry,) = [each for each in stored(kept) if each["record"] == "entry"]
    own = tmp_path / "own.jsonl"
    kept("export", str(own))
    own.write_text(own.read_text("utf-8").replace('"trust":"assistant"', '"trust":"user"'), "utf-8")
    bring(kept, own, "--existing", "overwrite")
    os.utime(file, (entry["seen_at"] / 1000 + 60,) * 2)
    bring(kept, file)
    file.write_text("- Ana eats fish.\n", "utf-8")
    bring(kept, file)
    found = {each["content"]: (each["trust"], each["status"]) for each in stored(kept) if each["record"] == "entry"}
    assert found == {
        "Ana never eats meat.": ("user", "active"),
        "Ana eats fish.": ("assistant", "active"),
    }


CODEX_MEMORY = """# Task Group: ~/shop / checkout

scope: how the checkout is tested
applies_to: cwd=~/shop; reuse_rule=safe in this repository

## Task 1: Fix the cart, done

### rollout_summary_files

- rollout_summaries/cart.md (cwd=~/shop, thread_id=1)

### keywords

- cart, tax

## User preferences

- when tests fail, the user asked for the whole log [Task 1]
"""


def test_of_codexs_memories_what_it_writes_to_be_read_becomes_entries(kept: Cli, tmp_path: Path) -> None:
    folder = tmp_path / "memories"
    (folder / "rollout_summaries").mkdir(parents=True)
    (folder / "MEMORY.md").write_text(CODEX_MEMORY, "utf-8")
    (folder / "memory_summary.md").write_text(
        "v1\n## User Profile\n\nAna runs a shop.\n\n## What's in Memory\n\n- checkout\n", "utf-8"
    )
    (folder / "rollout_summaries" / "cart.md").write_text("A long recap.", "utf-8")
    assert bring(kept, folder)["from"] == "codex-memory"
    group = "Task Group: ~/shop / checkout"
    assert set(entries(kept)) == {
        f"{group}: scope: how the checkout is tested applies_to: cwd=~/shop; reuse_rule=safe in this repository",
        f"{group} / User preferences: when tests fail, the user asked for the whole log [Task 1]",
        "User Profile: Ana runs a shop.",
    }


def test_the_memory_in_claudes_export_becomes_entries_beside_its_conversations(kept: Cli, tmp_path: Path) -> None:
    said = {"uuid": "m1", "sender": "human", "text": "Grapes?", "content": [{"type": "text", "text": "Grapes?"}]}
    memory = {
        "conversations_memory": "**Work context**\n\nAna runs a shop.\n\n**Personal**\n\nShe never eats meat.",
        "project_memories": {"p1": "- The shop sells pears.", "p2": None},
        "account_uuid": "a1",
    }
    archive = tmp_path / "data.zip"
    with zipfile.ZipFile(archive, "w") as out:
        out.writestr("conversations.json", json.dumps([{"uuid": "t1", "name": "Fruit", "chat_messages": [said]}]))
        out.writestr("memories.json", json.dumps([memory]))
        out.writestr("projects.json", "[{}]")
    counts = bring(kept, archive)["counts"]
    assert (counts["message"], counts["entry"]) == ({"added": 1}, {"added": 3})
    told = {"Work context: Ana runs a shop.", "Personal: She never eats meat.", "The shop sells pears."}
    assert set(entries(kept)) == told
    alone = tmp_path / "memories.json"
    alone.write_text(json.dumps([memory]), "utf-8")
    assert bring(kept, alone)["from"] == "claude"
    assert set(entries(kept)) == told


def test_of_a_file_for_agents_only_the_marked_section_is_read_and_a_repositorys_is_shared(
    kept: Cli, tmp_path: Path
) -> None:
    file = tmp_path / "AGENTS.md"
    marked = (
        "# Rules\n- Obey.\n<!-- layerlore:begin -->\n- The shop sells pears.\n<!-- layerlore:end -->\n- Obey more.\n"
    )
    file.write_text(marked, "utf-8")
    assert bring(kept, file)["from"] == "section"
    assert entries(kept) == ["The shop sells pears."]
    (tmp_path / "repository" / ".git").mkdir(parents=True)
    cloned = tmp_path / "repository" / "CLAUDE.md"
    cloned.write_text(marked.replace("pears", "plums"), "utf-8")
    bring(kept, cloned)
    trusts = {each["content"]: each["trust"] for each in stored(kept) if each["record"] == "entry"}
    assert trusts == {"The shop sells pears.": "assistant", "The shop sells plums.": "shared"}
    file.write_text("# Rules\n", "utf-8")
    code, _, err = kept("import", str(file), "--from", "section")
    assert (code, "has no section of ours" in err) == (1, True)
