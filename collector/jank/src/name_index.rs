//! The names of a trace as people read them, each worked out once.

use crate::cause::{self, Cause};
use crate::contention::Contention;
use crate::normalize::normalize;
use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;
use tracetee_trace::{Mapping, NameId, Names};

/// Bytes of a name that are looked at: atrace's own names end at 1,024, and others were made to hurt.
const MAX_NAME_BYTES: usize = 1_024;

/// As much of a text as is looked at.
pub(crate) fn cut(text: &str) -> &str {
    text.get(..text.floor_char_boundary(MAX_NAME_BYTES)).unwrap_or(text)
}

/// A name, and what it tells.
#[derive(Debug)]
pub(crate) struct Named {
    /// Normalised, deobfuscated.
    pub(crate) name: Arc<str>,
    /// The cause that it tells, with the key under which all of its kind are one.
    pub(crate) tells: Option<(Cause, Arc<str>)>,
    /// Who holds the lock.
    pub(crate) contention: Option<Contention>,
}

/// Names a trace's slices.
#[derive(Debug)]
pub(crate) struct NameIndex<'a> {
    names: &'a Names,
    mapping: Option<&'a Mapping>,
    named: RefCell<HashMap<NameId, Rc<Named>>>,
}

impl<'a> NameIndex<'a> {
    pub(crate) fn new(names: &'a Names, mapping: Option<&'a Mapping>) -> Self {
        Self { names, mapping, named: RefCell::default() }
    }

    /// The name as the source code has it.
    pub(crate) fn mapped(&self, id: NameId) -> Cow<'a, str> {
        let text = cut(self.names.text(id));
        self.mapping.map_or(Cow::Borrowed(text), |mapping| mapping.apply(text))
    }

    pub(crate) fn named(&self, id: NameId) -> Rc<Named> {
        if let Some(named) = self.named.borrow().get(&id) {
            return Rc::clone(named);
        }
        let named = Rc::new(self.name(id));
        self.named.borrow_mut().insert(id, Rc::clone(&named));
        named
    }

    fn name(&self, id: NameId) -> Named {
        let text = self.mapped(id);
        let contention = Contention::parse(&text);
        let name: Arc<str> = match &contention {
            // Its owner's name and line numbers differ each time; the two places are what it is.
            Some(contention) => format!("monitor contention: {}", contention.key()).into(),
            None => normalize(&text).into(),
        };
        let tells = cause::told_by(&text).map(|cause| {
            let key = contention.as_ref().map(|contention| Arc::from(contention.key()));
            (cause, key.unwrap_or_else(|| Arc::clone(&name)))
        });
        Named { name, tells, contention }
    }
}
