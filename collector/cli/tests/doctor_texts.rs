//! All texts that `tracetee doctor` can print, its own and those of the agent's health report, compared with
//! `snapshots/doctor.snap`: a new text is read in a review, and every text can be searched for.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Sources of the texts, from the repository's root: files, or directories with all their files.
const SOURCES: [&str; 21] = [
    "agent/os/src/guard/broken.rs",
    "agent/os/src/guard/jump.rs",
    "agent/src/android",
    "agent/src/capture",
    "agent/src/controller",
    "agent/src/controller.rs",
    "agent/src/error.rs",
    "agent/src/health_report",
    "agent/src/tags.rs",
    "agent/tee/src",
    "collector/cli/src/commands/doctor",
    "collector/cli/src/commands/doctor.rs",
    "collector/cli/src/commands/run",
    "hooks/src/atrace.rs",
    "hooks/src/elf",
    "hooks/src/error.rs",
    "hooks/src/loaded.rs",
    "hooks/src/patch.rs",
    "hooks/src/registry.rs",
    "hooks/src/report.rs",
    "uploader/src",
];

fn sources(path: &Path, into: &mut Vec<PathBuf>) {
    if path.is_dir() {
        for entry in std::fs::read_dir(path).unwrap() {
            sources(&entry.unwrap().path(), into);
        }
    } else if path.extension().is_some_and(|extension| extension == "rs")
        && !path.file_stem().unwrap().to_string_lossy().ends_with("tests")
    {
        into.push(path.to_owned());
    }
}

/// Adds the string literals of `source` that have several words, up to its tests.
fn literals(source: &str, into: &mut BTreeSet<String>) {
    let source = source.split("#[cfg(test)]\nmod tests").next().unwrap();
    let mut chars = source.chars().peekable();
    let mut line_start = String::new();
    while let Some(char) = chars.next() {
        match char {
            '\n' => line_start.clear(),
            // A comment ends with its line.
            '/' if chars.peek() == Some(&'/') => {
                while chars.next_if(|&char| char != '\n').is_some() {}
            }
            '\'' => {
                // A character; a lifetime has no second quote.
                if chars.next_if_eq(&'\\').is_some() {
                    chars.by_ref().nth(1);
                } else if chars.next_if_eq(&'"').is_some() {
                    chars.next();
                }
            }
            '"' => {
                let mut text = String::new();
                while let Some(char) = chars.next() {
                    match char {
                        '"' => break,
                        '\\' if chars.next_if_eq(&'\n').is_some() => {
                            while chars.next_if(|char| char.is_whitespace()).is_some() {}
                        }
                        '\\' => text.extend(['\\', chars.next().unwrap()]),
                        char => text.push(char),
                    }
                }
                // Reasons of lints and of expectations are for readers of the source.
                let is_text =
                    text.split_whitespace().filter(|word| word.starts_with(char::is_alphabetic));
                if is_text.count() > 1 && !line_start.contains("reason = ") {
                    into.insert(text);
                }
            }
            char => line_start.push(char),
        }
    }
}

#[test]
fn the_doctors_texts_are_as_reviewed() {
    let crate_root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = Vec::new();
    for source in SOURCES {
        let path = crate_root.join("../..").join(source);
        assert!(path.exists(), "{source} has moved");
        sources(&path, &mut files);
    }
    let mut texts = BTreeSet::new();
    for file in files {
        literals(&std::fs::read_to_string(file).unwrap(), &mut texts);
    }
    let text = texts.into_iter().map(|text| text + "\n").collect::<String>();
    let mut settings = insta::Settings::clone_current();
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.bind(|| insta::assert_snapshot!("doctor", text));
}
