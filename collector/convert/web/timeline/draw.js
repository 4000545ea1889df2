// Draws the visible part on the canvas: rows, their titles, the ruler, the overview.

const view = { from: 0, to: 1, top: 0 };
/** The selection: a slice, async slice, state, instant, counter value or displayed frame; see `selections`. */
let selected = null;
let frame = null;      // one of `frames`
let range = null;      // {from, to}
const canvas = $("canvas");
let context = canvas.getContext("2d");
let width = 0, height = 0, colours = null, isQueued = false;
const hues = [];
/** In a method trace: the ranks of names by inclusive time. */
let ranks = null;
const colourOf = (name) => (hues[name] ??= ranks?.has(name) ? hsl(ranks.get(name) * 5 % HUES * 360 / HUES) : hueOf(names[name]));
const hsl = (hue) => `hsl(${hue} 45% ${colours.dark ? 30 : 76}%)`;
/** Hues of a method trace. They repeat, as in Traceview; ranks next to each other have different ones. */
const HUES = 24;
/** Numbers in a name (doFrame 12) do not change its colour. */
function hueOf(text) {
    let hash = 2166136261;
    for (const char of text.replace(/\d+/g, "")) hash = Math.imul(hash ^ char.codePointAt(0), 16777619);
    return hsl((hash >>> 0) % 360);
}
/** Colours a method trace by the inclusive time of its methods, from the most on. */
function rankByTime() {
    const methods = [...profile(threads.values(), 0, trace.last).found.values()].sort((a, b) => b.wall - a.wall || a.name - b.name);
    ranks = new Map(methods.map(({ name }, rank) => [name, rank]));
    hues.length = 0;
}

function queue() {
    if (!isQueued) { isQueued = true; requestAnimationFrame(() => { isQueued = false; draw(); }); }
}
const xOf = (at) => LEFT + (at - view.from) / (view.to - view.from) * (width - LEFT);
const atOf = (x) => view.from + (x - LEFT) / (width - LEFT) * (view.to - view.from);
/** Time of a pixel. */
const pixelTime = () => (view.to - view.from) / (width - LEFT);
const yOf = (row) => RULER + row.y - view.top;

function time(us) {
    const abs = Math.abs(us);
    if (abs >= 1e6) return `${(us / 1e6).toFixed(abs >= 1e7 ? 2 : 3)} s`;
    if (abs >= 1e3) return `${(us / 1e3).toFixed(abs >= 1e5 ? 1 : 3)} ms`;
    return `${us.toFixed(abs < 10 && us % 1 ? 3 : 0)} µs`;
}
/** A counter's value: up to six digits, with the fraction that it has. */
const number = (value) => (Math.abs(value) >= 1e6 || Number.isInteger(value) ? Math.round(value * 1e3) / 1e3 : +value.toPrecision(6)).toLocaleString("en-US", { maximumFractionDigits: 6 });

function readColours() {
    const style = getComputedStyle(document.documentElement);
    const dark = matchMedia("(prefers-color-scheme: dark)").matches && !document.documentElement.dataset.prints;
    if (!colours || colours.dark !== dark) hues.length = 0;
    colours = { dark };
    for (const name of ["bg", "fg", "dim", "line", "row", "accent"]) colours[name] = style.getPropertyValue(`--${name}`);
}

function measure() {
    width = $("view").clientWidth; height = $("view").clientHeight;
    LEFT = Math.min(190, Math.round(width * 0.28));
}

function draw() {
    const ratio = devicePixelRatio || 1;
    measure();
    if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
        canvas.width = Math.round(width * ratio); canvas.height = Math.round(height * ratio);
    }
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, width, height);
    withLayer(ratio, paint);
}

function paint() {
    readColours();
    box(0, 0, width, height, colours.bg);
    context.font = "11px system-ui, sans-serif";
    context.textBaseline = "middle";
    view.top = Math.max(0, Math.min(view.top, total - height + RULER + 40));
    for (let i = rowAt(view.top); i < rows.length && yOf(rows[i]) <= height; i++) {
        const row = rows[i], y = yOf(row);
        inside(LEFT, RULER, width - LEFT, height - RULER, () => drawRow(row, y));
        drawTitle(row, y);
    }
    inside(LEFT, RULER, width - LEFT, height - RULER, () => { drawGapStrips(); drawArrows(); });
    drawRuler();
    drawOverview();
    if (frame) drawFrameLines();
    if (range) {
        const from = Math.max(LEFT, xOf(range.from)), to = xOf(range.to);
        context.fillStyle = "#4a90d933";
        if (to > LEFT) context.fillRect(from, RULER, to - from, height);
    }
}

function inside(x, y, wide, tall, act) {
    context.save();
    context.beginPath(); context.rect(x, y, wide, tall); context.clip();
    act();
    context.restore();
}

/** The place of the row at a height; of the last one below all. */
const rowAt = (down) => Math.max(0, first(rows.length, (i) => rows[i].y, down) - 1);
const isHead = (row) => row.kind === "process" || row.kind === "minor";

function drawTitle(row, y) {
    inside(0, RULER, isHead(row) ? width : LEFT - 6, height, () => {
        if (row === cursor && isCursorShown()) { context.fillStyle = colours.row; context.fillRect(0, y, LEFT - 2, row.height); context.fillStyle = colours.accent; context.fillRect(0, y, 3, row.height); }
        context.fillStyle = row.kind === "process" ? colours.fg : row.kind === "minor" ? colours.accent : colours.dim;
        context.font = row.kind === "process" ? "600 12px system-ui, sans-serif" : "11px system-ui, sans-serif";
        const mark = row.kind === "process" ? (folded.has(row.key) ? "▸ " : "▾ ") : row.isPinned ? " ★ " : row.key === "processes" ? "" : "    ";
        context.fillText(mark + row.title, 6, y + Math.min(row.height, ROW) / 2 + 1);
    });
}

function drawRow(row, y) {
    switch (row.kind) {
    case "process": context.fillStyle = colours.row; context.fillRect(LEFT, y, width, row.height); break;
    case "frames": drawFrames(row, y); break;
    case "gaps": gaps.lanes.forEach((lane, i) => { drawGaps(lane, y + i * ROW); }); break;
    case "async": row.track.lanes.forEach((lane, i) => { drawAsyncs(row.track, lane, y + i * ROW); }); break;
    case "shown": row.layer.lanes.forEach((lane, i) => { drawShown(row.layer, lane, y + i * ROW); }); break;
    case "thread": drawThread(row, y); break;
    case "cpu": drawProcessor(row.ran, y); break;
    case "counter": drawCounter(row.counter, y, row.height); break;
    }
}

/**
 * Boxes in the order of time. Boxes narrower than a pixel are merged: the first one is drawn, then the next visible one.
 * `mark` gives the colour of a bar in a box that stands out, and `hatched` says that its end is not in the trace.
 */
function drawBoxes(count, start, end, y, colour, text, { fill, mark, hatched, ink } = {}) {
    const pixel = pixelTime();
    let i = first(count, end, view.from);
    while (i < count && start(i) < view.to) {
        const from = start(i), to = end(i);
        const left = Math.max(LEFT - 2, xOf(from)), right = Math.min(width + 2, xOf(to));
        const wide = Math.max(right - left - (right - left > 3 ? 0.5 : 0), 1);
        const filled = fill?.(i);
        rowBox(left, y, wide, ROW - 1, filled || colour(i));
        if (hatched?.(i)) hatch(left, y, wide, ROW - 1, colours.fg);
        const bar = mark?.(i);
        if (bar) rowBox(left, y + ROW - 5, wide, 4, bar);
        if (right - left > 28) {
            inside(left, y, right - left - 2, ROW, () => {
                context.fillStyle = ink || (filled || colours.dark ? "#fff" : "#000");
                context.fillText(text(i), Math.max(left, LEFT) + 3, y + ROW / 2);
            });
        }
        if (to - from >= pixel) { i++; continue; }
        const next = from + pixel;
        i = Math.max(i + 1, first(count, end, next, i));
    }
}

/** The first index at which `value` exceeds `at`; the search begins near `low`. */
function first(count, value, at, low = 0) {
    let high = count;
    for (let by = 4; low && low + by < high; by *= 2) if (value(low + by) > at) high = low + by; else low += by + 1;
    while (low < high) {
        const middle = (low + high) >>> 1;
        if (value(middle) > at) high = middle; else low = middle + 1;
    }
    return low;
}

/** Slanted lines: something is missing here. */
function hatch(x, y, wide, tall, colour) {
    const from = Math.max(x, LEFT - tall), to = Math.min(x + wide, width);
    if (to - from < 2) return;
    inside(x, y, wide, tall, () => {
        context.strokeStyle = colour; context.lineWidth = 1; context.globalAlpha = 0.45;
        context.beginPath();
        for (let at = from - tall; at < to; at += 6) { context.moveTo(at, y + tall); context.lineTo(at + tall, y); }
        context.stroke();
        context.globalAlpha = 1;
    });
}

/** Steps of a ruler: so wide that the labels do not meet. */
function rulerStep(span, wide) {
    const most = Math.max(1, Math.floor(wide / 82));
    let step = 10 ** Math.floor(Math.log10(span / most));
    for (const factor of [2, 2.5, 2]) if (span / step > most) step *= factor;
    return step;
}

function drawRuler() {
    box(0, OVERVIEW, width, RULER - OVERVIEW, colours.bg);
    context.strokeStyle = colours.line; context.lineWidth = 1;
    const span = view.to - view.from, step = rulerStep(span, width - LEFT), y = (OVERVIEW + RULER) / 2;
    context.fillStyle = colours.dim;
    inside(LEFT, 0, width - LEFT, height, () => {
        for (let at = Math.ceil(view.from / step) * step; at < view.to; at += step) {
            const x = xOf(at);
            context.beginPath(); context.moveTo(x, RULER - 6); context.lineTo(x, height); context.globalAlpha = 0.5; context.stroke(); context.globalAlpha = 1;
            context.fillText(time(at), x + 3, y);
        }
    });
    inside(0, 0, LEFT - 4, RULER, () => context.fillText(time(span), 6, y));
    context.beginPath(); context.moveTo(LEFT - 0.5, 0); context.lineTo(LEFT - 0.5, height); context.stroke();
}

/** The whole trace, coloured by its latest frames, or those that FrameTimeline displayed; the part in view has a border. */
function drawOverview() {
    const wide = width - LEFT, xAt = (at) => LEFT + at / Math.max(trace.last, 1) * wide;
    box(0, 0, width, OVERVIEW, colours.bg);
    box(LEFT, 0, wide, OVERVIEW - 2, colours.row);
    for (const isLate of [false, true]) for (const one of frames) {
        if (one.slow !== isLate) continue;
        box(xAt(one.start), 2, Math.max(xAt(frameEnd(one)) - xAt(one.start), isLate ? 2 : 0.5), OVERVIEW - 6, frameColour(one));
    }
    const layer = frames.length ? null : mainLayer();
    if (layer) for (const colour of [SHOWN_COLOURS.none, SHOWN_COLOURS.jank]) layer.start.forEach((start, i) => {
        if (shownColour(layer, i) === colour) box(xAt(start), 2, Math.max(xAt(layer.end[i]) - xAt(start), 1), OVERVIEW - 6, colour);
    });
    context.fillStyle = colours.dim;
    inside(0, 0, LEFT - 4, OVERVIEW, () => context.fillText("overview", 6, OVERVIEW / 2));
    context.strokeStyle = colours.accent; context.lineWidth = 2;
    const from = Math.max(LEFT + 1, xAt(view.from)), to = Math.min(width - 1, xAt(view.to));
    context.strokeRect(from, 1, Math.max(to - from, 3), OVERVIEW - 4);
}
