"""The session of a person with the agent: turns, decisions on calls that wait, and commands that begin with a slash."""

import asyncio
import datetime
import inspect
import re
import signal
from collections.abc import Awaitable, Callable
from typing import Any

from mcp import Client

from layerlore.server.chat.agent import Agent, AgentTurn, SubAgent
from layerlore.server.chat.memory import Memory, MemoryRefused
from layerlore.server.chat.model import ChatModel, ToolCall
from layerlore.server.chat.terminal import Keyboard, Screen, local_time
from layerlore.server.chat.tools import Tool, Toolbox, tools_of_memory
from layerlore.server.chat.turn_run import can_go_on, decide, list_open_runs, waiting_calls

Json = dict[str, Any]

_DELEGATE = (
    "Hand a task of its own to a sub-agent without memory: it gets a briefing with the user's rules and earlier tries."
)
_DECISIONS = ("y", "yes", "n", "no", "a", "always")


class ChatSession:
    """A person, an agent, and the conversation that they are in."""

    def __init__(
        self, client: Client, model: ChatModel, tools: list[Tool], screen: Screen, *, max_tokens: int = 8_000
    ) -> None:
        """``tools``: those of other servers; the memory's own come with each conversation. ``failed``: whether the newest
        turn did."""
        self.keyboard: Keyboard
        self.screen = screen
        self.title = ""
        self._client = client
        self._model = model
        self._tools = tools
        self._max_tokens = max_tokens
        self._usage: Json = {}
        self._over = False
        self.failed = False
        # Each do_ method is a command, so help and completion cannot miss one.
        self.commands: dict[str, Callable[[str], Awaitable[None]]] = {
            "/" + name.removeprefix("do_"): method
            for name, method in inspect.getmembers(self, inspect.iscoroutinefunction)
            if name.startswith("do_")
        }

    async def open(self, thread_id: str) -> None:
        """Go to a conversation, which is made with its first message."""
        self.memory = Memory(self._client, thread_id)
        tools = Toolbox([*await tools_of_memory(self.memory), *self._tools])
        sub_agent = SubAgent("delegate", self.memory, self._model, tools)
        tools.add(sub_agent.as_tool(_DELEGATE))
        self.agent = Agent(
            self.memory,
            self._model,
            tools,
            max_tokens=self._max_tokens,
            notify=self.screen.event,
            sub_agents=[sub_agent],
        )
        await self._look()

    async def converse(self, keyboard: Keyboard, message: str = "") -> None:
        """A first message, if there is one, and then everything that a person types, until the input ends or the
        reader of the answers leaves. A turn that has begun is stored all the same."""
        self.keyboard = keyboard
        if message:
            await self.take(message)
        while not self._over and not self.screen.is_closed and (line := await keyboard.line("> ")) is not None:
            if line.strip():
                await self.take(line.strip())

    async def take(self, line: str) -> None:
        """One line: a command or a message."""
        name, _, rest = line.partition(" ")
        try:
            if name in self.commands:
                await self.commands[name](rest.strip())
            elif re.match(r"/\w+$", name):
                self.screen.note(f"{name} is none of the commands: {', '.join(self.commands)}", style="red")
            else:
                # A turn that raises leaves it set, and so the exit code is 1.
                self.failed = True  # until the turn ends otherwise
                await self._finish(await self._interruptible(self.agent.stream(line, self.screen.say)))
        except MemoryRefused as refused:
            self.screen.note(str(refused), style="red")

    def status(self) -> str:
        return f" {self.memory.thread_id}  {self.title}  ·  {self._model.name}  ·  {_dollars(self._usage)}  ·  /help "

    async def _interruptible(self, turn: Awaitable[AgentTurn]) -> AgentTurn:
        """A turn that Ctrl-C cancels."""
        # A signal handler runs between two bytecodes, and must not touch the loop's objects directly.
        loop = asyncio.get_running_loop()
        before = signal.signal(signal.SIGINT, lambda *_: loop.call_soon_threadsafe(self.agent.abort))
        try:
            return await turn
        finally:
            signal.signal(signal.SIGINT, before)
            self.screen.end_answer()

    async def _finish(self, turn: AgentTurn) -> None:
        """Show how a turn ended; one that waits goes on as soon as everything is decided."""
        # Resuming may lead to further calls that wait, hence a loop.
        while turn.status == "suspended":
            for call in turn.waiting:
                # The run is stored as suspended, so leaving it undecided loses nothing.
                if not await self._decide(turn.run_id, call):
                    self.screen.note(f"Run {turn.run_id} waits for your decision: /resume goes on, in any session.")
                    return
            turn = await self._interruptible(self.agent.resume(turn.run_id, self.screen.say))
        self.failed = turn.status == "failed"
        if self.failed:
            self.screen.note(turn.text, style="red")
        elif turn.status == "cancelled":
            self.screen.note("Cancelled.")
        await self._look()
        self.screen.note(self._cost_of(turn))

    async def _decide(self, run_id: str, call: ToolCall) -> bool:
        """Ask about a call, and keep the answer with the run. False: later."""
        self.screen.note(f"? {call.name} {call.arguments}", style="yellow")
        answer = await self.keyboard.answer("  may it? [y]es, [n]o and why, [a]lways in this session, [l]ater: ")
        word, _, reason = answer.partition(" ")
        choice = word.strip(",.;:").lower()
        if choice not in _DECISIONS:  # "abort" must not count as "always"
            return False
        if choice[0] == "a":
            self.agent.tools.allowed.add(call.name)
        approved = choice[0] != "n"
        await decide(self.memory, run_id, call, approved=approved, reason=reason)
        return True

    async def _look(self) -> None:
        thread = await self.memory.thread()
        self.title = thread.get("title", "")
        self._usage = thread.get("usage", {})

    def _cost_of(self, turn: AgentTurn) -> str:
        used, blocks = turn.usage, self.agent.shown[1].get("blocks", ())
        memories = sum(each["tokens"] for each in blocks if each["block"] == "memory")
        return " · ".join(
            (
                f"{used.get('input_tokens', 0):,} tokens in, {used.get('output_tokens', 0):,} out",
                _dollars(used),
                f"conversation {_dollars(self._usage)}",
                f"memories {memories:,} tokens",
            )
        )

    async def do_help(self, rest: str) -> None:
        """Show the commands."""
        rows = [[name, inspect.getdoc(method) or ""] for name, method in self.commands.items()]
        self.screen.table("command", "does", rows=rows)

    async def do_quit(self, rest: str) -> None:
        """End. Nothing is lost."""
        self._over = True

    async def do_memories(self, query: str) -> None:
        """Show your profile, this conversation's notes and the newest of all; with words, what is remembered of them."""
        if query:
            self.screen.block(await self.memory.call("recall_memory", query=query, limit=10, opening=False))
            return
        self.screen.block(await self.memory.call("get_working_memory", scope="resource"))
        self.screen.block(await self.memory.call("get_working_memory", scope="thread"))
        for entry in (await self.memory.read("memory://entries"))["entries"]:
            self.screen.block(f"- {entry['content']} ({entry['trust']}, {local_time(entry['said_at'])[:10]})")

    async def do_forget(self, query: str) -> None:
        """Forget what is remembered about these words: it shows first what would go."""
        shown = await self.memory.call("forget", query=query)
        self.screen.block(shown)
        confirm = re.findall(r'confirm="([^"]+)"', shown)[-1:]  # what is shown may name others before it
        # The last one is the answer's own; only the text below it is written by the server.
        if confirm and (await self.keyboard.answer("forget all of it? [y/n] ")).lower().startswith("y"):
            self.screen.block(await self.memory.call("forget", confirm=confirm[0]))

    async def do_plan(self, rest: str) -> None:
        """Show the plan of this conversation."""
        self.screen.block(await self.memory.call("plan", action="review"))

    async def do_context(self, rest: str) -> None:
        """Show what the model was shown last, block by block with its tokens; "/context all" has every message."""
        messages, report = self.agent.shown
        if not report:
            messages, report = await self.memory.context(self._max_tokens)
        blocks = [[each["block"], f"{each['tokens']:,}"] for each in report["blocks"]]
        self.screen.table(
            "block", "tokens", rows=[*blocks, ["in all", f"{report['tokens']:,} of {report['max_tokens']:,}"]]
        )
        for missing in report.get("left_out", ()):
            self.screen.note(f"left out: {missing}")
        for message in messages if rest else ():
            calls = [
                f"{each['function']['name']}({each['function']['arguments']})" for each in message.get("tool_calls", ())
            ]
            self.screen.block(f"\n[{message['role']}] {message.get('content') or ''}{' '.join(calls)}")

    async def do_undo(self, rest: str) -> None:
        """Take the last turn back, with all that was learnt from it; "/undo undo" brings it again."""
        if rest == "undo":
            await self._bring_turn_back()
            return
        done = await self.memory.call("delete_messages", which="last_turn")
        self.screen.note(f"{done['deleted']} messages taken back")
        # A run without its message could never go on: it reads its input from the conversation.
        for run in await list_open_runs(self.memory):
            if f"{run['run_id']}-0" in done["ids"]:
                await self.memory.call("cancel_run", run_id=run["run_id"], reason="its message was taken back")
        await self._look()

    async def _bring_turn_back(self) -> None:
        listed = await self.memory.call("undo")
        for act in listed["acts"]:
            if act["tool"] == "delete_messages" and self.memory.thread_id in act.get("thread_ids", ()):
                done = await self.memory.call("undo", undo_id=act["undo_id"])
                self.screen.note(f"{done['messages']} messages are back")
                await self._look()
                return
        self.screen.note("nothing was taken back in this conversation", style="yellow")

    async def do_threads(self, rest: str) -> None:
        """List your conversations, the newest first; "/threads NAME" goes on with one."""
        if rest:
            await self.open(rest)
            await self.show_last()
            return
        threads = (await self.memory.call("list_threads", limit=20))["threads"]
        rows = [
            [each["thread_id"], each.get("title", ""), str(each["messages"]), local_time(each["updated_at"])[:16]]
            for each in threads
        ]
        self.screen.table("name", "title", "messages", "last", rows=rows)

    async def do_new(self, rest: str) -> None:
        """Begin a new conversation."""
        await self.open(rest or new_thread())
        self.screen.note(f"New conversation {self.memory.thread_id}")

    async def do_title(self, title: str) -> None:
        """Name this conversation; without a name show the one it has."""
        if not title:
            self.screen.note(f"Title: {self.title or 'none yet'}. /title WORDS gives it another.")
            return
        await self.memory.call("update_thread", title=title)
        await self._look()

    async def do_runs(self, rest: str) -> None:
        """List the runs that have not ended: those that wait for you, and those that a process has or left behind."""
        rows = [
            [run["run_id"], run["thread_id"], _state_of(run), ", ".join(_names(run))]
            for run in await list_open_runs(self.memory)
        ]
        self.screen.table("run", "conversation", "status", "waits for", rows=rows)

    async def do_resume(self, run_id: str) -> None:
        """Go on with a run of "/runs", or with the newest one."""
        open_runs = await list_open_runs(self.memory)
        runs = [run for run in open_runs if can_go_on(run) and run_id in ("", run["run_id"])]
        if not runs:
            # The newest is first, as the server lists them.
            self.screen.note("no such run waits: /runs lists what there is" if open_runs else "no run waits")
            return
        if runs[0]["thread_id"] != self.memory.thread_id:
            await self.open(runs[0]["thread_id"])
        waiting = await waiting_calls(self.memory, runs[0]["run_id"])
        await self._finish(AgentTurn(runs[0]["run_id"], "suspended", waiting=waiting))

    async def show_last(self) -> None:
        """Where the conversation is: its title, its last messages, and what waits."""
        self.screen.note(
            f"{self.memory.thread_id} {self.title}".rstrip() + f" · {self._model.name} · /help, Ctrl-D ends"
        )
        page = await self.memory.call("get_messages", limit=4, detail="low", roles=["user", "assistant"], format="json")
        for message in page["messages"]:
            self.screen.note(f"  {message['role']}: {' '.join(message['text'].split())}")
        waiting = [run for run in await list_open_runs(self.memory) if can_go_on(run)]
        if waiting:
            self.screen.note(f"{len(waiting)} of your runs wait: /runs lists them, /resume goes on", style="yellow")

    async def remembered_lines(self) -> list[str]:
        """The user's input in the newest conversations, oldest first."""
        lines: list[str] = []
        for thread in (await self.memory.call("list_threads", limit=5))["threads"]:
            memory = Memory(self._client, thread["thread_id"])
            page = await memory.call("get_messages", limit=50, roles=["user"], format="json")
            texts = ["".join(part.get("text", "") for part in each["parts"]) for each in page["messages"]]
            # Threads come newest first, and the keyboard's history wants the oldest first.
            lines = [*texts, *lines]
        return lines


def _state_of(run: Json) -> str:
    """Any process may take over a run whose lease was not renewed."""
    if run["status"] == "suspended":
        return "suspended"
    if can_go_on(run):
        return "left behind"
    return f"running, held until {local_time(run['claimed_until'])[11:]}"


def _names(run: Json) -> list[str]:
    return [each.get("tool_name", each["tool_call_id"]) for each in run.get("waiting", ())]


def _dollars(usage: Json) -> str:
    cost = usage.get("cost_usd", 0)
    if cost >= 1:
        shown = f"${cost:,.2f}"
    else:
        shown = f"${cost:.5f}"
    if usage.get("unpriced_calls"):
        return f"{shown} and what has no known price"
    return shown


def new_thread() -> str:
    return f"chat-{datetime.datetime.now(datetime.UTC):%Y%m%d-%H%M%S}"
