// The page of an operator, who chooses whose memory to look at, against the server at MEMORY_URL, whose memory has 120 users;
// the page at OWNER_LINK is that of whoever owns the database, and has two tenants.
import assert from "node:assert/strict";
import { mkdir, readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { KEY, URL_OF, call } from "./memory.mjs";

const ROOT = process.env.EXPLORER_ROOT;
const require = createRequire(join(ROOT, "explorer/package.json"));
const { chromium } = require("playwright-core");
const AXE = await readFile(require.resolve("axe-core/axe.min.js"), "utf8");
const SHOTS = join(ROOT, ".explorer-shots");
const DATABASE = process.env.DATABASE;
const HOSTILE = `<img src=x onerror="window.stolen=1">`;

let browser;
let page;
let owner;
const broken = [];

const about = (agent, resource) => ({ "layerlore/agent": agent, "layerlore/resource": resource });
const rows = () => page.locator(".chooser .picked");

async function checkAxe(what) {
  await page.evaluate(AXE);
  const found = await page.evaluate(() => globalThis.axe.run(document, { resultTypes: ["violations"] }));
  const serious = found.violations.filter((each) => ["serious", "critical"].includes(each.impact));
  assert.deepEqual(serious.map((each) => `${each.id}: ${each.nodes[0]?.html}`), [], what);
}

const shoot = (name) => page.screenshot({ path: join(SHOTS, `${DATABASE}-${name}.png`) });

async function open() {
  const context = await browser.newContext({ viewport: { width: 1280, height: 860 }, locale: "en-GB", reducedMotion: "reduce" });
  context.setDefaultTimeout(30_000);
  const opened = await context.newPage();
  opened.on("dialog", (dialog) => broken.push(dialog.message()));
  opened.on("pageerror", (error) => broken.push(String(error.stack)));
  opened.on("console", (message) => {
    if (message.type() === "error") broken.push(message.text());
  });
  return opened;
}

before(async () => {
  await mkdir(SHOTS, { recursive: true });
  browser = await chromium.launch({ executablePath: process.env.CHROMIUM, args: ["--no-sandbox"] });
  page = await open();
  // Its link is good for a minute.
  owner = await open();
  await owner.goto(process.env.OWNER_LINK);
  await owner.getByRole("heading", { name: "Whose memory?" }).waitFor();
  for (let at = 0; at < 120; at++) {
    const messages = [{ role: "user", content: `I am user ${at}.` }];
    await call("add_messages", { thread_id: "hello", messages }, about("helper", `user-${String(at).padStart(3, "0")}`));
  }
  for (const resource of ["ana@example.org", HOSTILE])
    await call("remember", { content: `The note of ${resource}.` }, about("coach", resource));
  await call("remember", { content: "The note of carl." }, about("helper", "carl"), process.env.OTHER_KEY);
});

after(async () => {
  await browser?.close();
});

test("an operator is listed the memories that there are, page by page", async () => {
  await page.goto(`${URL_OF}/explore`);
  await page.getByLabel("Key").fill(KEY);
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByRole("heading", { name: "Whose memory?" }).waitFor();
  await rows().first().waitFor();
  assert.equal(await rows().count(), 50);
  await page.getByRole("button", { name: "Show more" }).click();
  await rows().nth(99).waitFor();
  await page.getByRole("button", { name: "Show more" }).click();
  await rows().nth(121).waitFor();
  assert.equal(await rows().count(), 122);
  assert.equal(await page.getByRole("button", { name: "Show more" }).count(), 0);
  await checkAxe("the list");
  await shoot("chooser");
});

test("the list narrows as one types, and the chosen memory is shown and kept when the page is loaded again", async () => {
  await page.getByLabel("Search by user or agent").fill("ANA coach");
  await rows().nth(1).waitFor({ state: "detached" });
  assert.match(await rows().textContent(), /ana@example\.org.*with the agent coach · 0 conversations · 0 messages · 1 note/);
  await page.getByLabel("Search by user or agent").fill("nobody of this name");
  await page.getByText("No user and no agent has this name").waitFor();
  await page.getByLabel("Search by user or agent").fill("ana@");
  await rows().click();
  await page.getByText("The note of ana@example.org.").waitFor();
  assert.match(await page.locator(".subject").textContent(), /ana@example\.org.*agent coach/);
  await checkAxe("whose memory is shown");
  await shoot("chosen");
  await page.reload();
  await page.getByText("The note of ana@example.org.").waitFor();
});

test("another memory is chosen without signing in again, and its name is never markup", async () => {
  await page.getByRole("button", { name: "Choose another" }).click();
  await rows().nth(49).waitFor();
  await page.getByLabel("Search by user or agent").fill("onerror");
  await rows().nth(1).waitFor({ state: "detached" });
  await rows().click();
  await page.getByText("The note of <img").waitFor();
  assert.equal(await page.evaluate(() => globalThis.stolen), undefined);
  await page.setViewportSize({ width: 360, height: 740 });
  await page.getByRole("button", { name: "Choose another" }).waitFor();
  await shoot("chosen-360");
  assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= 360));
  await page.getByRole("button", { name: "Choose another" }).click();
  await rows().first().waitFor();
  await shoot("chooser-360");
  assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= 360));
  await page.setViewportSize({ width: 1280, height: 860 });
});

test("a conversation of the chosen one is read, and signing out forgets who was chosen", async () => {
  await page.getByLabel("Search by user or agent").fill("user-007");
  await rows().nth(1).waitFor({ state: "detached" });
  await rows().click();
  await page.getByText("No notes are kept yet").waitFor();
  await page.evaluate(() => {
    location.hash = "#/conversation/hello";
  });
  await page.getByText("I am user 7.").waitFor();
  await page.getByRole("button", { name: "Sign out" }).click();
  await page.getByLabel("Key").fill(KEY);
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByRole("heading", { name: "Whose memory?" }).waitFor();
});

test("whoever owns the database chooses the tenant, too", async () => {
  page = owner;
  await page.reload();
  await page.getByLabel(/Search the tenants/).waitFor();
  await rows().nth(1).waitFor();
  assert.deepEqual(await rows().allTextContents(), ["acme", "globex"]);
  await checkAxe("the tenants");
  await shoot("tenants");
  await rows().first().click();
  await page.getByRole("heading", { name: "Memories of acme" }).waitFor();
  await rows().nth(49).waitFor();
  await page.getByRole("button", { name: "another tenant" }).click();
  await page.getByText("globex").click();
  await page.getByText("carl").click();
  await page.waitForSelector(".frame");
  await page.getByText("The note of carl.").waitFor();
  assert.match(await page.locator(".subject").textContent(), /carl.*tenant globex · agent helper/);
  await page.reload();
  await page.getByText("The note of carl.").waitFor();
});

test("the page itself never failed", () => {
  // What was on its way when somebody signed out is refused.
  assert.deepEqual(broken.filter((text) => !text.includes("401")), []);
});
