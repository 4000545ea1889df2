// Saves the picture (PNG, SVG) and the selection (JSON); prints; lists what is in view as a table.

function save(blob, name) {
    const at = element("a", null);
    at.download = `${document.title.replace(/[^\w.-]+/g, "-")}.${name}`;
    at.href = URL.createObjectURL(blob);
    at.click();
    setTimeout(() => URL.revokeObjectURL(at.href), 10_000);
}

/** A stand-in for the canvas's context that makes SVG. */
function svgContext(wide, tall) {
    const out = [], escaped = (text) => String(text).replace(/[&<>"]/g, (char) => `&#${char.codePointAt(0)};`).replace(/[^\t\n\r\u{20}-\u{d7ff}\u{e000}-\u{fffd}\u{10000}-\u{10ffff}]/gu, "\u{fffd}");
    const style = { fillStyle: "#000", strokeStyle: "#000", lineWidth: 1, font: "11px sans-serif", textBaseline: "middle", globalAlpha: 1, dash: "" };
    const kept = [];
    let path = "", clips = 0, open = 0;
    const n = (value) => Math.round(value * 100) / 100;
    const alpha = () => (style.globalAlpha < 1 ? ` opacity="${style.globalAlpha}"` : "");
    const stroke = () => ` fill="none" stroke="${style.strokeStyle}" stroke-width="${style.lineWidth}"${style.dash && ` stroke-dasharray="${style.dash}"`}${alpha()}`;
    return Object.assign(style, {
        save() { kept.push([{ ...style }, open]); },
        restore() { const [was, level] = kept.pop(); while (open > level) { out.push("</g>"); open--; } for (const key of ["fillStyle", "strokeStyle", "lineWidth", "font", "globalAlpha", "dash"]) style[key] = was[key]; },
        beginPath() { path = ""; },
        moveTo(x, y) { path += `M${n(x)} ${n(y)}`; },
        lineTo(x, y) { path += `L${n(x)} ${n(y)}`; },
        bezierCurveTo(...all) { path += `C${all.map(n).join(" ")}`; },
        rect(x, y, w, h) { path += `M${n(x)} ${n(y)}h${n(w)}v${n(h)}h${n(-w)}z`; },
        clip() { clips++; open++; out.push(`<clipPath id="c${clips}"><path d="${path}"/></clipPath><g clip-path="url(#c${clips})">`); },
        stroke() { out.push(`<path d="${path}"${stroke()}/>`); },
        fill() { out.push(`<path d="${path}" fill="${style.fillStyle}"${alpha()}/>`); },
        fillRect(x, y, w, h) { out.push(`<rect x="${n(x)}" y="${n(y)}" width="${n(Math.max(w, 0))}" height="${n(Math.max(h, 0))}" fill="${style.fillStyle}"${alpha()}/>`); },
        strokeRect(x, y, w, h) { out.push(`<rect x="${n(x)}" y="${n(y)}" width="${n(Math.max(w, 0))}" height="${n(Math.max(h, 0))}"${stroke()}/>`); },
        fillText(text, x, y) { out.push(`<text x="${n(x)}" y="${n(y)}" dominant-baseline="middle" style="font:${style.font}" fill="${style.fillStyle}">${escaped(text)}</text>`); },
        setLineDash(all) { style.dash = all.join(" "); },
        text: () => `<svg xmlns="http://www.w3.org/2000/svg" width="${wide}" height="${tall}">${out.join("\n")}</svg>\n`,
    });
}

function svg() {
    measure();
    context = svgContext(width, height);
    try { paint(); return context.text(); } finally { context = screen; }
}

/** Returns the selection as data: times in µs since the trace's begin, and the statistics of the time. */
function selectionData() {
    const times = selectedTimes() || { from: Math.max(0, view.from), to: Math.min(view.to, trace.last) };
    const made = { trace: document.title, begin_s: seconds(0), from_us: times.from, to_us: times.to };
    if (selected) {
        const { kind, thread, place, one, track, counter } = selected;
        Object.assign(made, { kind, name: nameOfSelection(selected) });
        if (thread) Object.assign(made, { thread: thread.name, tid: thread.tid, pid: thread.pid });
        if (track) made.track = track.name;
        if (kind === "gap") Object.assign(made, { reason: one.why, records: one.count, processor: one.processor });
        if (counter) made.value = counter.value[place];
        const args = kind === "slice" ? thread.slices.args[place] : one?.args;
        if (args) { try { made.args = JSON.parse(names[args]); } catch { made.args = names[args]; } }
        if (kind === "slice") made.self_us = thread.slices.own[place];
    } else if (frame) Object.assign(made, { kind: "frame", pipeline: frame.pipeline, deadline_us: frame.deadline, late: frame.slow, explanation: frame.why });
    else made.kind = range ? "range" : "view";
    const root = selected?.kind === "slice" ? selected.place : undefined, all = selected?.kind === "slice" ? [selected.thread] : [...threads.values()];
    made.slices = [...profile(all, times.from, times.to, root).found.values()].sort((a, b) => b.wall - a.wall)
        .map(({ name, wall, own, calls, again }) => ({ name: names[name], wall_us: wall, self_us: own, calls, recursive_calls: again }));
    made.states = withContent().map((thread) => ({ thread: thread.name, tid: thread.tid, ...statesIn(thread, times.from, times.to) })).filter((one) => one.running_ns !== undefined);
    return made;
}

$("png").addEventListener("click", () => { draw(); canvas.toBlob((blob) => save(blob, "png")); });
$("svg").addEventListener("click", () => save(new Blob([svg()], { type: "image/svg+xml" }), "svg"));
$("json").addEventListener("click", () => save(new Blob([JSON.stringify(selectionData(), null, 1)], { type: "application/json" }), "json"));
$("print").addEventListener("click", () => print());
// Paper is white, and as wide as it is: what is drawn for the screen is drawn again.
addEventListener("beforeprint", () => { document.documentElement.dataset.prints = "yes"; draw(); });
addEventListener("afterprint", () => { delete document.documentElement.dataset.prints; draw(); });

const MAX_VISIBLE = 200;
/** The slices in view, as a table: for screen readers, and for who reads rather than looks. */
function tellVisible() {
    const found = [];
    for (const row of rows) {
        const y = yOf(row);
        if (row.kind !== "thread" || y > height || y + row.height < RULER) continue;
        const { slices } = row.thread;
        const levels = slices.levels.slice(0, MAX_LEVELS);
        levels.forEach((level, depth) => {
            for (let i = first(level.length, (i) => slices.end[level[i]], view.from); i < level.length && slices.start[level[i]] < view.to && found.length < 20_000; i++) found.push([row.thread, level[i], depth]);
        });
    }
    // The longest ones, in the order of rows and time.
    const length = ([{ slices }, place]) => slices.end[place] - slices.start[place];
    const least = found.length > MAX_VISIBLE ? found.map(length).sort((a, b) => b - a)[MAX_VISIBLE - 1] : 0;
    const all = found.filter((one) => length(one) >= least).slice(0, MAX_VISIBLE);
    const table = headed(["Slice", "Thread", "At", "Duration", "Depth"], all, ([thread, place, depth]) =>
        [link(names[thread.slices.name[place]], () => selectAny({ kind: "slice", thread, place })), `${thread.name} ${thread.tid}`, time(thread.slices.start[place]), time(thread.slices.end[place] - thread.slices.start[place]), depth]);
    const title = element("h2", `In view: ${found.length} slices${found.length > all.length ? `, the ${all.length} longest` : ""}`);
    title.tabIndex = -1;
    $("panel").replaceChildren(title, ...(all.length ? [table] : [element("p", "No slices are in view. Zoom out (S), scroll, or press 0 for the whole trace.")]));
    title.focus();
    announce(title.textContent);
}
$("visible").addEventListener("click", tellVisible);
