// Moves the view: by pointers (mouse, pen, fingers), wheel and keys.

function show(from, to) {
    const least = 0.05, most = Math.max(last * 1.1, 10);
    let span = Math.max(least, Math.min(to - from, most));
    let middle = (from + to) / 2;
    middle = Math.max(0, Math.min(middle, last));
    view.from = middle - span / 2; view.to = middle + span / 2;
    queue();
}
function zoom(factor, x) {
    const at = atOf(x);
    show(at - (at - view.from) * factor, at + (view.to - at) * factor);
}
const pan = (part) => { const by = (view.to - view.from) * part; show(view.from + by, view.to + by); };
function whole() { show(0, Math.max(last, 1)); }

let mouse = null, drag = null;
/** Pointers that are down, by id: [x, y]. Two fingers pinch. */
const pointers = new Map();
const main = $("view");
const place = (event) => { const box = main.getBoundingClientRect(); return [event.clientX - box.left, event.clientY - box.top]; };
/** Begins a drag of one pointer, or a pinch of two. */
function grab(isRange, moved) {
    const [[x, y], other] = pointers.values();
    drag = { x, y, from: view.from, to: view.to, top: view.top, range: isRange ? atOf(x) : null, moved };
    if (other) drag.pinch = { at: atOf((x + other[0]) / 2), apart: Math.max(Math.abs(x - other[0]), 20), middle: (y + other[1]) / 2 };
}
main.addEventListener("pointerdown", (event) => {
    if (event.button > 0 || pointers.size > 1) return;
    main.focus();
    pointers.set(event.pointerId, place(event));
    try { main.setPointerCapture(event.pointerId); } catch (error) { /* Events of a script have no pointer. */ }
    grab(event.shiftKey, pointers.size > 1);
    event.preventDefault();
});
addEventListener("pointermove", (event) => {
    const [x, y] = place(event);
    if (event.pointerType === "mouse") mouse = x;
    if (!pointers.has(event.pointerId)) { if (!drag && event.pointerType !== "touch") hover(event, x, y); return; }
    pointers.set(event.pointerId, [x, y]);
    $("tip").hidden = true;
    if (drag.pinch) {
        const [one, other] = pointers.values();
        const span = (drag.to - drag.from) * drag.pinch.apart / Math.max(Math.abs(one[0] - other[0]), 20);
        // What was between the fingers stays between them.
        const from = drag.pinch.at - ((one[0] + other[0]) / 2 - LEFT) / (width - LEFT) * span;
        view.top = drag.top + drag.pinch.middle - (one[1] + other[1]) / 2;
        show(from, from + span);
        return;
    }
    if (Math.hypot(x - drag.x, y - drag.y) > (event.pointerType === "touch" ? 8 : 3)) drag.moved = true;
    if (!drag.moved) return;
    if (drag.range !== null) {
        const at = atOf(x);
        range = { from: Math.min(at, drag.range), to: Math.max(at, drag.range) };
        frame = null;
        queue();
        return;
    }
    const by = (drag.x - x) / (width - LEFT) * (drag.to - drag.from);
    view.top = drag.top + drag.y - y;
    show(drag.from + by, drag.to + by);
});
function release(event) {
    if (!pointers.delete(event.pointerId)) return;
    const { moved, range: isRange } = drag;
    // The finger that stays drags on.
    if (pointers.size) { grab(false, true); return; }
    drag = null;
    if (moved) { if (isRange !== null) tell(); return; }
    if (event.type === "pointerup") click(...place(event));
}
addEventListener("pointerup", release);
addEventListener("pointercancel", release);
main.addEventListener("mouseleave", () => { $("tip").hidden = true; });
main.addEventListener("wheel", (event) => {
    event.preventDefault();
    const [x] = place(event);
    if (event.ctrlKey || event.metaKey) zoom(Math.exp(event.deltaY / 200), x);
    else if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) pan((event.deltaX || event.deltaY) / 1000);
    else { view.top += event.deltaY; queue(); }
}, { passive: false });
addEventListener("resize", queue);
addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target === $("search")) {
        if (event.key === "Enter") { step(event.shiftKey ? -1 : 1); event.preventDefault(); }
        if (event.key === "Escape") main.focus();
        return;
    }
    const x = mouse === null || mouse < LEFT ? (LEFT + width) / 2 : mouse;
    const keys = {
        w: () => zoom(0.7, x), s: () => zoom(1 / 0.7, x), a: () => pan(-0.2), d: () => pan(0.2),
        ArrowUp: () => { view.top -= 60; queue(); }, ArrowDown: () => { view.top += 60; queue(); },
        ArrowLeft: () => pan(-0.2), ArrowRight: () => pan(0.2),
        f: toSelection, 0: whole, n: () => stepFrame(1), p: () => stepFrame(-1), "/": () => $("search").focus(), "?": help,
        Escape: () => { selected = range = frame = null; tell(); queue(); },
    };
    const act = keys[event.key.length === 1 ? event.key.toLowerCase() : event.key];
    if (act) { act(); event.preventDefault(); }
});
function help() {
    $("keys").hidden = !$("keys").hidden;
    $("help").setAttribute("aria-expanded", String(!$("keys").hidden));
    queue();
}
$("help").addEventListener("click", help);

function toSelection() {
    if (range) { show(range.from, range.to); return; }
    if (frame) { show(frame.start - frame.dur / 10, frameEnd(frame) + frame.dur / 10); return; }
    if (!selected) return;
    const { slices } = selected.thread;
    const from = slices.start[selected.place], to = slices.end[selected.place];
    const more = Math.max((to - from) * 0.1, 0.1);
    show(from - more, to + more);
}
