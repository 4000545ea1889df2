//! The report as text, in the original's layout.

use super::{Edge, Entry, Group, Profile, percent};
use std::io::{self, Write};

const LINE: &str = "======================================================================";
const THIN: &str = "----------------------------------------------------";
const RECURSIVE: &str = "               +++++++++++++++++++++++++";

/// Writes the report.
///
/// # Errors
/// Errors of `out`.
pub fn report(profile: &Profile, out: &mut impl Write) -> io::Result<()> {
    write!(out, "\n{LINE}\nTotal cycles: {}\n\n", profile.total_us)?;
    out.write_all(
        b"Exclusive elapsed times for each method, not including time spent in\n\
          children, sorted by exclusive time.\n\n    Usecs  self %  sum %  Method\n",
    )?;
    exclusive(profile, out)?;
    write!(
        out,
        "\n{LINE}\n\nInclusive elapsed times for each method and its parents and children,\n\
         sorted by inclusive time.\n\nindex  %/total %/self  index     calls         usecs name\n"
    )?;
    inclusive(profile, out)?;
    if profile.methods.iter().all(|entry| entry.name.is_none()) {
        return write!(out, "\n{LINE}\n\nNo classes.\n");
    }
    write!(
        out,
        "\n{LINE}\n\nExclusive elapsed time for each class, summed over all the methods\n\
         in the class.\n\n   Cycles %/total Cumul.%  Calls+Recur  Class\n"
    )?;
    let without_class = |entry: &Entry| {
        format!("{} {}", entry.name.as_deref().unwrap_or_default(), entry.signature)
    };
    groups(profile, out, &profile.groups(|entry| &entry.class), without_class)?;
    write!(
        out,
        "\n{LINE}\n\nExclusive elapsed time for each method, summed over all the classes\n\
         that contain a method with the same name.\n\n   Cycles %/total Cumul.%  Calls+Recur  Method\n"
    )?;
    let by_name = profile.groups(|entry| entry.name.as_deref().unwrap_or_default());
    groups(profile, out, &by_name, Entry::text)
}

fn exclusive(profile: &Profile, out: &mut impl Write) -> io::Result<()> {
    let total = profile.total_us;
    let mut sum = 0;
    for entry in profile.with_any(|entry| entry.exclusive_us) {
        sum += entry.exclusive_us;
        writeln!(
            out,
            "{:9}  {:6.2} {:6.2}  [{}] {}",
            entry.exclusive_us,
            percent(entry.exclusive_us, total),
            percent(sum, total),
            entry.number,
            entry.text()
        )?;
    }
    Ok(())
}

fn inclusive(profile: &Profile, out: &mut impl Write) -> io::Result<()> {
    for entry in profile.with_any(|entry| entry.inclusive_us) {
        writeln!(out, "{THIN}")?;
        edges(profile, out, entry, &entry.parents, |_| entry.all_calls())?;
        writeln!(
            out,
            "{:<6} {:5.1}%   {:5} {:6} {:6}+{:<6} {:9} {}",
            format!("[{}]", entry.number),
            percent(entry.inclusive_us, profile.total_us),
            "",
            "",
            entry.calls[0],
            entry.calls[1],
            entry.inclusive_us,
            entry.text()
        )?;
        writeln!(
            out,
            "{:6} {:5}   {:5.1}% {:>6} {:6} {:6} {:9}",
            "",
            "",
            percent(entry.outer_exclusive_us, entry.inclusive_us),
            "excl",
            "",
            "",
            entry.outer_exclusive_us
        )?;
        edges(profile, out, entry, &entry.children, Entry::all_calls)?;
    }
    Ok(())
}

fn edges(
    profile: &Profile,
    out: &mut impl Write,
    entry: &Entry,
    edges: &[Vec<Edge>; 2],
    calls: impl Fn(&Entry) -> u64,
) -> io::Result<()> {
    for (is_recursive, edges) in [false, true].into_iter().zip(edges) {
        if is_recursive && !edges.is_empty() {
            writeln!(out, "{RECURSIVE}")?;
        }
        for edge in edges {
            let Some(method) = profile.methods.get(edge.method) else { continue };
            let share = if is_recursive {
                " ".repeat(6)
            } else {
                format!("{:5.1}%", percent(edge.us, entry.inclusive_us))
            };
            writeln!(
                out,
                "{:6} {:5}   {share} {:>6} {:6}/{:<6} {:9} {}",
                "",
                "",
                format!("[{}]", method.number),
                edge.calls,
                calls(method),
                edge.us,
                method.text()
            )?;
        }
    }
    Ok(())
}

fn groups(
    profile: &Profile,
    out: &mut impl Write,
    groups: &[Group<'_>],
    text: impl Fn(&Entry) -> String,
) -> io::Result<()> {
    let mut sum = 0;
    for group in groups {
        writeln!(out, "---------------------------------------------")?;
        sum += group.exclusive_us;
        writeln!(
            out,
            "{:9} {:7.1} {:7.1} {:6}+{:<6} {}",
            group.exclusive_us,
            percent(group.exclusive_us, profile.total_us),
            percent(sum, profile.total_us),
            group.calls[0],
            group.calls[1],
            group.name
        )?;
        let mut within = 0;
        for &index in &group.methods {
            let Some(entry) = profile.methods.get(index) else { continue };
            within += entry.exclusive_us;
            writeln!(
                out,
                "{:9} {:9} {:7.1} {:7.1} {:6}+{:<6} [{}] {}",
                entry.exclusive_us,
                entry.inclusive_us,
                percent(entry.exclusive_us, group.exclusive_us),
                percent(within, group.exclusive_us),
                entry.calls[0],
                entry.calls[1],
                entry.number,
                text(entry)
            )?;
        }
    }
    Ok(())
}

/// A time of a method.
type Time = fn(&Entry) -> u64;
/// The times that are compared.
pub(crate) const TIMES: [(&str, Time); 2] =
    [("Exclusive", |entry| entry.exclusive_us), ("Inclusive", |entry| entry.inclusive_us)];

/// A method of two profiles.
pub(crate) struct Compared {
    pub(crate) text: String,
    pub(crate) us: [u64; 2],
    pub(crate) calls: [u64; 2],
}

/// Methods of two profiles by how much `of` differs.
pub(crate) fn compared(
    first: &Profile,
    second: &Profile,
    time: impl Fn(&Entry) -> u64,
) -> Vec<Compared> {
    let mut all: std::collections::BTreeMap<String, Compared> = std::collections::BTreeMap::new();
    for (side, profile) in [first, second].into_iter().enumerate() {
        for entry in profile.methods.iter().filter(|entry| time(entry) > 0 || entry.all_calls() > 0)
        {
            let text = entry.text();
            let row = all.entry(text.clone()).or_insert_with(|| Compared {
                text,
                us: [0; 2],
                calls: [0; 2],
            });
            if let (Some(us), Some(calls)) = (row.us.get_mut(side), row.calls.get_mut(side)) {
                *us += time(entry);
                *calls += entry.all_calls();
            }
        }
    }
    let mut rows: Vec<Compared> = all.into_values().collect();
    rows.sort_by_key(|row| std::cmp::Reverse(row.us[0].abs_diff(row.us[1])));
    rows
}

/// Writes the comparison of two profiles, method by method, the largest difference first.
///
/// # Errors
/// Errors of `out`.
pub fn comparison(first: &Profile, second: &Profile, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "Total cycles: {} -> {}", first.total_us, second.total_us)?;
    for (title, time) in TIMES {
        writeln!(out, "\n{title} elapsed times, sorted by difference.\n")?;
        writeln!(
            out,
            "{:>9} {:>9} {:>9} {:>8} {:>7} {:>7}  Method",
            "Run 1", "Run 2", "Diff", "Diff %", "Calls 1", "Calls 2"
        )?;
        for row in compared(first, second, time) {
            let [was, is] = row.us;
            let sign = if is < was { '-' } else { '+' };
            let share = if was == 0 {
                "new".to_owned()
            } else {
                format!("{sign}{:.1}", percent(is.abs_diff(was), was))
            };
            writeln!(
                out,
                "{was:9} {is:9} {:>9} {share:>8} {:7} {:7}  {}",
                format!("{sign}{}", is.abs_diff(was)),
                row.calls[0],
                row.calls[1],
                row.text
            )?;
        }
    }
    Ok(())
}
