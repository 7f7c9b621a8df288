"""Runs a snippet as its framework's interpreter does, with this server and program in the places that it leaves open.

Called with the snippet's file and a JSON object: constants to set, transport, thread and prompt. Prints the answer.
"""

import asyncio
import contextlib
import importlib.util
import inspect
import json
import sys


def main() -> None:
    path, given = sys.argv[1], json.loads(sys.argv[2])
    spec = importlib.util.spec_from_file_location("snippet", path)
    snippet = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(snippet)
    vars(snippet).update(given["constants"])

    async def converse() -> str:
        memory = getattr(snippet, given["transport"])(given["thread"])
        answer = snippet.converse(memory, given["prompt"])
        return await answer if inspect.isawaitable(answer) else answer

    with contextlib.redirect_stdout(sys.stderr):
        answer = asyncio.run(converse())
    json.dump(answer, sys.stdout)


main()
