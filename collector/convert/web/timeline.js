// The timeline of a trace. The trace is the ftrace text in this page; this reads it, draws it on a canvas and
// tells what is selected. Times are microseconds from the trace's beginning.
"use strict";
(() => {
const $ = (id) => document.getElementById(id);
const NONE = -1;

// ---- reading ----

/** A thread's slices, in the order of their begins; columns, because a million objects are too many. */
class Slices {
    constructor() { this.name = []; this.start = []; this.end = []; this.parent = []; this.depth = []; this.open = []; }
    begin(at, name) {
        const parent = this.open.length ? this.open[this.open.length - 1] : NONE;
        this.open.push(this.name.length);
        this.name.push(name); this.start.push(at); this.end.push(NaN); this.parent.push(parent);
        this.depth.push(this.open.length - 1);
    }
    finish(at) {
        for (const place of this.open) this.end[place] = at;
        const unclosed = this.open.length;
        this.open = null;
        this.name = Uint32Array.from(this.name); this.start = Float64Array.from(this.start);
        this.end = Float64Array.from(this.end); this.parent = Int32Array.from(this.parent);
        this.depth = Uint32Array.from(this.depth);
        this.own = new Float64Array(this.name.length);
        for (let i = 0; i < this.name.length; i++) {
            const took = this.end[i] - this.start[i];
            this.own[i] += took;
            if (this.parent[i] !== NONE) this.own[this.parent[i]] -= took;
        }
        // By depth: the places, which are in the order of time.
        let deepest = -1;
        for (const depth of this.depth) if (depth > deepest) deepest = depth;
        const counts = new Uint32Array(deepest + 1);
        for (const depth of this.depth) counts[depth]++;
        this.levels = Array.from(counts, (count) => new Uint32Array(count));
        counts.fill(0);
        this.depth.forEach((depth, place) => { this.levels[depth][counts[depth]++] = place; });
        return unclosed;
    }
}

const names = [];
const nameIds = new Map();
const nameId = (name) => {
    let id = nameIds.get(name);
    if (id === undefined) { id = names.length; names.push(name); nameIds.set(name, id); }
    return id;
};

const threads = new Map();
const processes = new Map();
const counters = new Map();
const asyncs = new Map();
const openAsyncs = new Map();
let origin = NaN;
let last = 0;
let unclosed = 0;
let unmatched = 0;
let badLines = 0;

const processOf = (pid) => {
    let process = processes.get(pid);
    if (!process) { process = { pid, name: "" }; processes.set(pid, process); }
    return process;
};
const threadOf = (tid) => {
    let thread = threads.get(tid);
    if (!thread) {
        thread = { tid, pid: NONE, name: "", slices: new Slices(), instants: [], states: [], last: 0 };
        threads.set(tid, thread);
    }
    return thread;
};
const listOf = (map, key, make) => {
    let list = map.get(key);
    if (!list) { list = make(); map.set(key, list); }
    return list;
};

const MARK = ": tracing_mark_write: ";
const LINE = /-(\d+)\s+\(\s*(\d+|-+)\)\s+\[\d+\]\s+\S+\s+(\d+)\.(\d+)$/;

function readText(text) {
    let from = 0;
    let section = "";
    let lastHead = "", lastThread = null;
    while (from < text.length) {
        let to = text.indexOf("\n", from);
        if (to < 0) to = text.length;
        const first = text.charCodeAt(from);
        if (first === 35 /* # */ || to === from) { section = ""; from = to + 1; continue; }
        const mark = text.indexOf(MARK, from);
        if (mark < 0 || mark > to) {
            section = readOther(text.slice(from, to), section);
            from = to + 1;
            continue;
        }
        // `NAME-TID (TGID)` repeats: what was the same is not taken apart again.
        const bracket = text.lastIndexOf("[", mark);
        const head = text.slice(from, bracket);
        if (head !== lastHead) {
            const found = /^\s*(.*)-(\d+)\s+\(\s*(\d+|-+)\)\s*$/.exec(head);
            if (!found) { badLines++; from = to + 1; continue; }
            lastHead = head;
            lastThread = threadOf(+found[2]);
            if (found[3][0] !== "-") lastThread.pid = +found[3];
            lastThread.name = found[1] || lastThread.name;
        }
        const space = text.lastIndexOf(" ", mark - 1);
        const at = timeOf(text.slice(space + 1, mark));
        readMark(lastThread, at, text, mark + MARK.length, to);
        from = to + 1;
    }
}

/** Seconds as text to microseconds from the first one: the seconds apart, or a double loses the last digits. */
let originSeconds = 0;
function timeOf(text) {
    const point = text.indexOf(".");
    const seconds = +text.slice(0, point);
    const part = text.slice(point + 1);
    const us = part.length <= 6 ? +part : +part / 10 ** (part.length - 6);
    if (Number.isNaN(origin)) { originSeconds = seconds; origin = us; }
    const at = (seconds - originSeconds) * 1e6 + us - origin;
    if (at > last) last = at;
    return at;
}

function readMark(thread, at, text, from, to) {
    thread.last = at;
    const kind = text.charCodeAt(from);
    if (kind === 69 /* E */) {
        const { slices } = thread;
        if (slices.open.length) slices.end[slices.open.pop()] = at; else unmatched++;
        return;
    }
    const pidEnd = text.indexOf("|", from + 2);
    if (text.charCodeAt(from + 1) !== 124 || pidEnd < 0 || pidEnd > to) return;
    const rest = text.slice(pidEnd + 1, to);
    if (kind === 66 /* B */) {
        if (thread.pid === NONE) thread.pid = +text.slice(from + 2, pidEnd);
        thread.slices.begin(at, nameId(rest));
        return;
    }
    const pid = +text.slice(from + 2, pidEnd);
    const bar = rest.lastIndexOf("|");
    const head = bar < 0 ? "" : rest.slice(0, bar), tail = rest.slice(bar + 1);
    switch (String.fromCharCode(kind)) {
    case "C": {
        const counter = listOf(counters, `${pid}|${head}`, () => ({ pid, name: head, at: [], value: [] }));
        counter.at.push(at); counter.value.push(+tail);
        break;
    }
    case "S": beginAsync(pid, head, head, tail, at); break;
    case "F": endAsync(pid, head, tail, at); break;
    case "G": { const [track, ...name] = head.split("|"); beginAsync(pid, track, name.join("|"), tail, at); break; }
    case "H": endAsync(pid, head.split("|")[0] || head, tail, at); break;
    case "I": thread.instants.push([at, nameId(rest)]); break;
    case "N": thread.instants.push([at, nameId(rest.slice(rest.indexOf("|") + 1))]); break;
    }
}

function beginAsync(pid, track, name, cookie, at) {
    const one = { start: at, end: NaN, name: nameId(name) };
    listOf(asyncs, `${pid}|${track}`, () => ({ pid, name: track, all: [] })).all.push(one);
    listOf(openAsyncs, `${pid}|${track}|${cookie}`, () => []).push(one);
}
function endAsync(pid, track, cookie, at) {
    const open = openAsyncs.get(`${pid}|${track}|${cookie}`);
    if (open && open.length) open.pop().end = at; else unmatched++;
}

/** What is no marker: tables of processes, and what the scheduler did. */
function readOther(line, section) {
    if (line.startsWith("PROCESS DUMP")) return "processes";
    if (line.startsWith("USER ")) return line.includes(" TID ") ? "threads" : "processes";
    const words = line.trim().split(/\s+/);
    if (section === "threads" && words.length >= 4) {
        threadNames.set(+words[2], [+words[1], words.slice(3).join(" ")]);
        return section;
    }
    if (section === "processes" && words.length >= 9) { processOf(+words[1]).name = words[8]; return section; }
    const colon = line.indexOf(": sched_switch: ");
    if (colon < 0) return "";
    const time = LINE.exec(line.slice(0, colon));
    const prev = / prev_pid=(\d+) .*prev_state=(\S)/.exec(line), next = / next_pid=(\d+)/.exec(line);
    if (!time || !prev || !next) return "";
    const at = timeOf(`${time[3]}.${time[4]}`);
    if (+prev[1]) listOf(states, +prev[1], () => []).push(at, prev[2]);
    if (+next[1]) listOf(states, +next[1], () => []).push(at, "run");
    return "";
}
const threadNames = new Map();
const states = new Map();

// ---- rows ----

const ROW = 18, HEAD = 20, GAP = 4, LEFT = 190, RULER = 24, COUNTER = 40, MAX_LEVELS = 200;
let rows = [];
const folded = new Set();
const data = JSON.parse(($("tracetee-data") || { textContent: "{}" }).textContent);
const frames = (data.frames || []);

function layOut() {
    const byPid = new Map();
    const of = (pid) => listOf(byPid, pid, () => ({ pid, threads: [], counters: [], asyncs: [], slices: 0 }));
    for (const thread of threads.values()) {
        const count = thread.slices.name.length + thread.instants.length;
        if (!count) continue;
        const process = of(thread.pid);
        process.threads.push(thread);
        process.slices += count;
    }
    for (const counter of counters.values()) of(counter.pid).counters.push(counter);
    for (const track of asyncs.values()) of(track.pid).asyncs.push(track);
    const list = [...byPid.values()];
    // The app first, then who did most.
    list.sort((a, b) => (b.pid === data.pid) - (a.pid === data.pid) || b.slices - a.slices);
    rows = [];
    let y = 0;
    const push = (row) => { row.y = y; y += row.height; rows.push(row); };
    for (const process of list) {
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
        for (const thread of process.threads) {
            const levels = Math.min(Math.max(thread.slices.levels.length, 1), MAX_LEVELS);
            push({ kind: "thread", height: levels * ROW + GAP + 3, title: `${thread.name} ${thread.tid}`, thread });
        }
        for (const counter of process.counters) push({ kind: "counter", height: COUNTER, title: counter.name, counter });
    }
    total = y;
}
let total = 0;

/** Async slices of a track overlap: each goes into the first lane that is free. */
function lanes(track) {
    track.all.sort((a, b) => a.start - b.start);
    const ends = [];
    track.lanes = [];
    for (const one of track.all) {
        if (Number.isNaN(one.end)) one.end = last;
        let lane = ends.findIndex((end) => end <= one.start);
        if (lane < 0 && ends.length < 32) { lane = ends.length; ends.push(0); track.lanes.push([]); }
        if (lane < 0) lane = 31;
        ends[lane] = one.end;
        track.lanes[lane].push(one);
    }
}

// ---- drawing ----

const view = { from: 0, to: 1, top: 0 };
let selected = null;   // {thread, place}
let range = null;      // {from, to}
let matches = null;    // {set, list: [[at, thread, place]], place}
const canvas = $("canvas");
const context = canvas.getContext("2d");
let width = 0, height = 0, colours = null, isQueued = false;
const hues = [];
const colourOf = (name) => {
    let colour = hues[name];
    if (!colour) {
        let hash = 2166136261;
        // Numbers in a name (doFrame 12) do not change its colour.
        for (const char of names[name].replace(/\d+/g, "")) hash = Math.imul(hash ^ char.codePointAt(0), 16777619);
        colour = hues[name] = `hsl(${(hash >>> 0) % 360} 45% ${colours.dark ? 38 : 72}%)`;
    }
    return colour;
};

function queue() {
    if (!isQueued) { isQueued = true; requestAnimationFrame(() => { isQueued = false; draw(); }); }
}
const xOf = (at) => LEFT + (at - view.from) / (view.to - view.from) * (width - LEFT);
const atOf = (x) => view.from + (x - LEFT) / (width - LEFT) * (view.to - view.from);

function time(us) {
    const abs = Math.abs(us);
    if (abs >= 1e6) return `${(us / 1e6).toFixed(abs >= 1e7 ? 2 : 3)} s`;
    if (abs >= 1e3) return `${(us / 1e3).toFixed(abs >= 1e5 ? 1 : 3)} ms`;
    return `${us.toFixed(abs < 10 && us % 1 ? 3 : 0)} µs`;
}

function draw() {
    const ratio = devicePixelRatio || 1;
    width = $("view").clientWidth; height = $("view").clientHeight;
    if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
        canvas.width = Math.round(width * ratio); canvas.height = Math.round(height * ratio);
    }
    const style = getComputedStyle(document.documentElement);
    const dark = matchMedia("(prefers-color-scheme: dark)").matches;
    if (!colours || colours.dark !== dark) hues.length = 0;
    colours = { dark, bg: style.getPropertyValue("--bg"), fg: style.getPropertyValue("--fg"), dim: style.getPropertyValue("--dim"), line: style.getPropertyValue("--line"), row: style.getPropertyValue("--row"), accent: style.getPropertyValue("--accent") };
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.fillStyle = colours.bg;
    context.fillRect(0, 0, width, height);
    context.font = "11px system-ui, sans-serif";
    context.textBaseline = "middle";
    view.top = Math.max(0, Math.min(view.top, total - height + RULER + 40));
    for (const row of rows) {
        const y = RULER + row.y - view.top;
        if (y > height || y + row.height < RULER) continue;
        context.save();
        context.beginPath(); context.rect(LEFT, RULER, width - LEFT, height - RULER); context.clip();
        drawRow(row, y);
        context.restore();
        drawTitle(row, y);
    }
    drawRuler();
    if (range) {
        const from = Math.max(LEFT, xOf(range.from)), to = xOf(range.to);
        context.fillStyle = "#4a90d933";
        context.fillRect(from, RULER, to - from, height);
    }
}

function drawTitle(row, y) {
    context.save();
    context.beginPath(); context.rect(0, RULER, row.kind === "process" ? width : LEFT - 6, height); context.clip();
    context.fillStyle = row.kind === "process" ? colours.fg : colours.dim;
    context.font = row.kind === "process" ? "600 12px system-ui, sans-serif" : "11px system-ui, sans-serif";
    const mark = row.kind !== "process" ? "    " : folded.has(row.pid) ? "▸ " : "▾ ";
    context.fillText(mark + row.title, 6, y + Math.min(row.height, ROW) / 2 + 1);
    context.restore();
}

function drawRow(row, y) {
    switch (row.kind) {
    case "process": context.fillStyle = colours.row; context.fillRect(LEFT, y, width, row.height); break;
    case "frames": drawBoxes(frames.length, (i) => frames[i].start, (i) => frames[i].start + frames[i].dur, y, (i) => frameColour(frames[i]), (i) => time(frames[i].dur), null); break;
    case "async": row.track.lanes.forEach((lane, i) => drawBoxes(lane.length, (j) => lane[j].start, (j) => lane[j].end, y + i * ROW, (j) => colourOf(lane[j].name), (j) => names[lane[j].name], (j) => isMatch(lane[j].name))); break;
    case "thread": drawThread(row.thread, y); break;
    case "counter": drawCounter(row.counter, y, row.height); break;
    }
}
/** Green: in time; yellow: late; then jank, by how many vsyncs it missed. */
const frameColour = (frame) => frame.janky ? ["#fb8c00", "#fb8c00", "#f4511e", "#e53935", "#b71c1c"][frame.level] : frame.slow ? "#fdd835" : "#66bb6a";
const isMatch = (name) => matches && matches.set.has(name);

/** Boxes in the order of time. Those of less than a pixel are one: the first, then the next one to be seen. */
function drawBoxes(count, start, end, y, colour, text, marked) {
    const pixel = (view.to - view.from) / (width - LEFT);
    let i = first(count, end, view.from);
    while (i < count && start(i) < view.to) {
        const from = start(i), to = end(i);
        const left = Math.max(LEFT - 2, xOf(from)), right = Math.min(width + 2, xOf(to));
        const isMarked = marked && marked(i);
        context.fillStyle = isMarked ? "#e040fb" : colour(i);
        context.fillRect(left, y, Math.max(right - left - (right - left > 3 ? 0.5 : 0), 1), ROW - 1);
        if (right - left > 28) {
            context.save();
            context.beginPath(); context.rect(left, y, right - left - 2, ROW); context.clip();
            context.fillStyle = colours.dark ? "#fff" : "#000";
            context.fillText(text(i), Math.max(left, LEFT) + 3, y + ROW / 2);
            context.restore();
        }
        if (to - from >= pixel) { i++; continue; }
        const next = from + pixel;
        i = Math.max(i + 1, first(count, end, next, i));
    }
}

/** The first place at which `of` is over `at`. */
function first(count, of, at, low = 0) {
    let high = count;
    while (low < high) {
        const middle = (low + high) >>> 1;
        if (of(middle) > at) high = middle; else low = middle + 1;
    }
    return low;
}

function drawThread(thread, y) {
    drawStates(states.get(thread.tid), y);
    const { slices } = thread;
    const depths = Math.min(slices.levels.length, MAX_LEVELS);
    for (let depth = 0; depth < depths; depth++) {
        const top = y + 3 + depth * ROW;
        if (top > height || top + ROW < RULER) continue;
        const level = slices.levels[depth];
        drawBoxes(level.length, (i) => slices.start[level[i]], (i) => slices.end[level[i]], top, (i) => colourOf(slices.name[level[i]]), (i) => names[slices.name[level[i]]], (i) => isMatch(slices.name[level[i]]));
    }
    context.fillStyle = colours.fg;
    let x = -1;
    for (let i = first(thread.instants.length, (i) => thread.instants[i][0], view.from - 1); i < thread.instants.length; i++) {
        const at = xOf(thread.instants[i][0]);
        if (at > width) break;
        if (at - x < 1) continue;
        x = at;
        context.beginPath(); context.moveTo(at - 4, y); context.lineTo(at + 4, y); context.lineTo(at, y + 7); context.fill();
    }
    if (selected && selected.thread === thread && slices.depth[selected.place] < depths) {
        const { place } = selected;
        const left = xOf(slices.start[place]), right = xOf(slices.end[place]);
        context.strokeStyle = colours.fg; context.lineWidth = 2;
        context.strokeRect(left, y + 3 + slices.depth[place] * ROW, Math.max(right - left, 2), ROW - 1);
    }
}

function drawStates(list, y) {
    if (!list) return;
    const count = list.length / 2;
    for (let i = Math.max(0, first(count, (i) => list[2 * i], view.from) - 1); i < count; i++) {
        const from = xOf(list[2 * i]);
        if (from > width) break;
        const to = i + 1 < count ? xOf(list[2 * i + 2]) : from + 1;
        const state = list[2 * i + 1];
        context.fillStyle = state === "run" ? "#43a047" : state === "D" ? "#e65100" : state === "R" ? "#1e88e5" : "transparent";
        if (to - from >= 0.3) context.fillRect(from, y, to - from, 2);
    }
}

function drawCounter(counter, y, tall) {
    const { at, value, low, high } = counter;
    const scale = (v) => y + tall - 4 - (high > low ? (v - low) / (high - low) : 0.5) * (tall - 10);
    context.fillStyle = "#5c6bc088"; context.beginPath();
    let i = Math.max(0, first(at.length, (i) => at[i], view.from) - 1);
    context.moveTo(xOf(at[i]), y + tall - 2);
    let shown = -1;
    for (; i < at.length; i++) {
        const x = xOf(at[i]);
        if (x > width) break;
        if (x - shown < 0.5 && i + 1 < at.length) continue;
        shown = x;
        const next = i + 1 < at.length ? xOf(at[i + 1]) : width;
        context.lineTo(x, scale(value[i])); context.lineTo(Math.min(next, width), scale(value[i]));
    }
    context.lineTo(Math.min(width, xOf(last)), y + tall - 2); context.fill();
    context.fillStyle = colours.dim;
    context.fillText(`${low} … ${high}`, LEFT + 4, y + 8);
}

function drawRuler() {
    context.fillStyle = colours.bg; context.fillRect(0, 0, width, RULER);
    context.strokeStyle = colours.line; context.lineWidth = 1;
    const span = view.to - view.from;
    let step = 10 ** Math.floor(Math.log10(span / 5));
    for (const factor of [2, 2.5, 2]) if (span / step > 10) step *= factor;
    context.fillStyle = colours.dim;
    for (let at = Math.ceil(view.from / step) * step; at < view.to; at += step) {
        const x = xOf(at);
        context.beginPath(); context.moveTo(x, RULER - 6); context.lineTo(x, height); context.globalAlpha = 0.5; context.stroke(); context.globalAlpha = 1;
        context.fillText(time(at), x + 3, RULER / 2);
    }
    context.fillText(time(span), 6, RULER / 2);
    context.beginPath(); context.moveTo(LEFT - 0.5, 0); context.lineTo(LEFT - 0.5, height); context.stroke();
}

// ---- moving ----

function show(from, to) {
    const least = 0.05, most = Math.max(last * 1.1, 10);
    let span = Math.max(least, Math.min(to - from, most));
    let middle = (from + to) / 2;
    middle = Math.max(0, Math.min(middle, last));
    view.from = middle - span / 2; view.to = middle + span / 2;
    queue();
}
function zoom(factor, x) {
    const at = atOf(x);
    show(at - (at - view.from) * factor, at + (view.to - at) * factor);
}
const pan = (part) => { const by = (view.to - view.from) * part; show(view.from + by, view.to + by); };
function whole() { show(0, Math.max(last, 1)); }

let mouse = null, drag = null;
const main = $("view");
const place = (event) => { const box = main.getBoundingClientRect(); return [event.clientX - box.left, event.clientY - box.top]; };
main.addEventListener("mousedown", (event) => {
    const [x, y] = place(event);
    main.focus();
    drag = { x, y, from: view.from, to: view.to, top: view.top, range: event.shiftKey ? atOf(x) : null, moved: false };
    event.preventDefault();
});
addEventListener("mousemove", (event) => {
    const [x, y] = place(event);
    mouse = x;
    if (!drag) { hover(event, x, y); return; }
    if (Math.hypot(x - drag.x, y - drag.y) > 3) drag.moved = true;
    if (!drag.moved) return;
    if (drag.range !== null) {
        const at = atOf(x);
        range = { from: Math.min(at, drag.range), to: Math.max(at, drag.range) };
        queue();
        return;
    }
    const by = (drag.x - x) / (width - LEFT) * (drag.to - drag.from);
    view.top = drag.top + drag.y - y;
    show(drag.from + by, drag.to + by);
});
addEventListener("mouseup", (event) => {
    if (!drag) return;
    const { moved, range: isRange } = drag;
    drag = null;
    if (moved) { if (isRange !== null) tell(); return; }
    const [x, y] = place(event);
    click(x, y);
});
main.addEventListener("mouseleave", () => { $("tip").hidden = true; });
main.addEventListener("wheel", (event) => {
    event.preventDefault();
    const [x] = place(event);
    if (event.ctrlKey || event.metaKey) zoom(Math.exp(event.deltaY / 200), x);
    else if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) pan((event.deltaX || event.deltaY) / 1000);
    else { view.top += event.deltaY; queue(); }
}, { passive: false });
addEventListener("resize", queue);
addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target === $("search")) {
        if (event.key === "Enter") { step(event.shiftKey ? -1 : 1); event.preventDefault(); }
        if (event.key === "Escape") main.focus();
        return;
    }
    const x = mouse === null || mouse < LEFT ? (LEFT + width) / 2 : mouse;
    const keys = {
        w: () => zoom(0.7, x), s: () => zoom(1 / 0.7, x), a: () => pan(-0.2), d: () => pan(0.2),
        ArrowUp: () => { view.top -= 60; queue(); }, ArrowDown: () => { view.top += 60; queue(); },
        ArrowLeft: () => pan(-0.2), ArrowRight: () => pan(0.2),
        f: toSelection, 0: whole, "/": () => $("search").focus(), "?": help,
        Escape: () => { selected = range = null; tell(); queue(); },
    };
    const act = keys[event.key.length === 1 ? event.key.toLowerCase() : event.key];
    if (act) { act(); event.preventDefault(); }
});
function help() {
    $("keys").hidden = !$("keys").hidden;
    $("help").setAttribute("aria-expanded", String(!$("keys").hidden));
    queue();
}
$("help").addEventListener("click", help);

function toSelection() {
    if (range) { show(range.from, range.to); return; }
    if (!selected) return;
    const { slices } = selected.thread;
    const from = slices.start[selected.place], to = slices.end[selected.place];
    const more = Math.max((to - from) * 0.1, 0.1);
    show(from - more, to + more);
}

/** What is at a point of the canvas. */
function under(x, y) {
    const at = atOf(x), down = y - RULER + view.top;
    const row = y < RULER ? null : rows.find((row) => down >= row.y && down < row.y + row.height);
    if (!row || x < LEFT) return { row };
    const near = (view.to - view.from) / (width - LEFT) * 2;
    const hit = (count, start, end) => {
        const i = first(count, end, at - near);
        return i < count && start(i) <= at + near ? i : NONE;
    };
    if (row.kind === "thread") {
        const { slices } = row.thread;
        const level = slices.levels[Math.floor((down - row.y - 3) / ROW)];
        if (!level) return { row };
        const i = hit(level.length, (i) => slices.start[level[i]], (i) => slices.end[level[i]]);
        return i === NONE ? { row } : { row, thread: row.thread, place: level[i] };
    }
    if (row.kind === "frames") { const i = hit(frames.length, (i) => frames[i].start, (i) => frames[i].start + frames[i].dur); return { row, frame: frames[i] }; }
    if (row.kind === "async") {
        const lane = row.track.lanes[Math.floor((down - row.y) / ROW)];
        const i = lane ? hit(lane.length, (i) => lane[i].start, (i) => lane[i].end) : NONE;
        return { row, async: i === NONE ? null : lane[i] };
    }
    if (row.kind === "counter") { const i = first(row.counter.at.length, (i) => row.counter.at[i], at) - 1; return { row, value: row.counter.value[i] }; }
    return { row };
}

function hover(event, x, y) {
    const tip = $("tip");
    if (event.target !== canvas && event.target !== main) { tip.hidden = true; return; }
    const found = under(x, y);
    let text = "";
    if (found.thread) { const { slices } = found.thread; const i = found.place; text = `${names[slices.name[i]]}\n${time(slices.end[i] - slices.start[i])}, self ${time(slices.own[i])}`; }
    else if (found.frame) text = `Frame: ${time(found.frame.dur)}${found.frame.janky ? `, jank, ${found.frame.dropped} dropped` : ""}`;
    else if (found.async) text = `${names[found.async.name]}\n${time(found.async.end - found.async.start)}`;
    else if (found.value !== undefined) text = `${found.row.counter.name}: ${found.value}`;
    tip.hidden = !text;
    tip.textContent = text;
    tip.style.whiteSpace = "pre-wrap";
    tip.style.left = `${Math.min(x + 12, Math.max(0, width - tip.offsetWidth - 4))}px`;
    tip.style.top = `${Math.min(y + 16, Math.max(0, height - tip.offsetHeight - 4))}px`;
}

function click(x, y) {
    const found = under(x, y);
    if (found.row?.kind === "process") {
        const { pid } = found.row;
        if (folded.has(pid)) folded.delete(pid); else folded.add(pid);
        layOut();
    } else if (found.thread) { select(found.thread, found.place); return; }
    else if (found.frame) { range = { from: found.frame.start, to: found.frame.start + found.frame.dur }; selected = null; tell(); }
    else { selected = null; range = null; tell(); }
    queue();
}
function select(thread, place) { selected = { thread, place }; range = null; tell(); queue(); }

// ---- searching ----

$("search").addEventListener("input", (event) => search(event.target.value));
function search(text) {
    const wanted = text.trim().toLowerCase();
    if (!wanted) { matches = null; $("found").textContent = ""; queue(); return; }
    const set = new Set();
    names.forEach((name, id) => { if (name.toLowerCase().includes(wanted)) set.add(id); });
    const list = [];
    for (const thread of threads.values()) {
        const { slices } = thread;
        for (let i = 0; i < slices.name.length; i++) if (set.has(slices.name[i])) list.push([slices.start[i], thread, i]);
    }
    list.sort((a, b) => a[0] - b[0]);
    matches = { set, list, place: NONE };
    $("found").textContent = `${list.length} found`;
    queue();
}
function step(by) {
    if (!matches || !matches.list.length) return;
    const count = matches.list.length;
    matches.place = (matches.place + by + count) % count;
    const [at, thread, found] = matches.list[matches.place];
    $("found").textContent = `${matches.place + 1} of ${count}`;
    if (folded.delete(thread.pid)) layOut();
    const row = rows.find((row) => row.thread === thread);
    if (row) view.top = row.y + Math.min(thread.slices.depth[found], MAX_LEVELS) * ROW - height / 3;
    const took = thread.slices.end[found] - at;
    const span = Math.max(Math.min(view.to - view.from, Math.max(took * 20, 100)), took * 1.5);
    select(thread, found);
    show(at + took / 2 - span / 2, at + took / 2 + span / 2);
}

// ---- telling ----

const element = (tag, text, ...children) => {
    const made = document.createElement(tag);
    if (text !== null) made.textContent = text;
    made.append(...children);
    return made;
};

/** By name, of the slices that are (in part) in a time, or of one and those in it: wall, self, calls and recursive calls. */
function profile(of, from, to, root) {
    const found = new Map();
    let wall = 0;
    for (const { slices } of of) {
        const recursive = new Map();
        const stack = [];
        for (let i = root ?? 0; i < slices.name.length; i++) {
            if (root !== undefined && i > root && slices.depth[i] <= slices.depth[root]) break;
            if (slices.start[i] > to || (slices.start[i] === to && root === undefined)) break;
            if (slices.end[i] <= from && !(slices.end[i] === slices.start[i] && slices.start[i] >= from)) continue;
            while (stack.length && stack[stack.length - 1] !== slices.parent[i]) recursive.set(slices.name[stack.at(-1)], recursive.get(slices.name[stack.pop()]) - 1);
            const name = slices.name[i];
            const took = Math.min(slices.end[i], to) - Math.max(slices.start[i], from);
            let entry = found.get(name);
            if (!entry) { entry = { name, wall: 0, own: 0, calls: 0, again: 0, most: 0, parents: new Map(), children: new Map() }; found.set(name, entry); }
            const open = recursive.get(name) || 0;
            entry.own += took;
            if (open) entry.again++; else { entry.calls++; entry.wall += took; }
            entry.most = Math.max(entry.most, took);
            const parent = stack.length ? slices.name[stack.at(-1)] : NONE;
            if (parent !== NONE) {
                const around = found.get(parent);
                around.own -= took;
                add(around.children, name, took);
            } else wall += took;
            add(entry.parents, parent, took);
            recursive.set(name, open + 1);
            stack.push(i);
        }
    }
    return { found, wall };
}
const add = (map, key, took) => { const one = map.get(key) || { wall: 0, calls: 0 }; one.wall += took; one.calls++; map.set(key, one); };

let order = "wall";
function tell() {
    const panel = $("panel");
    panel.replaceChildren();
    if (selected) {
        const { thread, place } = selected;
        const { slices } = thread;
        const [from, to] = [slices.start[place], slices.end[place]];
        panel.append(element("h2", names[slices.name[place]]));
        const stack = [];
        for (let up = slices.parent[place]; up !== NONE && stack.length < 100; up = slices.parent[up]) stack.push(names[slices.name[up]]);
        panel.append(element("p", `Wall ${time(to - from)}, self ${time(slices.own[place])}, from ${time(from)}, on ${thread.name} ${thread.tid}${stack.length ? `; in ${stack.join(" ‹ ")}` : ""}`));
        panel.append(table([thread], from, to, "In it", place));
        return;
    }
    const [from, to] = range ? [range.from, range.to] : [0, Infinity];
    const shown = range ? `Selected: ${time(to - from)}` : "The whole trace";
    panel.append(status());
    panel.append(table([...threads.values()], from, to, shown));
}

function status() {
    let slices = 0;
    for (const thread of threads.values()) slices += thread.slices.name.length;
    const janky = frames.filter((frame) => frame.janky).length;
    const parts = [`${slices} slices on ${threads.size} threads, ${time(last)}`];
    if (frames.length) parts.push(`${frames.length} frames, ${janky} janky`);
    if (unclosed) parts.push(`${unclosed} slices did not end`);
    if (unmatched) parts.push(`${unmatched} ends without a begin`);
    if (badLines) parts.push(`${badLines} lines could not be read`);
    const text = element("p", parts.join("; "));
    text.id = "status";
    return text;
}

const MAX_ROWS = 300;
function table(of, from, to, title, root) {
    const { found, wall } = profile(of, from, to, root);
    const list = [...found.values()].sort((a, b) => b[order] - a[order]);
    const head = element("tr", null);
    for (const [key, label] of [["name", "Slice"], ["wall", "Wall"], ["own", "Self"], ["calls", "Calls + recursive"], ["most", "Longest"]]) {
        const button = element("button", label);
        button.addEventListener("click", () => { order = key === "name" ? "wall" : key; tell(); });
        head.append(element("th", null, button));
    }
    const body = element("tbody", null);
    for (const entry of list.slice(0, MAX_ROWS)) {
        const name = element("button", names[entry.name]);
        name.addEventListener("click", () => relatives(entry, found));
        const share = wall ? ` ${(100 * entry.wall / wall).toFixed(1)} %` : "";
        body.append(element("tr", null, element("td", null, name), element("td", time(entry.wall) + share), element("td", time(entry.own)), element("td", `${entry.calls}+${entry.again}`), element("td", time(entry.most))));
    }
    const made = element("div", null, element("h2", `${title}: ${found.size} names`), element("table", null, element("thead", null, head), body));
    if (list.length > MAX_ROWS) made.append(element("p", `The first ${MAX_ROWS} of ${list.length}.`));
    made.prepend(element("div", null));
    made.firstChild.id = "relatives";
    return made;
}

/** Who called it and whom it called. */
function relatives(entry, found) {
    const list = (title, map) => {
        const body = element("tbody", null);
        for (const [name, { wall, calls }] of [...map].sort((a, b) => b[1].wall - a[1].wall).slice(0, 50)) {
            const cell = element("button", name === NONE ? "(thread)" : names[name]);
            if (name !== NONE) cell.addEventListener("click", () => relatives(found.get(name), found));
            body.append(element("tr", null, element("td", null, cell), element("td", time(wall)), element("td", `${entry.wall ? (100 * wall / entry.wall).toFixed(1) : 0} %`), element("td", String(calls))));
        }
        return element("div", null, element("h2", title), element("table", null, body));
    };
    $("relatives").replaceChildren(
        element("h2", `${names[entry.name]}: inclusive ${time(entry.wall)}, exclusive ${time(entry.own)}, calls ${entry.calls}+${entry.again}`),
        element("div", null, list("Parents", entry.parents), list("Children", entry.children)));
    $("relatives").lastChild.className = "parts";
}

// ---- Perfetto ----

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

// ---- beginning ----

setTimeout(() => {
    for (const script of document.querySelectorAll("script.trace-data")) readText(script.textContent);
    for (const thread of threads.values()) {
        const named = threadNames.get(thread.tid);
        if (named) { if (thread.pid === NONE) thread.pid = named[0]; if (!thread.name || thread.name === "<...>" || thread.name === `thread-${thread.tid}`) thread.name = named[1]; }
        unclosed += thread.slices.finish(thread.last);
    }
    for (const track of asyncs.values()) lanes(track);
    for (const counter of counters.values()) {
        counter.low = Infinity; counter.high = -Infinity;
        for (const value of counter.value) { if (value < counter.low) counter.low = value; if (value > counter.high) counter.high = value; }
    }
    // Frames are told in ns of the trace's clock.
    for (const frame of frames) {
        frame.start = (frame.start_s - originSeconds) * 1e6 + frame.start_ns / 1e3 - origin;
        frame.dur = frame.dur_ns / 1e3;
    }
    layOut();
    draw();
    whole();
    tell();
    document.documentElement.dataset.ready = "yes";
}, 0);
// For who drives the page from its console.
window.tracetee = { view, names, threads, search, step, whole, draw, xOf, rows: () => rows, selected: () => selected };
})();
