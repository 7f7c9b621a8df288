// What makes a picture of the page the same on every day: answers of the server whose times, ids and sizes are fixed.

export const NOW = "2026-01-15T12:00:00Z";
const DAY = 86_400_000;
const known = new Map();

/** An answer's text with each time and id that differs from run to run in its place. */
export function fix(text) {
  return text
    .replace(/\b20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|\+00:00)/g, NOW)
    .replace(/\b20\d\d-\d\d-\d\d\b/g, NOW.slice(0, 10))
    .replace(/\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b/g, (id) => {
      if (!known.has(id)) known.set(id, `00000000-0000-7000-8000-${String(known.size).padStart(12, "0")}`);
      return known.get(id);
    });
}

const waves = (day, most) => Math.round(most * (0.55 + 0.45 * Math.sin(day / 3)));

function days(count) {
  return Array.from({ length: count }, (_, day) => ({
    day: new Date(Date.parse(NOW) - (count - 1 - day) * DAY).toISOString().slice(0, 10),
    messages: waves(day, 120),
    tokens: waves(day, 9_000),
    entries: waves(day + 4, 9),
    steps: waves(day + 2, 40),
    calls: waves(day, 300),
    failed: day % 7 ? 0 : 14,
    p50_ms: 3 + waves(day, 3),
    p95_ms: 12 + waves(day + 5, 60),
    context_tokens: waves(day, 52_000),
    recall_tokens: waves(day + 1, 18_000),
    hook_tokens: waves(day + 3, 9_000),
    captured: waves(day + 6, 64),
    model_calls: waves(day, 30),
    model_tokens: waves(day, 80_000),
    cost_usd: waves(day, 300) / 1_000,
  }));
}

const answers = {
  explore_days: (given) => ({
    days: days(given.days),
    tools: [
      { tool: "add_messages", calls: 4_210, failed: 3, p50_ms: 4.2, p95_ms: 18 },
      { tool: "recall_memory", calls: 1_904, failed: 39, p50_ms: 6.5, p95_ms: 47 },
      { tool: "get_context", calls: 873, failed: 0, p50_ms: 8.1, p95_ms: 91 },
    ],
    hooks: [{ host: "claude-code", shown: 210, tokens: 104_000, captured: 1_310 }],
    kinds: [
      { kind: "fact", entries: 41 },
      { kind: "preference", entries: 17 },
      { kind: "", entries: 6 },
      { kind: "correction", entries: 3 },
    ],
  }),
  explore_journal: () => ({
    lines: ["remember", "update_working_memory", "add_messages", "plan"].map((tool, at) => ({
      at: NOW,
      agent: "default",
      resource_mark: "5e1f0c9a",
      principal: "local",
      client: "tests 1",
      tool,
      outcome: at === 2 ? "denied" : "done",
      ...(at === 2 ? { reason: "LimitExceeded" } : {}),
      counts: { messages: at + 1 },
    })),
  }),
};

/** The structure that a tool answers with, fixed: made up, or with what differs from machine to machine replaced. */
export function fixStructure(tool, given, structure) {
  if (answers[tool]) return answers[tool](given);
  if (tool === "memory_status")
    return { ...structure, version: "1.2.3", stored_bytes: { resource: 20_480 }, vectors: { ...structure.vectors, total: 35, pending: 0 } };
  return structure;
}
