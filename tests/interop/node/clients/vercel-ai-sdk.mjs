import { createMCPClient } from "@ai-sdk/mcp";
import { Experimental_StdioMCPTransport as StdioTransport } from "@ai-sdk/mcp/mcp-stdio";
import { openai } from "@ai-sdk/openai";
import { generateText, stepCountIs } from "ai";

const {
  MEMORY_URL = "http://127.0.0.1:8765/mcp",
  MEMORY_KEY = "llk_...",
  MEMORY_PROGRAM = "/path/to/layerlore/.venv/bin/layerlore",
} = process.env;

export function overHttp(thread) {
  const headers = { Authorization: `Bearer ${MEMORY_KEY}`, "Layerlore-Thread": thread };
  return createMCPClient({ transport: { type: "http", url: MEMORY_URL, headers } });
}

export function onStdio(thread) {
  const transport = new StdioTransport({ command: MEMORY_PROGRAM, args: ["--thread", thread] });
  // Its question for newer protocols waits one second, less than any program takes to start on a busy machine.
  return createMCPClient({ transport, protocolVersionDiscovery: false });
}

export async function converse(memory, prompt) {
  try {
    const tools = await memory.tools();
    const { text } = await generateText({ model: openai("gpt-5"), tools, prompt, stopWhen: stepCountIs(10) });
    return text;
  } finally {
    await memory.close();
  }
}
