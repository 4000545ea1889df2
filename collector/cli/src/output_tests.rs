//! Tests of the files that `-o` names: nothing is replaced that is not a regular file, and a regular one keeps its mode.

use super::*;
use std::fs::Permissions;
use std::io::Read;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, symlink};
use std::process::Command;
use tempfile::TempDir;

fn write(path: &Path) -> Result<()> {
    let mut output = Output::create(path)?;
    output.write_all(b"new")?;
    output.finish()
}

/// Runs a command of the system in a directory. True if it succeeded.
fn run(directory: &TempDir, line: &str) -> bool {
    Command::new("sh").args(["-c", line]).current_dir(directory).status().unwrap().success()
}

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().mode() & 0o7777
}

#[test]
fn a_full_disk_names_the_file() {
    for name in ["/dev/full", "full.gz", "full.zst"] {
        let directory = TempDir::new().unwrap();
        let path = directory.path().join(name);
        if name != "/dev/full" {
            symlink("/dev/full", &path).unwrap();
        }
        let message = format!("{:#}", write(&path).unwrap_err());
        assert!(
            message.starts_with(&format!("cannot write {}: No space", path.display())),
            "{message}"
        );
    }
}

#[test]
fn a_new_file_in_place_gets_its_mode_and_another_keeps_its_own() {
    let directory = TempDir::new().unwrap();
    let [new, old, link, linked] =
        ["new", "old", "link", "linked"].map(|name| directory.path().join(name));
    drop(open_in_place(&new, 0o600).unwrap());
    assert_eq!(mode(&new), 0o600);
    std::fs::write(&old, "").unwrap();
    std::fs::set_permissions(&old, Permissions::from_mode(0o640)).unwrap();
    drop(open_in_place(&old, 0o600).unwrap());
    assert_eq!(mode(&old), 0o640);
    // A copy of a finished file is as private as that.
    symlink("linked", &link).unwrap();
    Target::at(&link).unwrap().publish(&new).unwrap();
    assert_eq!(mode(&linked), 0o600);
}

#[test]
fn a_regular_file_keeps_its_mode_its_owner_and_the_links_to_it() {
    let directory = TempDir::new().unwrap();
    let (file, link) = (directory.path().join("file"), directory.path().join("link"));
    std::fs::write(&file, "an old content that is longer").unwrap();
    std::fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
    // Another owner, if this may give files away.
    let is_given = run(&directory, "chown 12345:54321 file 2>/dev/null");
    symlink("file", &link).unwrap();
    write(&link).unwrap();
    assert!(link.is_symlink(), "the link is followed");
    assert_eq!((std::fs::read(&file).unwrap(), mode(&file)), (b"new".to_vec(), 0o600));
    let found = std::fs::metadata(&file).unwrap();
    assert!(!is_given || (found.uid(), found.gid()) == (12345, 54321), "{found:?}");

    let missing = directory.path().join("missing");
    symlink("made", &missing).unwrap();
    write(&missing).unwrap();
    assert!(missing.is_symlink());
    assert_eq!(std::fs::read(directory.path().join("made")).unwrap(), b"new");
    // A second name of a file still names the same one.
    let second = directory.path().join("second");
    std::fs::hard_link(&file, &second).unwrap();
    std::fs::write(&file, "old").unwrap();
    write(&file).unwrap();
    assert_eq!(std::fs::read(&second).unwrap(), b"new");
    // As `touch` would make it.
    assert!(run(&directory, "touch touched"));
    let fresh = directory.path().join("fresh");
    write(&fresh).unwrap();
    assert_eq!(mode(&fresh), mode(&directory.path().join("touched")));
    let left = std::fs::read_dir(&directory).unwrap().filter(|entry| {
        entry.as_ref().unwrap().file_name().to_string_lossy().starts_with(".tracetee-")
    });
    assert_eq!(left.count(), 0, "no temporary file is left");
    assert!(write(directory.path()).unwrap_err().to_string().contains("is a directory"));
}

#[test]
fn an_output_that_is_an_input_by_any_name_is_refused() {
    let directory = TempDir::new().unwrap();
    let [file, link, second, other] =
        ["file", "link", "second", "other"].map(|name| directory.path().join(name));
    std::fs::write(&file, "trace").unwrap();
    std::fs::write(&other, "trace").unwrap();
    symlink("file", &link).unwrap();
    std::fs::hard_link(&file, &second).unwrap();
    for output in [&file, &link, &second] {
        let error = refuse_input(output, [&other, &file]).unwrap_err().to_string();
        assert!(error.contains("it is the same file as the input"), "{error}");
        assert!(error.contains(&*output.to_string_lossy()), "{error}");
    }
    refuse_input(&file, [&other]).unwrap();
    refuse_input(&directory.path().join("absent"), [&other, &file]).unwrap();
    // A device may be read and written.
    let null = PathBuf::from("/dev/null");
    refuse_input(&null, [&null]).unwrap();
}

#[test]
fn a_fifo_and_a_device_are_written_and_stay_what_they_are() {
    let directory = TempDir::new().unwrap();
    let (fifo, null) = (directory.path().join("fifo"), directory.path().join("null"));
    assert!(run(&directory, "mkfifo fifo"));
    let reader = std::thread::spawn({
        let fifo = fifo.clone();
        move || {
            let mut text = String::new();
            File::open(fifo).unwrap().read_to_string(&mut text).map(|_| text).unwrap()
        }
    });
    write(&fifo).unwrap();
    assert!(std::fs::metadata(&fifo).unwrap().file_type().is_fifo());
    assert_eq!(reader.join().unwrap(), "new");
    // A device like /dev/null, where one may be made and opened.
    if run(&directory, "mknod null c 1 3 2>/dev/null && echo >null 2>/dev/null") {
        write(&null).unwrap();
        assert!(std::fs::metadata(&null).unwrap().file_type().is_char_device());
    }
}

#[test]
fn a_file_in_a_directory_that_may_not_be_written_is_written_in_place() {
    let directory = TempDir::new().unwrap();
    let file = directory.path().join("file");
    std::fs::write(&file, "an old content").unwrap();
    std::fs::set_permissions(&directory, Permissions::from_mode(0o500)).unwrap();
    write(&file).unwrap();
    std::fs::set_permissions(&directory, Permissions::from_mode(0o700)).unwrap();
    assert_eq!(std::fs::read(&file).unwrap(), b"new");
}
