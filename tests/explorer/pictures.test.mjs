// Each view looks as it did when its picture in pictures/ was taken. With EXPLORER_BASELINES=new they are taken anew.
import assert from "node:assert/strict";
import { mkdir, readFile, readdir, rm, writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { NOW, fix, fixStructure } from "./fixed_answers.mjs";
import { KEY, URL_OF, call, fill } from "./memory.mjs";
import { compare, read, write } from "./pictures.mjs";
import { VIEWS } from "./views.mjs";

const ROOT = process.env.EXPLORER_ROOT;
const { chromium } = createRequire(join(ROOT, "explorer/package.json"))("playwright-core");
const KEPT = join(ROOT, "tests/explorer/pictures");
const SHOTS = join(ROOT, ".explorer-shots");
const ANEW = process.env.EXPLORER_BASELINES === "new";
// The same letters wherever Debian's fonts-dejavu-core is.
const FONTS = ':root { --mono: "DejaVu Sans Mono"; } body { font-family: "DejaVu Sans"; } input { caret-color: transparent; }';
const DESKTOP = [1280, 800];
const PHONE = [360, 740];
/** So high that each of its plots is seen. */
const HIGH = { numbers: 2320 };
const DARK_PHONE = ["remembered", "conversation", "numbers"];
const PICTURES = VIEWS.flatMap(([name, route, wanted]) => [
  { name: `${name}-desktop-light`, scheme: "light", size: [DESKTOP[0], HIGH[name] ?? DESKTOP[1]], route, wanted },
  { name: `${name}-desktop-dark`, scheme: "dark", size: DESKTOP, route, wanted },
  { name: `${name}-phone-light`, scheme: "light", size: PHONE, route, wanted },
  ...(DARK_PHONE.includes(name) ? [{ name: `${name}-phone-dark`, scheme: "dark", size: PHONE, route, wanted }] : []),
]);

let browser;
let page;

let asked = 0;

async function answerAlike(route) {
  if (route.request().postDataJSON().method === "subscriptions/listen") return route.continue();
  asked++;
  try {
    return await answerFixed(route);
  } finally {
    asked--;
  }
}

async function answerFixed(route) {
  const { method, params } = route.request().postDataJSON();
  const response = await route.fetch();
  const body = fix(await response.text());
  if (method !== "tools/call" || !body.startsWith("{")) return route.fulfill({ response, body });
  const reply = JSON.parse(body);
  const structure = reply.result?.structuredContent;
  if (structure) reply.result.structuredContent = fixStructure(params.name, params.arguments ?? {}, structure);
  return route.fulfill({ response, json: reply });
}

before(async () => {
  await mkdir(KEPT, { recursive: true });
  await mkdir(SHOTS, { recursive: true });
  await fill();
  // Scores are others while vectors are still being made.
  for (let tries = 0; (await call("memory_status")).vectors.pending; tries++) {
    assert.ok(tries < 300, "vectors are not made");
    await new Promise((done) => setTimeout(done, 100));
  }
  browser = await chromium.launch({
    executablePath: process.env.CHROMIUM,
    args: ["--no-sandbox", "--font-render-hinting=none", "--disable-lcd-text", "--force-color-profile=srgb"],
  });
  const context = await browser.newContext({ locale: "en-GB", timezoneId: "UTC", reducedMotion: "reduce", bypassCSP: true });
  context.setDefaultTimeout(30_000);
  page = await context.newPage();
  await page.clock.setFixedTime(NOW);
  await page.route("**/mcp", answerAlike);
  await page.goto(`${URL_OF}/explore`);
  await page.getByLabel("Key").fill(KEY);
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.waitForSelector(".entry-text");
  await page.addStyleTag({ content: FONTS });
  const isThere = await page.evaluate(() => {
    const pen = document.createElement("canvas").getContext("2d");
    const width = (font) => ((pen.font = `20px ${font}`), pen.measureText("iiWW").width);
    return width('"DejaVu Sans", monospace') !== width("monospace");
  });
  assert.ok(isThere, "the pictures need the font DejaVu Sans: apt-get install fonts-dejavu-core");
});

after(async () => {
  await browser?.close();
});

async function take({ scheme, size, route, wanted }) {
  await page.emulateMedia({ colorScheme: scheme });
  await page.setViewportSize({ width: size[0], height: size[1] });
  // By way of another view, so that nothing is left of the one before.
  for (const hash of [route.startsWith("#/work") ? "#/numbers" : "#/work", route])
    await page.evaluate((to) => {
      location.hash = to;
    }, hash);
  await page.waitForSelector(wanted);
  await page.waitForFunction(() => !document.querySelector(".loading, .skeleton"));
  if (wanted === ".tile") await page.locator("canvas").last().waitFor();
  await page.mouse.move(0, 0);
  await page.evaluate(() => document.fonts.ready);
  let last = null;
  let alike = 0;
  // What is still on its way comes within a few frames, and may be asked for by what came before it: a picture counts once it
  // stays.
  for (let tries = 0; tries < 40; tries++) {
    const shot = await page.screenshot({ animations: "disabled", caret: "hide", scale: "css" });
    alike = !asked && last?.equals(shot) ? alike + 1 : 0;
    if (alike === 3) return shot;
    last = shot;
    await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
  }
  return last;
}

for (const picture of PICTURES)
  test(`${picture.name} looks as it did`, async () => {
    const shot = await take(picture);
    const now = read(shot);
    const file = join(KEPT, `${picture.name}.png`);
    if (ANEW) {
      const kept = await readFile(file).then(read, () => null);
      if (!kept || compare(kept, now).why) await writeFile(file, write(now));
      return;
    }
    const { why, shown } = compare(read(await readFile(file)), now);
    if (!why) return;
    await writeFile(join(SHOTS, `${picture.name}-now.png`), shot);
    if (shown) await writeFile(join(SHOTS, `${picture.name}-difference.png`), shown);
    assert.fail(`${why}: see .explorer-shots/${picture.name}-difference.png; if it is meant, make explorer-pictures`);
  });

test("every picture that is kept is of a view", async () => {
  const named = PICTURES.map(({ name }) => `${name}.png`);
  const kept = await readdir(KEPT);
  const old = kept.filter((name) => !named.includes(name));
  if (ANEW) for (const name of old) await rm(join(KEPT, name));
  else assert.deepEqual(old, []);
});
