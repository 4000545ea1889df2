// Finds the item under the pointer, and keeps the selection.

/** Returns the item at a point of the canvas. */
function under(x, y) {
    const at = atOf(x), down = y - RULER + view.top;
    const last = y < RULER ? null : rows[rowAt(down)], row = last && down < last.y + last.height ? last : null;
    if (!row || x < LEFT) return { row };
    const near = pixelTime() * 2;
    const hit = (count, start, end) => {
        const i = first(count, end, at - near);
        return i < count && start(i) <= at + near ? i : NONE;
    };
    const found = (kind, what) => ({ row, found: { kind, ...what } });
    const lane = Math.floor((down - row.y) / ROW);
    switch (row.kind) {
    case "thread": {
        const { thread, strip } = row, { slices } = thread;
        if (down - row.y < strip) {
            const { instants } = thread;
            // A triangle is 4 pixels wide at each side.
            const mark = first(instants.length, (i) => instants[i].start, at - 2 * near);
            if (mark < instants.length && instants[mark].start <= at + 2 * near) return found("mark", { thread, one: instants[mark] });
            const list = states.get(thread.key);
            const i = list ? first(list.at.length, (i) => list.at[i], at) - 1 : NONE;
            return i < 0 ? { row } : found("state", { thread, place: i });
        }
        const level = slices.levels[Math.floor((down - row.y - strip) / ROW)];
        const i = level ? hit(level.length, (i) => slices.start[level[i]], (i) => slices.end[level[i]]) : NONE;
        return i === NONE ? { row } : found("slice", { thread, place: level[i] });
    }
    case "frames": { const i = hit(row.list.length, (i) => row.list[i].start, (i) => row.list[i].reach); return i === NONE ? { row } : found("frame", { frame: row.list[i] }); }
    case "gaps": {
        const list = gaps.lanes[lane], i = list ? hit(list.length, (i) => list[i].start, (i) => list[i].end) : NONE;
        return i === NONE ? { row } : found("gap", { one: list[i] });
    }
    case "async": {
        const list = row.track.lanes[lane];
        const i = list ? hit(list.length, (i) => list[i].start, (i) => list[i].end) : NONE;
        return i === NONE ? { row } : found("async", { track: row.track, one: list[i] });
    }
    case "shown": {
        const { layer } = row, list = layer.lanes[lane];
        const i = list ? hit(list.length, (i) => layer.start[list[i]], (i) => layer.end[list[i]]) : NONE;
        return i === NONE ? { row } : found("shown", { layer, place: list[i] });
    }
    case "counter": { const { counter } = row, i = first(counter.at.length, (i) => counter.at[i], at) - 1; return i < 0 ? { row } : found("value", { counter, place: i }); }
    case "cpu": { const i = hit(row.ran.length, (i) => row.ran[i].start, (i) => row.ran[i].end); return i === NONE ? { row } : found("state", { thread: row.ran[i].thread, place: row.ran[i].place }); }
    default: return { row };
    }
}

/** Texts and times of each kind of selection. */
const selections = {
    slice: {
        times: ({ thread: { slices }, place }) => ({ from: slices.start[place], to: slices.end[place] }),
        name: ({ thread: { slices }, place }) => names[slices.name[place]],
        tip: ({ thread: { slices }, place }) => `${time(slices.end[place] - slices.start[place])}, self ${time(slices.own[place])}${slices.open.has(place) ? "; its end is not in the trace" : ""}`,
    },
    async: {
        times: ({ one }) => ({ from: one.start, to: one.end }), name: ({ one }) => names[one.name],
        tip: ({ one }) => [time(one.end - one.start) + (one.open ? "; its end is not in the trace" : ""), ...details(one)].join("\n"),
    },
    gap: { times: ({ one }) => ({ from: one.start, to: one.end }), name: ({ one }) => `Missing records: ${one.why}`, tip: ({ one }) => [time(one.end - one.start), ...gapWords(one)].join(", ") },
    mark: { times: ({ one }) => ({ from: one.start, to: one.start }), name: ({ one }) => names[one.name], tip: ({ one }) => details(one).join("\n") },
    state: {
        times: ({ thread, place }) => stateTimes(thread, place),
        name: ({ thread, place }) => `${thread.name} ${thread.tid}: ${STATES[states.get(thread.key).state[place]]}`,
        tip: ({ thread, place }) => stateText(thread, place),
    },
    value: {
        times: ({ counter: { at }, place }) => ({ from: at[place], to: place + 1 < at.length ? at[place + 1] : trace.last }),
        name: ({ counter }) => counter.name, tip: ({ counter, place }) => String(counter.value[place]),
    },
    shown: {
        times: ({ layer, place }) => ({ from: layer.start[place], to: layer.end[place] }),
        name: ({ layer, place }) => `${layer.actual ? "Actual" : "Expected"} frame ${layer.token[place]}${layer.layer ? ` of ${layer.layer}` : ""}`,
        tip: ({ layer, place }) => time(layer.end[place] - layer.start[place]) + (layer.actual ? `, jank: ${layer.jank[place]}` : ""),
    },
    frame: {
        times: ({ frame }) => ({ from: frame.start, to: frameEnd(frame) }), name: ({ frame }) => `Frame: ${time(frame.dur)}`,
        tip: ({ frame: one }) => `${one.slow ? `${time(one.dur - one.deadline)} past its deadline` : "in time"}${one.janky ? `, jank, ${one.dropped} dropped` : ""}${one.why?.causes[0] ? `\n${one.why.causes[0].cause}: ${one.why.causes[0].key}` : ""}`,
    },
};
const timesOf = (found) => selections[found.kind].times(found);
const nameOfSelection = (found) => selections[found.kind].name(found);

function stateTimes(thread, place) {
    const { at } = states.get(thread.key);
    return { from: at[place], to: place + 1 < at.length ? at[place + 1] : trace.last };
}

/** Returns the thread that ended the wait before or during a state, and the time; null if that is not known. */
function wakeOf(thread, place) {
    const { at, waker, state } = states.get(thread.key);
    // A wait ends when the thread becomes runnable: that state has the waker.
    const runnable = state[place] === RUNNING && place > 0 && state[place - 1] === RUNNABLE ? place - 1 : state[place] > RUNNABLE ? place + 1 : place;
    const by = threads.get(waker[runnable]);
    return by && waker[runnable] > 0 ? { by, at: at[runnable] } : null;
}

function stateText(thread, place) {
    const list = states.get(thread.key), { from, to } = stateTimes(thread, place);
    const waker = list.waker[place];
    const by = waker === NONE ? "" : waker === 0 ? "\nwoken by an interrupt" : `\nwoken by ${threads.get(waker)?.name || "thread"} ${waker}`;
    return `${STATES[list.state[place]]}${list.state[place] === RUNNING ? ` on processor ${list.cpu[place]}` : ""}: ${time(to - from)}${by}`;
}

function hover(event, x, y) {
    const tip = $("tip");
    if (event.target !== canvas && event.target !== main) { tip.hidden = true; return; }
    const { found } = under(x, y);
    tip.hidden = !found;
    if (!found) return;
    tip.textContent = `${nameOfSelection(found)}\n${selections[found.kind].tip(found)}`;
    tip.style.whiteSpace = "pre-wrap";
    tip.style.left = `${Math.min(x + 12, Math.max(0, width - tip.offsetWidth - 4))}px`;
    tip.style.top = `${Math.min(y + 16, Math.max(0, height - tip.offsetHeight - 4))}px`;
}

function click(x, y) {
    const { row, found } = under(x, y);
    if (row) cursor = row;
    if (row && isHead(row)) { clickHead(row); return; }
    // The star at a row's title.
    if (row && x < 20) { togglePin(row); return; }
    if (found) { selectAny(found); return; }
    if (y >= RULER) { selected = range = frame = null; changed(); }
}
function clickHead(row) {
    if (row.kind === "minor") unfolded.add(row.key);
    else if (!folded.delete(row.key)) folded.add(row.key);
    layOut(); remember(true); queue();
}

function selectAny(found) {
    if (found.kind === "frame") { selectFrame(found.frame, false); return; }
    selected = found; range = frame = comparison = null;
    changed();
}

/** The marked slices of a name: their places, and those of their parents. */
let calls = null;
function findCalls() {
    const name = selected?.kind === "slice" ? selected.thread.slices.name[selected.place] : null;
    if (name === null) calls = null; else if (calls?.name !== name) calls = callsOf(name);
}
function markName(name) { calls = callsOf(name); legend(); queue(); }
function callsOf(name) {
    const has = new Uint8Array(names.length), sources = [], parents = new Map();
    has[name] = 1;
    for (const thread of threads.values()) {
        const { slices } = thread, places = placesWith(slices, has, -Infinity, Infinity);
        if (!places.length) continue;
        sources.push(threadSource(thread, places));
        const marks = new Uint8Array(slices.name.length);
        for (const place of places) if (slices.parent[place] !== NONE) marks[slices.parent[place]] = 1;
        parents.set(slices, marks);
    }
    return { name, sources, parents, count: sources.reduce((sum, one) => sum + one.length, 0) };
}
/** Position of the selected slice among the calls. */
const spotOfCall = () => {
    const source = calls.sources.findIndex((one) => one.thread === selected.thread);
    return [source, first(calls.sources[source].places.length, (i) => calls.sources[source].places[i], selected.place) - 1];
};
function stepCall(by) {
    if (!calls) { announce("No slice is selected."); return; }
    const isCall = selected?.kind === "slice" && selected.thread.slices.name[selected.place] === calls.name;
    const [source, index] = stepIn(calls.sources, isCall ? spotOfCall() : null, by), { thread, places } = calls.sources[source];
    goTo(thread, places[index]);
}

/** Updates the panel, the address and the canvas after the selection has changed. */
function changed() {
    findCalls();
    tell(); legend(); remember(true); queue();
    const found = selected || (frame && { kind: "frame", frame });
    announce(found ? `${nameOfSelection(found)}, ${selections[found.kind].tip(found)}` : range ? `${time(range.to - range.from)} selected` : "Nothing is selected.");
}

function rowOfSelection() {
    if (frame) return rows.find((row) => row.list?.includes(frame));
    if (!selected) return null;
    const { kind, thread, track, counter, layer } = selected;
    if (kind === "gap") return rows.find((row) => row.kind === "gaps");
    return (thread && rowOfThread.get(thread)) || rows.find((row) => (track && row.track === track) || (counter && row.counter === counter) || (layer && row.layer === layer));
}

/** Selects a slice, and brings it into view. */
function goTo(thread, found) {
    if (thread.slices.depth[found] >= levelsOf(thread)) { unfolded.add(`levels ${thread.key}`); layOut(); }
    const row = reveal(thread);
    if (row) view.top = row.y + Math.min(thread.slices.depth[found], levelsOf(thread)) * ROW - height / 3;
    center(thread.slices.start[found], thread.slices.end[found]);
    selectAny({ kind: "slice", thread, place: found });
}
/** Brings anything into view and selects it. */
function goToAny(found) {
    if (found.kind === "slice") { goTo(found.thread, found.place); return; }
    const thread = found.thread || found.track?.thread;
    if (thread) reveal(thread);
    selectAny(found);
    const row = rowOfSelection();
    if (row) view.top = row.y - height / 3;
    const { from, to } = timesOf(found);
    center(from, to);
}
function center(at, to) {
    const took = to - at;
    const span = Math.max(Math.min(view.to - view.from, Math.max(took * 20, 100)), took * 1.5);
    show(at + took / 2 - span / 2, at + took / 2 + span / 2);
}
