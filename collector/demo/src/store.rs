//! The store of a demo: empty at each start, so that a report is of this demo's captures.

use anyhow::{Context, Result, bail};
use std::path::Path;

/// File in a store that a demo has made, which the next demo may delete.
const OF_DEMO: &str = "made-by-tracetee-demo";

/// Makes an empty store, replacing that of an earlier demo. Another store is not touched.
pub(super) fn make(store: &Path) -> Result<()> {
    let mark = store.join(OF_DEMO);
    if store.exists() {
        if !mark.exists() {
            bail!("{} is not the store of a demo; pass another directory with -o", store.display());
        }
        std::fs::remove_dir_all(store)
            .with_context(|| format!("cannot delete {}", store.display()))?;
    }
    std::fs::create_dir_all(store)
        .and_then(|()| std::fs::write(&mark, "The next demo deletes this store.\n"))
        .with_context(|| format!("cannot write {}", mark.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_store_of_a_demo_is_made_anew_and_no_other_one_is_touched() {
        let directory = tempfile::tempdir().unwrap();
        let store = directory.path().join("demo-out/store");
        for _ in 0..2 {
            make(&store).unwrap();
            assert_eq!(std::fs::read_dir(&store).unwrap().count(), 1, "the mark alone");
            std::fs::create_dir(store.join("raw")).unwrap();
        }
        std::fs::remove_file(store.join(OF_DEMO)).unwrap();
        let error = make(&store).unwrap_err().to_string();
        assert!(error.contains("is not the store of a demo; pass another directory"), "{error}");
        assert!(store.join("raw").exists());
    }
}
