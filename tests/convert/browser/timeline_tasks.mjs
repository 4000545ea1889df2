// Tasks of people at a timeline, each with real input. The pages are those of tests/page_input.rs: one with
// frames, scheduler and counters, one with flows and arguments, and a second capture.

import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { readFileSync } from "node:fs";

const has = (text, part) => assert.ok(text.includes(part), `${part}: ${text}`);
const settle = (page) => page.evaluate(() => new Promise((resolve) => { requestAnimationFrame(() => requestAnimationFrame(resolve)); }));

export default {
  async "the page answers first, and the app is first"({ open, pages }) {
    const page = await open(pages[0]);
    has(await page.panel(), "1 of 13 frames were late, most because of wait: woken by worker");
    const rows = await page.evaluate(() => window.tracetee.rows().map((row) => `${row.kind}: ${row.title}`));
    assert.deepEqual(rows.slice(0, 2), ["process: com.example 100", "frames: Frames"]);
    const system = rows.indexOf("process: surfaceflinger 500"), other = rows.indexOf("process: com.other 300");
    assert.ok(other > 0 && system > other, rows.join());
    assert.ok(rows.indexOf("process: Processors") < other, rows.join());
  },
  async "the worst frame, by a click in the list"({ open, pages }) {
    const page = await open(pages[0]);
    await page.evaluate(() => [...document.querySelectorAll("#panel button")].find((button) => button.textContent === "200.0 ms").setAttribute("data-here", ""));
    await (await page.$("[data-here]")).click();
    has(await page.panel(), "33.333 ms past its deadline");
  },
  async "the longest wait of main, and who woke it"({ open, pages }) {
    const page = await open(pages[0]);
    // In the strip of states, in the middle of the wait.
    await page.click("com.example 100", 225_000, 4);
    const panel = await page.panel();
    has(panel, "com.example 100: asleep");
    has(panel, "Woken by worker 200");
    await (await page.$("#panel p:last-of-type button")).click();
    has(await page.panel(), "worker 200: running");
  },
  async "the thread states of a slice, summed"({ open, pages }) {
    const page = await open(pages[0]);
    const [x, y] = await page.spot("com.example 100", 225_000, 12 + 18 + 5);
    await page.mouse.click(x, y);
    const panel = await page.panel();
    has(panel, "load");
    has(panel, "running 9.000 ms, runnable 1.000 ms, asleep 30.000 ms");
  },
  async "what ran on a processor"({ open, pages }) {
    const page = await open(pages[0]);
    await page.press("o", "o", "o");
    await page.click("Processor 1", 243_500, 8);
    has(await page.panel(), "running on processor 1");
    const clock = await page.spot("Clock of 1 (MHz)", 100_000, 10);
    await page.mouse.click(...clock);
    has(await page.panel(), "value 1800");
  },
  async "the statistics of a range, dragged in the ruler"({ open, pages }) {
    const page = await open(pages[0]);
    const [from] = await page.spot("Frames", 200_004, 0), [to] = await page.spot("Frames", 249_000, 0), y = (await page.spot("com.example 100", 0, 0))[1];
    const ruler = await page.evaluate(() => document.getElementById("view").getBoundingClientRect().top + 28);
    await page.mouse.move(from, ruler); await page.mouse.down(); await page.mouse.move((from + to) / 2, ruler + 2); await page.mouse.move(to, ruler); await page.mouse.up();
    assert.ok(y > ruler);
    const panel = await page.panel();
    has(panel, "Selected: "); has(panel, "Thread states"); has(panel, "Processors"); has(panel, "Counters");
    has(panel, "1 late");
    // The counter that rose: 5 to 50.5 to 7.25.
    assert.match(panel.replace(/\s+/g, " "), /queue 5 50\.5 \+45\.5 5 50\.5/);
  },
  async "a counter between its samples is an area"({ open, pages }) {
    const page = await open(pages[0]);
    await page.evaluate(() => { window.tracetee.view.from = 60_000; window.tracetee.view.to = 70_000; });
    const inside = await page.pixel("queue", 65_000, 40), above = await page.pixel("queue", 65_000, 14);
    assert.notDeepEqual(inside, above);
    // Where it is 50.5, the highest, all of the row is filled.
    await page.evaluate(() => { window.tracetee.view.from = 240_000; window.tracetee.view.to = 245_000; });
    assert.deepEqual((await page.pixel("queue", 242_000, 16)).slice(0, 3), inside.slice(0, 3));
    await page.click("queue", 242_000, 20);
    has(await page.panel(), "value 50.5");
  },
  async "search finds slices, threads, counters, asyncs, and by duration"({ open, pages }) {
    const page = await open(pages[0]);
    const found = async (text) => {
      await page.press("/");
      await page.evaluate(() => document.getElementById("search").select());
      await page.keyboard.type(text);
      return page.evaluate(() => document.getElementById("found").textContent);
    };
    assert.equal(await found("load"), "1 found");
    has(await page.panel(), "Found: 1");
    assert.equal(await found("queue"), "1 found");
    assert.equal(await found("worker"), "1 found");
    assert.equal(await found("doFrame dur:>20ms"), "1 found");
    assert.equal(await found("doFrame dur:<20ms"), "12 found");
    assert.equal(await found("fetch"), "1 found");
    assert.equal(await found("none of it"), "0 found");
    has(await page.panel(), "Nothing is found");
    assert.equal(await found("dur:>20ms"), "3 found");
    await page.press("Enter");
    assert.equal(await page.evaluate(() => document.getElementById("found").textContent), "1 of 3");
    await page.press("Escape");
  },
  async "what is found is stepped through in the order of time, over threads"({ open, pages }) {
    const page = await open(pages[0]);
    await page.press("/");
    await page.keyboard.type("frame");
    const shown = () => page.evaluate(() => [document.getElementById("found").textContent, window.tracetee.names[window.tracetee.selected().thread.slices.name[window.tracetee.selected().place]]].join(" "));
    const seen = [];
    for (const key of ["Enter", "Enter", "Enter"]) { await page.press(key); seen.push(await shown()); }
    assert.deepEqual(seen, ["1 of 26 Choreographer#doFrame", "2 of 26 DrawFrame", "3 of 26 Choreographer#doFrame"]);
    await page.keyboard.down("Shift");
    for (let i = 0; i < 3; i++) await page.press("Enter");
    await page.keyboard.up("Shift");
    assert.equal(await shown(), "26 of 26 DrawFrame");
    await page.press("Enter");
    assert.equal(await shown(), "1 of 26 Choreographer#doFrame");
    // Durations are exact to the ns: twelve frames take 5 ms.
    await page.evaluate(() => document.getElementById("search").select());
    for (const [query, count] of [["doFrame dur:>=5ms dur:<=5ms", 12], ["doFrame dur:>5ms", 1], ["doFrame dur:<5ms", 0], ["doFrame dur:<5.000001ms", 12]]) {
      await page.evaluate(() => document.getElementById("search").select());
      await page.keyboard.type(query);
      assert.equal(await page.evaluate(() => document.getElementById("found").textContent), `${count} found`, query);
    }
  },
  async "a search is limited to threads, lists the longest first, and takes the place of a selection"({ open, pages }) {
    const page = await open(pages[0]);
    await page.press("n", "/");
    const find = async (text) => {
      await page.evaluate(() => document.getElementById("search").select());
      await page.keyboard.type(text);
      return page.evaluate(() => [document.querySelector("#hits h2")?.innerText ?? "", ...[...document.querySelectorAll("#hits tbody tr")].slice(0, 2).map((row) => row.innerText.replace(/\s+/g, " ").trim())]);
    };
    assert.deepEqual(await find("on:main frame"), ["Found: 13; sum 110.0 ms, mean 8.462 ms", "Choreographer#doFrame 200.0 ms 50.000 ms com.example 100", "Choreographer#doFrame 0 µs 5.000 ms com.example 100"]);
    assert.equal(await page.evaluate(() => window.tracetee.frame()), null);
    assert.deepEqual((await find("load on:main")).slice(1), ["load 205.0 ms 40.000 ms com.example 100 Choreographer#doFrame"]);
    assert.equal((await find("frame on:RenderThread"))[0], "Found: 13; sum 13.000 ms, mean 1.000 ms");
    assert.deepEqual(await find("frame on:500"), [""]);
    assert.equal((await find("queue"))[1], "queue 0 µs 5 to 50.5 counter");
    await find("on:main frame");
    await page.evaluate(() => window.tracetee.whole());
    // Not a call of another thread is coloured as found.
    assert.deepEqual((await page.pixel("com.example 100", 4_000, 14)).slice(0, 3), [0xaa, 0, 0xc8]);
    assert.notDeepEqual((await page.pixel("RenderThread 101", 1_500, 14)).slice(0, 3), [0xaa, 0, 0xc8]);
    await (await page.$("#hits th:nth-child(2) button")).click();
    assert.match(await page.evaluate(() => document.querySelector("#hits tbody tr").innerText.replace(/\s+/g, " ")), /^Choreographer#doFrame 0 µs 5/);
  },
  async "a comparison with the one before is a key, is in the address, and ends with another selection"({ open, pages }) {
    const page = await open(pages[0]);
    await page.press("n", "b");
    has((await page.panel()).replace(/\s+/g, " "), "frame at 183.3 ms (5.000 ms) beside frame at 200.0 ms (50.000 ms): +45.000 ms");
    const hash = await page.evaluate(() => location.hash);
    const again = await open(pages[0], { hash });
    has((await again.panel()).replace(/\s+/g, " "), "5.000 ms from 183.3 ms beside frame at 200.0 ms (50.000 ms): +45.000 ms");
    await again.press("p");
    assert.equal(await again.evaluate(() => window.tracetee.comparison()), null);
    await page.press("0");
    await page.click("RenderThread 101", 1_500, 17);
    has(await page.panel(), "Call 1 of 13");
    await page.press("]", "b");
    has(await page.panel(), "DrawFrame at 1.000 ms beside DrawFrame at 17.667 ms: 0 µs");
    await page.evaluate(() => history.back());
    await page.waitForFunction(() => !window.tracetee.comparison());
  },
  async "a long text is dropped when the page has read its columns"({ open, pages }) {
    const page = await open(pages[3]);
    await page.waitForFunction(() => document.querySelectorAll("script.trace-data").length === 1, { timeout: 60_000 });
    assert.equal(await page.evaluate(() => document.querySelector("script.trace-data").textContent.trim().split("\n")[0]), "PROCESS DUMP");
  },
  async "slices narrower than a pixel are drawn"({ open, pages }) {
    const page = await open(pages[3]);
    for (const part of [0.2, 0.5, 0.8]) {
      const [slice, gap] = await page.evaluate(async (part) => {
        const { threads } = window.tracetee, { slices } = [...threads.values()][0];
        return [slices.start[Math.round(slices.start.length * part)], part];
      }, part);
      const drawn = await page.pixel("worker 8", slice, 5), below = await page.pixel("worker 8", slice, 19);
      assert.notDeepEqual(drawn, below, String(gap));
    }
  },
  async "all calls of a name are marked, with parents and children, and counted"({ open, pages }) {
    const page = await open(pages[0]);
    await page.click("RenderThread 101", 1_500, 17);
    has(await page.panel(), "Call 1 of 13");
    assert.equal(await page.evaluate(() => window.tracetee.calls().count), 13);
    await page.press("]");
    has(await page.panel(), "Call 2 of 13");
    await page.press("[");
    await page.press("0");
    // The bar of another call, in its row.
    const bar = await page.pixel("RenderThread 101", 16_667 * 4 + 1_500, 15);
    assert.deepEqual(bar.slice(0, 3), [0, 0x59, 0xb3]);
    await page.press("Escape");
    await page.evaluate(() => { for (const button of document.querySelectorAll("#profile td button")) if (button.textContent === "load") button.setAttribute("data-load", ""); });
    const all = await page.$("#profile .more");
    if (all) await all.click();
    await page.evaluate(() => { for (const button of document.querySelectorAll("#profile td button")) if (button.textContent === "load") button.setAttribute("data-load", ""); });
    await (await page.$("[data-load]")).click();
    const relatives = await page.evaluate(() => document.getElementById("relatives").innerText);
    has(relatives.replace(/\s+/g, " "), "Choreographer#doFrame 40.000 ms 100.0 % 1/1");
  },
  async "pins are in the address, and the back button undoes"({ open, pages }) {
    const page = await open(pages[0]);
    await page.press("j", "j", "j", "j", "t");
    const first = () => page.evaluate(() => window.tracetee.rows().slice(0, 2).map((row) => row.title.split(" of ")[0]));
    const pinned = await first();
    assert.equal(pinned[0], "Pinned");
    await page.press("n");
    await settle(page);
    const hash = await page.evaluate(() => location.hash);
    has(hash, "sel=f.12"); has(hash, "pins=");
    const again = await open(pages[0], { hash });
    assert.deepEqual(await again.evaluate(() => window.tracetee.rows().slice(0, 2).map((row) => row.title.split(" of ")[0])), pinned);
    has(await again.panel(), "33.333 ms past its deadline");
    await page.evaluate(() => history.back());
    await page.waitForFunction(() => !window.tracetee.frame());
    assert.deepEqual(await first(), pinned);
    await page.evaluate(() => history.back());
    await page.waitForFunction(() => window.tracetee.rows()[0].title !== "Pinned");
  },
  async "every slice is reached by keys alone"({ open, pages }) {
    const page = await open(pages[0]);
    await page.focus("#view");
    // Process, frames, async, main.
    for (let i = 0; i < 20; i++) {
      await page.press("j");
      if ((await page.evaluate(() => document.getElementById("live").textContent)) === "Row com.example 100" && i > 1) break;
    }
    await page.press("Enter");
    has(await page.panel(), "Choreographer#doFrame");
    for (let i = 0; i < 12; i++) await page.press(".");
    await page.press("i");
    has(await page.panel(), "Wall 40.000 ms");
    await page.press("u");
    has(await page.panel(), "Wall 50.000 ms");
    await page.press("v");
    has(await page.panel(), "In view: ");
    await page.press("r");
    has(await page.panel(), "Selected: ");
    await page.press("Escape");
    has(await page.panel(), "The whole trace");
    await page.press("?");
    assert.equal(await page.evaluate(() => document.getElementById("keys").hidden), false);
  },
  async "two frames side by side, and another capture"({ open, pages }) {
    const page = await open(pages[0]);
    await page.click("Frames", 2_500, 8);
    await page.press("c", "n", "c");
    let panel = await page.panel();
    has(panel, "beside"); has(panel, "+45.000 ms"); has(panel.replace(/\s+/g, " "), "load none 40.000 ms +40.000 ms 0 / 1");
    has(panel.replace(/\s+/g, " "), "asleep none 30.000 ms +30.000 ms");
    await page.press("Escape");
    await page.evaluate(() => { document.getElementById("saves").open = true; });
    await (await page.$("#other")).uploadFile(pages[2]);
    await page.waitForFunction(() => document.getElementById("panel").innerText.includes("beside"));
    panel = await page.panel();
    has(panel, "worst frame (50.000 ms) beside"); has(panel, "worst frame (30.000 ms)");
    // A trace without events of the scheduler says nothing of states.
    await (await page.$("#other")).uploadFile(pages[4]);
    await page.waitForFunction(() => document.getElementById("panel").innerText.includes("sampled"));
    has((await page.panel()).replace(/\s+/g, " "), "asleep 30.000 ms not recorded not recorded");
  },
  async "flows are arrows, asyncs and instants are selected with their arguments"({ open, pages }) {
    const page = await open(pages[1]);
    await page.click("load", 700, 8);
    has((await page.panel()).replace(/\s+/g, " "), 'Arguments: { "file": "a.db" }');
    await page.click(" 2", 200, 17);
    const panel = await page.panel();
    has(panel, "Flows to"); has(panel, "Category: net");
    await page.click(" 2", 1_897, 4);
    has((await page.panel()).replace(/\s+/g, " "), '"why": "late"');
  },
  async "the functions of a frame's sampled callstacks, and of a part of it"({ open, pages }) {
    const page = await open(pages[4]);
    const rows = () => page.evaluate(() => [...document.querySelectorAll("#panel .wordy")].filter((one) => one.ariaLabel === "Table: Function, Self, Total")
      .flatMap((one) => [...one.querySelectorAll("tbody tr")].map((row) => [...row.cells].map((cell) => cell.textContent.replace(/\s+/g, " ")).join("; "))));
    // A slice: its whole time.
    const [x, y] = await page.spot("com.app 7", 50_000, 12 + 5);
    await page.mouse.click(x, y);
    assert.deepEqual(await rows(), [
      "com.app.Feed.bind; 40.000 ms 50.0 %; 60.000 ms 75.0 %", "android.os.Looper.loop; 20.000 ms 25.0 %; 80.000 ms 100.0 %",
      "com.app.Feed.fit; 20.000 ms 25.0 %; 20.000 ms 25.0 %",
    ]);
    // The tree: a click shows what a function calls, and hides it.
    const tree = () => page.evaluate(() => document.querySelector(".calls").innerText.replace(/\s+/g, " ").trim());
    has(await tree(), "80.000 ms 100.0 % android.os.Looper.loop, self 20.000 ms 60.000 ms 75.0 % com.app.Feed.bind, self 40.000 ms 20.000 ms 25.0 % com.app.Feed.fit");
    await (await page.$(".calls summary")).click();
    assert.ok(!(await tree()).includes("Feed.bind"), await tree());
    // A range of the first 30 ms, dragged in the ruler.
    const [from] = await page.spot("com.app 7", 0, 0), [to] = await page.spot("com.app 7", 30_000, 0);
    const ruler = await page.evaluate(() => document.getElementById("view").getBoundingClientRect().top + 28);
    await page.mouse.move(from, ruler); await page.mouse.down(); await page.mouse.move((from + to) / 2, ruler + 2); await page.mouse.move(to, ruler); await page.mouse.up();
    const [only, ...others] = await rows();
    assert.match(only, /^com\.app\.Feed\.bind; (29|30)\.\d+ ms 100\.0 %/);
    assert.match(others.join(), /^android\.os\.Looper\.loop; 0/);
  },
  async "missing records are hatched, and say why when they are selected"({ open, pages }) {
    const page = await open(pages[5]);
    const rows = await page.evaluate(() => window.tracetee.rows().map((row) => row.title));
    assert.equal(rows[0], "Missing records");
    await page.click("Missing records", 50_000, 8);
    const panel = (await page.panel()).replace(/\s+/g, " ");
    has(panel, "Missing records: kernel events overwritten"); has(panel, "40.000 ms, from 30.000 ms; 113 records; of processor 1");
    // The strip goes through the rows of threads: some of its pixels have the colour of its lines.
    const reds = (from, to) => page.evaluate((from, to) => {
      const { rows, yOf, xOf, draw } = window.tracetee;
      draw();
      const ratio = devicePixelRatio || 1, row = rows().find((row) => row.kind === "thread" && row.title === "com.example 7");
      const { data } = document.getElementById("canvas").getContext("2d").getImageData(Math.round(xOf(from) * ratio), Math.round((yOf(row) + 31) * ratio), Math.round((xOf(to) - xOf(from)) * ratio), 1);
      let count = 0;
      for (let i = 0; i < data.length; i += 4) if (data[i] > data[i + 1] + 40) count++;
      return count;
    }, from, to);
    assert.ok((await reds(50_000, 65_000)) > 5); assert.equal(await reds(12_000, 28_000), 0);
    await settle(page);
    const again = await open(pages[5], { hash: await page.evaluate(() => location.hash) });
    has(await again.panel(), "113 records");
    await again.press("Escape"); await again.focus("#view"); await again.press("j", "Enter");
    has(await again.panel(), "Missing records: kernel events overwritten");
    // The agent's note, at a point.
    await page.click("Missing records", 90_000, 8);
    has(await page.panel(), "tracetee: 1 sections open before lost records");
  },
  async "the mouse zooms, moves, scrolls; the overview jumps"({ open, pages }) {
    const page = await open(pages[0]);
    const span = () => page.evaluate(() => window.tracetee.view.to - window.tracetee.view.from);
    const before = await span(), [x, y] = await page.spot("com.example 100", 120_000, 20);
    await page.mouse.move(x, y);
    await page.keyboard.down("Control"); await page.mouse.wheel({ deltaY: -200 }); await page.keyboard.up("Control");
    await page.waitForFunction((before) => window.tracetee.view.to - window.tracetee.view.from < before * 0.9, {}, before);
    const from = await page.evaluate(() => window.tracetee.view.from);
    await page.mouse.down(); await page.mouse.move(x - 50, y); await page.mouse.move(x - 100, y); await page.mouse.up();
    assert.ok((await page.evaluate(() => window.tracetee.view.from)) > from);
    const box = await page.evaluate(() => { const { left, top, width } = document.getElementById("view").getBoundingClientRect(); return [left, top, width]; });
    await page.mouse.click(box[0] + box[2] - 5, box[1] + 6);
    const middle = await page.evaluate(() => (window.tracetee.view.from + window.tracetee.view.to) / 2);
    assert.ok(middle > 240_000, String(middle));
  },
  async "a finger selects and drags"({ open, pages }) {
    const page = await open(pages[0], { width: 360, height: 740, touch: true });
    await page.evaluate(() => addEventListener("pointerdown", ({ pointerType }) => { document.body.dataset.pointer = pointerType; }, { capture: true }));
    const [x, y] = await page.spot("Frames", 225_000, 8);
    await page.touchscreen.tap(x, y);
    assert.equal(await page.evaluate(() => document.body.dataset.pointer), "touch");
    has(await page.panel(), "33.333 ms past its deadline");
    await page.press("w", "w");
    const from = await page.evaluate(() => window.tracetee.view.from);
    const touch = await page.touchscreen.touchStart(x, y + 60);
    await touch.move(x - 20, y + 60); await touch.move(x - 60, y + 60); await touch.end();
    assert.ok((await page.evaluate(() => window.tracetee.view.from)) > from);
    assert.ok((await page.evaluate(() => document.documentElement.scrollWidth)) <= 360);
  },
  async "axe finds nothing serious, wide and narrow, light and dark"({ open, pages, browser }) {
    const axe = readFileSync(createRequire(`${process.env.NODE_PATH}/`).resolve("axe-core/axe.min.js"), "utf8");
    for (const width of [360, 1440]) for (const hash of ["", "#t=5.200004", "#q=load"]) {
      const page = await open(pages[0], { width, hash });
      if (browser === "chromium" && width === 360) await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: "dark" }]);
      await page.evaluate(axe);
      const serious = await page.evaluate(async () => (await window.axe.run()).violations.filter((one) => one.impact === "serious" || one.impact === "critical").map((one) => `${one.id}: ${one.nodes[0].html}`));
      assert.deepEqual(serious, [], `${width} ${hash}`);
    }
  },
};
