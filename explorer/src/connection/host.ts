// The page as an MCP App: JSON-RPC by postMessage with the host that shows it, and through it with the server.

import { type Arguments, type Connection, Refused } from "./connection";

const VERSION = "2026-01-26";
const MINUTE = 60_000;
const LOOK_AGAIN = 5000;

export interface HostContext {
  theme?: "light" | "dark";
  locale?: string;
  timeZone?: string;
  displayMode?: string;
  availableDisplayModes?: string[];
  safeAreaInsets?: { top: number; right: number; bottom: number; left: number };
  containerDimensions?: { height?: number; maxHeight?: number; width?: number; maxWidth?: number };
}

interface Told {
  context: (context: HostContext) => void;
  input: (given: Arguments) => void;
  teardown: () => void;
}

interface Envelope {
  jsonrpc?: string;
  id?: number | string;
  method?: string;
  params?: unknown;
  result?: unknown;
  error?: { message?: string };
}

export class HostConnection implements Connection {
  readonly inHost = true;
  private last = 0;
  private readonly waiting = new Map<number, (reply: Envelope) => void>();

  constructor(
    private readonly host: Window,
    private readonly told: Told,
  ) {
    window.addEventListener("message", (event) => {
      if (event.source === host) this.take(event.data as Envelope);
    });
  }

  async begin(): Promise<void> {
    const answer = (await this.request("ui/initialize", {
      appInfo: { name: "layerlore-explorer", version: "1" },
      appCapabilities: { availableDisplayModes: ["inline", "fullscreen"] },
      protocolVersion: VERSION,
    })) as { hostContext?: HostContext };
    this.told.context(answer.hostContext ?? {});
    this.notify("ui/notifications/initialized", {});
  }

  request(method: string, given: Arguments, signal?: AbortSignal): Promise<unknown> {
    // A host makes its own `_meta`; what a page may add is not agreed.
    const { _meta, ...params } = given;
    void _meta;
    const id = ++this.last;
    return new Promise((done, fail) => {
      const timer = setTimeout(() => {
        this.waiting.delete(id);
        fail(new Refused(`the host did not answer ${method} within a minute`, "protocol"));
      }, MINUTE);
      this.waiting.set(id, (reply) => {
        clearTimeout(timer);
        if (reply.error) fail(new Refused(reply.error.message ?? `the host refused ${method}`));
        else done(reply.result);
      });
      signal?.addEventListener("abort", () => {
        this.waiting.delete(id);
        clearTimeout(timer);
        fail(new DOMException("given up", "AbortError"));
      });
      this.post({ jsonrpc: "2.0", id, method, params });
    });
  }

  notify(method: string, params: Arguments): void {
    this.post({ jsonrpc: "2.0", method, params });
  }

  /** A host passes no subscriptions on: the page looks again while it is seen. */
  watch(uris: string[], told: (uri: string) => void): () => void {
    const timer = setInterval(() => {
      if (document.visibilityState === "visible") for (const uri of uris) told(uri);
    }, LOOK_AGAIN);
    return () => clearInterval(timer);
  }

  private post(message: Envelope): void {
    // The host's origin is unknown to a page in a sandbox; what is sent are questions to the server behind it.
    this.host.postMessage(message, "*");
  }

  private take(message: Envelope): void {
    if (message?.jsonrpc !== "2.0") return;
    if (message.method === undefined) {
      const settle = this.waiting.get(Number(message.id));
      this.waiting.delete(Number(message.id));
      settle?.(message);
      return;
    }
    const params = (message.params ?? {}) as Arguments;
    switch (message.method) {
      case "ui/notifications/host-context-changed":
        this.told.context(params as HostContext);
        break;
      case "ui/notifications/tool-input":
        this.told.input((params["arguments"] ?? {}) as Arguments);
        break;
      case "ui/resource-teardown":
        this.told.teardown();
        break;
    }
    if (message.id === undefined) return;
    const known = message.method === "ui/resource-teardown" || message.method === "ping";
    this.post(
      known
        ? { jsonrpc: "2.0", id: message.id, result: {} }
        : { jsonrpc: "2.0", id: message.id, error: { message: `unknown method ${message.method}` } },
    );
  }
}
