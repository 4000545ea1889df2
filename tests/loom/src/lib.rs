//! The recorder's core, the same source files, over loom's atomics.
#![cfg(loom)]
#![allow(dead_code, reason = "the models use a part of it")]

mod recorder;

#[cfg(test)]
mod models;
