//! Origin of a panic: return addresses on the stack.
//!
//! The library that apps load has neither locations nor unwind tables (together 127 KB of arm64's). Each word of the stack
//! between the panic hook and the guard that points into our code counts as a return address, as in crash reporters without
//! tables. A few may be from calls that have returned. The linker's map, which the build leaves beside the library, names
//! the functions.

use std::fmt;

#[cfg(target_pointer_width = "32")]
use libc::Elf32_Phdr as ProgramHeader;
#[cfg(target_pointer_width = "64")]
use libc::Elf64_Phdr as ProgramHeader;

/// ELF's header, up to the number of program headers; libc has none for Android.
#[repr(C)]
#[derive(Clone, Copy)]
struct ElfHeader {
    identity: [u8; 16],
    kind: u16,
    machine: u16,
    version: u32,
    entry: usize,
    program_headers: usize,
    sections: usize,
    flags: u32,
    size: u16,
    program_header_size: u16,
    program_header_count: u16,
}

unsafe extern "C" {
    /// The start of this library in memory; the linker defines it.
    #[link_name = "__ehdr_start"]
    static START: ElfHeader;
}

/// ELF's PF_X.
const EXECUTABLE: u32 = 1;
const MAX_ADDRESSES: usize = 16;
/// Maximum number of examined words: our panics are a few frames above their guard.
const MAX_WORDS: usize = 2048;

/// Offsets in the library, the innermost first.
pub(super) struct Addresses {
    offsets: [usize; MAX_ADDRESSES],
    count: usize,
}

impl Addresses {
    /// Reads the stack of the calling thread up to `end`, which is in a frame below.
    pub(super) fn on_stack_up_to(end: *const usize) -> Self {
        let mut found = Self { offsets: [0; MAX_ADDRESSES], count: 0 };
        let Some((start, code)) = code() else { return found };
        let here = 0usize;
        let mut at: *const usize = &raw const here;
        for _ in 0..MAX_WORDS {
            if at >= end {
                break;
            }
            // SAFETY: everything between a variable of this frame and one of a frame below is stack.
            let word = unsafe { at.read_volatile() };
            if code.contains(&word)
                && let Some(offset) = found.offsets.get_mut(found.count)
            {
                *offset = word - start;
                found.count += 1;
            }
            at = at.wrapping_add(1);
        }
        found
    }
}

impl fmt::Display for Addresses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("libtracetee")?;
        self.offsets.iter().take(self.count).try_for_each(|offset| write!(f, "+{offset:x}"))
    }
}

/// The address of the library, and the range of its code.
fn code() -> Option<(usize, std::ops::Range<usize>)> {
    let header = &raw const START;
    let start = header.addr();
    // SAFETY: the linker has placed the library's header there.
    let ElfHeader { program_headers, program_header_count, .. } = unsafe { *header };
    let table = header.wrapping_byte_add(program_headers).cast::<ProgramHeader>();
    (0..usize::from(program_header_count)).find_map(|index| {
        // SAFETY: the table has this many entries, and is mapped with the header.
        let entry = unsafe { *table.wrapping_add(index) };
        if entry.p_type != libc::PT_LOAD || entry.p_flags & EXECUTABLE == 0 {
            return None;
        }
        let from = start.wrapping_add(usize::try_from(entry.p_vaddr).ok()?);
        Some((start, from..from.wrapping_add(usize::try_from(entry.p_memsz).ok()?)))
    })
}
