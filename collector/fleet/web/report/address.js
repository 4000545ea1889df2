// The state of the page in its address: filters, sorting, opened tables; the back button works.

let state = new URLSearchParams(location.hash.slice(1));

/** Changes values of the address (null removes one), and draws the page again. */
function change(values) {
  for (const [key, value] of Object.entries(values)) if (value === null || value === "") state.delete(key); else state.set(key, value);
  const text = state.toString();
  // Pages without an address of their own work without it.
  try { history.pushState(null, "", `#${text}`); } catch (error) { /* as above */ }
  draw();
}
addEventListener("popstate", () => {
  state = new URLSearchParams(location.hash.slice(1));
  draw();
});

/** Filters of rows by what they have: the key in the address, the title, the row's value. */
const FILTERS = [
  ["version", "Version", (row) => row.ver],
  ["screen", "Screen", (row) => (row.screen === undefined || row.screen === null ? undefined : named(row.screen))],
  ["day", "Day", (row) => row.dt ?? undefined],
  ["cause", "Cause", (row) => row.cause],
  ["pipeline", "Pipeline", (row) => row.pipeline ?? undefined],
  ["api", "API", () => undefined],
  ["class", "Device class", () => undefined],
];
const range = ([a, b]) => `${a.toFixed(1)} to ${b.toFixed(1)} ms`;
/** The filters of a collector, whichever devices it has: API levels, and classes by the time of a quick frame (two of a factor of two, as change/classes.rs has them). */
const FIXED = {
  api: Array.from({ length: 16 }, (_, i) => [`${i + 21}`, `${i + 21}`]),
  class: Array.from({ length: 15 }, (_, i) => [0, -0.5, 0.5].map((half) => 1000 / 60 * 2 ** ((i - 7 + half) / 2))).map(([middle, ...ends]) => [middle.toFixed(1), range(ends)]),
};
/** True if a row has what is asked for, or nothing of that kind. */
const isWanted = (row) => FILTERS.every(([key, , value]) => {
  const wanted = state.get(key);
  if (!wanted) return true;
  const has = value(row);
  return has === undefined || has === null || has === wanted;
});

/** The values of each filter in a page's tables, as selects; a filter with one value is none. */
function filterForm(rows, server) {
  const controls = [];
  for (const [key, title, value] of FILTERS) {
    const isServer = server && key in server, isFixed = isServer && key in FIXED;
    const values = new Set([...(isFixed ? [] : rows.map(value).filter((one) => one !== undefined && one !== null && one !== "")), ...(isServer ? server[key] : [])]);
    const query = new URLSearchParams(location.search);
    const current = isServer ? query.get(key) || "" : state.get(key) || "";
    if (current && !(isFixed && server[key].some(([one]) => one === current))) values.add(current);
    if (values.size < 2 && !current) continue;
    controls.push(select(key, title, isFixed ? [...values] : [...values].sort(), current, (chosen) => (isServer ? ask({ [key]: chosen }) : change({ [key]: chosen }))));
  }
  if (server) controls.push(...serverControls(server));
  return controls.length ? make("div", { class: "filters", role: "group", "aria-label": "Filters" }, ...controls) : null;
}
const choice = (value, text, current) => make("option", { value, ...(value === current ? { selected: "" } : {}) }, text);
function select(key, title, values, current, act, all = "all") {
  const made = make("select", { name: key }, choice("", all, current), ...values.map((one) => (Array.isArray(one) ? choice(...one, current) : choice(one, one, current))));
  made.addEventListener("change", () => act(made.value));
  return make("label", {}, `${title} `, made);
}

/** Filters that the collector applies: they are in the page's address, before the `#`. */
function ask(values) {
  const query = new URLSearchParams(location.search);
  for (const [key, value] of Object.entries(values)) if (value) query.set(key, value); else query.delete(key);
  // A comparison is of two versions, a filter of one.
  if (values.version) query.delete("compare");
  if (values.compare) { query.delete("version"); query.delete("from"); query.delete("to"); }
  const hash = state.toString();
  location.assign(`?${query}${hash ? `#${hash}` : ""}`);
}
function serverControls({ apps, version }) {
  const query = new URLSearchParams(location.search);
  const since = query.get("since") || "", spans = [["24h", "a day"], ["7d", "7 days"], ["30d", "30 days"]];
  if (since && !spans.some(([value]) => value === since)) spans.push([since, since]);
  const compare = query.get("compare") || (query.has("from") && query.has("to") ? `${query.get("from")}..${query.get("to")}` : "");
  const pairs = [];
  for (let later = version.length - 1; later > 0 && pairs.length < 50; later--) for (let earlier = later - 1; earlier >= 0 && pairs.length < 50; earlier--) pairs.push([`${version[earlier]}..${version[later]}`, `${version[earlier]} with ${version[later]}`]);
  if (compare && !pairs.some(([value]) => value === compare)) pairs.push([compare, compare.replace("..", " with ")]);
  return [
    ...(apps.length > 1 || query.get("app") ? [select("app", "App", [...new Set([...apps, ...(query.get("app") ? [query.get("app")] : [])])], query.get("app") || "", (app) => ask({ app }))] : []),
    select("since", "Since", spans, since, (value) => ask({ since: value }), "the beginning"),
    ...(pairs.length ? [select("compare", "Compare", pairs, compare, (value) => ask({ compare: value }), "nothing")] : []),
  ];
}
