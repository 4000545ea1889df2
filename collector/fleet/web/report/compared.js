// The comparison of two versions.

const comparisonId = (app, { source }) => `comparison-of-${source}-${app}`;
// The rows of a comparison, and the devices that it is made of.
function compared(comparison, id = "comparison") {
  const { source, from, to, rows, sentence, devices_sentence } = comparison;
  const unit = { captures: "ms in 1,000 frames", ledgers: "ms in 1,000 frames, from ledgers", deaths: "deaths in 1,000 days, from ledgers" }[source];
  const signed = (percent) => (percent >= 0 ? "+" : "") + fixed(percent, 0);
  page.append(make("h2", { id }, `From ${from} to ${to}, ${unit}`), make("p", {}, sentence), make("p", {}, devices_sentence));
  if (rows.length === 0) return;
  page.append(table([
    ["", (row) => row.cause || (source === "deaths" ? "deaths" : "all jank"), true], ["what", (row) => row.key, true],
    [from, (row) => fixed(row.ms_in_1000[0])], [to, (row) => fixed(row.ms_in_1000[1])],
    ["others", (row) => row.control_ms_in_1000.map((ms) => fixed(ms)).join(" to ")],
    ["change", (row) => (row.ms_in_1000[0] === 0 && row.ms_in_1000[1] > 0 ? "new" : `${signed(row.percent)} % (${row.percent_interval.map(signed).join(" to ")})`)], ["p", (row) => fixed(row.p, 4)],
    ["", (row) => make("span", { class: row.verdict }, VERDICTS[row.verdict]), true],
  ], rows, { id }));
  page.append(make("p", { class: "faint" }, `${unit}: means of the devices that updated, before and after it, and of the others, before the release and since. The change is that beyond the change of devices like them on the same days, with its interval of 95 %.${source === "captures" ? " A cause counts in frames of which it took a tenth or more." : ""} p is adjusted for the number of causes; "worse" and "better" mean p below ${comparison.level * 100} %, at least 2 % of change and at least ${comparison.least_devices} devices, "same" that a rise of 10 % is excluded.`));
}
