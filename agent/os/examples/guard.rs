//! Leaves guards after a panic, nested and many times, with values in all registers that a call preserves.
//!
//! A program of its own, because panics must abort and the first one is for good: `tests/e2e/panics.rs` and
//! `tests/cross/qemu` run it in the profile `agent`. Where panics unwind it tests nothing.

use std::hint::black_box;
use tracetee_os::guard;

const ROUNDS: u64 = 100_000;

fn main() {
    if cfg!(panic = "unwind") {
        return;
    }
    assert!(guard::arm(), "no guard");
    // std lets a thread panic once.
    let thread = std::thread::spawn(|| guard::run(|| -> () { panic!("planted") }));
    let stopped = thread.join().ok().and_then(Result::err);
    assert!(stopped.is_some_and(guard::Stopped::is_fresh), "the guard is not left");
    let reason = guard::reason().unwrap_or_default();
    assert!(reason.contains(": planted (libtracetee+"), "{reason}");
    assert!(guard::run(|| ()).is_err(), "nothing runs after a panic");

    for round in 0..ROUNDS {
        keep_values(black_box(round));
    }
    print_done();
}

/// Keeps more values than registers over guards that are left.
#[inline(never)]
fn keep_values(seed: u64) {
    let whole: [u64; 12] = std::array::from_fn(|at| black_box(seed + at as u64));
    #[allow(clippy::cast_precision_loss, reason = "small numbers")]
    let halves: [f64; 8] = std::array::from_fn(|at| black_box(seed as f64 + at as f64 / 2.0));
    let ([a, b, c, d, e, f, g, h, i, j, k, l], [m, n, o, p, q, r, s, t]) = (whole, halves);

    assert!(guard::catch(nested).is_err());
    assert_eq!(guard::catch(|| black_box(seed)).ok(), Some(seed));

    assert_eq!([a, b, c, d, e, f, g, h, i, j, k, l], std::array::from_fn(|at| seed + at as u64));
    #[allow(clippy::cast_precision_loss, reason = "small numbers")]
    let expected: [f64; 8] = std::array::from_fn(|at| seed as f64 + at as f64 / 2.0);
    assert_eq!([m, n, o, p, q, r, s, t].map(f64::to_bits), expected.map(f64::to_bits));
}

#[inline(never)]
fn nested() {
    let Err(caught) = guard::catch(overwrite_and_leave) else { return };
    overwrite();
    caught.resume()
}

#[inline(never)]
fn overwrite_and_leave() {
    overwrite();
    guard::leave_if_broken();
}

/// Changes the preserved registers. A function that returns would restore them.
#[inline(always)]
fn overwrite() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: only registers that are said to change.
    unsafe {
        std::arch::asm!(
            "mov r12, 7", "mov r13, 7", "mov r14, 7", "mov r15, 7",
            out("r12") _, out("r13") _, out("r14") _, out("r15") _,
        );
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: as above.
    unsafe {
        std::arch::asm!(
            "mov x20, #7", "mov x21, #7", "mov x22, #7", "mov x23, #7", "mov x24, #7",
            "mov x25, #7", "mov x26, #7", "mov x27, #7", "mov x28, #7",
            "fmov d8, x20", "fmov d9, x20", "fmov d10, x20", "fmov d11, x20",
            "fmov d12, x20", "fmov d13, x20", "fmov d14, x20", "fmov d15, x20",
            out("x20") _, out("x21") _, out("x22") _, out("x23") _, out("x24") _,
            out("x25") _, out("x26") _, out("x27") _, out("x28") _,
            out("v8") _, out("v9") _, out("v10") _, out("v11") _,
            out("v12") _, out("v13") _, out("v14") _, out("v15") _,
        );
    }
    #[cfg(target_arch = "arm")]
    // SAFETY: as above.
    unsafe {
        std::arch::asm!(
            "mov r4, #7", "mov r5, #7", "mov r8, #7", "mov r10, #7",
            "vmov d8, r4, r5", "vmov d9, r4, r5", "vmov d10, r4, r5", "vmov d11, r4, r5",
            "vmov d12, r4, r5", "vmov d13, r4, r5", "vmov d14, r4, r5", "vmov d15, r4, r5",
            out("r4") _, out("r5") _, out("r8") _, out("r10") _,
            out("d8") _, out("d9") _, out("d10") _, out("d11") _,
            out("d12") _, out("d13") _, out("d14") _, out("d15") _,
        );
    }
}

#[allow(clippy::print_stdout, reason = "a program of the tests")]
fn print_done() {
    println!("{ROUNDS} guards were left");
}
