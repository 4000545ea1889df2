//! Numbers for texts, so that a key of several texts is compared and hashed as a few words.

use super::Text;
use foldhash::fast::RandomState;
use indexmap::IndexSet;

/// Number of a text in [`Symbols`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Symbol(u32);

impl Symbol {
    /// The empty text.
    pub(crate) const EMPTY: Self = Self(0);

    /// A batch has far fewer rows; more would share the last number.
    fn of(index: usize) -> Self {
        Self(u32::try_from(index).unwrap_or(u32::MAX))
    }
}

/// A value of a key column as a number.
pub(crate) trait Code {
    /// Returns the number.
    fn code(self) -> u64;

    /// Returns the value of a number.
    fn from_code(code: u64) -> Self;
}

impl Code for Symbol {
    fn code(self) -> u64 {
        self.0.into()
    }

    fn from_code(code: u64) -> Self {
        Self(u32::try_from(code).unwrap_or(u32::MAX))
    }
}

impl Code for i64 {
    fn code(self) -> u64 {
        self.cast_unsigned()
    }

    fn from_code(code: u64) -> Self {
        code.cast_signed()
    }
}

impl Code for u64 {
    fn code(self) -> u64 {
        i64::try_from(self).unwrap_or(i64::MAX).cast_unsigned()
    }

    fn from_code(code: u64) -> Self {
        code
    }
}

impl Code for bool {
    fn code(self) -> u64 {
        self.into()
    }

    fn from_code(code: u64) -> Self {
        code != 0
    }
}

/// Numbers of texts.
#[derive(Debug, Clone)]
pub(crate) struct Symbols {
    texts: IndexSet<Text, RandomState>,
    /// Places of the texts among all of them, sorted, by number, as [`Symbols::rank`] has made them.
    ranks: Vec<u64>,
}

impl Default for Symbols {
    fn default() -> Self {
        let mut symbols = Self { texts: IndexSet::default(), ranks: Vec::new() };
        symbols.intern_static("");
        symbols
    }
}

impl Symbols {
    /// Returns the number of a text.
    pub(crate) fn intern(&mut self, text: &Text) -> Symbol {
        self.insert(text.clone())
    }

    /// Finds the number of a text.
    pub(crate) fn find(&self, text: &str) -> Option<Symbol> {
        self.texts.get_index_of(text).map(Symbol::of)
    }

    /// Returns the number of a text of this program.
    pub(crate) fn intern_static(&mut self, text: &'static str) -> Symbol {
        self.insert(Text::new_static(text))
    }

    fn insert(&mut self, text: Text) -> Symbol {
        Symbol::of(self.texts.insert_full(text).0)
    }

    /// Returns the text of a number.
    pub(crate) fn text(&self, symbol: Symbol) -> Text {
        self.text_ref(symbol).clone()
    }

    /// Returns the text of a number, borrowed.
    pub(crate) fn text_ref(&self, symbol: Symbol) -> &Text {
        self.text_at(symbol.code())
    }

    /// Returns the text of a key's code.
    pub(crate) fn text_at(&self, code: u64) -> &Text {
        static NONE: Text = Text::new_static("");
        let index = usize::try_from(code).ok();
        index.and_then(|index| self.texts.get_index(index)).unwrap_or(&NONE)
    }

    /// Returns all texts, by number.
    pub(crate) fn texts(&self) -> impl Iterator<Item = &Text> {
        self.texts.iter()
    }

    /// Sorts the texts, for [`Symbols::rank_of`].
    pub(crate) fn rank(&mut self) {
        if self.ranks.len() == self.texts.len() {
            return;
        }
        let mut numbers: Vec<usize> = (0..self.texts.len()).collect();
        numbers.sort_unstable_by_key(|&number| self.texts.get_index(number));
        self.ranks.resize(self.texts.len(), 0);
        for (rank, number) in (0..).zip(numbers) {
            if let Some(slot) = self.ranks.get_mut(number) {
                *slot = rank;
            }
        }
    }

    /// Returns the rank of a code's text among all texts, sorted.
    pub(crate) fn rank_of(&self, code: u64) -> u64 {
        let index = usize::try_from(code).ok();
        index.and_then(|index| self.ranks.get(index)).copied().unwrap_or(u64::MAX)
    }
}
