// The explorer's page in Chromium, against the server at MEMORY_URL, whose memory is empty when this begins.
import assert from "node:assert/strict";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { KEY, URL_OF, attacks, call, fill, rpc } from "./memory.mjs";
import { VIEWS } from "./views.mjs";

const ROOT = process.env.EXPLORER_ROOT;
const require = createRequire(join(ROOT, "explorer/package.json"));
const { chromium } = require("playwright-core");
const AXE = await readFile(require.resolve("axe-core/axe.min.js"), "utf8");
const SHOTS = join(ROOT, ".explorer-shots");
const DATABASE = process.env.DATABASE;

// Of the documentation, taken where EXPLORER_PICTURES names a folder.
const PICTURES = { remembered: "light", context: "light", recall: "dark", conversation: "light" };

let browser;
let context;
let page;
const dialogs = [];
const foreign = [];
const broken = [];

function watch(opened) {
  opened.on("dialog", (dialog) => {
    dialogs.push(dialog.message());
    void dialog.dismiss();
  });
  opened.on("request", (request) => {
    const url = request.url();
    if (!url.startsWith(URL_OF) && !url.startsWith("data:") && !url.startsWith("blob:")) foreign.push(url);
  });
  opened.on("pageerror", (error) => broken.push(String(error.stack)));
  opened.on("console", (message) => {
    if (message.type() === "error") broken.push(message.text());
  });
}

async function show(route, wanted) {
  await page.evaluate((hash) => {
    location.hash = hash;
  }, route);
  if (wanted) await page.waitForSelector(wanted);
}

const said = (text) => page.locator(".toast", { hasText: text }).last();

async function undo(text) {
  const toast = said(text);
  await toast.waitFor();
  await toast.getByRole("button", { name: "Undo" }).click();
}

before(async () => {
  await mkdir(SHOTS, { recursive: true });
  await fill();
  browser = await chromium.launch({ executablePath: process.env.CHROMIUM, args: ["--no-sandbox"] });
  context = await browser.newContext({ viewport: { width: 1280, height: 860 }, locale: "en-GB", reducedMotion: "reduce" });
  context.setDefaultTimeout(30_000);
  page = await context.newPage();
  watch(page);
});

after(async () => {
  await browser?.close();
});

test("a wrong key is refused in plain words, and the right one opens the first view", async () => {
  await page.goto(`${URL_OF}/explore`);
  await page.getByLabel("Key").fill("llk_wrong");
  await page.getByRole("button", { name: "Sign in" }).click();
  assert.match(await page.getByRole("alert").textContent(), /not known/);
  assert.equal(broken.splice(0).filter((text) => !text.includes("401")).length, 0);
  await page.getByLabel("Key").fill(KEY);
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.waitForSelector(".entry-text");
  assert.equal(await page.getByRole("heading", { level: 1 }).textContent(), "What I remember about you");
});

test("a page that is loaded again needs no second sign-in, and says how long its first view took", async (t) => {
  await page.reload();
  await page.waitForSelector(".entry-text");
  const took = await page.evaluate(() => Math.round(performance.now()));
  const loaded = await page.evaluate(() => Math.round(performance.getEntriesByType("navigation")[0].domContentLoadedEventEnd));
  t.diagnostic(`${DATABASE}: the page was there after ${loaded} ms, its first view at most ${took - loaded} ms later`);
});

test("every note shows its words in their message, and what it took the place of", async () => {
  const note = page.locator("article", { hasText: "The budget for the flat is 1,600 euros a month." });
  await note.getByText("show it in its message").click();
  assert.equal(await note.locator(".message mark").textContent(), "my budget for the flat is 1,600 euros a month now");
  await note.getByText("Took the place of 1 earlier note").click();
  await note.getByText("The budget for the flat is 1,400 euros a month.").waitFor();
  assert.equal(await page.locator("section[aria-label=Profile]").getByText("Has a bad knee").count(), 1);
});

test("searching narrows the notes as one types, and says so where there are none", async () => {
  await page.keyboard.press("Escape");
  await page.locator("h1").click();
  await page.keyboard.press("/");
  await page.keyboard.type("bullet");
  await page.locator("article").nth(1).waitFor({ state: "detached" });
  assert.equal(await page.locator("article mark").first().textContent(), "bullet");
  await page.keyboard.type("zzz");
  await page.getByText("No note has these words").waitFor();
  await page.getByLabel("Search what is remembered").fill("");
  await page.locator("article").nth(2).waitFor();
});

test("a note is forgotten and brought back, corrected and put back", async () => {
  const gone = page.locator("article", { hasText: "The user wants answers in short bullet points." });
  await gone.getByRole("button", { name: "Forget" }).click();
  await gone.waitFor({ state: "detached" });
  await undo("Forgotten.");
  await gone.waitFor();
  await gone.getByRole("button", { name: "Correct" }).click();
  await page.getByLabel(/What is true instead/).fill("The user wants answers in full sentences.");
  await page.locator("dialog").getByRole("button", { name: "Correct" }).click();
  const fresh = page.locator("article", { hasText: "The user wants answers in full sentences." });
  await fresh.waitFor();
  await gone.waitFor({ state: "detached" });
  await undo("Corrected.");
  await gone.waitFor();
  await fresh.waitFor({ state: "detached" });
});

test("a note is pinned and comes first, and one that is marked as wrong is listed apart", async () => {
  const wanted = page.locator("article", { hasText: "The user wants answers in short bullet points." });
  const first = page.locator("article").first();
  await wanted.getByRole("button", { name: "Pin", exact: true }).click();
  await wanted.getByText("pinned", { exact: true }).waitFor();
  assert.match(await first.textContent(), /short bullet points/);
  await undo("Pinned.");
  await wanted.getByText("pinned", { exact: true }).waitFor({ state: "detached" });
  await wanted.getByRole("button", { name: "Mark as wrong" }).click();
  await wanted.waitFor({ state: "detached" });
  await page.getByText(/Marked as wrong \(1\)/).click();
  await wanted.getByText("marked as wrong", { exact: true }).waitFor();
  await undo("Marked as wrong.");
  await wanted.getByRole("button", { name: "Mark as wrong" }).click();
  await wanted.waitFor({ state: "detached" });
  // Another day, the list is still there.
  await page.reload();
  await page.getByText(/Marked as wrong \(1\)/).click();
  await wanted.getByRole("button", { name: "It is right after all" }).click();
  await wanted.getByRole("button", { name: "Mark as wrong" }).waitFor();
  assert.equal(await page.getByText(/Marked as wrong \(/).count(), 0);
});

test("a context is shown block by block, with what is left out, and in the shapes of providers", async () => {
  await show("#/context/berlin-trip", ".bar");
  await page.getByText("what follows changes with each question").waitFor();
  assert.match(await page.locator(".bar").getAttribute("aria-label"), /of 8000 tokens: Profile \d+/);
  const slider = page.getByLabel(/Most tokens/);
  await slider.focus();
  await page.keyboard.press("Home");
  await page.getByText(/Left out, because at most 500 tokens fit/).waitFor();
  await page.keyboard.press("End");
  await page.getByText(/of 200,000 tokens/).waitFor();
  await page.getByText("OpenAI", { exact: true }).click();
  await page.locator("pre", { hasText: '"role": "system"' }).waitFor();
});

test("a search says why each line was found, and greys what is not as sure as wanted", async () => {
  await show("#/recall?q=Which%20budget%20for%20the%20flat", ".hit .parts");
  await page.locator(".badge", { hasText: "by words" }).waitFor();
  await page.locator(".hit .parts").first().getByText("the same words").waitFor();
  const slider = page.getByLabel(/How sure it must be/);
  await slider.focus();
  await page.keyboard.press("End");
  await page.keyboard.press("ArrowLeft");
  await page.locator(".hit.held").first().waitFor();
  await page.keyboard.press("Home");
  await page.getByLabel("Question").fill("");
  await page.getByText("Ask something").waitFor();
});

test("a conversation shows its calls and images, loses a message and gets it back, and follows what others say", async () => {
  await show("#/conversation", ".picked");
  await page.getByLabel("Search titles and names").fill("berlin-trip");
  await page.getByText("1 conversation found").waitFor();
  await page.locator(".picked").click();
  await page.locator("article", { hasText: "It looks bright." }).waitFor();
  const called = page.locator("article", { hasText: "calls search_flats" });
  await called.locator("summary").click();
  await called.getByText('"max_rent": 1400').waitFor();
  await page.getByRole("button", { name: /Show image/ }).click();
  await page.locator("article img[src^='data:image/png']").waitFor();
  const lost = page.locator("article", { hasText: "It looks bright." });
  await lost.getByRole("button", { name: /Delete message/ }).click();
  await lost.waitFor({ state: "detached" });
  await undo("1 message deleted.");
  await lost.waitFor();
  await call("add_messages", { thread_id: "berlin-trip", messages: [{ role: "user", content: "Somebody else adds this line." }] });
  await page.locator("article", { hasText: "Somebody else adds this line." }).waitFor();
  await page.getByRole("button", { name: "Delete last question" }).click();
  await page.locator("dialog").getByRole("button", { name: "Delete" }).click();
  await page.locator("article", { hasText: "Somebody else adds this line." }).waitFor({ state: "detached" });
});

test("a whole conversation is deleted after a question, and brought back", async () => {
  await show("#/conversation/tea-3", "article");
  await page.getByRole("button", { name: "Delete conversation" }).click();
  await page.locator("dialog[open]").waitFor();
  await page.keyboard.press("Escape");
  await page.locator("dialog").waitFor({ state: "detached" });
  await page.getByRole("button", { name: "Delete conversation" }).click();
  await page.locator("dialog").getByRole("button", { name: "Delete" }).click();
  await undo("Conversation deleted.");
  await page.locator("article", { hasText: "Tea number 3 is fine." }).waitFor();
});

test("steps are a tree with sub-agents", async () => {
  await show("#/conversation/berlin-trip?tab=steps", ".steps li");
  await page.getByText("sub-agent scout, 1 step").waitFor();
});

test("a document shows what changed, goes back to a version, and the restore is undone", async () => {
  await show("#/documents", ".diff .added");
  assert.match((await page.locator(".diff .added").allTextContents()).join("\n"), /Has a bad knee/);
  await page.getByRole("button", { name: /^Version 1/ }).click();
  await page.getByRole("button", { name: "Bring this back" }).click();
  await page.locator("dialog").getByRole("button", { name: "Bring back" }).click();
  await page.locator(".diff .removed", { hasText: "Has a bad knee" }).waitFor();
  await undo("Version 1 is back.");
  await page.locator(".diff .added", { hasText: "Has a bad knee" }).waitFor();
});

test("a run's call is approved, another's denied, and a run is cancelled after a question", async () => {
  await show("#/work", "article");
  const run = (id) => page.locator(`article[aria-label="Run ${id}"]`);
  await run("mailer-1").getByRole("button", { name: "Approve" }).click();
  await said("Approved.").waitFor();
  await run("mailer-1").getByRole("button", { name: "Approve" }).waitFor({ state: "detached" });
  await run("mailer-2").getByRole("button", { name: "Deny" }).click();
  await said("Denied.").waitFor();
  await run("hunt-1").getByRole("button", { name: "Cancel run" }).click();
  await page.locator("dialog").getByRole("button", { name: "Cancel the run" }).click();
  await run("hunt-1").getByText("cancelled", { exact: true }).waitFor();
  const decided = await call("get_run", { run_id: "mailer-1" });
  assert.deepEqual(decided.resumed.map((each) => each.data), [{ approved: true }]);
  await show("#/work/berlin-trip?tab=plan", ".steps li");
  await page.getByText("1 of 3 steps done").waitFor();
  await page.getByText(/bounced|550 no such user/).waitFor();
});

test("numbers are counted, and drawn where the server counts days", async () => {
  await show("#/numbers", ".tile");
  await page.getByText("gpt-4o-mini").waitFor();
  await page.locator("canvas").nth(3).waitFor();
  await page.locator("section[aria-label=Messages] summary").click();
  const today = page.locator("section[aria-label=Messages] tbody tr").last();
  assert.ok(Number((await today.locator("td").last().textContent()).replaceAll(",", "")) >= 32);
});

test("the calls of agents are drawn, by tool too, with how long they took, what models were shown, and notes by kind", async () => {
  await call("recall_memory", { query: "budget" });
  await call("get_context", { thread_id: "berlin-trip" });
  await assert.rejects(call("recall_memory", { query: "tea", thread_id: "nobody said this" }));
  await show("#/recall");
  await show("#/numbers", ".tile");
  const ofToday = async (title) => {
    const card = page.locator("section.card").filter({ has: page.getByRole("heading", { name: title, exact: true }) });
    await card.waitFor();
    if (!(await card.locator("details[open]").count())) await card.locator("summary").click();
    await card.locator("table").waitFor();
    const cells = await card.locator("tbody tr").last().locator("td").allTextContents();
    return cells.slice(1).map((cell) => Number(cell.replaceAll(/[,$]/g, "")));
  };
  const [answered, failed] = await ofToday("Calls");
  assert.ok(answered > 30 && failed >= 1, `${answered} answered, ${failed} failed`);
  const [half, most] = await ofToday("How long calls took");
  assert.ok(half > 0 && half <= most, `half within ${half}, 95 of 100 within ${most}`);
  const [contexts, recalled, unasked] = await ofToday("Tokens shown to models");
  assert.ok(contexts > 0 && recalled > 0 && unasked === 0, `${contexts} in contexts, ${recalled} recalled`);
  assert.deepEqual(await ofToday("Messages captured from programs"), [0]);
  assert.ok((await ofToday("Cost of models"))[0] > 0);
  assert.deepEqual(await ofToday("Tokens of models"), [150]);
  await page.locator("section[aria-label='Calls by tool']").getByText("add_messages").waitFor();
  const kinds = page.locator("section[aria-label='Memory by kind']");
  assert.deepEqual((await kinds.locator("tbody th").allTextContents()).sort(), ["correction", "fact", "preference"]);
  await page.getByLabel("Calls of which tool").selectOption("recall_memory");
  await page.getByRole("heading", { name: "How long calls of recall_memory took" }).waitFor();
  const [ofRecall, ofRecallFailed] = await ofToday("Calls of recall_memory");
  assert.ok(ofRecall < answered && ofRecall >= 1 && ofRecallFailed === 1);
});

test("everything about something is shown first, forgotten after a question, and brought back", async () => {
  const talk = { thread_id: "teeth" };
  await call("add_messages", { ...talk, messages: [{ role: "user", content: "My dentist is Doctor Ferro." }] });
  await call("remember", { ...talk, content: "The user's dentist is Doctor Ferro.", evidence: "My dentist is Doctor Ferro.", source: "user_assertion" });
  await call("plan", { ...talk, action: "create", plan: { goal: "Call the dentist", steps: [{ description: "Look up the number" }] } });
  const stored = async () => {
    const { hits } = await call("recall_memory", { query: "Doctor Ferro", format: "json" });
    return hits.filter((hit) => hit.text.includes("Ferro")).map((hit) => hit.kind).sort();
  };
  assert.deepEqual(await stored(), ["entry", "message"]);
  await show("#/remembered", ".entry-text");
  await page.getByLabel("Search what is remembered").fill("dentist");
  await page.getByRole("button", { name: "Forget everything about “dentist”" }).click();
  const dialog = page.locator("dialog");
  await dialog.getByRole("heading", { name: "Forget everything about “dentist”?" }).waitFor();
  const items = (await dialog.locator(".items").first().locator("li").allTextContents()).join("\n");
  assert.match(items, /^note The user's dentist is Doctor Ferro\./);
  assert.match(items, /user My dentist is Doctor Ferro\. in teeth · /);
  await dialog.getByText("You can bring it back for 30 days").waitFor();
  assert.match(await dialog.locator(".items").last().textContent(), /plan.*Call the dentist.*teeth/);
  await page.screenshot({ path: join(SHOTS, `${DATABASE}-forget.png`) });
  await dialog.getByRole("button", { name: "Cancel" }).click();
  await dialog.waitFor({ state: "detached" });
  assert.deepEqual(await stored(), ["entry", "message"]);
  await page.getByRole("button", { name: "Show what would go" }).click();
  await dialog.getByRole("button", { name: "Forget all of it" }).click();
  const box = page.locator("section[aria-label=Forget]");
  await box.getByText(/^Forgotten: 1 note, 1 message.*You can bring it back until /).waitFor();
  await box.getByText("This stays, though it is about it too.").waitFor();
  await page.screenshot({ path: join(SHOTS, `${DATABASE}-forgotten.png`) });
  assert.deepEqual(await stored(), []);
  await box.getByRole("button", { name: "Bring it back" }).click();
  await box.getByText("It is back.").waitFor();
  assert.deepEqual(await stored(), ["entry", "message"]);
});

test("what was forgotten is still listed after the page is loaded again, and undone from there", async () => {
  await page.getByLabel("Forget everything about").fill("Doctor Ferro");
  await page.keyboard.press("Enter");
  await page.locator("dialog").getByRole("button", { name: "Forget all of it" }).click();
  await page.getByText(/^Forgotten: 1 note, 1 message/).waitFor();
  await page.reload();
  const acts = page.locator("section[aria-label='What can be undone']");
  const newest = acts.locator("li").first();
  await newest.getByText(/messages of 'teeth' deleted/).waitFor();
  await newest.getByRole("button", { name: "Undo" }).click();
  await acts.getByText("It is back.").waitFor();
});

test("a request to forget says where there is nothing, and where there is more than it shows at once", async () => {
  await show("#/keeping", ".card");
  const box = page.locator("section[aria-label=Forget]");
  await page.getByLabel("Forget everything about").fill("submarines");
  await page.keyboard.press("Enter");
  await box.getByText("Nothing that is remembered is about this.").waitFor();
  const messages = Array.from({ length: 60 }, (_, at) => ({ role: "user", content: `The zeppelin ${at} flies.` }));
  await call("add_messages", { thread_id: "airships", messages });
  await page.getByLabel("Forget everything about").fill("zeppelin");
  await page.keyboard.press("Enter");
  await page.locator("dialog").getByText("and 10 more, which you are asked about afterwards").waitFor();
  await page.locator("dialog").getByRole("button", { name: "Forget all of it" }).click();
  await box.getByText(/^Forgotten: 50 messages/).waitFor();
  await box.getByRole("button", { name: "Show 10 more about it" }).click();
  await page.locator("dialog").getByRole("button", { name: "Forget all of it" }).click();
  await box.getByText(/^Forgotten: 10 messages/).waitFor();
  assert.equal(await box.getByRole("button", { name: /more about it/ }).count(), 0);
});

test("a key that may not forget is told so, and offered no box", async () => {
  await page.route("**/mcp", async (route) => {
    if (route.request().postDataJSON().method !== "tools/list") return route.fallback();
    const response = await route.fetch();
    const reply = await response.json();
    reply.result.tools = reply.result.tools.filter((tool) => !["forget", "undo", "erase_memory"].includes(tool.name));
    await route.fulfill({ response, json: reply });
  });
  await show("#/keeping");
  await page.reload();
  const box = page.locator("section[aria-label=Forget]");
  await box.getByText("Forgetting needs the right forget, which this key does not have.").waitFor();
  assert.equal(await box.getByRole("button").count(), 0);
  assert.equal(await page.locator("section[aria-label='What can be undone']").count(), 0);
  await show("#/remembered", ".entry-text");
  assert.equal(await page.getByRole("button", { name: /Forget everything about/ }).count(), 0);
  await page.unroute("**/mcp");
  await page.reload();
  await page.getByRole("button", { name: /Forget everything about/ }).waitFor();
});

test("what is seen is exported, and a conversation erased after its preview and a word", async () => {
  await show("#/keeping", ".card");
  const saving = page.waitForEvent("download");
  await page.getByRole("button", { name: "Export" }).click();
  const saved = await readFile(await (await saving).path(), "utf8");
  const kinds = saved.trim().split("\n").map((line) => JSON.parse(line).type);
  assert.deepEqual([...new Set(kinds)].sort(), ["entry", "message", "profile", "thread"]);
  assert.ok(kinds.filter((kind) => kind === "message").length >= 34);
  const erase = page.locator("section[aria-label=Erase]");
  await erase.getByLabel("Conversation").selectOption("tea-0");
  await erase.getByRole("button", { name: "Show what would be erased" }).click();
  const yes = page.locator("dialog").getByRole("button", { name: "Erase for good" });
  await yes.waitFor();
  const counted = await page.locator("dialog tr").allTextContents();
  assert.deepEqual(counted.slice(0, 2), ["conversations1", "messages2"]);
  assert.match(counted[2], /^records that the server made from them\d/);
  assert.equal(await yes.isDisabled(), true);
  await page.getByLabel(/to confirm/).fill("erase");
  await yes.click();
  await erase.getByText(/^Erased for good: conversations: 1, messages: 2, records made from them: .* Receipt /).waitFor();
  const { threads } = await call("list_threads", { limit: 100 });
  assert.equal(threads.some((each) => each.thread_id === "tea-0"), false);
  await page.locator("section[aria-label=Journal]").getByText("erase_memory").first().waitFor();
});

async function takePictures(name, scheme) {
  if (!process.env.EXPLORER_PICTURES || PICTURES[name] !== scheme) return;
  const session = await context.newCDPSession(page);
  const { data } = await session.send("Page.captureScreenshot", { format: "webp", quality: 82 });
  await mkdir(process.env.EXPLORER_PICTURES, { recursive: true });
  await writeFile(join(process.env.EXPLORER_PICTURES, `explorer-${name}.webp`), Buffer.from(data, "base64"));
}

test("every view is whole at each width, and axe finds nothing serious in either theme", async () => {
  const found = [];
  await page.evaluate(() => document.querySelectorAll(".toast button[aria-label=Dismiss]").forEach((button) => button.click()));
  for (const scheme of ["light", "dark"]) {
    await page.emulateMedia({ colorScheme: scheme });
    for (const [name, route, wanted] of VIEWS) {
      await page.setViewportSize({ width: 1280, height: 860 });
      await show(route, wanted);
      await page.waitForSelector(".loading", { state: "detached" });
      if (DATABASE === "sqlite" || name === "remembered") {
        // The page's policy lets no script in but its own; the tests' own way in is not a script of the page.
        const { violations } = await page.evaluate(`(() => { ${AXE}; return axe.run(document, { resultTypes: ["violations"] }); })()`);
        for (const each of violations)
          if (["serious", "critical"].includes(each.impact))
            found.push(`${name} ${scheme}: ${each.id}: ${each.nodes.map((node) => node.html.slice(0, 120)).slice(0, 3).join(" ")}`);
      }
      for (const [width, height] of [[360, 740], [1280, 860], [2000, 1200]]) {
        if (scheme === "dark" && width !== 1280) continue;
        await page.setViewportSize({ width, height });
        const wide = await page.evaluate(() => document.documentElement.scrollWidth);
        assert.ok(wide <= width, `${name} is ${wide} wide at ${width}`);
        await page.screenshot({ path: join(SHOTS, `${DATABASE}-${name}-${width}-${scheme}.png`) });
        if (width === 1280) await takePictures(name, scheme);
      }
    }
  }
  await page.emulateMedia({ colorScheme: "light" });
  await page.setViewportSize({ width: 1280, height: 860 });
  assert.deepEqual(found, []);
});

test("/ goes to the search from every view, and not past an open question", async () => {
  for (const [name, route, wanted] of VIEWS) {
    await show(route, wanted);
    await page.locator("h1").click();
    await page.keyboard.press("/");
    await page.waitForFunction(() => document.activeElement.matches("input[type=search]"));
    assert.equal(await page.evaluate(() => document.activeElement.value.includes("/")), false, name);
  }
  await show("#/conversation/berlin-trip", ".message");
  await page.locator("h1").click();
  await page.keyboard.press("/");
  await page.getByRole("heading", { name: "Search everything" }).waitFor();
  await page.keyboard.type("lift");
  await page.locator(".hit", { hasText: "I need a lift" }).first().waitFor();
  assert.equal(await page.getByLabel("Conversation", { exact: true }).inputValue(), "berlin-trip");
  await show("#/conversation/berlin-trip", ".message");
  await page.getByRole("button", { name: "Delete conversation" }).click();
  await page.keyboard.press("/");
  await page.keyboard.press("Escape");
  await page.locator("dialog").waitFor({ state: "detached" });
  await page.getByRole("button", { name: "Delete conversation" }).waitFor();
});

test("on a phone a toast takes a line of its own, and what is below it can still be deleted", async () => {
  await page.setViewportSize({ width: 375, height: 667 });
  await show("#/conversation/tea-5", ".message");
  const buttons = page.getByRole("button", { name: /^Delete message/ });
  assert.equal(await buttons.count(), 2);
  for (const text of ["Tea number 5 is fine.", "Which tea is best at 5 o'clock?"]) {
    const message = page.locator("article", { hasText: text });
    await message.getByRole("button", { name: /^Delete message/ }).click();
    await message.waitFor({ state: "detached" });
  }
  await said("1 message deleted.").waitFor();
  const box = (of) => page.locator(of).boundingBox();
  const [toasts, view] = [await box(".toasts"), await box("main")];
  assert.ok(toasts.height <= 52, `the toasts are ${toasts.height} high`);
  assert.ok(view.y + view.height <= toasts.y, "they cover the view");
  assert.ok(toasts.y + toasts.height <= 667, "they are out of sight");
  await page.screenshot({ path: join(SHOTS, `${DATABASE}-toast-375.png`) });
  for (const left of [1, 2]) {
    await page.locator(".toast:visible").getByRole("button", { name: "Undo" }).click();
    await page.locator("article").nth(left - 1).waitFor();
  }
  await page.setViewportSize({ width: 1280, height: 860 });
});

test("a question opens at its top, however long it is", async () => {
  await page.setViewportSize({ width: 375, height: 400 });
  await show("#/keeping", ".card");
  await page.getByRole("button", { name: "Show what would be erased" }).click();
  const heading = page.locator("dialog h2");
  await heading.waitFor();
  const dialog = page.locator("dialog");
  assert.ok(await dialog.evaluate((shown) => shown.scrollHeight > shown.clientHeight), "it fits, and so proves nothing");
  assert.equal(await dialog.evaluate((shown) => shown.scrollTop), 0);
  await page.screenshot({ path: join(SHOTS, `${DATABASE}-erase-375.png`) });
  assert.equal(await heading.evaluate((shown) => shown === document.activeElement), true);
  await page.keyboard.press("Escape");
  await page.setViewportSize({ width: 1280, height: 860 });
  // Where there is one thing to write, the cursor is there.
  await show("#/remembered", ".entry-text");
  await page.getByRole("button", { name: "Correct" }).first().click();
  await page.waitForFunction(() => document.activeElement.matches("dialog textarea"));
  await page.keyboard.press("Escape");
});

test("the theme that somebody chooses stays", async () => {
  await page.getByText("Dark", { exact: true }).click();
  assert.equal(await page.evaluate(() => document.documentElement.dataset.theme), "dark");
  await page.reload();
  await page.waitForSelector("nav");
  assert.equal(await page.evaluate(() => document.documentElement.dataset.theme), "dark");
  await page.getByText("Auto", { exact: true }).click();
});

test("arrows move through a list", async () => {
  await show("#/conversation/berlin-trip", ".message");
  await page.locator("[data-row]").last().focus();
  const last = await page.evaluate(() => Number(document.activeElement.dataset.row));
  await page.keyboard.press("ArrowUp");
  await page.waitForFunction((row) => Number(document.activeElement.dataset.row) === row - 1, last);
  await page.keyboard.press("Home");
  await page.waitForFunction(() => Number(document.activeElement.dataset.row) === 0);
});

test("keys that are pressed within a frame all count", async () => {
  await show("#/conversation/berlin-trip", ".message");
  await page.locator("[data-row]").first().focus();
  await page.evaluate(async () => {
    const row = document.activeElement;
    for (const key of ["ArrowDown", "ArrowDown", "End", "ArrowUp", "ArrowUp"]) {
      row.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true }));
      // The page is drawn anew after each key, before what follows a drawing has run.
      await new Promise((done) => setTimeout(done));
    }
  });
  await page.waitForFunction(() => document.activeElement.getAttribute("aria-posinset") === String(document.activeElement.ariaSetSize - 2));
});

test("100,000 messages are a list of which only what is seen is drawn", async (t) => {
  const total = 100_000;
  await page.route("**/mcp", async (route) => {
    const { id, params } = route.request().postDataJSON();
    const given = params?.arguments ?? {};
    if (params?.name !== "get_messages" || given.thread_id !== "endless") return route.fallback();
    const limit = given.limit ?? 50;
    const from = given.offset ?? (given.before === undefined ? total : given.before - 1) - limit;
    const messages = Array.from({ length: Math.min(limit, total - from) }, (_, at) => ({
      id: `m${from + at}`,
      seq: from + at + 1,
      role: (from + at) % 2 ? "assistant" : "user",
      parts: [{ type: "text", text: `Line ${from + at + 1}. ${"All that is said. ".repeat((from + at) % 9)}` }],
      said_at: "2026-01-01T00:00:00Z",
    }));
    const structuredContent = { thread_id: "endless", messages, total };
    await route.fulfill({ json: { jsonrpc: "2.0", id, result: { content: [], structuredContent } } });
  });
  await show("#/conversation/endless", "article");
  await page.getByText("Line 100000.").waitFor();
  const drawn = await page.evaluate(async () => {
    const box = document.querySelector(".virtual");
    const frames = [];
    let most = 0;
    let last = performance.now();
    for (let at = 0; at < 90; at++) {
      box.scrollTop -= 180;
      await new Promise(requestAnimationFrame);
      const now = performance.now();
      frames.push(now - last);
      last = now;
      most = Math.max(most, document.querySelectorAll("[data-row]").length);
    }
    frames.sort((one, other) => one - other);
    return { most, middle: frames[45], slow: frames[81] };
  });
  t.diagnostic(`scrolling 100,000 messages: a frame in ${drawn.middle.toFixed(1)} ms, nine of ten within ${drawn.slow.toFixed(1)} ms`);
  assert.ok(drawn.most < 80, `${drawn.most} rows were drawn`);
  await page.evaluate(() => {
    document.querySelector(".virtual").scrollTop = 0;
  });
  await page.getByText("Line 1.", { exact: false }).first().waitFor();
  await show("#/conversation/endless?seq=50000", "article.sought");
  assert.match(await page.locator("article.sought").textContent(), /Line 50000\./);
  await page.unroute("**/mcp");
});

test("200 stored attacks open no dialog, run nothing and load nothing, in any view", async () => {
  const texts = attacks();
  assert.equal(texts.length, 200);
  for (let at = 0; at < texts.length; at += 50)
    await call("add_messages", { thread_id: "attacks", messages: texts.slice(at, at + 50).map((content) => ({ role: "user", content })) });
  await call("update_thread", { thread_id: "attacks", title: texts[1] });
  await call("update_working_memory", { scope: "resource", mode: "replace", content: texts.slice(0, 60).join("\n") });
  await call("update_working_memory", { thread_id: "attacks", content: texts.slice(60, 120).join("\n") });
  for (const content of texts.slice(0, 24)) await call("remember", { content: `Attack: ${content}` });
  await call("plan", { thread_id: "attacks", action: "create", plan: { goal: texts[4], steps: texts.slice(4, 12).map((description) => ({ description })) } });
  await call("suspend_run", {
    run_id: texts[0].slice(0, 60),
    thread_id: "attacks",
    state: {},
    reason: texts[8],
    pending_tool_calls: [{ tool_call_id: "x", tool_name: "evil", arguments: { html: texts.slice(0, 40) } }],
  });
  await call("record_steps", { thread_id: "attacks", steps: texts.slice(0, 30).map((content) => ({ type: "text", operation_id: "a", content })) });
  for (const route of ["#/remembered", "#/context/attacks", "#/recall?q=Attack%20script%20alert", "#/conversation", "#/conversation/attacks?tab=steps", "#/documents", "#/work", "#/work/attacks?tab=plan", "#/documents/attacks?of=thread", "#/keeping"]) {
    await show(route);
    await page.waitForSelector("h1");
    await page.waitForSelector(".loading", { state: "detached" });
    for (const summary of await page.locator("summary:visible").all()) await summary.click().catch(() => undefined);
  }
  await show("#/conversation/attacks", "article");
  const seen = new Set();
  const box = page.locator(".virtual");
  for (let at = 0; at < 80 && seen.size < 200; at++) {
    for (const text of await page.locator("article .text").allTextContents()) seen.add(text);
    await box.evaluate((list) => {
      list.scrollTop -= list.clientHeight * 0.8;
    });
    await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
    await page.waitForFunction(() => !document.querySelector(".skeleton"));
  }
  // Each is there, letter by letter: it was shown and did nothing.
  assert.deepEqual(texts.filter((text) => ![...seen].some((shown) => shown.trim() === text.trim())), []);
  assert.equal(await page.evaluate(() => window.stolen), undefined);
  assert.match(await page.title(), /layerlore$/);
  assert.deepEqual(dialogs, []);
  assert.deepEqual(foreign, []);
});

test("inside a host the page speaks through it, takes its theme, and ends when it is told to", async () => {
  const html = await readFile(join(ROOT, "server/explorer/explorer.html"), "utf8");
  const shell = await context.newPage();
  watch(shell);
  await shell.exposeFunction("askServer", (method, params) => rpc(method, params));
  await shell.route("http://host.invalid/", (route) => route.fulfill({ contentType: "text/html", body: "<!doctype html><title>host</title><body></body>" }));
  foreign.length = 0;
  await shell.goto("http://host.invalid/");
  foreign.length = 0;
  await shell.evaluate((page) => {
    window.heard = [];
    const frame = document.createElement("iframe");
    frame.sandbox = "allow-scripts";
    frame.style.cssText = "width:900px;height:700px";
    frame.srcdoc = page;
    const send = (message) => frame.contentWindow.postMessage({ jsonrpc: "2.0", ...message }, "*");
    window.send = send;
    addEventListener("message", async ({ data, source }) => {
      if (source !== frame.contentWindow) return;
      window.heard.push(data);
      if (data.method === "ui/initialize")
        send({
          id: data.id,
          result: {
            protocolVersion: "2026-01-26",
            hostInfo: { name: "test host", version: "1" },
            hostCapabilities: { serverTools: {}, serverResources: {} },
            hostContext: { theme: "dark", displayMode: "inline", availableDisplayModes: ["inline", "fullscreen"] },
          },
        });
      else if (data.method === "tools/call" || data.method === "resources/read")
        try {
          send({ id: data.id, result: await window.askServer(data.method, data.params) });
        } catch (error) {
          send({ id: data.id, error: { code: -32603, message: String(error) } });
        }
    });
    document.body.append(frame);
  }, html);
  const inner = shell.frameLocator("iframe");
  await inner.locator(".entry-text").first().waitFor();
  const theme = () => inner.locator("html").getAttribute("data-theme");
  assert.equal(await theme(), "dark");
  const heard = await shell.evaluate(() => window.heard.map((message) => message.method));
  assert.deepEqual(heard.slice(0, 2), ["ui/initialize", "ui/notifications/initialized"]);
  assert.ok(heard.includes("ui/notifications/size-changed"));
  await shell.evaluate(() => window.send({ method: "ui/notifications/host-context-changed", params: { theme: "light" } }));
  await inner.locator("html[data-theme=light]").waitFor();
  await shell.evaluate(() => window.send({ method: "ui/notifications/tool-input", params: { arguments: { thread_id: "tea-4" } } }));
  await shell.evaluate(() => window.send({ method: "ui/notifications/tool-result", params: { content: [{ type: "text", text: "shown" }] } }));
  await inner.locator("article", { hasText: "Tea number 4 is fine." }).waitFor();
  await shell.screenshot({ path: join(SHOTS, `${DATABASE}-in-a-host.png`) });
  await shell.evaluate(() => window.send({ id: "bye", method: "ui/resource-teardown", params: {} }));
  await shell.waitForFunction(() => window.heard.some((message) => message.id === "bye" && message.result));
  await inner.getByText("The host has closed this page.").waitFor();
  await shell.close();
});

test("signing out ends the session, and the page itself never failed", async () => {
  await page.getByRole("button", { name: "Sign out" }).click();
  await page.getByLabel("Key").waitFor();
  assert.equal(await page.evaluate(() => sessionStorage.length), 0);
  assert.deepEqual(broken, []);
});
