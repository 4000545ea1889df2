//! Hooks the slots of one library, and restores them.
//!
//! Called only by [`crate::registry`], under its lock and inside the `dl_iterate_phdr` callback.

use crate::elf::relocation::{SlotKind, Table};
use crate::elf::{Image, Machine, Memory};
use crate::hook::{Filter, Hook, Proxy};
use crate::loaded::{LoadedMemory, Module, for_each_module};
use crate::maps::Maps;
use crate::patch::{Unlocked, Written, load, unlocking};
use crate::report::{ModuleReport, Outcome, Skipped, SlotReport};
use std::sync::atomic::Ordering;
use tracetee_os::guard;

/// A slot that holds one of our proxies.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OwnedSlot {
    address: usize,
    old: usize,
    ours: usize,
    symbol: &'static str,
    table: Table,
    kind: SlotKind,
}

impl OwnedSlot {
    pub(crate) fn report(&self, outcome: Outcome) -> SlotReport {
        let Self { address, old, symbol, table, kind, .. } = *self;
        SlotReport { symbol, table, kind, address, old, outcome }
    }
}

impl OwnedSlot {
    /// True if the library was unloaded and loaded again at the same address: the slot has the value
    /// that the linker gave it. (Another hooker leaves another value.)
    pub(crate) fn is_fresh(&self) -> bool {
        // SAFETY: the library with this key is loaded right now, and had this slot before.
        unsafe { load(self.address) == self.old }
    }

    /// Returns the slot's address.
    pub(crate) const fn address(&self) -> usize {
        self.address
    }

    /// Returns the slot's value if it is no longer ours. Call it while the library is loaded.
    pub(crate) fn changed(&self) -> Option<usize> {
        // SAFETY: the library with this key is loaded right now, and had this slot before.
        let now = unsafe { load(self.address) };
        (now != self.ours).then_some(now)
    }
}

/// A hook, with the way to find the functions that its slots lead to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wanted {
    pub(crate) hook: Hook,
    /// True if `dlsym` finds the symbol in the global scope; the first proxy then calls that. Otherwise callers get it from
    /// their own dependencies, as apps get libcutils on Android 7 and later, and the value of each slot is the function.
    pub(crate) is_global: bool,
}

/// Hooks the slots of one library; returns the slots that are ours now.
pub(crate) fn hook_module(
    module: &Module<'_>,
    hooks: &[Wanted],
    filter: &Filter,
    maps: &Maps,
    protect_calls: &mut u32,
) -> (ModuleReport, Vec<OwnedSlot>) {
    let path = module.key.path.clone();
    let skip = |skipped| {
        (ModuleReport { path: path.clone(), slots: Vec::new(), skipped: Some(skipped) }, Vec::new())
    };
    let own = |proxy: &Proxy| module.contains(proxy.entry as usize);
    if hooks.iter().flat_map(|wanted| wanted.hook.proxies).any(own) && !is_main_program(module) {
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
    let names: Vec<_> = hooks.iter().map(|wanted| wanted.hook.symbol.as_bytes()).collect();
    let mut slots = match image.slots(&names) {
        Ok(slots) => slots,
        Err(error) => return skip(Skipped::Broken(error)),
    };
    slots.sort_unstable_by_key(|slot| (slot.vaddr, slot.name_index));
    slots.dedup_by_key(|slot| slot.vaddr);

    let (mut reports, mut owned) = (Vec::new(), Vec::new());
    let ((), calls) = unlocking(maps, |unlocked| {
        for slot in slots {
            let Some(Wanted { hook, is_global }) = hooks.get(slot.name_index) else { continue };
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
                let lazy = slot.kind == SlotKind::JumpSlot
                    && own_definition != Some(report.old)
                    && is_lazy_stub(module, &image, report.old);
                let previous = match (lazy, is_global) {
                    (false, _) => Previous::InSlot,
                    (true, true) => Previous::Global,
                    (true, false) => Previous::Found(sole_definition(hook.symbol, maps)),
                };
                report.outcome =
                    replace(unlocked, hook, address, report.old, previous, &mut owned, &report);
            }
            reports.push(report);
        }
    });
    *protect_calls += calls;
    (ModuleReport { path, slots: reports, skipped: None }, owned)
}

/// True if a slot's value is the PLT code that binds it on the first call. Calling that code would
/// bind the slot and remove our hook, so the proxy calls the symbol's own definition instead.
fn is_lazy_stub(module: &Module<'_>, image: &Image<LoadedMemory<'_>>, address: usize) -> bool {
    if !module.contains(address) {
        return false;
    }
    let vaddr = address.wrapping_sub(module.key.bias) as u64;
    let Some(code) = image.memory().bytes(vaddr, 8) else { return false };
    let word =
        |at: usize| code.get(at..at + 4).and_then(|w| w.try_into().ok()).map(u32::from_le_bytes);
    match image.machine() {
        // `push imm32`, after `endbr64` if the processor checks branches.
        Machine::X86 | Machine::X86_64 => {
            let code = code.strip_prefix(&[0xf3, 0x0f, 0x1e, 0xfa]).unwrap_or(code);
            code.first() == Some(&0x68)
        }
        // The first words of PLT0: `stp x16, x30, [sp, #-16]!`, likewise after `bti c`.
        Machine::Aarch64 => {
            let first = if word(0) == Some(0xd503_245f) { word(4) } else { word(0) };
            first == Some(0xa9bf_7bf0)
        }
        // `str lr, [sp, #-4]!`.
        Machine::Arm => word(0) == Some(0xe52d_e004),
        // `auipc t2, …`.
        Machine::Riscv64 => word(0).is_some_and(|word| word & 0xfff == 0x397),
    }
}

/// In tests and benches the proxies are in the main program, whose slots must then be hooked.
fn is_main_program(module: &Module<'_>) -> bool {
    // SAFETY: no arguments beyond a constant.
    let headers = unsafe { libc::getauxval(libc::AT_PHDR) };
    usize::try_from(headers).is_ok_and(|headers| headers == module.key.headers)
}

/// Finds the symbol's definition for an unbound slot whose symbol the global scope lacks: the only one
/// that a loaded library exports. With several, the linker's choice is unknown.
fn sole_definition(symbol: &str, maps: &Maps) -> Option<usize> {
    let (mut found, mut several) = (None, false);
    for_each_definition(&[symbol], maps, |address| {
        several |= found.is_some_and(|earlier| earlier != address);
        found = Some(address);
        !several
    });
    found.filter(|_| !several)
}

/// True if a loaded library exports one of `symbols`.
pub(crate) fn is_defined_somewhere(symbols: &[&str], maps: &Maps) -> bool {
    let mut found = false;
    for_each_definition(symbols, maps, |_| {
        found = true;
        false
    });
    found
}

/// Calls `visit` with each exported definition of `symbols`, until it returns `false`.
fn for_each_definition(symbols: &[&str], maps: &Maps, mut visit: impl FnMut(usize) -> bool) {
    for_each_module(|module| {
        let Ok(Some(image)) = module.image(maps) else { return true };
        symbols.iter().all(|symbol| match image.definition(symbol.as_bytes()) {
            Some(definition) => {
                let address = module.address(definition.vaddr);
                !module.contains(address) || visit(address)
            }
            None => true,
        })
    });
}

/// The function that a slot leads to.
enum Previous {
    /// The slot is bound: its value is the function.
    InSlot,
    /// The slot is unbound; the first proxy has the definition of the global scope.
    Global,
    /// The slot is unbound; has the only loaded definition, if there is exactly one.
    Found(Option<usize>),
}

fn replace(
    unlocked: &mut Unlocked<'_>,
    hook: &Hook,
    address: usize,
    old: usize,
    previous: Previous,
    owned: &mut Vec<OwnedSlot>,
    report: &SlotReport,
) -> Outcome {
    if old == 0 {
        return Outcome::Unresolved;
    }
    if hook.proxies.iter().any(|proxy| proxy.entry as usize == old) {
        return Outcome::Hooked;
    }
    let proxy = match previous {
        Previous::InSlot => proxy_for(hook, old),
        Previous::Global => hook.proxies.first(),
        Previous::Found(Some(definition)) => proxy_for(hook, definition),
        Previous::Found(None) => return Outcome::NoDefinition,
    };
    let Some(proxy) = proxy else { return Outcome::ChainFull };
    let ours = proxy.entry as usize;
    // SAFETY: the address was checked by the caller; the proxy has the symbol's signature by the
    // contract of `Proxy::new`.
    match unsafe { unlocked.replace(address, old, ours) } {
        // Another thread's panic has switched the agent off, and the slots were restored.
        Written::Done if guard::must_undo() => {
            // SAFETY: as above; it is the former content of the slot.
            unsafe { unlocked.replace(address, ours, old) };
            Outcome::Restored
        }
        Written::Done => {
            let &SlotReport { symbol, table, kind, .. } = report;
            owned.push(OwnedSlot { address, old, ours, symbol, table, kind });
            guard::planted("patch");
            Outcome::Hooked
        }
        Written::Changed(now) => Outcome::ChangedByOther(now),
        Written::Refused(errno) => Outcome::Refused(errno),
    }
}

/// Finds or assigns the proxy that calls `function`. Call it under the patching lock.
fn proxy_for(hook: &Hook, function: usize) -> Option<&'static Proxy> {
    // ORDERING: Relaxed; `previous` is written under the patching lock only.
    hook.proxies.iter().find(|proxy| match proxy.previous.load(Ordering::Relaxed) {
        0 => {
            // ORDERING: Release, pairs with the load in the proxy; the slot through which callers reach it is written
            // afterwards.
            proxy.previous.store(function, Ordering::Release);
            true
        }
        previous => previous == function,
    })
}

/// Restores one slot.
pub(crate) fn restore(unlocked: &mut Unlocked<'_>, slot: &OwnedSlot) -> Outcome {
    // SAFETY: the library with this slot's key is loaded.
    let now = unsafe { load(slot.address) };
    // Not even a failing compare-exchange may access a slot of another owner: another library may be loading at the same
    // address.
    if now != slot.ours {
        return Outcome::ChangedByOther(now);
    }
    // SAFETY: the module of this slot is still the one it was found in (its key is the same), and
    // the old value is what its loader or a former hooker put there.
    match unsafe { unlocked.replace(slot.address, slot.ours, slot.old) } {
        Written::Done => Outcome::Restored,
        Written::Changed(now) => Outcome::ChangedByOther(now),
        Written::Refused(errno) => Outcome::Refused(errno),
    }
}

/// Gives each slot of one library that holds a proxy of `hooks` the function that the proxy calls. Returns the number
/// of those slots.
pub(crate) fn unhook_module(module: &Module<'_>, hooks: &[Hook], maps: &Maps) -> usize {
    let Ok(Some(image)) = module.image(maps) else { return 0 };
    let names: Vec<_> = hooks.iter().map(|hook| hook.symbol.as_bytes()).collect();
    let Ok(mut slots) = image.slots(&names) else { return 0 };
    slots.sort_by_key(|slot| slot.vaddr);
    let mut found = 0;
    unlocking(maps, |unlocked| {
        for slot in slots {
            let Some(hook) = hooks.get(slot.name_index) else { continue };
            let address = module.address(slot.vaddr);
            let word = size_of::<usize>();
            let mapped = address.checked_add(word).is_some_and(|end| maps.readable(address, end));
            if !address.is_multiple_of(word) || !module.contains(address) || !mapped {
                continue;
            }
            // SAFETY: aligned and inside a readable segment of a module that stays mapped here.
            let now = unsafe { load(address) };
            let ours = hook.proxies.iter().find(|proxy| proxy.entry as usize == now);
            // ORDERING: Relaxed; it was written before the slot.
            let Some(old) = ours.map(|proxy| proxy.previous.load(Ordering::Relaxed)) else {
                continue;
            };
            found += 1;
            // SAFETY: as above; the proxy passes the slot's calls on to this function.
            unsafe { unlocked.replace(address, now, old) };
        }
    });
    found
}
