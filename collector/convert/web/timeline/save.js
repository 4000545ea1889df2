// Saves the picture, prints, and lists the visible slices as a table.

function save(blob, name) {
    const at = element("a", null);
    at.download = `${document.title.replace(/[^\w.-]+/g, "-")}.${name}`;
    at.href = URL.createObjectURL(blob);
    at.click();
    setTimeout(() => URL.revokeObjectURL(at.href), 10_000);
}

$("png").addEventListener("click", () => { draw(); canvas.toBlob((blob) => save(blob, "png")); });
$("print").addEventListener("click", () => print());
// Paper is white and has a fixed width, so the page is redrawn for printing.
addEventListener("beforeprint", () => { document.documentElement.dataset.prints = "yes"; draw(); });
addEventListener("afterprint", () => { delete document.documentElement.dataset.prints; draw(); });

const MAX_VISIBLE = 200;
/** The slices in view, as a table: for screen readers, and for users who prefer text. */
function tellVisible() {
    const found = [];
    for (const row of rows) {
        const y = yOf(row);
        if (row.kind !== "thread" || y > height || y + row.height < RULER) continue;
        const { slices } = row.thread;
        const levels = slices.levels.slice(0, MAX_LEVELS);
        levels.forEach((level, depth) => {
            for (let i = first(level.length, (i) => slices.end[level[i]], view.from); i < level.length && slices.start[level[i]] < view.to && found.length < 20_000; i++) found.push([row.thread, level[i], depth]);
        });
    }
    // The longest ones, in the order of rows and time.
    const length = ([{ slices }, place]) => slices.end[place] - slices.start[place];
    const least = found.length > MAX_VISIBLE ? found.map(length).sort((a, b) => b - a)[MAX_VISIBLE - 1] : 0;
    const all = found.filter((one) => length(one) >= least).slice(0, MAX_VISIBLE);
    const table = headed(["Slice", "Thread", "At", "Duration", "Depth"], all, ([thread, place, depth]) =>
        [link(names[thread.slices.name[place]], () => selectAny({ kind: "slice", thread, place })), `${thread.name} ${thread.tid}`, time(thread.slices.start[place]), time(thread.slices.end[place] - thread.slices.start[place]), depth]);
    const title = element("h2", `In view: ${found.length} slices${found.length > all.length ? `, the ${all.length} longest` : ""}`);
    title.tabIndex = -1;
    $("panel").replaceChildren(title, ...(all.length ? [table] : [element("p", "No slices are in view. Zoom out (S), scroll, or press 0 for the whole trace.")]));
    title.focus();
    announce(title.textContent);
}
$("visible").addEventListener("click", tellVisible);
