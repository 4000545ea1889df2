//! From captures to rows: [`indexer`] starts and ends the threads, [`queue`] is what they hand to each other, [`analyst`] analyzes,
//! and `attempts` knows which analyses were interrupted. [`rebuild`] makes all rows anew.

pub(crate) mod analyst;
mod attempts;
mod damage;
pub(crate) mod indexer;
pub(crate) mod observed;
pub(crate) mod outbox;
pub(crate) mod queue;
pub(crate) mod rebuild;
mod supervised;
