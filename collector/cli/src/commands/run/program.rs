//! The program to run: its path, and whether the dynamic linker will load the agent into it.

use object::elf::{FileHeader32, FileHeader64};
use object::read::elf::{FileHeader, ProgramHeader, Sym};
use object::{Endianness, FileKind, ReadCache, ReadRef, elf};
use rustix::process::{getegid, geteuid};
use std::ffi::OsStr;
use std::fmt;
use std::fs;
use std::io::Read;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// A program that can be started.
#[derive(Debug)]
pub(crate) struct Program {
    /// File of the program.
    pub(crate) path: PathBuf,
    /// The reason why the agent cannot be loaded into it, if any.
    pub(crate) obstacle: Option<String>,
}

/// Why a program cannot be started.
#[derive(Debug)]
pub(crate) enum NotRunnable {
    /// No such file, nor one in PATH.
    NotFound,
    /// It exists, but cannot be executed, for this reason.
    NotExecutable(String),
}

/// Finds `name` as a shell would.
pub(crate) fn find(name: &OsStr) -> Result<Program, NotRunnable> {
    let path = if name.as_encoded_bytes().contains(&b'/') {
        PathBuf::from(name)
    } else {
        in_search_path(name).ok_or(NotRunnable::NotFound)?
    };
    let metadata = fs::metadata(&path).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => NotRunnable::NotFound,
        _ => NotRunnable::NotExecutable(error.to_string()),
    })?;
    if metadata.is_dir() {
        return Err(NotRunnable::NotExecutable("is a directory".to_owned()));
    }
    if metadata.permissions().mode() & 0o111 == 0 {
        return Err(NotRunnable::NotExecutable("permission denied (not executable)".to_owned()));
    }
    let obstacle = obstacle_of(&path, 0);
    Ok(Program { path, obstacle })
}

fn in_search_path(name: &OsStr) -> Option<PathBuf> {
    let search = std::env::var_os("PATH")?;
    std::env::split_paths(&search).map(|directory| directory.join(name)).find(|path| {
        fs::metadata(path)
            .is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
    })
}

/// Scripts name interpreters, which may be scripts.
const MAX_INTERPRETERS: u32 = 4;

/// The kernel reads as much of a script's first line.
const SCRIPT_HEAD_BYTES: u64 = 256;

/// The reason why LD_PRELOAD has no effect on the program at `path`. Programs may have 100 MB: only the needed parts are read.
fn obstacle_of(path: &Path, depth: u32) -> Option<String> {
    let file = fs::File::open(path).ok()?;
    let metadata = file.metadata().ok()?;
    let mut head = Vec::new();
    (&file).take(SCRIPT_HEAD_BYTES).read_to_end(&mut head).ok()?;
    let shown = path.display();
    if let Some(interpreter) = interpreter_of_script(&head)
        && depth < MAX_INTERPRETERS
    {
        // `#!/usr/bin/env python3` is dynamic as env is; what env starts is seen later.
        return obstacle_of(&interpreter, depth + 1);
    }
    if metadata.mode() & 0o6000 != 0 && !runs_as(&metadata) {
        return Some(format!(
            "{shown} is setuid or setgid, so the dynamic linker ignores LD_PRELOAD. Run tracetee as its owner, or \
             run a copy without the bit"
        ));
    }
    let own = Kind::of_this_program()?;
    let kind = Kind::of(&head)?;
    if kind != own {
        return Some(format!("{shown} is built for {kind}, this agent for {own}"));
    }
    let parts = ReadCache::new(&file);
    let (linker, wants_asan) = if kind.is_64_bit {
        facts::<FileHeader64<Endianness>, _>(&parts)?
    } else {
        facts::<FileHeader32<Endianness>, _>(&parts)?
    };
    match linker {
        None => Some(format!(
            "{shown} is statically linked, so no library can be preloaded. Link it dynamically, or call the agent's \
             C API from it"
        )),
        Some(linker) if linker.contains("musl") => Some(format!(
            "{shown} uses musl's dynamic linker ({linker}), this agent is built for glibc"
        )),
        Some(_) if wants_asan && !asan_takes_any_order() => Some(format!(
            "{shown} is built with AddressSanitizer, which exits if another library is loaded before its own. Run \
             tracetee with {ASAN_VARIABLE}={ASAN_ANY_ORDER}"
        )),
        Some(_) => None,
    }
}

/// Variable with AddressSanitizer's options, and the option that allows a library to be loaded before it.
const ASAN_VARIABLE: &str = "ASAN_OPTIONS";
const ASAN_ANY_ORDER: &str = "verify_asan_link_order=0";

fn asan_takes_any_order() -> bool {
    std::env::var(ASAN_VARIABLE).is_ok_and(|options| options.contains(ASAN_ANY_ORDER))
}

/// The kernel drops privileges, and the linker trusts LD_PRELOAD, when the ids do not change.
fn runs_as(metadata: &fs::Metadata) -> bool {
    let (user, group) = (geteuid().as_raw(), getegid().as_raw());
    (metadata.mode() & 0o4000 == 0 || metadata.uid() == user)
        && (metadata.mode() & 0o2000 == 0 || metadata.gid() == group)
}

fn interpreter_of_script(bytes: &[u8]) -> Option<PathBuf> {
    let line = bytes.strip_prefix(b"#!")?.split(|&byte| byte == b'\n').next()?;
    let line = std::str::from_utf8(line).ok()?;
    line.split_whitespace().next().map(PathBuf::from)
}

/// Target of an ELF program.
#[derive(Debug, PartialEq, Eq)]
struct Kind {
    is_64_bit: bool,
    machine: elf::Machine,
}

impl Kind {
    /// Reads only the first bytes of the file, because it is large.
    fn of_this_program() -> Option<Self> {
        let mut head = [0u8; 64];
        fs::File::open("/proc/self/exe").ok()?.read_exact(&mut head).ok()?;
        Self::of(&head)
    }

    fn of(bytes: &[u8]) -> Option<Self> {
        let is_64_bit = match FileKind::parse(bytes).ok()? {
            FileKind::Elf32 => false,
            FileKind::Elf64 => true,
            _ => return None,
        };
        let machine = elf::Machine(u16::from_le_bytes([*bytes.get(18)?, *bytes.get(19)?]));
        Some(Self { is_64_bit, machine })
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bits = if self.is_64_bit { 64 } else { 32 };
        match self.machine {
            elf::EM_386 => f.write_str("i386"),
            elf::EM_X86_64 if self.is_64_bit => f.write_str("x86-64"),
            elf::EM_ARM => f.write_str("ARM"),
            elf::EM_AARCH64 => f.write_str("AArch64"),
            other => write!(f, "ELF machine {}, {bits} bit", other.0),
        }
    }
}

/// Maximum number of undefined symbols whose names are read.
const MAX_IMPORTS: usize = 1 << 16;

/// The dynamic linker that the program requests (`None` for a static one), and whether it needs AddressSanitizer's library.
fn facts<'a, H: FileHeader<Endian = Endianness>, R: ReadRef<'a>>(
    data: R,
) -> Option<(Option<String>, bool)> {
    let header = H::parse(data).ok()?;
    let endian = header.endian().ok()?;
    let segments = header.program_headers(endian, data).ok()?;
    let segment = segments.iter().find(|segment| segment.p_type(endian) == elf::PT_INTERP);
    let linker = segment.and_then(|segment| segment.data(endian, data).ok());
    let linker = linker.map(|path| String::from_utf8_lossy(path).trim_end_matches('\0').to_owned());
    let symbols =
        header.sections(endian, data).ok()?.symbols(endian, data, elf::SHT_DYNSYM).ok()?;
    let mut imports = symbols.iter().filter(|symbol| symbol.is_undefined(endian)).take(MAX_IMPORTS);
    let is_asan = imports.any(|symbol| {
        symbol.name(endian, symbols.strings()).is_ok_and(|name| name == b"__asan_init")
    });
    Some((linker, is_asan))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_program_is_judged_by_its_parts() {
        let directory = tempfile::tempdir().unwrap();
        let [path, script] = ["large", "script"].map(|name| directory.path().join(name));
        let mut program = fs::read("/bin/sh").unwrap();
        let (glibc, musl) = (b"/lib64/ld-linux-x86-64.so.2", b"/lib64/ld-musl-x86-64.so.2\0");
        let at = program.windows(glibc.len()).position(|bytes| bytes == glibc);
        let Some(at) = at else { return eprintln!("skipped: another architecture") };
        let judged = |program: &[u8]| {
            fs::write(&path, program).unwrap();
            // More than this machine's memory.
            fs::File::options().write(true).open(&path).unwrap().set_len(1 << 42).unwrap();
            fs::write(&script, format!("#!{} -x\n", path.display())).unwrap();
            [&path, &script].map(|path| obstacle_of(path, 0))
        };
        assert_eq!(judged(&program), [None, None]);
        program[at..at + musl.len()].copy_from_slice(musl);
        for obstacle in judged(&program) {
            let obstacle = obstacle.unwrap();
            assert!(
                obstacle.contains("uses musl's dynamic linker (/lib64/ld-musl-x86-64.so.2)"),
                "{obstacle}"
            );
        }
    }
}
