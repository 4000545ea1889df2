// Draws the page, and keeps a collector's up to date.

const up = (percent) => (Math.ceil(percent * 10) / 10).toFixed(1);
const accuracy = (of) => (of.frames_percent ? ` Counts and sums are exact. p50, p90 and p99 of frames are within ${up(of.frames_percent)} %, those of causes and start-ups within ${up(of.times_percent)} %.` : "");

function draw() {
  page.replaceChildren();
  namedCauses.clear();
  if (data.kind === "single") single();
  else fleet();
  meanings();
  document.title = data.kind === "single" ? `${data.report.app}: frames` : "tracetee: jank";
  document.documentElement.dataset.drawn = "yes";
}
draw();
// Charts are as wide as the window.
let width = page.clientWidth;
addEventListener("resize", () => { if (page.clientWidth !== width) { width = page.clientWidth; draw(); } });
// Paper has no buttons: what is folded is printed.
addEventListener("beforeprint", () => { for (const one of document.querySelectorAll("details:not([open])")) { one.open = true; one.dataset.printed = "yes"; } });
addEventListener("afterprint", () => { for (const one of document.querySelectorAll("details[data-printed]")) { one.open = false; delete one.dataset.printed; } });
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
