//! A text that is passed on as it is.

use crate::args::ConvertArgs;
use crate::input::{kind, mapping_of, unpacked};
use anyhow::{Result, bail};
use std::io::Write;
use std::path::{Path, PathBuf};
use tracetee_trace::text::Outline;
use tracetee_trace::{Error, Kind, Losses};

/// A text that can be passed on as it is: the only one of the inputs that has events.
pub(super) struct Passthrough<'a> {
    pub(super) text: &'a Path,
    /// Names from the other inputs, PROCESS DUMPs.
    known: Vec<Outline>,
}

impl<'a> Passthrough<'a> {
    pub(super) fn for_inputs(args: &ConvertArgs, paths: &[&'a PathBuf]) -> Result<Option<Self>> {
        if args.mapping.is_some() || args.is_reduced() {
            return Ok(None);
        }
        let mut texts = Vec::new();
        let mut known = Vec::new();
        for &path in paths {
            if kind(path)? != Kind::Text || mapping_of(None, path)?.is_some() {
                return Ok(None);
            }
            if paths.len() > 1 {
                let in_file = |error| Error::File(path.clone(), Box::new(error));
                let outline = Outline::read(unpacked(path)?).map_err(in_file)?;
                if outline.events == 0 {
                    known.push(outline);
                    continue;
                }
            }
            texts.push(path);
        }
        Ok(match *texts {
            [text] => Some(Self { text, known }),
            _ => None,
        })
    }

    pub(super) fn write(&self, out: &mut dyn Write) -> Result<Losses> {
        let in_file = |error| Error::File(self.text.to_owned(), Box::new(error));
        let passed = tracetee_convert::text_passthrough(|| unpacked(self.text), &self.known, out);
        let outline = passed.map_err(in_file)?;
        if outline.events == 0 && outline.abouts == 0 {
            bail!("{}: contains no events, so there is nothing to write", self.text.display());
        }
        Ok(outline.losses)
    }
}
