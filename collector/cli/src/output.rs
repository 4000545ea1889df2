//! A file that a command writes: completely or not at all, compressed according to its name.
//!
//! A file that is absent, or regular, gets its content by a rename, and keeps mode and owner. Links are followed. Everything
//! else that `-o` may name (a FIFO, a device such as /dev/null, /dev/stdout, a file with several names) is written in place:
//! a rename would replace it by a regular file.

use anyhow::{Context, Result};
use flate2::Compression;
use flate2::write::GzEncoder;
use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, BufWriter, ErrorKind, Write};
use std::path::{Path, PathBuf};
use tempfile::TempPath;

/// The way in which a file gets its content.
pub(crate) enum Target {
    /// Written through a rename to this path, with the metadata of the replaced file.
    Renamed(PathBuf, Option<Metadata>),
    /// Written in place.
    InPlace(PathBuf),
}

impl Target {
    /// Decides from the file at a path.
    pub(crate) fn at(path: &Path) -> Result<Self> {
        let failed = || format!("cannot write {}", path.display());
        let in_place = || Ok(Self::InPlace(path.to_owned()));
        // /dev/stdout and similar paths lead to open files: a rename would leave the open file without a name.
        if path.starts_with("/proc")
            || path.starts_with("/dev/fd")
            || path.parent() == Some("/dev".as_ref())
        {
            return in_place();
        }
        match std::fs::metadata(path) {
            Ok(found) if found.is_dir() => anyhow::bail!("{}: it is a directory", failed()),
            Ok(found) if found.is_file() && modes::has_one_name(&found) => {
                let path = path.canonicalize().with_context(failed)?;
                Ok(Self::Renamed(path, Some(found)))
            }
            Ok(_) => in_place(),
            // A link that leads to no file yet.
            Err(error) if error.kind() == ErrorKind::NotFound && path.is_symlink() => in_place(),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                Ok(Self::Renamed(path.to_owned(), None))
            }
            Err(error) => Err(error).with_context(failed),
        }
    }

    /// The directory in which a file that is renamed is written.
    pub(crate) fn directory(&self) -> Option<&Path> {
        let Self::Renamed(path, _) = self else { return None };
        Some(path.parent().filter(|parent| *parent != Path::new("")).unwrap_or(Path::new(".")))
    }

    const fn path(&self) -> &PathBuf {
        let (Self::Renamed(path, _) | Self::InPlace(path)) = self;
        path
    }

    /// Gives a finished file its name, or copies it in place.
    pub(crate) fn publish(&self, finished: &Path) -> Result<()> {
        let failed = || format!("cannot write {}", self.path().display());
        match self {
            Self::Renamed(path, replaced) => {
                let file = File::open(finished).with_context(failed)?;
                if let Some(replaced) = replaced
                    && !modes::keep_owner(&file, replaced)
                {
                    return copy(finished, path).with_context(failed);
                }
                std::fs::rename(finished, path).with_context(failed)
            }
            Self::InPlace(path) => copy(finished, path).with_context(failed),
        }
    }
}

/// Mode of a new file, before the umask.
const NEW_FILE: u32 = 0o666;

/// Modes, owners and names of files.
#[cfg(unix)]
mod modes {
    use super::NEW_FILE;
    use std::fs::{File, Metadata, OpenOptions, Permissions};
    use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
    use std::path::Path;

    /// Bits of a mode that a file keeps.
    const MODE: u32 = 0o7777;

    pub(super) fn has_one_name(found: &Metadata) -> bool {
        found.nlink() == 1
    }

    /// Returns the identity of a regular file, which all of its names and links share.
    pub(super) fn identity(path: &Path) -> Option<(u64, u64)> {
        let found = std::fs::metadata(path).ok().filter(Metadata::is_file)?;
        Some((found.dev(), found.ino()))
    }

    pub(super) fn of_file(found: &Metadata) -> u32 {
        found.mode() & MODE
    }

    pub(super) fn of_opened(options: &mut OpenOptions, mode: u32) {
        options.mode(mode);
    }

    pub(super) fn of_new_file(builder: &mut tempfile::Builder<'_, '_>) {
        builder.permissions(Permissions::from_mode(NEW_FILE));
    }

    /// Gives a file the mode and the owner of the one that it replaces. False: the owner cannot be kept.
    pub(super) fn keep_owner(file: &File, replaced: &Metadata) -> bool {
        let is_ours = file
            .metadata()
            .is_ok_and(|ours| (ours.uid(), ours.gid()) == (replaced.uid(), replaced.gid()));
        // The owner first, because changing it clears bits of the mode.
        (is_ours || fchown(file, Some(replaced.uid()), Some(replaced.gid())).is_ok())
            && file.set_permissions(Permissions::from_mode(replaced.mode() & MODE)).is_ok()
    }
}

/// A system without modes and owners.
#[cfg(not(unix))]
mod modes {
    use std::fs::{File, Metadata, OpenOptions};
    use std::path::{Path, PathBuf};

    pub(super) const fn has_one_name(_: &Metadata) -> bool {
        true
    }

    pub(super) fn identity(path: &Path) -> Option<PathBuf> {
        path.canonicalize().ok().filter(|path| path.is_file())
    }

    pub(super) const fn of_file(_: &Metadata) -> u32 {
        super::NEW_FILE
    }

    pub(super) const fn of_opened(_: &mut OpenOptions, _: u32) {}

    pub(super) const fn of_new_file(_: &mut tempfile::Builder<'_, '_>) {}

    pub(super) const fn keep_owner(_: &File, _: &Metadata) -> bool {
        true
    }
}

/// Refuses an output that is one of the inputs, also by another name or a link: the input would be lost.
pub(crate) fn refuse_input<'a>(
    output: &Path,
    inputs: impl IntoIterator<Item = &'a PathBuf>,
) -> Result<()> {
    let Some(written) = modes::identity(output) else { return Ok(()) };
    for input in inputs {
        if modes::identity(input).is_some_and(|read| read == written) {
            let (output, input) = (output.display(), input.display());
            anyhow::bail!("cannot write {output}: it is the same file as the input {input}");
        }
    }
    Ok(())
}

/// Path of stdout, for which `-` stands.
#[cfg(unix)]
pub(crate) const STDOUT: &str = "/dev/stdout";

/// Opens the file at a path, to overwrite it. A new file gets this mode, before the umask.
pub(crate) fn open_in_place(path: &Path, mode: u32) -> io::Result<File> {
    // If it were opened by name, the file would be truncated, and also overwritten by a program that has it as stdout.
    #[cfg(unix)]
    if path == Path::new(STDOUT) {
        use std::os::fd::AsFd;
        return io::stdout().as_fd().try_clone_to_owned().map(File::from);
    }
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true);
    modes::of_opened(&mut options, mode);
    options.open(path)
}

fn copy(from: &Path, to: &Path) -> io::Result<()> {
    let mut from = File::open(from)?;
    let mode = modes::of_file(&from.metadata()?);
    io::copy(&mut from, &mut open_in_place(to, mode)?).map(drop)
}

/// Compression of a file, by the end of its name.
enum Packer {
    Plain(BufWriter<Sink>),
    Gzip(BufWriter<GzEncoder<BufWriter<Sink>>>),
    Zstd(zstd::stream::write::Encoder<'static, BufWriter<Sink>>),
}

type Sink = Box<dyn Write>;

/// A file whose errors name it.
struct Named(File, PathBuf);

impl Named {
    fn in_file(&self, error: &io::Error) -> io::Error {
        io::Error::new(error.kind(), format!("cannot write {}: {error}", self.1.display()))
    }
}

impl Write for Named {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes).map_err(|error| self.in_file(&error))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Packer {
    /// Returns what takes the content.
    fn out(&mut self) -> &mut dyn Write {
        match self {
            Self::Plain(out) => out,
            Self::Gzip(out) => out,
            Self::Zstd(out) => out,
        }
    }
}

/// An output in progress.
pub(crate) struct Output {
    packer: Packer,
    /// Temporary path and target, unless it is written in place.
    renamed: Option<(TempPath, Target)>,
}

impl Output {
    /// `-` is stdout.
    pub(crate) fn create(path: &Path) -> Result<Self> {
        let (sink, renamed): (Sink, _) = if path == Path::new("-") {
            (Box::new(io::stdout()), None)
        } else {
            let target = Target::at(path)?;
            match target.directory().map(temporary).transpose() {
                Ok(Some((file, made))) => {
                    (Box::new(Named(file, path.to_owned())) as Sink, Some((made, target)))
                }
                // Writes in place also if the file is writable and its directory is not.
                Ok(None) => (in_place(path)?, None),
                Err(_) if path.exists() => (in_place(path)?, None),
                Err(error) => {
                    return Err(error).with_context(|| format!("cannot write {}", path.display()));
                }
            }
        };
        let out = BufWriter::with_capacity(1 << 18, sink);
        let packer = match path.extension().and_then(|extension| extension.to_str()) {
            Some("gz") => {
                // Each write to the encoder clears its buffer.
                let packer = GzEncoder::new(out, Compression::default());
                Packer::Gzip(BufWriter::with_capacity(1 << 16, packer))
            }
            Some("zst") => Packer::Zstd(zstd::stream::write::Encoder::new(out, 3)?),
            _ => Packer::Plain(out),
        };
        Ok(Self { packer, renamed })
    }

    /// Everything is written, so it gets its name.
    pub(crate) fn finish(self) -> Result<()> {
        let out = match self.packer {
            Packer::Plain(out) => out,
            Packer::Gzip(packer) => {
                packer.into_inner().map_err(io::IntoInnerError::into_error)?.finish()?
            }
            Packer::Zstd(packer) => packer.finish()?,
        };
        drop(out.into_inner().map_err(io::IntoInnerError::into_error)?);
        if let Some((made, target)) = self.renamed {
            target.publish(&made)?;
        }
        Ok(())
    }
}

fn in_place(path: &Path) -> Result<Sink> {
    let file = open_in_place(path, NEW_FILE)
        .with_context(|| format!("cannot write {}", path.display()))?;
    Ok(Box::new(Named(file, path.to_owned())))
}

fn temporary(directory: &Path) -> io::Result<(File, TempPath)> {
    let mut builder = tempfile::Builder::new();
    modes::of_new_file(builder.prefix(".tracetee-"));
    Ok(builder.tempfile_in(directory)?.into_parts())
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.packer.out().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.packer.out().flush()
    }
}

#[cfg(test)]
#[path = "output_tests.rs"]
mod tests;
