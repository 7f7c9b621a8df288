import { Agent, MCPServerStdio, MCPServerStreamableHttp, run } from "@openai/agents";

const {
  MEMORY_URL = "http://127.0.0.1:8765/mcp",
  MEMORY_KEY = "llk_...",
  MEMORY_PROGRAM = "/path/to/layerlore/.venv/bin/layerlore",
} = process.env;

const patience = { clientSessionTimeoutSeconds: 30 }; // the default, 5, is short on a busy machine

export function overHttp(thread) {
  const headers = { Authorization: `Bearer ${MEMORY_KEY}`, "Layerlore-Thread": thread };
  return new MCPServerStreamableHttp({ name: "memory", url: MEMORY_URL, requestInit: { headers }, ...patience });
}

export function onStdio(thread) {
  return new MCPServerStdio({ name: "memory", command: MEMORY_PROGRAM, args: ["--thread", thread], ...patience });
}

export async function converse(memory, prompt) {
  await memory.connect();
  try {
    const agent = new Agent({ name: "Assistant", model: "gpt-5", mcpServers: [memory] });
    return (await run(agent, prompt)).finalOutput;
  } finally {
    await memory.close();
  }
}
