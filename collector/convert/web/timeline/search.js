// Searches slices, async slices, arguments, threads, counters; lists the results.

/** The result of a search: names that match, limits of durations in ns and of threads, sources of the results, and the place of the shown one. */
let matches = null;
const MAX_LISTED = 100;
/** The names in lower case; made at the first search. */
let lowered = null;

/**
 * A query: words that a name, an argument, a thread or a counter contains, limits of durations (`dur:>5ms`, `dur:<=1.5s`), and
 * a word that the thread's name or id contains (`on:RenderThread`); `on:main` is the app's main thread, or all if no app is known.
 */
function parseQuery(text) {
    const words = [];
    let least = -Infinity, most = Infinity, on = "";
    const units = { ns: 1, us: 1e3, µs: 1e3, ms: 1e6, s: 1e9 };
    for (const word of text.trim().split(/\s+/)) {
        const found = /^dur:(>=?|<=?)(\d+(?:\.\d+)?)(ns|us|µs|ms|s)$/i.exec(word);
        if (/^on:./i.test(word)) { on = word.slice(3).toLowerCase(); continue; }
        if (!found) { if (word) words.push(word); continue; }
        // Durations are whole ns.
        const ns = Math.round(found[2] * units[found[3].toLowerCase()] * 1e3) / 1e3;
        switch (found[1]) {
        case ">": least = Math.max(least, Math.floor(ns) + 1); break;
        case ">=": least = Math.max(least, Math.ceil(ns)); break;
        case "<": most = Math.min(most, Math.ceil(ns) - 1); break;
        default: most = Math.min(most, Math.floor(ns));
        }
    }
    return { least, most, on, text: words.join(" ").toLowerCase() };
}
/** True if a query's `on:` names the thread. */
function isOn(on, thread) {
    if (!on || !thread) return !on;
    if (on === "main") return thread.tid === (data.pid ?? thread.pid);
    return `${thread.name} ${thread.tid}`.toLowerCase().includes(on);
}

function search(text) {
    const query = parseQuery(text), { least, most, on } = query;
    const anyDuration = least === -Infinity && most === Infinity;
    if (!query.text && !on && anyDuration) { matches = null; $("found").textContent = ""; searched(); return; }
    lowered ??= names.map((name) => name.toLowerCase());
    const has = Uint8Array.from(lowered, (name) => (name.includes(query.text) ? 1 : 0));
    const inText = (text) => text.toLowerCase().includes(query.text);
    const others = [], sources = [];
    matches = { names: has, least, most, on, byArgument: new Map(), asyncs: new Set(), others, sources, count: 0, spot: null };
    for (const thread of threads.values()) {
        if (!isOn(on, thread)) continue;
        const { slices } = thread, { name, start, end, args, argPlaces } = slices;
        let places = placesWith(slices, query.text || anyDuration ? has : null, least, most);
        const byArgument = query.text && argPlaces.length ? argPlaces.filter((i) => has[args[i]] && !has[name[i]] && (anyDuration || isWithin(end[i] - start[i], least, most))) : NO_PLACES;
        if (byArgument.length) {
            places = Uint32Array.of(...places, ...byArgument).sort();
            matches.byArgument.set(slices, new Set(byArgument));
        }
        if (places.length) sources.push(threadSource(thread, places));
        if (!anyDuration) continue;
        for (const one of thread.instants) if (has[one.name] || has[one.args]) others.push({ kind: "mark", thread, one });
        if (query.text && inText(`${thread.name} ${thread.tid}`)) others.push({ kind: "thread", thread });
    }
    for (const track of asyncs) if (isOn(on, track.thread)) for (const one of track.all) {
        if (!(has[one.name] || has[one.args]) || !(anyDuration || isWithin(one.end - one.start, least, most))) continue;
        matches.asyncs.add(one);
        others.push({ kind: "async", track, one });
    }
    if (anyDuration && query.text && !on) for (const counter of [...counters, ...clocks.values()]) if (counter.at.length && inText(counter.name)) others.push({ kind: "value", counter, place: 0 });
    const timeOf = (one) => (one.kind === "thread" ? -1 : timesOf(one).from);
    others.sort((a, b) => timeOf(a) - timeOf(b));
    sources.unshift(listSource(others, timeOf, (one) => (one.kind === "async" ? one.one.end - one.one.start : null)));
    matches.count = sources.reduce((sum, one) => sum + one.length, 0);
    $("found").textContent = `${matches.count} found`;
    if (!matches.count) announce(`Nothing found for ${text}`);
    searched();
}
/** The list after a search, if the panel has one. */
function searched() {
    legend(); remember(false); queue();
    if (selected || frame || range || comparison) return;
    if ($("hits")) $("hits").replaceChildren(...tellFound()); else tell();
}

/** True if a slice is found: by its name and duration, or by an argument. */
function isMatched(thread, place) {
    if (!isOn(matches.on, thread)) return false;
    const { slices } = thread;
    if (!matches.names[slices.name[place]]) return Boolean(matches.byArgument.get(slices)?.has(place));
    return isWithin(slices.end[place] - slices.start[place], matches.least, matches.most);
}

function step(by) {
    if (!matches?.count) return;
    showFound(stepIn(matches.sources, matches.spot, by));
}
function showFound(spot) {
    matches.spot = spot;
    $("found").textContent = `${rankOf(matches.sources, spot) + 1} of ${matches.count}`;
    openFound(matches.sources[spot[0]].one(spot[1]));
}
function openFound(one) {
    if (one.kind !== "thread") { goToAny(one); return; }
    cursor = reveal(one.thread);
    if (cursor) view.top = cursor.y;
    announce(`Thread ${one.thread.name} ${one.thread.tid}`);
    queue();
}

/** The lowest and the highest value of a counter. */
const valuesOf = ({ value }) => `${number(value.reduce((least, one) => Math.min(least, one)))} to ${number(value.reduce((most, one) => Math.max(most, one)))}`;
/** The column by which the list is in order. */
let foundOrder = "Duration";
/** The list of results for the panel, longest first. */
function tellFound() {
    if (!matches) return [];
    if (!matches.count) return [element("p", `Nothing is found for “${$("search").value}”. Slices, async slices, instants, arguments, threads and counters were searched.`)];
    matches.longest ??= longest(matches.sources, MAX_LISTED);
    const { found, sum, timed } = matches.longest;
    const titles = ["Name", "At", "Duration", "On", "In"].map((title) => (title === "At" || title === "Duration"
        ? link(title + (title === foundOrder ? (title === "At" ? " ▴" : " ▾") : ""), () => { foundOrder = title; $("hits").replaceChildren(...tellFound()); }) : title));
    const list = headed(titles, foundOrder === "At" ? earliest(matches.sources, MAX_LISTED) : found, ([, source, index]) => {
        const one = matches.sources[source].one(index), { kind, thread, track, counter, place } = one, isThread = kind === "thread";
        const { from, to } = isThread ? { from: 0, to: 0 } : timesOf(one);
        const open = link(isThread ? `${thread.name} ${thread.tid}` : nameOfSelection(one), () => showFound([source, index]));
        const owner = thread || track?.thread, parent = kind === "slice" ? thread.slices.parent[place] : NONE;
        return [
            open, isThread ? "thread" : time(from), isThread ? "" : counter ? valuesOf(counter) : time(to - from),
            owner ? `${owner.name} ${owner.tid}` : track ? `track ${track.name}` : "counter", parent === NONE ? "" : names[thread.slices.name[parent]],
        ];
    });
    const made = [element("h2", `Found: ${matches.count}${timed ? `; sum ${time(sum)}, mean ${time(sum / timed)}` : ""}`), list];
    if (matches.count > MAX_LISTED) made.push(element("p", `The first ${MAX_LISTED} of ${matches.count}, ${foundOrder === "At" ? "by time" : "the longest first"}; Enter in the search goes through all by time.`));
    return made;
}

$("search").addEventListener("input", (event) => {
    // The list of results replaces the selection.
    if (selected || frame || range || comparison) { selected = frame = range = null; closeCompare(); tell(); }
    search(event.target.value);
});
