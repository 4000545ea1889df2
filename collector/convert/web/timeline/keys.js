// Keys for everything that a pointer can do.

/** The row that keys act on; null until one is chosen. */
let cursor = null;
const isCursorShown = () => document.activeElement === main;

/** Moves the cursor to the next or previous row, and brings it into view. */
function moveCursor(by) {
    const at = cursor ? rows.findIndex((row) => row.id === cursor.id) : -1;
    cursor = rows[Math.max(0, Math.min(rows.length - 1, at < 0 ? (by > 0 ? 0 : rows.length - 1) : at + by))] || null;
    if (!cursor) return;
    if (cursor.y < view.top) view.top = cursor.y;
    if (cursor.y + cursor.height > view.top + height - RULER) view.top = cursor.y + Math.min(cursor.height, height - RULER - HEAD) - (height - RULER);
    announce(`Row ${cursor.title}`);
    queue();
}

/** Acts on the cursor's row as a click does: folds it, or selects its first visible item. */
function enterRow() {
    if (!cursor) { moveCursor(1); return; }
    if (isHead(cursor)) { clickHead(cursor); return; }
    const found = firstInView(cursor);
    if (found) { selectAny(found); return; }
    announce(`Nothing of ${cursor.title} is in view.`);
}

function firstInView(row) {
    const after = (count, end) => { const i = first(count, end, view.from); return i < count ? i : NONE; };
    if (row.kind === "thread") {
        const { slices } = row.thread, level = slices.levels[0] || [];
        const i = after(level.length, (i) => slices.end[level[i]]);
        if (i !== NONE && slices.start[level[i]] < view.to) return { kind: "slice", thread: row.thread, place: level[i] };
        const list = states.get(row.thread.key);
        return list && { kind: "state", thread: row.thread, place: Math.max(0, first(list.at.length, (i) => list.at[i], view.from) - 1) };
    }
    if (row.kind === "frames") { const i = after(row.list.length, (i) => row.list[i].reach); return i === NONE ? null : { kind: "frame", frame: row.list[i] }; }
    if (row.kind === "gaps") { const one = gaps.find((one) => one.end >= view.from && one.start < view.to); return one && { kind: "gap", one }; }
    if (row.kind === "async") { const one = row.track.all.find((one) => one.end > view.from && one.start < view.to); return one && { kind: "async", track: row.track, one }; }
    if (row.kind === "counter") { const i = first(row.counter.at.length, (i) => row.counter.at[i], view.from); return row.counter.at.length ? { kind: "value", counter: row.counter, place: Math.max(0, i - 1) } : null; }
    if (row.kind === "cpu") { const i = after(row.ran.length, (i) => row.ran[i].end); return i === NONE ? null : { kind: "state", thread: row.ran[i].thread, place: row.ran[i].place }; }
    if (row.kind === "shown") { const { layer } = row, i = after(layer.start.length, (i) => layer.end[i]); return i === NONE ? null : { kind: "shown", layer, place: i }; }
    return null;
}

/** Selects a neighbour of the selected slice: the next or previous one of its row, its parent, its first child. */
function neighbour(where) {
    if (selected?.kind === "state") {
        const list = states.get(selected.thread.key), place = selected.place + (where === "next" ? 1 : where === "previous" ? -1 : 0);
        if (place >= 0 && place < list.at.length) selectAny({ ...selected, place });
        return;
    }
    if (selected?.kind !== "slice") { if (frame) stepAnyFrame(where === "next" ? 1 : -1); return; }
    const { thread, place } = selected, { slices } = thread;
    const level = slices.levels[slices.depth[place]];
    const at = first(level.length, (i) => level[i], place) - 1;
    const child = () => { const next = slices.levels[slices.depth[place] + 1]; const i = next ? first(next.length, (i) => next[i], place) : 0; return next && slices.parent[next[i]] === place ? next[i] : undefined; };
    const found = { next: () => level[at + 1], previous: () => level[at - 1], parent: () => slices.parent[place], child }[where]();
    if (found === undefined || found === NONE) { announce(`No ${where} slice.`); return; }
    goTo(thread, found);
}
function stepAnyFrame(by) {
    const { list } = pipelines.find(({ list }) => list.includes(frame));
    const next = list[list.indexOf(frame) + by];
    if (next) selectFrame(next, true);
}

function keys(x) {
    return {
        w: () => zoom(0.7, x), s: () => zoom(1 / 0.7, x), a: () => pan(-0.2), d: () => pan(0.2),
        ArrowUp: () => scroll(-60), ArrowDown: () => scroll(60), ArrowLeft: () => pan(-0.2), ArrowRight: () => pan(0.2),
        PageUp: () => scroll(-height * 0.8), PageDown: () => scroll(height * 0.8), Home: () => scroll(-total), End: () => scroll(total),
        f: toSelection, 0: whole, n: () => stepFrame(1), p: () => stepFrame(-1), "/": () => $("search").focus(), "?": help,
        j: () => moveCursor(1), k: () => moveCursor(-1), Enter: enterRow, " ": enterRow,
        t: () => togglePin(cursor && !isHead(cursor) ? cursor : rowOfSelection()),
        ".": () => neighbour("next"), ",": () => neighbour("previous"), u: () => neighbour("parent"), i: () => neighbour("child"),
        "]": () => stepCall(1), "[": () => stepCall(-1), r: rangeOfSelection, v: tellVisible, c: markToCompare, b: compareWithBefore,
        Escape: () => { selected = range = frame = null; closeCompare(); changed(); },
    };
}

addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target === $("search")) {
        if (event.key === "Enter") { step(event.shiftKey ? -1 : 1); event.preventDefault(); }
        if (event.key === "Escape") main.focus();
        return;
    }
    const isControl = event.target instanceof Element && event.target.closest("button, select, input, a, summary");
    if (isControl && ["Enter", " ", "ArrowUp", "ArrowDown", "Home", "End", "PageUp", "PageDown"].includes(event.key)) return;
    if (event.target instanceof Element && event.target.closest("#panel") && ["ArrowUp", "ArrowDown", "PageUp", "PageDown", "Home", "End", " "].includes(event.key)) return;
    const x = mouse === null || mouse < LEFT ? (LEFT + width) / 2 : mouse;
    const act = keys(x)[event.key.length === 1 ? event.key.toLowerCase() : event.key];
    if (act) { act(); event.preventDefault(); }
});
function help() {
    $("keys").hidden = !$("keys").hidden;
    $("help").setAttribute("aria-expanded", String(!$("keys").hidden));
    queue();
}
$("help").addEventListener("click", help);
main.addEventListener("focus", queue);
main.addEventListener("blur", queue);

/** Has screen readers say a text. */
function announce(text) { $("live").textContent = text; }

/** Begin and end of the selection; null if there is none. */
function selectedTimes() {
    if (range) return range;
    if (frame) return { from: frame.start, to: frameEnd(frame) };
    return selected ? timesOf(selected) : null;
}
function toSelection() {
    const found = selectedTimes();
    if (!found) { announce("Nothing is selected."); return; }
    const more = range ? 0 : Math.max((found.to - found.from) * 0.1, 0.1);
    show(found.from - more, found.to + more);
}
/** The statistics of the time range of the selection. */
function rangeOfSelection() {
    const found = selectedTimes() || { from: Math.max(0, view.from), to: Math.min(view.to, trace.last) };
    range = { ...found }; frame = selected = comparison = null;
    changed();
}
