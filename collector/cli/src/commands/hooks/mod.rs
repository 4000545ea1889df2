//! `tracetee hooks`: each library's slots for a symbol, in a process or a file: which table names
//! them, of which type they are, and where they lead now. What one wants when a trace is empty.

use crate::args::HooksArgs;
use crate::terminal::{hinted, print};
use anyhow::{Context, Result};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use tracetee_hooks::elf::file::FileMemory;
use tracetee_hooks::elf::relocation::Slot;
use tracetee_hooks::elf::{Class, Image, Machine};

/// Lists slots.
pub(crate) fn hooks(args: &HooksArgs) -> Result<()> {
    let names: Vec<&str> = if args.symbols.is_empty() {
        vec!["write", "__write_chk"]
    } else {
        args.symbols.iter().map(String::as_str).collect()
    };
    let text = match (&args.target, args.own) {
        (None, true) => of_process(std::process::id(), &names)?,
        (Some(target), false) => match target.to_str().and_then(|text| text.parse().ok()) {
            Some(pid) => of_process(pid, &names)?,
            None => of_file(Path::new(target), &names)?,
        },
        _ => return Err(hinted("nothing to examine", "pass a process id, a file, or --self")),
    };
    print(&text);
    Ok(())
}

fn of_file(path: &Path, names: &[&str]) -> Result<String> {
    let bytes = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    let image = Image::from_file(&bytes).with_context(|| path.display().to_string())?;
    let Some(image) = image else {
        return Ok(format!("{}: no dynamic section (static)\n", path.display()));
    };
    let slots = image.slots(&bytes_of(names)).with_context(|| path.display().to_string())?;
    let machine = match image.machine() {
        Machine::X86 => "x86",
        Machine::X86_64 => "x86-64",
        Machine::Arm => "arm",
        Machine::Aarch64 => "aarch64",
        Machine::Riscv64 => "riscv64",
    };
    let mut text = format!("{}: {machine}, {} slots\n", path.display(), slots.len());
    for slot in &slots {
        let _ = writeln!(text, "{}", line(slot, names, slot.vaddr, ""));
    }
    Ok(text)
}

pub(crate) fn of_process(pid: u32, names: &[&str]) -> Result<String> {
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps"))
        .with_context(|| format!("cannot read the memory map of process {pid}"))?;
    let mappings: Vec<_> = maps.lines().filter_map(Mapping::parse).collect();
    let memory = File::open(format!("/proc/{pid}/mem"))
        .with_context(|| format!("cannot read the memory of process {pid}"))?;
    // The first mapping of each file that starts at its beginning.
    let mut modules: BTreeMap<&str, &Mapping<'_>> = BTreeMap::new();
    for mapping in mappings.iter().filter(|mapping| mapping.offset == 0) {
        if mapping.path.starts_with('/') {
            modules.entry(mapping.path).or_insert(mapping);
        }
    }
    let mut text = String::new();
    let (mut read, mut with_slots, mut total) = (0, 0, 0);
    for (path, mapping) in modules {
        let mut look = || -> Result<()> {
            let Some(bytes) = read_if_elf(&file_of(pid, mapping))? else { return Ok(()) };
            read += 1;
            let Some(image) = Image::from_file(&bytes)? else { return Ok(()) };
            let slots = image.slots(&bytes_of(names))?;
            if slots.is_empty() {
                return Ok(());
            }
            with_slots += 1;
            total += slots.len();
            let _ = writeln!(text, "{path}");
            for slot in &slots {
                let address = address_of(&image, mapping.start, slot.vaddr);
                let target = match value_at(&memory, address, image.class()) {
                    Some(value) => format!("-> {}", location(&mappings, value)),
                    None => "(not readable)".to_owned(),
                };
                let _ = writeln!(text, "{}", line(slot, names, address, &target));
            }
            Ok(())
        };
        if let Err(error) = look() {
            let _ = writeln!(text, "{path}: {error}");
        }
    }
    let _ = writeln!(text, "{read} libraries read, {with_slots} of them with {total} slots");
    Ok(text)
}

/// Finds the file that a mapping is of. Its path is the process's own where the process lives in another
/// mount namespace, and ours where it lives in a chroot that we can see; `map_files` needs no path, but
/// privileges. The inode tells which one is it.
fn file_of(pid: u32, mapping: &Mapping<'_>) -> PathBuf {
    let Mapping { start, end, path, inode, .. } = *mapping;
    let in_its_root = PathBuf::from(format!("/proc/{pid}/root{path}"));
    let mapped = PathBuf::from(format!("/proc/{pid}/map_files/{start:x}-{end:x}"));
    let candidates = [&*in_its_root, Path::new(path), &*mapped];
    let is_it = |file: &&Path| std::fs::metadata(file).is_ok_and(|file| file.ino() == inode);
    candidates.into_iter().find(is_it).unwrap_or(&in_its_root).to_owned()
}

/// The file's bytes if it is an ELF file. Others are not read: a process may have mapped gigabytes
/// (the recorder's own file, for one).
fn read_if_elf(path: &Path) -> std::io::Result<Option<Vec<u8>>> {
    let mut file = File::open(path)?;
    let mut bytes = vec![0u8; 4];
    if file.read_exact(&mut bytes).is_err() || bytes != b"\x7fELF" {
        return Ok(None);
    }
    file.read_to_end(&mut bytes)?;
    Ok(Some(bytes))
}

fn bytes_of<'a>(names: &[&'a str]) -> Vec<&'a [u8]> {
    names.iter().map(|name| name.as_bytes()).collect()
}

fn line(slot: &Slot, names: &[&str], address: u64, target: &str) -> String {
    let name = names.get(slot.name_index).copied().unwrap_or_default();
    let (table, kind) = (slot.table.name(), slot.kind.name());
    format!("  {name:<12} {table:<16} {kind:<9} {address:#014x} {target}").trim_end().to_owned()
}

/// The address of `vaddr` in a process that has the file's beginning at `start`.
fn address_of(image: &Image<FileMemory<'_>>, start: usize, vaddr: u64) -> u64 {
    let first = image.memory().vaddr_of_file_start();
    (start as u64).wrapping_sub(first).wrapping_add(vaddr)
}

fn value_at(memory: &File, address: u64, class: Class) -> Option<u64> {
    let mut word = [0u8; 8];
    let bytes = word.get_mut(..usize::try_from(class.word_bytes()).ok()?)?;
    memory.read_exact_at(bytes, address).ok()?;
    Some(u64::from_le_bytes(word))
}

/// `libc.so.6+0x1234`, as the file's offset.
fn location(mappings: &[Mapping<'_>], value: u64) -> String {
    let found =
        mappings.iter().find(|mapping| (mapping.start as u64..mapping.end as u64).contains(&value));
    match found {
        Some(mapping) if !mapping.path.is_empty() => {
            let offset = value - mapping.start as u64 + mapping.offset;
            let name = mapping.path.rsplit('/').next().unwrap_or(mapping.path);
            format!("{name}+{offset:#x}")
        }
        _ => format!("{value:#x}"),
    }
}

/// One line of `/proc/PID/maps`.
struct Mapping<'a> {
    start: usize,
    end: usize,
    offset: u64,
    inode: u64,
    path: &'a str,
}

impl<'a> Mapping<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let mut fields = line.splitn(6, ' ');
        let (start, end) = fields.next()?.split_once('-')?;
        let offset = fields.nth(1)?;
        let inode = fields.nth(1)?;
        let path = fields.next().unwrap_or("").trim_start();
        Some(Self {
            start: usize::from_str_radix(start, 16).ok()?,
            end: usize::from_str_radix(end, 16).ok()?,
            offset: u64::from_str_radix(offset, 16).ok()?,
            inode: inode.parse().ok()?,
            path,
        })
    }
}
