// Moves the view: by pointers (mouse, pen, fingers) and wheel.

function show(from, to) {
    // Far from the trace's begin, floating-point numbers have fewer digits after the point, which limits the resolution.
    const least = Math.max(0.05, Math.abs(to) * 2 ** -44), most = Math.max(trace.last * 1.1, 10);
    const span = Math.max(least, Math.min(to - from, most));
    const middle = Math.max(0, Math.min((from + to) / 2, trace.last));
    view.from = middle - span / 2; view.to = middle + span / 2;
    remember(false);
    queue();
}
function zoom(factor, x) {
    const at = atOf(x);
    show(at - (at - view.from) * factor, at + (view.to - at) * factor);
}
const pan = (part) => { const by = (view.to - view.from) * part; show(view.from + by, view.to + by); };
const scroll = (by) => { view.top += by; remember(false); queue(); };
function whole() { show(0, Math.max(trace.last, 1)); }

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
/** Brings the time at a place of the overview to the middle. */
function jump(x) {
    const at = (x - LEFT) / (width - LEFT) * trace.last, half = (view.to - view.from) / 2;
    show(at - half, at + half);
}
main.addEventListener("pointerdown", (event) => {
    if (event.button > 0 || pointers.size > 1) return;
    main.focus();
    const [x, y] = place(event);
    pointers.set(event.pointerId, [x, y]);
    try { main.setPointerCapture(event.pointerId); } catch (error) { /* Events of a script have no pointer. */ }
    // A range also begins in the ruler, where a finger or a mouse without a keyboard can do it.
    grab(event.shiftKey || (y < RULER && y >= OVERVIEW && x >= LEFT), pointers.size > 1);
    drag.isOverview = y < OVERVIEW && x >= LEFT && pointers.size === 1;
    if (drag.isOverview) jump(x);
    event.preventDefault();
});
addEventListener("pointermove", (event) => {
    const [x, y] = place(event);
    if (event.pointerType === "mouse") mouse = x;
    if (!pointers.has(event.pointerId)) { if (!drag && event.pointerType !== "touch") hover(event, x, y); return; }
    pointers.set(event.pointerId, [x, y]);
    $("tip").hidden = true;
    if (drag.isOverview) { jump(x); drag.moved = true; return; }
    if (drag.pinch) {
        const [one, other] = pointers.values();
        const span = (drag.to - drag.from) * drag.pinch.apart / Math.max(Math.abs(one[0] - other[0]), 20);
        // The time range between the fingers stays between them.
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
        frame = selected = null;
        queue();
        return;
    }
    const by = (drag.x - x) / (width - LEFT) * (drag.to - drag.from);
    view.top = drag.top + drag.y - y;
    show(drag.from + by, drag.to + by);
});
function release(event) {
    if (!pointers.delete(event.pointerId)) return;
    const { moved, range: isRange, isOverview } = drag;
    // The remaining finger continues to drag.
    if (pointers.size) { grab(false, true); return; }
    drag = null;
    if (isOverview) return;
    if (moved) { if (isRange !== null) changed(); return; }
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
    else scroll(event.deltaY);
}, { passive: false });
addEventListener("resize", queue);
