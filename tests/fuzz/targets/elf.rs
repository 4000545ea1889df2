//! The ELF reader on a file of any bytes: slots, names and look-ups never panic.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tracetee_hooks::elf::Image;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(Some(image)) = Image::from_file(bytes) {
        let _ = image.slots(&[b"write", b"__write_chk", b"malloc"]);
        let _ = image.soname();
        for name in [&b"write"[..], b"atrace_enabled_tags", b""] {
            let _ = image.definition(name);
        }
        for index in 0..8 {
            let _ = image.symbol_name(index);
        }
    }
});
