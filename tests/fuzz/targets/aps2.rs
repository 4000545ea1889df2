//! Android's packed relocations of any bytes: unpacking ends, and gives no more than it may.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tracetee_hooks::elf::{Class, relocation::unpack};

const MAX: u64 = 100_000;

fuzz_target!(|bytes: &[u8]| {
    for class in [Class::Elf32, Class::Elf64] {
        let mut count = 0;
        let whole = unpack(bytes, class, MAX, |offset, _, _| {
            count += 1;
            assert!(class == Class::Elf64 || offset <= u64::from(u32::MAX));
        });
        assert!(count <= MAX || whole.is_none());
    }
});
