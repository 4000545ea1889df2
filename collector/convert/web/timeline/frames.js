// The frames of the app: their rows, the lines of the selected one, and its panel.

/** Green: in time; yellow: late; then jank, by how many vsyncs it missed. */
const FRAME_COLOURS = { inTime: "#66bb6a", late: "#fdd835", levels: ["#fb8c00", "#fb8c00", "#f4511e", "#e53935", "#b71c1c"] };
const DEADLINE = "#d50000";
const frameColour = (one) => one.janky ? FRAME_COLOURS.levels[one.level] : one.slow ? FRAME_COLOURS.late : FRAME_COLOURS.inTime;
const frameEnd = (one) => one.start + one.dur;

/** Frames in µs since the trace's begin, separate for each pipeline, because Flutter's and the views' overlap. */
function readFrames() {
    const byPipeline = new Map();
    for (const one of frames) {
        one.start = sinceBegin(one.start_s, one.start_ns);
        one.dur = one.dur_ns / 1e3;
        one.deadline = one.deadline_ns / 1e3;
        const list = listOf(byPipeline, one.pipeline, () => []);
        // The latest end so far: frames overlap.
        one.reach = Math.max(list.at(-1)?.reach ?? 0, frameEnd(one));
        list.push(one);
    }
    pipelines = [...byPipeline].map(([pipeline, list]) => ({ pipeline, list }));
}
const sinceBegin = (seconds, ns) => (seconds - trace.originSeconds) * 1e6 + ns / 1e3 - trace.origin;

/** Frames overlap if one begins at its vsync while the previous one is still at work: the later one is drawn over it. */
function drawFrames({ list }, y) {
    drawBoxes(list.length, (i) => list[i].start, (i) => frameEnd(list[i]), y, (i) => frameColour(list[i]), (i) => time(list[i].dur), { ink: "#000" });
    // The deadline of each late frame, where there is room for it.
    context.fillStyle = DEADLINE;
    const pixel = pixelTime();
    for (let i = first(list.length, (i) => list[i].reach, view.from); i < list.length && list[i].start < view.to; i++) {
        const { start, dur, deadline, slow } = list[i];
        if (slow && dur > 6 * pixel) context.fillRect(xOf(start + deadline) - 0.5, y - 1, 1.5, ROW + 1);
    }
    if (frame && list.includes(frame)) outline(frame.start, frameEnd(frame), y, ROW - 1);
}

/** Begin, end and deadline of the selected frame, over all rows. */
function drawFrameLines() {
    const line = (at, colour, dashes, label) => {
        const x = xOf(at);
        if (x < LEFT || x > width) return;
        context.save();
        context.strokeStyle = context.fillStyle = colour; context.lineWidth = 1; context.setLineDash(dashes);
        context.beginPath(); context.moveTo(x, RULER); context.lineTo(x, height); context.stroke();
        if (label) context.fillText(label, x + 3, height - 8);
        context.restore();
    };
    line(frame.start, colours.dim, [2, 3], "");
    line(frameEnd(frame), colours.dim, [2, 3], "");
    line(frame.start + frame.deadline, DEADLINE, [5, 3], "deadline");
}

// ---- selecting ----

function selectFrame(one, isShown) {
    frame = one; selected = range = comparison = null;
    if (isShown) {
        const row = rows.find((row) => row.kind === "frames" && row.pipeline === one.pipeline);
        if (row) view.top = Math.max(0, row.y - HEAD);
        show(one.start - one.dur, frameEnd(one) + one.dur);
    }
    changed();
}

/** The late frame before or after the selected one. */
function stepFrame(by) {
    const late = frames.filter((one) => one.slow);
    if (!late.length) { announce("No late frame."); return; }
    const at = frame ? frame.start : (view.from + view.to) / 2;
    const place = by > 0 ? late.findIndex((one) => one.start > at) : late.findLastIndex((one) => one.start < at);
    selectFrame(late[place < 0 ? (by > 0 ? 0 : late.length - 1) : place], true);
}

// ---- the panel ----

const START_SOURCES = { timeline: "where FrameTimeline expects it", platform: "at the vsync that FrameMetrics names", vsync: "at an edge of VSYNC-app", cadence: "at the cadence of the preceding frames", begin: "where its first section begins" };

/** A bar of states, and its description in words; empty if no state is known. */
function statesBar(times, whole) {
    if (STATES.every((name, state) => state === UNKNOWN || !times[`${name}_ns`])) return "";
    const bar = element("span", null);
    bar.className = "bar";
    const words = [];
    STATES.forEach((name, state) => {
        const us = times[`${name}_ns`] / 1e3;
        if (!us) return;
        const part = element("i", null);
        part.style.width = `${(100 * us / whole).toFixed(2)}%`;
        part.style.background = state === UNKNOWN ? "none" : STATE_COLOURS[state];
        bar.append(part);
        words.push(`${name} ${time(us)}`);
    });
    return element("span", null, bar, words.join(", "));
}

/** The lateness of a frame: without evidence of the display no vsync is known to be missed. */
function missed({ why, dropped, slow }) {
    if (!why) return slow ? "late" : "";
    if (why.evidence === "markers") return "over one period";
    return `${dropped} vsync${dropped === 1 ? "" : "s"} missed${why.outcome === "app" ? "" : ` (${why.outcome})`}`;
}

/** Thread, state and section of a step, in words: joined steps are of several threads. */
function stepWords({ tid, thread, state, cpu, what, joined }) {
    const isJoined = joined > 1;
    return {
        thread: thread && tid !== null ? thread : isJoined ? "several threads" : "no thread in the trace",
        state: (state === "unknown" ? "" : state) + (cpu === null ? "" : `, processor ${cpu}`),
        what: isJoined ? `${joined} short steps` : what,
    };
}

/** The panel of the selected frame. */
function tellFrame() {
    const { why, start, dur, deadline } = frame;
    const end = start + dur;
    const over = dur - deadline;
    const made = [element("h2", `Frame at ${time(start)}: ${time(dur)}${over > 0 ? `, ${time(over)} past its deadline` : ", in time"}${over > 0 && !frame.slow ? ", but displayed in time" : ""}`), actions()];
    const about = [frame.pipeline, `deadline ${time(deadline)} after its begin`, missed(frame)];
    if (why) {
        const source = START_SOURCES[why.start_source] || why.start_source;
        about.push(`begins ${source}`);
        if (why.ui_start_ns > 0) about.push(`work began ${time(why.ui_start_ns / 1e3)} later`);
    }
    made.push(element("p", about.filter((text) => text).join("; ")));
    if (!why) {
        if (frame.slow) made.push(element("p", "Not explained: only the 300 frames with the largest overruns are explained."));
        return made;
    }
    const share = (ns) => `${(100 * ns / 1e3 / dur).toFixed(1)} %`;
    // Caused by an earlier late frame, which delayed this one.
    const carried = (text) => (why.causes.some((one) => one.carried_ns) ? [text] : []);
    made.push(element("h2", "Causes"), headed(["Cause", "Of", "Time", ...carried("Carried over"), "Share", "Past the deadline", "States"], why.causes, (one) =>
        [one.cause, one.key, time((one.self_ns + one.carried_ns) / 1e3), ...carried(time(one.carried_ns / 1e3)), share(one.self_ns + one.carried_ns), time(one.overrun_ns / 1e3), statesBar(one.states, one.self_ns / 1e3)]));
    if (why.states.some((one) => one.unknown_ns < Math.round(dur * 1e3)))
        made.push(element("h2", "Thread states"), headed(["Thread", "States"], why.states, (one) => [one.thread, statesBar(one, dur)]));
    made.push(element("h2", "Critical path"), headed(["From", "Took", "Thread", "State", "In", "Woken by"], why.path, (step) => {
        const from = start + step.from_ns / 1e3, to = start + step.to_ns / 1e3;
        const at = link(`+${time(step.from_ns / 1e3)}`, () => {
            const thread = threads.get(step.tid);
            const row = thread && reveal(thread);
            if (row) view.top = row.y - height / 3;
            const more = Math.max((to - from) * 0.2, 1);
            show(from - more, to + more);
        });
        const words = stepWords(step), thread = element("span", words.thread);
        thread.style.paddingInlineStart = `${Math.min(step.depth, 8) * 10}px`;
        return [at, time(to - from), thread, words.state, words.what, step.woken_by || ""];
    }));
    if (why.processors.length) made.push(element("p", `Processors: ${why.processors.map(processor).join("; ")}`));
    return made;
}

const processor = (one) => {
    const clock = one.mean_khz ? ` at ${(one.mean_khz / 1e3).toFixed(0)} MHz${one.max_khz ? ` of ${(one.max_khz / 1e3).toFixed(0)}` : ""}` : "";
    return `${one.thread} ran ${time(one.running_ns / 1e3)} on ${one.core ? `a ${one.core} core, ` : ""}number ${one.cpu}${clock}`;
};

/** The late frames with the largest overruns; each selects its frame. */
function lateFrames() {
    const late = frames.filter((one) => one.slow).sort((a, b) => b.dur - b.deadline - (a.dur - a.deadline));
    if (!late.length) return [];
    return [element("h2", "Late frames"), headed(["At", "Took", "Past the deadline", "Most of it"], late, (one) => {
        const most = one.why?.causes[0];
        return [link(time(one.start), () => selectFrame(one, true)), time(one.dur), time(one.dur - one.deadline), most ? `${most.cause}: ${most.key}` : ""];
    })];
}

/** The first sentence of the page: how many frames were late, and the worst cause. */
function answer() {
    const late = frames.filter((one) => one.slow);
    if (!frames.length && shown.some((one) => one.actual)) return answerOfShown();
    if (!frames.length) return data.pid === null || data.pid === undefined ? "No process in this trace draws frames." : "The app has no frames in this trace.";
    if (!late.length) return `All ${frames.length} frames were in time.`;
    const sums = new Map();
    for (const one of late) for (const { cause, key, overrun_ns } of one.why?.causes || []) sums.set(`${cause}: ${key}`, (sums.get(`${cause}: ${key}`) || 0) + overrun_ns / 1e3);
    const [worst] = [...sums].sort((a, b) => b[1] - a[1]);
    return `${late.length} of ${frames.length} frames were late${worst ? `, most because of ${worst[0]} (${time(worst[1])} past the deadlines)` : ""}.`;
}

/** The layer with most frames by FrameTimeline, the app's if it has one. */
function mainLayer() {
    const most = (all) => all.reduce((most, one) => (one.start.length > (most?.start.length || 0) ? one : most), null);
    const layers = shown.filter((one) => one.actual && !isSystem(one.pid) && one.layer);
    return most(layers.filter((one) => isApp(one.pid))) || most(layers) || most(shown.filter((one) => one.actual));
}

/** The same sentence for a trace with frames only from FrameTimeline. */
function answerOfShown() {
    const { pid, jank, start } = mainLayer();
    const kinds = new Map();
    for (const kind of jank) if (kind !== "None") kinds.set(kind, (kinds.get(kind) || 0) + 1);
    const [worst] = [...kinds].sort((a, b) => b[1] - a[1]), janky = [...kinds.values()].reduce((sum, count) => sum + count, 0);
    const which = `${start.length} frames of ${nameOf(pid)} ${pid} that FrameTimeline displayed`;
    return worst ? `${janky} of ${which} were janky, most by ${worst[0]} (${worst[1]}).` : `All ${which} were in time.`;
}

/** Explains the colours; below the canvas. */
function legend() {
    const swatch = (colour, text) => { const box = element("i", null); box.style.background = colour; return element("span", null, box, text); };
    const made = [];
    if (frames.length) made.push(swatch(FRAME_COLOURS.inTime, "in time"), swatch(FRAME_COLOURS.late, "late"), swatch(FRAME_COLOURS.levels[0], "jank"), swatch(FRAME_COLOURS.levels[4], "frozen"), swatch(DEADLINE, "deadline"));
    if (states.size) for (const [state, name] of STATES.slice(0, UNKNOWN).entries()) made.push(swatch(STATE_COLOURS[state], name));
    if (shown.length) made.push(swatch(SHOWN_COLOURS.expected, "expected"), swatch(SHOWN_COLOURS.none, "actual, in time"), swatch(SHOWN_COLOURS.jank, "actual, janky"));
    if (frames.some((one) => one.why)) made.push(swatch("var(--accent)", "critical path of the selected frame"));
    if (calls) made.push(swatch(SAME, `calls of ${names[calls.name]}`), swatch(PARENT, "their parents"), swatch(CHILD, "their children"));
    if (matches) made.push(swatch(MATCH, "found"));
    if (gaps.length) made.push(swatch("repeating-linear-gradient(135deg,#c62828 0 2px,transparent 2px 4px)", "records are missing"));
    $("legend").replaceChildren(...made);
}
