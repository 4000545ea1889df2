// Measures a timeline's page in Chromium: time until the first rows and until it is complete, the tasks that block input meanwhile,
// drawing, search, memory.
// Called by tests/convert/bench page: node measure.mjs EXECUTABLE PAGE. Times are medians of the main thread's
// processor time, if it says "CPU".

import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [, , executablePath, path] = process.argv;
const { default: puppeteer } = await import(pathToFileURL(createRequire(`${process.env.NODE_PATH}/`).resolve("puppeteer-core")).href);
const running = await puppeteer.launch({ executablePath, headless: true, args: ["--no-sandbox", "--disable-gpu", "--enable-unsafe-swiftshader"], protocolTimeout: 600_000 });
const median = (list) => [...list].sort((a, b) => a - b)[list.length >> 1];
const ms = (value) => `${value.toFixed(1)} ms`;

/** Loads the page; gives it, its debugger, and the times at which it had rows and was complete. */
async function load() {
  const page = await running.newPage();
  await page.setViewport({ width: 1400, height: 900 });
  await page.evaluateOnNewDocument(() => {
    window.seen = {};
    new MutationObserver(() => { for (const key of ["rows", "ready"]) if (document.documentElement?.dataset[key] === "yes") window.seen[key] ??= performance.now(); })
      .observe(document, { attributes: true, subtree: true, attributeFilter: ["data-rows", "data-ready"] });
  });
  await page.goto(pathToFileURL(path).href, { timeout: 300_000 });
  await page.waitForFunction(() => document.documentElement.dataset.ready === "yes", { timeout: 300_000 });
  const cdp = await page.createCDPSession();
  return { page, cdp, seen: await page.evaluate(() => window.seen) };
}

const loads = [];
let page, cdp;
for (let i = 0; i < 5; i++) {
  await page?.close();
  const loaded = await load();
  ({ page, cdp } = loaded);
  loads.push(loaded.seen);
}
console.log(`first rows ${ms(median(loads.map((one) => one.rows)))}, complete ${ms(median(loads.map((one) => one.ready)))}`);

// Input waits for the end of a task.
await page.close();
page = await running.newPage();
await page.tracing.start({ categories: ["toplevel", "blink.user_timing"] });
await page.setViewport({ width: 1400, height: 900 });
await page.goto(pathToFileURL(path).href, { timeout: 300_000 });
await page.waitForFunction(() => document.documentElement.dataset.ready === "yes", { timeout: 300_000 });
const { traceEvents } = JSON.parse(new TextDecoder().decode(await page.tracing.stop()));
const mains = new Set(traceEvents.filter((one) => one.name === "thread_name" && one.args.name === "CrRendererMain").map((one) => `${one.pid} ${one.tid}`));
const tasks = traceEvents.filter((one) => one.name.endsWith("RunTask") && mains.has(`${one.pid} ${one.tid}`)).map((one) => (one.tdur ?? 0) / 1e3).sort((a, b) => b - a);
console.log(`tasks while it is read: ${tasks.length}, the longest ${tasks.slice(0, 5).map(ms).join(", ")} CPU; ${tasks.filter((one) => one > 50).length} above 50 ms`);
cdp = await page.createCDPSession();

await cdp.send("Performance.enable", { timeDomain: "threadTicks" });
const used = async () => (await cdp.send("Performance.getMetrics")).metrics.find((one) => one.name === "TaskDuration").value * 1e3;
/** Times of an action of the page, which is done ten times in one task: processor time, medians of nine. */
async function measure(name, prepare, act) {
  const cpu = [], wall = [];
  await page.evaluate(prepare);
  for (let i = 0; i < 9; i++) {
    const idle = await used();
    await page.evaluate("0");
    const before = await used();
    const took = await page.evaluate(`(() => { const took = []; for (let i = 0; i < 10; i++) { const begin = performance.now(); ${act}; took.push(performance.now() - begin); } return took; })()`);
    cpu.push((await used() - before - (before - idle)) / 10);
    wall.push(...took);
  }
  console.log(`${name}: ${ms(median(cpu))} CPU, ${ms(median(wall))} by the clock`);
}
const drawing = `window.tracetee.draw(); document.getElementById("canvas").getContext("2d").getImageData(0, 0, 1, 1)`;
const at = (part, top) => `(() => { const { view, threads } = window.tracetee; let end = 0; for (const { slices } of threads.values()) end = Math.max(end, slices.end.at(-1) || 0); view.from = end * ${(1 - part) / 2}; view.to = end * ${(1 + part) / 2}; view.top = ${top}; window.tracetee.search(""); })()`;
for (const part of [1, 0.1, 0.01, 0.001, 0.0001]) for (const top of [0, 2000]) await measure(`drawing ${part} of it, from ${top} px`, at(part, top), drawing);
await measure("drawing all with what is found", `${at(1, 0)}; window.tracetee.search("measure")`, drawing);
const searching = (text) => `window.tracetee.search(${JSON.stringify(text)})`;
for (const text of ["m", "measure", "measure 7", "none of it", "dur:>1ms", "dur:>50us", "measure dur:<1ms", "dur:<1s"]) await measure(`search ${text}`, `window.tracetee.search("")`, searching(text));

/** Memory of the page after a collection: JavaScript's heap, its arrays, its process. */
await page.evaluate(`window.tracetee.search("")`);
await new Promise((resolve) => { setTimeout(resolve, 8000); });
await cdp.send("HeapProfiler.collectGarbage");
const heap = await cdp.send("Runtime.getHeapUsage");
const system = await (await running.target().createCDPSession()).send("SystemInfo.getProcessInfo");
const mb = (bytes) => `${(bytes / 1e6).toFixed(0)} MB`;
const rss = system.processInfo.filter((one) => one.type === "renderer").map((one) => {
  const text = readFileSync(`/proc/${one.id}/smaps_rollup`, "utf8");
  const of = (key) => +new RegExp(`^${key}: +(\\d+) kB`, "m").exec(text)[1] * 1024;
  return { rss: of("Rss"), own: of("Private_Dirty") + of("Private_Clean") };
}).sort((a, b) => b.rss - a.rss)[0];
console.log(`memory: heap ${mb(heap.usedSize)}, arrays ${mb(heap.backingStorageSize ?? 0)}, embedder ${mb(heap.embedderHeapUsedSize ?? 0)}; its process ${mb(rss.rss)} resident, ${mb(rss.own)} of it private`);
await running.close();
