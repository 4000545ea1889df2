//! Walks every relocation table of an image and reports the slots that hold a symbol's address.
//!
//! Tables: DT_JMPREL, DT_REL, DT_RELA, and Android's packed DT_ANDROID_REL/RELA ("APS2", signed
//! LEB128). DT_RELR and DT_ANDROID_RELR hold RELATIVE entries only and are skipped. A library may
//! hold several slots for one symbol (a PLT slot and a function pointer): all are reported.

use super::dynamic::TableRange;
use super::{Class, Image, Machine, Memory, u32_at, word_at};
use crate::error::Error;

/// The table that lists a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Table {
    /// DT_JMPREL.
    JmpRel,
    /// DT_REL.
    Rel,
    /// DT_RELA.
    Rela,
    /// DT_ANDROID_REL.
    AndroidRel,
    /// DT_ANDROID_RELA.
    AndroidRela,
}

impl Table {
    /// Returns the name of the table's dynamic tag.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::JmpRel => "DT_JMPREL",
            Self::Rel => "DT_REL",
            Self::Rela => "DT_RELA",
            Self::AndroidRel => "DT_ANDROID_REL",
            Self::AndroidRela => "DT_ANDROID_RELA",
        }
    }
}

/// The kind of slot that a relocation fills.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SlotKind {
    /// A PLT slot.
    JumpSlot,
    /// A GOT slot, as `-fno-plt` code and address-taking code use.
    GlobDat,
    /// A word in data: a function pointer with an initialiser.
    Absolute,
}

impl SlotKind {
    /// Returns the usual name of the relocation type, without the machine's prefix.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::JumpSlot => "JUMP_SLOT",
            Self::GlobDat => "GLOB_DAT",
            Self::Absolute => "ABS",
        }
    }

    /// Returns the kind of slot for relocation type `kind` of `machine`; `None` unless the type
    /// stores a symbol's bare address.
    #[must_use]
    pub const fn of(machine: Machine, kind: u32) -> Option<Self> {
        match (machine, kind) {
            (Machine::X86 | Machine::X86_64, 7)
            | (Machine::Arm, 22)
            | (Machine::Aarch64, 1026)
            | (Machine::Riscv64, 5) => Some(Self::JumpSlot),
            (Machine::X86 | Machine::X86_64, 6) | (Machine::Arm, 21) | (Machine::Aarch64, 1025) => {
                Some(Self::GlobDat)
            }
            (Machine::X86 | Machine::X86_64, 1)
            | (Machine::Arm | Machine::Riscv64, 2)
            | (Machine::Aarch64, 257) => Some(Self::Absolute),
            _ => None,
        }
    }
}

/// A relocation, from a table of any format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Relocation {
    /// The table.
    pub table: Table,
    /// Virtual address of the word that the relocation fills.
    pub vaddr: u64,
    /// Machine-specific type.
    pub kind: u32,
    /// Index into the dynamic symbol table, 0 for none.
    pub symbol: u32,
    /// Addend; 0 if the table has none.
    pub addend: i64,
}

/// A slot that holds the address of a wanted symbol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slot {
    /// Index of the symbol in the wanted names.
    pub name_index: usize,
    /// The table.
    pub table: Table,
    /// The kind of slot.
    pub kind: SlotKind,
    /// Virtual address of the slot.
    pub vaddr: u64,
}

impl<M: Memory> Image<M> {
    /// Finds all slots of the dynamic symbols `names`, defined or undefined.
    ///
    /// # Errors
    /// [`Error::Malformed`] if a table reaches outside the segments. A broken image reports no slots
    /// at all: a library is hooked completely or skipped.
    pub fn slots(&self, names: &[&[u8]]) -> Result<Vec<Slot>, Error> {
        let mut slots = Vec::new();
        self.for_each_relocation(|relocation| {
            let Some(kind) = SlotKind::of(self.machine, relocation.kind) else { return };
            // `&write + 4` in data is not a pointer to write.
            if relocation.symbol == 0 || relocation.addend != 0 {
                return;
            }
            let Some(name) = self.symbol_name_offset(relocation.symbol) else { return };
            if let Some(name_index) = names.iter().position(|wanted| self.string_is(name, wanted)) {
                let Relocation { table, vaddr, .. } = relocation;
                slots.push(Slot { name_index, table, kind, vaddr });
            }
        })?;
        Ok(slots)
    }

    /// Calls `visit` for each relocation of each table.
    ///
    /// # Errors
    /// [`Error::Malformed`] with the table's name and address.
    pub fn for_each_relocation(&self, mut visit: impl FnMut(Relocation)) -> Result<(), Error> {
        let dynamic = self.dynamic();
        for (table, range) in [
            (Table::JmpRel, dynamic.jmprel),
            (Table::Rel, dynamic.rel),
            (Table::Rela, dynamic.rela),
        ] {
            if let Some(range) = range {
                self.plain_table(table, range, &mut visit)?;
            }
        }
        for (table, range) in
            [(Table::AndroidRel, dynamic.android_rel), (Table::AndroidRela, dynamic.android_rela)]
        {
            if let Some(range) = range {
                self.packed_table(table, range, &mut visit)?;
            }
        }
        Ok(())
    }

    fn plain_table(
        &self,
        table: Table,
        range: TableRange,
        visit: &mut impl FnMut(Relocation),
    ) -> Result<(), Error> {
        let class = self.class;
        let word = if class == Class::Elf64 { 8 } else { 4 };
        let entry_bytes = if range.addends { 3 * word } else { 2 * word };
        let bytes = self
            .memory
            .bytes(range.vaddr, range.bytes)
            .ok_or(Error::Malformed { what: table.name(), at: range.vaddr })?;
        for entry in bytes.chunks_exact(entry_bytes) {
            let (Some(vaddr), Some(info)) = (word_at(entry, 0, class), word_at(entry, word, class))
            else {
                break;
            };
            let addend =
                if range.addends { signed_word_at(entry, 2 * word, class).unwrap_or(0) } else { 0 };
            let (symbol, kind) = split_info(info, class);
            visit(Relocation { table, vaddr, kind, symbol, addend });
        }
        Ok(())
    }

    fn packed_table(
        &self,
        table: Table,
        range: TableRange,
        visit: &mut impl FnMut(Relocation),
    ) -> Result<(), Error> {
        let malformed = || Error::Malformed { what: table.name(), at: range.vaddr };
        let bytes = self.memory.bytes(range.vaddr, range.bytes).ok_or_else(malformed)?;
        let packed = bytes.strip_prefix(b"APS2").ok_or_else(malformed)?;
        // No image fills a word twice, so a count larger than its number of words is invalid.
        let max_count = self.memory.end_vaddr() / self.class.word_bytes();
        unpack(packed, self.class, max_count, |vaddr, info, addend| {
            let (symbol, kind) = split_info(info, self.class);
            visit(Relocation { table, vaddr, kind, symbol, addend });
        })
        .ok_or_else(malformed)
    }
}

/// Splits an `r_info` into `(symbol, type)`.
fn split_info(info: u64, class: Class) -> (u32, u32) {
    let [b0, b1, b2, b3, b4, b5, b6, b7] = info.to_le_bytes();
    match class {
        Class::Elf64 => {
            (u32::from_le_bytes([b4, b5, b6, b7]), u32::from_le_bytes([b0, b1, b2, b3]))
        }
        Class::Elf32 => (u32::from_le_bytes([b1, b2, b3, 0]), u32::from(b0)),
    }
}

fn signed_word_at(bytes: &[u8], at: usize, class: Class) -> Option<i64> {
    match class {
        Class::Elf32 => u32_at(bytes, at).map(|word| i64::from(word.cast_signed())),
        Class::Elf64 => word_at(bytes, at, class).map(u64::cast_signed),
    }
}

const GROUPED_BY_INFO: i64 = 1;
const GROUPED_BY_OFFSET_DELTA: i64 = 2;
const GROUPED_BY_ADDEND: i64 = 4;
const GROUP_HAS_ADDEND: i64 = 8;

/// Decodes the body of an APS2 table (after its magic): `visit(offset, info, addend)` for each
/// entry. Returns `None` if the bytes end early or the count exceeds `max_count`.
pub fn unpack(
    bytes: &[u8],
    class: Class,
    max_count: u64,
    mut visit: impl FnMut(u64, u64, i64),
) -> Option<()> {
    let mut reader = Leb128 { bytes };
    let count = u64::try_from(reader.next()?).ok().filter(|&count| count <= max_count)?;
    let mut offset = reader.next()?.cast_unsigned();
    let (mut info, mut addend) = (0u64, 0i64);
    let mut done = 0u64;
    while done < count {
        let group = u64::try_from(reader.next()?).ok().filter(|&size| size <= count - done)?;
        let flags = reader.next()?;
        let group_delta =
            if flags & GROUPED_BY_OFFSET_DELTA != 0 { Some(reader.next()?) } else { None };
        if flags & GROUPED_BY_INFO != 0 {
            info = reader.next()?.cast_unsigned();
        }
        let addend_each = flags & GROUP_HAS_ADDEND != 0 && flags & GROUPED_BY_ADDEND == 0;
        if flags & GROUP_HAS_ADDEND == 0 {
            addend = 0;
        } else if !addend_each {
            addend = addend.wrapping_add(reader.next()?);
        }
        for _ in 0..group {
            let delta = match group_delta {
                Some(delta) => delta,
                None => reader.next()?,
            };
            offset = offset.wrapping_add_signed(delta);
            if flags & GROUPED_BY_INFO == 0 {
                info = reader.next()?.cast_unsigned();
            }
            if addend_each {
                addend = addend.wrapping_add(reader.next()?);
            }
            let vaddr = if class == Class::Elf32 { offset & 0xffff_ffff } else { offset };
            visit(vaddr, info, addend);
        }
        done += group;
    }
    Some(())
}

/// A reader of signed LEB128 numbers.
struct Leb128<'a> {
    bytes: &'a [u8],
}

impl Leb128<'_> {
    fn next(&mut self) -> Option<i64> {
        let (mut value, mut shift) = (0i64, 0u32);
        loop {
            let (&byte, rest) = self.bytes.split_first()?;
            self.bytes = rest;
            if shift >= 64 {
                return None;
            }
            value |= i64::from(byte & 0x7f) << shift;
            shift += 7;
            if byte & 0x80 == 0 {
                if byte & 0x40 != 0 && shift < 64 {
                    value |= -1 << shift;
                }
                return Some(value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn leb(mut value: i64, out: &mut Vec<u8>) {
        loop {
            let byte = u8::try_from(value & 0x7f).unwrap();
            value >>= 7;
            let done = (value == 0 && byte & 0x40 == 0) || (value == -1 && byte & 0x40 != 0);
            out.push(if done { byte } else { byte | 0x80 });
            if done {
                return;
            }
        }
    }

    fn collect(bytes: &[u8], max: u64) -> Option<Vec<(u64, u64, i64)>> {
        let mut all = Vec::new();
        unpack(bytes, Class::Elf64, max, |offset, info, addend| all.push((offset, info, addend)))?;
        Some(all)
    }

    /// A naive packer: one group an entry, with the flags that `shape` asks for.
    fn pack(entries: &[(u64, u64, i64)], shape: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        leb(i64::try_from(entries.len()).unwrap(), &mut out);
        leb(0, &mut out);
        let (mut last_offset, mut last_addend) = (0u64, 0i64);
        for (index, &(offset, info, addend)) in entries.iter().enumerate() {
            let mut flags = i64::from(shape[index % shape.len()] & 7);
            if addend != 0 || flags & GROUPED_BY_ADDEND != 0 {
                flags |= GROUP_HAS_ADDEND;
            }
            let delta = offset.wrapping_sub(last_offset).cast_signed();
            leb(1, &mut out);
            leb(flags, &mut out);
            if flags & GROUPED_BY_OFFSET_DELTA != 0 {
                leb(delta, &mut out);
            }
            if flags & GROUPED_BY_INFO != 0 {
                leb(info.cast_signed(), &mut out);
            }
            if flags & GROUP_HAS_ADDEND == 0 {
                last_addend = 0;
            }
            let addend_delta = addend.wrapping_sub(last_addend);
            if flags & GROUPED_BY_ADDEND != 0 {
                leb(addend_delta, &mut out);
            }
            if flags & GROUPED_BY_OFFSET_DELTA == 0 {
                leb(delta, &mut out);
            }
            if flags & GROUPED_BY_INFO == 0 {
                leb(info.cast_signed(), &mut out);
            }
            if flags & GROUP_HAS_ADDEND != 0 && flags & GROUPED_BY_ADDEND == 0 {
                leb(addend_delta, &mut out);
            }
            (last_offset, last_addend) = (offset, addend);
        }
        out
    }

    /// Every second addend is 0, so that groups without addends stand among groups with them, and
    /// each change of a running value is seen.
    fn addend() -> impl Strategy<Value = i64> {
        prop_oneof![Just(0), prop_oneof![1..9i64, any::<i64>()]]
    }

    proptest! {
        #[test]
        fn unpacking_gives_back_what_a_naive_packer_packed(
            entries in prop::collection::vec((any::<u64>(), any::<u64>(), addend()), 0..60),
            shape in prop::collection::vec(any::<u8>(), 1..8),
        ) {
            let packed = pack(&entries, &shape);
            prop_assert_eq!(collect(&packed, 60), Some(entries));
        }

        #[test]
        fn unpacking_any_bytes_ends(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let _ = collect(&bytes, 10_000);
        }
    }

    #[test]
    fn a_group_without_addends_sets_the_running_addend_back() {
        let mut bytes = Vec::new();
        // Three groups of one entry: addend 5, none, 5 more than none.
        leb(3, &mut bytes);
        leb(0, &mut bytes);
        for value in [1, GROUP_HAS_ADDEND, 8, 7, 5] {
            leb(value, &mut bytes);
        }
        for value in [1, 0, 8, 7] {
            leb(value, &mut bytes);
        }
        for value in [1, GROUP_HAS_ADDEND | GROUPED_BY_ADDEND, 5, 8, 7] {
            leb(value, &mut bytes);
        }
        assert_eq!(collect(&bytes, 3), Some(vec![(8, 7, 5), (16, 7, 0), (24, 7, 5)]));
    }

    #[test]
    fn a_group_larger_than_the_count_is_refused() {
        let mut bytes = Vec::new();
        for value in [3, 0, 1 << 40, GROUPED_BY_INFO | GROUPED_BY_OFFSET_DELTA, 8, 7] {
            leb(value, &mut bytes);
        }
        assert_eq!(collect(&bytes, 1000), None);
    }
}
