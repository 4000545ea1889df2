//! lld's link map of a library: bytes by part.
//!
//! A line is an output section, or indented by 8 an input section, or by 16 a symbol. Rust compiles each function
//! into a section that is named after it, so a function's crate is in the name of its section.

use std::collections::BTreeMap;

/// The bytes of each part of the library of which this is the map: crates, `std`, `zstd`, and what cannot be
/// attributed to them by section.
#[must_use]
pub fn bytes_by_part(map: &str) -> BTreeMap<String, u64> {
    let mut parts = BTreeMap::new();
    let mut output = "";
    for line in map.lines() {
        // VMA, LMA, size, alignment; then a space and the name, with its indentation.
        let mut rest = line;
        let mut columns = [""; 4];
        for column in &mut columns {
            rest = rest.trim_start_matches(' ');
            let end = rest.find(' ').unwrap_or(rest.len());
            (*column, rest) = rest.split_at(end);
        }
        let Ok(size) = u64::from_str_radix(columns[2], 16) else { continue };
        let Some(name) = rest.strip_prefix(' ') else { continue };
        match name.len() - name.trim_start_matches(' ').len() {
            0 => {
                output = name;
                if let Some(part) = whole_section(output) {
                    *parts.entry(part.to_owned()).or_default() += size;
                }
            }
            8 if output == ".text" => {
                *parts.entry(part_of(name.trim_start())).or_default() += size;
            }
            _ => {}
        }
    }
    parts
}

/// The part that is a section as a whole; `.bss` has no bytes in the file, and symbols are stripped.
fn whole_section(name: &str) -> Option<&'static str> {
    Some(match name {
        ".text" | ".bss" | ".relro_padding" | ".symtab" | ".strtab" => return None,
        _ if name.starts_with(".debug_") => return None,
        ".rodata" => "constants",
        ".eh_frame" | ".eh_frame_hdr" | ".gcc_except_table" | ".ARM.exidx" | ".ARM.extab" => {
            "unwind tables"
        }
        ".data" | ".data.rel.ro" | ".tdata" => "data",
        ".rel.dyn" | ".rela.dyn" | ".rel.plt" | ".rela.plt" => "relocations",
        _ if name.starts_with('.') => "linking",
        _ => return None,
    })
}

/// The part that an input section of `.text` belongs to.
fn part_of(section: &str) -> String {
    if section.contains("libzstd_sys") {
        return "zstd".to_owned();
    }
    let Some((_, name)) = section.rsplit_once(":(.text") else { return "linking".to_owned() };
    if !section.contains(".rcgu.o:") {
        return "C".to_owned();
    }
    // LLVM makes them of code of all crates.
    if name.starts_with(".OUTLINED_FUNCTION") {
        return "outlined".to_owned();
    }
    let mut generic = None;
    for name in crates(name) {
        match name {
            "core" | "alloc" | "std" | "compiler_builtins" | "panic_abort" | "panic_unwind"
            | "hashbrown" | "__rustc" => generic = generic.or(Some("std")),
            // Guards are generic over the bodies that they call.
            "tracetee_os" => generic = Some(name),
            _ => return name.to_owned(),
        }
    }
    generic.unwrap_or("entry points").to_owned()
}

/// The crates in a mangled name (RFC 2603, `C` with a disambiguator `s…_`), in order: of a generic function of std
/// the second may be the crate that it was instantiated for.
fn crates(mangled: &str) -> impl Iterator<Item = &str> {
    mangled.match_indices("Cs").filter_map(|(position, _)| {
        let rest = mangled.get(position + 2..)?;
        let (disambiguator, rest) = rest.split_once('_')?;
        if disambiguator.len() > 13
            || !disambiguator.bytes().all(|byte| byte.is_ascii_alphanumeric())
        {
            return None;
        }
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let (length, rest) = rest.split_at(digits);
        let rest = rest.strip_prefix('_').unwrap_or(rest);
        rest.get(..length.parse().ok()?)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_their_crate_s_and_sections_their_part_s() {
        let map = "\
             VMA              LMA     Size Align Out     In      Symbol
            5580             5580     f9b0    16 .rodata
            5580             5580        6     1         /o/x.rcgu.o:(.rodata._)
           14f30            14f30    978a4     4 .text
           14f30            14f30       10     4         /o/x.rcgu.o:(.text._RNvMNtCsc7kVmNWPaS_8tracetee4turn)
           14f30            14f30       10     1                 _RNvMNtCsc7kVmNWPaS_8tracetee4turn
           14f40            14f40       20     4         /o/x.rcgu.o:(.text._RINvNtCsimuNdWOWMc0_4core3ptr9drop_glueNtCschl03iNJRNd_13tracetee_text1EE)
           14f60            14f60        8     4         /o/x.rcgu.o:(.text._RNvNtCsimuNdWOWMc0_4core3fmt5write)
           14f68            14f68        4     4         /o/x.rcgu.o:(.text.tracetee_start)
           14f68            14f68        1     4         /o/x.rcgu.o:(.text._RNvMsx_NtCsabc_11tracetee_os4jumpINtB5_4CallNCNvNtCsc7kVmNWPaS_8tracetee3ffiE3run)
           14f68            14f68        2     4         /o/x.rcgu.o:(.text._RNvMsx_NtCsabc_11tracetee_os4jump3run)
           14f68            14f68        3     4         /o/x.rcgu.o:(.text.OUTLINED_FUNCTION_7)
           14f6c            14f6c        4     4         /o/libzstd_sys-1bc.rlib(44-zstd_fast.o):(.text.ZSTD_x)
           14f70            14f70        4     4         /o/crtbegin_so.o:(.text)
           b9280            b9280   102678   128 .bss
";
        let parts = bytes_by_part(map);
        let parts: Vec<_> = parts.iter().map(|(name, bytes)| (name.as_str(), *bytes)).collect();
        assert_eq!(
            parts,
            [
                ("C", 4),
                ("constants", 0xf9b0),
                ("entry points", 4),
                ("outlined", 3),
                ("std", 8),
                ("tracetee", 0x11),
                ("tracetee_os", 2),
                ("tracetee_text", 0x20),
                ("zstd", 4),
            ]
        );
    }
}
