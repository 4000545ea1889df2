//! A file that a command writes: whole or not at all, packed as its name says.

use anyhow::{Context, Result};
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// Compression of a file, by the end of its name.
enum Packer {
    Plain(BufWriter<Sink>),
    Gzip(flate2::write::GzEncoder<BufWriter<Sink>>),
    Zstd(zstd::stream::write::Encoder<'static, BufWriter<Sink>>),
}

enum Sink {
    File(File),
    Stdout(io::Stdout),
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::File(file) => file.write(bytes),
            Self::Stdout(stdout) => stdout.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::File(file) => file.flush(),
            Self::Stdout(stdout) => stdout.flush(),
        }
    }
}

/// An output under way.
pub(crate) struct Output {
    packer: Packer,
    /// Temporary path and final path.
    paths: Option<(tempfile::TempPath, PathBuf)>,
}

impl Output {
    /// `-` is stdout.
    pub(crate) fn create(path: &Path) -> Result<Self> {
        let (sink, paths) = if path == Path::new("-") {
            (Sink::Stdout(io::stdout()), None)
        } else {
            let directory = match path.parent() {
                Some(parent) if parent != Path::new("") => parent,
                _ => Path::new("."),
            };
            let made = tempfile::Builder::new().prefix(".tracetee-").tempfile_in(directory);
            let (file, made) =
                made.with_context(|| format!("cannot write {}", path.display()))?.into_parts();
            (Sink::File(file), Some((made, path.to_owned())))
        };
        let out = BufWriter::with_capacity(1 << 18, sink);
        let packer = match path.extension().and_then(|extension| extension.to_str()) {
            Some("gz") => {
                Packer::Gzip(flate2::write::GzEncoder::new(out, flate2::Compression::default()))
            }
            Some("zst") => Packer::Zstd(zstd::stream::write::Encoder::new(out, 3)?),
            _ => Packer::Plain(out),
        };
        Ok(Self { packer, paths })
    }

    /// All of it is written: it gets its name.
    pub(crate) fn finish(self) -> Result<()> {
        let out = match self.packer {
            Packer::Plain(out) => out,
            Packer::Gzip(packer) => packer.finish()?,
            Packer::Zstd(packer) => packer.finish()?,
        };
        let sink = out.into_inner().map_err(io::IntoInnerError::into_error)?;
        let (Sink::File(file), Some((made, path))) = (sink, self.paths) else { return Ok(()) };
        // A temporary file is its owner's alone; this one is as others are.
        use std::os::unix::fs::PermissionsExt;
        file.set_permissions(std::fs::Permissions::from_mode(0o644))?;
        made.persist(&path).with_context(|| format!("cannot write {}", path.display()))?;
        Ok(())
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.packer {
            Packer::Plain(out) => out.write(bytes),
            Packer::Gzip(out) => out.write(bytes),
            Packer::Zstd(out) => out.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.packer {
            Packer::Plain(out) => out.flush(),
            Packer::Gzip(out) => out.flush(),
            Packer::Zstd(out) => out.flush(),
        }
    }
}
