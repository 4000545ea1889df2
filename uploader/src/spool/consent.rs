//! The user's consent. Without it the spool deletes its contents, and accepts and sends nothing.

use crate::error::Error;
use crate::spool::Spool;
use std::fs;
use std::io::ErrorKind;

impl Spool {
    /// Deletes all captures, all entries of lost ones and all counts.
    pub fn purge(&self) {
        for directory in ["rec", "ready", "sending", "lost", "report", "ledger", "parts"] {
            for path in self.files(directory) {
                let _ = fs::remove_file(path);
            }
        }
    }

    /// True while the user does not consent: the spool accepts and sends nothing.
    #[must_use]
    pub fn is_off(&self) -> bool {
        self.root.join("off").exists()
    }

    /// Withdraws the user's consent: deletes all captures, and accepts none until [`Spool::consent`].
    ///
    /// # Errors
    /// [`Error::Io`] if the withdrawal cannot be stored; captures are deleted anyway.
    pub fn withdraw(&self) -> Result<(), Error> {
        let path = self.root.join("off");
        let noted = self.make().and_then(|()| {
            let file = tracetee_os::create(&path).map_err(Error::io("create", &path))?;
            file.sync_all().map_err(Error::io("write", &path))
        });
        self.purge();
        noted
    }

    /// Stores that the user consents.
    ///
    /// # Errors
    /// [`Error::Io`] if it cannot be stored.
    pub fn consent(&self) -> Result<(), Error> {
        let path = self.root.join("off");
        match fs::remove_file(&path) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                Err(Error::io("delete", &path)(error))
            }
            _ => Ok(()),
        }
    }
}
