// A conversation by the official client: node official_client.mjs SDK ERA TRANSPORT THREAD. The steps come as JSON on
// standard input, [[tool, arguments], ...]; what was found is printed as JSON.
import { readFileSync } from "node:fs";

const [sdk, era, transport, thread] = process.argv.slice(2);
const { MEMORY_URL, MEMORY_KEY, MEMORY_PROGRAM } = process.env;

const { Client, StreamableHTTPClientTransport, StdioClientTransport } = await {
  v1: async () => ({
    ...(await import("@modelcontextprotocol/sdk/client/index.js")),
    ...(await import("@modelcontextprotocol/sdk/client/streamableHttp.js")),
    ...(await import("@modelcontextprotocol/sdk/client/stdio.js")),
  }),
  v2: async () => ({
    ...(await import("@modelcontextprotocol/client")),
    ...(await import("@modelcontextprotocol/client/stdio")),
  }),
}[sdk]();

const negotiation = sdk === "v2" ? { versionNegotiation: { mode: era === "modern" ? { pin: "2026-07-28" } : "legacy" } } : {};
const client = new Client({ name: "interop", version: "1.0.0" }, negotiation);
const headers = { Authorization: `Bearer ${MEMORY_KEY}` };
await client.connect(
  transport === "stdio"
    ? new StdioClientTransport({ command: MEMORY_PROGRAM })
    : new StreamableHTTPClientTransport(new URL(MEMORY_URL), { requestInit: { headers } }),
);

const named = { _meta: { "layerlore/thread": thread } };
const { tools } = await client.listTools();
const { resources } = await client.listResources();
const { prompts } = await client.listPrompts();
const answers = [];
for (const [tool, given] of JSON.parse(readFileSync(0, "utf8"))) {
  answers.push(await client.callTool({ name: tool, arguments: given, ...named }));
}
await client.close();
console.log(
  JSON.stringify({
    tools: tools.map((tool) => tool.name),
    resources: resources.map((resource) => resource.uri),
    prompts: prompts.map((prompt) => prompt.name),
    answers,
  }),
);
