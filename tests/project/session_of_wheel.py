"""A session with the layerlore of the environment that runs this: what it answers, as JSON. Its data folder is given."""

import json
import sys
from pathlib import Path

import anyio
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client


async def talk(folder: str) -> dict[str, str]:
    program = str(Path(sys.executable).with_name("layerlore"))
    server = StdioServerParameters(command=program, args=["--alone", "--data-dir", folder])
    async with Client(stdio_client(server)) as client:

        async def told(tool: str, **arguments: object) -> str:
            return "\n".join(block.text for block in (await client.call_tool(tool, arguments)).content)

        message = {"role": "user", "content": "I am allergic to peanuts, so no satay for me."}
        await told("add_messages", thread_id="kitchen", messages=[message])
        with anyio.fail_after(120):
            while "degraded" in (recalled := await told("recall_memory", query="Which nuts may I not eat?")):
                await anyio.sleep(0.1)
        return {"python": sys.version, "recalled": recalled, "status": await told("memory_status")}


print(json.dumps(anyio.run(talk, sys.argv[1])))
