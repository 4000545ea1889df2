//! Conclusions from a health report on the process's surroundings: a native bridge, a system without atrace, another
//! hooker. Each is one line.

use tracetee_protocol::Health;
use tracetee_protocol::health::Library;

/// Where systems keep the libraries of the machine that a native bridge translates.
const GUEST_DIRECTORIES: [&str; 3] = ["/lib64/arm64/", "/lib/arm/", "/lib64/riscv64/"];
/// Directories of the system's libraries; an app's library directory may have one of the names above.
const SYSTEM: [&str; 3] = ["/system/", "/system_ext/", "/vendor/"];
/// The words with which the agent's reasons name another hooker, and its library.
const ANOTHER_HOOKER: &str = "another hooker";
const OF_LIBRARY: &str = " of library ";

/// Returns the conclusions, the gravest first.
pub(super) fn conclusions(health: &Health) -> Vec<String> {
    [native_bridge(health), without_atrace(health), other_hooker(health)]
        .into_iter()
        .flatten()
        .collect()
}

/// Finds a library of the machine that a native bridge translates.
fn native_bridge(health: &Health) -> Option<String> {
    let is_guest = |path: &str| {
        SYSTEM.iter().any(|root| path.starts_with(root))
            && GUEST_DIRECTORIES.iter().any(|directory| path.contains(directory))
    };
    let guest = health.libraries.iter().find(|library| is_guest(&library.path))?;
    Some(format!(
        "the process runs under a native bridge: {} is for a different processor than the device. The agent sees only the \
         app's own libraries, none of the platform's records; add the libraries for the device's ABI to the APK",
        guest.path
    ))
}

/// Finds out that the system's libcutils does not trace.
fn without_atrace(health: &Health) -> Option<String> {
    let is_android = health.program.contains("/app_process");
    let is_libcutils =
        |path: &str| path.rsplit('/').next().is_some_and(|name| name.starts_with("libcutils.so"));
    if is_android && health.atrace.is_empty() && health.atrace_missing.is_some() {
        return Some(
            "libcutils of this system has no tracing variables, as on a hardened system without atrace: the agent \
             cannot turn tags on, and the platform's sections are missing"
                .to_owned(),
        );
    }
    let writes_none = |library: &&Library| {
        is_libcutils(&library.path) && library.slots == 0 && library.reason.is_none()
    };
    if let Some(library) = health.libraries.iter().find(writes_none) {
        return Some(format!(
            "{} does not call write: the system's libcutils was built without atrace, so the platform's sections are \
             missing",
            library.path
        ));
    }
    let has_no_marker = |health: &Health| health.atrace.iter().all(|atrace| atrace.marker_fd == -1);
    if is_android && !health.atrace.is_empty() && has_no_marker(health) {
        return Some(
            "the system gives the app no trace_marker, as hardened systems do: the agent records all the same, but \
             Perfetto and atrace see nothing of the app"
                .to_owned(),
        );
    }
    None
}

/// Names the libraries of another hooker whose functions are in slots of `write`.
fn other_hooker(health: &Health) -> Option<String> {
    let reasons = health.not_hooked.iter().filter(|reason| reason.contains(ANOTHER_HOOKER));
    let mut owners: Vec<_> = reasons
        .map(|reason| match reason.rsplit_once(OF_LIBRARY) {
            Some((_, "")) => "the main program",
            Some((_, library)) => library,
            None => "memory outside of libraries",
        })
        .collect();
    owners.sort_unstable();
    owners.dedup();
    if owners.is_empty() {
        return None;
    }
    Some(format!(
        "another hooker has replaced slots of write by functions in {}: their records reach the \
         agent only if it calls the previous function",
        owners.join(", ")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tracetee_protocol::health::TagReport;

    fn library(path: &str, slots: u64) -> Library {
        Library { path: path.to_owned(), slots, reason: None }
    }

    fn app() -> Health {
        Health {
            program: "/system/bin/app_process64".to_owned(),
            atrace: vec![TagReport { marker_fd: 30, ..TagReport::default() }],
            libraries: vec![
                library("/system/lib64/libcutils.so", 2),
                library("/system/lib64/libc.so", 0),
                library("/data/app/~~x==/com.example-y==/lib/arm64/libapp.so", 1),
            ],
            not_hooked: vec!["/system/lib64/a.so: write is an unresolved weak symbol".to_owned()],
            ..Health::default()
        }
    }

    /// The only conclusion of `health` has `part`.
    fn concludes(health: &Health, part: &str) {
        let conclusions = conclusions(health);
        assert!(conclusions.len() == 1 && conclusions[0].contains(part), "{part}: {conclusions:?}");
    }

    #[test]
    fn an_ordinary_app_has_no_conclusions() {
        assert_eq!(conclusions(&app()), [""; 0]);
        let mut linux = Health { program: "/usr/bin/daemon".to_owned(), ..app() };
        linux.atrace.clear();
        linux.atrace_missing = Some("symbol atrace_enabled_tags not found".to_owned());
        assert_eq!(conclusions(&linux), [""; 0]);
    }

    #[test]
    fn libraries_of_another_machine_are_a_native_bridge() {
        for path in [
            "/system/lib64/arm64/libc.so",
            "/vendor/lib64/arm64/nb/libc.so",
            "/system/lib/arm/nb/libcutils.so",
        ] {
            let mut health = app();
            health.libraries.push(library(path, 1));
            concludes(
                &health,
                &format!("under a native bridge: {path} is for a different processor"),
            );
        }
    }

    #[test]
    fn systems_without_atrace_are_told_apart() {
        let mut health = app();
        health.atrace.clear();
        health.atrace_missing = Some("symbol atrace_enabled_tags not found".to_owned());
        concludes(&health, "has no tracing variables");
        let mut health = app();
        health.libraries[0].slots = 0;
        concludes(&health, "/system/lib64/libcutils.so does not call write");
        // One that was skipped for a reason may call it.
        health.libraries[0].reason = Some("is left out".to_owned());
        assert_eq!(conclusions(&health), [""; 0]);
        let mut health = app();
        health.atrace[0].marker_fd = -1;
        concludes(&health, "gives the app no trace_marker");
    }

    #[test]
    fn another_hooker_is_named_by_its_libraries() {
        let reason = |library: &str, owner: &str| {
            format!("{library}: write was changed by another hooker, to 0x7f0{owner}")
        };
        let mut health = app();
        health.not_hooked.extend([
            reason("/system/lib64/b.so", " of library /data/app/lib/arm64/libhook.so"),
            reason("/system/lib64/c.so", " of library /data/app/lib/arm64/libhook.so"),
            reason("/system/lib64/d.so", ""),
            reason("", " of library "),
        ]);
        concludes(
            &health,
            "replaced slots of write by functions in /data/app/lib/arm64/libhook.so, memory outside of libraries, the main program:",
        );
    }
}
