// Choosing a conversation: by its title among the newest, or by the name that somebody knows.

import { useId, useState } from "preact/hooks";
import { useAsked } from "./asking";
import type { Thread } from "../stored";

export function ThreadField({ value, onPick, all }: { value: string; onPick: (thread: string) => void; all?: string }) {
  const id = useId();
  const [typing, setTyping] = useState<string | null>(null);
  const asked = useAsked(
    (from, signal) => from.call<{ threads: Thread[] }>("list_threads", { limit: 100 }, signal),
    [],
  );
  const threads = asked.value?.threads ?? [];
  const known = !value || threads.some((each) => each.thread_id === value);
  if (typing !== null)
    return (
      <div class="field search">
        <label for={id}>Name of the conversation</label>
        <form
          class="row"
          onSubmit={(event) => {
            event.preventDefault();
            if (typing.trim()) onPick(typing.trim());
            setTyping(null);
          }}
        >
          <input
            id={id}
            class="grow"
            type="text"
            value={typing}
            autocomplete="off"
            onInput={(event) => setTyping(event.currentTarget.value)}
          />
          <button type="submit">Choose</button>
        </form>
      </div>
    );
  return (
    <div class="field search">
      <label for={id}>Conversation</label>
      <select
        id={id}
        value={value}
        onChange={(event) => {
          const picked = event.currentTarget.value;
          if (picked === "\n") setTyping("");
          else onPick(picked);
        }}
      >
        <option value="">{all ?? "Choose one …"}</option>
        {!known && <option value={value}>{value}</option>}
        {threads.map((each) => (
          <option value={each.thread_id}>
            {each.title ? `${each.title} (${each.thread_id})` : each.thread_id}
          </option>
        ))}
        <option value={"\n"}>Another one, by its name …</option>
      </select>
    </div>
  );
}
