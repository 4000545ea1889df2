// The page of one capture.

const LEVELS = { normal: "#fb8c00", middle: "#f4511e", high: "#e53935", frozen: "#6a1b9a" };
const LEGEND = [["#7cb342", "in time"], ["#fdd835", "late"], ["#fb8c00", "jank"], ["#f4511e", "jank, from 9 missed frames"], ["#e53935", "from 24"], ["#6a1b9a", "from 42"]];
const colourOf = (frame) => LEVELS[frame.level] || (frame.janky ? "#fb8c00" : frame.slow ? "#fdd835" : "#7cb342");

const PERIODS = { said: "reported by the app", vsync: "from the vsyncs", spacing: "from the spacing of frames", assumed: "assumed" };

// The threads of a frame, by what made it. A frame of Flutter whose UI thread is not in the trace has its raster thread alone.
const threadNames = (worst) => ({
  flutter: worst.parts.some((part) => part.thread === "ui") ? ["UI", "raster"] : ["raster", "raster"],
  unity: ["game", "present"], gl: ["game", "present"], vulkan: ["game", "present"], react_native: ["JS", "render"],
  video: ["producer", "producer"], surface: ["producer", "producer"],
})[worst.pipeline] || ["main", "render"];

// A chart for each pipeline: frames of Flutter and of the views overlap.
function frameCharts(report) {
  if (!report.frames.length) return;
  const period = report.period.ns / 1e6, pipelines = [...new Set(report.frames.map((frame) => frame.pipeline))];
  page.append(make("h2", { id: "frames" }, "Frames"),
    make("p", { class: "faint" }, `How long each took, in ms; a frame may take ${period.toFixed(1)} ms (${PERIODS[report.period.source]}). Click on one for its cause.`),
    make("p", { id: "judged" }, judged(report)));
  for (const pipeline of pipelines) {
    const frames = report.frames.filter((frame) => frame.pipeline === pipeline && isWanted(frame));
    if (!frames.length) continue;
    const about = make("div", { class: "chosen", "aria-live": "polite" });
    if (pipelines.length > 1) page.append(make("h3", {}, pipeline));
    page.append(frameChart(frames, `How long each frame took (${pipeline})`, (frame) => about.replaceChildren(chosen(report, frame))), about);
  }
}
// The frame that was chosen in the chart.
function chosen(report, frame) {
  const startNs = report.begin_ns + frame.at_ns;
  const explained = report.explanations.find((one) => Math.abs(one.start_ns - startNs) < 1000 && Math.abs(one.end_ns - one.start_ns - frame.dur_ns) < 1000);
  return make("div", {},
    make("h3", {}, `Frame at ${ms(frame.at_ns)}: ${ms(frame.dur_ns)}, ${frame.slow ? `${ms(frame.dur_ns - frame.deadline_ns)} past its deadline` : WAYS[frame.outcome] || frame.outcome}${frame.screen ? `, screen ${frame.screen}` : ""}`),
    data.timeline ? make("p", {}, openButton(data.timeline, "Open the timeline at this frame", linkTo(startNs))) : null,
    explained ? make("p", {}, explained.sentence) : null,
    explained ? explanation(explained) : frame.slow ? make("p", {}, "Not explained: only the 300 frames with the largest overruns are explained.") : null);
}

// The end of the process, before its frames.
function death(of) {
  const facts = [of.cause.replaceAll("_", " "), of.noticed_by, `importance ${of.importance}`];
  for (const [kb, kind] of [[of.pss_kb, "proportional"], [of.rss_kb, "resident"]]) if (kb) facts.push(`${count(Math.floor(kb / 1024))} MB ${kind}`);
  if (of.still_ns) facts.push(`stood still for ${ms(of.still_ns)} of the last 5 s`);
  if (of.major_faults) facts.push(counted(of.major_faults, "major page fault"));
  const states = Object.entries(of.states).map(([state, threads]) => `${state} ${count(threads)}`).join(", ");
  const dump = of.dump === "none" ? "No dump: the system gave none, or it has no thread." : `Dump (${of.dump}${of.dump_cut ? ", cut off" : ""}): ${states}.`;
  return make("section", { id: "death" }, make("h2", {}, of.sentence), make("p", { class: "faint" }, facts.join(", ")),
    of.description ? make("p", {}, `The system: ${of.description}`) : null,
    of.owners.length ? table([["lock", (row) => row.lock, true], ["held by", (row) => row.thread, true], ["state", (row) => row.state, true], ["in", (row) => row.function, true]], of.owners) : null,
    make("p", {}, dump),
    of.stack.length ? make("details", {}, make("summary", {}, `Stack of ${of.thread}`), make("pre", {}, of.stack.join("\n"))) : null,
    of.before.length ? table([["the main thread in the last 5 s", (row) => row.name, true], causeColumn, ["time", (row) => ms(row.ns)], ["", (row) => (row.open ? "not ended" : ""), true]], of.before) : null);
}

function single() {
  const report = data.report;
  const { totals, stood_still: still } = report;
  const rows = [...report.causes, ...report.frames.filter((frame) => frame.screen !== null)];
  page.append(
    make("h1", {}, (report.app || `Process ${report.pid}`) + (report.ver === "unknown" ? "" : " " + report.ver)),
    make("p", { class: "faint" }, `pid ${report.pid}, ${ms(report.span_ns)}` +
      (report.window ? `, window ${report.window}: ${report.why || "no reason given"}` : "")),
    report.death ? death(report.death) : "", answerOf(report), filterForm(rows, null) || "",
    make("div", { class: "tiles" },
      tile("frames", count(totals.frames)), tile("slow", share(totals.slow, totals.frames)),
      tile("janky", share(totals.janky, totals.frames)), tile("frozen", count(totals.frozen)),
      tile("beyond the budget", ms(totals.jank_ns)), tile("p50", ms(totals.p50_ns)),
      tile("p90", ms(totals.p90_ns)), tile("p99", ms(totals.p99_ns)),
      report.startup_ns === null ? null : tile("start-up", ms(report.startup_ns))));
  if (data.without_timeline) page.append(make("p", { id: "without-timeline" }, `Without a timeline: ${data.without_timeline}`));
  if (data.trace) {
    const bytes = () => Uint8Array.from(atob(data.trace.base64), (char) => char.charCodeAt(0));
    const save = make("a", { download: data.trace.name, href: "#" }, "save the trace");
    save.addEventListener("click", () => { save.href = URL.createObjectURL(new Blob([bytes()])); });
    page.append(make("p", {}, data.timeline ? openButton(data.timeline, "Open the timeline", "") : null, " ", timelineButton(data.trace.name, async () => bytes()), " ", save));
  }
  if (data.profile) {
    const { kind, at, is_joined: isJoined } = data.profile;
    page.append(make("p", { id: "profile" }, `Android's own profile (${kind.replaceAll("_", " ")}), ${isJoined ? "one trace with the capture on this page" : "not opened here"}: `,
      make("a", { href: at, download: at }, "save the profile")));
  }
  frameCharts(report);
  if (report.pipelines.some((row) => row.pipeline !== "views")) {
    page.append(make("h2", {}, "Pipelines"), table([
      ["pipeline", (row) => row.pipeline, true], ["thread", (row) => row.threads.join(", "), true],
      ["frames", (row) => count(row.totals.frames)], ["slow", (row) => share(row.totals.slow, row.totals.frames)],
      ["janky", (row) => share(row.totals.janky, row.totals.frames)], ["frozen", (row) => count(row.totals.frozen)],
      ["p50", (row) => ms(row.totals.p50_ns)], ["p90", (row) => ms(row.totals.p90_ns)], ["p99", (row) => ms(row.totals.p99_ns)],
      ["beyond the budget", (row) => ms(row.totals.jank_ns)],
    ], report.pipelines));
  }
  const overrun = report.causes.reduce((sum, row) => sum + row.overrun_ns, 0);
  page.append(make("h2", { id: "causes" }, "Causes of the late frames"),
    report.causes.length ? table([
      causeColumn, ["what", (row) => row.key, true],
      ["frames", (row) => count(row.frames)], ["in time without it", (row) => count(row.saved)], ["with half of it", (row) => count(row.saved_halved)],
      ["off the first thread", (row) => count(row.saved_moved)], ["overrun", (row) => ms(row.overrun_ns)], ["time", (row) => ms(row.self_ns)],
      ...carriedColumn(report.causes), ...statesColumn(report.causes), actionColumn,
    ], report.causes, { id: "causes", noise: { share: (row) => row.overrun_ns / (overrun || 1), of: "the time past the deadlines" } })
      : make("p", {}, totals.frames ? "No frame was late." : "The trace has no frames of this process: no doFrame, no frame of Flutter, Unity or a swap of buffers. Another process may have them."));
  if (report.worst.length) {
    page.append(make("h2", { id: "worst" }, "Worst frames"));
    for (const [place, worst] of report.worst.entries()) {
      const [first, last] = threadNames(worst), render = worst.render_ns === null ? "" : `, ${last} thread ${ms(worst.render_ns)}`;
      page.append(make("details", { id: `worst-${place}` },
        make("summary", {}, `${worst.pipeline === "views" ? "" : `${worst.pipeline}: `}${ms(worst.dur_ns)} at ${ms(worst.at_ns)}, ${worst.sentence}; ${first} thread ${ms(worst.ui_ns)}${render}`),
        data.timeline ? make("p", {}, openButton(data.timeline, "Open the timeline at this frame", linkTo(worst.start_ns))) : null,
        worst.explanation === null ? partTable(worst.parts) : explanation(report.explanations[worst.explanation])));
    }
  }
  if (report.startups.length) {
    page.append(make("h2", {}, "Start-ups"));
    for (const start of report.startups) {
      const times = [start.ttid_ns === null ? "no frame" : `first frame after ${ms(start.ttid_ns)}`];
      if (start.ttfd_ns !== null) times.push(`fully drawn after ${ms(start.ttfd_ns)}`);
      if (start.from_platform) times.push("counted from the launch by ApplicationStartInfo");
      else if (!start.from_system) times.push("counted from the app's own first marker");
      page.append(make("details", { open: "" },
        make("summary", {}, `${start.kind}${start.activity ? " of " + start.activity : ""}: ${times.join(", ")}`),
        table([
          ["phase", (phase) => phase.phase.replaceAll("_", " "), true], ["time", (phase) => ms(phase.dur_ns)],
          ["what", (phase) => phase.causes.slice(0, 3).map((of) => `${of.cause}: ${of.key} ${ms(of.self_ns)}${statesInBrackets(of.states)}`).join(", "), true],
        ], start.phases)));
    }
  }
  if (report.interactions.length) {
    const rows = [...report.interactions].sort((a, b) => b.jank_ns - a.jank_ns);
    page.append(make("h2", {}, "Interactions"), table([
      ["interaction", (row) => row.name, true], ["took", (row) => ms(row.dur_ns)], ["frames", (row) => count(row.frames)],
      ["slow", (row) => count(row.late)], ["janky", (row) => count(row.janky)], ["beyond the budget", (row) => ms(row.jank_ns)],
      ["missed (system)", (row) => (row.missed === null ? "-" : count(row.missed))],
    ], rows, { id: "interactions" }));
  }
  if (report.long_slices.length) {
    page.append(make("h2", {}, "Long work on the main thread outside of frames"), table([
      ["slice", (row) => row.name, true], ["at", (row) => ms(row.at_ns)], ["took", (row) => ms(row.dur_ns)],
      ["", (row) => (row.kind === "input" ? "not responding: input not answered" : (row.anr ? "not responding" : "") + (row.kind === "open" ? " (had not ended)" : "")), true],
    ], report.long_slices, { id: "long" }));
  }
  const quality = [];
  if (report.overhead_percent !== null) quality.push(`Recording took ${fixed(report.overhead_percent, 2)} % of a CPU.`);
  if (report.over_budget) quality.push("Recording exceeded its CPU budget and was stopped.");
  if (report.lost_records) quality.push(`Dropped: ${counted(report.lost_records, "record")}.`);
  for (const [what, lost] of Object.entries(report.lost_events)) quality.push(`Lost by the recorder: ${count(lost)} ${what}.`);
  if (report.bad_lines) quality.push(`Not read: ${counted(report.bad_lines, "line")}.`);
  if (still.times) quality.push(`No thread of the app could run for ${ms(still.ns)} (times: ${count(still.times)}; suspended, frozen or stopped).`);
  if (still.frames) quality.push(`Left out: ${counted(still.frames, "frame")}, in which the app stood still.`);
  if (still.torn_frames) quality.push(`Left out: ${counted(still.torn_frames, "frame")}, some of whose records are missing.`);
  if (report.verdicts_left_out) quality.push(`Not read, or of no frame: ${counted(report.verdicts_left_out, "verdict")} of the platform.`);
  if (report.other_processes.length) quality.push("Other processes with frames: " + report.other_processes.slice(0, 10).map((other) => `${other.name} (pid ${other.pid}, ${counted(other.frames, "frame")})`).join(", ") + ".");
  if (quality.length) page.append(make("p", { class: "faint" }, quality.join(" ")));
  if (data.unknown.length && totals.frames) {
    page.append(make("h2", {}, "The trace does not show (in brackets: the events to switch on)"), make("ul", { id: "unknown" }, ...data.unknown.map((text) => make("li", {}, text))));
  }
}
