// Lays the rows out: processes, frames, async tracks, threads, counters.

const ROW = 18, HEAD = 20, GAP = 4, STRIP = 5, RULER = 24, COUNTER = 40, MAX_LEVELS = 200;
/** Threads and processes whose slices take less than this share of the trace are one row, until it is clicked. */
const MINOR = 0.001;
let LEFT = 190;
let rows = [];
const folded = new Set();
const unfolded = new Set();
const data = JSON.parse(($("tracetee-data") || { textContent: "{}" }).textContent);
const frames = (data.frames || []);

/** Time of a thread's outermost slices. */
function busy(thread) {
    let sum = 0;
    for (const place of thread.slices.levels[0] || []) sum += thread.slices.end[place] - thread.slices.start[place];
    return sum;
}

function layOut() {
    const byPid = new Map();
    const of = (pid) => listOf(byPid, pid, () => ({ pid, threads: [], counters: [], asyncs: [], slices: 0, busy: 0 }));
    for (const thread of threads.values()) {
        const count = thread.slices.name.length + thread.instants.length;
        if (!count) continue;
        const process = of(thread.pid);
        process.threads.push(thread);
        process.slices += count;
        process.busy += thread.busy ??= busy(thread);
    }
    for (const counter of counters) of(counter.pid).counters.push(counter);
    for (const track of asyncs) of(track.pid).asyncs.push(track);
    const list = [...byPid.values()];
    // The app first, then who did most.
    list.sort((a, b) => (b.pid === data.pid) - (a.pid === data.pid) || b.slices - a.slices);
    rows = [];
    let y = 0;
    const push = (row) => { row.y = y; y += row.height; rows.push(row); };
    const least = last * MINOR;
    // One minor row is shown as it is: a row in its place would save nothing.
    const minors = (all, isMinor, key) => {
        const minor = unfolded.has(key) ? [] : all.filter(isMinor);
        return minor.length > 1 ? new Set(minor) : new Set();
    };
    const share = `${100 * MINOR} % of the time`;
    const minorProcesses = minors(list, (process) => process.pid !== data.pid && process.busy < least && !process.counters.length && !process.asyncs.length, "processes");
    for (const process of list) {
        if (minorProcesses.has(process)) continue;
        const main = threads.get(process.pid);
        const name = processes.get(process.pid)?.name || main?.name || "";
        const title = process.pid === NONE ? "(process unknown)" : `${name} ${process.pid}`;
        push({ kind: "process", height: HEAD, pid: process.pid, title });
        if (folded.has(process.pid)) continue;
        if (process.pid === data.pid && frames.length)
            push({ kind: "frames", height: ROW + GAP, title: "Frames" });
        process.threads.sort((a, b) => (b.tid === process.pid) - (a.tid === process.pid) || b.slices.name.length - a.slices.name.length);
        for (const track of process.asyncs) {
            push({ kind: "async", height: track.lanes.length * ROW + GAP, title: track.name, track });
        }
        const key = `threads ${process.pid}`;
        const minorThreads = minors(process.threads, (thread) => thread.tid !== process.pid && thread.busy < least && !thread.instants.length, key);
        for (const thread of process.threads) {
            if (minorThreads.has(thread)) continue;
            const levels = Math.min(Math.max(thread.slices.levels.length, 1), MAX_LEVELS);
            push({ kind: "thread", height: levels * ROW + GAP + STRIP, title: `${thread.name} ${thread.tid}`, thread });
        }
        if (minorThreads.size) push({ kind: "minor", height: ROW, key, title: `▸ ${minorThreads.size} threads below ${share}` });
        for (const counter of process.counters) push({ kind: "counter", height: COUNTER, title: counter.name, counter });
    }
    if (minorProcesses.size) push({ kind: "minor", height: HEAD, key: "processes", title: `▸ ${minorProcesses.size} processes below ${share}` });
    total = y;
}
let total = 0;

/** Brings a thread's row into view, from folded ones too; gives the row. */
function reveal(thread) {
    const find = () => rows.find((row) => row.thread === thread);
    if (!find()) {
        folded.delete(thread.pid);
        unfolded.add("processes").add(`threads ${thread.pid}`);
        layOut();
    }
    return find();
}

/** Async slices of a track overlap: each goes into the first lane that is free. */
function lanes(track) {
    track.all.sort((a, b) => a.start - b.start);
    const ends = [];
    track.lanes = [];
    for (const one of track.all) {
        let lane = ends.findIndex((end) => end <= one.start);
        if (lane < 0 && ends.length < 32) { lane = ends.length; ends.push(0); track.lanes.push([]); }
        if (lane < 0) lane = 31;
        ends[lane] = one.end;
        track.lanes[lane].push(one);
    }
}
