//! Which slots of which libraries are ours: install, refresh, report, uninstall.
//!
//! An owner has one [`Registry`]; it calls from whatever thread starts or stops it, never from a
//! proxy. Everything happens under one process-wide lock and inside the `dl_iterate_phdr`
//! callback. A slot that somebody else changed since is left alone and reported.
//!
//! Locks: the dynamic linker's comes first, ours second, for everybody; a library's constructor,
//! which runs under the linker's, may so start a capture. The `dlopen` proxies
//! ([`crate::loader`]) call [`libraries_changed`] on the app's threads; they do not wait for our
//! lock, but leave a note, and its holder looks again.

use crate::error::Error;
use crate::hook::{Filter, Hook};
use crate::loaded::{ListState, Settled, with_linker_lock};
use crate::loader;
use crate::maps::Maps;
use crate::owner::Owner;
use crate::report::{ModuleReport, Report};
use crate::slots::{Wanted, is_defined_somewhere};
use std::collections::BTreeMap;
use std::ffi::CString;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError, TryLockError};

/// Whether libraries that are loaded later are hooked too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Later {
    /// As soon as they are loaded: the loading functions are hooked for it.
    Watch,
    /// When [`Registry::refresh`] is called.
    OnRefresh,
}

/// The hooks of one owner. They are taken out when it is dropped.
#[derive(Debug)]
pub struct Registry {
    id: u64,
}

impl Registry {
    /// Hooks every loaded library that `filter` lets through.
    ///
    /// # Errors
    /// [`Error::SymbolNotFound`] when no hook's symbol is defined anywhere (one that is absent
    /// alone, as `__write_chk` before Android 7, hooks nothing until a library brings it),
    /// [`Error::System`] when the memory map cannot be read. Nothing is patched then.
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
        // ORDERING: Relaxed; what a forked child had set for itself.
        IGNORES_LATER.store(false, Ordering::Relaxed);
        // dlsym takes another lock of glibc's linker, which comes before the one that `with` takes.
        // The linker's own `__loader_` functions may be hidden from dlsym: their slots tell.
        let loader_hooks = loader::hooks().iter().map(wanted).collect();
        let mut owner = Owner::new(hooks, filter, later);
        let (id, mut report) = State::with(|state, settled| {
            let report = owner.refresh(settled)?;
            state.last_id += 1;
            state.owners.insert(state.last_id, owner);
            state.watch_if_wanted(settled, loader_hooks);
            Ok((state.last_id, report))
        })?;
        let registry = Self { id };
        report.append(registry.refresh()?);
        Ok((registry, report))
    }

    /// Hooks what was loaded since. When nothing was, it reads the linker's counters (where there
    /// are none, its list and the hooked slots) and ends.
    ///
    /// Waits for a `dlopen` under way on another thread.
    ///
    /// # Errors
    /// [`Error::System`] when the memory map cannot be read.
    pub fn refresh(&self) -> Result<Report, Error> {
        let mut all = Report::default();
        for _ in 0..MAX_PASSES {
            let pass = State::with(|state, settled| match state.owners.get_mut(&self.id) {
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

    /// Gives every slot back that still holds our pointer.
    ///
    /// # Errors
    /// [`Error::System`] when the memory map cannot be read; the proxies stay in place then, and
    /// pass everything on.
    pub fn uninstall(&self) -> Result<Report, Error> {
        State::with(|state, settled| {
            let Some(mut owner) = state.owners.remove(&self.id) else {
                return Ok(Report::default());
            };
            let report = owner.give_back();
            state.watch_if_wanted(settled, Vec::new());
            report
        })
    }

    /// Reports what was found in each library that is loaded, whenever it was loaded: at the
    /// installation, by a refresh, by a watched `dlopen`.
    #[must_use]
    pub fn report(&self) -> Report {
        let modules = State::with(|state, _| {
            state.owners.get(&self.id).map(Owner::modules).unwrap_or_default()
        });
        Report { modules, protect_calls: 0 }
    }

    /// Every slot that is ours, library by library.
    #[must_use]
    pub fn hooked(&self) -> Vec<ModuleReport> {
        State::with(|state, _| state.owners.get(&self.id).map(Owner::hooked).unwrap_or_default())
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        // What cannot be given back passes everything on.
        let _ = self.uninstall();
    }
}

/// Whether later libraries are not looked for: see [`ignore_later_libraries`].
static IGNORES_LATER: AtomicBool = AtomicBool::new(false);

/// For a forked child that records nothing: its calls of `dlsym` and `dlopen` look for no new library
/// any more, until something is installed anew. A look takes the dynamic linker's lock, which another
/// thread of the parent may have held when it forked: the child would wait for ever.
pub fn ignore_later_libraries() {
    // ORDERING: Relaxed; the child has one thread.
    IGNORES_LATER.store(true, Ordering::Relaxed);
}

/// A library was loaded or unloaded: hooks what is new. Called by the `dlopen` proxies.
pub(crate) fn libraries_changed() {
    // ORDERING: Relaxed; see above.
    if IGNORES_LATER.load(Ordering::Relaxed) {
        return;
    }
    // Without allocating: `dlsym` is called in odd places, an allocator's own start among them.
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
            let watching = owners.values_mut().filter(|owner| owner.watches());
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

/// How often a pass is repeated because libraries were being loaded meanwhile. They are hooked
/// at the end of their own `dlopen` besides.
const MAX_PASSES: u32 = 8;

/// The one lock around patching, and everything that is hooked.
static STATE: Mutex<State> =
    Mutex::new(State { owners: BTreeMap::new(), last_id: 0, loader: None });
/// A library was loaded while the lock was held.
static NOTED: AtomicBool = AtomicBool::new(false);

struct State {
    owners: BTreeMap<u64, Owner>,
    last_id: u64,
    /// The hooks on `dlopen`, while an owner watches.
    loader: Option<Owner>,
}

impl State {
    /// Calls `body` with the state locked, then looks after what was noted meanwhile.
    fn with<T>(body: impl FnOnce(&mut Self, &Settled) -> T) -> T {
        let settled = Settled::now();
        let result = with_linker_lock(|| {
            let mut state = STATE.lock().unwrap_or_else(PoisonError::into_inner);
            body(&mut state, &settled)
        });
        // ORDERING: SeqCst, see `libraries_changed`.
        if NOTED.swap(false, Ordering::SeqCst) {
            libraries_changed();
        }
        result
    }

    /// Hooks the loading functions with `hooks` while an owner wants to know of later libraries.
    fn watch_if_wanted(&mut self, settled: &Settled, hooks: Vec<Wanted>) {
        let wanted = self.owners.values().any(Owner::watches);
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

/// Gives the hook's first proxy the symbol's own definition, where the global scope has one.
fn wanted(hook: &Hook) -> Wanted {
    let definition = definition_of(hook.symbol);
    if let (Some(first), Some(definition)) = (hook.proxies.first(), definition) {
        // ORDERING: Release, pairs with the load in the proxy; the slot that leads callers there
        // is written afterwards.
        first.previous.store(definition, Ordering::Release);
    }
    Wanted { hook: *hook, is_global: definition.is_some() }
}

/// The symbol's definition behind us in search order.
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
