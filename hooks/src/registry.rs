//! Installs, refreshes, reports and uninstalls the hooks of an owner.
//!
//! An owner has one [`Registry`] and calls it on any thread, but never from a proxy. Everything runs
//! under one process-wide lock and inside the `dl_iterate_phdr` callback. A slot that another hooker
//! has changed since is left alone and reported.
//!
//! Locks: always the dynamic linker's first, ours second, so that a library's constructor, which runs under the linker's
//! lock, may start a capture. The `dlopen` proxies ([`crate::loader`]) call `libraries_changed` on the app's threads; they
//! do not wait for our lock, but set a flag that makes its holder examine the list again.

use crate::error::Error;
use crate::hook::{Filter, Hook, Later};
use crate::loaded::{ListState, Settled, for_each_module, with_linker_lock};
use crate::loader;
use crate::maps::Maps;
use crate::owner::Owner;
use crate::report::{ModuleReport, Report};
use crate::slots::{Wanted, is_defined_somewhere, unhook_module};
use std::ffi::CString;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, TryLockError};
use tracetee_os::guard;

/// The hooks of one owner. Dropping it removes them.
#[derive(Debug)]
pub struct Registry {
    id: u64,
}

impl Registry {
    /// Hooks every loaded library that `filter` accepts.
    ///
    /// # Errors
    /// [`Error::SymbolNotFound`] if no loaded library defines any of the symbols (a single missing
    /// one, such as `__write_chk` before Android 7, hooks nothing until a library brings it),
    /// [`Error::System`] if the memory map cannot be read. Nothing is patched then.
    pub fn install(hooks: &[Hook], filter: Filter, later: Later) -> Result<(Self, Report), Error> {
        let hooks: Vec<_> = hooks.iter().map(wanted).collect();
        if !hooks.iter().any(|wanted| wanted.is_global) {
            let names: Vec<_> = hooks.iter().map(|wanted| wanted.hook.symbol).collect();
            if !is_defined_somewhere(&names, &Maps::read()?) {
                return Err(Error::SymbolNotFound {
                    symbol: names.join(" or "),
                    searched: vec![
                        "dlsym(RTLD_NEXT)".into(),
                        "dlsym(RTLD_DEFAULT)".into(),
                        "the symbol tables of all loaded libraries".into(),
                    ],
                });
            }
        }
        // ORDERING: Relaxed; set by a forked child for itself.
        IGNORES_LATER.store(false, Ordering::Relaxed);
        loader::on_change(libraries_changed);
        // dlsym takes another lock of glibc's linker, which comes before the one that `with` takes.
        // The linker's own `__loader_` functions may be hidden from dlsym: their slots reveal them.
        let loader_hooks = loader::hooks().iter().map(wanted).collect();
        let mut owner = Owner::new(hooks, filter, later);
        let (id, mut report) = State::with(|state, settled| {
            let report = owner.refresh(settled)?;
            state.last_id += 1;
            state.owners.push((state.last_id, owner));
            state.watch_if_wanted(settled, loader_hooks);
            Ok((state.last_id, report))
        })?;
        let registry = Self { id };
        report.append(registry.refresh()?);
        Ok((registry, report))
    }

    /// Hooks the libraries that were loaded since. If there are none, it only reads the linker's
    /// counters; a linker without counters costs a read of its list and the hooked slots.
    ///
    /// Waits for a `dlopen` in progress on another thread.
    ///
    /// # Errors
    /// [`Error::System`] if the memory map cannot be read.
    pub fn refresh(&self) -> Result<Report, Error> {
        let mut all = Report::default();
        for _ in 0..MAX_PASSES {
            let pass = State::with(|state, settled| match state.owner(self.id) {
                Some(owner) => owner.refresh(settled).map(|report| (report, owner.is_complete())),
                None => Ok((Report::default(), true)),
            });
            let (report, complete) = pass?;
            all.append(report);
            if complete {
                break;
            }
        }
        Ok(all)
    }

    /// Restores every slot that still holds our pointer.
    ///
    /// # Errors
    /// [`Error::System`] if the memory map cannot be read; the proxies then stay and pass all calls
    /// on.
    pub fn uninstall(&self) -> Result<Report, Error> {
        State::with(|state, settled| {
            let Some(at) = state.owners.iter().position(|(id, _)| *id == self.id) else {
                return Ok(Report::default());
            };
            let (_, mut owner) = state.owners.remove(at);
            let report = owner.give_back();
            state.watch_if_wanted(settled, Vec::new());
            report
        })
    }

    /// Reports on all loaded libraries: those found at installation, by a refresh, and by a watched
    /// `dlopen`.
    #[must_use]
    pub fn report(&self) -> Report {
        let modules = State::with(|state, _| {
            state.owner(self.id).map(|owner| owner.modules()).unwrap_or_default()
        });
        Report { modules, protect_calls: 0 }
    }

    /// Lists every slot that is ours, library by library.
    #[must_use]
    pub fn hooked(&self) -> Vec<ModuleReport> {
        State::with(|state, _| state.owner(self.id).map(|owner| owner.hooked()).unwrap_or_default())
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        // The proxy of a slot that cannot be restored passes every call on.
        let _ = self.uninstall();
    }
}

/// Restores every slot that holds a proxy of `hooks` or of the loader's, after a panic: without our lock, which the panicked
/// thread may hold, and without the registry's state. Each slot gets the function that its proxy calls. Repeats until no
/// slot has a proxy: see [`left_after_panic`].
///
/// # Errors
/// [`Error::System`] if the memory map cannot be read; the proxies then stay and pass all calls on.
pub fn give_back_after_panic(hooks: &[Hook]) -> Result<(), Error> {
    let hooks: Vec<_> = hooks.iter().chain(loader::hooks()).copied().collect();
    for _ in 0..MAX_PASSES {
        let (maps, mut found) = (Maps::read()?, 0);
        for_each_module(|module| {
            found += unhook_module(module, &hooks, &maps);
            true
        });
        // ORDERING: Relaxed; a number for the health report.
        LEFT.store(found, Ordering::Relaxed);
        if found == 0 {
            break;
        }
    }
    Ok(())
}

/// Slots that had a proxy at the last check of [`give_back_after_panic`]; `usize::MAX` before the first.
static LEFT: AtomicUsize = AtomicUsize::new(usize::MAX);

/// Returns the number of slots that hold a proxy after a panic, because they cannot be restored; `None` until
/// [`give_back_after_panic`] has checked.
#[must_use]
pub fn left_after_panic() -> Option<usize> {
    // ORDERING: Relaxed; a number for the health report.
    Some(LEFT.load(Ordering::Relaxed)).filter(|&left| left != usize::MAX)
}

/// Set by [`ignore_later_libraries`].
static IGNORES_LATER: AtomicBool = AtomicBool::new(false);

/// Stops the search for new libraries until the next installation. A forked child that records nothing
/// calls it: the search takes the dynamic linker's lock, which another thread of the parent may have
/// held at the fork, and then the child would wait forever.
pub fn ignore_later_libraries() {
    // ORDERING: Relaxed; the child has one thread.
    IGNORES_LATER.store(true, Ordering::Relaxed);
}

/// Hooks new libraries. The `dlopen` proxies call it when a library was loaded or unloaded.
fn libraries_changed() {
    // ORDERING: Relaxed; see above.
    if IGNORES_LATER.load(Ordering::Relaxed) {
        return;
    }
    // Without allocating: `dlsym` is called in unusual places, for example when an allocator starts.
    if ListState::now().is_seen() {
        return;
    }
    for _ in 0..MAX_PASSES {
        let settled = Settled::now();
        let complete = with_linker_lock(|| {
            let mut state = match STATE.try_lock() {
                Ok(state) => state,
                Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
                Err(TryLockError::WouldBlock) => {
                    // ORDERING: SeqCst, with the swap in `State::with`: either the holder sees the
                    // note after it has let go of the lock, or the lock was free when we tried.
                    NOTED.store(true, Ordering::SeqCst);
                    return true;
                }
            };
            let State { owners, loader, .. } = &mut *state;
            let watching =
                owners.iter_mut().map(|(_, owner)| owner).filter(|owner| owner.watches());
            let mut complete = true;
            for owner in loader.iter_mut().chain(watching) {
                // When the memory map cannot be read the next load tries again.
                complete &= owner.refresh(&settled).is_err() || owner.is_complete();
            }
            if complete {
                ListState::now().mark_seen();
            }
            complete
        });
        if complete {
            break;
        }
    }
}

/// Maximum number of repetitions of a pass during which libraries were loaded. The end of their own
/// `dlopen` hooks them as well.
const MAX_PASSES: u32 = 8;

/// The lock around patching, and the state of all hooks.
static STATE: Mutex<State> = Mutex::new(State { owners: Vec::new(), last_id: 0, loader: None });
/// True if a library was loaded while the lock was held.
static NOTED: AtomicBool = AtomicBool::new(false);

struct State {
    owners: Vec<(u64, Owner)>,
    last_id: u64,
    /// The hooks on `dlopen`, while an owner watches loads.
    loader: Option<Owner>,
}

impl State {
    /// Calls `body` with the state locked, then handles loads noted meanwhile.
    fn with<T>(body: impl FnOnce(&mut Self, &Settled) -> T) -> T {
        let settled = Settled::now();
        let result = with_linker_lock(|| {
            let mut state = guard::lock(&STATE);
            body(&mut state, &settled)
        });
        // ORDERING: SeqCst, see `libraries_changed`.
        if NOTED.swap(false, Ordering::SeqCst) {
            libraries_changed();
        }
        result
    }

    fn owner(&mut self, id: u64) -> Option<&mut Owner> {
        self.owners.iter_mut().find(|(one, _)| *one == id).map(|(_, owner)| owner)
    }

    /// Hooks the loading functions with `hooks` while an owner watches loads.
    fn watch_if_wanted(&mut self, settled: &Settled, hooks: Vec<Wanted>) {
        let wanted = self.owners.iter().any(|(_, owner)| owner.watches());
        match &mut self.loader {
            None if wanted => {
                let mut owner = Owner::new(hooks, Box::new(|_| true), Later::Watch);
                let _ = owner.refresh(settled);
                self.loader = Some(owner);
            }
            Some(owner) if !wanted => {
                let _ = owner.give_back();
                self.loader = None;
            }
            _ => {}
        }
    }
}

/// Gives the hook's first proxy the symbol's own definition, if the global scope has one.
fn wanted(hook: &Hook) -> Wanted {
    let definition = definition_of(hook.symbol);
    if let (Some(first), Some(definition)) = (hook.proxies.first(), definition) {
        // ORDERING: Release, pairs with the load in the proxy; the slot that leads callers there
        // is written afterwards.
        first.previous.store(definition, Ordering::Release);
    }
    Wanted { hook: *hook, is_global: definition.is_some() }
}

/// Finds the symbol's definition after ours in search order.
///
/// RTLD_NEXT first: in a program that is not position independent RTLD_DEFAULT may name the
/// program's own PLT stub, which jumps through a slot that is about to be ours.
fn definition_of(symbol: &str) -> Option<usize> {
    let name = CString::new(symbol).ok()?;
    [libc::RTLD_NEXT, libc::RTLD_DEFAULT].into_iter().find_map(|scope| {
        // SAFETY: a NUL-terminated name and a scope that needs no handle.
        let address = unsafe { libc::dlsym(scope, name.as_ptr()) } as usize;
        (address != 0).then_some(address)
    })
}
