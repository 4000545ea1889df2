// The page of a fleet: an answer first, then the causes, versions, screens.

const smoothColumns = [
  ["devices", (row) => count(row.devices)], ["frames", (row) => count(row.frames)],
  ["slow", (row) => share(row.slow, row.frames)], ["janky", (row) => share(row.janky, row.frames)],
  ["frozen", (row) => share(row.frozen, row.frames)],
  ["p50", (row) => tenths(row.p50_100us)], ["p90", (row) => tenths(row.p90_100us)], ["p99", (row) => tenths(row.p99_100us)],
  ["jank ms in 1000", (row) => fixed(row.jank_ms_in_1000)],
];

const AT_CAUSE = "the frame of this capture that lost most by this cause";
// A capture's timeline: the collector's page, or one in this page; null if there is none.
const pageOfExample = (example) => {
  if (data.live_s) return { at: `captures/${encodeURIComponent(example.capture_id)}/timeline` };
  const gzip = data.timelines[example.capture_id];
  return gzip ? { gzip_base64: gzip } : null;
};
const timelineOf = (cause, example, text) => {
  const timeline = pageOfExample(example), hash = "#cause=" + encodeURIComponent(`${cause.cause}|${cause.key}`);
  if (!timeline) return null;
  if (timeline.at) return make("a", { href: timeline.at + hash, title: AT_CAUSE }, text);
  return link(text, () => openTimeline(timeline, hash), AT_CAUSE);
};
const examples = (cause) => {
  const holder = make("div", { class: "examples" });
  for (const example of cause.examples) {
    const text = example.capture_id.slice(-8) + " (" + ms(example.self_ns) + ")";
    const capture = data.live_s ? make("a", { href: "captures/" + encodeURIComponent(example.capture_id) }, text)
      : data.captures_at === null ? text
      : make("a", { href: data.captures_at + example.raw_key.split("/").map(encodeURIComponent).join("/"), download: "" }, text);
    const timeline = timelineOf(cause, example, "timeline");
    holder.append(make("div", {}, capture, ...(timeline ? [" ", timeline] : [])));
  }
  return holder;
};
const causeColumns = (more) => [
  ...more, causeColumn, ["what", (row) => row.key, true],
  ["devices", (row) => count(row.devices)], ["frames", (row) => count(row.frames)],
  ["overrun", (row) => ms(row.overrun_ns)], ["time", (row) => ms(row.self_ns)], ["p50", (row) => ms(row.p50_ns)], ["p90", (row) => ms(row.p90_ns)], ["p99", (row) => ms(row.p99_ns)],
];
const worstOf = ({ capture_id: id }) => (data.live_s ? make("a", { href: "captures/" + encodeURIComponent(id) }, id.slice(-8)) : id);
const deathColumns = (before, after) => [
  ...before, ["reason", (row) => row.reason, true], causeColumn, ...after,
  ["ends", (row) => count(row.deaths)], ["seen by a user", (row) => count(row.by_user)],
  ["in the background", (row) => count(row.deaths - row.by_user - row.frozen)], ["frozen", (row) => count(row.frozen)],
  ["devices", (row) => count(row.devices)], ["versions", (row) => count(row.versions)],
  ["longest", (row) => (row.waited_ns ? ms(row.waited_ns) : "-")], ["worst capture", worstOf, true],
];
// The place of a breakdown on the page.
const devicesId = (report, { screen, cause, key }) => `devices-${[report.app, screen ?? "", cause ?? "", key].join("|")}`;
const VERDICTS = { worse: "worse", better: "better", same: "same", unknown: "cannot know" };

function app(report) {
  page.append(make("h1", {}, report.app + (data.report.screen ? `, screen ${data.report.screen}` : "")));
  if (report.unfinished) {
    page.append(make("p", {}, `No report: ${report.unfinished}.`));
    return;
  }
  const rates = report.versions.filter(isWanted).map((version) => version.smoothness).filter((found) => found);
  page.append(answerOfFleet(report, rates));
  page.append(make("div", { class: "tiles" },
    tile("captures", count(sumOf(report.versions, "captures"))), tile("of them in rates", count(sumOf(report.versions, "counted"))),
    tile("frames", count(sumOf(rates, "frames"))), tile("janky", share(sumOf(rates, "janky"), sumOf(rates, "frames"))),
    tile("frozen", count(sumOf(rates, "frozen"))), tile("ANRs", count(sumOf(report.versions, "anrs")))));
  if (!rates.length) page.append(make("p", { class: "faint" }, "No rates: no capture was taken by schedule. Configure a window that opens by \"schedule\"."));

  const overrun = sumOf(report.causes, "overrun_ns"), score = report.causes[0]?.score || 1;
  const quiet = { share: (row) => row.overrun_ns / (overrun || 1), of: "the time past the deadlines" };
  page.append(make("h2", { id: `causes-${report.app}` }, "Causes of late frames"),
    make("p", { class: "faint" }, "Ranked by devices × overrun: the cause's share of the time past the deadlines. A cause's captures show it best."));
  if (report.causes.length) {
    page.append(table([...causeColumns([]), ["devices × s", (cause) => barCell(cause.score / score, (cause.score / 1000).toFixed(cause.score < 10000 ? 1 : 0))], ["best example", examples, true], actionColumn], report.causes, { id: `causes.${report.app}`, noise: quiet }));
  } else page.append(make("p", {}, report.versions.length ? "No frame was late." : "No capture has frames."));

  const { breakdowns } = report;
  if (breakdowns.rows.length) {
    page.append(make("h2", { id: `devices-${report.app}` }, "Which devices"),
      make("p", { class: "faint" }, `Jank in a thousand frames by group, as a multiple of the fleet's (lift), with its interval over devices (all of them hold at once in 95 of 100 reports); of a cause, in frames of which it took a tenth or more. From ${count(breakdowns.captures)} of ${count(breakdowns.all_captures)} captures, those that rates count.`),
      ...breakdowns.rows.map((row) => make("details", { id: devicesId(report, row) }, make("summary", {}, row.sentence), table([
        ["by", (group) => group.dimension, true], ["group", (group) => group.value, true], ["devices", (group) => count(group.devices)],
        ["ms in 1000", (group) => fixed(group.ms_in_1000)], ["lift", (group) => barCell(group.lift / row.groups[0].lift, fixed(group.lift))],
        ["interval", (group) => group.lift_from_to.map((end) => fixed(end)).join(" to ")],
      ], row.groups, { id: devicesId(report, row) }))));
  }

  const { fixes } = report;
  if (fixes.rows.length) {
    page.append(make("h2", {}, "Gain of a fix"),
      make("p", { class: "faint" }, `Late frames that would be in time without the cause. One fix alone saves ${share(fixes.saved_by_any, fixes.late)} of the ${count(fixes.late)} late frames that rates count; “once”: each frame at the fix that gains most. ±: 95 %, over devices. ${share(fixes.late_stateless, fixes.late)} of the late frames have no scheduler states: their waits are taken to last as long as they did.`),
      table([
        ["screen", (fix) => (fix.screen === null ? "(all)" : named(fix.screen)), true], causeColumn, ["what", (fix) => fix.key, true],
        ["frames", (fix) => count(fix.saved)], ["removed", (fix) => `${fixed(fix.percent)} % ± ${fixed((fix.percent_from_to[1] - fix.percent_from_to[0]) / 2)}`],
        ["halved", (fix) => share(fix.saved_halved, fix.late)], ["off the first thread", (fix) => share(fix.saved_moved, fix.late)], ["once", (fix) => share(fix.saved_most, fix.late)],
        ["devices", (fix) => `${count(fix.devices)} of ${count(fix.all_devices)}`],
      ], fixes.rows, { id: `fixes.${report.app}` }));
  }

  for (const { kind, limit, days } of report.limits_exceeded) {
    page.append(make("p", { class: "faint" }, `On ${counted(days, "day")} there were more than ${count(limit)} ${kind}: those that came later count as (other).`));
  }
  page.append(make("h2", { id: `versions-${report.app}` }, "Versions"), table([
    ["version", (row) => row.ver, true], ["devices", (row) => count(row.devices)], ["captures", (row) => count(row.captures)], ["in rates", (row) => count(row.counted)],
    ...smoothColumns.slice(1).map(([title, cell]) => [title, (row) => (row.smoothness ? cell(row.smoothness) : "-")]),
    ["start p50", (row) => (row.startup ? ms(row.startup.p50_ns) : "-")], ["ANRs", (row) => count(row.anrs)],
    ["over budget", (row) => count(row.over_budget)], ["lost records", (row) => count(row.lost_records)],
  ], report.versions, { id: `versions.${report.app}` }));
  const days = [...new Set(report.days.map((row) => row.dt))].sort();
  if (days.length > 1) {
    const versions = [...new Set(report.days.filter(isWanted).map((row) => row.ver))];
    const jankOf = (dt, ver) => report.days.find((row) => row.dt === dt && row.ver === ver)?.jank_ms_in_1000 ?? null;
    page.append(make("h2", {}, "Jank by day"), make("p", { class: "faint" }, "ms over the period in a thousand frames."), dayChart(days.filter((dt) => isWanted({ dt })), versions, jankOf, "Jank by day"));
  }
  if (report.comparison) compared(report.comparison);
  ledgers(report);
  if (report.pipelines.some((row) => row.pipeline !== "views")) {
    page.append(make("h2", {}, "Pipelines"), table([["pipeline", (row) => row.pipeline, true], ["version", (row) => row.ver, true], ...smoothColumns], report.pipelines, { id: `pipelines.${report.app}` }));
  }
  if (report.screens.some((row) => row.screen)) {
    page.append(make("h2", {}, "Screens"), table([["screen", (row) => named(row.screen), true], ["version", (row) => row.ver, true], ...smoothColumns], report.screens, { id: `screens.${report.app}` }),
      make("h2", {}, "Causes by screen"), table(causeColumns([["screen", (row) => named(row.screen), true]]), report.causes_by_screen, { id: `by-screen.${report.app}` }));
  }
  if (report.versions.length > 1) page.append(make("h2", {}, "Causes by version"), table(causeColumns([["version", (row) => row.ver, true]]), report.causes_by_version, { id: `by-version.${report.app}` }));
  if (report.deaths.length) {
    page.append(make("h2", { id: `deaths-${report.app}` }, "Ends of processes"),
      make("p", { class: "faint" }, "As the system has told the app. Those that users noticed come first: a screen was visible. Frozen: the process stood still; that is no hang."),
      table(deathColumns([], []), report.deaths, { id: `deaths.${report.app}` }),
      make("h3", {}, "By cause"), table(deathColumns([], [["what", (row) => row.key, true]]), report.deaths_by_key, { id: `deaths-by-key.${report.app}` }));
    if (report.versions.length > 1) page.append(make("h3", {}, "By version"), table(deathColumns([["version", (row) => row.ver, true]], []), report.deaths_by_version, { id: `deaths-by-version.${report.app}` }));
  }
  if (report.losses.length) {
    page.append(make("h2", {}, "Captures that devices lost, or that retention deleted"), table([
      ["reason", (row) => row.reason, true], ["window", (row) => row.window, true], ["devices", (row) => count(row.devices)],
      ["captures", (row) => count(row.captures)], ["may have arrived", (row) => count(row.unconfirmed)],
    ], report.losses, { id: `losses.${report.app}` }));
  }
}

// Counts of every device, beside the rates that Google Play defines.
function ledgers({ app: of, ledgers: { versions, frames, screens, counts, comparisons } }) {
  if (!versions.length) return;
  const version = ["version", (row) => row.ver, true];
  const rates = [
    version, ["source", (row) => row.source, true], ["frames", (row) => count(row.frames)], ["late", (row) => share(row.late, row.frames)],
    ["frozen", (row) => share(row.frozen, row.frames)], ["overrun p50", (row) => ms(row.p50_ns)], ["p90", (row) => ms(row.p90_ns)], ["p99", (row) => ms(row.p99_ns)],
  ];
  page.append(make("h2", { id: `ledgers-${of}` }, "Every device, from ledgers"),
    make("p", { class: "faint" }, `Counts of ${counted(sumOf(versions, "device_days"), "device-day")}: all frames of all devices, without captures. Frames of different sources are not comparable.`),
    table(rates, frames, { id: `ledgers.${of}` }));
  if (screens.some((row) => row.screen)) page.append(make("h2", {}, "Screens, from ledgers"), table([["screen", (row) => named(row.screen), true], ...rates], screens, { id: `ledger-screens.${of}` }));
  page.append(make("h2", {}, "As Google Play defines them, from ledgers"),
    make("p", { class: "faint" }, "ANR days: device-days with an ANR that a user saw. Slow sessions: more than a quarter of the frames late. Slow starts: cold of 5 s, warm of 2 s, hot of 1.5 s and more. Frozen frames take more than 700 ms."),
    table([
      version, ["device-days", (row) => count(row.device_days)], ["ANR days", (row) => share(row.anr_days, row.device_days)], ["slow sessions", (row) => share(row.slow_sessions, row.sessions)],
      ...["cold", "warm", "hot"].map((kind) => [`slow ${kind}`, (row) => share(row[`slow_${kind}_starts`], row[`${kind}_starts`])]),
    ], versions, { id: `ledger-play.${of}` }));
  const time = (key) => (row) => (row.name ? "-" : ms(row[key]));
  if (counts.length) {
    page.append(make("h2", {}, "Starts and ends of processes, from ledgers"), table([
      version, ["kind", (row) => row.kind, true], ["reason", (row) => row.name, true], ["number", (row) => count(row.amount)],
      ["p50", time("p50_ns")], ["p90", time("p90_ns")], ["p99", time("p99_ns")],
    ], counts, { id: `ledger-counts.${of}` }));
  }
  for (const comparison of comparisons) compared(comparison, comparisonId(of, comparison));
}

// All apps, below the filters of the page.
function fleet() {
  const { apps } = data.report;
  const rows = apps.flatMap((of) => [...of.versions, ...of.screens, ...of.days, ...of.pipelines, ...of.causes]);
  const server = data.live_s ? { apps: apps.map((of) => of.app), version: [...new Set(apps.flatMap((of) => of.versions.map((row) => row.ver)))], screen: [...new Set(apps.flatMap((of) => of.screens.map((row) => row.screen).filter(Boolean)))], ...FIXED } : null;
  page.append(filterForm(rows, server) || "");
  if (!apps.length) page.append(make("h1", {}, "tracetee"), make("p", {}, location.search ? "No captures of this app, version and time. Choose others, or all." : "No captures yet. Devices send them by themselves once a window of their remote configuration opens; `tracetee doctor --app` says what an app lacks."));
  apps.forEach(app);
  page.append(make("p", { class: "faint" }, "Measured by the app's own markers, and by the system's events where captures have them. Rates count only captures that were taken by schedule; causes count all captures." + accuracy(data.report.quantile_errors)));
}
