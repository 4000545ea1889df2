//! The public Rust API, compared with `snapshots/rust_api.snap`: each public item of the crate in one line, and those of the
//! types that it re-exports from our other crates. No signature names a type that a consumer cannot name.
//!
//! rustdoc describes a crate as JSON behind an unstable flag. The toolchain is pinned (`rust-toolchain.toml`), and so is the
//! version of `public-api`, which reads that toolchain's format; raise them together.

#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "a test, which starts cargo")]

use regex::Regex;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The public items of a crate of the workspace, one a line.
fn items(package: &str, name: &str) -> Vec<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let target = std::env::var_os("CARGO_TARGET_DIR")
        .map_or_else(|| root.join("../target"), PathBuf::from)
        .join("rust-api");
    let status = Command::new(env!("CARGO"))
        .current_dir(root)
        .args(["rustdoc", "--quiet", "--locked", "--lib", "--package", package])
        .args(["--", "-Z", "unstable-options", "--output-format", "json", "--cap-lints", "allow"])
        .env("RUSTC_BOOTSTRAP", "1")
        .env("CARGO_TARGET_DIR", &target)
        .status()
        .unwrap();
    assert!(status.success(), "rustdoc of {package} failed");
    let json = target.join(format!("doc/{name}.json"));
    let api = public_api::Builder::from_rustdoc_json(json)
        .omit_blanket_impls(true)
        .omit_auto_trait_impls(true)
        .build()
        .unwrap();
    api.items().map(ToString::to_string).collect()
}

/// A type of another crate that `lib.rs` re-exports.
struct ReExport {
    /// The crate: `tracetee_protocol`.
    krate: String,
    /// The path to the type within the crate as far as `lib.rs` names it, and the type's name.
    path: Regex,
    /// The name that consumers use: `tracetee::RawJson`.
    name: String,
}

/// Reads the re-exports `pub use tracetee_CRATE::MODULE::{NAME, NAME as ALIAS}` of `lib.rs`.
fn re_exports() -> Vec<ReExport> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/lib.rs");
    let source = std::fs::read_to_string(source).unwrap();
    let statement =
        Regex::new(r"pub use (tracetee_\w+)((?:::[a-z_]+)*)::(?:\{([^}]*)\}|(\w[^;{]*));").unwrap();
    let mut found = Vec::new();
    for statement in statement.captures_iter(&source) {
        let names = statement.get(3).or(statement.get(4)).unwrap().as_str();
        for name in names.split(',').map(str::trim).filter(|name| !name.is_empty()) {
            let (name, alias) = name.split_once(" as ").unwrap_or((name, name));
            let path = format!(r"\b{}{}(?:::[a-z_]+)*::{name}\b", &statement[1], &statement[2]);
            found.push(ReExport {
                krate: statement[1].to_owned(),
                path: Regex::new(&path).unwrap(),
                name: format!("tracetee::{alias}"),
            });
        }
    }
    found
}

/// Returns true if a line of the dump declares the type `name`, a member of it or an implementation for it.
fn declares(line: &str, name: &str) -> bool {
    let ends = ["(", ": ", " = ", " where "];
    let head = ends.iter().fold(line, |head, end| head.split(end).next().unwrap_or(head));
    let path = head.rsplit(' ').next().unwrap_or(head);
    let rest = path.strip_prefix(name);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with("::") || rest.starts_with('<'))
}

#[test]
fn the_public_api_is_as_reviewed() {
    let re_exports = re_exports();
    assert!(re_exports.len() > 30);
    let renamed = |line: String| {
        re_exports.iter().fold(line, |line, export| {
            export.path.replace_all(&line, export.name.as_str()).into_owned()
        })
    };
    let mut lines: Vec<_> = items("tracetee-agent", "tracetee").into_iter().map(renamed).collect();
    let crates: BTreeSet<_> = re_exports.iter().map(|export| &export.krate).collect();
    for krate in crates {
        let items = items(&krate.replace('_', "-"), krate).into_iter().map(renamed);
        let items: BTreeSet<_> = items.collect();
        for export in re_exports.iter().filter(|export| export.krate == *krate) {
            let found: Vec<_> =
                items.iter().filter(|line| declares(line, &export.name)).cloned().collect();
            assert!(found.len() > 1, "{} of {krate}", export.name);
            lines.extend(found);
        }
    }
    let of_other_crates = Regex::new(r"\btracetee_[a-z]+::").unwrap();
    let unnamed: Vec<_> = lines.iter().filter(|line| of_other_crates.is_match(line)).collect();
    assert!(
        unnamed.is_empty(),
        "consumers cannot name a type in these signatures; re-export it in lib.rs: {unnamed:#?}"
    );
    // Follow from the line of the implementation.
    let derived = Regex::new(r"^pub fn .*::(clone|default|eq|fmt)\(|StructuralPartialEq").unwrap();
    lines.retain(|line| !derived.is_match(line));
    let text: String = lines.into_iter().map(|line| line + "\n").collect();
    let mut settings = insta::Settings::clone_current();
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.bind(|| insta::assert_snapshot!("rust_api", text));
}
