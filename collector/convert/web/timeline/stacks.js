// Sampled callstacks of a selected time: the functions by self and total time, and the tree of their calls.

const MAX_NODES = 500;
const functionsOf = new Map();
/** The functions of a sample, outermost first; empty for a slice that is not a sample. */
function functionsIn({ args }) {
    let found = functionsOf.get(args);
    if (found) return found;
    try { found = JSON.parse(names[args]).stack.split(" < ", 100).reverse(); } catch { found = []; }
    functionsOf.set(args, found);
    return found;
}

/** The tree of calls in a time, and the sums by function: a function that calls itself counts once in a stack's total. */
function sampledIn(from, to) {
    const node = (name) => ({ name, own: 0, total: 0, children: new Map() });
    const root = node(""), sums = new Map();
    const child = (map, name) => { let one = map.get(name); if (!one) { one = node(name); map.set(name, one); } return one; };
    for (const track of asyncs) {
        if (track.name !== "samples") continue;
        for (const one of track.all) {
            const took = Math.min(one.end, to) - Math.max(one.start, from), functions = took > 0 ? functionsIn(one) : [];
            if (!functions.length) continue;
            let at = root;
            root.total += took;
            for (const name of functions) { at = child(at.children, name); at.total += took; }
            for (const name of new Set(functions)) child(sums, name).total += took;
            at.own += took;
            child(sums, functions.at(-1)).own += took;
        }
    }
    return { root, sums: [...sums.values()].sort((a, b) => b.own - a.own || b.total - a.total) };
}

/** The tree, expanded as long as one call has most of the time; chains of single calls share one line. */
function callTree(root) {
    let left = MAX_NODES;
    const lines = (around) => [...around.children.values()].sort((a, b) => b.total - a.total).map((one) => {
        if (left-- <= 0) return "";
        const chain = [one.name];
        while (one.own === 0 && one.children.size === 1) { [one] = one.children.values(); chain.push(one.name); }
        const text = `${time(one.total)} ${(100 * one.total / root.total).toFixed(1)} % ${chain.join(" › ")}${one.children.size && one.own ? `, self ${time(one.own)}` : ""}`;
        if (!one.children.size) return element("p", text);
        const made = element("details", null, element("summary", text), ...lines(one));
        made.open = one.total * 2 >= root.total;
        return made;
    });
    const made = element("div", null, ...lines(root));
    made.className = "calls";
    if (left < 0) made.append(element("p", `The first ${MAX_NODES} calls.`));
    return made;
}

function callstacks(from, to) {
    const { root, sums } = sampledIn(from, to);
    if (!sums.length) return [];
    const share = (took) => `${time(took)} ${(100 * took / root.total).toFixed(1)} %`;
    return [
        element("h2", `Sampled callstacks: ${time(root.total)}`),
        headed(["Function", "Self", "Total"], sums, ({ name, own, total }) => [name, share(own), share(total)]),
        element("h2", "Their calls"), callTree(root),
    ];
}
