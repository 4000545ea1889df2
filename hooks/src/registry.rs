//! Which slots of which libraries are ours: install, refresh, report, uninstall.
//!
//! The agent owns one [`Registry`]; it calls from whatever thread starts or stops a capture,
//! never from a proxy. Patching happens under one process-wide lock, inside the
//! `dl_iterate_phdr` callback. A slot that somebody else changed since is left alone and reported.

use crate::elf::relocation::{SlotKind, Table};
use crate::error::Error;
use crate::loaded::{LoadCounters, Module, ModuleKey, for_each_module};
use crate::maps::Maps;
use crate::patch::{Unlocked, Written, load};
use std::collections::HashMap;
use std::ffi::CString;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// One replacement function, and where it finds the function to pass on to.
///
/// A hook brings several: a slot may have held another hooker's function, and each distinct
/// predecessor needs a proxy of its own to be called back (there is no trampoline that could
/// carry it, as those take writable and executable memory).
#[derive(Debug)]
pub struct Proxy {
    entry: *const (),
    previous: &'static AtomicUsize,
}

// SAFETY: `entry` is the address of a function; it is never read through.
unsafe impl Sync for Proxy {}
// SAFETY: as above.
unsafe impl Send for Proxy {}

impl Proxy {
    /// # Safety
    /// `entry` is a function with the signature of the symbol that it will stand in for; it passes
    /// calls on to the function whose address `previous` holds (0 until the first install).
    #[must_use]
    pub const unsafe fn new(entry: *const (), previous: &'static AtomicUsize) -> Self {
        Self { entry, previous }
    }
}

/// A symbol and the proxies that replace it. The first proxy passes on to the symbol's own
/// definition, each further one to one foreign hooker's function.
#[derive(Debug, Clone, Copy)]
pub struct Hook {
    /// The symbol's name, without version.
    pub symbol: &'static str,
    /// At least one proxy.
    pub proxies: &'static [Proxy],
}

/// What was done with one slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// Ours now.
    Hooked,
    /// Given back.
    Restored,
    /// Not ours any more: somebody changed it after us. Left alone; holds its value.
    ChangedByOther(usize),
    /// It names another hooker's function and all proxies have a predecessor already.
    ChainFull,
    /// It holds null: an unresolved weak symbol.
    Unresolved,
    /// It is not an aligned word of a mapped segment.
    Unreadable,
    /// mprotect refused with this errno (0: the page is not mapped).
    Refused(i32),
}

/// One slot of the report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlotReport {
    /// The symbol.
    pub symbol: &'static str,
    /// The relocation table that names the slot.
    pub table: Table,
    /// PLT slot, GOT slot or function pointer.
    pub kind: SlotKind,
    /// Its address.
    pub address: usize,
    /// What it held before us.
    pub old: usize,
    /// What was done.
    pub outcome: Outcome,
}

/// One library of the report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModuleReport {
    /// Path as the linker has it; empty for the main program on glibc.
    pub path: String,
    /// Its slots for the hooked symbols.
    pub slots: Vec<SlotReport>,
    /// Why it was not looked at, if so.
    pub skipped: Option<Skipped>,
}

/// Why a library was left out.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Skipped {
    /// The filter said no.
    Filtered,
    /// It is the library that holds the proxies.
    Own,
    /// It has no dynamic section.
    NoDynamicSection,
    /// Its structures are broken.
    Broken(Error),
}

/// What one pass did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// The libraries that were looked at in this pass.
    pub modules: Vec<ModuleReport>,
    /// Calls of mprotect.
    pub protect_calls: u32,
}

impl Report {
    /// How many slots came to `outcome`.
    #[must_use]
    pub fn count(&self, outcome: Outcome) -> usize {
        self.slots().filter(|(_, slot)| slot.outcome == outcome).count()
    }

    /// Every slot with the path of its library.
    pub fn slots(&self) -> impl Iterator<Item = (&str, &SlotReport)> {
        self.modules
            .iter()
            .flat_map(|module| module.slots.iter().map(|slot| (module.path.as_str(), slot)))
    }
}

/// Decides by path which libraries are hooked; the path is as in [`ModuleReport::path`].
pub type Filter = Box<dyn Fn(&str) -> bool + Send>;

#[derive(Debug, Clone, Copy)]
struct OwnedSlot {
    address: usize,
    old: usize,
    ours: usize,
    symbol: &'static str,
    table: Table,
    kind: SlotKind,
}

/// The hooks of one owner.
pub struct Registry {
    hooks: Vec<Hook>,
    filter: Filter,
    known: HashMap<ModuleKey, Vec<OwnedSlot>>,
    counters: Option<LoadCounters>,
}

impl std::fmt::Debug for Registry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { hooks, known, counters, .. } = self;
        f.debug_struct("Registry")
            .field("hooks", hooks)
            .field("known", &known.len())
            .field("counters", counters)
            .finish_non_exhaustive()
    }
}

/// The one lock around patching, whoever owns the registry.
static PATCHING: Mutex<()> = Mutex::new(());

fn patching() -> MutexGuard<'static, ()> {
    PATCHING.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Registry {
    /// A registry that has hooked nothing yet.
    ///
    /// # Errors
    /// [`Error::SymbolNotFound`] when no hook's symbol is defined anywhere. A hook whose symbol
    /// alone is absent (`__write_chk` before Android 7) is left out.
    pub fn new(hooks: &[Hook], filter: Filter) -> Result<Self, Error> {
        let mut resolved = Vec::new();
        for hook in hooks {
            let Some(first) = hook.proxies.first() else { continue };
            let Some(definition) = definition_of(hook.symbol) else { continue };
            // ORDERING: Release, pairs with the load in the proxy; ordered before it by the
            // slot's own Release store as well.
            first.previous.store(definition, Ordering::Release);
            resolved.push(*hook);
        }
        if resolved.is_empty() {
            let names: Vec<_> = hooks.iter().map(|hook| hook.symbol).collect();
            return Err(Error::SymbolNotFound {
                symbol: names.join(" or "),
                searched: vec!["dlsym(RTLD_NEXT)".into(), "dlsym(RTLD_DEFAULT)".into()],
            });
        }
        Ok(Self { hooks: resolved, filter, known: HashMap::new(), counters: None })
    }

    /// Hooks every library that is loaded now and was not hooked before.
    ///
    /// # Errors
    /// [`Error::System`] when the memory map cannot be read; nothing is patched then.
    pub fn refresh(&mut self) -> Result<Report, Error> {
        let _lock = patching();
        let mut maps = Maps::read()?;
        let mut report = Report::default();
        let mut seen = HashMap::new();
        let mut counters = None;
        let hooks = &self.hooks;
        let filter = &self.filter;
        let known = &mut self.known;
        for_each_module(|module| {
            counters = module.counters;
            if let Some(slots) = known.remove(&module.key) {
                seen.insert(module.key.clone(), slots);
                return true;
            }
            // A library that was mapped after the map was read needs a new reading.
            if maps.at(module.key.headers).is_none()
                && let Ok(now) = Maps::read()
            {
                maps = now;
            }
            let (one, owned) = hook_module(module, hooks, filter, &maps, &mut report.protect_calls);
            seen.insert(module.key.clone(), owned);
            report.modules.push(one);
            true
        });
        // What is left in `known` was unloaded: its slots are gone with it.
        *known = seen;
        self.counters = counters;
        Ok(report)
    }

    /// Gives every slot back that still holds our pointer.
    ///
    /// # Errors
    /// [`Error::System`] when the memory map cannot be read; the proxies stay in place then, and
    /// pass everything on.
    pub fn uninstall(&mut self) -> Result<Report, Error> {
        let _lock = patching();
        let maps = Maps::read()?;
        let mut report = Report::default();
        let known = &mut self.known;
        for_each_module(|module| {
            let Some(slots) = known.remove(&module.key) else { return true };
            let mut unlocked = Unlocked::new(&maps);
            let restored = slots.iter().map(|slot| SlotReport {
                outcome: restore(&mut unlocked, slot),
                ..slot.report(Outcome::Restored)
            });
            report.modules.push(ModuleReport {
                path: module.key.path.clone(),
                slots: restored.collect(),
                skipped: None,
            });
            report.protect_calls += unlocked.protect_calls;
            true
        });
        known.clear();
        Ok(report)
    }

    /// Every slot that is ours, library by library.
    #[must_use]
    pub fn hooked(&self) -> Vec<ModuleReport> {
        let mut modules: Vec<_> = self
            .known
            .iter()
            .map(|(key, slots)| ModuleReport {
                path: key.path.clone(),
                slots: slots.iter().map(|slot| slot.report(Outcome::Hooked)).collect(),
                skipped: None,
            })
            .collect();
        modules.sort_by(|a, b| a.path.cmp(&b.path));
        modules
    }
}

impl OwnedSlot {
    fn report(&self, outcome: Outcome) -> SlotReport {
        let Self { address, old, symbol, table, kind, .. } = *self;
        SlotReport { symbol, table, kind, address, old, outcome }
    }
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

fn hook_module(
    module: &Module<'_>,
    hooks: &[Hook],
    filter: &Filter,
    maps: &Maps,
    protect_calls: &mut u32,
) -> (ModuleReport, Vec<OwnedSlot>) {
    let path = module.key.path.clone();
    let skip = |skipped| {
        (ModuleReport { path: path.clone(), slots: Vec::new(), skipped: Some(skipped) }, Vec::new())
    };
    let own = |proxy: &Proxy| module.contains(proxy.entry as usize);
    if hooks.iter().flat_map(|hook| hook.proxies).any(own) && !is_main_program(module) {
        return skip(Skipped::Own);
    }
    if !filter(&path) {
        return skip(Skipped::Filtered);
    }
    let image = match module.image(maps) {
        Ok(Some(image)) => image,
        Ok(None) => return skip(Skipped::NoDynamicSection),
        Err(error) => return skip(Skipped::Broken(error)),
    };
    let names: Vec<_> = hooks.iter().map(|hook| hook.symbol.as_bytes()).collect();
    let mut slots = match image.slots(&names) {
        Ok(slots) => slots,
        Err(error) => return skip(Skipped::Broken(error)),
    };
    slots.sort_by_key(|slot| slot.vaddr);
    slots.dedup_by_key(|slot| slot.vaddr);

    let mut unlocked = Unlocked::new(maps);
    let (mut reports, mut owned) = (Vec::new(), Vec::new());
    for slot in slots {
        let Some(hook) = hooks.get(slot.name_index) else { continue };
        let address = module.address(slot.vaddr);
        let mut report = SlotReport {
            symbol: hook.symbol,
            table: slot.table,
            kind: slot.kind,
            address,
            old: 0,
            outcome: Outcome::Unreadable,
        };
        let word = size_of::<usize>();
        let mapped = address.checked_add(word).is_some_and(|end| maps.readable(address, end));
        if address.is_multiple_of(word) && module.contains(address) && mapped {
            // SAFETY: aligned and inside a readable segment of a module that stays mapped here.
            report.old = unsafe { load(address) };
            let definition = image.definition(hook.symbol.as_bytes());
            let own_definition = definition.map(|symbol| module.address(symbol.vaddr));
            // A pointer into the library itself that is not its own definition of the symbol is
            // the PLT stub of a slot that is not bound yet. Calling it would bind the slot, past us.
            let lazy = module.contains(report.old) && own_definition != Some(report.old);
            report.outcome =
                replace(&mut unlocked, hook, address, report.old, lazy, &mut owned, &report);
        }
        reports.push(report);
    }
    *protect_calls += unlocked.protect_calls;
    (ModuleReport { path, slots: reports, skipped: None }, owned)
}

/// In tests and benches the proxies lie in the main program, whose slots are then the ones wanted.
fn is_main_program(module: &Module<'_>) -> bool {
    // SAFETY: no arguments beyond a constant.
    let headers = unsafe { libc::getauxval(libc::AT_PHDR) };
    usize::try_from(headers).is_ok_and(|headers| headers == module.key.headers)
}

fn replace(
    unlocked: &mut Unlocked<'_>,
    hook: &Hook,
    address: usize,
    old: usize,
    lazy: bool,
    owned: &mut Vec<OwnedSlot>,
    report: &SlotReport,
) -> Outcome {
    if old == 0 {
        return Outcome::Unresolved;
    }
    if hook.proxies.iter().any(|proxy| proxy.entry as usize == old) {
        return Outcome::Hooked;
    }
    let Some(proxy) = proxy_for(hook, old, lazy) else { return Outcome::ChainFull };
    let ours = proxy.entry as usize;
    // SAFETY: the address was checked by the caller; the proxy has the symbol's signature by the
    // contract of `Proxy::new`.
    match unsafe { unlocked.replace(address, old, ours) } {
        Written::Done => {
            let &SlotReport { symbol, table, kind, .. } = report;
            owned.push(OwnedSlot { address, old, ours, symbol, table, kind });
            Outcome::Hooked
        }
        Written::Changed(now) => Outcome::ChangedByOther(now),
        Written::Refused(errno) => Outcome::Refused(errno),
    }
}

/// The proxy that passes on to what the slot held. Under the patching lock.
fn proxy_for(hook: &Hook, old: usize, lazy: bool) -> Option<&'static Proxy> {
    let (first, chained) = hook.proxies.split_first()?;
    // ORDERING: Relaxed here and below; `previous` is written under the patching lock only.
    if lazy || first.previous.load(Ordering::Relaxed) == old {
        return Some(first);
    }
    chained.iter().find(|proxy| match proxy.previous.load(Ordering::Relaxed) {
        0 => {
            // ORDERING: Release, pairs with the load in the proxy; the slot that leads callers
            // there is written afterwards.
            proxy.previous.store(old, Ordering::Release);
            true
        }
        previous => previous == old,
    })
}

fn restore(unlocked: &mut Unlocked<'_>, slot: &OwnedSlot) -> Outcome {
    // SAFETY: the module of this slot is still the one it was found in (its key is the same), and
    // the old value is what its loader or a former hooker put there.
    match unsafe { unlocked.replace(slot.address, slot.ours, slot.old) } {
        Written::Done => Outcome::Restored,
        Written::Changed(now) => Outcome::ChangedByOther(now),
        Written::Refused(errno) => Outcome::Refused(errno),
    }
}
