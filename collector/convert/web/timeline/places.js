// Sets of slices without an object for each: sorted places by thread. Search results and the calls with a name are such
// sets.

let scratch = new Uint32Array(1024);
const NO_PLACES = new Uint32Array(0);
/** Places of a thread's slices whose name `has` has (null: any), and whose duration is within two limits in ns. */
function placesWith({ name, start, end }, has, least, most) {
    const count = name.length, anyDuration = least === -Infinity && most === Infinity;
    if (scratch.length < count) scratch = new Uint32Array(count);
    // Like `isWithin`, without a call for each place.
    const low = (least - 0.5) / 1e3, high = (most + 0.5) / 1e3;
    let size = 0;
    // Most of a million slices: without a branch, a number costs less than reading a name.
    if (!has) for (let i = 0; i < count; i++) {
        const took = end[i] - start[i];
        scratch[size] = i;
        size += +(took >= low && took < high);
    }
    else for (let i = 0; i < count; i++) {
        if (!has[name[i]]) continue;
        const took = end[i] - start[i];
        if (anyDuration || (took >= low && took < high)) scratch[size++] = i;
    }
    return size ? scratch.slice(0, size) : NO_PLACES;
}
/** True if a duration in µs is within two limits in ns; times are exact to the ns. */
const isWithin = (us, least, most) => { const ns = Math.round(us * 1e3); return ns >= least && ns <= most; };

/** Sources of a set, each with its items in the order of time. List sources have `took`: the duration of an item; null if it has none. */
const threadSource = (thread, places) => ({ thread, places, length: places.length, at: (i) => thread.slices.start[places[i]], one: (i) => ({ kind: "slice", thread, place: places[i] }) });
const listSource = (list, at, took) => ({ length: list.length, at: (i) => at(list[i]), took: (i) => took(list[i]), one: (i) => list[i] });

/** Number of a source's items before the item at `spot` ([source, index]); items of one time are in the order of their sources. */
function before(sources, number, [source, index]) {
    if (number === source) return index;
    const at = sources[source].at(index), one = sources[number];
    const after = first(one.length, one.at, at);
    if (number < source) return after;
    let low = 0, high = after;
    while (low < high) { const middle = (low + high) >>> 1; if (one.at(middle) < at) low = middle + 1; else high = middle; }
    return low;
}
const rankOf = (sources, spot) => sources.reduce((sum, _, number) => sum + before(sources, number, spot), 0);

/** The next or previous item of all sources; the first or the last if there is none, or no `spot`. */
function stepIn(sources, spot, by) {
    let found = null, best = by * Infinity;
    sources.forEach((one, number) => {
        const next = spot ? before(sources, number, spot) - (by < 0) + (by > 0 && number === spot[0]) : by > 0 ? 0 : one.length - 1;
        if (next < 0 || next >= one.length) return;
        const at = one.at(next);
        if (!found || (by > 0 ? at < best : at >= best)) { best = at; found = [number, next]; }
    });
    return found || (spot ? stepIn(sources, null, by) : null);
}

/** Puts an item, which begins with its key, into a list of the lowest keys; returns the highest key of a full list. */
function insert(found, most, item) {
    if (found.length < most || item[0] < found[most - 1][0]) {
        found.splice(first(found.length, (place) => found[place][0], item[0]), 0, item);
        if (found.length > most) found.pop();
    }
    return found.length === most ? found[most - 1][0] : Infinity;
}
/** The first items of all sources, as [time, source, index]; at most `most`. */
function earliest(sources, most) {
    const found = [];
    sources.forEach((one, number) => {
        for (let i = 0; i < one.length && i < most; i++) if (one.at(i) > insert(found, most, [one.at(i), number, i])) break;
    });
    return found;
}
/** The longest items of all sources, as [minus the duration, source, index]; the sum of all durations, and their number. */
function longest(sources, most) {
    const found = [];
    let last = Infinity, sum = 0, timed = 0;
    sources.forEach((one, number) => {
        const { places, length } = one, { start, end } = one.thread?.slices || {};
        for (let i = 0; i < length; i++) {
            const took = places ? end[places[i]] - start[places[i]] : one.took(i);
            if (took !== null) { sum += took; timed++; }
            if (-took < last) last = insert(found, most, [-took, number, i]);
        }
    });
    return { found, sum, timed };
}
