// Makes the report's page of its data. Everything becomes text nodes: nothing of a trace is ever markup.
"use strict";
(() => {
  let data = JSON.parse(document.getElementById("data").textContent);
  const page = document.getElementById("page");
  const charts = [];

  const make = (tag, attributes, ...children) => {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes || {})) element.setAttribute(name, value);
    element.append(...children.filter((child) => child !== null && child !== undefined));
    return element;
  };
  const count = (value) => Number(value).toLocaleString("en-US");
  // Rounded half up, as the text is: toFixed rounds what binary fractions make of a number.
  const decimal = (tenths) => `${Math.floor(tenths / 10)}.${tenths % 10}`;
  const ms = (ns) => (ns >= 1e10 ? decimal(Math.floor((ns + 5e7) / 1e8)) + " s" : decimal(Math.floor((ns + 5e4) / 1e5)) + " ms");
  const tenths = (value) => decimal(value) + " ms";
  const share = (part, of) => (of ? decimal(Math.floor((part * 1000 + Math.floor(of / 2)) / of)) + " %" : "-");
  const named = (text) => text || "(unknown)";

  // columns: [title, cell of a row, whether it is text]
  const table = (columns, rows) => {
    const kind = (title, text) => (text ? { class: title === "what" || title === "slice" ? "what" : "text" } : {});
    const head = columns.map(([title, , text]) => make("th", kind(title, text), title));
    const body = rows.map((row) => make("tr", {}, ...columns.map(([title, cell, text]) => {
      const value = cell(row);
      return make("td", kind(title, text), value instanceof Node ? value : String(value));
    })));
    return make("div", { class: "scroll" },
      make("table", {}, make("thead", {}, make("tr", {}, ...head)), make("tbody", {}, ...body)));
  };
  const tile = (title, value) => make("div", { class: "tile" }, make("span", { class: "faint" }, title), make("b", {}, value));
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  const chart = (label, config) => {
    const canvas = make("canvas", { role: "img", "aria-label": label });
    const holder = make("div", { class: "chart" }, canvas);
    charts.push(() => {
      Chart.defaults.color = colour("--faint");
      Chart.defaults.borderColor = colour("--line");
      config.options = { animation: false, responsive: true, maintainAspectRatio: false, ...config.options };
      return new Chart(canvas, config);
    });
    return holder;
  };

  // Perfetto's interface takes a trace from the page that has opened it: it never goes to a server.
  const openInPerfetto = (title, bytes) => {
    const origin = "https://ui.perfetto.dev";
    const other = window.open(origin);
    if (!other) { alert("The browser did not allow a new window."); return; }
    const timer = setInterval(() => other.postMessage("PING", origin), 100);
    const onMessage = (event) => {
      if (event.origin !== origin || event.data !== "PONG") return;
      clearInterval(timer);
      window.removeEventListener("message", onMessage);
      other.postMessage({ perfetto: { buffer: bytes.buffer, title } }, origin);
    };
    window.addEventListener("message", onMessage);
    setTimeout(() => clearInterval(timer), 60000);
  };
  const timelineButton = (title, fetchBytes) => {
    const button = make("button", { type: "button" }, "Open the timeline in Perfetto");
    button.addEventListener("click", async () => openInPerfetto(title, await fetchBytes()));
    return button;
  };

  const partTable = (parts) => table([
    ["cause", (part) => part.cause, true],
    ["what", (part) => part.key + (part.name === part.key ? "" : " (" + part.name + ")") + (part.owner ? ", held by " + part.owner : ""), true],
    ["thread", (part) => part.thread, true],
    ["time", (part) => ms(part.self_ns + part.carried_ns)], ...carriedColumn(parts), ["past the deadline", (part) => ms(part.overrun_ns)], ...statesColumn(parts),
  ], parts);

  // ---- a late frame ----

  const STATES = { running: "#43a047", runnable: "#1e88e5", asleep: "#9e9e9e", uninterruptible: "#e65100", io: "#ad1457", unknown: "#b0bec5" };
  const SOURCES = { timeline: "as FrameTimeline expects it", vsync: "an edge of VSYNC-app", cadence: "by the cadence of the frames before", begin: "where its first section begins" };
  const statesText = (times) => Object.keys(STATES).filter((state) => times[state + "_ns"]).map((state) => `${state} ${ms(times[state + "_ns"])}`).join(", ");
  // A column where a row has a state; without the scheduler's events all time is unknown.
  const statesColumn = (rows) => (rows.some((row) => Object.keys(STATES).some((state) => state !== "unknown" && row.states[state + "_ns"])) ? [["states", (row) => statesText(row.states), true]] : []);

  // Time of an earlier late frame, which delayed these. Within the time of a frame, beside that of all frames.
  const carriedColumn = (rows) => (rows.some((row) => row.carried_ns) ? [["carried over", (row) => ms(row.carried_ns)]] : []);

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
      if (!lanes.has(key)) lanes.set(key, make("div", { class: "lane" }, make("span", { class: "name" }, named(taken.thread))));
      const text = `${taken.what}: ${taken.state} ${ms(taken.to_ns - taken.from_ns)}` + (taken.woken_by ? `, woken by ${taken.woken_by}` : "");
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

  // What the display got. By markers alone no vsync is known to be missed.
  const WAYS = { in_time: "in time", app: "late by the app", system: "late by SurfaceFlinger or the graphics processor", display: "late by the display", stuffing: "behind earlier buffers", dropped: "never shown", undrawn: "without a buffer", unknown: "late for an unknown reason" };
  const MARKER_WAYS = { in_time: "within it", app: "over one period" };
  const EVIDENCE = { timeline: "FrameTimeline", buffers: "the buffers of the app's layers", markers: "the app's markers, against one period" };
  const way = (evidence, outcome) => (evidence === "markers" && MARKER_WAYS[outcome]) || WAYS[outcome] || outcome;
  const judged = (report) => Object.entries(report.judged).map(([evidence, of]) => `Judged by ${EVIDENCE[evidence] || evidence}: ` +
    Object.entries(of.outcomes).map(([outcome, frames]) => `${count(frames)} ${way(evidence, outcome)}`).join(", ") + ".").join(" ");
  const lateness = (worst) => (worst.evidence === "markers" ? `${ms(worst.overrun_ns)} over one period`
    : `${worst.dropped} vsync${worst.dropped === 1 ? "" : "s"} missed${worst.outcome === "app" ? "" : ", " + way(worst.evidence, worst.outcome)}`);

  const explanation = (explained) => {
    const since = (ns) => ms(ns - explained.start_ns);
    const late = explained.ui_start_ns > explained.start_ns ? `; work began ${since(explained.ui_start_ns)} later` : "";
    return make("div", {},
      make("p", { class: "faint" }, `Due at its vsync (${SOURCES[explained.start_source] || explained.start_source}), deadline ${since(explained.deadline_ns)} later, complete ${ms(explained.overrun_ns)} after that${late}.`),
      make("h3", {}, "Causes"), table([
        ["cause", (row) => row.cause, true], ["what", (row) => row.key, true], ["time", (row) => ms(row.self_ns + row.carried_ns)],
        ...carriedColumn(explained.causes), ["past the deadline", (row) => ms(row.overrun_ns)], ...statesColumn(explained.causes),
      ], explained.causes),
      make("h3", {}, "Critical path"), pathChart(explained),
      make("details", {}, make("summary", {}, `${explained.path.length} steps`), table([
        ["from", (row) => since(row.from_ns)], ["took", (row) => ms(row.to_ns - row.from_ns)],
        ["thread", (row) => "· ".repeat(row.depth) + named(row.thread), true], ["state", (row) => row.state + (row.cpu === null ? "" : ", processor " + row.cpu), true],
        ["what", (row) => row.what, true], ["woken by", (row) => row.woken_by || "", true],
      ], explained.path)),
      explained.processors.length ? make("p", { class: "faint" }, "Processors: " + explained.processors.map((of) =>
        `${of.thread} ran ${ms(of.running_ns)} on ${of.core ? `a ${of.core} core, ` : ""}number ${of.cpu}` + (of.mean_khz ? ` at ${Math.round(of.mean_khz / 1000)} MHz` : "")).join("; ") + ".") : null);
  };

  // The timeline of a capture: a page of the collector, or one inside this page.
  const openTimeline = async (timeline, hash) => {
    if (timeline.at) { window.open(timeline.at + hash); return; }
    // The window opens at once: browsers refuse one that opens after a wait.
    const other = window.open("about:blank");
    if (!other) { alert("The browser did not allow a new window."); return; }
    other.location = (await unpacked(timeline.gzip_base64)) + hash;
  };
  const pages = new Map();
  const unpacked = async (gzip) => {
    if (!pages.has(gzip)) {
      const bytes = Uint8Array.from(atob(gzip), (char) => char.charCodeAt(0));
      const text = await new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).blob();
      pages.set(gzip, URL.createObjectURL(new Blob([text], { type: "text/html" })));
    }
    return pages.get(gzip);
  };
  const openButton = (timeline, text, hash) => {
    const button = make("button", { type: "button" }, text);
    button.addEventListener("click", () => openTimeline(timeline, hash));
    return button;
  };
  const linkTo = (ns) => `#t=${Math.floor(ns / 1e9)}.${String(ns % 1e9).padStart(9, "0")}`;

  const LEVELS = { normal: "#fb8c00", middle: "#f4511e", high: "#e53935", frozen: "#6a1b9a" };
  const colourOf = (frame) => LEVELS[frame.level] || (frame.janky ? "#fb8c00" : frame.slow ? "#fdd835" : "#7cb342");

  function single() {
    const report = data.report;
    const totals = report.totals;
    page.append(
      make("h1", {}, report.app + (report.ver === "unknown" ? "" : " " + report.ver)),
      make("p", { class: "faint" }, `pid ${report.pid}, ${ms(report.span_ns)}` +
        (report.window ? `, window ${report.window}: ${report.why || "no reason given"}` : "")),
      make("div", { class: "tiles" },
        tile("frames", count(totals.frames)), tile("slow", share(totals.slow, totals.frames)),
        tile("janky", share(totals.janky, totals.frames)), tile("frozen", count(totals.frozen)),
        tile("beyond the budget", ms(totals.jank_ns)), tile("p50", ms(totals.p50_ns)),
        tile("p90", ms(totals.p90_ns)), tile("p99", ms(totals.p99_ns)),
        report.startup_ns === null ? null : tile("start-up", ms(report.startup_ns))));
    if (data.trace) {
      const bytes = () => Uint8Array.from(atob(data.trace.base64), (char) => char.charCodeAt(0));
      const save = make("a", { download: data.trace.name, href: "#" }, "save the trace");
      save.addEventListener("click", () => { save.href = URL.createObjectURL(new Blob([bytes()])); });
      page.append(make("p", {}, data.timeline ? openButton(data.timeline, "Open the timeline", "") : null, " ", timelineButton(data.trace.name, async () => bytes()), " ", save));
    }
    if (report.frames.length) {
      const period = report.period.ns / 1e6;
      page.append(make("h2", {}, "Frames"),
        make("p", { class: "faint" }, `How long each took, in ms; a frame may take ${period.toFixed(1)} ms (${report.period.source}).`),
        make("p", { id: "judged" }, judged(report)),
        chart("how long each frame took", {
          type: "bar",
          data: {
            labels: report.frames.map((frame) => (frame.at_ns / 1e6).toFixed(0) + " ms"),
            datasets: [{ data: report.frames.map((frame) => frame.dur_ns / 1e6), backgroundColor: report.frames.map(colourOf), barPercentage: 1, categoryPercentage: 1, minBarLength: 1 }],
          },
          options: { plugins: { legend: { display: false } }, scales: { y: { title: { display: true, text: "ms" } }, x: { ticks: { maxTicksLimit: 12 } } } },
        }));
    }
    const janks = Object.entries(report.timeline).sort((a, b) => b[1] - a[1]);
    if (janks.length) page.append(make("h2", {}, "FrameTimeline"), table([["type of jank", (row) => row[0], true], ["frames", (row) => count(row[1])]], janks));
    if (report.pipelines.some((row) => row.pipeline !== "views")) {
      page.append(make("h2", {}, "Pipelines"), table([
        ["pipeline", (row) => row.pipeline, true], ["thread", (row) => row.threads.join(", "), true],
        ["frames", (row) => count(row.totals.frames)], ["slow", (row) => share(row.totals.slow, row.totals.frames)],
        ["janky", (row) => share(row.totals.janky, row.totals.frames)], ["frozen", (row) => count(row.totals.frozen)],
        ["p50", (row) => ms(row.totals.p50_ns)], ["p90", (row) => ms(row.totals.p90_ns)], ["p99", (row) => ms(row.totals.p99_ns)],
        ["beyond the budget", (row) => ms(row.totals.jank_ns)],
      ], report.pipelines));
    }
    if (report.composition) {
      const of = report.composition;
      page.append(make("p", {}, `Jetpack Compose: ${ms(of.in_frames_ns)} in ${count(of.frames)} frames, ${count(of.late)} of them late; ${ms(of.outside_ns)} outside of frames.`));
    }
    page.append(make("h2", {}, "Causes of the late frames"),
      report.causes.length ? table([
        ["cause", (row) => row.cause, true], ["what", (row) => row.key, true],
        ["frames", (row) => count(row.frames)], ["in time without it", (row) => count(row.saved)], ["with half of it", (row) => count(row.saved_halved)],
        ["off the first thread", (row) => count(row.saved_moved)], ["overrun", (row) => ms(row.overrun_ns)], ["time", (row) => ms(row.self_ns)],
        ...carriedColumn(report.causes), ...statesColumn(report.causes),
      ], report.causes.slice(0, 20)) : make("p", {}, "No late frames."));
    if (report.worst.length) {
      page.append(make("h2", {}, "Worst frames"));
      for (const worst of report.worst) {
        const render = worst.render_ns === null ? "" : `, render thread ${ms(worst.render_ns)}`;
        page.append(make("details", {},
          make("summary", {}, `${ms(worst.dur_ns)} at ${ms(worst.at_ns)}: ${lateness(worst)}, main thread ${ms(worst.ui_ns)}${render}` +
            (worst.parts.length ? `; most of it ${worst.parts[0].cause}: ${worst.parts[0].key}` : "")),
          data.timeline ? make("p", {}, openButton(data.timeline, "Open the timeline at this frame", linkTo(worst.start_ns))) : null,
          worst.explanation === null ? partTable(worst.parts) : explanation(report.explanations[worst.explanation])));
      }
    }
    if (report.locks.length) {
      page.append(make("h2", {}, "Locks"), table([
        ["waited in", (row) => row.blocked_method, true], ["held by", (row) => row.owner, true],
        ["in", (row) => row.owner_method, true], ["time", (row) => ms(row.self_ns)],
      ], report.locks));
    }
    if (report.startups.length) {
      page.append(make("h2", {}, "Start-ups"));
      for (const start of report.startups) {
        const times = [start.ttid_ns === null ? "no frame" : `first frame after ${ms(start.ttid_ns)}`];
        if (start.ttfd_ns !== null) times.push(`fully drawn after ${ms(start.ttfd_ns)}`);
        if (!start.from_system) times.push("counted from the app's own first marker");
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
        ["missed (system)", (row) => (row.missed === null ? "-" : count(row.missed))], ["", (row) => (row.cancelled ? "cancelled" : ""), true],
      ], rows.slice(0, 50)));
    }
    if (report.long_slices.length) {
      page.append(make("h2", {}, "Long work on the main thread outside of frames"), table([
        ["slice", (row) => row.name, true], ["at", (row) => ms(row.at_ns)], ["took", (row) => ms(row.dur_ns)],
        ["", (row) => (row.kind === "input" ? "not responding: input not answered" : (row.anr ? "not responding" : "") + (row.kind === "open" ? " (had not ended)" : "")), true],
      ], report.long_slices));
    }
    const quality = [];
    if (report.overhead_percent !== null) quality.push(`Recording took ${report.overhead_percent.toFixed(2)} % of a CPU.`);
    if (report.over_budget) quality.push("Recording exceeded its CPU budget and was stopped.");
    if (report.lost_records) quality.push(`${count(report.lost_records)} records were dropped.`);
    for (const [what, lost] of Object.entries(report.lost_events)) quality.push(`Lost by the recorder: ${count(lost)} ${what}.`);
    if (report.bad_lines) quality.push(`${count(report.bad_lines)} lines could not be read.`);
    if (report.other_processes.length) quality.push("Other processes with frames: " + report.other_processes.slice(0, 10).map((other) => `${other.name} (pid ${other.pid}, ${other.frames} frames)`).join(", ") + ".");
    if (quality.length) page.append(make("p", { class: "faint" }, quality.join(" ")));
    if (data.unknown.length && totals.frames) {
      page.append(make("h2", {}, "The trace does not show (in brackets: the events to switch on)"), make("ul", { id: "unknown" }, ...data.unknown.map((text) => make("li", {}, text))));
    }
  }

  const smoothColumns = [
    ["devices", (row) => count(row.devices)], ["frames", (row) => count(row.frames)],
    ["slow", (row) => share(row.slow, row.frames)], ["janky", (row) => share(row.janky, row.frames)],
    ["frozen", (row) => share(row.frozen, row.frames)],
    ["p50", (row) => tenths(row.p50_100us)], ["p90", (row) => tenths(row.p90_100us)], ["p99", (row) => tenths(row.p99_100us)],
    ["jank ms in 1000", (row) => row.jank_ms_in_1000.toFixed(1)],
  ];

  const AT_CAUSE = "the frame of this capture that lost most by this cause";
  const examples = (cause) => {
    const holder = make("span", {});
    cause.examples.forEach((example, place) => {
      if (place) holder.append(" ");
      const text = example.capture_id.slice(-8) + " (" + ms(example.self_ns) + ")";
      const hash = "#cause=" + encodeURIComponent(`${cause.cause}|${cause.key}`);
      if (data.live_s) {
        const at = "captures/" + encodeURIComponent(example.capture_id);
        holder.append(make("a", { href: at }, text), " ", make("a", { href: at + "/timeline" + hash, title: AT_CAUSE }, "timeline"));
        return;
      }
      if (data.captures_at === null) holder.append(text);
      else holder.append(make("a", { href: data.captures_at + example.raw_key.split("/").map(encodeURIComponent).join("/"), download: "" }, text));
      const gzip = data.timelines[example.capture_id];
      if (gzip) {
        const button = openButton({ gzip_base64: gzip }, "timeline", hash);
        button.title = AT_CAUSE;
        holder.append(" ", button);
      }
    });
    return holder;
  };
  const causeColumns = (more) => [
    ...more, ["cause", (row) => row.cause, true], ["what", (row) => row.key, true],
    ["devices", (row) => count(row.devices)], ["frames", (row) => count(row.frames)],
    ["overrun", (row) => ms(row.overrun_ns)], ["time", (row) => ms(row.self_ns)], ["p50", (row) => ms(row.p50_ns)], ["p90", (row) => ms(row.p90_ns)], ["p99", (row) => ms(row.p99_ns)],
  ];
  const VERDICTS = { worse: "worse", better: "better", same: "no significant difference", too_few: "too few devices", not_compared: "not compared" };

  function app(report) {
    page.append(make("h1", {}, report.app + (data.report.screen ? `, screen ${data.report.screen}` : "")));
    if (report.unfinished) {
      page.append(make("p", {}, `No report: ${report.unfinished}.`));
      return;
    }
    const rates = report.versions.map((version) => version.smoothness).filter((found) => found);
    const sum = (rows, field) => rows.reduce((total, row) => total + row[field], 0);
    page.append(make("div", { class: "tiles" },
      tile("captures", count(sum(report.versions, "captures"))), tile("of them in rates", count(sum(report.versions, "counted"))),
      tile("frames", count(sum(rates, "frames"))), tile("janky", share(sum(rates, "janky"), sum(rates, "frames"))),
      tile("frozen", count(sum(rates, "frozen"))), tile("ANRs", count(sum(report.versions, "anrs")))));
    if (!rates.length) page.append(make("p", { class: "faint" }, "No rates: no capture was taken by schedule. Configure a window that opens by \"schedule\"."));

    page.append(make("h2", {}, "Causes of late frames"),
      make("p", { class: "faint" }, "Ranked by devices × overrun: the cause's share of the time past the deadlines. A cause's captures show it best."));
    if (report.causes.length) {
      const top = report.causes.slice(0, 10);
      const short = (text) => (text.length > 34 ? text.slice(0, 16) + "…" + text.slice(-17) : text);
      page.append(chart("causes by devices times overrun", {
        type: "bar",
        data: { labels: top.map((cause) => short(cause.cause + ": " + cause.key)), datasets: [{ data: top.map((cause) => cause.score / 1000), backgroundColor: colour("--accent") }] },
        options: { indexAxis: "y", plugins: { legend: { display: false } }, scales: { x: { title: { display: true, text: "devices × seconds" } } } },
      }), table([...causeColumns([]), ["best example", examples, true]], report.causes.slice(0, 20)));
    } else page.append(make("p", {}, "No late frames."));

    const { fixes } = report;
    if (fixes.rows.length) {
      page.append(make("h2", {}, "Gain of a fix"),
        make("p", { class: "faint" }, `Late frames that would be in time without the cause. One fix alone saves ${share(fixes.saved_by_any, fixes.late)} of the ${count(fixes.late)} late frames that rates count; “once”: each frame at the fix that gains most. ±: 95 %, over devices. ${share(fixes.late_stateless, fixes.late)} of the late frames have no scheduler states: their waits are taken to last as long as they did.`),
        table([
          ["screen", (fix) => (fix.screen === null ? "(all)" : fix.screen || "(unknown)"), true], ["cause", (fix) => fix.cause, true], ["what", (fix) => fix.key, true],
          ["frames", (fix) => count(fix.saved)], ["removed", (fix) => `${fix.percent.toFixed(1)} % ± ${((fix.percent_from_to[1] - fix.percent_from_to[0]) / 2).toFixed(1)}`],
          ["halved", (fix) => share(fix.saved_halved, fix.late)], ["off the first thread", (fix) => share(fix.saved_moved, fix.late)], ["once", (fix) => share(fix.saved_most, fix.late)],
          ["devices", (fix) => `${count(fix.devices)} of ${count(fix.all_devices)}`],
        ], fixes.rows));
    }

    for (const { kind, limit, days } of report.limits_exceeded) {
      page.append(make("p", { class: "faint" }, `On ${count(days)} day${days === 1 ? "" : "s"} there were more than ${count(limit)} ${kind}: those that came later count as (other).`));
    }
    page.append(make("h2", {}, "Versions"), table([
      ["version", (row) => row.ver, true], ["devices", (row) => count(row.devices)], ["captures", (row) => count(row.captures)], ["in rates", (row) => count(row.counted)],
      ...smoothColumns.slice(1).map(([title, cell]) => [title, (row) => (row.smoothness ? cell(row.smoothness) : "-")]),
      ["start p50", (row) => (row.startup ? ms(row.startup.p50_ns) : "-")], ["ANRs", (row) => count(row.anrs)],
      ["over budget", (row) => count(row.over_budget)], ["lost records", (row) => count(row.lost_records)],
    ], report.versions));
    const days = [...new Set(report.days.map((row) => row.dt))].sort();
    if (days.length > 1) {
      const colours = ["#1e88e5", "#fb8c00", "#43a047", "#8e24aa", "#e53935", "#00897b"];
      const versions = [...new Set(report.days.map((row) => row.ver))];
      page.append(make("h2", {}, "Jank by day"), make("p", { class: "faint" }, "ms over the period in a thousand frames."), chart("jank by day", {
        type: "line",
        data: { labels: days, datasets: versions.map((ver, place) => ({ label: ver, borderColor: colours[place % colours.length], backgroundColor: colours[place % colours.length], data: days.map((dt) => { const row = report.days.find((of) => of.dt === dt && of.ver === ver); return row ? row.jank_ms_in_1000 : null; }), spanGaps: true })) },
      }));
    }
    if (report.comparison) compared(report.comparison);
    if (report.pipelines.some((row) => row.pipeline !== "views")) {
      page.append(make("h2", {}, "Pipelines"), table([["pipeline", (row) => row.pipeline, true], ["version", (row) => row.ver, true], ...smoothColumns], report.pipelines));
    }
    if (report.screens.some((row) => row.screen)) {
      page.append(make("h2", {}, "Screens"), table([["screen", (row) => named(row.screen), true], ["version", (row) => row.ver, true], ...smoothColumns], report.screens),
        make("h2", {}, "Causes by screen"), table(causeColumns([["screen", (row) => named(row.screen), true]]), report.causes_by_screen));
    }
    if (report.versions.length > 1) page.append(make("h2", {}, "Causes by version"), table(causeColumns([["version", (row) => row.ver, true]]), report.causes_by_version));
    if (report.losses.length) {
      page.append(make("h2", {}, "Captures that devices lost, or that retention deleted"), table([
        ["reason", (row) => row.reason, true], ["window", (row) => row.window, true], ["devices", (row) => count(row.devices)],
        ["captures", (row) => count(row.captures)], ["may have arrived", (row) => count(row.unconfirmed)],
      ], report.losses));
    }
  }

  // The mix of devices and screens, and the devices that a comparison is made of.
  function compared(comparison) {
    const { from, to, devices, mix, rows, screens } = comparison;
    const signed = (pair) => (pair ? (pair[1] >= pair[0] ? "+" : "") + (pair[1] - pair[0]).toFixed(1) : "-");
    const both = ([a, b]) => `${count(a)} of ${from} and ${count(b)} of ${to}`;
    const isAny = ([a, b]) => a + b > 0;
    page.append(make("h2", {}, `From ${from} to ${to}`));
    if (rows.every((row) => row.verdict === "not_compared")) {
      page.append(make("p", {}, "No difference can be shown: no device has a counterpart under the other version."));
    } else {
      page.append(table([
        ["", (row) => row.cause || "all jank", true], ["what", (row) => row.key, true],
        [from, (row) => row.ms_in_1000[0].toFixed(1)], [to, (row) => row.ms_in_1000[1].toFixed(1)],
        ["paired", (row) => signed(row.paired_ms)], ["others", (row) => signed(row.stratified_ms)], ["p", (row) => row.p.toFixed(4)],
        ["", (row) => make("span", { class: row.verdict }, VERDICTS[row.verdict]), true],
      ], rows.slice(0, 30)));
    }
    const notes = [`Devices: ${both(devices.sent)}.`];
    if (devices.paired) notes.push(`Paired: ${count(devices.paired)} sent both versions, each is compared with itself.`);
    if (isAny(devices.stratified)) notes.push(`Others: ${both(devices.stratified)} are compared with devices like them (speed, API level, refresh rate; by screen).`);
    if (comparison.bound_factor) notes.push(`No device has a counterpart, because their models are unknown. A difference counts as far as no shift of the mix up to a factor of ${comparison.bound_factor} explains it; the means are as seen.`);
    else for (const [counts, why] of [
      [devices.unknown_model, "their model is unknown"], [devices.unseen_model, "their model is not seen under the earlier version"],
      [devices.without_likeness, "the other version has too few like them"],
    ]) {
      if (isAny(counts)) notes.push(`Not compared, ${share(counts[0] + counts[1], devices.sent[0] + devices.sent[1])}: ${both(counts)}: ${why}.`);
    }
    if (isAny(devices.test_devices)) notes.push(`Left out: ${both(devices.test_devices)}: emulators and debuggable builds.`);
    if (comparison.screens_not_compared.length) notes.push(`Screens that one version alone has: ${comparison.screens_not_compared.map(named).join(", ")}.`);
    page.append(make("p", {}, notes.join(" ")));
    if (comparison.is_mix_different) {
      const range = ([a, b]) => `${a.toFixed(1)} to ${b.toFixed(1)} ms`;
      const shareOf = (side) => (kind) => share(kind.devices[side], devices.sent[side]);
      page.append(make("p", { class: "faint" }, "The mix differs: shares of devices by the time of a quick frame, and of frames by screen."), table([
        ["models", (kind) => (kind.model_ms ? range(kind.model_ms) : "unknown or new"), true], ["these devices", (kind) => (kind.device_ms ? range(kind.device_ms) : "-"), true],
        ["API", (kind) => kind.api || "-"], ["Hz", (kind) => kind.hz || "-"], [from, shareOf(0)], [to, shareOf(1)],
        ["", (kind) => (kind.is_compared ? "" : "only paired ones are compared"), true],
      ], mix.slice(0, 20)), table([
        ["screen", (row) => named(row.screen), true], [from, (row) => (row.shares[0] * 100).toFixed(1) + " %"], [to, (row) => (row.shares[1] * 100).toFixed(1) + " %"],
      ], screens.slice(0, 20)));
    }
    page.append(make("p", { class: "faint" }, `ms in a thousand frames, mean over devices, on the same mix of devices and screens. A device has one vote; values above the ${comparison.quantile * 100} % quantile count as that. A cause counts in frames of which it took a tenth or more. p is adjusted by Holm for all causes; "worse" and "better" mean p below ${comparison.level * 100} %, at least ${comparison.least_change * 100} % of difference and at least ${comparison.least_devices} devices of each.`));
  }

  const up = (percent) => (Math.ceil(percent * 10) / 10).toFixed(1);
  const accuracy = (of) => (of.frames_percent ? ` Counts and sums are exact. p50, p90 and p99 of frames are within ${up(of.frames_percent)} %, those of causes and start-ups within ${up(of.times_percent)} %.` : "");

  function draw() {
    page.replaceChildren();
    charts.splice(0);
    if (data.kind === "single") single();
    else {
      if (!data.report.apps.length) page.append(make("h1", {}, "tracetee"), make("p", {}, "No captures yet."));
      data.report.apps.forEach(app);
      page.append(make("p", { class: "faint" }, "Measured by the app's own markers, and by the system's events where captures have them. Rates count only captures that were taken by schedule; causes count all captures." + accuracy(data.report.quantile_errors)));
    }
    for (const start of charts) start();
    document.title = data.kind === "single" ? `${data.report.app}: frames` : "tracetee: jank";
    document.documentElement.dataset.drawn = "yes";
  }
  draw();
  if (data.live_s) {
    let known = JSON.stringify(data.report);
    setInterval(async () => {
      try {
        const answer = await fetch("report.json" + location.search);
        const report = await answer.json();
        const text = JSON.stringify(report);
        if (answer.ok && text !== known) { known = text; data = { ...data, report }; draw(); }
      } catch (error) { /* the collector is away: what is shown stays */ }
    }, data.live_s * 1000);
  }
})();
