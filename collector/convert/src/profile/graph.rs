//! The call graph, for Graphviz.

use super::{Profile, TOPLEVEL};
use std::collections::HashSet;
use std::io::{self, Write};

/// Writes the methods that take at least `threshold` percent of the time, and calls between them. A node is
/// `[number] class.name (inclusive ms, exclusive ms, calls)`.
///
/// # Errors
/// Errors of `out`.
pub fn dot(profile: &Profile, threshold: u32, out: &mut impl Write) -> io::Result<()> {
    let least = u128::from(profile.total_us) * u128::from(threshold);
    let is_in = |us: u64| u128::from(us) * 100 >= least && us > 0;
    out.write_all(b"digraph g {\nnode [shape = record,height=.1];\n")?;
    let mut reached = HashSet::from([TOPLEVEL]);
    let mut todo = vec![TOPLEVEL];
    let mut edges = Vec::new();
    while let Some(index) = todo.pop() {
        let Some(entry) = profile.methods.get(index) else { continue };
        let name = entry.name.as_ref().map(|name| format!(".{name}")).unwrap_or_default();
        writeln!(
            out,
            "node{}[label = \"[{}] {} ({}, {}, {})\"]",
            entry.number,
            entry.number,
            escaped(&format!("{}{name}", entry.class)),
            entry.inclusive_us / 1000,
            entry.exclusive_us / 1000,
            entry.all_calls()
        )?;
        let mut called = HashSet::new();
        for edge in entry.children.iter().flatten() {
            let Some(child) = profile.methods.get(edge.method) else { continue };
            if !is_in(child.inclusive_us) || !called.insert(edge.method) {
                continue;
            }
            edges.push((entry.number, child.number));
            if reached.insert(edge.method) {
                todo.push(edge.method);
            }
        }
    }
    for (from, to) in edges {
        writeln!(out, "node{from} -> node{to}")?;
    }
    out.write_all(b"}\n")
}

/// A label of a record, with its structural characters escaped.
fn escaped(text: &str) -> String {
    let mut escaped = String::new();
    for char in text.chars() {
        if "\\\"{}<>|".contains(char) {
            escaped.push('\\');
        }
        escaped.push(if char.is_control() { ' ' } else { char });
    }
    escaped
}
