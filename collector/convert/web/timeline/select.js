// What is under the pointer, what is selected, and what is searched for.

/** What is at a point of the canvas. */
function under(x, y) {
    const at = atOf(x), down = y - RULER + view.top;
    const row = y < RULER ? null : rows.find((row) => down >= row.y && down < row.y + row.height);
    if (!row || x < LEFT) return { row };
    const near = (view.to - view.from) / (width - LEFT) * 2;
    const hit = (count, start, end) => {
        const i = first(count, end, at - near);
        return i < count && start(i) <= at + near ? i : NONE;
    };
    if (row.kind === "thread") {
        const { slices } = row.thread;
        if (down - row.y < STRIP) {
            const { instants } = row.thread;
            const mark = first(instants.length, (i) => instants[i].start, at - near);
            if (mark < instants.length && instants[mark].start <= at + near) return { row, mark: instants[mark] };
            const list = states.get(row.thread.key);
            const i = list ? first(list.at.length, (i) => list.at[i], at) - 1 : NONE;
            return i < 0 ? { row } : { row, state: { list, place: i } };
        }
        const level = slices.levels[Math.floor((down - row.y - STRIP) / ROW)];
        if (!level) return { row };
        const i = hit(level.length, (i) => slices.start[level[i]], (i) => slices.end[level[i]]);
        return i === NONE ? { row } : { row, thread: row.thread, place: level[i] };
    }
    if (row.kind === "frames") { const i = hit(frames.length, (i) => frames[i].start, (i) => frames[i].reach); return { row, frame: frames[i] }; }
    if (row.kind === "async") {
        const lane = row.track.lanes[Math.floor((down - row.y) / ROW)];
        const i = lane ? hit(lane.length, (i) => lane[i].start, (i) => lane[i].end) : NONE;
        return { row, async: i === NONE ? null : lane[i] };
    }
    if (row.kind === "counter") { const i = first(row.counter.at.length, (i) => row.counter.at[i], at) - 1; return { row, value: row.counter.value[i] }; }
    return { row };
}

function hover(event, x, y) {
    const tip = $("tip");
    if (event.target !== canvas && event.target !== main) { tip.hidden = true; return; }
    const found = under(x, y);
    let text = "";
    if (found.thread) { const { slices } = found.thread; const i = found.place; text = `${names[slices.name[i]]}\n${time(slices.end[i] - slices.start[i])}, self ${time(slices.own[i])}`; }
    else if (found.frame) { const of = found.frame; text = `Frame: ${time(of.dur)}${of.slow ? `, ${time(of.dur - of.deadline)} past its deadline` : ""}${of.janky ? `, jank, ${of.dropped} dropped` : ""}${of.why?.causes[0] ? `\n${of.why.causes[0].cause}: ${of.why.causes[0].key}` : ""}`; }
    else if (found.async) text = [names[found.async.name], time(found.async.end - found.async.start), ...details(found.async)].join("\n");
    else if (found.mark) text = [names[found.mark.name], ...details(found.mark)].join("\n");
    else if (found.value !== undefined) text = `${found.row.counter.name}: ${found.value}`;
    else if (found.state) text = stateText(found.state);
    tip.hidden = !text;
    tip.textContent = text;
    tip.style.whiteSpace = "pre-wrap";
    tip.style.left = `${Math.min(x + 12, Math.max(0, width - tip.offsetWidth - 4))}px`;
    tip.style.top = `${Math.min(y + 16, Math.max(0, height - tip.offsetHeight - 4))}px`;
}

function stateText({ list, place }) {
    const to = place + 1 < list.at.length ? list.at[place + 1] : last;
    const waker = list.waker[place];
    const by = waker === NONE ? "" : waker === 0 ? "\nwoken by an interrupt" : `\nwoken by ${threads.get(waker)?.name || "thread"} ${waker}`;
    return `${STATES[list.state[place]]}: ${time(to - list.at[place])}${by}`;
}

function click(x, y) {
    const found = under(x, y);
    if (found.row?.kind === "process") {
        const { pid } = found.row;
        if (folded.has(pid)) folded.delete(pid); else folded.add(pid);
        layOut();
    } else if (found.thread) { select(found.thread, found.place); return; }
    else if (found.row?.kind === "minor") { unfolded.add(found.row.key); layOut(); }
    else if (found.frame) { selectFrame(found.frame, false); return; }
    else { selected = null; range = null; frame = null; tell(); }
    queue();
}
function select(thread, place) { selected = { thread, place }; range = null; frame = null; tell(); queue(); }

// ---- searching ----

$("search").addEventListener("input", (event) => search(event.target.value));
function search(text) {
    const wanted = text.trim().toLowerCase();
    if (!wanted) { matches = null; $("found").textContent = ""; queue(); return; }
    const set = new Set();
    names.forEach((name, id) => { if (name.toLowerCase().includes(wanted)) set.add(id); });
    const list = [];
    for (const thread of threads.values()) {
        const { slices } = thread;
        for (let i = 0; i < slices.name.length; i++) if (set.has(slices.name[i]) || set.has(slices.args[i])) list.push([slices.start[i], thread, i]);
    }
    list.sort((a, b) => a[0] - b[0]);
    matches = { set, list, place: NONE };
    $("found").textContent = `${list.length} found`;
    queue();
}
function step(by) {
    if (!matches?.list.length) return;
    const count = matches.list.length;
    matches.place = (matches.place + by + count) % count;
    const [, thread, found] = matches.list[matches.place];
    $("found").textContent = `${matches.place + 1} of ${count}`;
    goTo(thread, found);
}
/** Selects a slice, and brings it into view. */
function goTo(thread, found) {
    const row = reveal(thread);
    if (row) view.top = row.y + Math.min(thread.slices.depth[found], MAX_LEVELS) * ROW - height / 3;
    const at = thread.slices.start[found], took = thread.slices.end[found] - at;
    const span = Math.max(Math.min(view.to - view.from, Math.max(took * 20, 100)), took * 1.5);
    select(thread, found);
    show(at + took / 2 - span / 2, at + took / 2 + span / 2);
}
