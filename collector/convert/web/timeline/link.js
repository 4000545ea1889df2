// The state of the page in its address: the view, the selection, the search, pinned rows; also handles the back button.

/**
 * `t` and `d`: seconds of the trace's clock at the left, and seconds in view. `y`: pixels scrolled. `sel`: the selection, by
 * its place in this page. `with`: the time to compare it with. `q`: the search. `pins`, `folded`: rows.
 */
function address() {
    const parts = [`t=${seconds(view.from)}`, `d=${((view.to - view.from) / 1e6).toFixed(9)}`];
    const add = (key, value) => { if (value) parts.push(`${key}=${encodeURIComponent(value)}`); };
    add("y", Math.round(view.top));
    add("sel", selectionText());
    const first = comparison?.sides[0];
    add("with", first?.of === trace && comparison.sides[1].of === trace ? `${first.from.toFixed(3)}_${first.to.toFixed(3)}_${first.pid ?? ""}` : "");
    add("q", $("search").value);
    add("pins", [...pins].join(","));
    add("folded", [...folded].join(","));
    return `#${parts.join("&")}`;
}
/** Seconds of the trace's clock, as its text has them. */
function seconds(us) {
    const ns = Math.round((us + trace.origin) * 1e3);
    const whole = Math.floor(ns / 1e9);
    return `${trace.originSeconds + whole}.${String(ns - whole * 1e9).padStart(9, "0")}`;
}

function selectionText() {
    if (range) return `r.${range.from.toFixed(3)}_${range.to.toFixed(3)}`;
    if (frame) return `f.${frames.indexOf(frame)}`;
    if (!selected) return "";
    const { kind, thread, place, track, one, counter, layer } = selected;
    return {
        slice: () => `s.${thread.key}.${place}`, state: () => `x.${thread.key}.${place}`, mark: () => `m.${thread.key}.${thread.instants.indexOf(one)}`,
        async: () => `a.${asyncs.indexOf(track)}.${track.all.indexOf(one)}`, value: () => `c.${counter.pid === null ? `k${keyOf(counter)}` : counters.indexOf(counter)}.${place}`,
        gap: () => `g.${gaps.indexOf(one)}`, shown: () => `d.${shown.indexOf(layer)}.${place}`,
    }[kind]();
}
const keyOf = (clock) => [...clocks].find(([, one]) => one === clock)?.[0];

/** Returns the selection named by an address; null if this trace does not have it. */
function parseSelection(text) {
    const [kind, ...rest] = text.split(".");
    const [owner, place] = [rest[0], +rest[1]], thread = threads.get(+owner);
    const has = (list) => Boolean(list && place >= 0 && place < list.length);
    switch (kind) {
    case "s": return thread && has(thread.slices.name) ? { kind: "slice", thread, place } : null;
    case "x": return thread && has(states.get(thread.key)?.at) ? { kind: "state", thread, place } : null;
    case "m": return thread && has(thread.instants) ? { kind: "mark", thread, one: thread.instants[place] } : null;
    case "a": { const track = asyncs[owner]; return has(track?.all) ? { kind: "async", track, one: track.all[place] } : null; }
    case "c": { const counter = owner?.startsWith("k") ? clocks.get(+owner.slice(1)) : counters[owner]; return has(counter?.at) ? { kind: "value", counter, place } : null; }
    case "d": { const layer = shown[owner]; return has(layer?.start) ? { kind: "shown", layer, place } : null; }
    case "g": return gaps[owner] ? { kind: "gap", one: gaps[owner] } : null;
    case "f": return frames[owner] ? { kind: "frame", frame: frames[owner] } : null;
    case "r": { const [from, to] = text.slice(2).split("_").map(Number); return from <= to ? { kind: "range", from, to } : null; }
    default: return null;
    }
}

let isFollowing = false, waiting = null;
/** Writes the address: a selection is a step that the back button undoes, a move of the view is not. */
function remember(isStep) {
    if (isFollowing || !isComplete) return;
    clearTimeout(waiting);
    const write = () => {
        const hash = address();
        if (hash === location.hash) return;
        // Pages without an address have no link; Safari limits how often it changes.
        try { if (isStep) history.pushState(null, "", hash); else history.replaceState(null, "", hash); } catch (error) { /* The page works without. */ }
    };
    if (isStep) write(); else waiting = setTimeout(write, 250);
}

/**
 * Applies the address. Without `d`, `#t=SECONDS` selects the frame at a time of the trace's clock, or shows that
 * time; `#cause=CAUSE|KEY` selects the frame that lost the most time to a cause.
 */
function followLink() {
    const wanted = new URLSearchParams(location.hash.slice(1));
    isFollowing = true;
    try { follow(wanted); } finally { isFollowing = false; }
}

/** The frame that lost the most time to a cause (`CAUSE|KEY`); null if there is none. */
function worstByCause(all, cause) {
    const lost = (one) => (one.why?.causes || []).reduce((sum, of) => sum + (`${of.cause}|${of.key}` === cause ? of.self_ns : 0), 0);
    return all.reduce((most, one) => (lost(one) > (most ? lost(most) : 0) ? one : most), null);
}

function follow(wanted) {
    const list = (key) => (wanted.get(key) || "").split(",").filter(Boolean);
    const refill = (set, all) => { set.clear(); for (const one of all) set.add(one); };
    refill(pins, list("pins")); refill(folded, list("folded"));
    layOut();
    if ($("search").value !== (wanted.get("q") || "")) { $("search").value = wanted.get("q") || ""; search($("search").value); }
    const cause = wanted.get("cause");
    if (cause !== null) {
        const worst = worstByCause(frames, cause);
        if (worst) { selectFrame(worst, true); return; }
        announce(`No frame lost time by ${cause}.`);
    }
    const at = /^(\d{1,12})(?:\.(\d{1,9}))?$/.exec(wanted.get("t") || "");
    const from = at && sinceBegin(+at[1], +(at[2] || "").padEnd(9, "0"));
    const span = Number(wanted.get("d")) * 1e6;
    if (at && !span) {
        const one = frames.find((one) => Math.abs(one.start - from) < 0.5) || frames.findLast((one) => one.start <= from && from < frameEnd(one));
        if (one) selectFrame(one, true); else show(from - 10_000, from + 10_000);
        return;
    }
    const sel = wanted.get("sel");
    const found = sel ? parseSelection(sel) : null;
    selected = range = frame = null;
    closeCompare();
    if (found?.kind === "range") range = { from: found.from, to: found.to };
    else if (found?.kind === "frame") frame = found.frame;
    else selected = found;
    const first = /^([\d.]+)_([\d.]+)_(\d*)$/.exec(wanted.get("with") || "");
    if (first && found) {
        const [from, to] = [+first[1], +first[2]];
        compareSides(sideOf(trace, first[3] ? +first[3] : null, { from, to }, `${time(to - from)} from ${time(from)}`), selectedSide());
    }
    changed();
    if (sel && !found) announce("This trace does not contain the selection in the address.");
    if (at) { show(from, from + span); view.top = Number(wanted.get("y")) || 0; } else whole();
}
