// Hands the trace to Perfetto; begins.

$("perfetto").addEventListener("click", () => {
    const there = "https://ui.perfetto.dev";
    const tab = open(there);
    if (!tab) return;
    const text = traceText();
    // It says PONG once it listens.
    const ping = setInterval(() => tab.postMessage("PING", there), 100);
    const pong = async (event) => {
        if (event.source !== tab || event.data !== "PONG") return;
        clearInterval(ping);
        removeEventListener("message", pong);
        const buffer = await text;
        tab.postMessage({ perfetto: { buffer, title: document.title, fileName: "trace.ftrace" } }, there);
    };
    addEventListener("message", pong);
    setTimeout(() => clearInterval(ping), 60000);
});

/** Characters of text that a page keeps as it is, and that are packed at once; milliseconds of packing between two answers. */
const MUCH_TEXT = 16e6, PACKED_AT_ONCE = 1 << 16, PACKING_MS = 8;
/** The trace's text once it is packed. */
let packed = null;
const traceScript = () => [...document.querySelectorAll("script.trace-data")].at(-1);

/** The trace's text, for other programs, as bytes. */
async function traceText() {
    if (!packed) return new TextEncoder().encode(traceScript().textContent.trimStart()).buffer;
    return new Response((await packed).stream().pipeThrough(new DecompressionStream("gzip"))).arrayBuffer();
}

/** Packs a long text: the page needs it for other programs alone, and it is most of the page's memory. */
async function packText() {
    if (document.readyState === "loading") await new Promise((resolve) => { addEventListener("DOMContentLoaded", resolve); });
    const script = traceScript(), text = script?.textContent || "";
    if (text.length < MUCH_TEXT) return;
    script.remove();
    const encoder = new TextEncoderStream(), writer = encoder.writable.getWriter();
    packed = new Response(encoder.readable.pipeThrough(new CompressionStream("gzip"))).blob();
    let begun = performance.now();
    // The text begins with "# tracer". A regular expression would keep it: RegExp.input.
    for (let at = text.indexOf("#"); at < text.length; at += PACKED_AT_ONCE) {
        await writer.write(text.slice(at, at + PACKED_AT_ONCE));
        if (performance.now() - begun < PACKING_MS) continue;
        await new Promise((resolve) => { setTimeout(resolve); });
        begun = performance.now();
    }
    await writer.close();
}

/** Milliseconds of reading between two pictures. */
const PICTURE_MS = 100;

async function begin() {
    let drawn = 0, took = 0;
    await readColumns(trace, $("tracetee-columns").textContent, async (number, threadsInAll, isLast) => {
        if (!number) { readFrames(); view.from = 0; view.to = Math.max(trace.last, 1); }
        // Of very many threads a picture takes long: most of the time is for reading.
        const begun = performance.now();
        if (isLast || begun - drawn < Math.max(PICTURE_MS, 4 * took)) return;
        layOut(); draw();
        $("status").textContent = `Reading the trace: ${number} of ${threadsInAll} threads…`;
        if (number) document.documentElement.dataset.rows = "yes";
        drawn = performance.now();
        took = drawn - begun;
        // The browser shows it, and answers.
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
    await packText();
}
begin().catch((error) => { $("status").textContent = `This browser cannot read the trace in this page: ${error}`; });
// For who drives the page from its console.
window.tracetee = {
    view, names, threads, search, step, whole, draw, xOf, yOf, states, frames, counters, pins, followLink, rows: () => rows, selected: () => selected, frame: () => frame, range: () => range,
    calls: () => calls, traceText, comparison: () => comparison, compareWith,
};
