//! Slices in which a thread waits for work, or that only surround its work. They are neither work nor a hang.

/// Waits of a thread for its next message, input or event, as Java, libutils and libc name them.
const WAITS: [&str; 11] = [
    "MessageQueue.next",
    "MessageQueue.nextLegacy",
    "MessageQueue.nextConcurrent",
    "nativePollOnce",
    "Looper.pollOnce",
    "Looper.pollInner",
    "Looper.pollAll",
    "ALooper_pollOnce",
    "ALooper_pollAll",
    "epoll_wait",
    "epoll_pwait",
];
/// Methods that run for as long as their thread does; the dispatches are in them.
const LOOPS: [&str; 10] = [
    "Looper.loop",
    "Looper.loopOnce",
    "ActivityThread.main",
    "ZygoteInit.main",
    "RuntimeInit$MethodAndArgsCaller.run",
    "RuntimeInit.main",
    "NativeStart.main",
    "HandlerThread.run",
    "Thread.run",
    "Method.invoke",
];

/// True if a thread waits for work in a slice with this name: `MessageQueue.next`, `nativePollOnce`, `epoll_wait` …
pub(crate) fn is_idle(name: &str) -> bool {
    is_one_of(name, &WAITS)
}

/// True for a slice that surrounds all dispatches of a thread: `Looper.loop` …
pub(crate) fn is_loop(name: &str) -> bool {
    is_one_of(name, &LOOPS)
}

/// True for `a.b.Class.method`, with a package or without, and with a signature or without.
fn is_one_of(name: &str, names: &[&str]) -> bool {
    // Before the arguments, after the type of the result. Most names have neither, and do not end like the known ones.
    let end = memchr::memchr(b'(', name.as_bytes()).unwrap_or(name.len());
    let name = name.get(..end).unwrap_or(name).trim_ascii_end();
    if !name.as_bytes().last().is_some_and(u8::is_ascii_lowercase) {
        return false;
    }
    let name = name.rsplit(' ').next().unwrap_or(name).replace("::", ".");
    names.iter().any(|known| {
        let before = name.strip_suffix(known);
        before.is_some_and(|before| before.is_empty() || before.ends_with(['.', ':', '/', '_']))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_names_end_with_a_lowercase_letter() {
        for known in WAITS.iter().chain(&LOOPS) {
            assert!(known.ends_with(|last: char| last.is_ascii_lowercase()), "{known}");
        }
    }

    #[test]
    fn waits_are_known_with_package_signature_or_neither() {
        for (name, expected) in [
            ("android.os.MessageQueue.next()Landroid/os/Message;", true),
            ("MessageQueue.next", true),
            ("android.os.MessageQueue.nativePollOnce(JI)V", true),
            ("nativePollOnce", true),
            ("android.os.Message android.os.MessageQueue.next()", true),
            (
                "monitor contention with owner a (1) at void android.os.MessageQueue.next()(M:1)",
                false,
            ),
            ("android::Looper::pollOnce", true),
            ("android::Looper::pollOnce(int, int*)", true),
            ("epoll_wait", true),
            ("__epoll_pwait", true),
            ("com.example.MyMessageQueue.next()", false),
            ("com.example.Queue.next()", false),
            ("MessageQueue.nextFrame", false),
            ("inflate", false),
            ("", false),
        ] {
            assert_eq!(is_idle(name), expected, "{name}");
        }
        assert!(is_loop("android.os.Looper.loop()V") && is_loop("android.app.ActivityThread.main"));
        assert!(!is_loop("android.os.Handler.dispatchMessage(Landroid/os/Message;)V"));
    }
}
