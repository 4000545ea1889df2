//! Only a bench.
