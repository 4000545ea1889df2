// Drives a page in a real browser with real input events (mouse, keyboard, wheel, touch). Called by tests/page_input.rs:
// node run.mjs BROWSER EXECUTABLE TASKS PAGE… prints a line of JSON for each task: its name, and why it failed or null.

import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [, , browser, executablePath, tasks, ...pages] = process.argv;
// NODE_PATH is for require alone.
const { default: puppeteer } = await import(pathToFileURL(createRequire(`${process.env.NODE_PATH}/`).resolve("puppeteer-core")).href);
const options = browser === "chromium" ? { args: ["--no-sandbox", "--disable-gpu", "--enable-unsafe-swiftshader"] } : { browser: "firefox" };
const running = await puppeteer.launch({ executablePath, headless: true, ...options });

/** Opens a page, and waits until it is drawn. */
async function open(path, { hash = "", width = 1400, height = 900, touch = false } = {}) {
  const page = await running.newPage();
  await page.setViewport(browser === "chromium" ? { width, height, hasTouch: touch } : { width, height });
  const errors = [];
  page.on("pageerror", (error) => errors.push(error.message));
  await page.goto(pathToFileURL(path).href + hash, { timeout: 180_000 });
  await page.waitForFunction(() => document.documentElement.dataset.ready === "yes" || document.documentElement.dataset.drawn === "yes", { timeout: 180_000 });
  return Object.assign(page, {
    errors,
    /** Where a time of a row is in the window; `down` pixels below the row's top. */
    spot: (title, at, down) => page.evaluate((title, at, down) => {
      const { rows, yOf, xOf } = window.tracetee, box = document.getElementById("view").getBoundingClientRect();
      // A process and its main thread have the same title.
      const row = rows().find((row) => row.title === title && row.kind !== "process");
      return row ? [box.left + (at === null ? 40 : xOf(at)), box.top + yOf(row) + down] : null;
    }, title, at, down),
    panel: () => page.evaluate(() => document.getElementById("panel").innerText),
    click: async (title, at, down = 5) => page.mouse.click(...(await page.spot(title, at, down))),
    press: async (...keys) => { for (const key of keys) await page.keyboard.press(key); },
    /** The colour of a pixel of the canvas. */
    pixel: (title, at, down) => page.evaluate((title, at, down) => {
      const { rows, yOf, xOf, draw } = window.tracetee;
      draw();
      const ratio = devicePixelRatio || 1, row = rows().find((row) => row.title === title && row.kind !== "process");
      return [...document.getElementById("canvas").getContext("2d").getImageData(Math.round(xOf(at) * ratio), Math.round((yOf(row) + down) * ratio), 1, 1).data];
    }, title, at, down),
  });
}

const { default: all } = await import(pathToFileURL(tasks).href);
for (const [name, task] of Object.entries(all)) {
  let failed = null;
  try {
    const opened = [];
    await task({ browser, pages, open: async (...how) => { const page = await open(...how); opened.push(page); return page; } });
    for (const page of opened) {
      if (page.errors.length) throw new Error(`errors on the page: ${page.errors.join("; ")}`);
      await page.close();
    }
  } catch (error) { failed = `${error.message}\n${error.stack.split("\n").filter((line) => line.includes("tasks")).slice(0, 2).join("\n")}`; }
  console.log(JSON.stringify([name, failed]));
}
await running.close();
