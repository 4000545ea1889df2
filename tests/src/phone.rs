//! A phone behind adb's server, which is a stand-in (`tests/adb/server`), as are the shell commands of the device.

use crate::root;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;

/// A phone behind adb's server.
pub struct Phone {
    /// Everything is in it.
    pub directory: TempDir,
    server: Child,
    /// Port of adb's server.
    pub port: String,
}

impl Drop for Phone {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

impl Phone {
    /// A phone on which an app is installed and complete; `pid` is its process. `None` without adb.
    #[must_use]
    pub fn with_process(app: &str, pid: u32) -> Option<Self> {
        if Command::new("adb").arg("version").output().is_err() {
            eprintln!("skipped: adb is not installed");
            return None;
        }
        let directory = TempDir::new().unwrap();
        std::fs::create_dir(directory.path().join("bin")).unwrap();
        std::fs::write(directory.path().join("state"), "device").unwrap();
        std::fs::write(directory.path().join("reverse"), "(reverse) tcp:8440 tcp:8440\n").unwrap();
        let mut server = Command::new(root().join("tests/adb/server"))
            .arg(directory.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut port = String::new();
        BufReader::new(server.stdout.take().unwrap()).read_line(&mut port).unwrap();
        let phone = Self { directory, server, port: port.trim().to_owned() };
        phone.says("getprop", &properties("x86_64"));
        phone.says("dumpsys", &package(app, "x86_64", "HAS_CODE"));
        phone.says("pm", &format!("package:/data/app/~~a1==/{app}-b2==/base.apk\n"));
        phone.says("unzip", &listing(&["x86_64/libtracetee.so", "arm64-v8a/libtracetee.so"]));
        phone.says("pidof", &format!("{pid}\n"));
        phone.says("ps", "USER PID NAME\n");
        phone.says("logcat", "--------- beginning of main\n");
        Some(phone)
    }

    /// Lets a program of the device print a text, whatever its arguments.
    pub fn says(&self, program: &str, text: &str) {
        self.runs(program, &format!("cat <<'END'\n{}\nEND\n", text.trim_end()));
    }

    /// Lets a program of the device be a shell script.
    pub fn runs(&self, program: &str, script: &str) {
        let path = self.directory.path().join("bin").join(program);
        std::fs::write(&path, format!("#!/bin/sh\n{script}")).unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
    }

    /// Lets the server refuse for a reason.
    pub fn refuses(&self, reason: &str) {
        std::fs::write(self.directory.path().join("state"), reason).unwrap();
    }
}

/// System properties.
#[must_use]
pub fn properties(abi: &str) -> String {
    format!(
        "[ro.build.version.sdk]: [34]\n[ro.build.version.release]: [14]\n[ro.product.manufacturer]: [Example]\n\
         [ro.product.model]: [Phone One]\n[ro.product.cpu.abi]: [{abi}]\n"
    )
}

/// An installed app as `dumpsys package` describes it.
#[must_use]
pub fn package(app: &str, abi: &str, flags: &str) -> String {
    format!(
        "Packages:\n  Package [{app}] (1a2b):\n    primaryCpuAbi={abi}\n    versionCode=42 minSdk=21 targetSdk=35\n    \
         versionName=2.1\n    flags=[ {flags} ]\n    requested permissions:\n      android.permission.INTERNET\n"
    )
}

/// An APK as `unzip -l` lists it.
#[must_use]
pub fn listing(libraries: &[&str]) -> String {
    let mut text =
        "  Length      Date    Time    Name\n   9  2009-01-01 00:00   AndroidManifest.xml\n"
            .to_owned();
    for library in libraries {
        text.push_str(&format!("   9  2009-01-01 00:00   lib/{library}\n"));
    }
    text
}
