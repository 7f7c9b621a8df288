import httpx2
from google import genai
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client

URL, KEY = "http://127.0.0.1:8765/mcp", "llk_..."
PROGRAM = "/path/to/layerlore/.venv/bin/layerlore"


def over_http(thread: str):
    http = httpx2.AsyncClient(headers={"Authorization": f"Bearer {KEY}", "Layerlore-Thread": thread}, timeout=30)
    return streamable_http_client(URL, http_client=http)


def on_stdio(thread: str):
    return stdio_client(StdioServerParameters(command=PROGRAM, args=["--thread", thread]))


async def converse(memory, prompt: str) -> str:
    async with memory as (reading, writing, *_), ClientSession(reading, writing) as session:
        await session.initialize()
        answer = await genai.Client().aio.models.generate_content(
            model="gemini-2.5-flash", contents=prompt, config={"tools": [session]}
        )
        return answer.text
