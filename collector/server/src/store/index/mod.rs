//! From captures to rows: [`indexer`] starts and ends the threads, [`queue`] passes work between them, [`analyst`] analyzes,
//! and `attempts` records interrupted analyses. [`rebuild`] recreates all rows.

pub(crate) mod analyst;
mod attempts;
mod damage;
pub(crate) mod indexer;
pub(crate) mod observed;
pub(crate) mod outbox;
pub(crate) mod queue;
pub(crate) mod rebuild;
mod supervised;
