// The answer first: how many frames were late, the causes that make most of it, what changed between versions.

const MOST = 3;
const sumOf = (rows, field) => rows.reduce((total, row) => total + row[field], 0);
/** Words and nodes as one sentence. */
const sentence = (...parts) => make("p", {}, ...parts);
/** Nodes with commas, and "and" before the last. */
const listed = (nodes) => nodes.flatMap((node, i) => (i === 0 ? [node] : [i === nodes.length - 1 ? " and " : ", ", node]));
const nameOf = (row) => `${row.cause}: ${row.key}`;
/** A capture as people know it: version, model, time. Devices send any time. */
const titleOf = ({ ver, model, made_ms: at }) => [ver, model, at > 0 && at < 4e12 && `${new Date(at).toISOString().slice(0, 16).replace("T", " ")} UTC`].filter(Boolean).join(", ");

/** "These causes make 72 % of the time past the deadlines: …", each with `links`. */
function causesSentence(causes, table, links) {
  const total = sumOf(causes, "overrun_ns");
  // In the order of the table that the sentence leads to.
  const top = causes.slice(0, MOST).filter((row) => row.overrun_ns / (total || 1) >= NOISE);
  if (!top.length) return null;
  const [verb, noun] = top.length === 1 ? ["makes", "One cause"] : ["make", `${["", "", "Two", "Three"][top.length]} causes`];
  return sentence(`${noun} ${verb} ${share(sumOf(top, "overrun_ns"), total)} of the time past the deadlines: `,
    ...listed(top.map((row) => make("span", {}, goTo(table, nameOf(row)), ` (${share(row.overrun_ns, total)}`, ...links(row).filter((one) => one).flatMap((one) => ["; ", one]), ")"))), ".");
}

const ESTIMATED = "late, as in traces that show the display";
/** The verb of a capture's first sentence, and its end: the app's markers alone do not show what the display got. */
function latenessOf({ totals, judged: { markers } }) {
  if (!markers?.late) return ["were late on the display", ""];
  const { likely, least, most } = markers.missed;
  const end = `; people see about ${count(likely)} of ${markers.late === totals.slow ? "these" : `the ${count(markers.late)} that the app's markers judge`} (${count(least)} to ${count(most)}) ${ESTIMATED}`;
  return [markers.late === totals.slow ? "took longer than one period" : "were late", end];
}
/** The same of a fleet, whose late frames are not counted by evidence. */
function latenessOfRates(rates) {
  const frames = sumOf(rates, "frames"), shown = sumOf(rates, "by_timeline") + sumOf(rates, "by_platform") + sumOf(rates, "by_buffers");
  if (shown === frames) return ["were late on the display", ""];
  const end = `people see about a third of such frames ${ESTIMATED}`;
  return shown ? ["were late", ` ${share(frames - shown, frames)} of the frames are judged by the app's markers, against one period: ${end}.`] : ["took longer than one period", ` On phones, ${end}.`];
}

function answerOf(report) {
  const { totals, stood_still: still } = report;
  const made = make("section", { id: "answer", "aria-label": "Answer" });
  if (still.doubtful_frames) made.append(sentence(`Left out: ${counted(still.doubtful_frames, "frame")} without a record of any thread for up to ${ms(still.doubtful_ns)}. The app hung, or it stood still (suspended, frozen or stopped): this capture cannot tell which.`));
  if (!totals.frames) {
    const others = report.other_processes.slice(0, MOST).map((other) => `${other.name} (${counted(other.frames, "frame")})`);
    made.append(sentence(`No frames of ${report.app} are in this capture.`, others.length ? ` Others have some: ${others.join(", ")}; --process chooses one.` : ""));
    return made;
  }
  if (!totals.slow) { made.append(sentence(`All ${count(totals.frames)} frames were in time.`)); return made; }
  const worst = report.worst[0];
  const open = worst && data.timeline ? openButton(data.timeline, "its timeline", linkTo(worst.start_ns)) : null;
  open?.classList.add("link");
  const [verb, end] = latenessOf(report);
  made.append(sentence(`${count(totals.slow)} of ${count(totals.frames)} frames (${share(totals.slow, totals.frames)}) ${verb}`,
    ...(worst ? [", ", goTo("worst-0", `the worst by ${ms(worst.overrun_ns)}`), ...(open ? [" (", open, ")"] : [])] : []), `${end}.`));
  const atCause = (row) => {
    const place = report.worst.findIndex((one) => one.parts.some((part) => part.cause === row.cause && part.key === row.key));
    return [place < 0 ? null : goTo(`worst-${place}`, "a frame")];
  };
  made.append(causesSentence(report.causes, "causes", atCause) || "");
  return made;
}

function answerOfFleet(report, rates) {
  const made = make("section", { class: "answer", "aria-label": "Answer" });
  const frames = sumOf(rates, "frames"), late = sumOf(rates, "slow"), devices = rates.length === 1 ? rates[0].devices : report.devices;
  const [verb, end] = latenessOfRates(rates), onDevices = counted(devices, "device");
  const devicesOf = (row, text) => {
    const found = report.breakdowns.rows.find((one) => one.screen === data.report.screen && one.cause === row.cause && one.key === row.key);
    return found ? goTo(devicesId(report, found), text) : null;
  };
  made.append(frames
    ? sentence(goTo(`versions-${report.app}`, `${count(late)} of ${count(frames)} frames (${share(late, frames)}) ${verb}`), ", on ", devicesOf({ cause: null, key: "" }, onDevices) || onDevices, ` with captures by schedule.${late ? end : ""}`)
    : sentence(`${counted(sumOf(report.versions, "captures"), "capture")}, none of them by schedule: they do not say how many frames are late.`));
  const atCause = (row) => [row.examples.length ? timelineOf(row, row.examples[0], "worst frame") : null, devicesOf(row, "which devices")];
  made.append(causesSentence(report.causes.filter(isWanted), `causes-${report.app}`, atCause) || "");
  made.append(worstSentence(report.causes.find(isWanted)) || "", ...changeSentences(report));
  return made;
}

/** The first cause's worst frame, its device, and what to do. */
function worstSentence(row) {
  const [example] = row?.examples ?? [];
  if (!example) return null;
  const said = data.sentences[[example.capture_id, row.cause, row.key].join("|")];
  return sentence(said ? `The worst frame by ${nameOf(row)} (version ${titleOf(example)}): ${said}.` : `${nameOf(row)} is worst in a capture of version ${titleOf(example)}.`, ` What to do: ${data.meanings[row.cause]?.[1] ?? "look at its frames"}.`);
}

/** Returns the sentences about the change between versions, with their certainty: by captures, then by ledgers. */
function changeSentences(report) {
  const { comparison, ledgers } = report;
  const isSure = (row) => row.cause !== null && (row.verdict === "worse" || row.verdict === "better");
  const made = ledgers.comparisons.map((one) => sentence("From ledgers, which count every device: ", goTo(comparisonId(report.app, one), one.sentence)));
  if (comparison) made.unshift(sentence(goTo("comparison", comparison.sentence), ...pairOf(report, comparison.rows.find(isSure) || report.causes[0])));
  if (made.length) return made;
  const known = report.versions.filter((row) => row.smoothness && isWanted(row));
  if (known.length < 2) return [];
  const [before, after] = known.slice(-2), rate = (row) => fixed(row.smoothness.jank_ms_in_1000);
  return [sentence(goTo(`versions-${report.app}`, `${after.ver} has ${rate(after)} ms of jank in a thousand frames, ${before.ver} had ${rate(before)}`), "; whether the version is the reason, only a comparison of like devices says (",
    data.live_s ? link("compare them", () => ask({ compare: `${before.ver}..${after.ver}` })) : `report --compare ${before.ver} ${after.ver}`, ").")];
}

/** The worst pair of a comparison: a capture of each version, of the cause that differs most, or has most time if none is sure, side by side. */
function pairOf(report, row) {
  if (!row) return [];
  const { from, to } = report.comparison;
  const causes = [...report.causes, ...report.causes_by_version];
  const isIt = (one) => one.cause === row.cause && one.key === row.key;
  // A version that does not have the cause is shown by its worst other one.
  const pageOf = (ver, all) => all.flatMap((one) => one.examples).find((example) => example.ver === ver && pageOfExample(example));
  const pair = [from, to].map((ver) => pageOf(ver, causes.filter(isIt)) || pageOf(ver, causes));
  if (!pair.every(Boolean)) return [];
  return [" (", link("the worst pair side by side", () => openCompared(pair.map(pageOfExample), pair.map(titleOf), `${row.cause}|${row.key}`)), ")"];
}
