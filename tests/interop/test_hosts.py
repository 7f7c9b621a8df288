"""Claude Code, Codex, Gemini CLI and opencode, with a model of the tests: install, sessions, uninstall."""

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from scripted_model import Call, scripted_model

from .conversation import Memory
from .host_programs import HOSTS, LAST_WORDS, TRIES, Home, remove_home, skip_unless_installed

SAID = "I am Ana, and I never eat meat."
ASKED = "Which meat can Ana cook?"
STORE = Call("add_messages", {"messages": [{"role": "user", "content": SAID}]})
READ = Call("get_messages", {"format": "json"})
RECALL = Call("recall_memory", {"query": "What does Ana never eat?"})


@pytest.fixture(params=HOSTS, ids=lambda host: host.name)
def home(request: pytest.FixtureRequest, node: Path) -> Iterator[Home]:
    """A home in which the host has settings of its own and nothing of ours."""
    skip_unless_installed()
    # A short path, as that of a person's home is: the address of a socket holds about a hundred bytes.
    folder = Path(tempfile.mkdtemp(prefix="host-"))
    try:
        with scripted_model(last_words=LAST_WORDS) as model:
            made = Home(request.param, folder, model, node)
            made.settle()
            yield made
            made.layerlore("local", "stop")
    finally:
        remove_home(folder)


def test_a_session_is_shown_what_an_earlier_one_said(home: Home) -> None:
    home.layerlore("install", home.host.name, "--capture")
    # Without hooks the model must store what was said.
    home.talk(SAID, *(() if home.host.hooks else (STORE,)))
    # A hook shows nothing if the answer takes longer than 2.5 seconds.
    later = [home.talk(ASKED, RECALL)]
    while home.host.hooks and SAID not in later[-1].opening and len(later) < TRIES:
        later.append(home.talk(ASKED, RECALL))
    assert SAID in later[-1].result
    assert SAID in later[-1].opening or not home.host.hooks


def test_tools_and_hooks_share_the_hosts_conversation(home: Home) -> None:
    if not home.host.hooks:
        pytest.skip("it has no hooks")
    home.layerlore("install", home.host.name, "--capture")
    session = home.talk(SAID, READ)
    for _ in range(TRIES):
        if session.id not in session.result:
            session = home.talk(SAID, READ)
    # The answer names the conversation that the tool worked in.
    assert session.id in session.result
    kept = Memory("on_stdio", home.folder).seen()
    assert kept.threads[session.id] == [("user", SAID), ("assistant", LAST_WORDS)]


def test_uninstall_leaves_the_hosts_files_as_they_were(home: Home) -> None:
    before = home.files()
    home.layerlore("install", home.host.name, "--capture")
    installed = home.files()
    home.talk(SAID, RECALL)
    used = home.files()
    home.layerlore("uninstall")
    after = home.files()
    ours = {path for path, text in installed.items() if text != before.get(path)}
    assert ours
    for path in used.keys() | before.keys():
        if path not in ours:
            assert after[path] == used[path]
        elif used[path] == installed[path]:
            assert after.get(path) == before.get(path)
        else:
            # The host has written a state of its own into the file, which stays.
            state = json.loads(used[path])
            del state["mcpServers"]
            assert json.loads(after[path]) == state
    assert after.keys() <= used.keys()
