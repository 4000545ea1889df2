//! Real Android libraries, of four ABIs, read by our ELF reader and by binutils' readelf: the same
//! slots in the same tables.
//!
//! The packages come from npm and PyPI by their ordinary clients, pinned, into the cache; none is
//! committed.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;
use tracetee_hooks::elf::relocation::SlotKind;
use tracetee_hooks::elf::{Image, Machine};
use tracetee_tests::{cache, skip};

const NPM: [&str; 5] = [
    "react-native@0.64.4",
    "@devicefarmer/minicap-prebuilt@2.7.3",
    "jsc-android@294992.0.0",
    "@nativescript/android@9.1.1",
    "hermes-engine@0.11.0",
];
const SYMBOLS: [&str; 6] = ["write", "__write_chk", "malloc", "open", "close", "read"];

/// Downloads and unpacks all packages, once; gives the directory.
fn corpora() -> Option<PathBuf> {
    let directory = cache("android-libraries");
    let done = directory.join("done-1");
    if done.exists() {
        return Some(directory);
    }
    for package in NPM {
        let output = Command::new("npm")
            .args(["pack", "--silent", package])
            .current_dir(&directory)
            .output();
        let Some(output) = output.ok().filter(|output| output.status.success()) else {
            skip(&format!("npm cannot fetch {package}"));
            return None;
        };
        let name = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        run(&directory, "tar", &["xzf", &name, "--one-top-level"]);
        run(&directory, "rm", &[&name]);
    }
    let wheel = Command::new("pip")
        .args(["download", "--quiet", "--no-deps", "--only-binary=:all:"])
        .args(["--platform", "android_24_arm64_v8a", "--python-version", "3.13"])
        .args(["--implementation", "cp", "xxhash==4.1.0"])
        .current_dir(&directory)
        .status();
    if !wheel.is_ok_and(|status| status.success()) {
        skip("pip cannot fetch xxhash");
        return None;
    }
    for archive in files_under(&directory) {
        let extension = archive.extension().unwrap_or_default();
        if extension == "aar" || extension == "whl" {
            let target = archive.with_extension("unpacked");
            let (archive, target) = (archive.to_str().unwrap(), target.to_str().unwrap());
            run(&directory, "unzip", &["-q", "-o", archive, "*.so", "-d", target]);
        }
    }
    std::fs::write(done, "").unwrap();
    Some(directory)
}

fn run(directory: &Path, program: &str, arguments: &[&str]) {
    let output = Command::new(program).args(arguments).current_dir(directory).output().unwrap();
    // unzip says 11 when an archive has no file of the pattern.
    let fine = output.status.success() || output.status.code() == Some(11);
    assert!(fine, "{program} {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
}

fn files_under(directory: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut pending = vec![directory.to_owned()];
    while let Some(directory) = pending.pop() {
        for entry in std::fs::read_dir(directory).unwrap() {
            let entry = entry.unwrap();
            match entry.file_type().unwrap() {
                kind if kind.is_dir() => pending.push(entry.path()),
                kind if kind.is_file() => files.push(entry.path()),
                _ => {}
            }
        }
    }
    files.sort();
    files
}

type Found = BTreeSet<(u64, String, &'static str)>;

fn ours(image: &Image<impl tracetee_hooks::elf::Memory>) -> Found {
    let names: Vec<_> = SYMBOLS.iter().map(|name| name.as_bytes()).collect();
    image
        .slots(&names)
        .unwrap()
        .into_iter()
        .map(|slot| (slot.vaddr, SYMBOLS[slot.name_index].to_owned(), slot.kind.name()))
        .collect()
}

/// `readelf -rW`: `offset info type value name@version + addend`.
fn of_readelf(path: &Path, machine: Machine) -> Found {
    let output = Command::new("readelf").arg("-rW").arg(path).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let absolute = match machine {
        Machine::X86_64 => "R_X86_64_64",
        Machine::Aarch64 => "R_AARCH64_ABS64",
        Machine::Arm => "R_ARM_ABS32",
        Machine::X86 => "R_386_32",
        Machine::Riscv64 => "R_RISCV_64",
    };
    let mut found = Found::new();
    for line in text.lines() {
        let words: Vec<_> = line.split_whitespace().collect();
        let [offset, _, kind, _, name, rest @ ..] = words.as_slice() else { continue };
        let name = name.split('@').next().unwrap();
        let (Ok(offset), true) = (u64::from_str_radix(offset, 16), SYMBOLS.contains(&name)) else {
            continue;
        };
        let kind = if kind.contains("JUMP_SL") {
            SlotKind::JumpSlot
        } else if kind.contains("GLOB_DA") {
            SlotKind::GlobDat
        } else if *kind == absolute && !matches!(rest, ["+" | "-", addend] if *addend != "0") {
            SlotKind::Absolute
        } else {
            continue;
        };
        found.insert((offset, name.to_owned(), kind.name()));
    }
    found
}

#[test]
fn our_reader_finds_the_slots_that_readelf_finds_in_every_library_of_every_abi() {
    let Some(directory) = corpora() else { return };
    let (mut libraries, mut slots) = (BTreeMap::new(), BTreeMap::new());
    let (mut packed, mut relr, mut programs_without_dynamic) = (0, 0, 0);
    for path in files_under(&directory) {
        let bytes = std::fs::read(&path).unwrap();
        if !bytes.starts_with(b"\x7fELF") {
            continue;
        }
        let image = match Image::from_file(&bytes) {
            Ok(Some(image)) => image,
            Ok(None) => {
                programs_without_dynamic += 1;
                continue;
            }
            Err(error) => panic!("{}: {error}", path.display()),
        };
        let machine = image.machine();
        let found = ours(&image);
        assert_eq!(found, of_readelf(&path, machine), "{}", path.display());
        *libraries.entry(format!("{machine:?}")).or_insert(0) += 1;
        *slots.entry(format!("{machine:?}")).or_insert(0) += found.len();
        packed +=
            usize::from(image.dynamic().android_rela.or(image.dynamic().android_rel).is_some());
        relr += usize::from(image.dynamic().has_relr);
    }
    println!("libraries {libraries:?}, slots {slots:?}");
    println!("{packed} with APS2 tables, {relr} with RELR, {programs_without_dynamic} static");
    assert_eq!(libraries.len(), 4, "four ABIs");
    assert!(libraries.values().all(|&count| count >= 20), "{libraries:?}");
    assert!(slots.values().sum::<usize>() > 300 && packed > 0 && relr > 0);
}
