//! Builds what the program carries inside: the agent's library, so that `tracetee run` works
//! from one file, and the demo's sample app with its stand-in libcutils.
//!
//! The agent is built by a second cargo with the profile `agent` (a phone's settings, and only
//! the cdylib, which alone lets LTO work); Cargo itself cannot make a cdylib a dependency of a
//! program on a stable toolchain.

use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    let out = PathBuf::from(variable("OUT_DIR"));
    let root = Path::new(&variable("CARGO_MANIFEST_DIR")).join("..");
    for input in [
        "agent/src",
        "agent/build.rs",
        "agent/Cargo.toml",
        "agent/os/src",
        "agent/os/Cargo.toml",
        "agent/protocol/src",
        "agent/protocol/Cargo.toml",
        "hooks/src",
        "uploader/src",
        "uploader/Cargo.toml",
        "hooks/Cargo.toml",
        "Cargo.toml",
        "tests/libcutils",
        "tests/sample-app",
    ] {
        println!("cargo::rerun-if-changed={}", root.join(input).display());
    }
    build_agent(&root, &out);
    build_sample_app(&root, &out);
}

fn build_agent(root: &Path, out: &Path) {
    // One target directory for all profiles of this package: …/target/agent-library.
    let target = out.ancestors().nth(4).unwrap_or(out).join("agent-library");
    let mut cargo = Command::new(variable("CARGO"));
    cargo
        .current_dir(root)
        .args(["rustc", "--package", "tracetee-agent", "--lib", "--crate-type", "cdylib"])
        // Off Android the agent sends captures itself.
        .args(["--features", "https", "--profile", "agent", "--target-dir"])
        .arg(&target);
    // What is set for this package's own build is not meant for that one.
    for name in ["RUSTC_WORKSPACE_WRAPPER", "CARGO_ENCODED_RUSTFLAGS", "RUSTFLAGS", "TARGET"] {
        cargo.env_remove(name);
    }
    let mut library = target;
    if variable("TARGET") != variable("HOST") {
        cargo.args(["--target", &variable("TARGET")]);
        library.push(variable("TARGET"));
    }
    run(cargo);
    library.push("agent/libtracetee.so");
    let copy = out.join("libtracetee.so");
    if let Err(error) = std::fs::copy(&library, &copy) {
        fail(&format!("copy {} to {}: {error}", library.display(), copy.display()));
    }
}

fn build_sample_app(root: &Path, out: &Path) {
    let sources = root.join("tests");
    let compiler = cc::Build::new().opt_level(2).debug(false).cargo_metadata(false).get_compiler();
    let include = format!("-I{}", sources.join("libcutils").display());

    let mut library = compiler.to_command();
    library
        .args(["-shared", "-fPIC", "-DATRACE_API=34", "-Wl,-soname,libcutils.so", &include, "-o"])
        .arg(out.join("libcutils.so"))
        .arg(sources.join("libcutils/trace-dev.c"))
        .arg("-lpthread");
    run(library);

    let mut app = compiler.to_command();
    app.args([&include, "-o"])
        .arg(out.join("sample-app"))
        .arg(sources.join("sample-app/app.c"))
        .arg(format!("-L{}", out.display()))
        .args(["-lcutils", "-lpthread", "-Wl,-rpath,$ORIGIN"]);
    run(app);
}

fn run(mut command: Command) {
    match command.status() {
        Ok(status) if status.success() => {}
        Ok(status) => fail(&format!("{command:?}: {status}")),
        Err(error) => fail(&format!("{command:?}: {error}")),
    }
}

fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| fail(&format!("cargo sets no {name}")))
}

fn fail(reason: &str) -> ! {
    println!("cargo::error={}", reason.replace('\n', " "));
    std::process::exit(1)
}
