// How the page reaches its server: over HTTP as a client of its own, or through the host that shows it as an MCP App.

import { signal } from "@preact/signals";

export type Json = null | boolean | number | string | Json[] | { [name: string]: Json };
export type Arguments = { [name: string]: unknown };

export interface Block {
  type: string;
  text?: string;
  data?: string;
  mimeType?: string;
  resource?: Contents;
}

export interface ToolResult {
  content?: Block[];
  structuredContent?: unknown;
  isError?: boolean;
  _meta?: { [name: string]: unknown };
}

export interface Contents {
  uri: string;
  mimeType?: string;
  text?: string;
  blob?: string;
}

export interface Connection {
  /** A host shows the page: it chooses the theme, and there is no address bar. */
  readonly inHost: boolean;
  request(method: string, params: Arguments, signal?: AbortSignal): Promise<unknown>;
  /** Tells when one of these resources changed, until the answer is called. */
  watch(uris: string[], told: (uri: string) => void): () => void;
}

/** What the server, or the way to it, refused; its message is for people. */
export class Refused extends Error {
  constructor(
    message: string,
    readonly kind: "tool" | "protocol" | "session" | "away" = "protocol",
  ) {
    super(message);
  }
}

export const isAbort = (error: unknown): boolean => error instanceof DOMException && error.name === "AbortError";

export const describe = (error: unknown): string => (error instanceof Error ? error.message : String(error));

const pause = (seconds: number) => new Promise((done) => setTimeout(done, seconds * 1000));

/** The tools and resources of the server, by whatever connection. */
export class Memory {
  /** The tools that this caller is listed; null while that is not known, as in a host, which lists none. */
  private readonly tools = signal<Set<string> | null>(null);

  constructor(readonly connection: Connection) {}

  async listTools(): Promise<void> {
    if (this.connection.inHost) return;
    const names = new Set<string>();
    let cursor: string | undefined;
    do {
      const page = (await this.connection.request("tools/list", cursor ? { cursor } : {})) as {
        tools: { name: string }[];
        nextCursor?: string;
      };
      for (const tool of page.tools) names.add(tool.name);
      cursor = page.nextCursor;
    } while (cursor);
    this.tools.value = names;
  }

  has(tool: string): boolean {
    return this.tools.value?.has(tool) ?? true;
  }

  /** The same for what not every server has: it is not called before it is known to be there. */
  surelyHas(tool: string): boolean {
    return this.tools.value?.has(tool) ?? this.connection.inHost;
  }

  /** What a tool answers: its structure, JSON that came as text, or text. Raises Refused. */
  async call<T>(name: string, given: Arguments = {}, signal?: AbortSignal): Promise<T> {
    const result = await this.callWhole(name, given, signal);
    if (result.structuredContent !== undefined) return result.structuredContent as T;
    const text = textOf(result);
    if (given["format"] === "text" || !/^\s*[[{]/.test(text)) return text as T;
    try {
      return JSON.parse(text) as T;
    } catch {
      return text as T;
    }
  }

  /** The same with images and files. */
  async callWhole(name: string, given: Arguments = {}, signal?: AbortSignal): Promise<ToolResult> {
    // One key for both attempts, so that a write whose answer was lost is done once.
    const params = { name, arguments: given, _meta: { "layerlore/idempotency-key": makeKey() } };
    for (let attempt = 0; ; attempt++) {
      let result: ToolResult;
      try {
        result = (await this.connection.request("tools/call", params, signal)) as ToolResult;
      } catch (error) {
        if (attempt > 0 || !(error instanceof Refused) || error.kind !== "away") throw error;
        await pause(0.5);
        continue;
      }
      if (!result.isError) return result;
      const wait = Number(result._meta?.["layerlore/retry_after_seconds"] ?? NaN);
      if (attempt > 1 || !(wait <= 5)) throw new Refused(textOf(result) || `${name} failed and says no more`, "tool");
      await pause(wait);
    }
  }

  async read(uri: string, signal?: AbortSignal): Promise<Contents> {
    const answer = (await this.connection.request("resources/read", { uri }, signal)) as { contents: Contents[] };
    const first = answer.contents[0];
    if (!first) throw new Refused(`${uri} is empty`);
    return first;
  }

  async readJson<T>(uri: string, signal?: AbortSignal): Promise<T> {
    const { text } = await this.read(uri, signal);
    return JSON.parse(text ?? "null") as T;
  }
}

const textOf = (result: ToolResult): string =>
  (result.content ?? []).flatMap((block) => (block.type === "text" && block.text ? [block.text] : [])).join("\n");

/** One change that can be undone, as `undo` lists it. */
export interface Act {
  undo_id: string;
  tool: string;
  at: string;
  until: string;
  what: string;
  thread_ids?: string[];
}

/** How much an undo brought back. */
export interface Undone {
  messages?: number;
  entries?: number;
  documents?: number;
  plans?: number;
  /** What was left as it is, and why. */
  left?: string[];
  undo?: string;
}

/** Undoes what a tool did: the answer names the act, in its structure or in words. With `force`, an earlier version of a
 * document comes back over later changes. Raises Refused. */
export async function undo(from: Memory, answer: string | { undo?: string }, force = false): Promise<Undone> {
  const named = typeof answer === "string" ? /undo_id="([^"]+)"/.exec(answer)?.[1] : answer.undo;
  if (!named) throw new Refused("this server keeps nothing that is removed, so this cannot be undone", "tool");
  return from.call<Undone>("undo", { undo_id: named, ...(force ? { force } : {}) });
}

// crypto.randomUUID is only there over TLS and on this machine.
export function makeKey(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}
