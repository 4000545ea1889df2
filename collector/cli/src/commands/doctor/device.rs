//! Facts about a device and an app, from the texts of Android's shell commands. Whatever a text lacks is `None` or empty.

use std::collections::{BTreeMap, BTreeSet};

/// System properties, as `getprop` lists them.
#[derive(Debug)]
pub(super) struct Properties(BTreeMap<String, String>);

impl Properties {
    /// Reads lines such as `[ro.product.cpu.abi]: [arm64-v8a]`.
    pub(super) fn parse(text: &str) -> Self {
        let line = |line: &str| {
            let (name, value) =
                line.trim().strip_prefix('[')?.strip_suffix(']')?.split_once("]: [")?;
            Some((name.to_owned(), value.to_owned()))
        };
        Self(text.lines().filter_map(line).collect())
    }

    /// Returns a property that is set.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// Returns the API level.
    pub(super) fn api(&self) -> Option<u32> {
        self.get("ro.build.version.sdk")?.parse().ok()
    }
}

/// A receiver that androidx.tracing:tracing-wire adds to an app's manifest.
const WIRE_RECEIVER: &str = "androidx.tracing.profiler.ConnectedProfilerTracingReceiver";

/// An installed app, as `dumpsys package` describes it.
#[derive(Debug, Default)]
pub(super) struct Package {
    pub(super) version_name: Option<String>,
    pub(super) version_code: Option<String>,
    /// The ABI that the app runs as.
    pub(super) abi: Option<String>,
    flags: BTreeSet<String>,
    /// True if the app has requested network access.
    pub(super) has_internet: bool,
    /// True if the app has the wire driver of androidx.tracing 2, which records by itself while the tag `app` is on.
    pub(super) has_wire_driver: bool,
}

impl Package {
    /// Reads the first description of `package`: an updated app of the system has another one of its former version.
    pub(super) fn parse(text: &str, package: &str) -> Option<Self> {
        let header = format!("Package [{package}]");
        let mut lines = text.lines().map(str::trim).skip_while(|line| !line.starts_with(&header));
        lines.next()?;
        // In the table of receivers, which comes before the descriptions.
        let receiver = format!(" {package}/{WIRE_RECEIVER}");
        let mut this = Self { has_wire_driver: text.contains(&receiver), ..Self::default() };
        for line in lines.take_while(|line| !line.starts_with("Package [")) {
            for (name, value) in line.split_whitespace().filter_map(|word| word.split_once('=')) {
                let field = match name {
                    "versionName" => &mut this.version_name,
                    "versionCode" => &mut this.version_code,
                    "primaryCpuAbi" => &mut this.abi,
                    _ => continue,
                };
                if value != "null" {
                    field.get_or_insert_with(|| value.to_owned());
                }
            }
            let lists = ["flags=[", "privateFlags=[", "pkgFlags=[", "privatePkgFlags=["];
            if let Some(list) = lists.iter().find_map(|list| line.strip_prefix(list)) {
                this.flags.extend(list.trim_end_matches(']').split_whitespace().map(str::to_owned));
            }
            this.has_internet |= line.split(':').next() == Some("android.permission.INTERNET");
        }
        Some(this)
    }

    /// Returns true if the app is debuggable: `run-as` works.
    pub(super) fn is_debuggable(&self) -> bool {
        self.flags.contains("DEBUGGABLE")
    }

    /// Returns true if the shell may profile the app.
    pub(super) fn is_profileable(&self) -> bool {
        self.flags.iter().any(|flag| flag.ends_with("PROFILEABLE_BY_SHELL"))
    }
}

/// Native libraries of an app's APKs, by ABI.
#[derive(Debug, Default)]
pub(super) struct Libraries(BTreeMap<String, BTreeSet<String>>);

impl Libraries {
    /// Adds the libraries of the listing of an APK (`unzip -l`).
    pub(super) fn add(&mut self, listing: &str) {
        for path in listing.lines().filter_map(|line| line.split_whitespace().next_back()) {
            let mut parts = path.split('/');
            if let (Some("lib"), Some(abi), Some(name), None) =
                (parts.next(), parts.next(), parts.next(), parts.next())
                && name.ends_with(".so")
            {
                self.0.entry(abi.to_owned()).or_default().insert(name.to_owned());
            }
        }
    }

    /// Returns the ABIs that have a library.
    pub(super) fn abis_with(&self, library: &str) -> Vec<&str> {
        let has = self.0.iter().filter(|(_, names)| names.contains(library));
        has.map(|(abi, _)| abi.as_str()).collect()
    }

    /// Returns libraries that other ABIs have, and this one lacks.
    pub(super) fn lacking(&self, abi: &str) -> Vec<&str> {
        let own = self.0.get(abi);
        let all: BTreeSet<_> = self.0.values().flatten().collect();
        let lacks = |name: &&String| own.is_none_or(|own| !own.contains(*name));
        all.into_iter().filter(lacks).map(String::as_str).collect()
    }
}

/// Returns the agent's warnings in a log of the format `brief`, oldest first: those of one process, or of all without `pid`.
pub(super) fn warnings(log: &str, pid: Option<u32>) -> Vec<String> {
    let line = |line: &str| {
        let (origin, message) = line.split_once("): ")?;
        let (tag, logger) = origin.split_once('(')?;
        let is_ours = matches!(tag.trim(), "W/tracetee" | "E/tracetee")
            && (pid.is_none() || logger.trim().parse().ok() == pid);
        is_ours.then(|| message.to_owned())
    };
    log.lines().filter_map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn properties_are_read() {
        let text = "[ro.build.version.sdk]: [34]\n[x]: []\nnoise\n[a]: [b]: [c]\n";
        let properties = Properties::parse(text);
        assert_eq!(properties.api(), Some(34));
        assert_eq!((properties.get("x"), properties.get("a")), (None, Some("b]: [c")));
    }

    #[test]
    fn a_package_is_the_first_of_its_name() {
        let text = "Packages:\n  Package [com.example.app2] (1):\n    versionName=9\n  Package [com.example.app] (2):\n    \
                    primaryCpuAbi=arm64-v8a\n    secondaryCpuAbi=null\n    versionCode=42 minSdk=21 targetSdk=35\n    \
                    versionName=2.1\n    flags=[ DEBUGGABLE HAS_CODE ]\n    privateFlags=[ PRIVATE_FLAG_PROFILEABLE_BY_SHELL ]\n    \
                    requested permissions:\n      android.permission.INTERNET\n\
                    Hidden system packages:\n  Package [com.example.app] (3):\n    versionName=1\n    versionCode=1\n";
        let package = Package::parse(text, "com.example.app").unwrap();
        assert_eq!(package.version_name.as_deref(), Some("2.1"));
        assert_eq!(package.version_code.as_deref(), Some("42"));
        assert_eq!(package.abi.as_deref(), Some("arm64-v8a"));
        assert!(package.is_debuggable() && package.is_profileable() && package.has_internet);
        let other = Package::parse(text, "com.example.app2").unwrap();
        assert_eq!(other.abi, None);
        assert!(!other.is_debuggable() && !other.is_profileable() && !other.has_internet);
        assert!(Package::parse(text, "com.example").is_none());
        let none = "Package [a] (1):\n  primaryCpuAbi=null\n";
        assert_eq!(Package::parse(none, "a").unwrap().abi, None);
    }

    #[test]
    fn the_wire_driver_of_androidx_tracing_is_known_by_its_receiver() {
        // As dumpsys lists the receivers' actions; the receiver is that of tracing-wire 2.0.5's manifest.
        let text = "Receiver Resolver Table:\n  Non-Data Actions:\n      androidx.tracing.profiler.action.START:\n        \
                    5ce1 com.example.app/androidx.tracing.profiler.ConnectedProfilerTracingReceiver filter 9a\n\
                    Packages:\n  Package [com.example.app] (1):\n    versionName=1\n  Package [example.app] (2):\n";
        assert!(Package::parse(text, "com.example.app").unwrap().has_wire_driver);
        assert!(!Package::parse(text, "example.app").unwrap().has_wire_driver);
    }

    #[test]
    fn libraries_of_an_apk_are_those_directly_below_an_abi() {
        let mut libraries = Libraries::default();
        libraries.add(
            "Archive:  base.apk\n  Length      Date    Time    Name\n---------  ---------- -----   ----\n   \
             1  2009-01-01 00:00   lib/arm64-v8a/libtracetee.so\n   2  2009-01-01 00:00   lib/arm64-v8a/libapp.so\n   \
             3  2009-01-01 00:00   lib/x86_64/libtracetee.so\n   4  2009-01-01 00:00   assets/lib/x86/libtracetee.so\n   \
             5  2009-01-01 00:00   lib/x86/deep/libtracetee.so\n   6  2009-01-01 00:00   lib/x86/notes.txt\n",
        );
        assert_eq!(libraries.abis_with("libtracetee.so"), ["arm64-v8a", "x86_64"]);
        assert_eq!(libraries.lacking("x86_64"), ["libapp.so"]);
        assert_eq!(libraries.lacking("arm64-v8a"), [""; 0]);
    }

    #[test]
    fn the_log_has_the_warnings_of_a_process() {
        let text = "--------- beginning of main\nI/tracetee( 4242): started\n\
            W/tracetee( 4242): cannot install: no library\nW/tracetee( 4243): of another process\n";
        assert_eq!(warnings(text, Some(4242)), ["cannot install: no library"]);
        assert_eq!(warnings(text, None).len(), 2);
    }
}
