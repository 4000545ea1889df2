//! Finds the variables and functions that libcutils exports for tracing: the tag word, the marker
//! descriptor, and the functions that initialise them.
//!
//! It tries in this order: `dlsym` on the main program's handle (which works across linker
//! namespaces on Android 7 and later), `dlsym` on the libraries by name if they are loaded, and the
//! symbol tables of all loaded libraries, which also finds second copies in the vendor's namespace.
//! Called at the start of a capture, never from a proxy.

use crate::error::Error;
use crate::loaded::for_each_module;
use crate::maps::Maps;
use dlopen2::raw::Library;
use std::ffi::c_void;
use std::mem::ManuallyDrop;
use std::sync::atomic::{AtomicI32, AtomicU64};

/// Names of the tag word: from API 18, and before.
const TAGS: [&str; 2] = ["atrace_enabled_tags", "_ZN7android6Tracer12sEnabledTagsE"];
/// Names of the marker descriptor: from API 18, and before.
const MARKER_FD: [&str; 2] = ["atrace_marker_fd", "_ZN7android6Tracer8sTraceFDE"];
/// Libraries that define the tracing state; the second is Debian's name of libcutils.
const LIBRARIES: [&str; 3] = ["libcutils.so", "libcutils.so.0", "libutils.so"];
/// Flags that open an already loaded library. bionic reports why it refuses; elsewhere a library that another thread closes
/// meanwhile is loaded again.
const OF_LOADED: i32 =
    libc::RTLD_NOW | if cfg!(target_os = "android") { libc::RTLD_NOLOAD } else { 0 };

/// A copy of the tracing state of libcutils (libutils before API 18).
#[derive(Debug, Clone, Copy)]
pub struct Atrace {
    /// `atrace_enabled_tags`.
    pub tags: &'static AtomicU64,
    /// `atrace_marker_fd`: −1 until it is initialised, and if the system has no marker.
    pub marker_fd: &'static AtomicI32,
    /// `atrace_setup()`: initialises tag word and descriptor.
    pub setup: Option<unsafe extern "C" fn()>,
    /// `atrace_get_enabled_tags()`: initialises both and, from API 30, re-reads a changed property.
    pub get_enabled_tags: Option<unsafe extern "C" fn() -> u64>,
    /// `atrace_update_tags()`: sets the tags from the system's property.
    pub update_tags: Option<unsafe extern "C" fn()>,
    /// The way this copy was found, for the health report.
    pub found_by: FoundBy,
}

/// A way to find a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FoundBy {
    /// `dlsym` on the main program's handle.
    MainProgram,
    /// `dlsym` on a library by this name.
    Library(&'static str),
    /// The symbol table of a loaded library.
    SymbolTable,
}

/// Finds every copy of the tracing state in this process, the default one first.
///
/// # Errors
/// [`Error::SymbolNotFound`], with the places that were searched, if there is no copy. This is the case on plain Linux,
/// where a capture recognizes records only by marker descriptors.
pub fn find() -> Result<Vec<Atrace>, Error> {
    let mut found = Vec::new();
    let mut searched = Vec::new();
    if let Some(scope) = Scope::of_the_main_program() {
        found.extend(Atrace::from_addresses(|name| scope.address(name), FoundBy::MainProgram));
    }
    searched.push("the main program's scope".to_owned());
    for name in LIBRARIES {
        match Scope::of_loaded_library(name) {
            Some(scope) => {
                searched.push(name.to_owned());
                let address = |symbol: &str| scope.address(symbol);
                found.extend(Atrace::from_addresses(address, FoundBy::Library(name)));
            }
            None => searched.push(format!("{name} (not loaded)")),
        }
    }
    match Maps::read() {
        Ok(maps) => found.extend(in_symbol_tables(&maps)),
        Err(error) => searched.push(error.to_string()),
    }
    searched.push("the symbol tables of all loaded libraries".to_owned());

    let mut copies: Vec<Atrace> = Vec::new();
    for one in found {
        if !copies.iter().any(|copy| std::ptr::eq(copy.tags, one.tags)) {
            copies.push(one);
        }
    }
    if copies.is_empty() {
        let symbol = format!("{} with {}", TAGS.join(" or "), MARKER_FD.join(" or "));
        return Err(Error::SymbolNotFound { symbol, searched });
    }
    Ok(copies)
}

/// Finds the address of `symbol` in the main program's scope, else in `library` if that is loaded.
/// Loads nothing.
#[must_use]
pub fn find_symbol(symbol: &str, library: &str) -> Option<usize> {
    let address = |scope: Scope| scope.address(symbol);
    Scope::of_the_main_program()
        .and_then(address)
        .or_else(|| Scope::of_loaded_library(library).and_then(address))
}

/// A library's handle. Never closed, so that pointers into the library stay valid.
struct Scope(ManuallyDrop<Library>);

impl Scope {
    fn of_the_main_program() -> Option<Self> {
        Library::open_self().ok().map(Self::new)
    }

    /// Opens a library that is loaded already.
    fn of_loaded_library(name: &str) -> Option<Self> {
        // dlopen2 reads the error text, and glibc has none for a library that `RTLD_NOLOAD` refuses.
        let mut is_loaded = false;
        for_each_module(|module| {
            let path = module.key.path.as_bytes();
            is_loaded = path.rsplit(|&byte| byte == b'/').next() == Some(name.as_bytes());
            !is_loaded
        });
        if !is_loaded {
            return None;
        }
        Library::open_with_flags(name, Some(OF_LOADED)).ok().map(Self::new)
    }

    const fn new(library: Library) -> Self {
        Self(ManuallyDrop::new(library))
    }

    fn address(&self, symbol: &str) -> Option<usize> {
        // SAFETY: the symbol's address is only converted to a pointer.
        unsafe { self.0.symbol::<*const c_void>(symbol) }.ok().map(|address| address as usize)
    }
}

fn in_symbol_tables(maps: &Maps) -> Vec<Atrace> {
    let mut copies = Vec::new();
    for_each_module(|module| {
        if let Ok(Some(image)) = module.image(maps) {
            let address = |name: &str| {
                let definition = image.definition(name.as_bytes())?;
                let address = module.address(definition.vaddr);
                module.contains(address).then_some(address)
            };
            copies.extend(Atrace::from_addresses(address, FoundBy::SymbolTable));
        }
        true
    });
    copies
}

impl Atrace {
    /// Builds a copy from the addresses that `address` gives for the symbols.
    fn from_addresses(address: impl Fn(&str) -> Option<usize>, found_by: FoundBy) -> Option<Self> {
        let tags = TAGS.into_iter().find_map(&address)?;
        let marker_fd = MARKER_FD.into_iter().find_map(&address)?;
        if tags == 0 || !tags.is_multiple_of(8) || !marker_fd.is_multiple_of(4) || marker_fd == 0 {
            return None;
        }
        let function = |name| address(name).filter(|&address| address != 0);
        Some(Self {
            // SAFETY: the exported u64 of libcutils, aligned, in writable data, and kept loaded:
            // libcutils is a dependency of the system's own libraries and is never unloaded.
            tags: unsafe { AtomicU64::from_ptr(tags as *mut u64) },
            // SAFETY: the exported int of libcutils, likewise.
            marker_fd: unsafe { AtomicI32::from_ptr(marker_fd as *mut i32) },
            setup: function("atrace_setup")
                // SAFETY: libcutils declares `void atrace_setup(void)` in every release.
                .map(|f| unsafe { std::mem::transmute::<usize, unsafe extern "C" fn()>(f) }),
            get_enabled_tags: function("atrace_get_enabled_tags")
                // SAFETY: libcutils declares `uint64_t atrace_get_enabled_tags(void)`.
                .map(|f| unsafe { std::mem::transmute::<usize, unsafe extern "C" fn() -> u64>(f) }),
            update_tags: function("atrace_update_tags")
                // SAFETY: libcutils declares `void atrace_update_tags(void)` in every release.
                .map(|f| unsafe { std::mem::transmute::<usize, unsafe extern "C" fn()>(f) }),
            found_by,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_without_libcutils_is_told_what_was_searched_where() {
        let Err(Error::SymbolNotFound { symbol, searched }) = find() else {
            panic!("this test program links no libcutils");
        };
        assert!(symbol.contains("atrace_enabled_tags") && symbol.contains("sEnabledTags"));
        assert!(searched.iter().any(|library| library == "libcutils.so (not loaded)"));
        assert!(searched.last().unwrap().contains("symbol tables"));
    }

    #[test]
    #[cfg(target_env = "gnu")]
    fn a_loaded_library_gives_its_symbols_and_no_other_is_loaded() {
        let libc = Scope::of_loaded_library("libc.so.6").unwrap();
        // SAFETY: a C string; a lookup runs no code.
        let write = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"write".as_ptr()) };
        assert_eq!(libc.address("write"), Some(write as usize));
        assert_eq!(libc.address("no_such_symbol"), None);
        assert_eq!(find_symbol("write", "libnone.so"), Some(write as usize));
        for _ in 0..2 {
            assert!(Scope::of_loaded_library("libanl.so.1").is_none());
        }
    }
}
