// Numbers by day, as columns or lines. The same numbers stand beside them as a table, for whoever sees no plot.

import { useEffect, useRef, useState } from "preact/hooks";
import uPlot from "uplot";
import { hostTheme, theme } from "../store";
import { showNumber } from "../text";
import { Fold } from "./pieces";

export interface Part {
  title: string;
  hue: number;
  /** One a day; null is no number, which a line leaves out. */
  values: (number | null)[];
}

export interface Series {
  title: string;
  days: string[];
  /** Several columns stand on one another, several lines beside one another. */
  parts: Part[];
  lines?: boolean;
  /** What stands beside the title; the sum, if left out. */
  note?: string;
  show?: (value: number) => string;
}

const HEIGHT = 180;
const DAY = 86_400;
// A canvas keeps the colours that it was drawn with.
const DARK = matchMedia("(prefers-color-scheme: dark)");

export function DayPlot({ series }: { series: Series }) {
  const box = useRef<HTMLDivElement>(null);
  const head = useRef<HTMLDivElement>(null);
  const [dark, setDark] = useState(() => DARK.matches);
  useEffect(() => {
    const look = () => setDark(DARK.matches);
    DARK.addEventListener("change", look);
    return () => DARK.removeEventListener("change", look);
  }, []);
  const themed = `${theme.value} ${hostTheme.value} ${dark}`;
  const show = series.show ?? showNumber;
  useEffect(() => {
    const place = box.current;
    if (!place || !head.current) return;
    const colours = [...head.current.querySelectorAll(".dot")].map((dot) => getComputedStyle(dot).backgroundColor);
    const style = getComputedStyle(place);
    const soft = style.color;
    const line = style.borderColor;
    const axis: uPlot.Axis = { stroke: soft, grid: { stroke: line, width: 1 }, ticks: { stroke: line, width: 1 } };
    const columns = uPlot.paths.bars?.({ size: [0.7, 40, 1] });
    const drawn = series.parts.map((part, index) => ({
      values: series.lines ? part.values : sumsTo(series.parts, index),
      stroke: colours[index] ?? soft,
    }));
    // The highest sum is behind the others.
    if (!series.lines) drawn.reverse();
    const plot = new uPlot(
      {
        width: Math.max(120, place.clientWidth),
        height: HEIGHT,
        legend: { show: false },
        cursor: { show: false },
        scales: { x: { time: true }, y: { range: (_, _least, most) => [0, Math.max(series.show ? 0.001 : 1, most * 1.08)] } },
        axes: [
          { ...axis, values: (_, seconds) => seconds.map((at) => new Date(at * 1000).toISOString().slice(5, 10)) },
          { ...axis, size: 62, values: (_, values) => values.map((value) => (series.show || Number.isInteger(value) ? show(value) : String(value))) },
        ],
        series: [
          {},
          ...drawn.map(({ stroke }) =>
            series.lines
              ? { stroke, width: 2, spanGaps: true, points: { show: true, size: 5, fill: stroke } }
              : { stroke, fill: stroke, ...(columns ? { paths: columns } : {}), points: { show: false } },
          ),
        ],
      },
      [series.days.map((day) => Date.parse(day) / 1000), ...drawn.map(({ values }) => values)],
      place,
    );
    // A single day would stand without any width.
    const first = Date.parse(series.days[0] ?? "") / 1000;
    const last = Date.parse(series.days[series.days.length - 1] ?? "") / 1000;
    plot.setScale("x", { min: first - DAY, max: last + DAY });
    const observer = new ResizeObserver(() => plot.setSize({ width: Math.max(120, place.clientWidth), height: HEIGHT }));
    observer.observe(place);
    return () => {
      observer.disconnect();
      plot.destroy();
    };
  }, [series, themed]);
  const sum = series.parts.reduce((total, part) => total + part.values.reduce<number>((of, value) => of + (value ?? 0), 0), 0);
  const alone = series.parts.length === 1;
  return (
    <section class="card" aria-label={series.title}>
      <div ref={head}>
        <div class="card-head">
          <h2>
            {alone && <span class={`dot hue-${series.parts[0]?.hue}`} />}
            {series.title}
          </h2>
          <span class="meta">{series.note ?? `${show(sum)} in all`}</span>
        </div>
        {!alone && (
          <p class="legend">
            {series.parts.map((part) => (
              <span>
                <span class={`dot hue-${part.hue}`} />
                {part.title}
              </span>
            ))}
          </p>
        )}
      </div>
      <div ref={box} class="plot" aria-hidden="true" />
      <Fold title="As a table">
        <table>
          <thead>
            <tr>
              <th>Day (UTC)</th>
              {series.parts.map((part) => (
                <th class="number">{part.title}</th>
              ))}
            </tr>
          </thead>
          <tbody>
            {series.days.map((day, index) => (
              <tr>
                <td>{day}</td>
                {series.parts.map(({ values }) => (
                  <td class="number">{values[index] == null ? "" : show(values[index])}</td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </Fold>
    </section>
  );
}

/** The sums of the parts up to one, so that each column stands on those before. */
const sumsTo = (parts: Part[], last: number): number[] =>
  (parts[last]?.values ?? []).map((_, day) => parts.slice(0, last + 1).reduce((sum, part) => sum + (part.values[day] ?? 0), 0));
