// Searches slices, async slices, arguments, threads, counters; lists what is found.

/** The result of a search: names that match, limits of durations in ns, sources of what is found, and the place of the shown one. */
let matches = null;
const MAX_LISTED = 100;
/** The names in lower case; made at the first search. */
let lowered = null;

/**
 * A query: words that a name, an argument, a thread or a counter contains, and limits of durations
 * (`dur:>5ms`, `dur:<=1.5s`, `dur:>100us`).
 */
function parseQuery(text) {
    const words = [];
    let least = -Infinity, most = Infinity;
    const units = { ns: 1, us: 1e3, µs: 1e3, ms: 1e6, s: 1e9 };
    for (const word of text.trim().split(/\s+/)) {
        const found = /^dur:(>=?|<=?)(\d+(?:\.\d+)?)(ns|us|µs|ms|s)$/i.exec(word);
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
    return { least, most, text: words.join(" ").toLowerCase() };
}

function search(text) {
    const query = parseQuery(text), { least, most } = query;
    const anyDuration = least === -Infinity && most === Infinity;
    if (!query.text && anyDuration) { matches = null; $("found").textContent = ""; searched(); return; }
    lowered ??= names.map((name) => name.toLowerCase());
    const has = Uint8Array.from(lowered, (name) => (name.includes(query.text) ? 1 : 0));
    const inText = (text) => text.toLowerCase().includes(query.text);
    const others = [], sources = [];
    matches = { names: has, least, most, byArgument: new Map(), asyncs: new Set(), others, sources, count: 0, spot: null };
    for (const thread of threads.values()) {
        const { slices } = thread, { name, start, end, args, argPlaces } = slices;
        let places = placesWith(slices, has, least, most);
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
    for (const track of asyncs) for (const one of track.all) {
        if (!(has[one.name] || has[one.args]) || !(anyDuration || isWithin(one.end - one.start, least, most))) continue;
        matches.asyncs.add(one);
        others.push({ kind: "async", track, one });
    }
    if (anyDuration && query.text) for (const counter of [...counters, ...clocks.values()]) if (counter.at.length && inText(counter.name)) others.push({ kind: "value", counter, place: 0 });
    const timeOf = (one) => (one.kind === "thread" ? -1 : timesOf(one).from);
    others.sort((a, b) => timeOf(a) - timeOf(b));
    sources.unshift(listSource(others, timeOf));
    matches.count = sources.reduce((sum, one) => sum + one.length, 0);
    $("found").textContent = `${matches.count} found`;
    if (!matches.count) announce(`Nothing found for ${text}`);
    searched();
}
/** After a search: its list, if the panel has one. */
function searched() {
    legend(); remember(false); queue();
    if (selected || frame || range || comparison) return;
    if ($("hits")) $("hits").replaceChildren(...tellFound()); else tell();
}

/** True if a slice is found: by its name and duration, or by an argument. */
function isMatched({ slices }, place) {
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

/** The list of what is found, for the panel. */
function tellFound() {
    if (!matches) return [];
    if (!matches.count) return [element("p", `Nothing is found for “${$("search").value}”. Slices, async slices, instants, arguments, threads and counters were searched.`)];
    const list = headed(["Name", "At", "Duration", "On"], earliest(matches.sources, MAX_LISTED), ([, source, index]) => {
        const one = matches.sources[source].one(index), isThread = one.kind === "thread";
        const { from, to } = isThread ? { from: 0, to: 0 } : timesOf(one);
        const open = link(isThread ? `${one.thread.name} ${one.thread.tid}` : nameOfSelection(one), () => showFound([source, index]));
        const where = one.thread ? `${one.thread.name} ${one.thread.tid}` : one.track ? `track ${one.track.name}` : "counter";
        return [open, isThread ? "thread" : time(from), isThread ? "" : time(to - from), where];
    });
    const made = [element("h2", `Found: ${matches.count}`), list];
    if (matches.count > MAX_LISTED) made.push(element("p", `The first ${MAX_LISTED} of ${matches.count}, by time; Enter in the search goes on.`));
    return made;
}

$("search").addEventListener("input", (event) => search(event.target.value));
