//! Builds the parts embedded in a release of the program: the agent's library, so that `tracetee run` works
//! from one file, and the demo's sample app with its stand-in libcutils.
//!
//! Only in the release profile, where the code is compiled with `cfg(embedded)`. A debug build (`cargo check`,
//! `clippy`, `doc` and rust-analyzer use that profile) runs no second cargo and no C compiler; it looks for the
//! library beside itself.
//!
//! The agent is built by a second cargo with the profile `agent` (settings for phones, and only the cdylib, because LTO
//! works only then); Cargo itself cannot make a cdylib a dependency of a program on a stable toolchain.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Sources of the sample app.
const SAMPLE_APP: [&str; 2] = ["tests/libcutils", "tests/sample-app"];
/// The linker's flag that leaves no symbols for debuggers: a linker with its own C library adds paths of the machine to
/// them.
const STRIPPED: &str = "-Wl,--strip-all";
/// Files that determine how the agent is built, besides those of its packages.
const WORKSPACE: [&str; 3] = ["Cargo.toml", "Cargo.lock", ".cargo/config.toml"];

fn main() {
    println!("cargo::rustc-check-cfg=cfg(embedded)");
    println!("cargo::rerun-if-changed=build.rs");
    // The commands that need these exist only on Linux.
    if variable("PROFILE") != "release" || variable("CARGO_CFG_TARGET_OS") != "linux" {
        return;
    }
    println!("cargo::rustc-cfg=embedded");
    let out = PathBuf::from(variable("OUT_DIR"));
    let root = Path::new(&variable("CARGO_MANIFEST_DIR")).join("../..");
    for input in SAMPLE_APP.iter().chain(&WORKSPACE) {
        println!("cargo::rerun-if-changed={}", root.join(input).display());
    }
    watch_agent(&root);
    build_agent(&root, &out);
    build_sample_app(&root, &out);
}

/// Makes cargo run this again when a source of the agent changes: of its own package, of those below it, and of the
/// hooks and the uploader.
fn watch_agent(root: &Path) {
    let agent = root.join("agent");
    let below = std::fs::read_dir(&agent).into_iter().flatten().flatten().map(|entry| entry.path());
    let packages = [agent.clone(), root.join("hooks"), root.join("uploader")];
    for package in packages.into_iter().chain(below) {
        if package.join("Cargo.toml").exists() {
            for input in ["src", "Cargo.toml", "build.rs"].map(|name| package.join(name)) {
                if input.exists() {
                    println!("cargo::rerun-if-changed={}", input.display());
                }
            }
        }
    }
}

fn build_agent(root: &Path, out: &Path) {
    // One target directory for all profiles of this package: …/target/agent-library.
    let target = out.ancestors().nth(4).unwrap_or(out).join("agent-library");
    // Off Android the agent sends captures itself.
    let transport = if std::env::var_os("CARGO_FEATURE_TLS").is_some() { "https" } else { "http" };
    let mut cargo = Command::new(variable("CARGO"));
    cargo
        .current_dir(root)
        .args(["rustc", "--package", "tracetee-agent", "--lib", "--crate-type", "cdylib"])
        .args(["--features", transport, "--profile", "agent"])
        // The cargo that runs this has brought Cargo.lock up to date: it may not change under it.
        .args(["--locked", "--target-dir"])
        .arg(&target);
    // Variables of this package's own build do not apply to that one.
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
        .args(["-shared", "-fPIC", "-DATRACE_API=34", "-Wl,-soname,libcutils.so"])
        .args([STRIPPED, &include, "-o"])
        .arg(out.join("libcutils.so"))
        .arg(sources.join("libcutils/trace-dev.c"))
        .arg("-lpthread");
    run(library);

    let mut app = compiler.to_command();
    let api = format!("-I{}", root.join("agent/include").display());
    // The app's sampler finds the names of exported functions only.
    app.args([STRIPPED, "-rdynamic", "-fasynchronous-unwind-tables", &include, &api, "-o"])
        .arg(out.join("sample-app"))
        .args(["app.c", "stacks.c"].map(|name| sources.join("sample-app").join(name)))
        .arg(format!("-L{}", out.display()))
        .args(["-lcutils", "-lpthread", "-ldl", "-Wl,-rpath,$ORIGIN"]);
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
