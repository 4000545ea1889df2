// Tasks with traces that nobody's phone makes, but that somebody may send: very many threads, very deep slices, a gap of years,
// markup in every name. The page opens, stays usable and bounded. Called by run.mjs.

import assert from "node:assert/strict";

const found = (page) => page.evaluate(() => document.getElementById("found").textContent);
const spanOf = (page) => page.evaluate(() => { const { from, to } = window.tracetee.view; return [from, to - from]; });
const search = async (page, text) => { await page.press("/"); await page.evaluate(() => document.getElementById("search").select()); await page.keyboard.type(text); };

export default {
  async "200,000 threads: a few rows, each thread is found"({ open, pages }) {
    const page = await open(pages[0]);
    const rows = () => page.evaluate(() => window.tracetee.rows().length);
    const first = await rows();
    assert.ok(first < 100, String(first));
    assert.ok((await page.panel()).includes("200000 slices on 200000 threads"), await page.panel());
    await search(page, "slice");
    assert.equal(await found(page), "200000 found");
    await page.press("Enter", "Enter");
    assert.equal(await found(page), "2 of 200000");
    // The two that are looked at have rows, and the second's slice is selected.
    assert.ok((await rows()) <= first + 4, String(await rows()));
    assert.equal(await page.evaluate(() => window.tracetee.selected().thread.tid), 1001);
    await page.press("Escape", "Escape");
    await page.click("▸ 99998 threads below 0.1 % of the time", null);
    assert.ok((await rows()) > 99_998, String(await rows()));
    await page.press("End", "PageUp", "j", "o", "r");
    assert.ok((await page.panel()).includes("Selected: "));
  },
  async "1,000 levels: 200 are drawn, a click or a search shows the others"({ open, pages }) {
    const page = await open(pages[1]);
    const tall = () => page.evaluate(() => window.tracetee.rows().find((row) => row.thread?.tid === 7).height);
    assert.ok((await tall()) < 201 * 18 + 20);
    await page.press("End");
    await page.evaluate(() => window.tracetee.draw());
    await page.click("▸ 800 deeper levels", null);
    assert.ok((await tall()) >= 1000 * 18);
    await page.press("Home");
    await search(page, "level 999");
    await page.press("Enter");
    const at = await page.evaluate(() => { const { thread, place } = window.tracetee.selected(); return thread.slices.start[place] + 0.4; });
    const slice = await page.pixel("<i>deep 7", at, 999 * 18 + 4), above = await page.pixel("<i>deep 7", at, 1000 * 18 + 1);
    assert.notDeepEqual(slice, above);
    const again = await open(pages[1]);
    await search(again, "level 999");
    await again.press("Enter");
    assert.ok((await again.evaluate(() => window.tracetee.rows().find((row) => row.thread?.tid === 7).height)) >= 1000 * 18);
  },
  async "a gap of ten years: each end is zoomed to, and no further than times can tell apart"({ open, pages }) {
    const page = await open(pages[2]);
    // Processes that are short beside the gap are not all folded into one row; a search would unfold what it finds.
    assert.ok((await page.evaluate(() => window.tracetee.rows().filter((row) => row.thread).length)) > 0);
    await page.press("0");
    assert.ok((await spanOf(page))[1] > 3e14);
    for (let i = 0; i < 150; i++) await page.press("w");
    const [, least] = await spanOf(page);
    assert.ok(least > 0 && least < 1000, String(least));
    await search(page, "after");
    assert.equal(await found(page), "100 found");
    for (let i = 0; i < 3; i++) await page.press("Enter");
    await page.press("Escape", "f");
    const [from, span] = await spanOf(page);
    assert.ok(from > 3e14 && span < 1000, `${from} ${span}`);
    await page.press("d", "d", "a", "s", "s", "]", "r", "0");
    assert.ok((await spanOf(page))[1] > 3e14);
  },
  async "markup in names is text: in the title, the panel, the tip and the list"({ open, pages }) {
    const page = await open(pages[2]);
    await search(page, "img");
    await page.press("Enter");
    await page.click("<i>deep 7", 0, 5);
    await page.mouse.move(...(await page.spot("<i>deep 7", 0, 5)));
    await page.press("v", "r");
    const seen = await page.evaluate(() => ({
      title: document.title, images: document.images.length, scripts: document.querySelectorAll("script").length,
      italics: document.querySelectorAll("#panel i i, #legend i i, header i").length, panel: document.getElementById("panel").innerText,
    }));
    assert.equal(seen.title, "years.ftrace"); assert.equal(seen.images, 0); assert.equal(seen.italics, 0);
    assert.equal(seen.scripts, 5);
    assert.ok(seen.panel.includes("<img src=x onerror="), seen.panel);
  },
};
