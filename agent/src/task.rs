//! Sections of tasks: each future has its own sections, on whatever thread it is polled.
//!
//! A thread's section that is open across an `await` would stay open while other tasks are polled, and end on another
//! thread. A task ([`Traced`]) keeps the names of its open sections ([`TaskSection`]) instead: all of them end with a poll,
//! and begin again with the next one, the outermost first, on its thread. So each thread's sections nest, and a section's
//! slices add up to the time that the task ran in it. `tracing`'s `Instrument` does this for the span of the future only;
//! here it also holds for the sections within.
//!
//! While nothing is recorded a poll costs a load and a branch besides moving the names.

use crate::section::{begin_recorded, end_recorded};
use std::borrow::Cow;
use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::thread::ThreadId;

static NEXT_TASK: AtomicU64 = AtomicU64::new(1);
static MISUSES: AtomicU64 = AtomicU64::new(0);
static IS_STRICT: AtomicBool = AtomicBool::new(false);

thread_local! {
    /// The task that is being polled on this thread.
    static CURRENT: RefCell<Option<Stack>> = const { RefCell::new(None) };
}

/// The open sections of a task, the outermost first.
#[derive(Debug)]
struct Stack {
    task: u64,
    sections: Vec<Open>,
}

#[derive(Debug)]
struct Open {
    name: Cow<'static, str>,
    /// True if its begin is in the capture, on the thread that polls now.
    is_recorded: bool,
}

/// Makes misuse panic: a [`TaskSection`] that ends outside its task. For tests and debug builds; otherwise
/// the misuse is counted, and nothing is recorded.
pub fn set_strict(strict: bool) {
    // ORDERING: Relaxed; a setting, it publishes nothing.
    IS_STRICT.store(strict, Ordering::Relaxed);
}

/// Returns the number of sections that ended on a thread on which their task was not running.
#[must_use]
pub fn misuses() -> u64 {
    // ORDERING: Relaxed; a count.
    MISUSES.load(Ordering::Relaxed)
}

fn misused(what: &str) {
    // ORDERING: Relaxed, both; a count and a setting.
    MISUSES.fetch_add(1, Ordering::Relaxed);
    let is_strict = IS_STRICT.load(Ordering::Relaxed);
    assert!(!is_strict || std::thread::panicking(), "tracetee: {what}");
}

pin_project_lite::pin_project! {
    /// A future that is a section while it is polled, and whose sections go with it.
    ///
    /// ```
    /// use tracetee::{TaskSection, TraceFuture};
    /// let task = async {
    ///     let _decode = TaskSection::begin("decode");
    ///     std::future::ready(()).await;
    /// }
    /// .traced("load image");
    /// ```
    #[derive(Debug)]
    #[must_use = "a future does nothing unless it is polled"]
    pub struct Traced<F> {
        // None once it has been dropped, within its sections.
        #[pin]
        future: Option<F>,
        // None while it is being polled.
        stack: Option<Stack>,
        // It waits: not new, not done, and its last poll did not panic.
        is_waiting: bool,
    }

    impl<F> PinnedDrop for Traced<F> {
        fn drop(this: Pin<&mut Self>) {
            let mut this = this.project();
            // Cancelled: the work of its destructors is in its sections, too.
            if *this.is_waiting {
                let _polled = Polled::begin(this.stack);
                this.future.set(None);
            }
        }
    }
}

impl<F> Traced<F> {
    /// Makes `future` a task of this name.
    pub fn new(name: impl Into<Cow<'static, str>>, future: F) -> Self {
        // ORDERING: Relaxed; only a unique number.
        let task = NEXT_TASK.fetch_add(1, Ordering::Relaxed);
        let sections = vec![Open { name: name.into(), is_recorded: false }];
        Self { future: Some(future), stack: Some(Stack { task, sections }), is_waiting: false }
    }
}

mod sealed {
    pub trait Sealed {}
    impl<F: std::future::Future> Sealed for F {}
}

/// Turns futures into tasks. Implemented for every future, and for no other type.
pub trait TraceFuture: Future + Sized + sealed::Sealed {
    /// Makes the future a task of that name.
    fn traced(self, name: impl Into<Cow<'static, str>>) -> Traced<Self> {
        Traced::new(name, self)
    }
}

impl<F: Future> TraceFuture for F {}

impl<F: Future> Future for Traced<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let mut this = self.project();
        *this.is_waiting = false;
        let _polled = Polled::begin(this.stack);
        let Some(future) = this.future.as_mut().as_pin_mut() else {
            // Polled after its end, as no future may be.
            return Poll::Pending;
        };
        let polled = future.poll(context);
        match &polled {
            // The future's values are dropped before its section ends.
            Poll::Ready(_) => this.future.set(None),
            Poll::Pending => *this.is_waiting = true,
        }
        polled
    }
}

/// Sets the thread's stack, and returns the previous one. A thread that is ending has none.
fn exchanged(stack: Option<Stack>) -> Option<Stack> {
    CURRENT.try_with(|current| current.replace(stack)).ok().flatten()
}

/// While a task is polled: its stack is the thread's. Afterwards, even after a panic, all of its sections have ended, and
/// the thread's former stack is restored.
struct Polled<'a> {
    home: &'a mut Option<Stack>,
    before: Option<Stack>,
}

impl<'a> Polled<'a> {
    fn begin(home: &'a mut Option<Stack>) -> Self {
        let mut stack = home.take();
        for open in stack.iter_mut().flat_map(|stack| &mut stack.sections) {
            open.is_recorded = begin_recorded(&open.name);
        }
        Self { before: exchanged(stack), home }
    }
}

impl Drop for Polled<'_> {
    fn drop(&mut self) {
        let mut stack = exchanged(self.before.take());
        for open in stack.iter_mut().flat_map(|stack| &mut stack.sections).rev() {
            end_recorded(std::mem::take(&mut open.is_recorded));
        }
        *self.home = stack;
    }
}

/// A section of the task that is being polled, from its making to its drop, across `await`s. Outside all
/// tasks it is a section of the thread.
#[derive(Debug)]
#[must_use = "the section ends where this is dropped"]
pub struct TaskSection(Place);

#[derive(Debug)]
enum Place {
    /// A section of a task.
    Task {
        task: u64,
        depth: usize,
    },
    Thread {
        thread: ThreadId,
        is_recorded: bool,
    },
}

impl TaskSection {
    /// Begins a section of the task that is being polled.
    pub fn begin(name: impl Into<Cow<'static, str>>) -> Self {
        let name = name.into();
        let is_recorded = begin_recorded(&name);
        let mut name = Some(name);
        let of_task = CURRENT.try_with(|current| {
            let mut current = current.borrow_mut();
            let stack = current.as_mut()?;
            let depth = stack.sections.len();
            stack.sections.push(Open { name: name.take()?, is_recorded });
            Some(Place::Task { task: stack.task, depth })
        });
        let of_thread = || Place::Thread { thread: std::thread::current().id(), is_recorded };
        Self(of_task.ok().flatten().unwrap_or_else(of_thread))
    }
}

impl Drop for TaskSection {
    fn drop(&mut self) {
        match self.0 {
            Place::Thread { thread, is_recorded } => {
                if thread == std::thread::current().id() {
                    end_recorded(is_recorded);
                } else {
                    misused("a section of a thread ended on another");
                }
            }
            Place::Task { task, depth } => {
                // A thread that ends has no task.
                let ended = CURRENT.try_with(|current| {
                    let mut current = current.borrow_mut();
                    let stack = current.as_mut().filter(|stack| stack.task == task);
                    stack.is_some_and(|stack| stack.end(depth))
                });
                if !ended.unwrap_or(false) {
                    misused("a section ended where its task is not polled");
                }
            }
        }
    }
}

impl Stack {
    /// Ends this section and those in it. `false`: it has ended.
    fn end(&mut self, depth: usize) -> bool {
        let was_open = depth < self.sections.len();
        for open in self.sections.drain(depth.min(self.sections.len())..).rev() {
            end_recorded(open.is_recorded);
        }
        was_open
    }
}
