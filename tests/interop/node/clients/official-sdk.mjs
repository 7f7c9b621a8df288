import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";

const {
  MEMORY_URL = "http://127.0.0.1:8765/mcp",
  MEMORY_KEY = "llk_...",
  MEMORY_PROGRAM = "/path/to/layerlore/.venv/bin/layerlore",
} = process.env;

export function overHttp(thread) {
  const headers = { Authorization: `Bearer ${MEMORY_KEY}`, "Layerlore-Thread": thread };
  return new StreamableHTTPClientTransport(new URL(MEMORY_URL), { requestInit: { headers } });
}

export function onStdio(thread) {
  return new StdioClientTransport({ command: MEMORY_PROGRAM, args: ["--thread", thread] });
}

export async function converse(memory, prompt) {
  const client = new Client({ name: "my-agent", version: "1.0.0" }, { versionNegotiation: { mode: "auto" } });
  await client.connect(memory);
  try {
    const messages = [{ role: "user", content: prompt }];
    await client.callTool({ name: "add_messages", arguments: { messages } });
    const context = await client.callTool({ name: "get_context", arguments: { format: "openai" } });
    return context.content[0].text; // the messages of the next model call
  } finally {
    await client.close();
  }
}
