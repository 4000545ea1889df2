//! The report as one self-contained HTML page.

use super::report::{TIMES, compared};
use super::{Edge, Entry, Group, Profile, percent};
use std::io::{self, Write};

const HEAD: &str = "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
    <meta name=\"viewport\" content=\"width=device-width\"><title>Method profile</title><style>\
    body{font:14px/1.4 ui-monospace,monospace;margin:1em;overflow-wrap:anywhere}\
    table{border-collapse:collapse}td,th{padding:1px 8px;text-align:right;vertical-align:top;white-space:nowrap}\
    td:last-child,th:last-child{text-align:left;white-space:normal}tr.of{font-weight:bold}tbody{border-top:1px solid #ccc}\
    a{text-decoration:none}a:hover{text-decoration:underline}.parent{background:#ead9f7}.child{background:#fdf3bf}\
    @media(prefers-color-scheme:dark){body{background:#111;color:#ddd}a{color:#8cf}tbody{border-color:#444}\
    .parent{background:#3b2450}.child{background:#45400f}}\
    </style></head><body>\n";

/// Writes the report. `sortable` is the original's `-s`: the address of a script.
///
/// # Errors
/// Errors of `out`.
pub fn html(profile: &Profile, sortable: Option<&str>, out: &mut impl Write) -> io::Result<()> {
    head(sortable, out)?;
    out.write_all(
        b"<h1>Method profile</h1><p><a href=\"#exclusive\">Exclusive</a> \
        <a href=\"#inclusive\">Inclusive</a> <a href=\"#class\">Classes</a> \
        <a href=\"#method\">Methods</a></p>\n",
    )?;
    writeln!(out, "<p>Total: {} \u{b5}s</p>", profile.total_us)?;
    exclusive(profile, out)?;
    inclusive(profile, out)?;
    let by_class = profile.groups(|entry| &entry.class);
    groups(profile, out, "class", "Exclusive time of each class", &by_class)?;
    let by_name = profile.groups(|entry| entry.name.as_deref().unwrap_or_default());
    groups(profile, out, "method", "Exclusive time of methods of the same name", &by_name)?;
    out.write_all(b"</body></html>\n")
}

/// Writes the comparison of two profiles, method by method.
///
/// # Errors
/// Errors of `out`.
pub fn comparison_html(
    profiles: [&Profile; 2],
    names: [&str; 2],
    sortable: Option<&str>,
    out: &mut impl Write,
) -> io::Result<()> {
    head(sortable, out)?;
    let [first, second] = profiles;
    let [from, to] = names.map(escaped);
    writeln!(out, "<h1>Method profiles</h1><p>Run 1: {from}<br>Run 2: {to}</p>")?;
    for (title, time) in TIMES {
        writeln!(
            out,
            "<h2>{title}</h2><table class=\"sortable\" id=\"{}\"><tr><th>Run 1 \u{b5}s</th><th>Run 2 \u{b5}s</th>\
            <th>Diff</th><th>Diff (%)</th><th>Calls 1</th><th>Calls 2</th><th>Method</th></tr>",
            title.to_lowercase()
        )?;
        for row in compared(first, second, time) {
            let [was, is] = row.us;
            let sign = if is < was { '-' } else { '+' };
            writeln!(
                out,
                "<tr><td>{was}</td><td>{is}</td><td>{sign}{}</td><td>{sign}{:.1}</td><td>{}</td><td>{}</td><td>{}</td></tr>",
                is.abs_diff(was),
                percent(is.abs_diff(was), was),
                row.calls[0],
                row.calls[1],
                escaped(&row.text)
            )?;
        }
        out.write_all(b"</table>\n")?;
    }
    out.write_all(b"</body></html>\n")
}

fn head(sortable: Option<&str>, out: &mut impl Write) -> io::Result<()> {
    out.write_all(HEAD.as_bytes())?;
    match sortable {
        Some(base) => writeln!(out, "<script src=\"{}sortable.js\"></script>", escaped(base)),
        None => Ok(()),
    }
}

/// Text escaped for a page.
pub(crate) fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for char in text.chars() {
        match char {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            char => escaped.push(char),
        }
    }
    escaped
}

/// A method's number, as a link to its callers and callees, and its text.
fn linked(entry: &Entry) -> String {
    format!("<a href=\"#m{0}\">[{0}]</a> {1}", entry.number, escaped(&entry.text()))
}

fn exclusive(profile: &Profile, out: &mut impl Write) -> io::Result<()> {
    out.write_all(
        b"<h2 id=\"exclusive\">Exclusive</h2><table class=\"sortable\"><tr><th>\xc2\xb5s</th>\
        <th>self %</th><th>sum %</th><th>Method</th></tr>\n",
    )?;
    let mut sum = 0;
    for entry in profile.with_any(|entry| entry.exclusive_us) {
        sum += entry.exclusive_us;
        let total = profile.total_us;
        writeln!(
            out,
            "<tr><td>{}</td><td>{:.2}</td><td>{:.2}</td><td>{}</td></tr>",
            entry.exclusive_us,
            percent(entry.exclusive_us, total),
            percent(sum, total),
            linked(entry)
        )?;
    }
    out.write_all(b"</table>\n")
}

fn inclusive(profile: &Profile, out: &mut impl Write) -> io::Result<()> {
    out.write_all(
        b"<h2 id=\"inclusive\">Inclusive, with parents and children</h2><table><thead><tr><th>%/total</th>\
        <th>%/self</th><th>calls</th><th>\xc2\xb5s</th><th>Method</th></tr></thead>\n",
    )?;
    for entry in profile.with_any(|entry| entry.inclusive_us) {
        writeln!(out, "<tbody id=\"m{}\">", entry.number)?;
        edges(profile, out, "parent", entry, &entry.parents, |_| entry.all_calls())?;
        writeln!(
            out,
            "<tr class=\"of\"><td>{:.1}</td><td></td><td>{}+{}</td><td>{}</td><td>{}</td></tr>\n\
            <tr><td></td><td>{:.1}</td><td></td><td>{}</td><td>(itself)</td></tr>",
            percent(entry.inclusive_us, profile.total_us),
            entry.calls[0],
            entry.calls[1],
            entry.inclusive_us,
            linked(entry),
            percent(entry.outer_exclusive_us, entry.inclusive_us),
            entry.outer_exclusive_us
        )?;
        edges(profile, out, "child", entry, &entry.children, Entry::all_calls)?;
        out.write_all(b"</tbody>\n")?;
    }
    out.write_all(b"</table>\n")
}

fn edges(
    profile: &Profile,
    out: &mut impl Write,
    kind: &str,
    entry: &Entry,
    edges: &[Vec<Edge>; 2],
    calls: impl Fn(&Entry) -> u64,
) -> io::Result<()> {
    for (is_recursive, edges) in [false, true].into_iter().zip(edges) {
        for edge in edges {
            let Some(method) = profile.methods.get(edge.method) else { continue };
            let share = if is_recursive {
                "recursive".to_owned()
            } else {
                format!("{:.1}", percent(edge.us, entry.inclusive_us))
            };
            writeln!(
                out,
                "<tr class=\"{kind}\"><td></td><td>{share}</td><td>{}/{}</td><td>{}</td><td>{}</td></tr>",
                edge.calls,
                calls(method),
                edge.us,
                linked(method)
            )?;
        }
    }
    Ok(())
}

fn groups(
    profile: &Profile,
    out: &mut impl Write,
    id: &str,
    title: &str,
    groups: &[Group<'_>],
) -> io::Result<()> {
    writeln!(out, "<h2 id=\"{id}\">{title}</h2>")?;
    for group in groups {
        writeln!(
            out,
            "<details><summary>{} \u{b5}s, {:.1} %, {}+{} calls: {}</summary><table>",
            group.exclusive_us,
            percent(group.exclusive_us, profile.total_us),
            group.calls[0],
            group.calls[1],
            escaped(group.name)
        )?;
        for &index in &group.methods {
            let Some(entry) = profile.methods.get(index) else { continue };
            writeln!(
                out,
                "<tr><td>{}</td><td>{}</td><td>{:.1}</td><td>{}+{}</td><td>{}</td></tr>",
                entry.exclusive_us,
                entry.inclusive_us,
                percent(entry.exclusive_us, group.exclusive_us),
                entry.calls[0],
                entry.calls[1],
                linked(entry)
            )?;
        }
        out.write_all(b"</table></details>\n")?;
    }
    Ok(())
}
