//! The public Rust API, compared with `api/tracetee.api`: each public item of the crate in one line, and those of the
//! types that it re-exports from `tracetee-protocol`.
//!
//! rustdoc describes a crate as JSON behind an unstable flag. The toolchain is pinned (`rust-toolchain.toml`), and so is the
//! version of `public-api`, which reads that toolchain's format; raise them together.

#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "a test, which starts cargo")]

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

/// The types of `tracetee-protocol` that `lib.rs` re-exports, with their module: `health::Health`.
fn re_exported() -> Vec<String> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/lib.rs");
    let source = std::fs::read_to_string(source).unwrap();
    let lines = source.split(';').filter_map(|line| {
        line.trim().strip_prefix("pub use tracetee_protocol::")?.rsplit_once("::")
    });
    lines
        .flat_map(|(module, names)| {
            let names = names.trim_matches(['{', '}']).split(',').map(str::trim);
            names.filter(|name| !name.is_empty()).map(move |name| format!("{module}::{name}"))
        })
        .collect()
}

#[test]
fn the_public_api_is_as_reviewed() {
    let mut lines = items("tracetee-agent", "tracetee");
    let types = re_exported();
    assert!(types.len() > 5, "{types:?}");
    let of_protocol = items("tracetee-protocol", "tracetee_protocol");
    for name in &types {
        let path = format!("tracetee_protocol::{name}");
        let is_of = |line: &&String| {
            line.match_indices(&path).any(|(at, _)| {
                let next = line[at + path.len()..].chars().next();
                let before = line[..at].chars().next_back();
                // The item itself, or a member: not a type whose name begins so, nor a use of the type elsewhere.
                !next.is_some_and(|next| next.is_alphanumeric() || next == '_')
                    && before.is_none_or(char::is_whitespace)
                    && !line[..at].contains(": ")
            })
        };
        let found: Vec<_> = of_protocol.iter().filter(is_of).cloned().collect();
        assert!(found.len() > 1, "{path}");
        lines.extend(found);
    }
    let text: String = lines.into_iter().map(|line| line + "\n").collect();
    let dump = Path::new(env!("CARGO_MANIFEST_DIR")).join("api/tracetee.api");
    if std::env::var_os("TRACETEE_BLESS").is_some() {
        std::fs::write(&dump, &text).unwrap();
    }
    let reviewed = std::fs::read_to_string(&dump).unwrap_or_default();
    let only = |one: &str, other: &str| -> Vec<String> {
        let has = |line: &&str| !other.lines().any(|of| of == *line);
        one.lines().filter(has).map(str::to_owned).collect()
    };
    let (new, gone) = (only(&text, &reviewed), only(&reviewed, &text));
    assert!(
        text == reviewed,
        "the API differs from api/tracetee.api: new are {new:#?}, gone are {gone:#?}. If that is meant: \
         TRACETEE_BLESS=1 cargo test -p tracetee-agent --test rust_api"
    );
}
