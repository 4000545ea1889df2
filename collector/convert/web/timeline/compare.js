// Compares two times, of this trace or of another page's: side by side on one scale, and a table of differences.

/** The first side of a comparison, then both sides. */
let marked = null, comparison = null;
const MAX_THREADS = 6;
/** Pixels for the table of differences next to the picture. */
const TABLE = 560;

/** One side: a time of a trace, of the threads of a process. */
const sideOf = (of, pid, { from, to }, label) => ({ of, pid, from, to, label });

const frameLabel = (one) => `frame at ${time(one.start)} (${time(one.dur)})`;
function selectedSide() {
    const found = selectedTimes();
    if (!found) return null;
    const label = frame ? frameLabel(frame) : range ? `${time(found.to - found.from)} from ${time(found.from)}` : `${nameOfSelection(selected)} at ${time(found.from)}`;
    return sideOf(trace, selected?.thread ? selected.thread.pid : data.pid, found, label);
}

/** Marks the selection; if something is already marked, compares both. */
function markToCompare() {
    const side = selectedSide();
    if (!side) { announce("Select a frame, a slice or a time first."); return; }
    if (!marked || (marked.from === side.from && marked.to === side.to && marked.of === side.of)) {
        marked = side;
        announce(`Marked: ${side.label}. Select another and press C.`);
        $("marked").hidden = false;
        $("marked").textContent = `To compare: ${side.label}. Select another, then press C.`;
        return;
    }
    compareSides(marked, side);
}
/** Compares a frame with the last one before it that was in time, or with another that was; a slice with the call before it. */
function compareWithBefore() {
    const side = selectedSide();
    if (frame) {
        const list = pipelines.find(({ list }) => list.includes(frame)).list.filter((one) => !one.slow && one !== frame);
        const other = list.findLast((one) => one.start < frame.start) || list[0];
        if (other) { compareSides(sideOf(trace, data.pid, { from: other.start, to: frameEnd(other) }, frameLabel(other)), side); return; }
    } else if (selected?.kind === "slice" && calls.count > 1) {
        const [source, index] = stepIn(calls.sources, spotOfCall(), -1), found = calls.sources[source].one(index), times = timesOf(found);
        compareSides(sideOf(trace, found.thread.pid, times, `${nameOfSelection(found)} at ${time(times.from)}`), side);
        return;
    }
    announce("Select a frame or a slice that has another before it.");
}
function compareSides(a, b) {
    comparison = { sides: [a, b], align: "" };
    marked = null;
    $("marked").hidden = true;
    tell(); remember(true);
    announce(`Compared: ${a.label} with ${b.label}`);
}
function closeCompare() {
    comparison = marked = null;
    $("marked").hidden = true;
}

const threadsOf = ({ of, pid, from, to }) => {
    const all = [...of.threads.values()].filter((thread) => pid === null || pid === undefined || thread.pid === pid);
    const inIt = all.filter(({ slices }) => { const i = first(slices.levels[0]?.length || 0, (i) => slices.end[slices.levels[0][i]], from); return slices.levels[0]?.[i] !== undefined && slices.start[slices.levels[0][i]] < to; });
    return inIt.sort((a, b) => (b.tid === pid) - (a.tid === pid) || b.slices.name.length - a.slices.name.length);
};

/** By name: self time and calls of both sides. */
function differences([a, b]) {
    const byName = new Map();
    [a, b].forEach((side, i) => {
        for (const entry of profile(threadsOf(side), side.from, side.to).found.values()) {
            const row = listOf(byName, side.of.names[entry.name].replace(/\d+/g, "#"), () => ({ own: [0, 0], calls: [0, 0] }));
            row.own[i] += entry.own; row.calls[i] += entry.calls + entry.again;
        }
    });
    return [...byName].sort(([, x], [, y]) => Math.abs(y.own[1] - y.own[0]) - Math.abs(x.own[1] - x.own[0]));
}
const signed = (us) => (us > 0 ? "+" : us < 0 ? "−" : "") + time(Math.abs(us));
/** A time of one side, which may be zero or unknown. */
const UNRECORDED = "not recorded", some = (us) => (us === undefined ? UNRECORDED : us ? time(us) : "none");

function tellCompared() {
    const { sides } = comparison;
    const rows = differences(sides), took = sides.map((side) => side.to - side.from);
    const align = element("select", null, new Option("their begins", ""), ...rows.filter(([, row]) => row.calls[0] && row.calls[1]).slice(0, 100).map(([name]) => new Option(`the first “${name}”`, name)));
    align.value = comparison.align;
    align.addEventListener("change", () => { comparison.align = align.value; tell(); });
    const states = sides.map((side) => {
        const sums = {};
        for (const thread of threadsOf(side)) for (const [state, ns] of Object.entries(statesIn(thread, side.from, side.to, side.of) || {})) sums[state] = (sums[state] || 0) + ns / 1e3;
        return sums;
    });
    const stateRows = STATES.map((name) => [name, ...states.map((sums) => sums[`${name}_ns`])]).filter(([, a, b]) => a || b)
        .map(([name, a, b]) => [name, some(a), some(b), a === undefined || b === undefined ? UNRECORDED : signed(b - a)]);
    const label = element("label", "Aligned at ", align);
    const actions = element("p", null, link("Close the comparison (Esc)", () => { closeCompare(); changed(); }), " ", label);
    actions.className = "actions";
    const made = [
        element("h2", "Self time by name"), headed(["Slice", "First", "Second", "Difference", "Calls"], rows, ([name, { own, calls }]) => [name, ...own.map((us, i) => (calls[i] ? time(us) : some(us))), signed(own[1] - own[0]), `${calls[0]} / ${calls[1]}`]),
    ];
    if (stateRows.length) made.push(element("h2", "Thread states"), headed(["State", "First", "Second", "Difference"], stateRows, (row) => row));
    const title = element("h2", `${sides[0].label} beside ${sides[1].label}: ${signed(took[1] - took[0])}`);
    return [title, actions, besides(made, [drawing(comparison)])];
}

/** Both sides on one scale of time. */
function drawing({ sides, align }) {
    const anchors = sides.map((side) => anchor(side, align));
    const before = Math.max(...sides.map((side, i) => anchors[i] - side.from)), after = Math.max(...sides.map((side, i) => side.to - anchors[i]));
    const picture = element("canvas", null), ratio = devicePixelRatio || 1;
    picture.setAttribute("role", "img");
    picture.setAttribute("aria-label", "Both on one scale; the table of differences has the same in numbers");
    const lists = sides.map((side) => threadsOf(side).slice(0, MAX_THREADS));
    const tallOf = (thread) => Math.min(thread.slices.levels.length, 8) * ROW + STRIP + GAP;
    const room = $("panel").clientWidth - 24, wide = Math.max(300, room > 2 * TABLE ? room - TABLE : room), tall = lists.flat().reduce((sum, thread) => sum + tallOf(thread), 2 * HEAD + 24);
    picture.width = wide * ratio; picture.height = tall * ratio;
    picture.style.cssText = `position:static;width:${wide}px;height:${tall}px`;
    // The rows are drawn by the same code as on the screen, with another view.
    const kept = [context, width, height, LEFT, { ...view }, selected, frame, calls, matches];
    context = picture.getContext("2d");
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    [width, height, selected, frame, calls, matches] = [wide, tall, null, null, null, null];
    context.font = "11px system-ui, sans-serif"; context.textBaseline = "middle";
    context.fillStyle = colours.bg; context.fillRect(0, 0, wide, tall);
    let y = 4;
    sides.forEach((side, i) => {
        [view.from, view.to] = [anchors[i] - before, anchors[i] + after];
        context.fillStyle = colours.fg; context.fillText(side.label, 4, y + HEAD / 2);
        y += HEAD;
        for (const thread of lists[i]) { drawSide(side, thread, y); y += tallOf(thread); }
    });
    context.fillStyle = colours.dim;
    const step = rulerStep(before + after, wide - LEFT);
    for (let at = Math.ceil(-before / step) * step; at < after; at += step) context.fillText(time(at), LEFT + (at + before) / (before + after) * (wide - LEFT), tall - 10);
    let shown;
    [context, width, height, LEFT, shown, selected, frame, calls, matches] = kept;
    Object.assign(view, shown);
    return picture;
}
const anchor = (side, name) => {
    let at = Infinity;
    if (name) for (const { slices } of threadsOf(side)) for (let i = 0; i < slices.name.length; i++)
        if (slices.start[i] >= side.from && slices.start[i] < Math.min(side.to, at) && side.of.names[slices.name[i]].replace(/\d+/g, "#") === name) at = slices.start[i];
    return at === Infinity ? side.from : at;
};

function drawSide(side, thread, y) {
    inside(0, 0, LEFT - 4, height, () => { context.fillStyle = colours.dim; context.fillText(`${thread.name} ${thread.tid}`, 10, y + STRIP); });
    inside(Math.max(LEFT, xOf(side.from)), 0, xOf(side.to) - Math.max(LEFT, xOf(side.from)), height, () => {
        drawStates(side.of.states.get(thread.key), y);
        thread.slices.levels.slice(0, 8).forEach((level, depth) => {
            const { slices } = thread, text = (i) => side.of.names[slices.name[level[i]]];
            drawBoxes(level.length, (i) => slices.start[level[i]], (i) => slices.end[level[i]], y + STRIP + depth * ROW, (i) => hueOf(text(i)), text);
        });
    });
}

// ---- another page ----

/**
 * Reads another timeline's page, or a report's with a timeline in it, and compares its worst frame, or the frame that lost
 * the most time to a cause. `names` are names for this page and the other, if they are better than the titles; the tab shows
 * both.
 */
async function compareWith(text, name, cause, names = []) {
    const page = new DOMParser().parseFromString(text, "text/html");
    const report = page.getElementById("data");
    if (report) {
        const packed = JSON.parse(report.textContent).timeline?.gzip_base64;
        if (!packed) throw new Error(`${name} has no timeline`);
        const bytes = Uint8Array.from(atob(packed), (char) => char.charCodeAt(0));
        await compareWith(await new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).text(), name, cause, names);
        return;
    }
    const columns = page.getElementById("tracetee-columns");
    if (!columns) throw new Error(`${name} is not a timeline of tracetee`);
    const about = JSON.parse(page.getElementById("tracetee-data").textContent), other = emptyTrace();
    await readColumns(other, columns.textContent);
    const worstOf = (all) => all.reduce((most, one) => (!most || one.dur_ns - one.deadline_ns > most.dur_ns - most.deadline_ns ? one : most), null);
    const side = (of, { pid, frames }, name) => {
        const one = worstByCause(frames || [], cause) || worstOf(frames || []);
        const from = one ? (one.start_s - of.originSeconds) * 1e6 + one.start_ns / 1e3 - of.origin : 0;
        const to = one ? from + one.dur_ns / 1e3 : of.last;
        return sideOf(of, pid, { from, to }, one ? `${name}: worst frame (${time(to - from)})` : `${name}: the whole trace`);
    };
    if (names.length) [document.title, document.querySelector("h1").textContent] = [names.join(" beside "), names[0]];
    const ours = selectedSide(), [title = document.title, otherTitle = page.title || name] = names;
    compareSides(ours ? { ...ours, label: `${title}: ${ours.label}` } : side(trace, data, title), side(other, about, otherTitle));
}
const failed = (error) => { $("status")?.append(` Not compared: ${error.message}.`); announce(`Not compared: ${error.message}`); };
$("other").addEventListener("change", async (event) => {
    const [file] = event.target.files;
    if (file) await file.text().then((text) => compareWith(text, file.name)).catch(failed);
    event.target.value = "";
});
// A report opens one page and hands it the other, again and again until this page has been read.
addEventListener("message", (event) => {
    if (!isComplete || !window.opener || event.source !== window.opener || typeof event.data?.compare !== "string") return;
    event.source.postMessage("compared", "*");
    const { compare, cause, names } = event.data;
    compareWith(compare, "the other capture", String(cause ?? ""), Array.isArray(names) ? names.map(String) : []).catch(failed);
});
