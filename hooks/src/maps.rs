//! The process's memory map with its actual protections, from `/proc/self/maps`.
//!
//! A patching pass reads it once, and again if it finds a library that the map lacks. The map says
//! which protection to restore on a slot's page, and whether a segment is readable.

use crate::error::Error;
use libc::{PROT_EXEC, PROT_READ, PROT_WRITE, c_int};

/// A mapping.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mapping {
    /// First address.
    pub start: usize,
    /// One past the last address.
    pub end: usize,
    /// `PROT_*` bits.
    pub protection: c_int,
}

/// All mappings, sorted by address as the kernel lists them.
#[derive(Debug, Default)]
pub struct Maps {
    mappings: Vec<Mapping>,
}

impl Maps {
    /// Reads the map of the running process.
    ///
    /// # Errors
    /// [`Error::System`] if `/proc` is not readable.
    pub fn read() -> Result<Self, Error> {
        let text = std::fs::read("/proc/self/maps").map_err(|error| Error::System {
            call: "read /proc/self/maps",
            errno: error.raw_os_error().unwrap_or(0),
        })?;
        Ok(Self::parse(&text))
    }

    fn parse(text: &[u8]) -> Self {
        Self { mappings: text.split(|&byte| byte == b'\n').filter_map(parse_line).collect() }
    }

    /// Finds the mapping that contains `address`.
    #[must_use]
    pub fn at(&self, address: usize) -> Option<Mapping> {
        let after = self.mappings.partition_point(|mapping| mapping.start <= address);
        let mapping = *self.mappings.get(after.checked_sub(1)?)?;
        (address < mapping.end).then_some(mapping)
    }

    /// True if every byte of `start..end` is mapped readable.
    #[must_use]
    pub fn readable(&self, start: usize, end: usize) -> bool {
        let mut at = start;
        while at < end {
            match self.at(at) {
                Some(mapping) if mapping.protection & PROT_READ != 0 => at = mapping.end,
                _ => return false,
            }
        }
        true
    }
}

/// `7f12a000-7f12b000 r--p 00000000 fd:00 1234   /path`
fn parse_line(line: &[u8]) -> Option<Mapping> {
    let line = std::str::from_utf8(line.get(..line.len().min(100))?)
        .or_else(|error| std::str::from_utf8(line.get(..error.valid_up_to()).unwrap_or(&[])))
        .ok()?;
    let mut words = line.split_ascii_whitespace();
    let (start, end) = words.next()?.split_once('-')?;
    let flags = words.next()?.as_bytes();
    let bit =
        |index: usize, letter, value| if flags.get(index) == Some(&letter) { value } else { 0 };
    Some(Mapping {
        start: usize::from_str_radix(start, 16).ok()?,
        end: usize::from_str_radix(end, 16).ok()?,
        protection: bit(0, b'r', PROT_READ) | bit(1, b'w', PROT_WRITE) | bit(2, b'x', PROT_EXEC),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_map_of_this_process_knows_its_own_code_and_data() {
        let maps = Maps::read().unwrap();
        let code = maps.at(parse_line as *const () as usize).unwrap();
        assert_eq!(code.protection, PROT_READ | PROT_EXEC);
        let local = 0u8;
        let stack = maps.at(&raw const local as usize).unwrap();
        assert_eq!(stack.protection, PROT_READ | PROT_WRITE);
        assert!(maps.readable(stack.start, stack.end));
        assert!(maps.at(0).is_none());
    }

    #[test]
    fn a_gap_is_not_readable() {
        let maps = Maps::parse(b"1000-2000 r--p 0 0:0 0\n2000-3000 r-xp 0 0:0 0\n4000-5000 r--p\n");
        assert!(maps.readable(0x1000, 0x3000));
        assert!(!maps.readable(0x1000, 0x4001));
        assert!(!maps.readable(0x3000, 0x3001));
    }

    #[test]
    fn a_path_of_any_bytes_does_not_hide_a_mapping() {
        let maps = Maps::parse(b"1000-2000 rw-p 00000000 fd:00 1 /a\xff\xfe b\n");
        assert_eq!(maps.at(0x1fff).unwrap().protection, PROT_READ | PROT_WRITE);
    }
}
