// A late frame: its causes, its critical path as a picture and as a table.

const partTable = (parts) => table([
  causeColumn,
  ["what", (part) => part.key + (part.name === part.key ? "" : " (" + part.name + ")") + (part.owner ? ", held by " + part.owner : ""), true],
  ["thread", (part) => part.thread, true],
  ["time", (part) => ms(part.self_ns + part.carried_ns)], ...carriedColumn(parts), ["past the deadline", (part) => ms(part.overrun_ns)], ...statesColumn(parts),
], parts);

// Joined steps are of several threads; a step without a thread is time that no thread of the trace took.
const threadOf = (taken) => (taken.thread && taken.tid !== null ? taken.thread : taken.joined > 1 ? "several threads" : "no thread in the trace");
const partOf = (taken) => (taken.joined > 1 ? `${count(taken.joined)} short steps` : taken.what);
const STATES = { running: "#43a047", runnable: "#1e88e5", asleep: "#9e9e9e", uninterruptible: "#e65100", io: "#ad1457", unknown: "#b0bec5" };
const SOURCES = { timeline: "as FrameTimeline expects it", platform: "as FrameMetrics says", vsync: "an edge of VSYNC-app", cadence: "by the cadence of the frames before", begin: "where its first section begins" };
const statesText = (times) => Object.keys(STATES).filter((state) => times[state + "_ns"]).map((state) => `${state} ${ms(times[state + "_ns"])}`).join(", ");
// A column where a row has a state; without the scheduler's events all time is unknown.
const statesColumn = (rows) => (rows.some((row) => Object.keys(STATES).some((state) => state !== "unknown" && row.states[state + "_ns"])) ? [["states", (row) => statesText(row.states), true]] : []);

// Time of an earlier frame, which delayed these. Within the time of a frame, beside that of all frames.
const carriedNs = (row) => (row.earlier ? row.self_ns : row.carried_ns);
const carriedColumn = (rows) => (rows.some(carriedNs) ? [["carried over", (row) => ms(carriedNs(row))]] : []);

const statesInBrackets = (times) => (Object.keys(STATES).some((state) => state !== "unknown" && times[state + "_ns"]) ? ` (${statesText(times)})` : "");

// The critical path over an axis of time: a lane for each thread, coloured by state, and the deadline as a line.
const pathChart = (explained) => {
  const span = Math.max(explained.end_ns - explained.start_ns, 1);
  const part = (ns) => `${Math.min(100, (100 * ns) / span).toFixed(3)}%`;
  const at = (className, from, style, ...children) => {
    const element = make("span", { class: className }, ...children);
    element.style.insetInlineStart = part(from);
    Object.assign(element.style, style);
    return element;
  };
  let step = 10 ** Math.floor(Math.log10(span / 4));
  for (const factor of [2, 2.5, 2]) if (span / step > 6) step *= factor;
  const axis = make("div", { class: "axis" });
  for (let tick = 0; tick <= span * 0.97; tick += step) axis.append(at("tick", tick, {}, ms(tick)));
  const lanes = new Map();
  for (const taken of explained.path) {
    const key = `${taken.tid} ${taken.thread}`;
    if (!lanes.has(key)) lanes.set(key, make("div", { class: "lane" }, make("span", { class: "name" }, threadOf(taken))));
    const text = `${partOf(taken)}: ${taken.state === "unknown" ? "" : taken.state + " "}${ms(taken.to_ns - taken.from_ns)}` + (taken.woken_by ? `, woken by ${taken.woken_by}` : "");
    const bar = at("bar", taken.from_ns - explained.start_ns, { width: part(taken.to_ns - taken.from_ns), background: STATES[taken.state] });
    bar.title = text;
    lanes.get(key).append(bar);
  }
  const deadline = at("deadline", explained.deadline_ns - explained.start_ns, {}, make("span", {}, "deadline"));
  const used = new Set(explained.path.map((taken) => taken.state));
  const legend = make("div", { class: "legend" }, ...Object.keys(STATES).filter((state) => used.has(state)).map((state) => {
    const box = make("i", {});
    box.style.background = STATES[state];
    return make("span", {}, box, state);
  }));
  return make("div", { class: "path" }, make("div", { class: "lanes" }, axis, ...lanes.values(), deadline), legend);
};

// The display's result. By markers alone no vsync is known to be missed.
const WAYS = { in_time: "in time", app: "late by the app", system: "late by SurfaceFlinger or the graphics processor", display: "late by the display", stuffing: "behind earlier buffers", dropped: "never shown", undrawn: "without a buffer", unknown: "late for an unknown reason" };
const MARKER_WAYS = { in_time: "within it", app: "over one period" };
const EVIDENCE = { timeline: "FrameTimeline", platform: "the platform's verdicts (JankData, FrameMetrics)", buffers: "the buffers of the app's layers", markers: "the app's markers, against one period" };
const way = (evidence, outcome) => (evidence === "markers" && MARKER_WAYS[outcome]) || WAYS[outcome] || outcome;
const judged = (report) => Object.entries(report.judged).map(([evidence, of]) => `Judged by ${EVIDENCE[evidence] || evidence}: ` +
  Object.entries(of.outcomes).map(([outcome, frames]) => `${count(frames)} ${way(evidence, outcome)}`).join(", ") + ".").join(" ");

const explanation = (explained) => {
  const since = (ns) => ms(ns - explained.start_ns);
  const late = explained.ui_start_ns > explained.start_ns ? `; work began ${since(explained.ui_start_ns)} later` : "";
  return make("div", {},
    make("p", { class: "faint" }, `Due at its vsync (${SOURCES[explained.start_source] || explained.start_source}), deadline ${since(explained.deadline_ns)} later, complete ${ms(explained.overrun_ns)} after that${late}.`),
    make("h3", {}, "Causes"), table([
      causeColumn, ["what", (row) => row.key, true], ["time", (row) => ms(row.self_ns + row.carried_ns)],
      ...carriedColumn(explained.causes), ["past the deadline", (row) => ms(row.overrun_ns)], ...statesColumn(explained.causes),
    ], explained.causes),
    make("h3", {}, "Critical path"), pathChart(explained),
    make("details", {}, make("summary", {}, `${explained.path.length} steps`), table([
      ["from", (row) => since(row.from_ns)], ["took", (row) => ms(row.to_ns - row.from_ns)],
      ["thread", (row) => "· ".repeat(row.depth) + threadOf(row), true], ["state", (row) => (row.state === "unknown" ? "" : row.state) + (row.cpu === null ? "" : ", processor " + row.cpu), true],
      ["what", partOf, true], ["woken by", (row) => row.woken_by || "", true],
    ], explained.path)),
    explained.processors.length ? make("p", { class: "faint" }, "Processors: " + explained.processors.map((of) =>
      `${of.thread} ran ${ms(of.running_ns)} on ${of.core ? `a ${of.core} core, ` : ""}number ${of.cpu}` + (of.mean_khz ? ` at ${Math.round(of.mean_khz / 1000)} MHz` : "")).join("; ") + ".") : null);
};
