//! Reads an ELF image of any class and machine from a file's bytes, for tools and tests.

use super::{Class, Image, Machine, Memory, u16_at, u32_at, u64_at, word_at};
use crate::error::Error;

const PT_LOAD: u32 = 1;
const PT_DYNAMIC: u32 = 2;

#[derive(Debug, Clone, Copy)]
struct Segment {
    vaddr: u64,
    offset: u64,
    file_bytes: u64,
}

/// The bytes of a file, addressed by its PT_LOAD segments.
#[derive(Debug)]
pub struct FileMemory<'a> {
    bytes: &'a [u8],
    segments: Vec<Segment>,
    end_vaddr: u64,
}

impl FileMemory<'_> {
    /// Returns the virtual address of the file's first byte.
    #[must_use]
    pub fn vaddr_of_file_start(&self) -> u64 {
        let first = self.segments.iter().min_by_key(|segment| segment.offset);
        first.map_or(0, |segment| segment.vaddr.wrapping_sub(segment.offset))
    }
}

impl Memory for FileMemory<'_> {
    fn bytes(&self, vaddr: u64, len: u64) -> Option<&[u8]> {
        let end = vaddr.checked_add(len)?;
        let segment = self.segments.iter().find(|segment| {
            segment.vaddr <= vaddr
                && segment.vaddr.checked_add(segment.file_bytes).is_some_and(|last| end <= last)
        })?;
        let start = segment.offset.checked_add(vaddr - segment.vaddr)?;
        let start = usize::try_from(start).ok()?;
        self.bytes.get(start..start.checked_add(usize::try_from(len).ok()?)?)
    }

    fn end_vaddr(&self) -> u64 {
        self.end_vaddr
    }
}

impl<'a> Image<FileMemory<'a>> {
    /// Reads the headers and the dynamic section of an ELF file. `Ok(None)` for a file without a
    /// dynamic section (a static program).
    ///
    /// # Errors
    /// [`Error::Unsupported`] unless it is a little-endian ELF file of a known machine,
    /// [`Error::Malformed`] for headers that reach outside the file.
    pub fn from_file(bytes: &'a [u8]) -> Result<Option<Self>, Error> {
        let magic = u32_at(bytes, 0).unwrap_or(0);
        if magic != 0x464c_457f {
            return Err(Error::Unsupported { what: "ELF magic", value: u64::from(magic) });
        }
        let class = match bytes.get(4) {
            Some(1) => Class::Elf32,
            Some(2) => Class::Elf64,
            other => {
                let value = other.copied().map_or(0, u64::from);
                return Err(Error::Unsupported { what: "EI_CLASS", value });
            }
        };
        if bytes.get(5) != Some(&1) {
            return Err(Error::Unsupported { what: "EI_DATA (not little-endian)", value: 2 });
        }
        let truncated = |at| Error::Malformed { what: "ELF header truncated", at };
        let machine = u16_at(bytes, 18).ok_or(truncated(18))?;
        let machine = Machine::from_header(machine, class)?;
        let (phoff, count_at) = match class {
            Class::Elf64 => (u64_at(bytes, 32), 56),
            Class::Elf32 => (word_at(bytes, 28, class), 44),
        };
        let phoff = phoff.ok_or(truncated(28))?;
        let count = u16_at(bytes, count_at).ok_or(truncated(44))?;

        let mut segments = Vec::new();
        let (mut dynamic, mut end_vaddr) = (None, 0u64);
        let entry_bytes: u64 = if class == Class::Elf64 { 56 } else { 32 };
        for index in 0..u64::from(count) {
            let at = phoff.saturating_add(index * entry_bytes);
            let header = usize::try_from(at)
                .ok()
                .and_then(|start| bytes.get(start..)?.get(..usize::try_from(entry_bytes).ok()?))
                .ok_or(Error::Malformed { what: "program header outside the file", at })?;
            let field = |at64, at32| match class {
                Class::Elf64 => u64_at(header, at64),
                Class::Elf32 => word_at(header, at32, class),
            };
            let (Some(kind), Some(offset), Some(vaddr), Some(file_bytes), Some(mem_bytes)) =
                (u32_at(header, 0), field(8, 4), field(16, 8), field(32, 16), field(40, 20))
            else {
                return Err(Error::Malformed { what: "program header", at });
            };
            match kind {
                PT_LOAD => {
                    segments.push(Segment { vaddr, offset, file_bytes });
                    end_vaddr = end_vaddr.max(vaddr.saturating_add(mem_bytes));
                }
                PT_DYNAMIC => dynamic = Some((vaddr, file_bytes)),
                _ => {}
            }
        }
        let memory = FileMemory { bytes, segments, end_vaddr };
        match dynamic {
            None => Ok(None),
            Some((vaddr, len)) => Image::new(memory, class, machine, vaddr, len).map(Some),
        }
    }
}
