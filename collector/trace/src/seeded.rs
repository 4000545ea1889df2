//! A hasher that is faster than std's, seeded by std's random keys: names and ids come from devices, and must not be able to
//! cause collisions.

use ahash::{AHasher, RandomState};
use std::hash::BuildHasher;
use std::sync::LazyLock;

/// Makes hashers whose keys are random.
#[derive(Debug, Clone)]
pub struct Seeded(RandomState);

impl Default for Seeded {
    fn default() -> Self {
        // One for all maps of the process: an analysis makes hundreds of them.
        static STATE: LazyLock<RandomState> = LazyLock::new(|| {
            let keys = std::hash::RandomState::new();
            let [a, b, c, d] = [1, 2, 3, 4].map(|number: u64| keys.hash_one(number));
            RandomState::with_seeds(a, b, c, d)
        });
        Self(STATE.clone())
    }
}

impl BuildHasher for Seeded {
    type Hasher = AHasher;

    fn build_hasher(&self) -> AHasher {
        self.0.build_hasher()
    }
}
