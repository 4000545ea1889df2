// Charts as SVG: the frames of a capture, causes as bars, jank by day. SVG is text: it prints, is read out, and is clicked.

const svg = (tag, attributes, ...children) => {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes || {})) element.setAttribute(name, value);
  element.append(...children);
  return element;
};
const wideOf = () => Math.max(260, Math.min(1180, page.clientWidth - 34));
const TALL = 200, LEFT = 56, BOTTOM = 22;

/** Steps of an axis: 1, 2 or 5 times a power of ten, at most `most` of them. */
function steps(top, most) {
  let step = 10 ** Math.floor(Math.log10(top / most || 1));
  for (const factor of [2, 2.5, 2]) if (top / step > most) step *= factor;
  return Array.from({ length: Math.floor(top / step) + 1 }, (_, i) => i * step);
}
/** A chart's picture with its axis of values. */
function axes(wide, top, unit, label) {
  const y = (value) => TALL - BOTTOM - (value / top) * (TALL - BOTTOM - 8);
  const made = svg("svg", { width: wide, height: TALL, viewBox: `0 0 ${wide} ${TALL}`, role: "img", "aria-label": label });
  for (const value of steps(top, 5)) made.append(svg("line", { x1: LEFT, x2: wide, y1: y(value), y2: y(value), class: "grid" }),
    svg("text", { x: LEFT - 6, y: y(value) + 4, class: "label end" }, `${value < 1 && value ? value.toFixed(1) : Math.round(value)}${unit}`));
  return { made, y };
}
const legendOf = (entries) => make("div", { class: "legend" }, ...entries.map(([colour, text, isLine]) => {
  const box = make("i", {});
  box.style.background = colour;
  if (isLine) box.style.height = "2px";
  return make("span", {}, box, text);
}));

/** True if a frame had to be complete by its deadline: one in time that ends after it waited for the display, or drew nothing. */
const hadToEnd = (frame) => frame.slow || frame.dur_ns <= frame.deadline_ns;
/** Bars of frames by time, each with its deadline if it had one; `open` is called with the frame that is chosen. */
function frameChart(frames, label, open) {
  const wide = wideOf(), perBar = Math.ceil(frames.length / Math.max(1, Math.floor((wide - LEFT) / 2)));
  // Of frames that share a bar the latest is shown.
  const late = (frame) => frame.dur_ns - frame.deadline_ns, bars = [];
  for (let i = 0; i < frames.length; i += perBar) bars.push(frames.slice(i, i + perBar).reduce((worst, frame) => (late(frame) > late(worst) ? frame : worst)));
  const top = Math.max(...bars.map((frame) => Math.max(frame.dur_ns, frame.deadline_ns))) / 1e6 * 1.05;
  const { made, y } = axes(wide, top, " ms", label);
  const width = (wide - LEFT) / bars.length, line = [];
  made.setAttribute("role", "group");
  bars.forEach((frame, i) => {
    const at = y(frame.dur_ns / 1e6), x = LEFT + i * width, due = y(frame.deadline_ns / 1e6);
    const text = `${ms(frame.dur_ns)} at ${ms(frame.at_ns)}, ${hadToEnd(frame) ? `due after ${ms(frame.deadline_ns)}` : WAYS[frame.outcome] || frame.outcome}`;
    const bar = svg("rect", { x, y: Math.min(at, TALL - BOTTOM - 1), width: Math.max(width - (width > 3 ? 1 : 0), 0.5), height: Math.max(TALL - BOTTOM - at, 1), fill: colourOf(frame), class: "bar-of-frame" }, svg("title", {}, text));
    // Late frames can be reached by keyboard, too.
    if (frame.slow) for (const [name, value] of Object.entries({ tabindex: "0", role: "button", "aria-label": `Frame of ${text}` })) bar.setAttribute(name, value);
    bar.addEventListener("click", () => open(frame));
    bar.addEventListener("keydown", (event) => { if (event.key === "Enter" || event.key === " ") { event.preventDefault(); open(frame); } });
    made.append(bar);
    if (hadToEnd(frame)) line.push(`M${x} ${due}H${x + width}`);
  });
  made.append(svg("path", { d: line.join(""), class: "deadline-line" }));
  const last = frames.at(-1);
  made.append(svg("text", { x: LEFT, y: TALL - 6, class: "label" }, ms(frames[0].at_ns)), svg("text", { x: wide - 2, y: TALL - 6, class: "label end" }, ms(last.at_ns)));
  const used = new Set(frames.map(colourOf));
  return make("div", { class: "chart" }, made, legendOf([...LEGEND.filter(([colour]) => used.has(colour)), ["#d50000", "deadline", true]]),
    perBar > 1 ? make("p", { class: "faint" }, `A bar is the latest of ${perBar} frames.`) : null);
}

/** Lines of versions over days. */
function dayChart(days, versions, jankOf, label) {
  const wide = wideOf(), colours = ["#1e88e5", "#fb8c00", "#43a047", "#8e24aa", "#e53935", "#00897b"];
  const top = Math.max(1e-9, ...versions.flatMap((ver) => days.map((dt) => jankOf(dt, ver) ?? 0))) * 1.05;
  const { made, y } = axes(wide, top, "", label);
  const x = (i) => LEFT + 10 + (days.length > 1 ? i / (days.length - 1) : 0) * (wide - LEFT - 60);
  versions.forEach((ver, place) => {
    const stroke = colours[place % colours.length];
    const points = days.map((dt, i) => [i, jankOf(dt, ver)]).filter(([, value]) => value !== null);
    made.append(svg("path", { d: points.map(([i, value], n) => `${n ? "L" : "M"}${x(i)} ${y(value)}`).join(""), fill: "none", stroke, "stroke-width": 2 }));
    for (const [i, value] of points) made.append(svg("circle", { cx: x(i), cy: y(value), r: 3, fill: stroke }, svg("title", {}, `${ver}, ${days[i]}: ${fixed(value)} ms`)));
  });
  const every = Math.ceil(days.length / Math.max(1, Math.floor((wide - LEFT) / 90)));
  days.forEach((dt, i) => { if (i % every === 0) made.append(svg("text", { x: x(i), y: TALL - 6, class: "label" }, dt)); });
  return make("div", { class: "chart" }, made, legendOf(versions.map((ver, place) => [colours[place % colours.length], ver])));
}

/** A bar in a cell, beside its number. */
function barCell(part, text) {
  const bar = make("i", { class: "share" });
  bar.style.width = `${Math.max(0, Math.min(100, part * 100)).toFixed(1)}%`;
  return make("span", { class: "with-bar" }, text, make("span", { class: "track" }, bar));
}
