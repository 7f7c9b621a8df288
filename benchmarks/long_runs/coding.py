"""An agent that works on somebody's code: it reads, searches, changes, tests and commits."""

from benchmarks.long_runs.coding_phrases import CODING
from benchmarks.long_runs.draw import Draw
from benchmarks.long_runs.toolwork import Step, Toolwork, many, paragraphs

_REMARKS = (
    "Let me look at that.",
    "I'll check where {function} is used.",
    "Now the tests.",
    "That explains it; next I look at {file}.",
    "Reading the module first.",
    "I'll make the change and run everything again.",
    "Hm, this one is unexpected.",
    "One more place to adapt.",
)
_ANSWERS = (
    "I changed {function} so that it no longer reads everything twice.",
    "All tests pass now.",
    "The cause was a wrong default in {file}.",
    "I left the public interface as it was.",
    "There are two callers that might be surprised, {class} and {class2}.",
    "Let me know if you want it split into smaller commits.",
    "The new module has about {minutes} lines.",
    "I also removed an unused import in {file}.",
    "Next I would look at {service}, which has the same pattern.",
    "The loop in {function} was quadratic; with a dictionary it is linear.",
    "Nothing else depends on it as far as the search shows.",
    "I could not reproduce it at first, since it only happens with an empty list.",
    "Here is the idea:\n\n```python\ndef {function}(rows):\n    return list(filter(None, rows))\n```",
    "Coverage went up slightly.",
    "It is a small change, but it touches {file} and {file2}.",
)
_EXCEPTIONS = (
    "[KeyError]: '[{table}]'",
    "[ValueError]: unexpected column [{variable}] in row [{number}]",
    "[AttributeError]: '[{class}]' object has no attribute '[{function}]'",
    "[TypeError]: [{function}]() got an unexpected keyword argument '[{table}]'",
    "[AssertionError]: expected [{number}], got [{number2}]",
    "[ImportError]: cannot import name '[{class}]' from '[{table}]'",
    "[RecursionError]: maximum depth exceeded in [{function}]",
    "[sqlalchemy.exc.IntegrityError]: duplicate key violates [{table}]_pkey",
    "[TimeoutError]: [{service}] did not answer within [{minutes}] s",
    "[UnicodeDecodeError]: invalid start byte in [{path}]",
    "[FileNotFoundError]: No such file: [{path}]",
    "[PermissionError]: [{path}] is not writable",
)
_LINES = (
    "    rows = {function}(source, limit={number})",
    "    if not rows:",
    "        return None",
    "    for row in rows:",
    "        total += row.size",
    "    return {class}(total)",
    "def {function}(source, limit):",
    "    # see also {class}",
    "    with open_source(source) as handle:",
    "        yield from handle",
    "class {class}(Base):",
    '    name = "{table}"',
    "    retries = {minutes}",
    "",
    "        log.debug('loaded %s', row)",
    "    assert total >= 0",
    "from .{table} import {class}",
)


class Coding:
    phrases = CODING
    steps_of_a_turn = (1, 6)

    def __init__(self, draw: Draw) -> None:
        self._draw = draw
        self._tools = Toolwork(draw, _REMARKS)

    def noise(self) -> Step:
        return self._draw.one(
            (self._read, self._read, self._search, self._passing, self._edit, self._list, self._diff)
        )()

    def telling_id(self) -> Step:
        return self._draw.one((self._commit, self._pull, self._build, self._publish, self._create_issue))()

    def error(self) -> Step:
        return self._draw.one((self._failing, self._failing, self._crash, self._refused))()

    def answer(self) -> str:
        return paragraphs(self._draw, _ANSWERS, 1, 7)

    def pasted(self) -> str:
        """What a user pastes between what they say."""
        return "```\n" + "\n".join(self._code(8, 30)) + "\n```"

    def _code(self, least: int, most: int) -> list[str]:
        return many(self._draw, least, most, lambda: self._draw.said(self._draw.one(_LINES)))

    def _read(self) -> Step:
        lines = [f"{number:>4}  {line}" for number, line in enumerate(self._code(30, 140), 1)]
        return self._tools.step("read_file", {"path": self._draw.of("file")}, "\n".join(lines))

    def _search(self) -> Step:
        found = many(
            self._draw, 5, 40, lambda: f"{self._draw.of('file')}:{self._draw.number(1, 900)}: {self._code(1, 1)[0]}"
        )
        return self._tools.step("search_code", {"pattern": self._draw.of("function")}, "\n".join(found))

    def _list(self) -> Step:
        listed = many(
            self._draw, 8, 45, lambda: {"path": self._draw.of("file"), "bytes": self._draw.number(90, 40_000)}
        )
        return self._tools.step("list_files", {"under": "src"}, {"files": listed})

    def _edit(self) -> Step:
        old, new = ("\n".join(self._code(3, 12)) for _ in range(2))
        arguments = {"path": self._draw.of("file"), "old": old, "new": new}
        return self._tools.step("edit_file", arguments, "The file was changed.")

    def _diff(self) -> Step:
        file = self._draw.of("file")
        signs = (self._draw.one("+- ") + line for line in self._code(12, 60))
        return self._tools.step(
            "show_diff", {}, f"diff --git a/{file} b/{file}\n@@ -1,30 +1,34 @@\n" + "\n".join(signs)
        )

    def _tests(self) -> list[str]:
        return many(
            self._draw, 6, 50, lambda: f"tests/test_{self._draw.words(2, '_')}.py::test_{self._draw.words(3, '_')}"
        )

    def _passing(self) -> Step:
        ran = [f"{test} PASSED" for test in self._tests()]
        return self._tools.step("run_tests", {}, "\n".join([*ran, f"{len(ran)} passed in {self._draw.number(2, 80)}s"]))

    def _failure(self) -> tuple[str, list[str], tuple[str, ...]]:
        """The error's line, the traceback to it, and the words that tell it."""
        line, values = self._draw.filled(self._draw.one(_EXCEPTIONS))
        frames = [
            text
            for code in self._code(4, 14)
            for text in (f'  File "{self._draw.of("file")}", line {self._draw.number(5, 900)}', f"    {code.strip()}")
        ]
        return line, ["Traceback (most recent call last):", *frames], values

    def _failing(self) -> Step:
        line, trace, values = self._failure()
        tests = self._tests()
        at = self._draw.number(0, len(tests) - 1)
        ran = [f"{test} {'FAILED' if place == at else 'PASSED'}" for place, test in enumerate(tests)]
        text = "\n".join([*ran, *trace, line, f"1 failed, {len(ran) - 1} passed in {self._draw.number(2, 80)}s"])
        return self._tools.with_error("run_tests", {}, text, values, marked=self._draw.chance(0.3))

    def _crash(self) -> Step:
        line, trace, values = self._failure()
        arguments = {"command": f"python -m {self._draw.of('table')}"}
        return self._tools.with_error("run_command", arguments, "\n".join([*trace, line]), values, marked=True)

    def _refused(self) -> Step:
        host, port = self._draw.of("host"), self._draw.of("port")
        text = f"curl: (7) Failed to connect to {host} port {port} after 2034 ms: Connection refused"
        arguments = {"command": "curl -sS /health"}
        return self._tools.with_error("run_command", arguments, text, (host, port), marked=self._draw.chance(0.5))

    def _commit(self) -> Step:
        commit = self._draw.of("commit")
        text = f"[{self._draw.of('branch')} {commit}] {self._draw.words(4)}\n {self._draw.number(2, 9)} files changed"
        return self._tools.with_id("git_commit", {"message": self._draw.words(5)}, text, commit)

    def _pull(self) -> Step:
        number = str(self._draw.number(1_200, 9_900))
        result = {
            "url": f"https://git.example/app/pull/{number}",
            "title": self._draw.words(4),
            "head": {"ref": self._draw.of("branch"), "repo": {"private": True, "forks": 0, "size": 48_213}},
            "checks": [{"name": word, "status": "queued"} for word in self._draw.words(5).split()],
            "mergeable": None,
        }
        return self._tools.with_id("open_pull_request", {"title": result["title"]}, result, number)

    def _build(self) -> Step:
        build = self._draw.of("deploy")
        stages = [
            {"stage": word, "seconds": self._draw.number(3, 400), "ok": True} for word in self._draw.words(8).split()
        ]
        result = {"stages": stages, "queue": "default", "build_id": build, "runner": self._draw.of("host")}
        return self._tools.with_id("start_build", {"target": "all"}, result, build)

    def _publish(self) -> Step:
        digest = self._draw.letters(16, "0123456789abcdef")
        layers = many(self._draw, 5, 12, lambda: f"{self._draw.letters(12, '0123456789abcdef')}: Pushed")
        text = "\n".join([*layers, f"latest: digest: sha256:{digest} size: {self._draw.number(1_000, 4_000)}"])
        return self._tools.with_id("push_image", {"tag": "latest"}, text, digest)

    def _create_issue(self) -> Step:
        issue = self._draw.of("issue")
        text = f"Created {issue}: {self._draw.words(5)}"
        return self._tools.with_id("create_issue", {"title": self._draw.words(5)}, text, issue)
