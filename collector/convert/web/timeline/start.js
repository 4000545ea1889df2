// Hands the trace to Perfetto; begins.

$("perfetto").addEventListener("click", () => {
    const there = "https://ui.perfetto.dev";
    const tab = open(there);
    if (!tab) return;
    const text = [...document.querySelectorAll("script.trace-data")].map((script) => script.textContent).find((text) => text.includes("# tracer"));
    const buffer = new TextEncoder().encode(text.trimStart()).buffer;
    // It says PONG once it listens.
    const ping = setInterval(() => tab.postMessage("PING", there), 100);
    const pong = (event) => {
        if (event.source !== tab || event.data !== "PONG") return;
        clearInterval(ping);
        removeEventListener("message", pong);
        tab.postMessage({ perfetto: { buffer, title: document.title, fileName: "trace.ftrace" } }, there);
    };
    addEventListener("message", pong);
    setTimeout(() => clearInterval(ping), 60000);
});

/** Milliseconds of reading between two pictures. */
const PICTURE_MS = 100;

async function begin() {
    let drawn = 0;
    await readColumns(trace, $("tracetee-columns").textContent, async (number, threadsInAll, isLast) => {
        if (!number) { readFrames(); view.from = 0; view.to = Math.max(trace.last, 1); }
        if (isLast || performance.now() - drawn < PICTURE_MS) return;
        layOut(); draw();
        $("status").textContent = `Reading the trace: ${number} of ${threadsInAll} threads…`;
        if (number) document.documentElement.dataset.rows = "yes";
        drawn = performance.now();
        // The browser shows it, and answers.
        await new Promise((resolve) => { setTimeout(resolve); });
    });
    for (const track of asyncs) {
        track.all.sort((a, b) => a.start - b.start);
        track.lanes = lanes(track.all, (one) => one.start, (one) => one.end);
    }
    for (const layer of shown) layer.lanes = lanes([...layer.start.keys()], (i) => layer.start[i], (i) => layer.end[i]);
    isComplete = true;
    layOut();
    draw();
    followLink();
    addEventListener("popstate", followLink);
    document.documentElement.dataset.ready = "yes";
}
begin().catch((error) => { $("status").textContent = `This browser cannot read the trace in this page: ${error}`; });
// For who drives the page from its console.
window.tracetee = {
    view, names, threads, search, step, whole, draw, xOf, yOf, states, frames, counters, pins, followLink, rows: () => rows, selected: () => selected, frame: () => frame, range: () => range,
    calls: () => calls, comparison: () => comparison, svg, selectionData, compareWith,
};
