//! The profile of a method trace, as in Traceview and dmtracedump: exclusive and inclusive time of each method,
//! its callers and its callees.
//!
//! The numbers are the original's: a call is recursive when the same method is open below it on its thread; inclusive time
//! is that of calls that are not. Errors that make the original give up (an end of a method that is not the innermost one)
//! or miscount (an end without an open method) are repaired here, and counted.

mod dump;
mod graph;
mod html;
mod report;

pub use dump::dump;
pub use graph::dot;
pub(crate) use html::escaped;
pub use html::{comparison_html, html};
pub use report::{comparison, report};

use std::collections::HashMap;
use tracetee_trace::method::{Action, Method, MethodTrace};

/// Index of the entry that calls all outermost methods.
pub const TOPLEVEL: usize = 0;
const UNKNOWN: usize = 1;

/// A profile.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Profile {
    /// Methods. The first represents time outside all methods, the second methods that the trace does not name.
    pub methods: Vec<Entry>,
    /// Time of all threads from their first record to their last, µs.
    pub total_us: u64,
    /// Ends of methods that were not open.
    pub stray_ends: u64,
    /// Calls that ended with the enclosing call, or with their thread.
    pub unclosed: u64,
}

/// A method.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Entry {
    /// Class, or the whole name if it has no class.
    pub class: String,
    /// Name.
    pub name: Option<String>,
    /// Signature.
    pub signature: String,
    /// Exclusive time, µs.
    pub exclusive_us: u64,
    /// Inclusive time of calls that are not recursive, µs.
    pub inclusive_us: u64,
    /// Exclusive time in calls that are not recursive.
    pub outer_exclusive_us: u64,
    /// Number of calls: not recursive, recursive.
    pub calls: [u64; 2],
    /// Callers, in calls that are not recursive and in those that are.
    pub parents: [Vec<Edge>; 2],
    /// Callees of calls that are not recursive, and of recursive calls.
    pub children: [Vec<Edge>; 2],
    /// Rank by inclusive time: reports refer to the method by this number.
    pub number: usize,
}

/// Calls from one method to another.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Edge {
    /// Index of the other method.
    pub method: usize,
    /// Time, µs.
    pub us: u64,
    /// Number of calls.
    pub calls: u64,
}

impl Entry {
    fn from_method(method: &Method) -> Self {
        let Method { class, name, signature, .. } = method.clone();
        Self { class, name, signature, ..Self::default() }
    }

    fn named(class: &str) -> Self {
        Self { class: class.to_owned(), ..Self::default() }
    }

    /// Returns the text of reports: `class.name signature`.
    #[must_use]
    pub fn text(&self) -> String {
        match &self.name {
            Some(name) => format!("{}.{name} {}", self.class, self.signature),
            None => self.class.clone(),
        }
    }

    /// Returns the number of all calls.
    #[must_use]
    pub const fn all_calls(&self) -> u64 {
        self.calls[0] + self.calls[1]
    }

    fn order(&self) -> (&str, &str, &str) {
        (&self.class, self.name.as_deref().unwrap_or(""), &self.signature)
    }
}

#[derive(Debug, Default)]
struct Stack {
    /// Place of the method, its begin, and whether it is recursive.
    open: Vec<(usize, u64, bool)>,
    /// Number of open calls of each method.
    depth: HashMap<usize, u32>,
    last_us: u64,
    first_us: u64,
}

/// Time and calls, by child (or parent) and whether the call is recursive.
type Edges = HashMap<(usize, usize, bool), (u64, u64)>;

impl Profile {
    /// Makes the profile of a method trace.
    #[must_use]
    pub fn from_trace(trace: &MethodTrace) -> Self {
        let mut profile = Self::default();
        profile.methods.push(Entry::named("(toplevel)"));
        profile.methods.push(Entry::named("(unknown)"));
        profile.methods.extend(trace.methods.iter().map(Entry::from_method));
        let places: HashMap<u32, usize> =
            trace.methods.iter().zip(2..).map(|(method, index)| (method.id, index)).collect();
        let (mut parents, mut children) = (Edges::new(), Edges::new());
        let mut stacks: Vec<Option<Stack>> = Vec::new();
        for record in &trace.records {
            let thread = usize::from(record.thread);
            if stacks.len() <= thread {
                stacks.resize_with(thread + 1, || None);
            }
            let Some(slot) = stacks.get_mut(thread) else { continue };
            let now_us = record.time_us;
            let stack = slot.get_or_insert_with(|| Stack {
                last_us: now_us,
                first_us: now_us,
                ..Stack::default()
            });
            profile.charge(stack, now_us);
            let method = places.get(&record.method).copied().unwrap_or(UNKNOWN);
            if record.action == Action::Enter {
                let depth = stack.depth.entry(method).or_default();
                stack.open.push((method, stack.last_us, *depth > 0));
                *depth += 1;
                continue;
            }
            if stack.depth.get(&method).copied().unwrap_or(0) == 0 {
                profile.stray_ends += 1;
                continue;
            }
            while let Some(&(innermost, ..)) = stack.open.last() {
                profile.pop(stack, &mut parents, &mut children);
                if innermost == method {
                    break;
                }
                profile.unclosed += 1;
            }
        }
        for stack in stacks.iter_mut().flatten() {
            while !stack.open.is_empty() {
                profile.pop(stack, &mut parents, &mut children);
                profile.unclosed += 1;
            }
            profile.total_us += stack.last_us - stack.first_us;
        }
        profile.link(&parents, &children);
        if let Some(toplevel) = profile.methods.get_mut(TOPLEVEL) {
            toplevel.inclusive_us = profile.total_us;
            toplevel.outer_exclusive_us = toplevel.exclusive_us;
        }
        for (number, index) in profile.by(|entry| entry.inclusive_us).into_iter().enumerate() {
            if let Some(entry) = profile.methods.get_mut(index) {
                entry.number = number;
            }
        }
        profile
    }

    /// The time since the thread's last record is the innermost method's.
    fn charge(&mut self, stack: &mut Stack, now_us: u64) {
        // A clock that went back does not reduce the time.
        let took = now_us.saturating_sub(stack.last_us);
        stack.last_us = stack.last_us.max(now_us);
        let (method, is_recursive) =
            stack.open.last().map_or((TOPLEVEL, false), |&(method, _, is)| (method, is));
        if let Some(entry) = self.methods.get_mut(method) {
            entry.exclusive_us += took;
            entry.outer_exclusive_us += if is_recursive { 0 } else { took };
        }
    }

    fn pop(&mut self, stack: &mut Stack, parents: &mut Edges, children: &mut Edges) {
        let Some((method, began_us, is_recursive)) = stack.open.pop() else { return };
        if let Some(depth) = stack.depth.get_mut(&method) {
            *depth -= 1;
        }
        let took = stack.last_us - began_us;
        let (caller, is_caller_recursive) =
            stack.open.last().map_or((TOPLEVEL, false), |&(caller, _, is)| (caller, is));
        if let Some(entry) = self.methods.get_mut(method) {
            entry.inclusive_us += if is_recursive { 0 } else { took };
            entry.calls[usize::from(is_recursive)] += 1;
        }
        for edge in [
            parents.entry((method, caller, is_recursive)).or_default(),
            children.entry((caller, method, is_caller_recursive)).or_default(),
        ] {
            edge.0 += took;
            edge.1 += 1;
        }
    }

    fn link(&mut self, parents: &Edges, children: &Edges) {
        let parents = parents.iter().map(|edge| (edge, true));
        for ((&(from, method, is_recursive), &(us, calls)), is_parent) in
            parents.chain(children.iter().map(|edge| (edge, false)))
        {
            let Some(entry) = self.methods.get_mut(from) else { continue };
            let edges = if is_parent { &mut entry.parents } else { &mut entry.children };
            edges[usize::from(is_recursive)].push(Edge { method, us, calls });
        }
        // Ties are in the order of their names, as everywhere.
        let mut rank = vec![0; self.methods.len()];
        for (number, index) in self.by(|_| 0).into_iter().enumerate() {
            if let Some(rank) = rank.get_mut(index) {
                *rank = number;
            }
        }
        for entry in &mut self.methods {
            for edges in entry.parents.iter_mut().chain(&mut entry.children) {
                edges.sort_by_key(|edge| {
                    (std::cmp::Reverse(edge.us), rank.get(edge.method).copied())
                });
            }
        }
    }

    /// All methods, those with the most first.
    #[must_use]
    pub fn by(&self, value: impl Fn(&Entry) -> u64) -> Vec<usize> {
        let mut indices: Vec<usize> = (0..self.methods.len()).collect();
        indices.sort_by(|&a, &b| {
            let (Some(a), Some(b)) = (self.methods.get(a), self.methods.get(b)) else {
                return std::cmp::Ordering::Equal;
            };
            value(b).cmp(&value(a)).then_with(|| a.order().cmp(&b.order()))
        });
        indices
    }

    /// The methods that have any time, the most first.
    pub(crate) fn with_any(&self, time: fn(&Entry) -> u64) -> impl Iterator<Item = &Entry> {
        let entries = self.by(time).into_iter().filter_map(|index| self.methods.get(index));
        entries.take_while(move |entry| time(entry) > 0)
    }
}

/// Methods together: of a class, or of a name.
pub(crate) struct Group<'a> {
    pub(crate) name: &'a str,
    pub(crate) exclusive_us: u64,
    pub(crate) calls: [u64; 2],
    /// The most first.
    pub(crate) methods: Vec<usize>,
}

impl Profile {
    /// Groups by the result of `name`, most time first; groups without time are omitted.
    pub(crate) fn groups<'a>(&'a self, name: impl Fn(&'a Entry) -> &'a str) -> Vec<Group<'a>> {
        let mut groups: Vec<Group<'a>> = Vec::new();
        let mut places: HashMap<&str, usize> = HashMap::new();
        for index in self.by(|entry| entry.exclusive_us) {
            let Some(entry) = self.methods.get(index).filter(|entry| entry.name.is_some()) else {
                continue;
            };
            let name = name(entry);
            let at = *places.entry(name).or_insert_with(|| {
                groups.push(Group { name, exclusive_us: 0, calls: [0; 2], methods: Vec::new() });
                groups.len() - 1
            });
            let Some(group) = groups.get_mut(at) else { continue };
            group.exclusive_us += entry.exclusive_us;
            group.calls[0] += entry.calls[0];
            group.calls[1] += entry.calls[1];
            group.methods.push(index);
        }
        groups.retain(|group| group.exclusive_us > 0);
        // Order of ties as in the original: by the class of the first one, then as in the file.
        let tie = |group: &Group<'_>| {
            let first = group.methods.first().copied().unwrap_or_default();
            let class = self.methods.get(first).map(|first| &*first.class);
            (class, first)
        };
        groups
            .sort_by(|a, b| b.exclusive_us.cmp(&a.exclusive_us).then_with(|| tie(a).cmp(&tie(b))));
        groups
    }
}

/// A share, in percent.
#[allow(clippy::cast_precision_loss, reason = "a share, for people")]
pub(crate) fn percent(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 * 100.0 / whole as f64 }
}

#[cfg(test)]
mod tests;
