//! Methods by their ids: lines `id,access,class method desc`, as Matrix and our instrumenter write them.

use super::packed::{Packed, Span, partition_point};

/// Methods by id.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct Methods(pub(super) Packed);

impl Methods {
    /// The last of equal ids counts.
    pub(super) fn get(&self, id: u64) -> Option<&str> {
        let is_before = |number| self.0.id(number).is_some_and(|(first, _)| first <= id);
        let after = partition_point(self.0.ids(), is_before);
        let (first, name) = self.0.id(after.checked_sub(1)?)?;
        (first == id).then(|| self.0.name(name))
    }
}

/// Methods being read.
#[derive(Debug, Default)]
pub(super) struct MethodsBuilder {
    text: String,
    methods: Vec<(u64, Span)>,
}

impl MethodsBuilder {
    pub(super) const fn len(&self) -> usize {
        self.methods.len()
    }

    pub(super) const fn bytes(&self) -> usize {
        self.text.len()
    }

    /// Takes a line. Returns false if it is not of this format.
    pub(super) fn takes(&mut self, line: &str) -> bool {
        let mut fields = line.splitn(3, ',');
        let (Some(id), Some(access), Some(method)) = (fields.next(), fields.next(), fields.next())
        else {
            return false;
        };
        let (Ok(id), Ok(_)) = (id.parse::<u64>(), access.parse::<u32>()) else { return false };
        let mut words = method.split(' ');
        let (class, name) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let mut span = Span::push(&mut self.text, class);
        if !name.is_empty() {
            let (dot, name) = (Span::push(&mut self.text, "."), Span::push(&mut self.text, name));
            span = span.and(dot).and(name);
        }
        self.methods.push((id, span));
        true
    }

    pub(super) fn finish(mut self) -> Methods {
        self.methods.sort_by_key(|&(id, _)| id);
        Methods(Packed::new(&self.text, &[], &[], &self.methods))
    }
}
