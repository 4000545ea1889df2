// Starts the page: reads the trace, and draws the part read so far.

/** Characters of text that a page keeps. */
const MUCH_TEXT = 16e6;

/** Drops a long text, which the file has only for other programs, and which takes most of the page's memory. */
function dropText() {
    for (const script of document.querySelectorAll("script.trace-data")) if (script.textContent.length >= MUCH_TEXT) script.remove();
}

/** Milliseconds of reading between two pictures. */
const PICTURE_MS = 100;

async function begin() {
    let drawn = 0, took = 0;
    await readColumns(trace, $("tracetee-columns").textContent, async (number, threadsInAll, isLast) => {
        if (!number) { readFrames(); view.from = 0; view.to = Math.max(trace.last, 1); }
        // Drawing very many threads takes long, so most of the time is used for reading.
        const begun = performance.now();
        if (isLast || begun - drawn < Math.max(PICTURE_MS, 4 * took)) return;
        layOut(); draw();
        $("status").textContent = `Reading the trace: ${number} of ${threadsInAll} threads…`;
        if (number) document.documentElement.dataset.rows = "yes";
        drawn = performance.now();
        took = drawn - begun;
        // Yields, so that the browser draws the page and handles input.
        await new Promise((resolve) => { setTimeout(resolve); });
    });
    for (const track of asyncs) {
        track.all.sort((a, b) => a.start - b.start);
        track.lanes = lanes(track.all, (one) => one.start, (one) => one.end);
    }
    for (const layer of shown) layer.lanes = lanes([...layer.start.keys()], (i) => layer.start[i], (i) => layer.end[i]);
    readGaps();
    isComplete = true;
    if (trace.isByTime) rankByTime();
    layOut();
    draw();
    followLink();
    addEventListener("popstate", followLink);
    document.documentElement.dataset.ready = "yes";
    if (document.readyState === "loading") addEventListener("DOMContentLoaded", dropText); else dropText();
}
begin().catch((error) => { $("status").textContent = `This browser cannot read the trace in this page: ${error}`; });
// For users who control the page from the console.
window.tracetee = {
    view, names, threads, search, step, whole, draw, xOf, yOf, states, frames, counters, pins, followLink, rows: () => rows, selected: () => selected, frame: () => frame, range: () => range,
    calls: () => calls, comparison: () => comparison, compareWith,
};
