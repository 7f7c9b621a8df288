// The items of a list of any length, read a page at a time where somebody looks: those that are far away are let go.

import { useCallback, useEffect, useMemo, useRef, useState } from "preact/hooks";
import { describe, isAbort } from "../connection/connection";

export const PAGE = 100;
/** So many items before and behind what is seen are read ahead. */
const AHEAD = 60;
/** At once, and then so often it is looked what is seen; where the list moves on by more than a page meanwhile, what it
 * passes is not read. */
const LOOK_MS = 40;
const MOST_HELD = 5000;
const HELD_AROUND = 1500;

export interface Page<T> {
  items: T[];
  total: number;
}

export interface Paged<T> {
  /** Null until it is known. */
  total: number | null;
  error: string;
  at: (index: number) => T | undefined;
  /** Which items are seen: what is missing of them is read. */
  look: (from: number, to: number) => void;
  /** What is known of the list from now on, in place of all that was; null asks for what is seen. */
  begin: (known: { total: number; from: number; items: T[] } | null) => void;
  /** Reads the page that an item stands in, also where it is there already. */
  read: (index: number) => void;
}

/** `read` gives items from a place on, as many as wanted or fewer; another one begins anew. */
export function usePaged<T>(read: (offset: number, limit: number) => Promise<Page<T>>): Paged<T> {
  const [known, setKnown] = useState<{ total: number | null; error: string }>({ total: null, error: "" });
  const [, setDrawn] = useState(0);
  const held = useRef({ items: new Map<number, T>(), loading: new Set<number>(), born: 0, from: 0, to: 0, stale: false, total: null as number | null });
  const timer = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);
  const reader = useRef(read);
  reader.current = read;

  const load = useCallback(async (start: number) => {
    const { born, loading } = held.current;
    if (loading.has(start)) return;
    loading.add(start);
    try {
      for (let at = start; at < start + PAGE; ) {
        const page = await reader.current(at, start + PAGE - at);
        if (born !== held.current.born) return;
        // What stood there before is shown until something else takes its place.
        if (held.current.stale) held.current.items.clear();
        held.current.stale = false;
        page.items.forEach((item, index) => held.current.items.set(at + index, item));
        held.current.total = page.total;
        forget(held.current);
        setKnown((last) => (last.total === page.total && !last.error ? last : { total: page.total, error: "" }));
        setDrawn((last) => last + 1);
        if (!page.items.length || at + page.items.length >= page.total) break;
        at += page.items.length;
      }
    } catch (failure) {
      if (!isAbort(failure) && born === held.current.born) setKnown((last) => ({ ...last, error: describe(failure) }));
    } finally {
      if (born === held.current.born) loading.delete(start);
    }
  }, []);

  const loadSeen = useCallback(() => {
    const { items, from, to, stale, total } = held.current;
    const last = Math.min(Math.max(to + AHEAD, from + 1), total ?? Infinity);
    for (let start = Math.floor(Math.max(0, from - AHEAD) / PAGE) * PAGE; start < last; start += PAGE) {
      let missing = stale;
      for (let at = Math.max(from - AHEAD, start, 0); at < Math.min(last, start + PAGE) && !missing; at++) missing = !items.has(at);
      if (missing) void load(start);
    }
  }, [load]);

  const look = useCallback(
    (from: number, to: number) => {
      held.current.from = from;
      held.current.to = to;
      if (timer.current !== undefined) return;
      loadSeen();
      const wait = (since: number) => {
        timer.current = setTimeout(() => {
          timer.current = undefined;
          const { from: now } = held.current;
          if (Math.abs(now - since) > PAGE) wait(now);
          else loadSeen();
        }, LOOK_MS);
      };
      wait(from);
    },
    [loadSeen],
  );
  useEffect(() => () => clearTimeout(timer.current), []);

  const begin = useCallback(
    (start: { total: number; from: number; items: T[] } | null) => {
      const now = held.current;
      now.born++;
      now.loading = new Set();
      if (!start) {
        now.stale = true;
        loadSeen();
        return;
      }
      now.stale = false;
      now.total = start.total;
      now.items = new Map(start.items.map((item, index) => [start.from + index, item]));
      setKnown({ total: start.total, error: "" });
      setDrawn((last) => last + 1);
    },
    [loadSeen],
  );
  const at = useCallback((index: number) => held.current.items.get(index), []);
  const again = useCallback((index: number) => void load(Math.floor(index / PAGE) * PAGE), [load]);
  return useMemo(() => ({ ...known, at, look, begin, read: again }), [known, at, look, begin, again]);
}

function forget<T>(held: { items: Map<number, T>; from: number; to: number }): void {
  if (held.items.size <= MOST_HELD) return;
  for (const at of held.items.keys()) if (at < held.from - HELD_AROUND || at > held.to + HELD_AROUND) held.items.delete(at);
}
