import { Agent } from "@mastra/core/agent";
import { MCPClient } from "@mastra/mcp";

const {
  MEMORY_URL = "http://127.0.0.1:8765/mcp",
  MEMORY_KEY = "llk_...",
  MEMORY_PROGRAM = "/path/to/layerlore/.venv/bin/layerlore",
} = process.env;

export function overHttp(thread) {
  const headers = { Authorization: `Bearer ${MEMORY_KEY}`, "Layerlore-Thread": thread };
  return new MCPClient({ servers: { memory: { url: new URL(MEMORY_URL), requestInit: { headers } } } });
}

export function onStdio(thread) {
  return new MCPClient({ servers: { memory: { command: MEMORY_PROGRAM, args: ["--thread", thread] } } });
}

export async function converse(memory, prompt) {
  try {
    const agent = new Agent({
      id: "assistant",
      name: "Assistant",
      instructions: "Use your memory.",
      model: "openai/gpt-5",
      tools: await memory.listTools(), // each is called memory_...
    });
    return (await agent.generate(prompt, { maxSteps: 10 })).text;
  } finally {
    await memory.disconnect();
  }
}
