//! Dynamic symbols: the name of an index, and the address of a defined name by hash lookup.
//!
//! Finds `atrace_enabled_tags` in every loaded copy of libcutils, in any linker namespace. Uses the GNU
//! hash table, or the SysV one in libraries that have no other.

use super::{Class, Image, Memory, u16_at, u32_at, word_at};

/// A symbol that its image defines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Definition {
    /// Virtual address.
    pub vaddr: u64,
    /// Size in bytes; 0 if unknown.
    pub bytes: u64,
}

/// Maximum length of a bucket's chain; a longer one means a broken or cyclic table.
const MAX_CHAIN: u32 = 1 << 16;

impl<M: Memory> Image<M> {
    /// Finds the definition of dynamic symbol `name`, if this image exports it.
    pub fn definition(&self, name: &[u8]) -> Option<Definition> {
        self.by_gnu_hash(name).or_else(|| self.by_sysv_hash(name))
    }

    /// Returns the offset of the name of symbol `index` in the string table.
    pub(super) fn symbol_name_offset(&self, index: u32) -> Option<u64> {
        u32_at(self.symbol(index)?, 0).map(u64::from)
    }

    /// Returns the name of dynamic symbol `index`.
    pub fn symbol_name(&self, index: u32) -> Option<&[u8]> {
        self.string(self.symbol_name_offset(index)?)
    }

    fn symbol(&self, index: u32) -> Option<&[u8]> {
        let bytes = self.class.symbol_bytes();
        let vaddr = self.dynamic.symtab?.checked_add(u64::from(index) * bytes)?;
        self.memory.bytes(vaddr, bytes)
    }

    fn defined_as(&self, index: u32, name: &[u8]) -> Option<Definition> {
        let symbol = self.symbol(index)?;
        let (section, vaddr, bytes) = match self.class {
            Class::Elf64 => (u16_at(symbol, 6)?, word_at(symbol, 8, self.class)?, 16),
            Class::Elf32 => (u16_at(symbol, 14)?, word_at(symbol, 4, self.class)?, 8),
        };
        let named = self.string_is(u64::from(u32_at(symbol, 0)?), name);
        (named && section != 0)
            .then(|| Definition { vaddr, bytes: word_at(symbol, bytes, self.class).unwrap_or(0) })
    }

    fn hash_word(&self, table: u64, index: u64) -> Option<u32> {
        u32_at(self.memory.bytes(table.checked_add(index.checked_mul(4)?)?, 4)?, 0)
    }

    fn by_gnu_hash(&self, name: &[u8]) -> Option<Definition> {
        let table = self.dynamic.gnu_hash?;
        let hash = name
            .iter()
            .fold(5381u32, |hash, &byte| hash.wrapping_mul(33).wrapping_add(u32::from(byte)));
        let buckets = self.hash_word(table, 0)?;
        let first = self.hash_word(table, 1)?;
        let bloom_words = u64::from(self.hash_word(table, 2)?);
        if buckets == 0 {
            return None;
        }
        // The Bloom filter's words are address-sized; it only saves time, so it is not consulted.
        let bucket_table = 4 + bloom_words * (self.class.word_bytes() / 4);
        let mut index = self.hash_word(table, bucket_table + u64::from(hash % buckets))?;
        if index < first {
            return None;
        }
        let chains = bucket_table + u64::from(buckets);
        for _ in 0..MAX_CHAIN {
            let link = self.hash_word(table, chains + u64::from(index - first))?;
            if link | 1 == hash | 1
                && let Some(found) = self.defined_as(index, name)
            {
                return Some(found);
            }
            if link & 1 != 0 {
                return None;
            }
            index = index.checked_add(1)?;
        }
        None
    }

    fn by_sysv_hash(&self, name: &[u8]) -> Option<Definition> {
        let table = self.dynamic.hash?;
        let hash = name.iter().fold(0u32, |hash, &byte| {
            let hash = (hash << 4).wrapping_add(u32::from(byte));
            let high = hash & 0xf000_0000;
            (hash ^ (high >> 24)) & !high
        });
        let buckets = self.hash_word(table, 0)?;
        if buckets == 0 {
            return None;
        }
        let mut index = self.hash_word(table, 2 + u64::from(hash % buckets))?;
        for _ in 0..MAX_CHAIN {
            if index == 0 {
                return None;
            }
            if let Some(found) = self.defined_as(index, name) {
                return Some(found);
            }
            index = self.hash_word(table, 2 + u64::from(buckets) + u64::from(index))?;
        }
        None
    }
}
