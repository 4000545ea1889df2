//! The libraries loaded into this process, as the dynamic linker lists them.
//!
//! Everything that looks at a loaded library happens inside [`for_each_module`], that is inside
//! the `dl_iterate_phdr` callback: the linker's lock is held there (bionic from Android 6 on, and
//! glibc), so no library is unmapped under the reader or the patcher.

use crate::elf::{Class, Image, Machine, Memory};
use crate::error::Error;
use crate::maps::Maps;
use libc::{c_int, c_void, dl_phdr_info, size_t};
#[cfg(target_env = "gnu")]
use std::collections::HashSet;
use std::ffi::CStr;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU64, Ordering};
use tracetee_os::guard::{self, Caught};

/// Identity of a loaded library. The bias alone is not enough: a dlclose frees it for reuse.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ModuleKey {
    /// Load bias: address = bias + virtual address.
    pub bias: usize,
    /// Address of the program headers.
    pub headers: usize,
    /// Path in the linker's list; empty for the main program on glibc.
    pub path: String,
}

/// Numbers of libraries that the linker has added and removed, if it counts them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LoadCounters {
    /// `dlpi_adds`.
    pub adds: u64,
    /// `dlpi_subs`.
    pub subs: u64,
}

/// A value that changes when a library is loaded or unloaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ListState {
    /// The linker counts: glibc, musl, bionic from Android 11 on.
    Counted(LoadCounters),
    /// The linker does not count: a hash of its list. A library that is unloaded and loaded again at
    /// the same address does not change the hash.
    Hashed(u64),
}

/// The counters when the watchers had last examined all libraries.
static SEEN: [AtomicU64; 2] = [const { AtomicU64::new(u64::MAX) }; 2];

impl ListState {
    /// Reads the current state, without allocating: the linker's counters, or every entry of its
    /// list if it has none.
    pub(crate) fn now() -> Self {
        let mut counters = None;
        walk(&mut |info, size| {
            counters = counters_of(info, size);
            false
        });
        counters.map_or_else(Self::hash, Self::Counted)
    }

    /// Hashes load bias, program headers and path of every library (FNV-1a, a word at a time).
    pub(crate) fn hash() -> Self {
        const OFFSET_BASIS: u64 = 0xcbf2_9ce4_8422_2325;
        const PRIME: u64 = 0x0100_0000_01b3;
        let mut hash = OFFSET_BASIS;
        let mut add = |word: u64| hash = (hash ^ word).wrapping_mul(PRIME).rotate_left(23);
        walk(&mut |info, _| {
            add(widen(info.dlpi_addr));
            add(info.dlpi_phdr as usize as u64);
            for chunk in name_of(info).chunks(8) {
                let mut word = [0; 8];
                word.iter_mut().zip(chunk).for_each(|(to, from)| *to = *from);
                add(u64::from_le_bytes(word));
            }
            true
        });
        Self::Hashed(hash)
    }

    /// Notes that the watchers have examined all libraries of this state.
    pub(crate) fn mark_seen(self) {
        let Self::Counted(counters) = self else { return };
        // ORDERING: Relaxed; a stale pair causes an extra check, or is corrected by the check of the next load: both
        // counters only grow.
        SEEN[0].store(counters.adds, Ordering::Relaxed);
        SEEN[1].store(counters.subs, Ordering::Relaxed);
    }

    /// True if nothing was loaded or unloaded since. Always false for a hash, which another load may
    /// leave unchanged.
    pub(crate) fn is_seen(self) -> bool {
        let Self::Counted(counters) = self else { return false };
        let [adds, subs] = &SEEN;
        adds.load(Ordering::Relaxed) == counters.adds
            && subs.load(Ordering::Relaxed) == counters.subs
    }
}

/// The libraries that were completely loaded at one moment.
///
/// glibc lists a library before it has relocated it and taken write permission from its RELRO
/// part, without holding the lock of `dl_iterate_phdr`: another thread's `dlopen` may be half
/// done, and patching would race with it. bionic and musl hold one lock throughout.
#[derive(Debug)]
pub(crate) struct Settled {
    #[cfg(target_env = "gnu")]
    modules: HashSet<ModuleKey>,
    #[cfg(target_env = "gnu")]
    unloads: u64,
}

impl Settled {
    #[cfg(target_env = "gnu")]
    pub(crate) fn now() -> Self {
        let (mut modules, mut unloads) = (HashSet::new(), 0);
        for_each_module(|module| {
            unloads = module.counters.map_or(0, |counters| counters.subs);
            modules.insert(module.key.clone());
            true
        });
        // dladdr takes the lock that glibc's dlopen holds from mapping to the last constructor:
        // when it returns, every library of the list above is complete, or unloaded again. (When this
        // thread is itself inside a dlopen, in a constructor, the relocating is done.)
        // SAFETY: an all-zero Dl_info is a valid value of a plain C structure.
        let mut info: libc::Dl_info = unsafe { std::mem::zeroed() };
        // SAFETY: the function accepts any address; this one is not in a library.
        unsafe { libc::dladdr(std::ptr::without_provenance(1), &raw mut info) };
        Self { modules, unloads }
    }

    #[cfg(not(target_env = "gnu"))]
    pub(crate) fn now() -> Self {
        Self {}
    }

    /// True if a library that is listed now was completely loaded then.
    #[cfg(target_env = "gnu")]
    pub(crate) fn contains(&self, module: &Module<'_>) -> bool {
        // After an unload another library may be at the same address under the same name.
        module.counters.is_none_or(|counters| counters.subs == self.unloads)
            && self.modules.contains(&module.key)
    }

    #[cfg(not(target_env = "gnu"))]
    pub(crate) fn contains(&self, _module: &Module<'_>) -> bool {
        true
    }
}

/// Calls `body` under the lock that [`for_each_module`] holds. The lock is recursive in every linker.
pub(crate) fn with_linker_lock<T>(body: impl FnOnce() -> T) -> T {
    let (mut body, mut result) = (Some(body), None);
    for_each_module(|_| {
        result = body.take().map(|body| body());
        false
    });
    match (result, body) {
        (Some(result), _) => result,
        // The process's linker lists nothing, not even the program, so there is no lock to hold.
        (None, Some(body)) => body(),
        (None, None) => unreachable!("the body was taken, so there is a result"),
    }
}

/// A loaded library, valid within the callback that receives it.
#[derive(Debug)]
pub struct Module<'a> {
    /// Identity of the library.
    pub key: ModuleKey,
    /// The linker's counters now; `None` if it has none.
    pub counters: Option<LoadCounters>,
    headers: &'a [ProgramHeader],
}

#[cfg(target_pointer_width = "64")]
type ProgramHeader = libc::Elf64_Phdr;
#[cfg(target_pointer_width = "32")]
type ProgramHeader = libc::Elf32_Phdr;

/// Program header flag: the segment is readable. (The libc crate has it for some targets only.)
const PF_R: u32 = 4;

/// Maximum size of a segment; a larger one in a broken header would make addresses wrap around.
const MAX_SEGMENT_BYTES: u64 = 1 << 40;

impl Module<'_> {
    /// True if `address` is in one of the library's PT_LOAD segments.
    #[must_use]
    pub fn contains(&self, address: usize) -> bool {
        let vaddr = address.wrapping_sub(self.key.bias) as u64;
        self.loads().any(|(start, end, _)| (start..end).contains(&vaddr))
    }

    /// Returns a reader of the library's ELF structures; `Ok(None)` if it has no dynamic section.
    ///
    /// # Errors
    /// [`Error::Malformed`] for a dynamic section that contradicts itself.
    pub fn image(&self, maps: &Maps) -> Result<Option<Image<LoadedMemory<'_>>>, Error> {
        let Some(dynamic) = self.headers.iter().find(|header| header.p_type == libc::PT_DYNAMIC)
        else {
            return Ok(None);
        };
        let segments: Vec<_> = self
            .loads()
            .filter(|&(start, end, flags)| {
                let first = self.address(start);
                let len = usize::try_from(end - start).unwrap_or(usize::MAX);
                flags & PF_R != 0
                    && first.checked_add(len).is_some_and(|last| maps.readable(first, last))
            })
            .map(|(start, end, _)| (start, end))
            .collect();
        let end_vaddr = self.loads().map(|(_, end, _)| end).max().unwrap_or(0);
        let bias = self.key.bias;
        let memory = LoadedMemory { bias, segments, end_vaddr, module: PhantomData };
        let (vaddr, len) = (widen(dynamic.p_vaddr), widen(dynamic.p_memsz));
        Image::new(memory, Class::NATIVE, Machine::NATIVE, vaddr, len).map(Some)
    }

    /// The address that `vaddr` was loaded at.
    #[must_use]
    pub fn address(&self, vaddr: u64) -> usize {
        self.key.bias.wrapping_add(usize::try_from(vaddr).unwrap_or(usize::MAX))
    }

    fn loads(&self) -> impl Iterator<Item = (u64, u64, u32)> + '_ {
        self.headers.iter().filter(|header| header.p_type == libc::PT_LOAD).filter_map(|header| {
            let (start, len) = (widen(header.p_vaddr), widen(header.p_memsz));
            (len <= MAX_SEGMENT_BYTES).then_some(())?;
            Some((start, start.checked_add(len)?, header.p_flags))
        })
    }
}

/// Program header fields are 32 or 64 bits wide.
fn widen(word: impl Into<u64>) -> u64 {
    word.into()
}

/// The readable segments of a loaded library. Borrows the [`Module`], so it ends with the callback.
#[derive(Debug)]
pub struct LoadedMemory<'a> {
    bias: usize,
    segments: Vec<(u64, u64)>,
    end_vaddr: u64,
    module: PhantomData<&'a ()>,
}

impl Memory for LoadedMemory<'_> {
    fn bytes(&self, vaddr: u64, len: u64) -> Option<&[u8]> {
        let end = vaddr.checked_add(len)?;
        self.segments.iter().find(|&&(start, last)| start <= vaddr && end <= last)?;
        let address = self.bias.wrapping_add(usize::try_from(vaddr).ok()?);
        let len = usize::try_from(len).ok()?;
        // SAFETY: the range is in one PT_LOAD segment, which /proc/self/maps showed readable,
        // and stays mapped while the linker's lock is held (this value does not leave the
        // callback). Relocation, symbol and string tables are not written after loading.
        Some(unsafe { std::slice::from_raw_parts(address as *const u8, len) })
    }

    /// glibc relocates `d_ptr` values in place, bionic leaves them as virtual addresses.
    fn vaddr_of(&self, d_ptr: u64) -> u64 {
        let inside = |vaddr: u64| self.segments.iter().any(|&(s, e)| (s..e).contains(&vaddr));
        if inside(d_ptr) { d_ptr } else { d_ptr.wrapping_sub(self.bias as u64) }
    }

    fn end_vaddr(&self) -> u64 {
        self.end_vaddr
    }
}

/// Calls `visit` for each loaded library, under the dynamic linker's lock, until it returns
/// `false`.
///
/// `visit` must not load or unload libraries. A panic in it is carried over the linker's frames.
pub fn for_each_module(mut visit: impl FnMut(&Module<'_>) -> bool) {
    list(&mut visit);
}

fn list(visit: &mut dyn FnMut(&Module<'_>) -> bool) {
    walk(&mut |info, size| {
        let counters = counters_of(info, size);
        let headers = if info.dlpi_phdr.is_null() {
            &[]
        } else {
            // SAFETY: the linker's pointer and count describe the module's program headers.
            unsafe { std::slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum)) }
        };
        let path = String::from_utf8_lossy(name_of(info)).into_owned();
        let bias = usize::try_from(info.dlpi_addr).unwrap_or(usize::MAX);
        let key = ModuleKey { bias, headers: info.dlpi_phdr as usize, path };
        visit(&Module { key, counters, headers })
    });
}

/// Finds the path of the loaded library that contains `address`; empty for the main program on glibc.
#[must_use]
pub fn library_at(address: usize) -> Option<String> {
    let mut path = None;
    for_each_module(|module| {
        if module.contains(address) {
            path = Some(module.key.path.clone());
        }
        path.is_none()
    });
    path
}

/// Calls `visit` with each entry of the linker's list and the size of the structure that the
/// linker has filled, until it returns `false`. Allocates nothing.
fn walk(visit: &mut dyn FnMut(&dl_phdr_info, size_t) -> bool) {
    struct State<'v> {
        visit: &'v mut dyn FnMut(&dl_phdr_info, size_t) -> bool,
        caught: Option<Caught>,
    }
    unsafe extern "C" fn callback(
        info: *mut dl_phdr_info,
        size: size_t,
        data: *mut c_void,
    ) -> c_int {
        // SAFETY: `data` is the `State` that the call below passes, which has no other borrower.
        let state = unsafe { &mut *data.cast::<State<'_>>() };
        // SAFETY: the linker passes a valid info for the length of this call.
        let info = unsafe { &*info };
        match guard::catch(|| (state.visit)(info, size)) {
            Ok(go_on) => c_int::from(!go_on),
            Err(caught) => {
                state.caught = Some(caught);
                1
            }
        }
    }
    let mut state = State { visit, caught: None };
    // SAFETY: `callback` is given the state that it expects, which outlives the call.
    unsafe { libc::dl_iterate_phdr(Some(callback), (&raw mut state).cast()) };
    if let Some(caught) = state.caught {
        caught.resume();
    }
}

/// The linker's name of a library, as bytes.
fn name_of(info: &dl_phdr_info) -> &[u8] {
    if info.dlpi_name.is_null() {
        return &[];
    }
    // SAFETY: the linker's name is a C string that lives as long as the module, hence during the
    // callback that lends `info`.
    unsafe { CStr::from_ptr(info.dlpi_name) }.to_bytes()
}

fn counters_of(info: &dl_phdr_info, size: size_t) -> Option<LoadCounters> {
    has_counters(size).then_some(LoadCounters { adds: info.dlpi_adds, subs: info.dlpi_subs })
}

/// Old linkers pass a shorter structure, without the counters.
const fn has_counters(size: size_t) -> bool {
    size >= std::mem::offset_of!(dl_phdr_info, dlpi_subs) + size_of::<libc::c_ulonglong>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libc_is_listed_and_defines_write_where_dlsym_finds_it() {
        let maps = Maps::read().unwrap();
        let mut found = None;
        for_each_module(|module| {
            if let Ok(Some(image)) = module.image(&maps)
                && module.key.path.contains("libc.so")
            {
                found = image.definition(b"write").map(|symbol| module.address(symbol.vaddr));
            }
            true
        });
        // SAFETY: a NUL-terminated name, searched in the default scope.
        let write = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"write".as_ptr()) };
        assert_eq!(found, Some(write as usize));
    }

    #[test]
    fn both_states_of_the_list_are_others_after_a_load_and_the_same_without_one() {
        let states = || (ListState::now(), ListState::hash());
        let (counted, hashed) = states();
        assert!(matches!(counted, ListState::Counted(_)), "glibc and musl count");
        assert!(!hashed.is_seen(), "a hash is never proof enough");
        // SAFETY: a library of the C library's own; it stays loaded.
        let handle = unsafe { libc::dlopen(c"libutil.so.1".as_ptr(), libc::RTLD_NOW) };
        assert!(!handle.is_null());
        let after = states();
        assert_eq!(after, states());
        assert_ne!(after.0, counted);
        assert_ne!(after.1, hashed);
    }

    #[test]
    fn a_panic_in_the_visitor_reaches_the_caller() {
        let caught = guard::catch(|| for_each_module(|_| panic!("visitor")));
        assert!(caught.is_err());
    }
}
