// Draws what is in view on the canvas.

const view = { from: 0, to: 1, top: 0 };
let selected = null;   // {thread, place}
let frame = null;      // one of `frames`
let range = null;      // {from, to}
let matches = null;    // {set, list: [[at, thread, place]], place}
const canvas = $("canvas");
const context = canvas.getContext("2d");
let width = 0, height = 0, colours = null, isQueued = false;
const hues = [];
const colourOf = (name) => {
    let colour = hues[name];
    if (!colour) {
        let hash = 2166136261;
        // Numbers in a name (doFrame 12) do not change its colour.
        for (const char of names[name].replace(/\d+/g, "")) hash = Math.imul(hash ^ char.codePointAt(0), 16777619);
        colour = hues[name] = `hsl(${(hash >>> 0) % 360} 45% ${colours.dark ? 38 : 72}%)`;
    }
    return colour;
};

function queue() {
    if (!isQueued) { isQueued = true; requestAnimationFrame(() => { isQueued = false; draw(); }); }
}
const xOf = (at) => LEFT + (at - view.from) / (view.to - view.from) * (width - LEFT);
const atOf = (x) => view.from + (x - LEFT) / (width - LEFT) * (view.to - view.from);

function time(us) {
    const abs = Math.abs(us);
    if (abs >= 1e6) return `${(us / 1e6).toFixed(abs >= 1e7 ? 2 : 3)} s`;
    if (abs >= 1e3) return `${(us / 1e3).toFixed(abs >= 1e5 ? 1 : 3)} ms`;
    return `${us.toFixed(abs < 10 && us % 1 ? 3 : 0)} µs`;
}

function draw() {
    const ratio = devicePixelRatio || 1;
    width = $("view").clientWidth; height = $("view").clientHeight;
    LEFT = Math.min(190, Math.round(width * 0.28));
    if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
        canvas.width = Math.round(width * ratio); canvas.height = Math.round(height * ratio);
    }
    const style = getComputedStyle(document.documentElement);
    const dark = matchMedia("(prefers-color-scheme: dark)").matches;
    if (!colours || colours.dark !== dark) hues.length = 0;
    colours = { dark, bg: style.getPropertyValue("--bg"), fg: style.getPropertyValue("--fg"), dim: style.getPropertyValue("--dim"), line: style.getPropertyValue("--line"), row: style.getPropertyValue("--row"), accent: style.getPropertyValue("--accent") };
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.fillStyle = colours.bg;
    context.fillRect(0, 0, width, height);
    context.font = "11px system-ui, sans-serif";
    context.textBaseline = "middle";
    view.top = Math.max(0, Math.min(view.top, total - height + RULER + 40));
    for (const row of rows) {
        const y = RULER + row.y - view.top;
        if (y > height || y + row.height < RULER) continue;
        context.save();
        context.beginPath(); context.rect(LEFT, RULER, width - LEFT, height - RULER); context.clip();
        drawRow(row, y);
        context.restore();
        drawTitle(row, y);
    }
    drawRuler();
    if (frame) drawFrameLines();
    if (range) {
        const from = Math.max(LEFT, xOf(range.from)), to = xOf(range.to);
        context.fillStyle = "#4a90d933";
        context.fillRect(from, RULER, to - from, height);
    }
}

const isHead = (row) => row.kind === "process" || row.kind === "minor";

function drawTitle(row, y) {
    context.save();
    context.beginPath(); context.rect(0, RULER, isHead(row) ? width : LEFT - 6, height); context.clip();
    context.fillStyle = row.kind === "process" ? colours.fg : row.kind === "minor" ? colours.accent : colours.dim;
    context.font = row.kind === "process" ? "600 12px system-ui, sans-serif" : "11px system-ui, sans-serif";
    const mark = row.kind === "minor" && row.key === "processes" ? "" : row.kind !== "process" ? "    " : folded.has(row.pid) ? "▸ " : "▾ ";
    context.fillText(mark + row.title, 6, y + Math.min(row.height, ROW) / 2 + 1);
    context.restore();
}

function drawRow(row, y) {
    switch (row.kind) {
    case "process": context.fillStyle = colours.row; context.fillRect(LEFT, y, width, row.height); break;
    case "frames": drawFrames(y); break;
    case "async": for (const [i, lane] of row.track.lanes.entries()) drawBoxes(lane.length, (j) => lane[j].start, (j) => lane[j].end, y + i * ROW, (j) => colourOf(lane[j].name), (j) => names[lane[j].name], (j) => isMatch(lane[j].name)); break;
    case "thread": drawThread(row.thread, y); break;
    case "counter": drawCounter(row.counter, y, row.height); break;
    }
}
const isMatch = (name) => matches?.set.has(name);

/** Boxes in the order of time. Those of less than a pixel are one: the first, then the next one to be seen. */
function drawBoxes(count, start, end, y, colour, text, marked) {
    const pixel = (view.to - view.from) / (width - LEFT);
    let i = first(count, end, view.from);
    while (i < count && start(i) < view.to) {
        const from = start(i), to = end(i);
        const left = Math.max(LEFT - 2, xOf(from)), right = Math.min(width + 2, xOf(to));
        const isMarked = marked?.(i);
        context.fillStyle = isMarked ? "#e040fb" : colour(i);
        context.fillRect(left, y, Math.max(right - left - (right - left > 3 ? 0.5 : 0), 1), ROW - 1);
        if (right - left > 28) {
            context.save();
            context.beginPath(); context.rect(left, y, right - left - 2, ROW); context.clip();
            context.fillStyle = colours.dark ? "#fff" : "#000";
            context.fillText(text(i), Math.max(left, LEFT) + 3, y + ROW / 2);
            context.restore();
        }
        if (to - from >= pixel) { i++; continue; }
        const next = from + pixel;
        i = Math.max(i + 1, first(count, end, next, i));
    }
}

/** The first place at which `of` is over `at`. */
function first(count, of, at, low = 0) {
    let high = count;
    while (low < high) {
        const middle = (low + high) >>> 1;
        if (of(middle) > at) high = middle; else low = middle + 1;
    }
    return low;
}

function drawThread(thread, y) {
    drawStates(states.get(thread.key), y);
    drawPath(thread.tid, y);
    const { slices } = thread;
    const depths = Math.min(slices.levels.length, MAX_LEVELS);
    for (let depth = 0; depth < depths; depth++) {
        const top = y + STRIP + depth * ROW;
        if (top > height || top + ROW < RULER) continue;
        const level = slices.levels[depth];
        drawBoxes(level.length, (i) => slices.start[level[i]], (i) => slices.end[level[i]], top, (i) => colourOf(slices.name[level[i]]), (i) => names[slices.name[level[i]]], (i) => isMatch(slices.name[level[i]]));
    }
    context.fillStyle = colours.fg;
    let x = -1;
    for (let i = first(thread.instants.length, (i) => thread.instants[i].start, view.from - 1); i < thread.instants.length; i++) {
        const at = xOf(thread.instants[i].start);
        if (at > width) break;
        if (at - x < 1) continue;
        x = at;
        context.beginPath(); context.moveTo(at - 4, y); context.lineTo(at + 4, y); context.lineTo(at, y + 7); context.fill();
    }
    if (selected && selected.thread === thread && slices.depth[selected.place] < depths) {
        const { place } = selected;
        const left = xOf(slices.start[place]), right = xOf(slices.end[place]);
        context.strokeStyle = colours.fg; context.lineWidth = 2;
        context.strokeRect(left, y + STRIP + slices.depth[place] * ROW, Math.max(right - left, 2), ROW - 1);
    }
}

const STATE_COLOURS = ["#43a047", "#1e88e5", "#9e9e9e66", "#e65100", "#ad1457", "transparent"];

/** The strip of a thread's states. States of less than a pixel are one: the first, then the next one to be seen. */
function drawStates(list, y) {
    if (!list) return;
    const count = list.at.length;
    const pixel = (view.to - view.from) / (width - LEFT);
    let i = Math.max(0, first(count, (i) => list.at[i], view.from) - 1);
    while (i < count && list.at[i] < view.to) {
        const from = list.at[i], to = i + 1 < count ? list.at[i + 1] : last;
        context.fillStyle = STATE_COLOURS[list.state[i]];
        context.fillRect(xOf(from), y, Math.max(xOf(to) - xOf(from), 1), 3);
        i = to - from >= pixel ? i + 1 : Math.max(i + 1, first(count, (i) => list.at[i], from + pixel, i) - 1);
    }
}

function drawCounter(counter, y, tall) {
    const { at, value, low, high } = counter;
    const scale = (v) => y + tall - 4 - (high > low ? (v - low) / (high - low) : 0.5) * (tall - 10);
    context.fillStyle = "#5c6bc088"; context.beginPath();
    let i = Math.max(0, first(at.length, (i) => at[i], view.from) - 1);
    context.moveTo(xOf(at[i]), y + tall - 2);
    let shown = -1;
    for (; i < at.length; i++) {
        const x = xOf(at[i]);
        if (x > width) break;
        if (x - shown < 0.5 && i + 1 < at.length) continue;
        shown = x;
        const next = i + 1 < at.length ? xOf(at[i + 1]) : width;
        context.lineTo(x, scale(value[i])); context.lineTo(Math.min(next, width), scale(value[i]));
    }
    context.lineTo(Math.min(width, xOf(last)), y + tall - 2); context.fill();
    context.fillStyle = colours.dim;
    context.fillText(`${low} … ${high}`, LEFT + 4, y + 8);
}

function drawRuler() {
    context.fillStyle = colours.bg; context.fillRect(0, 0, width, RULER);
    context.strokeStyle = colours.line; context.lineWidth = 1;
    const span = view.to - view.from;
    let step = 10 ** Math.floor(Math.log10(span / 5));
    for (const factor of [2, 2.5, 2]) if (span / step > 10) step *= factor;
    context.fillStyle = colours.dim;
    for (let at = Math.ceil(view.from / step) * step; at < view.to; at += step) {
        const x = xOf(at);
        context.beginPath(); context.moveTo(x, RULER - 6); context.lineTo(x, height); context.globalAlpha = 0.5; context.stroke(); context.globalAlpha = 1;
        context.fillText(time(at), x + 3, RULER / 2);
    }
    context.fillText(time(span), 6, RULER / 2);
    context.beginPath(); context.moveTo(LEFT - 0.5, 0); context.lineTo(LEFT - 0.5, height); context.stroke();
}
