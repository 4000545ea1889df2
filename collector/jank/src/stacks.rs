//! Stacks: the names from a thread inwards, as flame graphs want them, with the time in each.
//!
//! They are the nodes of a tree, so that a slice's stack costs as much as its own name however deep it
//! lies; a stack becomes a text at the end, and only those that took longest do. `attribute` calls this.

use crate::Named;
use crate::cause::{is_prefetch, is_step_of_compose};
use crate::name_index::NameIndex;
use crate::process::Error;
use crate::thread_role::ThreadRole;
use crate::watch::Watch;
use indexmap::IndexSet;
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use tracetee_trace::{NO_PARENT, NameId, Seeded, Slice, Thread};

/// The name of all parts that are not distinguished.
pub(crate) const OTHER: &str = "(other)";
/// Limit of nested slices: time of deeper slices is attributed to the slice at this depth.
const MAX_DEPTH: u32 = 256;
/// Limit of stacks of a trace; a real app has some hundreds.
const MAX_STACKS: usize = 5_000;
/// Limit of a stack's text in bytes; inner slices beyond it are cut off.
const MAX_STACK_BYTES: usize = 4_096;
/// The end of a stack that is cut off.
const DEEPER: &str = ";(deeper)";

/// Time by stack, over the janky frames of a screen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stack {
    /// The screen that was shown.
    pub screen: Option<Arc<str>>,
    /// Names from the thread inwards, joined by `;`: the format of flame graphs.
    pub stack: String,
    /// Time in the innermost slice.
    pub self_ns: u64,
    /// Number of slices.
    pub count: u64,
}

/// The stack and the cause of a slice.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Kin {
    /// Node of the slice's stack.
    pub(crate) node: u32,
    /// The slice whose name represents it: itself, unless it is too deep.
    pub(crate) shown: u32,
    /// The slice that determines the cause: the slice itself or its nearest ancestor that has one, else [`NO_PARENT`].
    pub(crate) cause_slice: u32,
    depth: u32,
}

/// The [`Kin`] of a thread's slices, each found on demand, because most frames are not late.
#[derive(Debug)]
pub(crate) struct Lineage<'a> {
    root: u32,
    slices: &'a [Slice],
    known: HashMap<u32, Kin, Seeded>,
}

impl<'a> Lineage<'a> {
    pub(crate) fn new(role: ThreadRole, thread: &'a Thread) -> Self {
        Self { root: Stacks::root(role), slices: &thread.slices, known: HashMap::default() }
    }

    /// Returns the slice's kin, `None` if there is no such slice. Looks at each slice once, however often it is the parent of
    /// one that is asked for.
    ///
    /// # Errors
    /// [`Error::Stopped`] if `watch` ends the analysis.
    pub(crate) fn kin(
        &mut self,
        index: u32,
        names: &NameIndex<'_>,
        stacks: &mut Stacks,
        watch: &Watch,
    ) -> Result<Option<Kin>, Error> {
        let mut unknown = Vec::new();
        let mut around = None;
        let mut at = index;
        while let Some(slice) = self.slices.get(at as usize) {
            around = self.known.get(&at).copied();
            if around.is_some() {
                break;
            }
            unknown.push((at, slice.name));
            // Parents come before their children.
            at = if slice.parent < at { slice.parent } else { NO_PARENT };
        }
        for (index, name) in unknown.into_iter().rev() {
            if self.known.len().is_multiple_of(1024) {
                watch.check()?;
            }
            let kin = match around {
                Some(around) if around.depth >= MAX_DEPTH => around,
                _ => self.child(around, index, name, names, stacks),
            };
            self.known.insert(index, kin);
            around = Some(kin);
        }
        Ok(around)
    }

    fn child(
        &self,
        around: Option<Kin>,
        index: u32,
        name: NameId,
        names: &NameIndex<'_>,
        stacks: &mut Stacks,
    ) -> Kin {
        let named = names.named(name);
        let node = stacks.child(around.map_or(self.root, |kin| kin.node), &named.name);
        let inherited = around.map_or(NO_PARENT, |kin| kin.cause_slice);
        let is_prefetch = |outer: &Slice| is_prefetch(&names.named(outer.name).name);
        let is_step = is_step_of_compose(&named.name)
            && self.slices.get(inherited as usize).is_some_and(is_prefetch);
        let cause_slice = if named.cause.is_some() && !is_step { index } else { inherited };
        Kin { node, shown: index, cause_slice, depth: around.map_or(0, |kin| kin.depth) + 1 }
    }
}

/// The tree of stacks, and the time in them.
#[derive(Debug, Default)]
pub(crate) struct Stacks {
    names: IndexSet<Arc<str>, Seeded>,
    /// Parent node and name.
    nodes: Vec<(u32, u32)>,
    children: HashMap<(u32, u32), u32, Seeded>,
    screens: BTreeMap<Option<Arc<str>>, u32>,
    /// Time and number of slices by screen and node.
    sums: HashMap<(u32, u32), (u64, u64), Seeded>,
}

/// The first number of a node; lower numbers represent the threads.
#[allow(clippy::cast_possible_truncation, reason = "a few roles")]
const FIRST_NODE: u32 = ThreadRole::ALL.len() as u32;

impl Stacks {
    const fn root(role: ThreadRole) -> u32 {
        role as u32
    }

    fn root_name(root: u32) -> &'static str {
        match ThreadRole::ALL.get(root as usize) {
            Some(ThreadRole::Render) => "RenderThread",
            role => role.map_or("main", |role| role.name()),
        }
    }

    /// Returns the node of a thread and one name.
    pub(crate) fn node(&mut self, role: ThreadRole, name: &str) -> u32 {
        self.child(Self::root(role), &Arc::from(name))
    }

    /// Returns the node of a name inside of another one.
    pub(crate) fn child(&mut self, around: u32, name: &Arc<str>) -> u32 {
        let (name, _) = self.names.insert_full(Arc::clone(name));
        let name = u32::try_from(name).unwrap_or(u32::MAX);
        let next = FIRST_NODE.saturating_add(u32::try_from(self.nodes.len()).unwrap_or(u32::MAX));
        *self.children.entry((around, name)).or_insert_with(|| {
            self.nodes.push((around, name));
            next
        })
    }

    /// Adds the time of one slice.
    pub(crate) fn add(&mut self, screen: Option<&Arc<str>>, node: u32, self_ns: u64) {
        let next = u32::try_from(self.screens.len()).unwrap_or(u32::MAX);
        let screen = *self.screens.entry(screen.cloned()).or_insert(next);
        let sum = self.sums.entry((screen, node)).or_default();
        *sum = (sum.0 + self_ns, sum.1 + 1);
    }

    /// Returns the rows by screen and text: those that took longest, and the sum of the others.
    pub(crate) fn into_rows(self) -> Vec<Stack> {
        let screens: HashMap<u32, &Option<Arc<str>>, Seeded> =
            self.screens.iter().map(|(screen, &number)| (number, screen)).collect();
        let mut sums: Vec<_> = self.sums.iter().map(|(&at, &sum)| (at, sum)).collect();
        sums.sort_unstable_by_key(|&(at, (self_ns, _))| (Reverse(self_ns), at));
        let mut rows = BTreeMap::<(Option<Arc<str>>, String), _>::new();
        for (rank, ((screen, node), sum)) in sums.into_iter().enumerate() {
            let (screen, text) = if rank < MAX_STACKS {
                let screen = screens.get(&screen).and_then(|screen| (*screen).clone());
                (screen, self.text(node))
            } else {
                (None, OTHER.to_owned())
            };
            let all = rows.entry((screen, text)).or_insert((0, 0));
            *all = (all.0 + sum.0, all.1 + sum.1);
        }
        let rows = rows.into_iter();
        rows.map(|((screen, stack), (self_ns, count))| Stack { screen, stack, self_ns, count })
            .collect()
    }

    /// `thread;outermost;…;innermost`.
    fn text(&self, node: u32) -> String {
        let (mut path, mut at) = (Vec::new(), node);
        while let Some(index) = at.checked_sub(FIRST_NODE) {
            let Some(&(around, name)) = self.nodes.get(index as usize) else { break };
            path.extend(self.names.get_index(name as usize));
            at = around;
        }
        let mut text = Self::root_name(at).to_owned();
        for name in path.into_iter().rev() {
            if text.len() + 1 + name.len() > MAX_STACK_BYTES - DEEPER.len() {
                text.push_str(DEEPER);
                break;
            }
            text.push(';');
            text.extend(name.chars().map(|char| if char == ';' { ',' } else { char }));
        }
        text
    }
}
