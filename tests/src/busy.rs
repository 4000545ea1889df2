//! A machine that is busy with other things while a test runs.

use std::sync::atomic::{AtomicBool, Ordering};

/// Busy loops on all processors.
struct Busy<'a>(&'a AtomicBool);

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Runs `body` beside a busy loop on each processor.
pub fn with_busy_loops<T>(body: impl FnOnce() -> T) -> T {
    let is_over = AtomicBool::new(false);
    let processors = std::thread::available_parallelism().unwrap().get();
    std::thread::scope(|scope| {
        let _busy = Busy(&is_over);
        for _ in 0..processors {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        body()
    })
}
