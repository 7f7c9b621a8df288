// How much there is: counts, tokens, cost, and what came by day.

import { useMemo, useState } from "preact/hooks";
import { useAsked } from "../parts/asking";
import { Choice, Empty, Failure, Head, Loading } from "../parts/pieces";
import { DayPlot, type Series } from "../parts/plot";
import { memory } from "../store";
import { showBytes, showMoney, showNumber } from "../text";

interface Status {
  version: string;
  database: { kind: string };
  counts: { [name: string]: number };
  stored_bytes: { resource: number; resource_allowed?: number };
  usage: {
    calls: number;
    input_tokens: number;
    output_tokens: number;
    cost_usd: number;
    models: { model: string; calls: number; input_tokens: number; output_tokens: number; cost_usd?: number }[];
  };
  vectors: { model: string; total: number; pending: number; state: string };
  degraded: string[];
}

interface Day {
  day: string;
  messages: number;
  tokens: number;
  entries: number;
  steps: number;
}

const SHOWN = ["messages", "tokens", "entries", "steps"] as const;
const TITLES = { messages: "Messages", tokens: "Tokens of messages", entries: "Notes kept", steps: "Steps of agents" };

export function Numbers() {
  const [span, setSpan] = useState("30");
  const status = useAsked((at, signal) => at.call<Status>("memory_status", {}, signal), []);
  // A server before this tool counts no days.
  const counts = memory.value?.surelyHas("explore_days") ?? false;
  const days = useAsked(
    counts ? (at, signal) => at.call<{ days: Day[] }>("explore_days", { days: Number(span) }, signal) : null,
    [span, counts],
  );
  const series = useMemo(() => SHOWN.map((name) => fill(days.value?.days ?? [], name, Number(span))), [days.value, span]);
  const found = status.value;
  return (
    <div class="view wide">
      <Head title="Numbers" {...(found ? { note: `layerlore ${found.version} on ${found.database.kind}` } : {})}>
        {counts && (
          <Choice
            label="How many days"
            value={span}
            choices={[
              { value: "7", title: "7 days" },
              { value: "30", title: "30 days" },
              { value: "90", title: "90 days" },
              { value: "365", title: "A year" },
            ]}
            onChange={setSpan}
          />
        )}
      </Head>
      {status.error && <Failure error={status.error} again={status.again} />}
      {!found && !status.error && <Loading what="Counting" />}
      {found && (
        <>
          {found.degraded.map((why) => (
            <p class="warning">Degraded: {why}</p>
          ))}
          <div class="tiles">
            {Object.entries(found.counts).map(([name, count]) => (
              <Tile title={name.replace("_", " ")} value={showNumber(count)} />
            ))}
            <Tile title="stored" value={showBytes(found.stored_bytes.resource)} />
            <Tile title="texts with vectors" value={`${showNumber(found.vectors.total - found.vectors.pending)} of ${showNumber(found.vectors.total)}`} />
            <Tile title="cost of models" value={found.usage.cost_usd > 0 && found.usage.cost_usd < 0.01 ? "< $0.01" : showMoney(found.usage.cost_usd)} />
          </div>
        </>
      )}
      {days.error && <Failure error={days.error} again={days.again} />}
      {counts && days.value && (
        <div class="columns">
          {series.map((each, index) => (
            <DayPlot series={each} hue={index} />
          ))}
        </div>
      )}
      {found && (
        <section class="card" aria-label="Models">
          <h2>What models were used for</h2>
          {found.usage.models.length ? (
            <div class="scroll-x" tabIndex={0} role="region" aria-label="Usage by model">
              <table>
                <thead>
                  <tr>
                    <th>Model</th>
                    <th class="number">Calls</th>
                    <th class="number">Tokens in</th>
                    <th class="number">Tokens out</th>
                    <th class="number">Cost</th>
                  </tr>
                </thead>
                <tbody>
                  {found.usage.models.map((each) => (
                    <tr>
                      <td>{each.model}</td>
                      <td class="number">{showNumber(each.calls)}</td>
                      <td class="number">{showNumber(each.input_tokens)}</td>
                      <td class="number">{showNumber(each.output_tokens)}</td>
                      <td class="number">{each.cost_usd === undefined ? "" : showMoney(each.cost_usd)}</td>
                    </tr>
                  ))}
                </tbody>
              </table>
            </div>
          ) : (
            <Empty title="No model was used">
              <p>Programs record what they use with their steps; background work counts what it sends to a model.</p>
            </Empty>
          )}
        </section>
      )}
    </div>
  );
}

function Tile({ title, value }: { title: string; value: string }) {
  return (
    <div class="tile">
      <strong>{value}</strong>
      <span class="meta">{title}</span>
    </div>
  );
}

/** Every day of the span, those without anything too. */
function fill(days: Day[], name: (typeof SHOWN)[number], span: number): Series {
  const known = new Map(days.map((each) => [each.day, each[name]]));
  const today = Math.floor(Date.now() / 86_400_000);
  const all = Array.from({ length: span }, (_, index) => new Date((today - span + 1 + index) * 86_400_000).toISOString().slice(0, 10));
  return { title: TITLES[name], days: all, values: all.map((day) => known.get(day) ?? 0) };
}
