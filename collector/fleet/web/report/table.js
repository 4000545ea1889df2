// Tables: sorted by a column, filtered, ten rows unasked, noise folded.

/** Rows of a table that are shown unasked. */
const FEW = 10;
/** Rows below this share of what their table is about are noise: they are folded. */
const NOISE = 0.01;

/** The number that a cell begins with, in ms where it has a time; texts have none. */
function sortValue(cell) {
  const text = cell instanceof Node ? cell.textContent : String(cell);
  const found = /^([+-]?[\d,]+(?:\.\d+)?)\s*(s\b|ms\b|%)?/.exec(text.replace("−", "-"));
  return found ? +found[1].replaceAll(",", "") * (found[2] === "s" ? 1000 : 1) : text === "-" ? Number.NEGATIVE_INFINITY : text;
}
const inOrder = (a, b) => (typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b)));

/**
 * columns: [title, cell of a row, whether it is text]. `id` names the table in the address; `noise`: a share of a row by
 * which it is folded, and of what it is one.
 */
function table(columns, rows, { id, noise } = {}) {
  const kind = (title, text) => (text ? { class: title === "what" || title === "slice" ? "what" : "text" } : {});
  let made = rows.filter(isWanted).map((row) => ({ row, cells: columns.map(([, cell]) => cell(row)) }));
  const [sorted, direction] = (id && state.get(`sort.${id}`)?.split(":")) || [null, null];
  const by = columns.findIndex(([title], place) => (title || String(place)) === sorted);
  if (by >= 0) {
    const values = new Map(made.map((one) => [one, sortValue(one.cells[by])]));
    made = made.sort((a, b) => inOrder(values.get(a), values.get(b)) * (direction === "down" ? -1 : 1));
  }
  const isAll = Boolean(id && state.get("all")?.split(",").includes(id));
  const isNoise = (one) => Boolean(noise && noise.share(one.row) < NOISE);
  const loud = made.filter((one) => !isNoise(one)).slice(0, FEW);
  const hidden = made.filter((one) => !loud.includes(one));
  const head = columns.map(([title, , text], place) => {
    const key = title || String(place), isSorted = place === by;
    if (!id || !title) return make("th", { scope: "col", ...kind(title, text) }, title);
    const next = !isSorted ? (text ? "up" : "down") : direction === "down" ? "up" : "down";
    const button = link(title + (isSorted ? (direction === "down" ? " ▾" : " ▴") : ""), () => change({ [`sort.${id}`]: `${key}:${next}` }), `Sort by ${title}`);
    return make("th", { scope: "col", ...kind(title, text), ...(isSorted ? { "aria-sort": direction === "down" ? "descending" : "ascending" } : {}) }, button);
  });
  // Sorted rows stay in their order when all are shown; folded ones are hidden where they are.
  const body = made.map((one) => make("tr", loud.includes(one) || isAll ? {} : { hidden: "" }, ...columns.map(([title, , text], place) => {
    const value = one.cells[place];
    return make("td", kind(title, text), value instanceof Node ? value : String(value));
  })));
  const scroll = make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": `Table: ${columns.map(([title]) => title).filter(Boolean).join(", ")}` },
    make("table", {}, make("thead", {}, make("tr", {}, ...head)), make("tbody", {}, ...body)));
  const left = rows.length - made.length;
  const about = [];
  if (!made.length) about.push(make("p", { class: "faint" }, `No row has what is asked for: ${left} do not.`));
  else if (left) about.push(make("p", { class: "faint" }, `${count(left)} rows are left out by the filters.`));
  if (hidden.length) {
    const folded = hidden.filter(isNoise).length;
    const text = isAll ? "Show fewer" : `Show all ${count(made.length)}${folded ? ` (${count(folded)} below ${NOISE * 100} % of ${noise.of})` : ""}`;
    about.push(link(text, () => {
      if (id) { toggleAll(id); return; }
      for (const row of scroll.querySelectorAll("tr[hidden]")) row.hidden = false;
      about.at(-1).remove();
    }));
  }
  return make("div", { class: "table", ...(id ? { id: `table-${id}` } : {}) }, scroll, ...about);
}
function toggleAll(id) {
  const all = new Set((state.get("all") || "").split(",").filter(Boolean));
  if (!all.delete(id)) all.add(id);
  change({ all: [...all].join(",") });
}

// The causes that the tables of the page name: each leads to its meaning, at the page's end.
const namedCauses = new Set();
const causeColumn = ["cause", ({ cause }) => {
  const [meaning] = data.meanings[cause] || [];
  if (!meaning) return cause || "";
  namedCauses.add(cause);
  return goTo(`meaning-${cause}`, cause, `The thread ${meaning}`);
}, true];
const actionColumn = ["what to do", ({ cause }) => data.meanings[cause]?.[1] ?? "", true];
function meanings() {
  if (!namedCauses.size) return;
  const entries = [...namedCauses].sort().flatMap((cause) => {
    const [meaning, action] = data.meanings[cause];
    return [make("dt", { id: `meaning-${cause}` }, cause), make("dd", {}, `The thread ${meaning}. What to do: ${action}.`)];
  });
  page.append(make("h2", { id: "meanings" }, "The causes"), make("dl", {}, ...entries));
}
