//! The sentences of a capture's report.

use super::{
    Drawn, Found, MOST_BARS, Report, causes_sentence, grouped, ms, number, percent, rows, sum,
    text, without_links,
};
use serde_json::Value;
use std::collections::BTreeMap;

/// Name of the time outside of sections.
const NO_SECTION: &str = "(no section)";
/// Name of the time of a frame which no thread is known to have made.
const UNSEEN: &str = "(no thread is known to draw it)";

const WAYS: [(&str, &str); 8] = [
    ("in_time", "in time"),
    ("app", "late by the app"),
    ("system", "late by SurfaceFlinger or the graphics processor"),
    ("display", "late by the display"),
    ("stuffing", "behind earlier buffers"),
    ("dropped", "never shown"),
    ("undrawn", "without a buffer"),
    ("unknown", "late for an unknown reason"),
];

/// Returns a frame's way to the display in words.
fn way(outcome: &str) -> &'static str {
    WAYS.iter().find(|(name, _)| *name == outcome).unwrap().1
}

/// Checks the report of a capture.
pub(crate) fn check(found: &mut Found, report: &Report, drawn: &Drawn) {
    let json = &report.json;
    let totals = &json["totals"];
    let [frames, slow, janky, frozen] =
        ["frames", "slow", "janky", "frozen"].map(|field| number(totals, field));
    for (tile, expected) in [
        ("frames", grouped(frames)),
        ("slow", percent(slow, frames)),
        ("janky", percent(janky, frames)),
        ("frozen", grouped(frozen)),
        ("beyond the budget", ms(number(totals, "jank_ns"))),
        ("p50", ms(number(totals, "p50_ns"))),
        ("p90", ms(number(totals, "p90_ns"))),
        ("p99", ms(number(totals, "p99_ns"))),
    ] {
        found.same(tile, &drawn.tiles[tile], &expected);
    }
    if frames == 0 {
        return;
    }
    let source = report.text.split(" Hz (").nth(1).and_then(|rest| rest.split([',', ')']).next());
    let source = format!(" ms ({}). Click", source.unwrap_or_default());
    found.has("source of the period", &drawn.paragraphs.join(" "), &source);
    let headline = format!(
        "({}), {} janky ({}), {} frozen; {} beyond the frame budget in total",
        percent(slow, frames),
        grouped(janky),
        percent(janky, frames),
        grouped(frozen),
        ms(number(totals, "jank_ns"))
    );
    found.has("headline", &report.text, &headline);
    chart(found, json, drawn);
    if slow == 0 {
        let expected = format!("All {} frames were in time.", grouped(frames));
        found.same("first sentence", &drawn.answer[0], &expected);
        return;
    }
    first(found, json, report, drawn);
    judged(found, json, report, drawn);
    let causes = rows(json, "causes");
    let said = drawn.answer.get(1).map_or("", |said| said);
    let expected = causes_sentence(causes).unwrap_or_default();
    found.same("causes", &without_links(said), &expected);
    let cells = causes.iter().map(|row| {
        let counts = ["frames", "saved", "saved_halved", "saved_moved"];
        let mut cells = vec![text(row, "cause").to_owned(), text(row, "key").to_owned()];
        cells.extend(counts.map(|field| grouped(number(row, field))));
        cells.extend(["overrun_ns", "self_ns"].map(|field| ms(number(row, field))));
        cells
    });
    found.table("causes", drawn, "causes", &cells.collect::<Vec<_>>());
    worst(found, json, report, drawn);
}

fn first(found: &mut Found, json: &Value, report: &Report, drawn: &Drawn) {
    let totals = &json["totals"];
    let [frames, slow] = ["frames", "slow"].map(|field| number(totals, field));
    let markers = &json["judged"]["markers"];
    let late = markers["late"].as_u64().unwrap_or(0);
    let verb = match late {
        0 => "were late on the display",
        late if late == slow => "took longer than one period",
        _ => "were late",
    };
    let share = percent(slow, frames);
    let begin = format!("{} of {} frames ({share}) {verb}", grouped(slow), grouped(frames));
    found.has("first sentence", &drawn.answer[0], &begin);
    let worst = format!(", the worst by {}", ms(number(&json["worst"][0], "overrun_ns")));
    found.has("the worst frame", &drawn.answer[0], &worst);
    if late == 0 {
        return;
    }
    let [likely, least, most] =
        ["likely", "least", "most"].map(|field| number(&markers["missed"], field));
    let whose = match late == slow {
        true => "these".to_owned(),
        false => format!("the {} that the app's markers judge", grouped(late)),
    };
    let [likely_text, least_text, most_text] = [likely, least, most].map(grouped);
    let end = format!("; people see about {likely_text} of {whose} ({least_text} to {most_text})");
    found.has("what people see", &drawn.answer[0], &end);
    found.has("what people see in text", &report.text, &end);
    let is_part = least <= likely && likely <= most && most <= late;
    found.is_true("a part of the late frames", is_part);
}

fn judged(found: &mut Found, json: &Value, report: &Report, drawn: &Drawn) {
    let judged = json["judged"].as_object().unwrap();
    let mut all = 0;
    for (evidence, counts) in judged {
        for (outcome, count) in counts["outcomes"].as_object().unwrap() {
            let count = count.as_u64().unwrap();
            all += count;
            let way = match (&**evidence, &**outcome) {
                ("markers", "in_time") => "within it",
                ("markers", "app") => "over one period",
                _ => way(outcome),
            };
            let expected = format!("{} {way}", grouped(count));
            found.has("judged on the page", &drawn.paragraphs.join(" "), &expected);
            found.has("judged in text", &report.text, &expected);
        }
    }
    let late: u64 = judged.values().map(|counts| number(counts, "late")).sum();
    let totals = &json["totals"];
    found.is_true("frames by evidence", all == number(totals, "frames"));
    found.is_true("late frames by evidence", late == number(totals, "slow"));
}

fn chart(found: &mut Found, json: &Value, drawn: &Drawn) {
    let frames = rows(json, "frames");
    let rated = || frames.iter().filter(|frame| frame["pipeline"] != "vsync_callback");
    let is_slow = |frame: &&Value| frame["slow"] == true;
    let [all, slow] = [rated().count(), rated().filter(is_slow).count()];
    found.same("frames", &all.to_string(), &json["totals"]["frames"].to_string());
    found.same("late frames", &slow.to_string(), &json["totals"]["slow"].to_string());
    if frames.len() > MOST_BARS {
        return;
    }
    found.same("bars", &drawn.bars.len().to_string(), &frames.len().to_string());
    let (mut late, mut deadlines) = (0, 0);
    for frame in frames {
        let [dur, deadline] = ["dur_ns", "deadline_ns"].map(|field| number(frame, field));
        let is_due = is_slow(&frame) || dur <= deadline;
        late += usize::from(is_slow(&frame));
        deadlines += usize::from(is_due);
        let end = match is_due {
            true => format!("due after {}", ms(deadline)),
            false => way(text(frame, "outcome")).to_owned(),
        };
        let expected = format!("{} at {}, {end}", ms(dur), ms(number(frame, "at_ns")));
        found.is_true(&format!("bar {expected:?}"), drawn.bars.contains(&expected));
    }
    found.same("late bars", &drawn.late_bars.to_string(), &late.to_string());
    found.same("deadlines of bars", &drawn.deadlines.to_string(), &deadlines.to_string());
}

fn worst(found: &mut Found, json: &Value, report: &Report, drawn: &Drawn) {
    let worst = rows(json, "worst");
    let order: Vec<u64> = worst.iter().map(|one| number(one, "overrun_ns")).collect();
    found.is_true("order of the worst frames", order.is_sorted_by(|a, b| a >= b));
    let explanations = rows(json, "explanations");
    for one in worst {
        let explained = one["explanation"].as_u64();
        let explained = explained.map(|index| &explanations[usize::try_from(index).unwrap()]);
        let said = sentence(one, explained);
        let [took, at] = ["dur_ns", "at_ns"].map(|field| ms(number(one, field)));
        found.same("a frame's sentence", text(one, "sentence"), &said);
        let summary = format!("{took} at {at}, {said}; ");
        found.has("a frame on the page", &drawn.summaries.join(" / "), &summary);
        let in_text = format!("frame {} at {at}: {took}, {said}", one["number"]);
        found.has("a frame in text", &report.text, &in_text);
        let index = usize::try_from(number(one, "number") - 1).unwrap();
        let row = &rows(json, "frames")[index];
        found.is_true("a frame's row", number(row, "dur_ns") == number(one, "dur_ns"));
        let parts = sum(rows(one, "parts"), "overrun_ns");
        let overrun = number(one, "overrun_ns");
        // Each part is rounded down to a ns.
        found.is_true("overruns of parts", parts <= overrun && overrun - parts <= 64);
        if let Some(explained) = explained {
            found.same("an explanation's sentence", text(explained, "sentence"), &said);
            let expected = format!(", complete {} after that", ms(number(explained, "overrun_ns")));
            found.has("an explanation", &drawn.paragraphs.join(" "), &expected);
            let of_causes = sum(rows(explained, "causes"), "overrun_ns");
            found.same("overruns of a frame's causes", &ms(of_causes), &ms(parts));
        }
    }
}

/// Writes the end of a sentence: the work of the thread that a part waited for, or of a thread that this one waited for.
fn meanwhile(part: &Value, explained: &Value) -> String {
    let named = match text(part, "cause") {
        "lock" => part["owner"].as_str(),
        "buffer" => Some(""),
        _ => text(part, "key").strip_prefix("woken by "),
    };
    let Some(named) = named else { return String::new() };
    let peer = named.strip_prefix("another ").unwrap_or(named);
    let mut waits: Vec<Vec<&Value>> = vec![Vec::new()];
    for step in rows(explained, "path") {
        match number(step, "depth") {
            0 => waits.push(Vec::new()),
            _ => waits.last_mut().unwrap().push(step),
        }
    }
    let took = |step: &Value| number(step, "to_ns") - number(step, "from_ns");
    let wait_ns = number(part, "self_ns");
    let is_peer = |wait: &Vec<&Value>| {
        !peer.is_empty() && wait.iter().any(|step| text(step, "thread") == peer)
    };
    let is_long = |wait: &Vec<&Value>| {
        let ns: u64 = wait.iter().map(|step| took(step)).sum();
        ns * 5 >= wait_ns * 4 && ns * 4 <= wait_ns * 5
    };
    let is_named = waits.iter().any(is_peer);
    waits.retain(|wait| if is_named { is_peer(wait) } else { is_long(wait) });
    // Thread, what it did, the section.
    let mut sections: BTreeMap<[String; 3], u64> = BTreeMap::new();
    for step in waits.into_iter().flatten().filter(|step| number(step, "joined") == 1) {
        let did = match text(step, "state") {
            "running" => "ran",
            "runnable" => "waited for a processor for",
            "uninterruptible" => "waited in the kernel for",
            "io" => "waited for a disk for",
            _ => continue,
        };
        let name = text(step, "thread");
        let thread = match (name == peer, named == peer) {
            (true, false) => format!("{name} {}", number(step, "tid")),
            // Threads of one name are different threads.
            _ => format!("{name}\n{}", number(step, "tid")),
        };
        let key = [&*thread, did, text(step, "what")].map(str::to_owned);
        *sections.entry(key).or_default() += took(step);
    }
    let summed = |fields: usize| {
        let mut sums: BTreeMap<Vec<String>, u64> = BTreeMap::new();
        sections
            .iter()
            .for_each(|(key, ns)| *sums.entry(key[..fields].to_vec()).or_default() += ns);
        sums
    };
    for fields in [3, 1] {
        let longest = summed(fields).into_iter().max_by_key(|(_, ns)| *ns);
        let Some((key, ns)) = longest.filter(|(_, ns)| ns * 2 >= wait_ns && *ns <= wait_ns) else {
            continue;
        };
        let mut work: Vec<(String, u64)> = match key.get(1) {
            Some(did) => vec![(did.clone(), ns)],
            None => {
                let of_thread = summed(2).into_iter().filter(|(one, _)| one[0] == key[0]);
                of_thread.map(|(one, ns)| (one[1].clone(), ns)).collect()
            }
        };
        work.sort_by_key(|(_, ns)| std::cmp::Reverse(*ns));
        let work: Vec<_> =
            work.iter().take(2).map(|(did, ns)| format!("{did} {}", ms(*ns))).collect();
        let section = key.get(2).filter(|section| !section.starts_with('('));
        let inside = section.map_or(String::new(), |section| format!(" in {section}"));
        let thread = key[0].split('\n').next().unwrap();
        return format!("; meanwhile {thread} {}{inside}", work.join(" and "));
    }
    String::new()
}

/// Writes a key that a part's name does not end with.
fn detail(name: &str, key: &str) -> String {
    if name.ends_with(key) { String::new() } else { format!(" ({key})") }
}

/// Writes what the thread that ran most did, and how long it did it.
fn in_all(parts: &[Value]) -> Option<(u64, String)> {
    let mut sums: BTreeMap<(String, &str), BTreeMap<&str, u64>> = BTreeMap::new();
    for part in parts {
        let name = text(part, "name");
        let is_own = name == NO_SECTION || !name.starts_with('(');
        if !is_own || part["overrun_ns"] == 0 {
            continue;
        }
        for (state, did) in [("running_ns", "ran"), ("unknown_ns", "took")] {
            let of_thread = sums.entry((text(part, "thread").to_owned(), did)).or_default();
            *of_thread.entry(name).or_default() += number(&part["states"], state);
        }
    }
    let all = sums.into_iter().map(|(at, names)| (names.values().sum::<u64>(), at, names));
    let (ns, (thread, did), names) = all.max_by_key(|(ns, ..)| *ns)?;
    let longest = names.values().copied().max()?;
    let name = names.into_iter().rfind(|(_, ns)| *ns == longest)?.0;
    let inside = match name {
        NO_SECTION => "outside any section".to_owned(),
        name => format!("in {name}"),
    };
    Some((ns, format!("{thread} {did} {} in all, {} of that {inside}", ms(ns), ms(longest))))
}

/// Writes a frame's sentence.
fn sentence(one: &Value, explained: Option<&Value>) -> String {
    let dropped = number(one, "dropped");
    let lateness = match (text(one, "evidence"), text(one, "outcome")) {
        ("markers", _) => match number(one, "cadence") {
            0 | 1 => "over one period".to_owned(),
            periods => format!("over {periods} periods"),
        },
        (_, outcome) => {
            let plural = if dropped == 1 { "" } else { "s" };
            let way = match outcome {
                "app" => String::new(),
                other => format!(", {}", way(other)),
            };
            format!("late, {dropped} vsync{plural} missed{way}")
        }
    };
    let late = format!("{} {lateness}", ms(number(one, "overrun_ns")));
    let mut said = Vec::new();
    let delay = number(one, "delayed_ns");
    if delay > 0 && delay * 3 >= number(one, "overrun_ns") {
        said.push(format!("an earlier frame delayed it by {}", ms(delay)));
    }
    said.extend(largest(one, explained));
    // SurfaceFlinger's own lateness: its scheduling, its processor, its graphics processor.
    let timeline = explained.map(|explained| &explained["timeline"]);
    let is_system =
        |timeline: &&Value| timeline["jank"].as_i64().is_some_and(|bits| bits & 50 != 0);
    let later = timeline.filter(is_system).map_or(0, |timeline| number(timeline, "shown_late_ns"));
    if text(one, "outcome") == "app" && later > 0 && later * 3 >= number(one, "overrun_ns") {
        said.push(format!("then SurfaceFlinger was {} late with it", ms(later)));
    }
    if said.is_empty() { late } else { format!("{late}: {}", said.join("; ")) }
}

/// Joins the parts of a section that are steps in it, each with a name of its own.
fn with_steps(parts: Vec<Value>) -> Vec<Value> {
    let mut all: Vec<Value> = Vec::new();
    for part in parts {
        let causes = ["section", "compose", "inflate", "resources", "class_loading"];
        let is_section = causes.contains(&text(&part, "cause"));
        let same = ["thread", "cause", "key"];
        let found = all
            .iter_mut()
            .find(|one| is_section && same.iter().all(|field| one[*field] == part[*field]));
        let Some(one) = found else {
            all.push(part);
            continue;
        };
        one["name"] = part["key"].clone();
        for field in ["self_ns", "carried_ns", "overrun_ns"] {
            one[field] = (number(one, field) + number(&part, field)).into();
        }
        for (state, ns) in part["states"].as_object().unwrap() {
            one["states"][state] = (number(&one["states"], state) + ns.as_u64().unwrap()).into();
        }
    }
    all
}

/// Writes what made most of a frame's own time.
fn largest(one: &Value, explained: Option<&Value>) -> Option<String> {
    let parts = rows(one, "parts").iter().filter(|part| part["earlier"] == false);
    let parts = with_steps(parts.cloned().collect());
    let late_ns = number(one, "overrun_ns");
    let is_display = |part: &Value| part["thread"] == "gpu";
    let took_ns = |part: &Value| {
        let carried = if is_display(part) { number(part, "carried_ns") } else { 0 };
        number(part, "self_ns") + carried
    };
    let counted = |part: &Value| if part["overrun_ns"] == 0 { 0 } else { took_ns(part) };
    let total: u64 = parts.iter().map(counted).sum();
    let is_ready = |part: &Value| {
        matches!(text(part, "cause"), "runnable" | "preempted") && part["overrun_ns"] != 0
    };
    let mut ready: Vec<(String, u64)> = Vec::new();
    for role in ["main", "render", "ui", "raster", "game", "present", "producer", "js", "gpu"] {
        let of_role = parts.iter().filter(|part| is_ready(part) && part["thread"] == role);
        ready.push((role.to_owned(), of_role.map(took_ns).sum()));
    }
    let all: u64 = ready.iter().map(|(_, ns)| ns).sum();
    // Waits of threads that have at least a fifth of all are one.
    let added_up = |part: &Value| -> Vec<&(String, u64)> {
        let own = ready.iter().filter(|(role, _)| *role == text(part, "thread"));
        let own: Vec<_> = own.collect();
        match own[0].1 * 5 >= all {
            true => ready.iter().filter(|(_, ns)| *ns > 0 && ns * 5 >= all).collect(),
            false => own,
        }
    };
    let waits = |part: &Value| -> u64 { added_up(part).iter().map(|(_, ns)| ns).sum() };
    let is_unseen = |part: &Value| text(part, "name") == UNSEEN;
    let weight = |part: &Value| match counted(part) {
        ns if is_unseen(part) && ns * 2 < total => 0,
        _ if is_ready(part) => waits(part),
        ns => ns,
    };
    let is_blamed =
        |part: &Value| one["outcome"] == "system" && is_display(part) && part["overrun_ns"] != 0;
    let rank = |part: &Value| (is_blamed(part), weight(part), took_ns(part));
    let most = parts.iter().map(rank).max()?;
    let part = parts.iter().find(|part| rank(part) == most)?;
    if took_ns(part) == 0 {
        return None;
    }
    let most = if is_ready(part) { waits(part) } else { took_ns(part) };
    let names: Vec<&str> = added_up(part).iter().map(|(role, _)| &**role).collect();
    let waited = is_ready(part).then(|| (most, names.join(" and ")));
    let cause = cause(part, took_ns(part), waited);
    let earlier = number(part, "carried_ns");
    if is_display(part) && earlier * 2 > most {
        return Some(format!("{cause}, {} of that behind an earlier frame", ms(earlier)));
    }
    if is_display(part) || is_unseen(part) {
        return Some(cause);
    }
    let is_small = |ns: u64| ns * 3 < total && ns < late_ns;
    let several = |ns: u64| if is_small(ns) { ", the largest of several causes" } else { "" };
    if let Some((ns, ran)) = in_all(&parts)
        && is_small(most)
        && ns * 2 > most * 3
    {
        return Some(format!("{ran}{}", several(ns)));
    }
    let meanwhile = explained.map_or(String::new(), |explained| meanwhile(part, explained));
    Some(format!("{cause}{}{meanwhile}", several(most)))
}

/// Writes what a part of a frame was.
fn cause(part: &Value, took_ns: u64, waited: Option<(u64, String)>) -> String {
    let took = ms(took_ns);
    let thread = text(part, "thread");
    if text(part, "name") == UNSEEN {
        return format!("no thread is known to have drawn it in {took}");
    }
    if let Some((waited_ns, threads)) = waited.filter(|&(ns, _)| ns > took_ns) {
        let holder = text(part, "key").strip_prefix("by ");
        let holder = holder.filter(|_| part["cause"] == "preempted" && took_ns * 2 >= waited_ns);
        let most =
            holder.map_or(String::new(), |who| format!(", {took} of them mostly behind {who}"));
        return format!("{threads} waited for a processor for {}{most}", ms(waited_ns));
    }
    let words = text(part, "name").strip_prefix('(').and_then(|name| name.strip_suffix(')'));
    let name = words.unwrap_or(text(part, "name"));
    let is_section = words.is_none() && !name.ends_with(NO_SECTION);
    if part["thread"] == "gpu" && words.is_some() {
        return format!("the complete frame waited {took} for the {name}");
    }
    let states = [
        ("unknown_ns", "took"),
        ("io_ns", "waited for a disk for"),
        ("uninterruptible_ns", "waited in the kernel for"),
        ("asleep_ns", "slept"),
        ("runnable_ns", "waited for a processor for"),
        ("running_ns", "ran"),
    ];
    // The first of the longest.
    let mut longest = states[0];
    for state in states {
        if number(&part["states"], state.0) > number(&part["states"], longest.0) {
            longest = state;
        }
    }
    let did = match text(part, "cause") {
        "runnable" | "preempted" => "waited for a processor for",
        "sleep" | "wait" | "buffer"
            if states.iter().all(|state| number(&part["states"], state.0) == 0) =>
        {
            "slept"
        }
        _ => longest.1,
    };
    let inside = if is_section { format!(" in {name}") } else { String::new() };
    let (cause, key) = (text(part, "cause"), text(part, "key"));
    let why = match (cause, key) {
        ("sleep", _) => " until a timer woke it".to_owned(),
        ("buffer", _) if did == "slept" => " until a buffer was free".to_owned(),
        (_, key) if key.starts_with("woken by ") => format!(" until {} woke it", &key[9..]),
        ("preempted", key) => {
            format!(", which {} had most of the time", key.strip_prefix("by ").unwrap_or(key))
        }
        ("runnable" | "section" | "unexplained", _) => String::new(),
        ("core" | "clock", key) => format!(", {}", &key["ran ".len()..]),
        // The verb says it.
        ("kernel", key) if longest.0 == "uninterruptible_ns" => detail(name, key),
        ("io", key) if longest.0 == "io_ns" => detail(name, key),
        (cause, key) if name.ends_with(key) && name.starts_with(cause) => String::new(),
        (cause, key) if name.ends_with(key) => format!(" ({cause})"),
        (cause, key) => format!(" ({cause}: {key})"),
    };
    format!("{thread} {did} {took}{inside}{why}")
}
