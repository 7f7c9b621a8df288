// Pictures of the page: kept small, and compared with those that were taken before.
import { createRequire } from "node:module";
import { join } from "node:path";
import { deflateSync } from "node:zlib";

const require = createRequire(join(process.env.EXPLORER_ROOT, "explorer/package.json"));
const { PNG } = require("pngjs");
const { default: pixelmatch } = await import(require.resolve("pixelmatch"));

/** Neighbouring shades are one: 16 of each colour are enough to see what changed, and make files a quarter of the size. */
const coarse = (value) => Math.round(value / 17) * 17;
/** How different two pixels may be, 0 to 1: a shade that fell to the other side is no change. */
const THRESHOLD = 0.1;
/** How many of a million pixels may be different: letters' edges that another processor rounds otherwise. */
const ALLOWED = 100;

export function read(file) {
  const { width, height, data } = PNG.sync.read(file);
  for (let at = 0; at < data.length; at++) data[at] = coarse(data[at]);
  return { width, height, data };
}

/** As a file with a palette, which the coarse shades have room in. */
export function write({ width, height, data }) {
  const { colours: kept, places } = choosePalette(data);
  const rows = Buffer.alloc((width + 1) * height);
  for (let at = 0; at < width * height; at++) rows[at + Math.floor(at / width) + 1] = places.get(data.readUIntBE(at * 4, 3));
  const head = Buffer.alloc(13);
  head.writeUInt32BE(width, 0);
  head.writeUInt32BE(height, 4);
  head.set([8, 3], 8);
  const colours = Buffer.alloc(kept.length * 3);
  kept.forEach((colour, at) => colours.writeUIntBE(colour, at * 3, 3));
  return Buffer.concat([
    Buffer.from("89504e470d0a1a0a", "hex"),
    chunk("IHDR", head),
    chunk("PLTE", colours),
    chunk("IDAT", deflateSync(rows, { level: 9 })),
    chunk("IEND", Buffer.alloc(0)),
  ]);
}

/** The 256 most frequent colours, and the place among them of each colour that there is, or of the nearest to it. */
function choosePalette(data) {
  const counts = new Map();
  for (let at = 0; at < data.length; at += 4) {
    const colour = data.readUIntBE(at, 3);
    counts.set(colour, (counts.get(colour) ?? 0) + 1);
  }
  const ranked = [...counts.keys()].sort((one, other) => counts.get(other) - counts.get(one) || one - other);
  const colours = ranked.slice(0, 256);
  const far = (one, other) => [16, 8, 0].reduce((sum, bits) => sum + (((one >> bits) & 255) - ((other >> bits) & 255)) ** 2, 0);
  const nearest = (colour) => colours.reduce((best, each, at) => (far(each, colour) < far(colours[best], colour) ? at : best), 0);
  return { colours, places: new Map(ranked.map((colour, at) => [colour, at < 256 ? at : nearest(colour)])) };
}

/** What is different, in words ("": nothing that counts), and a picture of it. */
export function compare(before, now) {
  if (before.width !== now.width || before.height !== now.height)
    return { why: `it is ${now.width} x ${now.height}, and was ${before.width} x ${before.height}`, shown: null };
  const { width, height } = now;
  const shown = new PNG({ width, height });
  const changed = pixelmatch(before.data, now.data, shown.data, width, height, { threshold: THRESHOLD });
  const most = Math.ceil((width * height * ALLOWED) / 1_000_000);
  return { why: changed > most ? `${changed} pixels are different, and ${most} may be` : "", shown: PNG.sync.write(shown) };
}

function chunk(name, content) {
  const whole = Buffer.alloc(content.length + 12);
  whole.writeUInt32BE(content.length, 0);
  whole.write(name, 4, "latin1");
  content.copy(whole, 8);
  whole.writeUInt32BE(checksum(whole.subarray(4, content.length + 8)), content.length + 8);
  return whole;
}

function checksum(bytes) {
  let sum = 0xffffffff;
  for (const byte of bytes) {
    sum ^= byte;
    for (let bit = 0; bit < 8; bit++) sum = (sum >>> 1) ^ (sum & 1 ? 0xedb88320 : 0);
  }
  return (sum ^ 0xffffffff) >>> 0;
}
