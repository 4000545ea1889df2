// Draws rows: threads with their states, processors, counters, async slices, displayed frames; arrows between slices.

const STATE_COLOURS = ["#43a047", "#1e88e5", "#9e9e9e66", "#e65100", "#ad1457", "transparent"];
const MATCH = "#aa00c8", SAME = "#0059b3", PARENT = "#7b1fa2", CHILD = "#e65100", ARROW = "#d81b60";

/** The bar of a slice in relation to the selected one's name: another call, a call's parent, a call's child. */
function relation(slices, place) {
    if (!calls) return null;
    if (slices.name[place] === calls.name) return SAME;
    if (slices.parent[place] !== NONE && slices.name[slices.parent[place]] === calls.name) return CHILD;
    return calls.parents.get(slices)?.[place] ? PARENT : null;
}

function drawThread(row, y) {
    const { thread, strip } = row;
    drawStates(states.get(thread.key), y);
    drawPath(thread.tid, y);
    const { slices } = thread;
    const depths = levelsOf(thread);
    for (let depth = 0; depth < depths; depth++) {
        const top = y + strip + depth * ROW;
        if (top > height) break;
        if (top + ROW < RULER) continue;
        const level = slices.levels[depth];
        drawBoxes(level.length, (i) => slices.start[level[i]], (i) => slices.end[level[i]], top, (i) => colourOf(slices.name[level[i]]), (i) => names[slices.name[level[i]]], {
            fill: matches && ((i) => (isMatched(thread, level[i]) ? MATCH : null)),
            mark: calls && ((i) => relation(slices, level[i])),
            hatched: slices.open.size ? (i) => slices.open.has(level[i]) : null,
        });
    }
    drawInstants(thread, y);
    if (selected?.thread !== thread) return;
    if (selected.kind === "slice" && slices.depth[selected.place] < depths)
        outline(slices.start[selected.place], slices.end[selected.place], y + strip + slices.depth[selected.place] * ROW, ROW - 1);
    if (selected.kind === "state") { const { from, to } = stateTimes(thread, selected.place); outline(from, to, y, STRIP - 2); }
}

function outline(from, to, y, tall) {
    const left = xOf(from), right = xOf(to);
    context.strokeStyle = colours.fg; context.lineWidth = 2;
    context.strokeRect(left, y, Math.max(right - left, 2), tall);
}

function drawInstants({ instants }, y) {
    let x = -Infinity;
    for (let i = first(instants.length, (i) => instants[i].start, view.from - 4 * pixelTime()); i < instants.length; i++) {
        const at = xOf(instants[i].start);
        if (at > width + 4) break;
        if (at - x < 1) continue;
        x = at;
        context.fillStyle = selected?.one === instants[i] ? colours.accent : colours.fg;
        context.beginPath(); context.moveTo(at - 4, y); context.lineTo(at + 4, y); context.lineTo(at, y + 8); context.fill();
    }
}

/** The strip of a thread's states. States of less than a pixel are drawn as one: the first, then the next visible one. */
function drawStates(list, y) {
    if (!list) return;
    const count = list.at.length, pixel = pixelTime();
    let i = Math.max(0, first(count, (i) => list.at[i], view.from) - 1);
    while (i < count && list.at[i] < view.to) {
        const from = list.at[i], to = i + 1 < count ? list.at[i + 1] : trace.last;
        const left = Math.max(LEFT, xOf(from)), wide = Math.max(xOf(to) - left, 1);
        rowBox(left, y, wide, STRIP - 3, STATE_COLOURS[list.state[i]]);
        if (wide > 60) {
            const text = STATES[list.state[i]] + (list.state[i] === RUNNING ? ` on ${list.cpu[i]}` : "");
            inside(left, y, wide, STRIP - 3, () => {
                context.font = "9px system-ui, sans-serif";
                context.fillStyle = list.state[i] === ASLEEP ? colours.fg : "#fff";
                if (list.state[i] === RUNNING) context.fillStyle = "#000";
                context.fillText(text, left + 3, y + (STRIP - 3) / 2);
            });
        }
        i = to - from >= pixel ? i + 1 : Math.max(i + 1, first(count, (i) => list.at[i], from + pixel, i) - 1);
    }
}

/** Under a thread's states: the part of the selected frame's critical path that is on that thread. */
function drawPath(tid, y) {
    if (!frame?.why) return;
    context.fillStyle = colours.accent;
    for (const step of frame.why.path) {
        if (step.tid !== tid) continue;
        const from = xOf(frame.start + step.from_ns / 1e3), to = xOf(frame.start + step.to_ns / 1e3);
        if (to >= LEFT && from <= width) context.fillRect(from, y + STRIP - 3, Math.max(to - from, 1), 2);
    }
}

function drawProcessor(ran, y) {
    drawBoxes(ran.length, (i) => ran[i].start, (i) => ran[i].end, y,
        (i) => (isApp(ran[i].thread.pid) ? STATE_COLOURS[RUNNING] : hueOf(ran[i].thread.name)), (i) => `${ran[i].thread.name} ${ran[i].thread.tid}`,
        { mark: (i) => (selected?.kind === "state" && selected.thread === ran[i].thread ? SAME : null) });
}

/** A counter as an area, each value from its time to the next. */
function drawCounter(counter, y, tall) {
    const { at, value } = counter;
    const floor = Math.min(0, counter.low), top = Math.max(counter.top ?? counter.high, floor + Number.MIN_VALUE);
    // The scale starts at 0, unless the values are far from it, so that changes are visible.
    const base = floor === 0 && counter.low > 0.8 * counter.high && counter.high > counter.low ? counter.low - (counter.high - counter.low) * 0.2 : floor;
    const scale = (v) => y + tall - 3 - Math.max(0, Math.min(1, (v - base) / (top - base))) * (tall - 8);
    const count = at.length, pixel = pixelTime();
    let i = Math.max(0, first(count, (i) => at[i], view.from) - 1);
    if (!count || at[i] >= view.to) return;
    context.fillStyle = colours.dark ? "#7986cbaa" : "#5c6bc0aa";
    context.beginPath();
    let x = Math.max(xOf(at[i]), LEFT - 1);
    context.moveTo(x, y + tall - 2);
    while (i < count && at[i] < view.to) {
        // Of the values within a pixel, the largest is drawn.
        const after = Math.max(i + 1, first(count, (i) => at[i], Math.max(at[i], view.from) + pixel / 2, i));
        let most = value[i];
        for (let inner = i + 1; inner < after; inner++) if (value[inner] > most) most = value[inner];
        context.lineTo(x, scale(most));
        const next = after < count ? Math.min(xOf(at[after]), width + 1) : Math.min(xOf(trace.last), width + 1);
        // The last value within the pixel lasts until the next one.
        context.lineTo(Math.min(x + 0.5, next), scale(most));
        context.lineTo(Math.min(x + 0.5, next), scale(value[after - 1]));
        context.lineTo(next, scale(value[after - 1]));
        x = next; i = after;
    }
    context.lineTo(x, y + tall - 2); context.fill();
    if (selected?.counter === counter) {
        const from = at[selected.place], to = selected.place + 1 < count ? at[selected.place + 1] : trace.last;
        outline(from, to, scale(value[selected.place]), 2);
    }
    context.fillStyle = colours.fg;
    context.fillText(`${number(base)} … ${number(top)}`, LEFT + 4, y + 8);
}

function drawAsyncs(track, lane, y) {
    drawBoxes(lane.length, (j) => lane[j].start, (j) => lane[j].end, y, (j) => colourOf(lane[j].name), (j) => names[lane[j].name], {
        fill: matches && ((j) => (matches.asyncs.has(lane[j]) ? MATCH : null)),
        hatched: (j) => lane[j].open,
    });
    if (selected?.kind === "async" && selected.track === track && lane.includes(selected.one)) outline(selected.one.start, selected.one.end, y, ROW - 1);
}

const SHOWN_COLOURS = { none: "#2e7d32", jank: "#c62828", expected: "#78909c" };
const shownColour = (layer, i) => (!layer.actual ? SHOWN_COLOURS.expected : layer.jank[i] === "None" ? SHOWN_COLOURS.none : SHOWN_COLOURS.jank);
function drawShown(layer, lane, y) {
    const token = selected?.kind === "shown" ? selected.layer.token[selected.place] : null;
    drawBoxes(lane.length, (j) => layer.start[lane[j]], (j) => layer.end[lane[j]], y, (j) => shownColour(layer, lane[j]), (j) => String(layer.token[lane[j]]),
        { fill: (j) => shownColour(layer, lane[j]), mark: (j) => (layer.token[lane[j]] === token ? "#fff" : null) });
    if (selected?.layer === layer && lane.includes(selected.place)) outline(layer.start[selected.place], layer.end[selected.place], y, ROW - 1);
}

// ---- arrows, losses ----

/** Position of a slice or a thread state on the canvas; null if its row is folded. */
function spot(thread, at, depth) {
    const row = rowOfThread.get(thread);
    if (!row) return null;
    return { x: xOf(at), y: yOf(row) + (depth === null ? STRIP / 2 : row.strip + (Math.min(depth, levelsOf(thread)) + 0.5) * ROW) };
}

/** Flows of the selected slice; who woke the selected state; who woke whom on the selected frame's critical path. */
function drawArrows() {
    if (selected?.kind === "slice") {
        const { thread, place } = selected, end = (thread, place) => spot(thread, thread.slices.start[place], thread.slices.depth[place]);
        for (const from of (thread.reaching.get(place) || []).slice(0, 50)) arrow(end(from.thread, from.place), end(thread, place));
        for (const to of (thread.leaving.get(place) || []).slice(0, 50)) arrow(end(thread, place), end(to.thread, to.place));
    }
    const state = selected?.kind === "state" ? wakeOf(selected.thread, selected.place) : null;
    if (state) arrow(spot(state.by, state.at, null), spot(selected.thread, state.at, null));
    for (const step of frame?.why?.path || []) {
        // `name-tid`: for runnable time, it is the thread that ended the preceding wait.
        const waker = threads.get(+(/-(\d+)$/.exec(step.woken_by || "") || [])[1]), thread = threads.get(step.tid);
        const at = frame.start + (step.state === "runnable" ? step.from_ns : step.to_ns) / 1e3;
        if (waker && thread) arrow(spot(waker, at, null), spot(thread, at, null));
    }
}

function arrow(from, to) {
    if (!from || !to) return;
    context.strokeStyle = context.fillStyle = ARROW; context.lineWidth = 1.5;
    const bend = Math.max(12, Math.min(60, Math.abs(to.x - from.x) / 2));
    context.beginPath(); context.moveTo(from.x, from.y);
    context.bezierCurveTo(from.x + bend, from.y, to.x - bend, to.y, to.x, to.y);
    context.stroke();
    context.beginPath(); context.moveTo(to.x, to.y); context.lineTo(to.x - 7, to.y - 4); context.lineTo(to.x - 7, to.y + 4); context.fill();
}

const NOTE = "tracetee: ";
/** Adds the agent's notes (records were lost, tags were taken) to the gaps, and places overlapping ones side by side. */
function readGaps() {
    for (const { instants, slices } of threads.values()) {
        for (const { name, start } of instants) if (names[name].startsWith(NOTE)) gaps.push({ start, end: start, why: names[name] });
        for (const i of placesWith(slices, noteNames(), -Infinity, Infinity)) gaps.push({ start: slices.start[i], end: slices.end[i], why: names[slices.name[i]] });
    }
    gaps.sort((a, b) => a.start - b.start);
    gaps.lanes = lanes(gaps, (one) => one.start, (one) => one.end);
}
const noteNames = () => (noteNames.made ??= Uint8Array.from(names, (name) => (name.startsWith(NOTE) ? 1 : 0)));
/** The number of missing records and their processor, if the trace has them. */
const gapWords = ({ processor, count }) => [count ? `${count} records` : "", Number.isInteger(processor) ? `of processor ${processor}` : ""].filter(Boolean);

function drawGaps(lane, y) {
    drawBoxes(lane.length, (i) => lane[i].start, (i) => lane[i].end, y, () => "#c6282855", (i) => lane[i].why, { hatched: () => true });
    if (selected?.kind === "gap" && lane.includes(selected.one)) outline(selected.one.start, selected.one.end, y, ROW - 1);
}
/** Hatched strips from top to bottom, but for losses that may be anywhere in the trace. */
function drawGapStrips() {
    let until = LEFT;
    for (const { start, end } of gaps) {
        if (end >= view.to && start <= view.from && end - start >= trace.last) continue;
        const middle = xOf((start + end) / 2), half = Math.max(4, (xOf(end) - xOf(start)) / 2), from = Math.max(until, middle - half), to = Math.min(middle + half, width);
        if (to <= from) continue;
        hatch(from, RULER, to - from, height - RULER, "#c62828");
        until = to;
    }
}
