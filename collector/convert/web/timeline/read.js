// Reads the trace: the ftrace text in this page. Times are microseconds from the trace's beginning.

const $ = (id) => document.getElementById(id);
const NONE = -1;

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
    if (open?.length) open.pop().end = at; else unmatched++;
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
    const colon = line.indexOf(": sched_");
    if (colon >= 0) readScheduler(line, colon);
    return "";
}
const threadNames = new Map();

/** Scheduler states of a thread, each valid from its time on; columns. `waker`: who ended the wait before it. */
class States {
    constructor() { this.at = []; this.state = []; this.waker = []; }
    push(at, state, waker) {
        const count = this.at.length;
        // Lines of two processors may be in any order.
        this.at.push(count ? Math.max(at, this.at[count - 1]) : at);
        this.state.push(state); this.waker.push(waker);
    }
    get last() { return this.state.length ? this.state[this.state.length - 1] : UNKNOWN; }
}
const RUNNING = 0, RUNNABLE = 1, ASLEEP = 2, UNINTERRUPTIBLE = 3, IO = 4, UNKNOWN = 5;
const STATES = ["running", "runnable", "asleep", "uninterruptible", "io", "unknown"];
const states = new Map();

function readScheduler(line, colon) {
    const space = line.indexOf(": ", colon + 2);
    const event = line.slice(colon + 2, space);
    const isSwitch = event === "sched_switch", isBlocked = event === "sched_blocked_reason";
    if (!isSwitch && !isBlocked && event !== "sched_waking" && event !== "sched_wakeup" && event !== "sched_wakeup_new") return;
    const time = LINE.exec(line.slice(0, colon));
    if (!time) return;
    const at = timeOf(`${time[3]}.${time[4]}`);
    const of = (tid) => listOf(states, tid, () => new States());
    if (isSwitch) {
        const prev = / prev_pid=(\d+) .*prev_state=(\S)/.exec(line), next = / next_pid=(\d+)/.exec(line);
        if (!prev || !next) return;
        const state = prev[2] === "R" ? RUNNABLE : prev[2] === "D" ? UNINTERRUPTIBLE : ASLEEP;
        if (+prev[1]) of(+prev[1]).push(at, state, NONE);
        if (+next[1]) of(+next[1]).push(at, RUNNING, NONE);
        return;
    }
    const task = / pid=(\d+) /.exec(line);
    if (!task) return;
    const list = of(+task[1]);
    if (isBlocked) {
        const place = list.state.lastIndexOf(UNINTERRUPTIBLE);
        if (place >= 0 && place >= list.state.length - 2 && line.includes(" iowait=1")) list.state[place] = IO;
    } else if (list.last === ASLEEP || list.last === UNINTERRUPTIBLE || list.last === IO) list.push(at, RUNNABLE, +time[1]);
}
