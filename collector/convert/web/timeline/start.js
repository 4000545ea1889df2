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

async function begin() {
    await readColumns();
    for (const track of asyncs) lanes(track);
    // Frames are told in ns of the trace's clock.
    let reach = 0;
    for (const of of frames) {
        of.start = (of.start_s - originSeconds) * 1e6 + of.start_ns / 1e3 - origin;
        of.dur = of.dur_ns / 1e3;
        of.deadline = of.deadline_ns / 1e3;
        of.reach = reach = Math.max(reach, frameEnd(of));
    }
    layOut();
    legend();
    draw();
    whole();
    tell();
    followLink();
    addEventListener("hashchange", followLink);
    document.documentElement.dataset.ready = "yes";
}
begin().catch((error) => { $("status").textContent = `This browser cannot read the trace in this page: ${error}`; });
// For who drives the page from its console.
window.tracetee = { view, names, threads, search, step, whole, draw, xOf, states, frames, followLink, rows: () => rows, selected: () => selected, frame: () => frame };
