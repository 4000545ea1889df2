//! Saves the registers that a call preserves, and restores them: `setjmp` and `longjmp` in the form of one call.
//!
//! To the compiler [`enter`] is an ordinary function that returns once: C's `setjmp` returns twice, which
//! Rust cannot express. The unwind information lets debuggers and profilers walk through `enter`; ARM's
//! would refer to an unwinder, and the library has none.
//!
//! Not saved: floating-point modes, which no code of ours changes; the shadow stack of x86, because the
//! library is not marked for it, and then no process with the library has one; the shadow call stack of
//! AArch64 (x18), for which the library is not compiled. `bti c` is a hint that older processors skip.

use std::arch::naked_asm;
use std::ffi::c_void;

/// Saves the preserved registers, stores the stack pointer in `stack`, and calls `body(data)`. Returns 0 when
/// `body` returns, and 1 when [`leave`] is called.
///
/// # Safety
/// `stack` is writable; `body` accepts `data`.
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
pub(super) unsafe extern "C" fn enter(
    stack: *mut *mut c_void,
    body: extern "C" fn(*mut c_void),
    data: *mut c_void,
) -> usize {
    naked_asm!(
        ".cfi_startproc",
        "endbr64",
        "push rbp",
        ".cfi_def_cfa_offset 16",
        ".cfi_offset rbp, -16",
        "push rbx",
        "push r12",
        "push r13",
        "push r14",
        "push r15",
        "sub rsp, 8",
        ".cfi_def_cfa_offset 64",
        ".cfi_offset rbx, -24",
        ".cfi_offset r12, -32",
        ".cfi_offset r13, -40",
        ".cfi_offset r14, -48",
        ".cfi_offset r15, -56",
        "mov [rdi], rsp",
        "mov rdi, rdx",
        "call rsi",
        "xor eax, eax",
        "add rsp, 8",
        "pop r15",
        "pop r14",
        "pop r13",
        "pop r12",
        "pop rbx",
        "pop rbp",
        ".cfi_def_cfa_offset 8",
        "ret",
        ".cfi_endproc",
    )
}

/// Makes [`enter`] return 1.
///
/// # Safety
/// `stack` was stored by an `enter` of this thread that has not returned.
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
pub(super) unsafe extern "C" fn leave(stack: *mut c_void) -> ! {
    naked_asm!(
        "endbr64",
        "mov rsp, rdi",
        "mov eax, 1",
        "add rsp, 8",
        "pop r15",
        "pop r14",
        "pop r13",
        "pop r12",
        "pop rbx",
        "pop rbp",
        "ret",
    )
}

/// As on x86-64. The 12 bytes keep the stack aligned to 16; the lowest word is the argument.
#[cfg(target_arch = "x86")]
#[unsafe(naked)]
pub(super) unsafe extern "C" fn enter(
    stack: *mut *mut c_void,
    body: extern "C" fn(*mut c_void),
    data: *mut c_void,
) -> usize {
    naked_asm!(
        ".cfi_startproc",
        "push ebp",
        "push ebx",
        "push esi",
        "push edi",
        "sub esp, 12",
        ".cfi_def_cfa_offset 32",
        ".cfi_offset ebp, -8",
        ".cfi_offset ebx, -12",
        ".cfi_offset esi, -16",
        ".cfi_offset edi, -20",
        "mov eax, [esp + 32]",
        "mov [eax], esp",
        "mov eax, [esp + 40]",
        "mov [esp], eax",
        "call [esp + 36]",
        "xor eax, eax",
        "add esp, 12",
        "pop edi",
        "pop esi",
        "pop ebx",
        "pop ebp",
        ".cfi_def_cfa_offset 4",
        "ret",
        ".cfi_endproc",
    )
}

/// As on x86-64.
#[cfg(target_arch = "x86")]
#[unsafe(naked)]
pub(super) unsafe extern "C" fn leave(stack: *mut c_void) -> ! {
    naked_asm!(
        "mov esp, [esp + 4]",
        "mov eax, 1",
        "add esp, 12",
        "pop edi",
        "pop esi",
        "pop ebx",
        "pop ebp",
        "ret",
    )
}

/// As on x86-64; `hint #34` is `bti c`.
#[cfg(target_arch = "aarch64")]
#[unsafe(naked)]
pub(super) unsafe extern "C" fn enter(
    stack: *mut *mut c_void,
    body: extern "C" fn(*mut c_void),
    data: *mut c_void,
) -> usize {
    naked_asm!(
        ".cfi_startproc",
        "hint #34",
        "stp x29, x30, [sp, #-160]!",
        ".cfi_def_cfa_offset 160",
        ".cfi_offset x29, -160",
        ".cfi_offset x30, -152",
        "mov x29, sp",
        "stp x19, x20, [sp, #16]",
        "stp x21, x22, [sp, #32]",
        "stp x23, x24, [sp, #48]",
        "stp x25, x26, [sp, #64]",
        "stp x27, x28, [sp, #80]",
        "stp d8, d9, [sp, #96]",
        "stp d10, d11, [sp, #112]",
        "stp d12, d13, [sp, #128]",
        "stp d14, d15, [sp, #144]",
        ".cfi_offset x19, -144",
        ".cfi_offset x20, -136",
        ".cfi_offset x21, -128",
        ".cfi_offset x22, -120",
        ".cfi_offset x23, -112",
        ".cfi_offset x24, -104",
        ".cfi_offset x25, -96",
        ".cfi_offset x26, -88",
        ".cfi_offset x27, -80",
        ".cfi_offset x28, -72",
        "str x29, [x0]",
        "mov x0, x2",
        "blr x1",
        "mov x0, #0",
        "ldp d14, d15, [sp, #144]",
        "ldp d12, d13, [sp, #128]",
        "ldp d10, d11, [sp, #112]",
        "ldp d8, d9, [sp, #96]",
        "ldp x27, x28, [sp, #80]",
        "ldp x25, x26, [sp, #64]",
        "ldp x23, x24, [sp, #48]",
        "ldp x21, x22, [sp, #32]",
        "ldp x19, x20, [sp, #16]",
        "ldp x29, x30, [sp], #160",
        ".cfi_def_cfa_offset 0",
        "ret",
        ".cfi_endproc",
    )
}

/// As on x86-64.
#[cfg(target_arch = "aarch64")]
#[unsafe(naked)]
pub(super) unsafe extern "C" fn leave(stack: *mut c_void) -> ! {
    naked_asm!(
        "hint #34",
        "mov sp, x0",
        "mov x0, #1",
        "ldp d14, d15, [sp, #144]",
        "ldp d12, d13, [sp, #128]",
        "ldp d10, d11, [sp, #112]",
        "ldp d8, d9, [sp, #96]",
        "ldp x27, x28, [sp, #80]",
        "ldp x25, x26, [sp, #64]",
        "ldp x23, x24, [sp, #48]",
        "ldp x21, x22, [sp, #32]",
        "ldp x19, x20, [sp, #16]",
        "ldp x29, x30, [sp], #160",
        "ret",
    )
}

/// As on x86-64. ARMv7 on Android, and Linux with hard floats, have VFP, whose d8 to d15 a call preserves. `blx` and `pop`
/// switch between ARM and Thumb code if necessary.
#[cfg(target_arch = "arm")]
#[unsafe(naked)]
pub(super) unsafe extern "C" fn enter(
    stack: *mut *mut c_void,
    body: extern "C" fn(*mut c_void),
    data: *mut c_void,
) -> usize {
    naked_asm!(
        "push {{r4, r5, r6, r7, r8, r9, r10, r11, r12, lr}}",
        "vpush {{d8, d9, d10, d11, d12, d13, d14, d15}}",
        "mov r3, sp",
        "str r3, [r0]",
        "mov r0, r2",
        "blx r1",
        "mov r0, #0",
        "vpop {{d8, d9, d10, d11, d12, d13, d14, d15}}",
        "pop {{r4, r5, r6, r7, r8, r9, r10, r11, r12, pc}}",
    )
}

/// As on x86-64.
#[cfg(target_arch = "arm")]
#[unsafe(naked)]
pub(super) unsafe extern "C" fn leave(stack: *mut c_void) -> ! {
    naked_asm!(
        "mov sp, r0",
        "mov r0, #1",
        "vpop {{d8, d9, d10, d11, d12, d13, d14, d15}}",
        "pop {{r4, r5, r6, r7, r8, r9, r10, r11, r12, pc}}",
    )
}
