//! The names of a trace in human-readable form, each computed once.

use crate::cause::{self, Cause};
use crate::contention::Contention;
use crate::normalize::normalize;
use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;
use tracetee_trace::{Mapping, NameId, NameSet, Names, Seeded};

/// Limit of a name in bytes: atrace's own names end at 1,024; longer ones are attacks.
const MAX_NAME_BYTES: usize = 1_024;

/// Returns the part of a text that the analysis uses.
pub(crate) fn cut(text: &str) -> &str {
    text.get(..text.floor_char_boundary(MAX_NAME_BYTES)).unwrap_or(text)
}

/// A name with its cause.
#[derive(Debug)]
pub(crate) struct Named {
    /// The name, deobfuscated and normalized.
    pub(crate) name: Arc<str>,
    /// The cause of slices with this name, and the key that all of its kind share.
    pub(crate) cause: Option<(Cause, Arc<str>)>,
    /// The owner of the lock.
    pub(crate) contention: Option<Contention>,
}

/// Maps, normalizes and classifies the names of a trace's slices, each once.
#[derive(Debug)]
pub(crate) struct NameIndex<'a> {
    names: &'a Names,
    mapping: Option<&'a Mapping>,
    named: RefCell<HashMap<NameId, Rc<Named>, Seeded>>,
}

impl<'a> NameIndex<'a> {
    pub(crate) fn new(names: &'a Names, mapping: Option<&'a Mapping>) -> Self {
        Self { names, mapping, named: RefCell::default() }
    }

    /// Returns the name as in the source code.
    pub(crate) fn mapped(&self, id: NameId) -> Cow<'a, str> {
        let text = cut(self.names.text(id));
        self.mapping.map_or(Cow::Borrowed(text), |mapping| mapping.apply(text))
    }

    /// Returns the names that satisfy a condition as they are in the source code.
    pub(crate) fn select(&self, is_selected: impl Fn(&str) -> bool) -> NameSet {
        match self.mapping {
            None => self.names.select(|name| is_selected(cut(name))),
            Some(mapping) => self.names.select(|name| is_selected(&mapping.apply(cut(name)))),
        }
    }

    pub(crate) fn named(&self, id: NameId) -> Rc<Named> {
        Rc::clone(self.named.borrow_mut().entry(id).or_insert_with(|| Rc::new(self.name(id))))
    }

    fn name(&self, id: NameId) -> Named {
        let text = self.mapped(id);
        let contention = Contention::parse(&text);
        let name: Arc<str> = match &contention {
            // The owner's name and the line numbers differ each time; the two methods identify it.
            Some(contention) => format!("monitor contention: {}", contention.key()).into(),
            None => normalize(without_owner(&text)).into(),
        };
        let cause = cause::for_name(&text).map(|cause| {
            let lock = contention.as_ref().map(|contention| Arc::from(contention.key()));
            let key = lock.or_else(|| cause::composition(&text).map(|key| normalize(&key).into()));
            (cause, key.unwrap_or_else(|| Arc::clone(&name)))
        });
        Named { name, cause, contention }
    }
}

/// Returns the name of a wait for a lock without the id of its owner.
fn without_owner(name: &str) -> &str {
    let lock =
        name.strip_prefix("Lock contention on ").and_then(|_| name.rsplit_once(" (owner tid: "));
    lock.map_or(name, |(lock, _)| lock)
}
