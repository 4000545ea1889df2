// Statistics of a time range, slice or frame: states of threads, processors, counters.

/** Time of each state of a thread between two times, as `running_ns` …; null if it has no states. */
function statesIn(thread, from, to, of = trace) {
    const list = of.states.get(thread.key);
    if (!list) return null;
    const sums = Object.fromEntries(STATES.map((name) => [`${name}_ns`, 0]));
    const count = list.at.length;
    const begin = first(count, (i) => list.at[i], from) - 1;
    if (count && from < list.at[0]) sums.unknown_ns += (Math.min(to, list.at[0]) - from) * 1e3;
    for (let i = Math.max(0, begin); i < count && list.at[i] < to; i++) {
        const until = Math.min(to, i + 1 < count ? list.at[i + 1] : of.last);
        const took = until - Math.max(from, list.at[i]);
        if (took > 0) sums[`${STATES[list.state[i]]}_ns`] += took * 1e3;
    }
    return sums;
}

/** The table of thread states in a time range, sorted by running time. */
function statesTable(all, from, to) {
    const sums = all.map((thread) => [thread, statesIn(thread, from, to)]).filter(([, sums]) => sums && STATES.some((name) => name !== "unknown" && sums[`${name}_ns`]));
    if (!sums.length) return states.size ? [] : [element("p", "The trace has no scheduler events (sched_switch), so the states of threads are not known.")];
    sums.sort((a, b) => b[1].running_ns + b[1].runnable_ns - a[1].running_ns - a[1].runnable_ns);
    return [element("h2", "Thread states"), headed(["Thread", "States"], sums, ([thread, sums]) => {
        const open = link(`${thread.name} ${thread.tid}`, () => { const row = reveal(thread); if (row) { cursor = row; view.top = row.y; queue(); } });
        return [open, statesBar(sums, to - from)];
    })];
}

/** Returns the threads that ran on each processor in a time. */
function processorsTable(from, to) {
    const rows = [];
    for (const [cpu, ran] of [...processors()].sort((a, b) => a[0] - b[0])) {
        const byThread = new Map();
        let sum = 0;
        for (let i = first(ran.length, (i) => ran[i].end, from); i < ran.length && ran[i].start < to; i++) {
            const took = Math.min(to, ran[i].end) - Math.max(from, ran[i].start);
            sum += took;
            byThread.set(ran[i].thread, (byThread.get(ran[i].thread) || 0) + took);
        }
        if (!sum) continue;
        const most = [...byThread].sort((a, b) => b[1] - a[1]).slice(0, 3).map(([thread, took]) => `${thread.name} ${thread.tid}: ${time(took)}`).join(", ");
        rows.push([`Processor ${cpu}`, `${(100 * sum / (to - from)).toFixed(1)} %`, most]);
    }
    return rows.length ? [element("h2", "Processors"), headed(["Processor", "Busy", "Mostly"], rows, (row) => row)] : [];
}

/** Values of counters in a time range: at its begin and end, minimum, maximum, and mean over time. Changing counters come first, the app's before others. */
function countersTable(from, to) {
    const rows = [];
    for (const counter of [...counters, ...clocks.values()]) {
        const { at, value } = counter;
        let i = first(at.length, (i) => at[i], from) - 1;
        const before = i < 0 ? null : value[i];
        let low = Infinity, high = -Infinity, sum = 0, known = 0;
        for (i = Math.max(0, i); i < at.length && at[i] < to; i++) {
            const took = Math.min(to, i + 1 < at.length ? at[i + 1] : trace.last) - Math.max(from, at[i]);
            low = Math.min(low, value[i]); high = Math.max(high, value[i]);
            sum += value[i] * took; known += took;
        }
        if (high === -Infinity) continue;
        const after = value[first(at.length, (i) => at[i], to) - 1];
        const change = after - (before ?? after);
        rows.push([high > low, isApp(counter.pid), Math.abs(change) / (Math.abs(counter.high - counter.low) || 1), () => [
            link(counter.name, () => goToAny({ kind: "value", counter, place: Math.max(0, first(at.length, (i) => at[i], from) - 1) })),
            before === null ? "-" : number(before), number(after), (change > 0 ? "+" : "") + number(change), number(low), number(high), known ? number(sum / known) : number(high)]]);
    }
    rows.sort((a, b) => b[0] - a[0] || b[1] - a[1] || b[2] - a[2]);
    return rows.length ? [element("h2", "Counters"), headed(["Counter", "Before", "After", "Change", "Lowest", "Highest", "Mean"], rows, (row) => row.at(-1)())] : [];
}

/** Everything of a range but the table of slices. */
function rangeStatistics(from, to) {
    const inIt = frames.filter((one) => one.start < to && frameEnd(one) > from), late = inIt.filter((one) => one.slow).length;
    const about = frames.length ? [element("p", `${inIt.length} frames, ${late} late.`)] : [];
    const parts = [statesTable(withContent(), from, to), processorsTable(from, to), countersTable(from, to)].filter((part) => part.length);
    return [...about, besides(...parts)];
}
/** Threads with slices or of the app; all threads of a phone are hundreds. */
const withContent = () => [...threads.values()].filter((thread) => thread.slices.name.length || isApp(thread.pid));
