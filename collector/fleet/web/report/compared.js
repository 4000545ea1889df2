// The comparison of two versions.

// The mix of devices and screens, and the devices that a comparison is made of.
function compared(comparison) {
  const { from, to, devices, mix, rows, screens } = comparison;
  const signed = (pair) => (pair ? (pair[1] >= pair[0] ? "+" : "") + (pair[1] - pair[0]).toFixed(1) : "-");
  const both = ([a, b]) => `${count(a)} of ${from} and ${count(b)} of ${to}`;
  const isAny = ([a, b]) => a + b > 0;
  page.append(make("h2", { id: "comparison" }, `From ${from} to ${to}`));
  if (rows.every((row) => row.verdict === "not_compared")) {
    page.append(make("p", {}, "No difference can be shown: no device has a counterpart under the other version."));
  } else {
    page.append(table([
      ["", (row) => row.cause || "all jank", true], ["what", (row) => row.key, true],
      [from, (row) => row.ms_in_1000[0].toFixed(1)], [to, (row) => row.ms_in_1000[1].toFixed(1)],
      ["paired", (row) => signed(row.paired_ms)], ["others", (row) => signed(row.stratified_ms)], ["p", (row) => row.p.toFixed(4)],
      ["", (row) => make("span", { class: row.verdict }, VERDICTS[row.verdict]), true],
    ], rows, { id: "comparison" }));
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
    const shareOf = (side) => (kind) => share(kind.devices[side], devices.sent[side]);
    page.append(make("p", { class: "faint" }, "The mix differs: shares of devices by the time of a quick frame, and of frames by screen."), table([
      ["models", (kind) => (kind.model_ms ? range(kind.model_ms) : "unknown or new"), true], ["these devices", (kind) => (kind.device_ms ? range(kind.device_ms) : "-"), true],
      ["API", (kind) => kind.api || "-"], ["Hz", (kind) => kind.hz || "-"], [from, shareOf(0)], [to, shareOf(1)],
      ["", (kind) => (kind.is_compared ? "" : "only paired ones are compared"), true],
    ], mix, { id: "mix" }), table([
      ["screen", (row) => named(row.screen), true], [from, (row) => (row.shares[0] * 100).toFixed(1) + " %"], [to, (row) => (row.shares[1] * 100).toFixed(1) + " %"],
    ], screens, { id: "shares" }));
  }
  page.append(make("p", { class: "faint" }, `ms in a thousand frames, mean over devices, on the same mix of devices and screens. A device has one vote; values above the ${comparison.quantile * 100} % quantile count as that. A cause counts in frames of which it took a tenth or more. p is adjusted by Holm for all causes; "worse" and "better" mean p below ${comparison.level * 100} %, at least ${comparison.least_change * 100} % of difference and at least ${comparison.least_devices} devices of each.`));
}
