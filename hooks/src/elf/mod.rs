//! A bounds-checked reader of ELF images: of libraries loaded into this process, and of files.
//!
//! [`Memory`] returns bytes at a virtual address if they are in a PT_LOAD segment. Through it,
//! [`Image`] reads the dynamic section ([`dynamic`]), walks the relocation tables ([`relocation`])
//! and looks up symbols ([`symbol`]). Every read goes through [`Memory::bytes`], so a broken library
//! yields an [`Error::Malformed`], never a wild read. The module writes nothing and keeps no pointer
//! beyond the borrow of its memory.

pub mod dynamic;
pub mod file;
pub mod relocation;
pub mod symbol;

use crate::error::Error;
use dynamic::Dynamic;

/// Word size of an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// ELFCLASS32.
    Elf32,
    /// ELFCLASS64.
    Elf64,
}

impl Class {
    /// Returns the size of an address, and of a GOT slot, in bytes.
    #[must_use]
    pub const fn word_bytes(self) -> u64 {
        match self {
            Self::Elf32 => 4,
            Self::Elf64 => 8,
        }
    }

    /// Returns the size of an `Elf_Sym` in bytes.
    #[must_use]
    pub const fn symbol_bytes(self) -> u64 {
        match self {
            Self::Elf32 => 16,
            Self::Elf64 => 24,
        }
    }

    /// Returns the class of the running process.
    pub const NATIVE: Self =
        if cfg!(target_pointer_width = "64") { Self::Elf64 } else { Self::Elf32 };
}

// The sizes above restate plt-rs's structure types for the class that it supports here, the
// process's own: a foreign class has no types in plt-rs, and one reader serves both.
#[cfg(target_pointer_width = "32")]
use plt_rs::elf32 as native;
#[cfg(target_pointer_width = "64")]
use plt_rs::elf64 as native;
const _: () = assert!(size_of::<native::DynSym>() as u64 == Class::NATIVE.symbol_bytes());
const _: () = assert!(size_of::<native::DynEntry>() as u64 == 2 * Class::NATIVE.word_bytes());
const _: () = assert!(size_of::<native::DynRel>() as u64 == 2 * Class::NATIVE.word_bytes());
const _: () = assert!(size_of::<native::DynRela>() as u64 == 3 * Class::NATIVE.word_bytes());

/// Instruction sets of Android's ABIs, and riscv64.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Machine {
    /// EM_386.
    X86,
    /// EM_X86_64.
    X86_64,
    /// EM_ARM.
    Arm,
    /// EM_AARCH64.
    Aarch64,
    /// EM_RISCV, 64 bit.
    Riscv64,
}

impl Machine {
    /// Returns the machine of the running process.
    pub const NATIVE: Self = {
        #[cfg(target_arch = "x86")]
        {
            Self::X86
        }
        #[cfg(target_arch = "x86_64")]
        {
            Self::X86_64
        }
        #[cfg(target_arch = "arm")]
        {
            Self::Arm
        }
        #[cfg(target_arch = "aarch64")]
        {
            Self::Aarch64
        }
        #[cfg(target_arch = "riscv64")]
        {
            Self::Riscv64
        }
    };

    /// Reads `e_machine`, given the class.
    ///
    /// # Errors
    /// [`Error::Unsupported`] for any other machine.
    pub fn from_header(e_machine: u16, class: Class) -> Result<Self, Error> {
        match (e_machine, class) {
            (3, Class::Elf32) => Ok(Self::X86),
            (62, Class::Elf64) => Ok(Self::X86_64),
            (40, Class::Elf32) => Ok(Self::Arm),
            (183, Class::Elf64) => Ok(Self::Aarch64),
            (243, Class::Elf64) => Ok(Self::Riscv64),
            _ => Err(Error::Unsupported { what: "e_machine", value: u64::from(e_machine) }),
        }
    }
}

/// The bytes of an image, by virtual address (before relocation by the load bias).
pub trait Memory {
    /// Returns `len` bytes at `vaddr` if all of them lie in one readable PT_LOAD segment.
    fn bytes(&self, vaddr: u64, len: u64) -> Option<&[u8]>;

    /// Returns the virtual address of a `d_ptr`, which loaders may have relocated in place.
    fn vaddr_of(&self, d_ptr: u64) -> u64 {
        d_ptr
    }

    /// Returns one past the highest virtual address, a limit for plausible counts.
    fn end_vaddr(&self) -> u64;
}

/// An image whose dynamic section has been read.
#[derive(Debug)]
pub struct Image<M> {
    memory: M,
    class: Class,
    machine: Machine,
    dynamic: Dynamic,
}

impl<M: Memory> Image<M> {
    /// Reads the dynamic section of `dynamic_bytes` bytes at `dynamic_vaddr`.
    ///
    /// # Errors
    /// [`Error::Malformed`] if it is outside the segments or its tables contradict each other.
    pub fn new(
        memory: M,
        class: Class,
        machine: Machine,
        dynamic_vaddr: u64,
        dynamic_bytes: u64,
    ) -> Result<Self, Error> {
        let dynamic = Dynamic::read(&memory, class, dynamic_vaddr, dynamic_bytes)?;
        Ok(Self { memory, class, machine, dynamic })
    }

    /// Returns the word size.
    pub const fn class(&self) -> Class {
        self.class
    }

    /// Returns the instruction set.
    pub const fn machine(&self) -> Machine {
        self.machine
    }

    /// Returns the parsed dynamic section.
    pub const fn dynamic(&self) -> &Dynamic {
        &self.dynamic
    }

    /// Returns the bytes of the image.
    pub const fn memory(&self) -> &M {
        &self.memory
    }

    /// Returns DT_SONAME, if there is one.
    pub fn soname(&self) -> Option<&[u8]> {
        self.string(self.dynamic.soname?)
    }

    /// Returns the NUL-terminated string at `offset` of the dynamic string table.
    pub(crate) fn string(&self, offset: u64) -> Option<&[u8]> {
        let (vaddr, bytes) = self.dynamic.strtab?;
        let rest = bytes.checked_sub(offset)?;
        let tail = self.memory.bytes(vaddr.checked_add(offset)?, rest)?;
        let end = tail.iter().position(|&byte| byte == 0)?;
        tail.get(..end)
    }

    /// True if the string at `offset` is `wanted`. Does not search for its end.
    pub(crate) fn string_is(&self, offset: u64, wanted: &[u8]) -> bool {
        let Some((vaddr, bytes)) = self.dynamic.strtab else { return false };
        let len = wanted.len() as u64;
        let Some(end) = offset.checked_add(len) else { return false };
        if end >= bytes {
            return false;
        }
        let Some(at) = vaddr.checked_add(offset) else { return false };
        match self.memory.bytes(at, len + 1).and_then(<[u8]>::split_last) {
            Some((&0, text)) => text == wanted,
            _ => false,
        }
    }
}

/// Reads the little-endian `u16` at `at` of `bytes`.
pub(crate) fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(bytes.get(at..at.checked_add(2)?)?.try_into().ok()?))
}

/// Reads the little-endian `u32` at `at` of `bytes`.
pub(crate) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at.checked_add(4)?)?.try_into().ok()?))
}

/// Reads the little-endian `u64` at `at` of `bytes`.
pub(crate) fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at.checked_add(8)?)?.try_into().ok()?))
}

/// Reads an address-sized word of `class` at `at` of `bytes`.
pub(crate) fn word_at(bytes: &[u8], at: usize, class: Class) -> Option<u64> {
    match class {
        Class::Elf32 => u32_at(bytes, at).map(u64::from),
        Class::Elf64 => u64_at(bytes, at),
    }
}
