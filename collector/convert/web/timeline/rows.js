// Lays out the rows: pinned rows, processes (the app first), their frames, async tracks, threads, counters; processors.

const ROW = 18, HEAD = 20, GAP = 4, STRIP = 12, OVERVIEW = 16, RULER = OVERVIEW + 24, COUNTER = 44, MAX_LEVELS = 200, MAX_UNFOLDED = 10_000;
/** Threads and processes whose slices take less than this share of the trace are one row, until it is clicked. */
const MINOR = 0.001;
/** Rows of layers and of lanes, at most. */
const MAX_LANES = 32;
let LEFT = 190;
let rows = [], rowOfThread = new Map(), total = 0;
/** False while the trace is being read: rows are shown as they arrive. */
let isComplete = false;
const folded = new Set(), unfolded = new Set();
/** Minor threads, and their processes, that are shown because they were searched for. */
const revealed = new Set();
/** Ids of the rows to show first, in this order. */
const pins = new Set();
const data = JSON.parse(($("tracetee-data") || { textContent: "{}" }).textContent);
const frames = data.frames || [];
/** Frames by pipeline, each with the places in `frames`: frames of two pipelines overlap. */
let pipelines = [];

/** Time of a thread's outermost slices. */
function busy(thread) {
    let sum = 0;
    for (const place of thread.slices.levels[0] || []) sum += thread.slices.end[place] - thread.slices.start[place];
    return sum;
}

const isApp = (pid) => pid === data.pid;
const isSystem = (pid) => Boolean(processes.get(pid)?.isSystem);

/** Returns the rows of each process, in their order. */
function byProcess() {
    const byPid = new Map();
    const entry = (pid) => listOf(byPid, pid, () => ({ pid, threads: [], counters: [], asyncs: [], shown: [], slices: 0, busy: 0 }));
    const callers = new Set(asyncs.map((track) => track.thread));
    for (const thread of threads.values()) {
        const count = thread.slices.name.length + thread.instants.length;
        if (!count && !callers.has(thread) && !(isApp(thread.pid) && states.has(thread.key))) continue;
        const process = entry(thread.pid);
        process.threads.push(thread);
        process.slices += count;
        process.busy += thread.busy ??= busy(thread);
    }
    for (const counter of counters) entry(counter.pid).counters.push(counter);
    for (const track of asyncs) entry(track.pid).asyncs.push(track);
    for (const layer of shown) entry(layer.pid).shown.push(layer);
    if (data.pid !== null && data.pid !== undefined && frames.length) entry(data.pid);
    // Android's own processes come after apps: surfaceflinger has most slices in most traces of a phone.
    return [...byPid.values()].sort((a, b) => isApp(b.pid) - isApp(a.pid) || isSystem(a.pid) - isSystem(b.pid) || b.slices - a.slices);
}
/** A process without a name is named after its layers' package, if no other process has more frames of it: SystemUI has layers of a starting app. */
const nameOf = (pid) => processes.get(pid)?.name || threads.get(pid)?.name || layerNames().get(pid) || "(no name)";
function layerNames() {
    if (!isComplete) return new Map();
    if (layerNames.made) return layerNames.made;
    const byName = new Map();
    for (const { pid, layer } of [...shown].sort((a, b) => b.start.length - a.start.length)) {
        const name = /([\w.]+)\/[\w.$]/.exec(layer)?.[1];
        if (name && !byName.has(name)) byName.set(name, pid);
    }
    layerNames.made = new Map([...byName].map(([name, pid]) => [pid, name]));
    return layerNames.made;
}

/** A single minor row is not folded: a replacement row would save no space. */
function minors(all, isMinor, key) {
    const minor = unfolded.has(key) ? [] : all.filter(isMinor);
    return minor.length > 1 ? new Set(minor) : new Set();
}
const MINOR_SHARE = `${100 * MINOR} % of the time`;

function processRows(process, push) {
    const { pid } = process;
    push({ kind: "process", height: HEAD, key: String(pid), id: `g${pid}`, pid, title: pid === NONE ? "(process unknown)" : `${nameOf(pid)} ${pid}` });
    if (folded.has(String(pid))) return;
    if (isApp(pid)) for (const { pipeline, list } of pipelines)
        push({ kind: "frames", id: `f${pipeline}`, height: ROW + GAP, title: pipelines.length > 1 ? `Frames (${pipeline})` : "Frames", list, pipeline });
    for (const layer of process.shown.slice(0, MAX_LANES)) {
        const title = layer.actual ? `Actual: ${layer.layer || "frames"}` : "Expected frames";
        push({ kind: "shown", id: `d${shown.indexOf(layer)}`, height: layer.lanes.length * ROW + GAP, title, layer });
    }
    const pushTrack = (track) => push({ kind: "async", id: `a${asyncs.indexOf(track)}`, height: track.lanes.length * ROW + GAP, title: track.name, track });
    const tracks = Map.groupBy(process.asyncs, (track) => track.thread);
    tracks.get(undefined)?.forEach(pushTrack);
    process.threads.sort((a, b) => (b.tid === pid) - (a.tid === pid) || b.slices.name.length - a.slices.name.length);
    const key = `threads ${pid}`, least = trace.last * MINOR;
    const minor = minors(process.threads, (thread) => thread.tid !== pid && thread.busy < least && !thread.instants.length && !revealed.has(thread), key);
    for (const thread of process.threads) {
        if (minor.has(thread)) continue;
        tracks.get(thread)?.forEach(pushTrack);
        const strip = stripOf(thread), levels = levelsOf(thread), deeper = thread.slices.levels.length - levels;
        push({ kind: "thread", id: `t${thread.key}`, strip, height: Math.max(levels, 1) * ROW + GAP + strip, title: `${thread.name} ${thread.tid}`, thread });
        if (deeper > 0 && levels < MAX_UNFOLDED) push({ kind: "minor", id: `l${thread.key}`, height: ROW, key: `levels ${thread.key}`, title: `▸ ${deeper} deeper levels` });
    }
    if (minor.size) push({ kind: "minor", id: `m${key}`, height: ROW, key, title: `▸ ${minor.size} threads below ${MINOR_SHARE}` });
    for (const counter of process.counters) push({ kind: "counter", id: `c${counters.indexOf(counter)}`, height: COUNTER, title: counter.name, counter });
}
/** Number of a thread's levels that are shown. */
const levelsOf = (thread) => Math.min(thread.slices.levels.length, unfolded.has(`levels ${thread.key}`) ? MAX_UNFOLDED : MAX_LEVELS);
/** Height of a thread's states and instants above its slices: zero if it has neither. */
const stripOf = (thread) => (states.has(thread.key) || thread.instants.length ? STRIP : 0);

/** For each processor, a row with the threads that it ran, and one with its clock. */
function processorRows(push) {
    if (!processors().size && !clocks.size) return;
    push({ kind: "process", id: "gcpus", height: HEAD, key: "cpus", title: "Processors" });
    if (folded.has("cpus")) return;
    const all = [...new Set([...processors().keys(), ...clocks.keys()])].sort((a, b) => a - b);
    for (const cpu of all) {
        const ran = processors().get(cpu);
        if (ran) push({ kind: "cpu", id: `p${cpu}`, height: ROW + GAP, title: `Processor ${cpu}`, ran });
        if (clocks.has(cpu)) push({ kind: "counter", id: `k${cpu}`, height: ROW + 8, title: `Clock of ${cpu} (MHz)`, counter: clocks.get(cpu) });
    }
}

function layOut() {
    const list = byProcess();
    const busiest = list.reduce((most, one) => Math.max(most, one.busy), 0);
    // If all is minor (a gap of years), the busiest process is not.
    const least = busiest < trace.last * MINOR ? busiest * MINOR : trace.last * MINOR;
    const minor = minors(list, (process) => !revealed.has(process.pid) && !isApp(process.pid) && process.busy < least && !process.counters.length && process.asyncs.every((track) => track.thread) && !process.shown.length, "processes");
    const made = [];
    const push = (row) => made.push(row);
    if (isComplete && gaps.length) push({ kind: "gaps", id: "gaps", height: gaps.lanes.length * ROW + GAP, title: "Missing records" });
    let hasProcessors = false;
    for (const process of list) {
        // Placed after the app, before other processes.
        if (!hasProcessors && !isApp(process.pid)) { hasProcessors = true; processorRows(push); }
        if (!minor.has(process)) processRows(process, push);
    }
    if (!hasProcessors) processorRows(push);
    if (minor.size) push({ kind: "minor", id: "mprocesses", height: HEAD, key: "processes", title: `▸ ${minor.size} processes below ${MINOR_SHARE}` });
    rows = pinned(made);
    total = 0;
    rowOfThread = new Map();
    for (const row of rows) { row.y = total; total += row.height; if (row.thread) rowOfThread.set(row.thread, row); }
}

/** Moves pinned rows to the top, below their own heading. */
function pinned(made) {
    const byId = new Map(made.map((row) => [row.id, row]));
    const first = [...pins].map((id) => byId.get(id)).filter(Boolean);
    if (!first.length) return made;
    for (const row of first) { row.isPinned = true; row.title = `${row.title}${row.thread ? ` of ${nameOf(row.thread.pid)}` : ""}`; }
    return [{ kind: "process", id: "gpins", height: HEAD, key: "pins", title: "Pinned" }, ...first, ...made.filter((row) => !row.isPinned)];
}

function togglePin(row) {
    if (!row || row.kind === "process" || row.kind === "minor") return;
    if (!pins.delete(row.id)) pins.add(row.id);
    layOut(); remember(true); queue();
}

/** Scrolls to a thread's row and returns it; unfolds it if necessary. */
function reveal(thread) {
    if (!rowOfThread.has(thread)) {
        folded.delete(String(thread.pid));
        revealed.add(thread).add(thread.pid);
        layOut();
    }
    return rowOfThread.get(thread);
}

/** Slices that overlap: each goes into the first lane that is free. */
function lanes(all, start, end) {
    const ends = [], made = [];
    for (let i = 0; i < all.length; i++) {
        let lane = ends.findIndex((until) => until <= start(all[i]));
        if (lane < 0 && ends.length < MAX_LANES) { lane = ends.length; ends.push(0); made.push([]); }
        if (lane < 0) lane = MAX_LANES - 1;
        ends[lane] = end(all[i]);
        made[lane].push(all[i]);
    }
    return made;
}

/** The threads that ran on each processor, in the order of time. Computed once. */
function processors() {
    if (!isComplete) return new Map();
    if (processors.made) return processors.made;
    const made = new Map();
    for (const [key, { at, state, cpu }] of states) {
        const thread = threads.get(key);
        for (let i = 0; i < at.length; i++) {
            if (state[i] !== RUNNING || !thread) continue;
            listOf(made, cpu[i], () => []).push({ start: at[i], end: i + 1 < at.length ? at[i + 1] : trace.last, thread, place: i });
        }
    }
    for (const list of made.values()) list.sort((a, b) => a.start - b.start);
    processors.made = made;
    return made;
}
