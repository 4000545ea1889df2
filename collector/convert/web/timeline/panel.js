// The panel: the selection, its profile, callers and callees, in tables that initially show ten rows.

const element = (tag, text, ...children) => {
    const made = document.createElement(tag);
    if (text !== null) made.textContent = text;
    made.append(...children);
    return made;
};
/** A number stays on a line with its unit. */
const unbroken = (text) => String(text).replace(/(\d) (s|ms|µs|%)(?![\w])/g, "$1\u00a0$2");
const cells = (...texts) => texts.map((text) => element("td", null, text instanceof Node ? text : unbroken(text)));
/** Rows of a table that are shown unasked. */
const FEW = 10;
const MAX_ROWS = 300;

/**
 * A table of words: columns are left-aligned, it scrolls if it is too wide, and shows ten rows until more are requested.
 * `texts` returns the cells of an item of the list.
 */
function headed(titles, list, texts) {
    const head = element("tr", null, ...titles.map((title) => { const cell = element("th", null, title); cell.scope = "col"; return cell; }));
    const around = element("div", null);
    around.className = "wordy";
    around.tabIndex = 0;
    around.setAttribute("role", "region");
    around.setAttribute("aria-label", `Table: ${titles.map((title) => title.textContent ?? title).join(", ")}`);
    fill(around, head, list, texts);
    return around;
}
/** Puts a table into an element: ten rows, and a button for the others, which are created on demand. */
function fill(around, head, list, texts) {
    const row = (one) => element("tr", null, ...cells(...texts(one)));
    const body = element("tbody", null, ...list.slice(0, FEW).map(row));
    around.append(element("table", null, element("thead", null, head), body));
    if (list.length <= FEW) return;
    const button = link(list.length > MAX_ROWS ? `Show the first ${MAX_ROWS} of ${list.length}` : `Show all ${list.length}`, () => {
        body.append(...list.slice(FEW, MAX_ROWS).map(row));
        if (list.length > MAX_ROWS) button.replaceWith(element("p", `The first ${MAX_ROWS} of ${list.length}.`)); else button.remove();
    });
    button.className = "more";
    around.append(button);
}
const link = (text, act) => { const button = element("button", text); button.type = "button"; button.addEventListener("click", act); return button; };

/** Parts of the panel side by side, if there is room. */
function besides(...parts) {
    const made = element("div", null, ...parts.map((part) => element("div", null, ...part)));
    made.className = "parts";
    return made;
}

/** The buttons for a selection. */
function actions() {
    const made = element("p", null, link("Zoom to it (F)", toSelection), " ", link("Statistics of its time (R)", rangeOfSelection), " ", link("Compare (C)", markToCompare), ...(frame || selected?.kind === "slice" ? [" ", link("Compare with the one before (B)", compareWithBefore)] : []));
    made.className = "actions";
    return made;
}

/** Wall time, self time, calls and recursive calls by name, for the slices (partly) in a time range, or for one slice and those inside it. */
function profile(all, from, to, root) {
    const found = new Map();
    let wall = 0;
    for (const { slices } of all) {
        const recursive = new Map();
        const stack = [];
        for (let i = root ?? 0; i < slices.name.length; i++) {
            if (root !== undefined && i > root && slices.depth[i] <= slices.depth[root]) break;
            if (slices.start[i] > to || (slices.start[i] === to && root === undefined)) break;
            if (slices.end[i] <= from && !(slices.end[i] === slices.start[i] && slices.start[i] >= from)) continue;
            while (stack.length && stack[stack.length - 1] !== slices.parent[i]) recursive.set(slices.name[stack.at(-1)], recursive.get(slices.name[stack.pop()]) - 1);
            const name = slices.name[i];
            const took = Math.min(slices.end[i], to) - Math.max(slices.start[i], from);
            let entry = found.get(name);
            if (!entry) { entry = { name, wall: 0, own: 0, calls: 0, again: 0, most: 0, parents: new Map(), children: new Map() }; found.set(name, entry); }
            const open = recursive.get(name) || 0;
            entry.own += took;
            if (open) entry.again++; else { entry.calls++; entry.wall += took; }
            entry.most = Math.max(entry.most, took);
            const parent = stack.length ? slices.name[stack.at(-1)] : NONE;
            if (parent !== NONE) {
                const around = found.get(parent);
                around.own -= took;
                add(around.children, name, took);
            } else wall += took;
            add(entry.parents, parent, took);
            recursive.set(name, open + 1);
            stack.push(i);
        }
    }
    return { found, wall };
}
const add = (map, key, took) => { const one = map.get(key) || { wall: 0, calls: 0 }; one.wall += took; one.calls++; map.set(key, one); };

/** Category, processor time and arguments, as lines of text; none if it has none. */
function details({ category, cpu, args }) {
    const made = [];
    if (category) made.push(`Category: ${names[category]}`);
    if (cpu !== undefined && cpu !== null) made.push(`Thread time: ${time(cpu / 1e3)}`);
    if (args) made.push(`Arguments: ${indented(names[args])}`);
    return made;
}
function indented(json) {
    try { return JSON.stringify(JSON.parse(json), null, 1); } catch { return json; }
}
const detailElements = (one) => details(one).map((text) => { const made = element("pre", text); made.className = "details"; return made; });

/** The slices at the other ends of flows; each selects its slice. */
function flows(title, list = []) {
    if (!list.length) return [];
    return [element("h2", title), headed(["Slice", "At", "Thread"], list, ({ thread, place }) => [
        link(names[thread.slices.name[place]], () => goTo(thread, place)), time(thread.slices.start[place]), `${thread.name} ${thread.tid}`,
    ])];
}

let order = "wall";
function tell() {
    const panel = $("panel");
    panel.replaceChildren();
    if (comparison) { panel.append(...tellCompared()); return; }
    if (selected) { panel.append(...tellSelected()); return; }
    if (frame) {
        const app = [...threads.values()].filter((thread) => data.pid === null || data.pid === undefined || isApp(thread.pid));
        panel.append(...tellFrame(), ...callstacks(frame.start, frameEnd(frame)), table(app, frame.start, frameEnd(frame), "The app's slices in it"));
        return;
    }
    const [from, to] = range ? [range.from, range.to] : [0, Infinity];
    panel.append(status());
    const hits = element("div", null, ...(range ? [] : tellFound()));
    hits.id = "hits";
    if (!range) panel.append(hits, ...lateFrames());
    else panel.append(element("h2", `Selected: ${time(to - from)}, from ${time(from)}`), actions(), ...rangeStatistics(from, to), ...callstacks(from, to));
    panel.append(table([...threads.values()], from, to, range ? "Slices in it" : "The whole trace"));
}

function tellSelected() {
    const { kind, thread, place } = selected, { from, to } = timesOf(selected);
    const title = element("h2", nameOfSelection(selected));
    if (kind === "slice") return [title, ...tellSlice(thread, place, from, to)];
    const about = [`${time(to - from)}, from ${time(from)}`];
    if (kind === "async") about.push(`on track ${selected.track.name} of ${nameOf(selected.track.pid)} ${selected.track.pid}`);
    if (kind === "gap") about.push(...gapWords(selected.one));
    if (kind === "mark") about.push(`on ${thread.name} ${thread.tid}`);
    if (kind === "value") about.push(`value ${selections.value.tip(selected)}`, ...(place > 0 ? [`before it ${selected.counter.value[place - 1]}`] : []));
    if (kind === "shown" && selected.layer.actual) about.push(`jank: ${selected.layer.jank[place]}`, `token ${selected.layer.token[place]}`);
    if (kind === "state") about.push(stateText(thread, place).replace("\n", ", "));
    const made = [title, actions(), element("p", about.join("; ")), ...(selected.one ? detailElements(selected.one) : [])];
    const wake = kind === "state" ? wakeOf(thread, place) : null;
    if (wake) made.push(element("p", null, "Woken by ", link(`${wake.by.name} ${wake.by.tid}`, () => {
        const list = states.get(wake.by.key);
        goToAny({ kind: "state", thread: wake.by, place: list ? Math.max(0, first(list.at.length, (i) => list.at[i], wake.at) - 1) : 0 });
    }), ` at ${time(wake.at)}`));
    return made;
}

function tellSlice(thread, place, from, to) {
    findCalls();
    const { slices } = thread, stack = [];
    for (let up = slices.parent[place]; up !== NONE && stack.length < 100; up = slices.parent[up]) stack.push(names[slices.name[up]]);
    const call = element("p", `Call ${rankOf(calls.sources, spotOfCall()) + 1} of ${calls.count} `, link("Previous call ([)", () => stepCall(-1)), " ", link("Next call (])", () => stepCall(1)));
    call.className = "actions";
    return [
        actions(),
        element("p", `Wall ${time(to - from)}, self ${time(slices.own[place])}, from ${time(from)}, on ${thread.name} ${thread.tid}${stack.length ? `; in ${stack.join(" ‹ ")}` : ""}${slices.open.has(place) ? "; its end is not in the trace" : ""}`),
        call,
        ...detailElements({ category: slices.category[place], cpu: slices.cpu[place], args: slices.args[place] }),
        ...flows("Flows from", thread.reaching.get(place)), ...flows("Flows to", thread.leaving.get(place)),
        ...statesTable([thread], from, to), ...callstacks(from, to),
        table([thread], from, to, "In it", place),
    ];
}

function status() {
    let slices = 0;
    for (const thread of threads.values()) slices += thread.slices.name.length;
    const janky = frames.filter((frame) => frame.janky).length;
    const busy = [...threads.values()].filter((thread) => thread.slices.name.length || thread.instants.length);
    const parts = [`${slices} slices on ${busy.length} threads, ${time(trace.last)}`];
    if (frames.length) parts.push(`${frames.length} frames, ${janky} janky`);
    if (trace.unclosed) parts.push(`${trace.unclosed} slices did not end`);
    if (trace.unmatched) parts.push(`${trace.unmatched} ends without a begin`);
    if (trace.badLines) parts.push(`${trace.badLines} lines could not be read`);
    for (const [what, count] of Object.entries(trace.lost)) parts.push(`lost: ${count} ${what}`);
    const text = element("p", parts.join("; "));
    text.id = "status";
    const made = element("div", null, element("p", answer()), text);
    made.firstChild.id = "answer";
    return made;
}

/** The profile of the whole trace: the panel is rebuilt with each letter of a search. */
let wholeProfile = null;
function table(all, from, to, title, root) {
    const isWhole = isComplete && to === Infinity;
    if (isWhole) wholeProfile ??= profile(all, from, to);
    const { found, wall } = isWhole ? wholeProfile : profile(all, from, to, root);
    const list = [...found.values()].sort((a, b) => (order === "name" ? names[a.name].localeCompare(names[b.name]) : b[order] - a[order]));
    const head = element("tr", null);
    for (const [key, label] of [["name", "Slice"], ["wall", "Wall"], ["own", "Self"], ["calls", "Calls + recursive"], ["most", "Longest"]]) {
        const cell = element("th", null, link(label, () => { order = key; tell(); }));
        cell.scope = "col";
        if (key === order) cell.setAttribute("aria-sort", key === "name" ? "ascending" : "descending");
        head.append(cell);
    }
    const made = element("div", null, element("div", null), element("h2", `${title}: ${found.size} names`));
    if (!found.size) made.append(element("p", "No slices in this time."));
    else fill(made, head, list, (entry) => [
        link(names[entry.name], () => relatives(entry, found)), time(entry.wall) + (wall ? ` ${(100 * entry.wall / wall).toFixed(1)} %` : ""),
        time(entry.own), `${entry.calls}+${entry.again}`, time(entry.most),
    ]);
    made.id = "profile";
    made.firstChild.id = "relatives";
    return made;
}

/** Lists the callers of the selected name and the names that it calls, each with its share of calls. */
function relatives(entry, found) {
    const list = (title, map, colour) => {
        const most = [...map].sort((a, b) => b[1].wall - a[1].wall).slice(0, 50);
        const texts = ([name, { wall, calls }]) => {
            const one = found.get(name), cell = name === NONE ? "(thread)" : link(names[name], () => relatives(one, found));
            // A parent's calls lead to this one; this one's calls lead to a child.
            const all = title === "Parents" ? entry.calls + entry.again : one.calls + one.again;
            return [cell, time(wall), `${entry.wall ? (100 * wall / entry.wall).toFixed(1) : 0} %`, `${calls}/${all}`];
        };
        const head = element("h2", title);
        head.style.color = `var(${colour})`;
        return element("div", null, head, headed([title, "Wall", "Share", "Calls/total"], most, texts));
    };
    $("relatives").replaceChildren(
        element("h2", `${names[entry.name]}: inclusive ${time(entry.wall)}, exclusive ${time(entry.own)}, calls ${entry.calls}+${entry.again}`),
        besides([list("Parents", entry.parents, "--parent")], [list("Children", entry.children, "--child")]));
    markName(entry.name);
}
