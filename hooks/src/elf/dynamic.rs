//! The dynamic section: the tables of an image, with their addresses and sizes.
//!
//! [`super::Image::new`] reads it once for each image. It does not check sizes; each later read of a
//! table checks them against the segments.

use super::{Class, Memory, word_at};
use crate::error::Error;

/// A relocation table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TableRange {
    /// Virtual address of the table.
    pub vaddr: u64,
    /// Length in bytes.
    pub bytes: u64,
    /// True if entries have an addend (RELA), false if not (REL).
    pub addends: bool,
}

/// The parsed dynamic section.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Dynamic {
    /// DT_JMPREL, in the format that DT_PLTREL names.
    pub jmprel: Option<TableRange>,
    /// DT_REL.
    pub rel: Option<TableRange>,
    /// DT_RELA.
    pub rela: Option<TableRange>,
    /// DT_ANDROID_REL (APS2).
    pub android_rel: Option<TableRange>,
    /// DT_ANDROID_RELA (APS2).
    pub android_rela: Option<TableRange>,
    /// True if DT_RELR or DT_ANDROID_RELR is present. They hold RELATIVE entries only: nothing to hook.
    pub has_relr: bool,
    /// DT_SYMTAB.
    pub symtab: Option<u64>,
    /// DT_STRTAB and DT_STRSZ.
    pub strtab: Option<(u64, u64)>,
    /// DT_HASH.
    pub hash: Option<u64>,
    /// DT_GNU_HASH.
    pub gnu_hash: Option<u64>,
    /// DT_SONAME, an offset into the string table.
    pub soname: Option<u64>,
    /// DT_TEXTREL, or DF_TEXTREL in DT_FLAGS.
    pub has_text_relocations: bool,
}

const DT_NULL: u64 = 0;
const DT_PLTRELSZ: u64 = 2;
const DT_HASH: u64 = 4;
const DT_STRTAB: u64 = 5;
const DT_SYMTAB: u64 = 6;
const DT_RELA: u64 = 7;
const DT_RELASZ: u64 = 8;
const DT_STRSZ: u64 = 10;
const DT_SYMENT: u64 = 11;
const DT_SONAME: u64 = 14;
const DT_REL: u64 = 17;
const DT_RELSZ: u64 = 18;
const DT_PLTREL: u64 = 20;
const DT_TEXTREL: u64 = 22;
const DT_JMPREL: u64 = 23;
const DT_FLAGS: u64 = 30;
const DT_RELR: u64 = 36;
const DT_ANDROID_REL: u64 = 0x6000_000f;
const DT_ANDROID_RELSZ: u64 = 0x6000_0010;
const DT_ANDROID_RELA: u64 = 0x6000_0011;
const DT_ANDROID_RELASZ: u64 = 0x6000_0012;
const DT_ANDROID_RELR: u64 = 0x6fff_e000;
const DT_GNU_HASH: u64 = 0x6fff_fef5;
const DF_TEXTREL: u64 = 4;

/// Maximum number of entries; a larger dynamic section is broken (real ones have about 40).
const MAX_ENTRIES: u64 = 4096;

impl Dynamic {
    pub(super) fn read(
        memory: &impl Memory,
        class: Class,
        vaddr: u64,
        claimed_bytes: u64,
    ) -> Result<Self, Error> {
        let entry_bytes = 2 * class.word_bytes();
        let count = (claimed_bytes / entry_bytes).min(MAX_ENTRIES);
        let section = memory
            .bytes(vaddr, count * entry_bytes)
            .ok_or(Error::Malformed { what: "PT_DYNAMIC outside the segments", at: vaddr })?;

        let mut dynamic = Self::default();
        let [mut jmprel, mut rel, mut rela, mut android_rel, mut android_rela] = [None; 5];
        let [mut jmprel_bytes, mut rel_bytes, mut rela_bytes] = [0; 3];
        let [mut android_rel_bytes, mut android_rela_bytes] = [0; 2];
        let (mut strtab, mut strtab_bytes, mut pltrel) = (None, 0, None);
        let entry_size = if class == Class::Elf64 { 16 } else { 8 };
        for entry in section.chunks_exact(entry_size) {
            let (Some(tag), Some(value)) =
                (word_at(entry, 0, class), word_at(entry, entry_size / 2, class))
            else {
                break;
            };
            let pointer = || Some(memory.vaddr_of(value));
            match tag {
                DT_NULL => break,
                DT_JMPREL => jmprel = pointer(),
                DT_PLTRELSZ => jmprel_bytes = value,
                DT_PLTREL => pltrel = Some(value),
                DT_REL => rel = pointer(),
                DT_RELSZ => rel_bytes = value,
                DT_RELA => rela = pointer(),
                DT_RELASZ => rela_bytes = value,
                DT_ANDROID_REL => android_rel = pointer(),
                DT_ANDROID_RELSZ => android_rel_bytes = value,
                DT_ANDROID_RELA => android_rela = pointer(),
                DT_ANDROID_RELASZ => android_rela_bytes = value,
                DT_RELR | DT_ANDROID_RELR => dynamic.has_relr = true,
                DT_SYMTAB => dynamic.symtab = pointer(),
                DT_SYMENT if value != class.symbol_bytes() => {
                    return Err(Error::Malformed { what: "DT_SYMENT", at: value });
                }
                DT_STRTAB => strtab = pointer(),
                DT_STRSZ => strtab_bytes = value,
                DT_HASH => dynamic.hash = pointer(),
                DT_GNU_HASH => dynamic.gnu_hash = pointer(),
                DT_SONAME => dynamic.soname = Some(value),
                DT_TEXTREL => dynamic.has_text_relocations = true,
                DT_FLAGS => dynamic.has_text_relocations |= value & DF_TEXTREL != 0,
                _ => {}
            }
        }

        // DT_PLTREL is 7 (RELA) or 17 (REL); if it is missing, the class's psABI decides.
        let plt_addends = match pltrel {
            Some(DT_RELA) => true,
            Some(DT_REL) => false,
            None => class == Class::Elf64,
            Some(other) => return Err(Error::Malformed { what: "DT_PLTREL", at: other }),
        };
        let table = |vaddr: Option<u64>, bytes: u64, addends: bool| {
            vaddr.filter(|_| bytes > 0).map(|vaddr| TableRange { vaddr, bytes, addends })
        };
        dynamic.jmprel = table(jmprel, jmprel_bytes, plt_addends);
        dynamic.rel = table(rel, rel_bytes, false);
        dynamic.rela = table(rela, rela_bytes, true);
        dynamic.android_rel = table(android_rel, android_rel_bytes, false);
        dynamic.android_rela = table(android_rela, android_rela_bytes, true);
        dynamic.strtab = strtab.map(|vaddr| (vaddr, strtab_bytes));
        Ok(dynamic)
    }
}
