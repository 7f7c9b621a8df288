// What somebody waits for who looks through a large memory in the explorer: run by explorer.py, prints one line of JSON.
import { createRequire } from "node:module";
import { join } from "node:path";

const { MEMORY_URL, MEMORY_KEY, CHROMIUM, EXPLORER_ROOT, LOADS, SECONDS } = process.env;
const { chromium } = createRequire(join(EXPLORER_ROOT, "explorer/package.json"))("playwright-core");
const browser = await chromium.launch({ executablePath: CHROMIUM, args: ["--no-sandbox"] });
const context = await browser.newContext({ viewport: { width: 1280, height: 860 }, locale: "en-GB" });
context.setDefaultTimeout(60_000);
const page = await context.newPage();
await page.goto(`${MEMORY_URL}/explore`);
await page.getByLabel("Key").fill(MEMORY_KEY);
await page.getByRole("button", { name: "Sign in" }).click();
await page.waitForSelector("nav");

// In the page: when the first of a view was there, in milliseconds since the page was asked for.
await context.addInitScript(() => {
  const wanted = ".entry-text, .picked, article.message, .empty-title, .tile";
  const observer = new MutationObserver(() => {
    if (!document.querySelector(wanted)) return;
    observer.disconnect();
    // Once it is painted.
    requestAnimationFrame(() => setTimeout(() => (window.firstView = performance.now())));
  });
  observer.observe(document, { childList: true, subtree: true });
});

const VIEWS = {
  remembered: "#/remembered",
  conversations: "#/conversation",
  "a conversation of 100,000": "#/conversation/long",
  "its middle": "#/conversation/long?seq=50000",
  numbers: "#/numbers",
};

async function load(route) {
  await page.goto("about:blank");
  await page.goto(`${MEMORY_URL}/explore${route}`);
  await page.waitForFunction(() => window.firstView);
  return page.evaluate(() => {
    const { loadEventEnd } = performance.getEntriesByType("navigation")[0];
    return { loaded: loadEventEnd, shown: window.firstView, after: Math.max(0, window.firstView - loadEventEnd) };
  });
}

const first = {};
for (const [name, route] of Object.entries(VIEWS)) {
  first[name] = [];
  for (let at = 0; at < Number(LOADS); at++) first[name].push(await load(route));
}

// In the page: scrolls on with each frame, and says how long frames took, and how many of them showed a gap.
const scroll = ({ how, seconds }) =>
  new Promise((done) => {
    const box = document.querySelector(".virtual");
    const frames = [];
    const long = [];
    let gaps = 0;
    let most = 0;
    const observer = new PerformanceObserver((list) => list.getEntries().forEach((entry) => long.push(entry.duration)));
    observer.observe({ type: "longtask" });
    const end = performance.now() + seconds * 1000;
    let last = 0;
    let seed = 1;
    const draw = () => (seed = (seed * 16_807) % 2_147_483_647) / 2_147_483_647;
    const step = (now) => {
      if (last) frames.push(now - last);
      last = now;
      const bottom = box.getBoundingClientRect().bottom;
      const top = box.getBoundingClientRect().top;
      const inSight = (each) => ((at) => at.bottom > top && at.top < bottom)(each.getBoundingClientRect());
      if ([...box.querySelectorAll(".skeleton")].some(inSight)) gaps++;
      most = Math.max(most, document.querySelectorAll("[data-row]").length);
      if (now > end) {
        observer.disconnect();
        done({ frames, long, gaps, most });
        return;
      }
      if (how === "drag") box.scrollTop = ((end - now) / (seconds * 1000)) * box.scrollHeight;
      else if (how === "jump") box.scrollTop = frames.length % 30 ? box.scrollTop : draw() * box.scrollHeight;
      else box.scrollTop -= how;
      requestAnimationFrame(step);
    };
    box.scrollTop = box.scrollHeight;
    requestAnimationFrame(step);
  });

const WAYS = { "wheel, 60 px a frame": 60, "fling, 400 px a frame": 400, "drag, all in one go": "drag", "jumps, two a second": "jump" };
const scrolled = {};
for (const [name, route] of [
  ["messages", "#/conversation/long"],
  ["threads", "#/conversation"],
])
  for (const [way, how] of Object.entries(WAYS)) {
    await load(route);
    await page.waitForTimeout(500);
    scrolled[`${name}: ${way}`] = await page.evaluate(scroll, { how, seconds: Number(SECONDS) });
  }

await load("#/conversation");
const began = performance.now();
await page.getByLabel("Search titles and names").fill("thread-7777");
await page.getByText("1 conversation found").waitFor();
const searched = performance.now() - began;
console.log(JSON.stringify({ first, scrolled, searched, browser: browser.version() }));
await browser.close();
