//! Methods by their ids: lines `id,access,class method desc`, as Matrix and our instrumenter write them.

use super::Span;

/// Methods by id.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct Methods {
    text: String,
    /// Sorted by id when all were read; the last of equal ones counts.
    methods: Vec<(u64, Span)>,
}

impl Methods {
    pub(super) const fn len(&self) -> usize {
        self.methods.len()
    }

    pub(super) const fn bytes(&self) -> usize {
        self.text.len()
    }

    pub(super) const fn memory(&self) -> usize {
        self.text.len() + size_of_val(self.methods.as_slice())
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
            span.bytes += dot.bytes + name.bytes;
        }
        self.methods.push((id, span));
        true
    }

    pub(super) fn sort(&mut self) {
        self.methods.sort_by_key(|&(id, _)| id);
        self.methods.shrink_to_fit();
        self.text.shrink_to_fit();
    }

    pub(super) fn get(&self, id: u64) -> Option<&str> {
        let after = self.methods.partition_point(|&(of, _)| of <= id);
        let &(of, span) = self.methods.get(after.checked_sub(1)?)?;
        (of == id).then(|| span.of(&self.text))
    }
}
