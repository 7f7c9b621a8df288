// A list of any length of which only what is seen is in the page. Rows have the height that they turn out to have.

import type { ComponentChildren } from "preact";
import { useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";

/** The sum of heights up to any row, in logarithmic time: a Fenwick tree. */
class Heights {
  private readonly own: Float64Array;
  private readonly tree: Float64Array;
  readonly total: () => number;

  constructor(
    readonly count: number,
    estimate: number,
    before?: Heights,
  ) {
    this.own = new Float64Array(count).fill(estimate);
    if (before) this.own.set(before.own.subarray(0, Math.min(count, before.count)));
    this.tree = new Float64Array(count + 1);
    for (let at = 1; at <= count; at++) {
      this.tree[at] = (this.tree[at] ?? 0) + (this.own[at - 1] ?? 0);
      const parent = at + (at & -at);
      if (parent <= count) this.tree[parent] = (this.tree[parent] ?? 0) + (this.tree[at] ?? 0);
    }
    this.total = () => this.above(count);
  }

  above(row: number): number {
    let sum = 0;
    for (let at = row; at > 0; at -= at & -at) sum += this.tree[at] ?? 0;
    return sum;
  }

  set(row: number, height: number): number {
    const change = height - (this.own[row] ?? 0);
    if (!change) return 0;
    this.own[row] = height;
    for (let at = row + 1; at <= this.count; at += at & -at) this.tree[at] = (this.tree[at] ?? 0) + change;
    return change;
  }

  rowAt(offset: number): number {
    let row = 0;
    for (let step = 1 << Math.floor(Math.log2(Math.max(1, this.count))); step > 0; step >>= 1) {
      const next = row + step;
      if (next <= this.count && (this.tree[next] ?? 0) <= offset) {
        row = next;
        offset -= this.tree[next] ?? 0;
      }
    }
    return Math.min(row, Math.max(0, this.count - 1));
  }
}

interface Props {
  count: number;
  /** Of a row that was never seen, in pixels. */
  estimate: number;
  label: string;
  row: (index: number) => ComponentChildren;
  /** The row that is shown first, and again whenever `scrollKey` changes; "end" is the last. */
  scrollTo?: number | "end";
  scrollKey?: string;
  onRange?: (from: number, to: number) => void;
  /** What makes the rows others than before, so that their heights are forgotten. */
  listKey?: string;
}

const BEYOND = 400;

export function VirtualList({ count, estimate, label, row, scrollTo, scrollKey = "", onRange, listKey = "" }: Props) {
  const outer = useRef<HTMLDivElement>(null);
  const known = useRef<{ key: string; heights: Heights } | null>(null);
  const [place, setPlace] = useState({ top: 0, height: 800 });
  const [, setMeasured] = useState(0);
  const [focused, setFocused] = useState(0);
  const made = useRef<{ by: Props["row"]; rows: Map<number, ComponentChildren> }>({ by: row, rows: new Map() });

  const heights = useMemo(() => {
    const before = known.current?.key === listKey ? known.current.heights : undefined;
    const made = new Heights(count, estimate, before);
    known.current = { key: listKey, heights: made };
    return made;
  }, [count, estimate, listKey]);

  const first = heights.rowAt(Math.max(0, place.top - BEYOND));
  const last = Math.min(count, heights.rowAt(place.top + place.height + BEYOND) + 1);

  // Rows that turn out higher or lower than thought, above what is seen, must not move it.
  const settle = useCallback(() => {
    const box = outer.current;
    if (!box) return;
    let moved = 0;
    let changed = false;
    for (const item of box.querySelectorAll<HTMLElement>("[data-row]")) {
      const index = Number(item.dataset["row"]);
      const height = item.offsetHeight;
      if (!height || index >= heights.count) continue;
      const above = heights.above(index) < box.scrollTop;
      const change = heights.set(index, height);
      if (change) {
        changed = true;
        if (above) moved += change;
      }
    }
    if (moved && !sought.current) box.scrollTop += moved;
    if (changed) setMeasured((last) => last + 1);
  }, [heights]);

  const atEnd = useRef(false);
  const sought = useRef<number | null>(null);
  useLayoutEffect(() => {
    if (scrollTo === undefined || !count) return;
    sought.current = scrollTo === "end" ? count - 1 : Math.max(0, Math.min(count - 1, scrollTo));
    setFocused(sought.current);
    setMeasured((last) => last + 1);
  }, [scrollKey, scrollTo, listKey, count > 0]);

  useLayoutEffect(() => {
    settle();
    const box = outer.current;
    if (!box || sought.current === null) return;
    const wanted = scrollTo === "end" ? heights.total() : Math.max(0, heights.above(sought.current) - 60);
    const target = Math.min(wanted, Math.max(0, heights.total() - box.clientHeight));
    if (Math.abs(box.scrollTop - target) > 1) box.scrollTop = target;
    const shown = heights.rowAt(target);
    // The heights on the way are known once those rows were drawn; then it stays where it is.
    if (box.querySelector(`[data-row="${shown}"]`)) sought.current = null;
  });

  useEffect(() => {
    const box = outer.current;
    if (!box) return;
    // A frame in which the same rows are seen draws nothing.
    const rowsAt = (at: { top: number; height: number }) =>
      `${heights.rowAt(Math.max(0, at.top - BEYOND))} ${heights.rowAt(at.top + at.height + BEYOND)}`;
    const look = () => {
      atEnd.current = box.scrollTop + box.clientHeight >= box.scrollHeight - 2;
      setPlace((last) => {
        const next = { top: box.scrollTop, height: box.clientHeight };
        return rowsAt(next) === rowsAt(last) ? last : next;
      });
    };
    let frame = 0;
    const onScroll = () => {
      cancelAnimationFrame(frame);
      frame = requestAnimationFrame(look);
    };
    box.addEventListener("scroll", onScroll, { passive: true });
    const observer = new ResizeObserver(() => {
      // What is above the list may grow once it is known: whoever saw the last row goes on seeing it.
      if (scrollTo === "end" && atEnd.current) box.scrollTop = box.scrollHeight;
      look();
      settle();
    });
    observer.observe(box);
    look();
    return () => {
      box.removeEventListener("scroll", onScroll);
      cancelAnimationFrame(frame);
      observer.disconnect();
    };
  }, [settle]);

  useEffect(() => {
    if (count) onRange?.(first, last);
  }, [first, last, count, listKey]);

  const move = (event: KeyboardEvent) => {
    const box = outer.current;
    const steps: { [key: string]: number } = { ArrowDown: 1, ArrowUp: -1, Home: -count, End: count };
    const step = steps[event.key];
    const target = event.target as HTMLElement;
    if (step === undefined || !box || !target.matches("[data-row]")) return;
    event.preventDefault();
    const next = Math.max(0, Math.min(count - 1, (wanted.current ?? focused) + step));
    setFocused(next);
    sought.current = null;
    const top = heights.above(next);
    if (top < box.scrollTop) box.scrollTop = top;
    else if (heights.above(next + 1) > box.scrollTop + box.clientHeight)
      box.scrollTop = heights.above(next + 1) - box.clientHeight;
    setPlace({ top: box.scrollTop, height: box.clientHeight });
    wanted.current = next;
  };
  // The row that a key moved to, until it has the focus: an effect may run for a drawing before the last key's.
  const wanted = useRef<number | null>(null);
  useEffect(() => {
    if (wanted.current === null) return;
    const item = outer.current?.querySelector<HTMLElement>(`[data-row="${wanted.current}"]`);
    if (!item) return;
    wanted.current = null;
    item.focus({ preventScroll: true });
  });

  // A row is made again only when what makes rows changed, not whenever the list moves.
  if (made.current.by !== row) made.current = { by: row, rows: new Map() };
  const drawn = new Map<number, ComponentChildren>();
  const rows = [];
  const reachable = focused >= first && focused < last ? focused : first;
  for (let index = first; index < last; index++) {
    const inside = made.current.rows.get(index) ?? row(index);
    drawn.set(index, inside);
    rows.push(
      <div
        key={index}
        data-row={index}
        role="listitem"
        aria-setsize={count}
        aria-posinset={index + 1}
        tabIndex={index === reachable ? 0 : -1}
        onFocus={() => setFocused(index)}
      >
        {inside}
      </div>,
    );
  }
  made.current.rows = drawn;
  return (
    <div ref={outer} class="virtual" onKeyDown={move} tabIndex={count ? -1 : 0}>
      <div style={{ height: `${heights.total()}px`, position: "relative" }}>
        <div
          role="list"
          aria-label={label}
          style={{ position: "absolute", left: 0, right: 0, top: `${heights.above(first)}px` }}
        >
          {rows}
        </div>
      </div>
    </div>
  );
}
