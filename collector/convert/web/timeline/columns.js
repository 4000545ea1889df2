// Reads the trace: the columns in this page. Times are microseconds from the trace's beginning.

const $ = (id) => document.getElementById(id);
const NONE = -1;

const names = [];
/** By key: the thread's id, or another number if two threads have the id. */
const threads = new Map();
const processes = new Map();
const counters = [];
const asyncs = [];
/** Scheduler states by thread, each valid from its time on. `waker`: the thread that ended the wait before it. */
const states = new Map();
const RUNNING = 0, RUNNABLE = 1, ASLEEP = 2, UNINTERRUPTIBLE = 3, IO = 4, UNKNOWN = 5;
const STATES = ["running", "runnable", "asleep", "uninterruptible", "io", "unknown"];
let originSeconds = 0, origin = 0;
let last = 0;
let unclosed = 0, unmatched = 0, badLines = 0;

const listOf = (map, key, make) => {
    let list = map.get(key);
    if (!list) { list = make(); map.set(key, list); }
    return list;
};

async function readColumns() {
    const bytes = Uint8Array.from(atob($("tracetee-columns").textContent), (char) => char.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    const columns = await new Response(stream).json();
    const { rest } = columns;
    for (const name of rest.names) names.push(name);
    [originSeconds, origin] = [rest.begin[0], rest.begin[1] / 1e3];
    last = rest.took / 1e3;
    [unclosed, unmatched, badLines] = rest.losses;
    for (const [pid, name] of rest.processes) processes.set(pid, { pid, name });
    for (const one of columns.threads) {
        threads.set(one.key, threadFrom(one));
        if (one.states.at.length) states.set(one.key, { at: times(one.states.at), state: one.states.state, waker: one.states.waker });
    }
    for (const one of rest.counters) {
        const unit = one.unit === null ? "" : ` (${names[one.unit]})`, owner = threads.get(one.thread);
        const name = `${names[one.name]}${unit}${owner ? ` of ${owner.name} ${owner.tid}` : ""}`;
        let low = Infinity, high = -Infinity;
        for (const value of one.value) { if (value < low) low = value; if (value > high) high = value; }
        counters.push({ pid: one.pid, name, at: times(one.at), value: one.value, low, high });
    }
    for (const one of rest.tracks) {
        const all = points(one);
        all.forEach((slice, i) => { slice.end = one.took[i] < 0 ? last : slice.start + one.took[i] / 1e3; });
        asyncs.push({ pid: one.pid, name: names[one.label], all });
    }
    // A slice has few flows, most have none.
    for (const [from, fromPlace, to, toPlace] of rest.flows) {
        const source = threads.get(from), target = threads.get(to);
        listOf(source.leaving, fromPlace, () => []).push({ thread: target, place: toPlace });
        listOf(target.reaching, toPlace, () => []).push({ thread: source, place: fromPlace });
    }
}

/** Times that are ns, each since the one before it. */
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
    // By depth: the places, which are in the order of time.
    const levels = [];
    depth.forEach((level, place) => { levels[level] ??= []; levels[level].push(place); });
    const slices = { name, start, end, parent, depth, own, levels, category: one.category, args: one.args, cpu: one.cpu };
    return {
        key: one.key, tid: one.tid, pid: one.pid ?? NONE, name: one.label, slices,
        instants: points(one.instants), leaving: new Map(), reaching: new Map(),
    };
}
