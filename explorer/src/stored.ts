// What the server's tools and resources answer with, as far as the page reads it.

export interface EntrySource {
  thread_id: string;
  seq: number;
  label: string;
  quote?: string;
}

export interface Entry {
  id: string;
  content: string;
  kind?: string;
  origin: string;
  trust: string;
  by?: string;
  said_at: string;
  created_at: string;
  sources: EntrySource[];
  contradicted_by?: string;
  contradicts?: string[];
  pinned?: boolean;
  unproven?: string[];
  wrong?: boolean;
  superseded?: { id: string; content: string; superseded_at: string; created_at: string }[];
}

export interface Part {
  type: string;
  text?: string;
  id?: string;
  name?: string;
  arguments?: unknown;
  tool_call_id?: string;
  result?: unknown;
  is_error?: boolean;
  mime_type?: string;
  /** An image's description; alone it stands for an image that is not stored. */
  caption?: string;
  bytes?: number;
  part?: string;
  url?: string;
  filename?: string;
}

export interface Message {
  id: string;
  seq: number;
  role: string;
  name?: string;
  parts: Part[];
  said_at: string;
  created_at?: string;
  tokens?: number;
}

export interface MessagePage {
  thread_id: string;
  messages: Message[];
  total: number;
  next?: { offset?: number; before?: number; after?: number };
}

export interface Thread {
  thread_id: string;
  title?: string;
  messages: number;
  tokens: number;
  created_at: string;
  updated_at: string;
  metadata?: { [name: string]: unknown };
}

export const textOfMessage = (message: Message): string =>
  message.parts.flatMap((part) => (part.text ? [part.text] : [])).join("\n");
