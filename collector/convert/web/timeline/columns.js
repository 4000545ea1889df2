// Reads the trace: the columns in this page, line by line. Times are microseconds from the trace's beginning.

const $ = (id) => document.getElementById(id);
const NONE = -1;
const RUNNING = 0, RUNNABLE = 1, ASLEEP = 2, UNINTERRUPTIBLE = 3, IO = 4, UNKNOWN = 5;
const STATES = ["running", "runnable", "asleep", "uninterruptible", "io", "unknown"];

/** An empty trace. `threads` by key: the thread's id, or another number if two threads have the id. */
const emptyTrace = () => ({
    names: [], threads: new Map(), processes: new Map(), counters: [], asyncs: [], clocks: new Map(), shown: [], gaps: [],
    /** Scheduler states by thread, each valid from its time on. `waker`: the thread that ended the wait before it. */
    states: new Map(),
    originSeconds: 0, origin: 0, last: 0, unclosed: 0, unmatched: 0, badLines: 0, lost: {}, isByTime: false,
});
/** The trace of this page. A second one, for comparison, is read into a separate value. */
const trace = emptyTrace();
const { names, threads, processes, counters, asyncs, states, clocks, shown, gaps } = trace;

const listOf = (map, key, make) => {
    let list = map.get(key);
    if (!list) { list = make(); map.set(key, list); }
    return list;
};

/** Characters of the text that are unpacked at once: lines of 4,096 and their ends, so base64 is never cut. */
const PIECE = 4097 * 64;

/** Passes each line of a text, which is gzip in base64, to `take` as soon as it is unpacked. */
async function eachLine(text, take) {
    let at = text.search(/\S/);
    const packed = new ReadableStream({
        pull(into) {
            if (at < 0 || at >= text.length) { into.close(); return; }
            const bytes = Uint8Array.from(atob(text.slice(at, at + PIECE)), (char) => char.charCodeAt(0));
            at += PIECE;
            into.enqueue(bytes);
        },
    });
    const reader = packed.pipeThrough(new DecompressionStream("gzip")).pipeThrough(new TextDecoderStream()).getReader();
    let parts = [];
    for (;;) {
        const { done, value } = await reader.read();
        if (done) break;
        let from = 0;
        for (let end = value.indexOf("\n"); end >= 0; end = value.indexOf("\n", from)) {
            parts.push(value.slice(from, end));
            from = end + 1;
            const line = parts.join("");
            parts = [];
            await take(line);
        }
        parts.push(value.slice(from));
    }
}

/** Reads the columns in `text` into a trace; `paused` is called after each thread. */
async function readColumns(into, text, paused = () => {}) {
    let number = 0, expected = 0;
    await eachLine(text, async (line) => {
        const columns = JSON.parse(line);
        if (!number) { readHead(into, columns); expected = columns.threads; }
        else if (number <= expected) readThread(into, columns);
        else readRest(into, columns);
        await paused(number, expected, number++ > expected);
    });
}

function readHead(into, head) {
    for (const name of head.names) into.names.push(name);
    [into.originSeconds, into.origin] = [head.begin[0], head.begin[1] / 1e3];
    into.last = head.took / 1e3;
    [into.unclosed, into.unmatched, into.badLines] = head.losses;
    [into.lost, into.isByTime] = [head.lost, head.by_time];
    for (const [pid, name, isSystem] of head.processes) into.processes.set(pid, { pid, name, isSystem });
}

function readThread(into, one) {
    into.threads.set(one.key, threadFrom(one));
    if (one.states.at.length)
        into.states.set(one.key, { at: times(one.states.at), state: Uint8Array.from(one.states.state), waker: Int32Array.from(one.states.waker), cpu: Uint16Array.from(one.states.cpu) });
}

function readRest(into, rest) {
    for (const one of rest.counters) {
        const unit = one.unit === null ? "" : into.names[one.unit], owner = into.threads.get(one.thread);
        const name = `${into.names[one.name]}${unit ? ` (${unit})` : ""}${owner ? ` of ${owner.name} ${owner.tid}` : ""}`;
        into.counters.push(counter(one.pid, name, unit, times(one.at), one.value));
    }
    for (const one of rest.tracks) {
        const all = points(one);
        all.forEach((slice, i) => { slice.end = one.took[i] < 0 ? into.last : slice.start + one.took[i] / 1e3; slice.open = one.took[i] < 0; });
        into.asyncs.push({ pid: one.pid, thread: into.threads.get(one.thread), name: into.names[one.label], all });
    }
    // Most slices have no flows, some have a few.
    for (const [from, fromPlace, to, toPlace] of rest.flows) {
        const source = into.threads.get(from), target = into.threads.get(to);
        if (!source || !target) continue;
        listOf(source.leaving, fromPlace, () => []).push({ thread: target, place: toPlace });
        listOf(target.reaching, toPlace, () => []).push({ thread: source, place: fromPlace });
    }
    for (const { cpu, max, at, khz } of rest.clocks)
        into.clocks.set(cpu, Object.assign(counter(null, `Clock of processor ${cpu} (MHz)`, "MHz", times(at), khz.map((one) => one / 1e3)), { low: 0, top: max / 1e3 }));
    for (const { pid, layer, actual, at, took, token, jank } of rest.shown) {
        const start = times(at);
        const end = Float64Array.from(start, (from, i) => (took[i] < 0 ? into.last : from + took[i] / 1e3));
        into.shown.push({ pid, layer: into.names[layer], actual, start, end, token, jank });
    }
    for (const { from, to, cpu, count, why } of rest.gaps) into.gaps.push({ start: from / 1e3, end: to / 1e3, processor: cpu, count, why });
}

function counter(pid, name, unit, at, value) {
    let low = Infinity, high = -Infinity;
    for (const one of value) { if (one < low) low = one; if (one > high) high = one; }
    return { pid, name, unit, at, value, low, high };
}

/** Times that are ns, each since the previous one. */
function times(column) {
    let ns = 0;
    return Float64Array.from(column, (since) => { ns += since; return ns / 1e3; });
}

const points = (one) => Array.from(times(one.at), (start, i) => ({ start, name: one.name[i], category: one.category[i], args: one.args[i] }));

function threadFrom(one) {
    const name = Uint32Array.from(one.name), start = times(one.start), parent = Int32Array.from(one.parent);
    const count = name.length;
    const end = new Float64Array(count), own = new Float64Array(count), depth = new Uint32Array(count);
    for (let i = 0; i < count; i++) {
        const took = one.took[i] / 1e3;
        end[i] = start[i] + took;
        own[i] += took;
        if (parent[i] !== NONE) { own[parent[i]] -= took; depth[i] = depth[parent[i]] + 1; }
    }
    // Places by depth, in the order of time.
    const sizes = [];
    for (const level of depth) sizes[level] = (sizes[level] || 0) + 1;
    const levels = sizes.map((size) => new Uint32Array(size));
    sizes.fill(0);
    for (let place = 0; place < count; place++) { const level = depth[place]; levels[level][sizes[level]++] = place; }
    const slices = { name, start, end, parent, depth, own, levels, category: one.category, args: one.args, argPlaces: Uint32Array.from(Object.keys(one.args)), cpu: one.cpu, open: new Set(one.open) };
    return {
        key: one.key, tid: one.tid, pid: one.pid ?? NONE, name: one.label, slices,
        instants: points(one.instants), leaving: new Map(), reaching: new Map(),
    };
}
