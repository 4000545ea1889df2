//! A text that is passed on unchanged.

use crate::args::ConvertArgs;
use crate::input::{kind, mapping_of, unpacked};
use anyhow::{Result, bail};
use std::io::Write;
use std::path::{Path, PathBuf};
use tracetee_trace::text::Outline;
use tracetee_trace::{Error, Kind};

/// A text that can be passed on unchanged: the only input with events.
pub(super) struct Passthrough<'a> {
    pub(super) text: &'a Path,
    /// Threads of the input, with names from the PROCESS DUMPs of the other inputs.
    pub(super) outline: Outline,
}

impl<'a> Passthrough<'a> {
    pub(super) fn for_inputs(args: &ConvertArgs, paths: &[&'a PathBuf]) -> Result<Option<Self>> {
        if args.mapping.is_some() || args.is_reduced() {
            return Ok(None);
        }
        let (mut found, mut known) = (None, Vec::new());
        for &path in paths {
            if kind(path)? != Kind::Text || mapping_of(None, path)?.is_some() {
                return Ok(None);
            }
            let in_file = |error| Error::File(path.clone(), Box::new(error));
            let outline = Outline::read(unpacked(path)?).map_err(in_file)?;
            if outline.events == 0 && paths.len() > 1 {
                known.push(outline);
            } else if found.replace((path, outline)).is_some() {
                return Ok(None);
            }
        }
        Ok(found.map(|(text, mut outline)| {
            known.iter().for_each(|known| outline.add(known));
            Self { text, outline }
        }))
    }

    pub(super) fn write(&self, out: &mut dyn Write) -> Result<()> {
        if self.outline.events == 0 && self.outline.abouts == 0 {
            bail!("{}: contains no events, so there is nothing to write", self.text.display());
        }
        let in_file = |error| Error::File(self.text.to_owned(), Box::new(error));
        tracetee_convert::text_passthrough(unpacked(self.text)?, &self.outline, out)
            .map_err(|error| in_file(error).into())
    }
}
