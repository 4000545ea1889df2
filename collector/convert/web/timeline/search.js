// Searches slices, async slices, arguments, threads, counters; lists what is found.

/** The result of a search: names and arguments that match, slices by thread, everything else, and the place of the shown one. */
let matches = null;
const MAX_LISTED = 100;

/**
 * A query: words that a name, an argument, a thread or a counter contains, and limits of durations
 * (`dur:>5ms`, `dur:<=1.5s`, `dur:>100us`).
 */
function parseQuery(text) {
    const limits = [], words = [];
    const units = { ns: 1e-3, us: 1, µs: 1, ms: 1e3, s: 1e6 };
    for (const word of text.trim().split(/\s+/)) {
        const found = /^dur:(>=?|<=?)(\d+(?:\.\d+)?)(ns|us|µs|ms|s)$/i.exec(word);
        if (found) limits.push([found[1], +found[2] * units[found[3].toLowerCase()]]); else if (word) words.push(word);
    }
    return { limits, text: words.join(" ").toLowerCase() };
}
const LIMITS = { ">": (a, b) => a > b, ">=": (a, b) => a >= b, "<": (a, b) => a < b, "<=": (a, b) => a <= b };

function search(text) {
    const query = parseQuery(text);
    if (!query.text && !query.limits.length) { matches = null; $("found").textContent = ""; if (!selected && !frame && !range) tell(); legend(); remember(false); queue(); return; }
    const has = new Uint8Array(names.length);
    names.forEach((name, i) => { has[i] = !query.text || name.toLowerCase().includes(query.text) ? 1 : 0; });
    const took = (us) => query.limits.every(([sign, limit]) => LIMITS[sign](us, limit));
    const anyDuration = !query.limits.length;
    const inText = (text) => text.toLowerCase().includes(query.text);
    matches = { names: has, took: anyDuration ? null : took, threads: new Map(), places: new Map(), asyncs: new Set(), others: [], count: 0, list: null, at: NONE };
    for (const thread of threads.values()) {
        const { name, start, end, args } = thread.slices;
        // The first pass counts, so that the places need no list that grows.
        const byArgument = query.text ? Object.keys(args).filter((i) => has[args[i]] && !has[name[i]]) : [];
        let count = byArgument.length;
        for (let i = 0; i < name.length; i++) if (has[name[i]]) count++;
        let places = new Uint32Array(count), size = 0;
        for (let i = 0; i < name.length; i++) if (has[name[i]] && (anyDuration || took(end[i] - start[i]))) places[size++] = i;
        for (const i of byArgument) if (anyDuration || took(end[i] - start[i])) places[size++] = +i;
        places = places.subarray(0, size);
        if (byArgument.length) places.sort();
        if (size) { matches.threads.set(thread, places); matches.count += size; }
        matches.places.set(thread, byArgument.length ? new Set(byArgument.map(Number)) : null);
        if (!anyDuration) continue;
        for (const one of thread.instants) if (has[one.name] || has[one.args]) matches.others.push({ kind: "mark", thread, one });
        if (query.text && inText(`${thread.name} ${thread.tid}`)) matches.others.push({ kind: "thread", thread });
    }
    for (const track of asyncs) for (const one of track.all) {
        if (!(has[one.name] || has[one.args]) || !(anyDuration || took(one.end - one.start))) continue;
        matches.asyncs.add(one);
        matches.others.push({ kind: "async", track, one });
    }
    if (anyDuration && query.text) for (const counter of [...counters, ...clocks.values()]) if (counter.at.length && inText(counter.name)) matches.others.push({ kind: "value", counter, place: 0 });
    matches.count += matches.others.length;
    $("found").textContent = `${matches.count} found`;
    if (!matches.count) announce(`Nothing found for ${text}`);
    legend(); remember(false); queue();
    if (!selected && !frame && !range) tell();
}

/** True if a slice is found: by its name and duration, or by an argument. */
function isMatched(thread, place) {
    const { slices } = thread;
    if (!matches.names[slices.name[place]] && !matches.places.get(thread)?.has(place)) return false;
    return !matches.took || matches.took(slices.end[place] - slices.start[place]);
}

/** Everything that is found, in the order of time; made when it is asked for. */
function found() {
    if (matches.list) return matches.list;
    const list = matches.others.map((one) => [one.kind === "thread" ? -1 : timesOf(one).from, one]);
    for (const [thread, places] of matches.threads) for (const place of places) list.push([thread.slices.start[place], { kind: "slice", thread, place }]);
    matches.list = list.sort((a, b) => a[0] - b[0]).map(([, one]) => one);
    return matches.list;
}

function step(by) {
    if (!matches?.count) return;
    matches.at = (matches.at + by + matches.count) % matches.count;
    $("found").textContent = `${matches.at + 1} of ${matches.count}`;
    openFound(found()[matches.at]);
}
function openFound(one) {
    if (one.kind !== "thread") { goToAny(one); return; }
    cursor = reveal(one.thread);
    if (cursor) view.top = cursor.y;
    announce(`Thread ${one.thread.name} ${one.thread.tid}`);
    queue();
}

/** The list of what is found, for the panel. */
function tellFound() {
    if (!matches) return [];
    if (!matches.count) return [element("p", `Nothing is found for “${$("search").value}”. Slices, async slices, instants, arguments, threads and counters were searched.`)];
    const rows = found().slice(0, MAX_LISTED).map((one, i) => {
        const isThread = one.kind === "thread";
        const { from, to } = isThread ? { from: 0, to: 0 } : timesOf(one);
        const open = link(isThread ? `${one.thread.name} ${one.thread.tid}` : nameOfSelection(one), () => { matches.at = i; openFound(one); });
        const where = one.thread ? `${one.thread.name} ${one.thread.tid}` : one.track ? `track ${one.track.name}` : "counter";
        return element("tr", null, ...cells(open, isThread ? "thread" : time(from), isThread ? "" : time(to - from), where));
    });
    const made = [element("h2", `Found: ${matches.count}`), headed(["Name", "At", "Duration", "On"], rows)];
    if (matches.count > MAX_LISTED) made.push(element("p", `The first ${MAX_LISTED} of ${matches.count}, by time; Enter in the search goes on.`));
    return made;
}

$("search").addEventListener("input", (event) => search(event.target.value));
