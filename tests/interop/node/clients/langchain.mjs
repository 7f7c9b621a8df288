import { MultiServerMCPClient } from "@langchain/mcp-adapters";
import { createAgent } from "langchain";

const {
  MEMORY_URL = "http://127.0.0.1:8765/mcp",
  MEMORY_KEY = "llk_...",
  MEMORY_PROGRAM = "/path/to/layerlore/.venv/bin/layerlore",
} = process.env;

export function overHttp(thread) {
  const headers = { Authorization: `Bearer ${MEMORY_KEY}`, "Layerlore-Thread": thread };
  return new MultiServerMCPClient({ memory: { transport: "http", url: MEMORY_URL, headers } });
}

export function onStdio(thread) {
  return new MultiServerMCPClient({
    memory: { transport: "stdio", command: MEMORY_PROGRAM, args: ["--thread", thread] },
  });
}

export async function converse(memory, prompt) {
  try {
    const agent = createAgent({ model: "openai:gpt-5", tools: await memory.getTools() });
    const { messages } = await agent.invoke({ messages: [{ role: "user", content: prompt }] });
    return messages.at(-1).text;
  } finally {
    await memory.close();
  }
}
