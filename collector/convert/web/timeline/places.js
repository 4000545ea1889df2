// Sets of slices without an object for each: sorted places by thread. Results of a search and calls of a name are such sets.

let scratch = new Uint32Array(1024);
const NO_PLACES = new Uint32Array(0);
/** Places of a thread's slices whose name `has` has, and whose duration is within two limits in ns. */
function placesWith({ name, start, end }, has, least, most) {
    const count = name.length, anyDuration = least === -Infinity && most === Infinity;
    if (scratch.length < count) scratch = new Uint32Array(count);
    let size = 0;
    for (let i = 0; i < count; i++) if (has[name[i]] && (anyDuration || isWithin(end[i] - start[i], least, most))) scratch[size++] = i;
    return size ? scratch.slice(0, size) : NO_PLACES;
}
/** True if a duration in µs is within two limits in ns; times are exact to the ns. */
const isWithin = (us, least, most) => { const ns = Math.round(us * 1e3); return ns >= least && ns <= most; };

/** Sources of a set: each has its items in the order of time. */
const threadSource = (thread, places) => ({ thread, places, length: places.length, at: (i) => thread.slices.start[places[i]], one: (i) => ({ kind: "slice", thread, place: places[i] }) });
const listSource = (list, at) => ({ length: list.length, at: (i) => at(list[i]), one: (i) => list[i] });

/** Number of a source's items before the one that `spot` ([source, index]) names: at one time, sources are in their order. */
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

/** The first items of all sources, as [time, source, index]; at most `most`. */
function earliest(sources, most) {
    const found = [];
    sources.forEach((one, number) => {
        for (let i = 0; i < one.length && i < most; i++) {
            const at = one.at(i);
            if (found.length === most && at >= found[most - 1][0]) break;
            found.splice(first(found.length, (place) => found[place][0], at), 0, [at, number, i]);
            if (found.length > most) found.pop();
        }
    });
    return found;
}
