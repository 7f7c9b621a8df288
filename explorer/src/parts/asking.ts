// What a view asks the server for: the answer, that it is on its way, or why there is none.

import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { type Memory, describe, isAbort } from "../connection/connection";
import { memory, say } from "../store";

export interface Asked<T> {
  /** The last answer: it stays while a newer one is on its way. */
  value: T | undefined;
  loading: boolean;
  error: string;
  again: () => void;
  change: (how: (value: T) => T) => void;
}

/** Asks, and tells of an answer, and then how it ended: why it failed, or "". After the returned function was called it
 * tells nothing. */
export function awaitAnswer<T>(
  ask: (signal: AbortSignal) => Promise<T>,
  answered: (answer: T) => void,
  ended: (why: string) => void,
): () => void {
  const control = new AbortController();
  ask(control.signal).then(
    (answer) => {
      if (control.signal.aborted) return;
      answered(answer);
      ended("");
    },
    (failure: unknown) => {
      if (!control.signal.aborted && !isAbort(failure)) ended(describe(failure));
    },
  );
  return () => control.abort();
}

/** Asks whenever one of `by` changes; an older question is given up. `null` asks nothing. */
export function useAsked<T>(
  ask: ((memory: Memory, signal: AbortSignal) => Promise<T>) | null,
  by: unknown[],
): Asked<T> {
  const [value, setValue] = useState<T | undefined>(undefined);
  const [loading, setLoading] = useState(ask !== null);
  const [error, setError] = useState("");
  const [round, setRound] = useState(0);
  const current = memory.value;
  useEffect(() => {
    if (!ask || !current) {
      setLoading(false);
      setError("");
      return;
    }
    setLoading(true);
    return awaitAnswer(
      (signal) => ask(current, signal),
      setValue,
      (why) => {
        setError(why);
        setLoading(false);
      },
    );
  }, [...by, round, current]);
  const again = useCallback(() => setRound((last) => last + 1), []);
  const change = useCallback((how: (value: T) => T) => setValue((last) => (last === undefined ? last : how(last))), []);
  return { value, loading, error, again, change };
}

/** The value once it has not changed for so many milliseconds. */
export function useSettled<T>(value: T, pause: number): T {
  const [settled, setSettled] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => setSettled(value), pause);
    return () => clearTimeout(timer);
  }, [value, pause]);
  return settled;
}

/** An act of the person: at most one at a time, and what fails is said. */
export function useAct(): [busy: boolean, act: (what: () => Promise<void>) => void] {
  const [busy, setBusy] = useState(false);
  const running = useRef(false);
  const act = useCallback((what: () => Promise<void>) => {
    if (running.current) return;
    running.current = true;
    setBusy(true);
    what()
      .catch((error: unknown) => say(describe(error), { bad: true }))
      .finally(() => {
        running.current = false;
        setBusy(false);
      });
  }, []);
  return [busy, act];
}

/** Told when one of these resources changed, also by others. */
export function useWatched(uris: string[], told: () => void): void {
  const current = memory.value;
  const last = useRef(told);
  last.current = told;
  useEffect(() => {
    if (!current || !uris.length) return;
    let timer: ReturnType<typeof setTimeout> | undefined;
    // Several changes at once are one look.
    const stop = current.connection.watch(uris, () => {
      clearTimeout(timer);
      timer = setTimeout(() => last.current(), 150);
    });
    return () => {
      stop();
      clearTimeout(timer);
    };
  }, [current, uris.join("\n")]);
}
