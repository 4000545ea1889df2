// The frames of the app: their row, the lines of the selected one, and what is told of it.

/** Green: in time; yellow: late; then jank, by how many vsyncs it missed. */
const FRAME_COLOURS = { inTime: "#66bb6a", late: "#fdd835", levels: ["#fb8c00", "#fb8c00", "#f4511e", "#e53935", "#b71c1c"] };
const DEADLINE = "#d50000";
const frameColour = (of) => of.janky ? FRAME_COLOURS.levels[of.level] : of.slow ? FRAME_COLOURS.late : FRAME_COLOURS.inTime;
const frameEnd = (of) => of.start + of.dur;

/** Frames overlap if one begins at its vsync while the one before it is still at work: the later one is drawn over it. */
function drawFrames(y) {
    drawBoxes(frames.length, (i) => frames[i].start, (i) => frameEnd(frames[i]), y, (i) => frameColour(frames[i]), (i) => time(frames[i].dur), null);
    // The deadline of each late frame, where there is room for it.
    context.fillStyle = DEADLINE;
    const pixel = (view.to - view.from) / (width - LEFT);
    for (let i = first(frames.length, (i) => frames[i].reach, view.from); i < frames.length && frames[i].start < view.to; i++) {
        const { start, dur, deadline, slow } = frames[i];
        if (slow && dur > 6 * pixel) context.fillRect(xOf(start + deadline) - 0.5, y - 1, 1.5, ROW + 1);
    }
    if (frame) {
        context.strokeStyle = colours.fg; context.lineWidth = 2;
        context.strokeRect(xOf(frame.start), y, Math.max(xOf(frameEnd(frame)) - xOf(frame.start), 2), ROW - 1);
    }
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

/** Under a thread's states: the part of the selected frame's critical path that is on that thread. */
function drawPath(tid, y) {
    if (!frame?.why) return;
    context.fillStyle = colours.accent;
    for (const step of frame.why.path) {
        if (step.tid !== tid) continue;
        const from = xOf(frame.start + step.from_ns / 1e3), to = xOf(frame.start + step.to_ns / 1e3);
        if (to >= LEFT && from <= width) context.fillRect(from, y + 3, Math.max(to - from, 1), 2);
    }
}

// ---- selecting ----

function selectFrame(of, isShown) {
    frame = of; selected = null; range = null;
    if (isShown) {
        const row = rows.find((row) => row.kind === "frames");
        if (row) view.top = Math.max(0, row.y - HEAD);
        show(of.start - of.dur, frameEnd(of) + of.dur);
    }
    try { history.replaceState(null, "", `#t=${secondsOf(of)}`); } catch (error) { /* Pages without an address have no link. */ }
    tell(); queue();
}
const secondsOf = (of) => `${of.start_s}.${String(of.start_ns).padStart(9, "0")}`;

/** The late frame before or behind the selected one. */
function stepFrame(by) {
    const late = frames.filter((of) => of.slow);
    if (!late.length) return;
    const at = frame ? frame.start : (view.from + view.to) / 2;
    const place = by > 0 ? late.findIndex((of) => of.start > at) : late.findLastIndex((of) => of.start < at);
    selectFrame(late[place < 0 ? (by > 0 ? 0 : late.length - 1) : place], true);
}

/**
 * `#t=SECONDS` selects the frame at a time of the trace's clock, or shows that time; `#cause=CAUSE|KEY` selects the frame
 * that lost most by a cause.
 */
function followLink() {
    const wanted = new URLSearchParams(location.hash.slice(1));
    const cause = wanted.get("cause");
    if (cause !== null) {
        const lost = (of) => (of.why?.causes || []).reduce((sum, one) => sum + (`${one.cause}|${one.key}` === cause ? one.self_ns : 0), 0);
        const worst = frames.reduce((most, of) => lost(of) > (most ? lost(most) : 0) ? of : most, null);
        if (worst) selectFrame(worst, true);
        return;
    }
    const found = /^(\d{1,12})(?:\.(\d{1,9}))?$/.exec(wanted.get("t") || "");
    if (!found) return;
    const at = (+found[1] - originSeconds) * 1e6 + +(found[2] || "").padEnd(9, "0") / 1e3 - origin;
    const of = frames.find((of) => Math.abs(of.start - at) < 0.5) || frames.findLast((of) => of.start <= at && at < frameEnd(of));
    if (of) selectFrame(of, true); else show(at - 10_000, at + 10_000);
}

// ---- telling ----

const START_SOURCES = { timeline: "where FrameTimeline expects it", vsync: "at an edge of VSYNC-app", cadence: "at the cadence of the frames before", begin: "where its first section begins" };
const cells = (...texts) => texts.map((text) => element("td", null, text instanceof Node ? text : String(text)));
const headed = (titles, rows) => wordy(
    element("table", null, element("thead", null, element("tr", null, ...titles.map((title) => element("th", title)))), element("tbody", null, ...rows)));
/** A table of words: its columns begin at the left, and it scrolls by itself where it is too wide. */
const wordy = (made) => { const around = element("div", null, made); around.className = "wordy"; return around; };
const link = (text, act) => { const button = element("button", text); button.addEventListener("click", act); return button; };

/** A bar of states, and the same in words; nothing if no state is known. */
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

/** How late a frame is: without evidence of the display no vsync is known to be missed. */
function missed({ why, dropped, slow }) {
    if (!why) return slow ? "late" : "";
    if (why.evidence === "markers") return "over one period";
    return `${dropped} vsync${dropped === 1 ? "" : "s"} missed${why.outcome === "app" ? "" : ` (${why.outcome})`}`;
}

/** The panel of the selected frame. */
function tellFrame() {
    const { why, start, dur, deadline } = frame;
    const end = start + dur;
    const over = dur - deadline;
    const made = [element("h2", `Frame at ${time(start)}: ${time(dur)}${over > 0 ? `, ${time(over)} past its deadline` : ", in time"}`)];
    const about = [frame.pipeline, `deadline ${time(deadline)} after its begin`, missed(frame)];
    if (why) {
        const source = START_SOURCES[why.start_source] || why.start_source;
        about.push(`begins ${source}`);
        if (why.ui_start_ns > 0) about.push(`work began ${time(why.ui_start_ns / 1e3)} later`);
    }
    made.push(element("p", about.filter((text) => text).join("; ")));
    if (!why) {
        if (frame.slow) made.push(element("p", "Not explained: only the frames with the largest overruns are."));
        return made;
    }
    const share = (ns) => `${(100 * ns / 1e3 / dur).toFixed(1)} %`;
    // Of an earlier late frame, which delayed this one.
    const carried = (text) => (why.causes.some((one) => one.carried_ns) ? [text] : []);
    made.push(element("h2", "Causes"), headed(["Cause", "Of", "Time", ...carried("Carried over"), "Share", "Past the deadline", "States"], why.causes.map((one) =>
        element("tr", null, ...cells(one.cause, one.key, time((one.self_ns + one.carried_ns) / 1e3), ...carried(time(one.carried_ns / 1e3)), share(one.self_ns + one.carried_ns), time(one.overrun_ns / 1e3), statesBar(one.states, one.self_ns / 1e3))))));
    if (why.states.some((of) => of.unknown_ns < Math.round(dur * 1e3)))
        made.push(element("h2", "Thread states"), headed(["Thread", "States"], why.states.map((of) => element("tr", null, ...cells(of.thread, statesBar(of, dur))))));
    made.push(element("h2", "Critical path"), headed(["From", "Took", "Thread", "State", "In", "Woken by"], why.path.map((step) => {
        const from = start + step.from_ns / 1e3, to = start + step.to_ns / 1e3;
        const at = link(`+${time(step.from_ns / 1e3)}`, () => {
            const thread = threads.get(step.tid);
            const row = thread && reveal(thread);
            if (row) view.top = row.y - height / 3;
            const more = Math.max((to - from) * 0.2, 1);
            show(from - more, to + more);
        });
        const thread = element("span", step.thread);
        thread.style.paddingInlineStart = `${Math.min(step.depth, 8) * 10}px`;
        return element("tr", null, ...cells(at, time(to - from), thread, step.state + (step.cpu === null ? "" : `, processor ${step.cpu}`), step.what, step.woken_by || ""));
    })));
    if (why.processors.length) made.push(element("p", `Processors: ${why.processors.map(processor).join("; ")}`));
    return made;
}

const processor = (of) => {
    const clock = of.mean_khz ? ` at ${(of.mean_khz / 1e3).toFixed(0)} MHz${of.max_khz ? ` of ${(of.max_khz / 1e3).toFixed(0)}` : ""}` : "";
    return `${of.thread} ran ${time(of.running_ns / 1e3)} on ${of.core ? `a ${of.core} core, ` : ""}number ${of.cpu}${clock}`;
};

/** The late frames with the largest overruns; each selects its frame. */
function lateFrames() {
    const late = frames.filter((of) => of.slow).sort((a, b) => b.dur - b.deadline - (a.dur - a.deadline)).slice(0, 20);
    if (!late.length) return [];
    return [element("h2", "Late frames"), headed(["At", "Took", "Past the deadline", "Most of it"], late.map((of) => {
        const most = of.why?.causes[0];
        return element("tr", null, ...cells(link(time(of.start), () => selectFrame(of, true)), time(of.dur), time(of.dur - of.deadline), most ? `${most.cause}: ${most.key}` : ""));
    }))];
}

/** Explains the colours; below the canvas. */
function legend() {
    const swatch = (colour, text) => { const box = element("i", null); box.style.background = colour; return element("span", null, box, text); };
    const made = [];
    if (frames.length) made.push(swatch(FRAME_COLOURS.inTime, "in time"), swatch(FRAME_COLOURS.late, "late"), swatch(FRAME_COLOURS.levels[0], "jank"), swatch(FRAME_COLOURS.levels[4], "frozen"), swatch(DEADLINE, "deadline"));
    if (states.size) for (const [state, name] of STATES.slice(0, UNKNOWN).entries()) made.push(swatch(STATE_COLOURS[state], name));
    if (frames.some((of) => of.why)) made.push(swatch("var(--accent)", "critical path of the selected frame"));
    $("legend").replaceChildren(...made);
}
