// A number by day as columns. The same numbers stand beside it as a table, for whoever sees no plot.

import { useEffect, useRef, useState } from "preact/hooks";
import uPlot from "uplot";
import { hostTheme, theme } from "../store";
import { showNumber } from "../text";
import { Fold } from "./pieces";

export interface Series {
  title: string;
  days: string[];
  values: number[];
}

const HEIGHT = 180;
const DAY = 86_400;
// A canvas keeps the colours that it was drawn with.
const DARK = matchMedia("(prefers-color-scheme: dark)");

export function DayPlot({ series, hue }: { series: Series; hue: number }) {
  const box = useRef<HTMLDivElement>(null);
  const swatch = useRef<HTMLSpanElement>(null);
  const [dark, setDark] = useState(() => DARK.matches);
  useEffect(() => {
    const look = () => setDark(DARK.matches);
    DARK.addEventListener("change", look);
    return () => DARK.removeEventListener("change", look);
  }, []);
  const themed = `${theme.value} ${hostTheme.value} ${dark}`;
  useEffect(() => {
    const place = box.current;
    if (!place || !swatch.current) return;
    const colour = getComputedStyle(swatch.current).backgroundColor;
    const style = getComputedStyle(place);
    const soft = style.color;
    const line = style.borderColor;
    const axis: uPlot.Axis = { stroke: soft, grid: { stroke: line, width: 1 }, ticks: { stroke: line, width: 1 } };
    const columns = uPlot.paths.bars?.({ size: [0.7, 40, 1] });
    const plot = new uPlot(
      {
        width: Math.max(120, place.clientWidth),
        height: HEIGHT,
        legend: { show: false },
        cursor: { show: false },
        scales: { x: { time: true }, y: { range: (_, _least, most) => [0, Math.max(1, most * 1.08)] } },
        axes: [
          { ...axis, values: (_, seconds) => seconds.map((at) => new Date(at * 1000).toISOString().slice(5, 10)) },
          { ...axis, size: 58, values: (_, values) => values.map((value) => (Number.isInteger(value) ? showNumber(value) : String(value))) },
        ],
        series: [{}, { stroke: colour, fill: colour, ...(columns ? { paths: columns } : {}), points: { show: false } }],
      },
      [series.days.map((day) => Date.parse(day) / 1000), series.values],
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
  const sum = series.values.reduce((total, value) => total + value, 0);
  return (
    <section class="card" aria-label={series.title}>
      <div class="card-head">
        <h2>
          <span ref={swatch} class={`dot hue-${hue}`} />
          {series.title}
        </h2>
        <span class="meta">{showNumber(sum)} in all</span>
      </div>
      <div ref={box} class="plot" aria-hidden="true" />
      <Fold title="As a table">
        <table>
          <thead>
            <tr>
              <th>Day (UTC)</th>
              <th class="number">{series.title}</th>
            </tr>
          </thead>
          <tbody>
            {series.days.map((day, index) => (
              <tr>
                <td>{day}</td>
                <td class="number">{showNumber(series.values[index] ?? 0)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </Fold>
    </section>
  );
}
