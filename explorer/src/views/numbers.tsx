// How much there is: counts, tokens, cost, calls, and what came by day.

import { useId, useState } from "preact/hooks";
import { nameCounted, nameEntryKind } from "../names";
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

interface Calls {
  calls: number;
  failed: number;
  p50_ms?: number;
  p95_ms?: number;
}

interface Day extends Partial<Calls> {
  day: string;
  messages: number;
  tokens: number;
  entries: number;
  steps: number;
  context_tokens?: number;
  recall_tokens?: number;
  hook_tokens?: number;
  captured?: number;
  model_tokens?: number;
  cost_usd?: number;
}

/** A server before these numbers gives the days alone. */
interface Days {
  days: Day[];
  tools?: ({ tool: string } & Calls)[];
  hooks?: { host: string; shown: number; tokens: number; captured: number }[];
  kinds?: { kind: string; entries: number }[];
}

export function Numbers() {
  const [span, setSpan] = useState("30");
  const [tool, setTool] = useState("");
  const status = useAsked((at, signal) => at.call<Status>("memory_status", {}, signal), []);
  // A server before this tool counts no days.
  const counts = memory.value?.surelyHas("explore_days") ?? false;
  const asked = useAsked(
    counts
      ? (at, signal) =>
          at
            .call<Days>("explore_days", { days: Number(span), ...(tool ? { tool } : {}) }, signal)
            .then((answer) => ({ ...answer, plots: plotsOf(answer, Number(span), tool) }))
      : null,
    [span, tool, counts],
  );
  const found = status.value;
  const days = asked.value;
  return (
    <div class="view wide">
      <Head title="Numbers" {...(found ? { note: `layerlore ${found.version} on ${found.database.kind}` } : {})}>
        {counts && (
          <>
            {days?.tools && <ToolField tools={days.tools.map((each) => each.tool)} value={tool} onPick={setTool} />}
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
          </>
        )}
      </Head>
      {status.error && <Failure error={status.error} again={status.again} />}
      {!found && !status.error && <Loading what="Counting" />}
      {found && (
        <>
          {found.degraded.map((why) => (
            <p class="warning">Something is missing: {why}</p>
          ))}
          <div class="tiles">
            {Object.entries(found.counts).map(([name, count]) => (
              <Tile title={nameCounted(name)} value={showNumber(count)} />
            ))}
            <Tile title="stored" value={showBytes(found.stored_bytes.resource)} />
            <Tile title="found by meaning" value={`${showNumber(found.vectors.total - found.vectors.pending)} of ${showNumber(found.vectors.total)}`} />
            <Tile title="cost of models" value={found.usage.cost_usd > 0 && found.usage.cost_usd < 0.01 ? "< $0.01" : showMoney(found.usage.cost_usd)} />
          </div>
        </>
      )}
      {asked.error && <Failure error={asked.error} again={asked.again} />}
      {counts && days && (
        <div class="columns">
          {days.plots.map((each, place) => (
            <DayPlot key={place} series={each} />
          ))}
        </div>
      )}
      {days?.tools && <CallTable tools={days.tools} />}
      {days?.kinds && <KindTable kinds={days.kinds} />}
      {Boolean(days?.hooks?.length) && <HookTable hooks={days?.hooks ?? []} />}
      {found && <ModelTable models={found.usage.models} />}
    </div>
  );
}

/** Whose calls the plots of calls show. One that was not called in these days stays to be seen. */
function ToolField({ tools, value, onPick }: { tools: string[]; value: string; onPick: (tool: string) => void }) {
  const id = useId();
  return (
    <div class="field">
      <label for={id} class="unseen">
        Calls of which tool
      </label>
      <select id={id} value={value} onChange={(event) => onPick(event.currentTarget.value)}>
        <option value="">Calls of all tools</option>
        {(value && !tools.includes(value) ? [value, ...tools] : tools).map((tool) => (
          <option value={tool}>Calls of {tool}</option>
        ))}
      </select>
    </div>
  );
}

function CallTable({ tools }: { tools: NonNullable<Days["tools"]> }) {
  return (
    <section class="card" aria-label="Calls by tool">
      <h2>What agents called in these days</h2>
      {tools.length ? (
        <div class="scroll-x" tabIndex={0} role="region" aria-label="Calls by tool, as a table">
          <table>
            <thead>
              <tr>
                <th>Tool</th>
                <th class="number">Calls</th>
                <th class="number">Failed</th>
                <th class="number">Half within</th>
                <th class="number">95 of 100 within</th>
              </tr>
            </thead>
            <tbody>
              {tools.map((each) => (
                <tr>
                  <td>{each.tool}</td>
                  <td class="number">{showNumber(each.calls)}</td>
                  <td class="number">{showNumber(each.failed)}</td>
                  <td class="number">{showWait(each.p50_ms)}</td>
                  <td class="number">{showWait(each.p95_ms)}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      ) : (
        <Empty title="No agent called anything">
          <p>Calls are counted as they are answered; those of this page are not.</p>
        </Empty>
      )}
    </section>
  );
}

function KindTable({ kinds }: { kinds: NonNullable<Days["kinds"]> }) {
  const most = Math.max(1, ...kinds.map((each) => each.entries));
  return (
    <section class="card" aria-label="Memory by kind">
      <h2>Notes that are kept, by kind</h2>
      {kinds.length ? (
        <table class="measured">
          <thead class="unseen">
            <tr>
              <th>Kind</th>
              <th>Share</th>
              <th>Notes</th>
            </tr>
          </thead>
          <tbody>
            {kinds.map((each, index) => (
              <tr>
                <th scope="row">{nameEntryKind(each.kind)}</th>
                <td>
                  <div class={`measure hue-${index % 8}`} style={{ width: `${(100 * each.entries) / most}%` }} />
                </td>
                <td class="number">{showNumber(each.entries)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      ) : (
        <Empty title="No notes are kept yet" />
      )}
    </section>
  );
}

function HookTable({ hooks }: { hooks: NonNullable<Days["hooks"]> }) {
  return (
    <section class="card" aria-label="Capture by program">
      <h2>What programs captured and showed in these days</h2>
      <div class="scroll-x" tabIndex={0} role="region" aria-label="Capture by program, as a table">
        <table>
          <thead>
            <tr>
              <th>Program</th>
              <th class="number">Messages captured</th>
              <th class="number">Times shown</th>
              <th class="number">Tokens shown</th>
            </tr>
          </thead>
          <tbody>
            {hooks.map((each) => (
              <tr>
                <td>{each.host}</td>
                <td class="number">{showNumber(each.captured)}</td>
                <td class="number">{showNumber(each.shown)}</td>
                <td class="number">{showNumber(each.tokens)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}

function ModelTable({ models }: { models: Status["usage"]["models"] }) {
  return (
    <section class="card" aria-label="Models">
      <h2>What models were used for</h2>
      {models.length ? (
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
              {models.map((each) => (
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

const showWait = (ms: number | undefined): string => (ms === undefined ? "" : `${ms < 10 ? ms : showNumber(ms)} ms`);

/** The plots of an answer: every day of the span is in each, those without anything too. */
function plotsOf(found: Days, span: number, tool: string): Series[] {
  const known = new Map(found.days.map((each) => [each.day, each]));
  const today = Math.floor(Date.now() / 86_400_000);
  const days = Array.from({ length: span }, (_, index) => new Date((today - span + 1 + index) * 86_400_000).toISOString().slice(0, 10));
  const part = (title: string, hue: number, of: (day: Day) => number | undefined, none: number | null = 0) => ({
    title,
    hue,
    values: days.map((day) => {
      const at = known.get(day);
      return (at && of(at)) ?? none;
    }),
  });
  const alone = (title: string, hue: number, of: (day: Day) => number | undefined): Series => ({ title, days, parts: [part(title, hue, of)] });
  const stored = [
    alone("Messages", 0, (day) => day.messages),
    alone("Tokens of messages", 1, (day) => day.tokens),
    alone("Notes kept", 2, (day) => day.entries),
    alone("Steps of agents", 3, (day) => day.steps),
  ];
  if (!found.tools) return stored;
  const of = tool ? ` of ${tool}` : "";
  return [
    ...stored,
    {
      title: `Calls${of}`,
      days,
      parts: [
        part("Answered", 5, (day) => (day.calls ?? 0) - (day.failed ?? 0)),
        part("Failed", 4, (day) => day.failed),
      ],
    },
    {
      title: `How long calls${of} took`,
      days,
      lines: true,
      note: "in milliseconds",
      parts: [part("Half within", 5, (day) => day.p50_ms, null), part("95 of 100 within", 3, (day) => day.p95_ms, null)],
    },
    {
      title: "Tokens shown to models",
      days,
      parts: [
        part("Before an answer", 0, (day) => day.context_tokens),
        part("Found by a search", 1, (day) => day.recall_tokens),
        part("Shown unasked", 2, (day) => day.hook_tokens),
      ],
    },
    alone("Messages captured from programs", 6, (day) => day.captured),
    { ...alone("Cost of models", 4, (day) => day.cost_usd), show: showMoney },
    alone("Tokens of models", 7, (day) => day.model_tokens),
  ];
}
