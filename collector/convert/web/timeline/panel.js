// Tells what is selected: its profile, callers and callees.

const element = (tag, text, ...children) => {
    const made = document.createElement(tag);
    if (text !== null) made.textContent = text;
    made.append(...children);
    return made;
};

/** By name, of the slices that are (in part) in a time, or of one and those in it: wall, self, calls and recursive calls. */
function profile(of, from, to, root) {
    const found = new Map();
    let wall = 0;
    for (const { slices } of of) {
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

/** The slices at the other ends of flows; each selects its slice. */
function flows(title, list = []) {
    if (!list.length) return [];
    return [element("h2", title), headed(["Slice", "At", "Thread"], list.slice(0, MAX_ROWS).map(({ thread, place }) => {
        const at = thread.slices.start[place];
        return element("tr", null, ...cells(link(names[thread.slices.name[place]], () => goTo(thread, place)), time(at), `${thread.name} ${thread.tid}`));
    }))];
}

let order = "wall";
function tell() {
    const panel = $("panel");
    panel.replaceChildren();
    if (selected) {
        const { thread, place } = selected;
        const { slices } = thread;
        const [from, to] = [slices.start[place], slices.end[place]];
        panel.append(element("h2", names[slices.name[place]]));
        const stack = [];
        for (let up = slices.parent[place]; up !== NONE && stack.length < 100; up = slices.parent[up]) stack.push(names[slices.name[up]]);
        panel.append(element("p", `Wall ${time(to - from)}, self ${time(slices.own[place])}, from ${time(from)}, on ${thread.name} ${thread.tid}${stack.length ? `; in ${stack.join(" ‹ ")}` : ""}`));
        const of = details({ category: slices.category[place], cpu: slices.cpu[place], args: slices.args[place] });
        panel.append(...of.map((text) => { const made = element("pre", text); made.className = "details"; return made; }));
        panel.append(...flows("Flows from", thread.reaching.get(place)), ...flows("Flows to", thread.leaving.get(place)));
        panel.append(table([thread], from, to, "In it", place));
        return;
    }
    if (frame) {
        const of = [...threads.values()].filter((thread) => data.pid === null || data.pid === undefined || thread.pid === data.pid);
        panel.append(...tellFrame(), table(of, frame.start, frameEnd(frame), "The app's slices in it"));
        return;
    }
    const [from, to] = range ? [range.from, range.to] : [0, Infinity];
    const shown = range ? `Selected: ${time(to - from)}` : "The whole trace";
    panel.append(status());
    if (!range) panel.append(...lateFrames());
    panel.append(table([...threads.values()], from, to, shown));
}

function status() {
    let slices = 0;
    for (const thread of threads.values()) slices += thread.slices.name.length;
    const janky = frames.filter((frame) => frame.janky).length;
    const busy = [...threads.values()].filter((thread) => thread.slices.name.length || thread.instants.length);
    const parts = [`${slices} slices on ${busy.length} threads, ${time(last)}`];
    if (frames.length) parts.push(`${frames.length} frames, ${janky} janky`);
    if (unclosed) parts.push(`${unclosed} slices did not end`);
    if (unmatched) parts.push(`${unmatched} ends without a begin`);
    if (badLines) parts.push(`${badLines} lines could not be read`);
    const text = element("p", parts.join("; "));
    text.id = "status";
    return text;
}

const MAX_ROWS = 300;
function table(of, from, to, title, root) {
    const { found, wall } = profile(of, from, to, root);
    const list = [...found.values()].sort((a, b) => b[order] - a[order]);
    const head = element("tr", null);
    for (const [key, label] of [["name", "Slice"], ["wall", "Wall"], ["own", "Self"], ["calls", "Calls + recursive"], ["most", "Longest"]]) {
        const button = element("button", label);
        button.addEventListener("click", () => { order = key === "name" ? "wall" : key; tell(); });
        head.append(element("th", null, button));
    }
    const body = element("tbody", null);
    for (const entry of list.slice(0, MAX_ROWS)) {
        const name = element("button", names[entry.name]);
        name.addEventListener("click", () => relatives(entry, found));
        const share = wall ? ` ${(100 * entry.wall / wall).toFixed(1)} %` : "";
        body.append(element("tr", null, element("td", null, name), element("td", time(entry.wall) + share), element("td", time(entry.own)), element("td", `${entry.calls}+${entry.again}`), element("td", time(entry.most))));
    }
    const made = element("div", null, element("h2", `${title}: ${found.size} names`), element("table", null, element("thead", null, head), body));
    if (list.length > MAX_ROWS) made.append(element("p", `The first ${MAX_ROWS} of ${list.length}.`));
    made.id = "profile";
    made.prepend(element("div", null));
    made.firstChild.id = "relatives";
    return made;
}

/** Who called it and whom it called. */
function relatives(entry, found) {
    const list = (title, map) => {
        const body = element("tbody", null);
        for (const [name, { wall, calls }] of [...map].sort((a, b) => b[1].wall - a[1].wall).slice(0, 50)) {
            const cell = element("button", name === NONE ? "(thread)" : names[name]);
            if (name !== NONE) cell.addEventListener("click", () => relatives(found.get(name), found));
            body.append(element("tr", null, element("td", null, cell), element("td", time(wall)), element("td", `${entry.wall ? (100 * wall / entry.wall).toFixed(1) : 0} %`), element("td", String(calls))));
        }
        return element("div", null, element("h2", title), element("table", null, body));
    };
    $("relatives").replaceChildren(
        element("h2", `${names[entry.name]}: inclusive ${time(entry.wall)}, exclusive ${time(entry.own)}, calls ${entry.calls}+${entry.again}`),
        element("div", null, list("Parents", entry.parents), list("Children", entry.children)));
    $("relatives").lastChild.className = "parts";
}
