// Reports' pages, with real input: the answer, the chart, tables, filters, the way to the timelines. The pages are those of
// tests/page_input.rs: two captures, and thirty devices with two versions, of which the later is worse.

import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { readFileSync, writeFileSync } from "node:fs";

const has = (text, part) => assert.ok(text.includes(part), `${part}: ${text}`);
const text = (page, selector) => page.evaluate((selector) => document.querySelector(selector).innerText.replace(/\s+/g, " "), selector);
const click = async (page, words, within = "body") => {
  await page.evaluate((words, within) => {
    for (const one of document.querySelectorAll("[data-here]")) delete one.dataset.here;
    [...document.querySelectorAll(`${within} button`)].find((button) => button.textContent === words).dataset.here = "";
  }, words, within);
  await (await page.$("[data-here]")).click();
};

export default {
  async "the answer comes first, and leads to the table and the worst frame"({ open, pages }) {
    const page = await open(pages[0]);
    const answer = await text(page, "#answer");
    has(answer, "1 of 13 frames (7.7 %) took longer than one period, the worst by 33.3 ms");
    has(answer, "people see about 1 of these (0 to 1) late, as in traces that show the display");
    has(answer, "Three causes make 98.0 % of the time past the deadlines: wait: woken by worker (60.0 %");
    await click(page, "the worst by 33.3 ms", "#answer");
    assert.equal(await page.evaluate(() => document.getElementById("worst-0").open), true);
    await click(page, "wait: woken by worker", "#answer");
    assert.equal(await page.evaluate(() => document.activeElement.id), "causes");
  },
  async "a click on a frame of the chart tells its cause; late ones are reached by key"({ open, pages }) {
    const page = await open(pages[0]);
    const bars = await page.$$(".bar-of-frame");
    assert.equal(bars.length, 13);
    await bars[2].click();
    has(await text(page, ".chosen"), "5.0 ms, in time");
    await page.evaluate(() => document.querySelectorAll(".bar-of-frame")[12].focus());
    await page.keyboard.press("Enter");
    has(await text(page, ".chosen"), "33.3 ms past its deadline");
    has(await text(page, ".chosen"), "woken by worker");
    has(await text(page, ".chart"), "deadline");
    const line = await page.evaluate(() => document.querySelector(".deadline-line").getAttribute("d"));
    assert.ok(line.startsWith("M56 ") && line.split("H").length === 14, line);
  },
  async "the chart draws the deadline of frames that had one, and of no others"({ open, pages }) {
    const html = readFileSync(pages[0], "utf8"), [, json] = html.match(/<script[^>]*id="data"[^>]*>(.*?)<\/script>/s), data = JSON.parse(json);
    // In time, though it ended later than a period after its begin: it waited for the display.
    Object.assign(data.report.frames[2], { dur_ns: data.report.frames[2].deadline_ns + 1e7, evidence: "buffers", outcome: "stuffing" });
    writeFileSync(`${pages[0]}.stuffing.html`, html.replace(json, () => JSON.stringify(data)));
    const page = await open(`${pages[0]}.stuffing.html`);
    const line = await page.evaluate(() => document.querySelector(".deadline-line").getAttribute("d"));
    assert.equal(line.split("H").length, 13, line);
    has(await page.evaluate(() => document.querySelectorAll(".bar-of-frame title")[2].textContent), "behind earlier buffers");
    await (await page.$$(".bar-of-frame"))[2].click();
    has(await text(page, ".chosen"), "26.7 ms, behind earlier buffers");
  },
  async "tables sort and filter, in the address; the back button undoes"({ open, pages }) {
    const page = await open(pages[0]);
    const causes = () => page.evaluate(() => [...document.querySelectorAll("#table-causes tbody tr:not([hidden]) td:first-child")].map((cell) => cell.textContent));
    const before = await causes();
    await click(page, "cause", "#table-causes");
    const sorted = await causes();
    assert.deepEqual(sorted, [...before].sort((a, b) => a.localeCompare(b)));
    assert.notDeepEqual(sorted, before);
    has(await page.evaluate(() => location.hash), "sort.causes=cause");
    await page.select("select[name=cause]", "wait");
    assert.deepEqual(await causes(), ["wait"]);
    const again = await open(pages[0], { hash: await page.evaluate(() => location.hash) });
    assert.deepEqual(await again.evaluate(() => [...document.querySelectorAll("#table-causes tbody tr:not([hidden])")].length), 1);
    await page.evaluate(() => history.back());
    await page.waitForFunction(() => document.querySelectorAll("#table-causes tbody tr:not([hidden])").length > 1);
    assert.deepEqual(await causes(), sorted);
  },
  async "noise is folded below a stated share, and shown when asked for"({ open, pages }) {
    const page = await open(pages[1]);
    const shown = () => page.evaluate(() => document.querySelectorAll("#table-causes tbody tr:not([hidden])").length);
    const before = await shown(), all = await page.evaluate(() => document.querySelectorAll("#table-causes tbody tr").length);
    assert.ok(before <= 10 && all > before, `${before} of ${all}`);
    const button = await page.evaluate(() => document.querySelector("#table-causes > .link").textContent);
    assert.match(button, /^Show all \d+ \(\d+ below 1 % of the time past the deadlines\)$/);
    await click(page, button, "#table-causes");
    assert.equal(await shown(), all);
    // No table is longer than ten rows unasked.
    for (const path of pages) {
      const other = path === pages[1] ? page : await open(path);
      const long = await other.evaluate(() => [...document.querySelectorAll("table")].filter((table) => !table.closest("#table-causes") && table.querySelectorAll("tbody tr:not([hidden])").length > 10).length);
      assert.equal(long, 0, path);
    }
  },
  async "a fleet's page answers first: how many, why, what changed and how sure"({ open, pages }) {
    const page = await open(pages[2]);
    const answer = await text(page, ".answer");
    has(answer, "360 of 1,800 frames (20.0 %) took longer than one period, on 30 devices with captures by schedule.");
    has(answer, "The worst frame by section: Feed.bind (version 2.0, m, 2026-09-21 14:13 UTC): 78.4 ms over one period: main took 90.0 ms in Feed.bind. What to do: do less in it, or on another thread.");
    has(answer, "people see about a third of such frames late");
    has(answer, "Three causes make 100.0 % of the time past the deadlines: section: Feed.bind (59.1 %; worst frame; which devices)");
    has(answer, "Cannot know whether 2.0 is worse than 1.0: no device that updated has one like it that kept 1.0 on the same days.");
    await click(page, "section: Feed.bind", ".answer");
    assert.equal(await page.evaluate(() => document.activeElement.id), "causes-com.example.shop");
    await page.select("select[name=version]", "1.0");
    has(await text(page, ".answer"), "180 of 900 frames");
    has(await page.evaluate(() => location.hash), "version=1.0");
  },
  async "the worst pair of a comparison opens side by side"({ open, pages }) {
    const page = await open(pages[2]);
    const popup = new Promise((resolve) => { page.once("popup", resolve); });
    await click(page, "the worst pair side by side", ".answer");
    const timeline = await popup;
    await timeline.waitForFunction(() => document.getElementById("panel")?.innerText.includes("Self time by name"), { timeout: 30_000 });
    const panel = await text(timeline, "#panel");
    const names = ["1.0", "2.0"].map((version) => `${version}, m, 2026-09-21 14:13 UTC`);
    has(panel, `${names[0]}: `); has(panel, ` beside ${names[1]}: `);
    has(panel, "Feed.bind 29.990 ms 89.990 ms +60.000 ms");
    assert.equal(await timeline.title(), names.join(" beside "));
    assert.equal(await text(timeline, "h1"), names[0]);
    await timeline.close();
  },
  async "print has the frames' details"({ open, pages }) {
    const page = await open(pages[0]);
    const opened = await page.evaluate(() => {
      dispatchEvent(new Event("beforeprint"));
      const all = [...document.querySelectorAll("details")].every((one) => one.open);
      dispatchEvent(new Event("afterprint"));
      return [all, [...document.querySelectorAll("details")].some((one) => one.open)];
    });
    assert.deepEqual(opened, [true, false]);
  },
  async "axe finds nothing serious, and nothing reaches out of a narrow window"({ open, pages }) {
    const axe = readFileSync(createRequire(`${process.env.NODE_PATH}/`).resolve("axe-core/axe.min.js"), "utf8");
    for (const width of [360, 1440]) for (const path of pages) {
      const page = await open(path, { width });
      await page.evaluate(() => { for (const one of document.querySelectorAll("details")) one.open = true; });
      await page.evaluate(axe);
      const serious = await page.evaluate(async () => (await window.axe.run()).violations.filter((one) => one.impact === "serious" || one.impact === "critical").map((one) => `${one.id}: ${one.nodes[0].html}`));
      assert.deepEqual(serious, [], String(width));
      assert.ok((await page.evaluate(() => document.documentElement.scrollWidth)) <= width);
    }
  },
};
