//! A slow disk: a FUSE file system that passes every request on to a directory, after a delay, or
//! not before the test says so.
//!
//! The kernel sends each system call on a file below the mount here, with the id of the thread that
//! made it, whatever way the program took to the call. Nothing is cached: a look-up is also a request.
//! Needs root and `/dev/fuse`.

use crate::skip;
use std::collections::HashMap;
use std::ffi::{CString, OsStr};
use std::fs::{self, File, Metadata};
use std::io::{Error, Read, Result, Write};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

/// A mounted slow disk, until it is dropped.
pub struct SlowDisk {
    mount: PathBuf,
    disk: Arc<Disk>,
}

/// A request of a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// The thread that made it.
    pub tid: u32,
    /// Operation, as FUSE calls it.
    pub operation: &'static str,
    /// The file, or the directory of the name, that it is for.
    pub path: PathBuf,
}

struct Disk {
    device: File,
    speed: Mutex<Speed>,
    changed: Condvar,
    requests: Mutex<Vec<Request>>,
    files: Mutex<Files>,
}

#[derive(Clone, Copy)]
struct Speed {
    delay: Duration,
    /// No request is answered.
    stands_still: bool,
}

/// The files and open handles that the kernel knows by number.
struct Files {
    /// By node number less one.
    paths: Vec<PathBuf>,
    open: HashMap<u64, Arc<File>>,
    last_handle: u64,
}

impl SlowDisk {
    /// Mounts `directory` over itself. `None`, and said so, where that cannot be.
    #[must_use]
    pub fn over(directory: &Path) -> Option<Self> {
        let device = File::options().read(true).write(true).open("/dev/fuse");
        let Ok(device) = device else {
            skip("no /dev/fuse (needs root)");
            return None;
        };
        // A descriptor from before the mount reaches the directory below it.
        let below = File::open(directory).unwrap();
        let backing = PathBuf::from(format!("/proc/self/fd/{}/.", below.as_raw_fd()));
        std::mem::forget(below);
        let text = |text: &OsStr| CString::new(text.as_bytes()).unwrap();
        let options = format!("fd={},rootmode=40000,user_id=0,group_id=0", device.as_raw_fd());
        let (mount, options) = (text(directory.as_os_str()), text(OsStr::new(&options)));
        // SAFETY: four NUL-terminated strings.
        let status = unsafe {
            let (source, kind) = (c"slow-disk".as_ptr(), c"fuse".as_ptr());
            libc::mount(source, mount.as_ptr(), kind, 0, options.as_ptr().cast())
        };
        if status != 0 {
            skip(&format!("a FUSE file system cannot be mounted: {}", Error::last_os_error()));
            return None;
        }
        let disk = Arc::new(Disk {
            device,
            speed: Mutex::new(Speed { delay: Duration::ZERO, stands_still: false }),
            changed: Condvar::new(),
            requests: Mutex::default(),
            files: Mutex::new(Files { paths: vec![backing], open: HashMap::new(), last_handle: 0 }),
        });
        let serving = Arc::clone(&disk);
        std::thread::spawn(move || serve(&serving));
        Some(Self { mount: directory.to_owned(), disk })
    }

    /// Answers each request after `delay`.
    pub fn delay(&self, delay: Duration) {
        self.set(Speed { delay, stands_still: false });
    }

    /// Answers no request until [`SlowDisk::delay`].
    pub fn stop(&self) {
        self.set(Speed { delay: Duration::ZERO, stands_still: true });
    }

    fn set(&self, speed: Speed) {
        *self.disk.speed.lock().unwrap() = speed;
        self.disk.changed.notify_all();
    }

    /// The requests since the last call of this.
    #[must_use]
    pub fn take_requests(&self) -> Vec<Request> {
        std::mem::take(&mut self.disk.requests.lock().unwrap())
    }
}

impl Drop for SlowDisk {
    fn drop(&mut self) {
        self.delay(Duration::ZERO);
        let mount = CString::new(self.mount.as_os_str().as_bytes()).unwrap();
        // SAFETY: a NUL-terminated string.
        unsafe { libc::umount2(mount.as_ptr(), libc::MNT_DETACH) };
    }
}

/// Serves until the file system is unmounted.
fn serve(disk: &Arc<Disk>) {
    loop {
        // Larger than any write that was agreed upon.
        let mut message = vec![0; 256 * 1024];
        match (&disk.device).read(&mut message) {
            Ok(len) => message.truncate(len),
            Err(error) if error.raw_os_error() == Some(libc::ENODEV) => return,
            Err(_) => continue,
        }
        let message = Message { bytes: message };
        let operation = message.operation();
        let path = disk.files.lock().unwrap().path(message.node());
        if !["INIT", "FORGET", "RELEASE", "RELEASEDIR", "INTERRUPT"].contains(&operation) {
            let tid = message.u32(32);
            disk.requests.lock().unwrap().push(Request { tid, operation, path: path.clone() });
        }
        let disk = Arc::clone(disk);
        // One that stands still must not hide the next.
        std::thread::spawn(move || {
            // The mount itself is none of the programs' requests.
            if operation != "INIT" {
                let speed = disk.speed.lock().unwrap();
                let speed = disk.changed.wait_while(speed, |speed| speed.stands_still).unwrap();
                let delay = speed.delay;
                drop(speed);
                std::thread::sleep(delay);
            }
            let answer = answer(&disk, &message, operation, &path);
            let (status, body) = match answer {
                Ok(None) => return,
                Ok(Some(body)) => (0, body),
                Err(error) => (-error.raw_os_error().unwrap_or(libc::EIO), Vec::new()),
            };
            let mut out = Vec::new();
            out.extend(u32::try_from(16 + body.len()).unwrap().to_ne_bytes());
            out.extend(status.to_ne_bytes());
            out.extend(message.u64(8).to_ne_bytes());
            out.extend(body);
            // The program may have been killed meanwhile.
            let _ = (&disk.device).write(&out);
        });
    }
}

/// A request as it is in memory: a header of 40 bytes, then the operation's own fields.
struct Message {
    bytes: Vec<u8>,
}

impl Message {
    fn u32(&self, offset: usize) -> u32 {
        u32::from_ne_bytes(self.bytes[offset..offset + 4].try_into().unwrap())
    }

    fn u64(&self, offset: usize) -> u64 {
        u64::from_ne_bytes(self.bytes[offset..offset + 8].try_into().unwrap())
    }

    fn node(&self) -> u64 {
        self.u64(16)
    }

    /// The string that begins there.
    fn name(&self, offset: usize) -> &OsStr {
        let rest = &self.bytes[offset..];
        let len = rest.iter().position(|&byte| byte == 0).unwrap();
        OsStr::from_bytes(&rest[..len])
    }

    fn operation(&self) -> &'static str {
        match self.u32(4) {
            1 => "LOOKUP",
            2 | 42 => "FORGET",
            3 => "GETATTR",
            4 => "SETATTR",
            9 => "MKDIR",
            10 => "UNLINK",
            11 => "RMDIR",
            12 => "RENAME",
            14 => "OPEN",
            15 => "READ",
            16 => "WRITE",
            17 => "STATFS",
            18 => "RELEASE",
            20 => "FSYNC",
            26 => "INIT",
            27 => "OPENDIR",
            28 => "READDIR",
            29 => "RELEASEDIR",
            30 => "FSYNCDIR",
            35 => "CREATE",
            36 => "INTERRUPT",
            43 => "FALLOCATE",
            45 => "RENAME2",
            _ => "other",
        }
    }
}

impl Files {
    fn path(&self, node: u64) -> PathBuf {
        let index = usize::try_from(node).unwrap().wrapping_sub(1);
        self.paths.get(index).cloned().unwrap_or_default()
    }

    /// The number of a path's node.
    fn node(&mut self, path: PathBuf) -> u64 {
        let known = self.paths.iter().rposition(|known| *known == path);
        let index = known.unwrap_or_else(|| {
            self.paths.push(path);
            self.paths.len() - 1
        });
        index as u64 + 1
    }

    fn rename(&mut self, from: &Path, to: &Path) {
        for path in &mut self.paths {
            if *path == to {
                // A file that was replaced, and may still be open.
                path.as_mut_os_string().push(" (replaced)");
            } else if let Ok(rest) = path.strip_prefix(from) {
                let rest = rest.to_owned();
                *path = if rest.as_os_str().is_empty() { to.to_owned() } else { to.join(rest) };
            }
        }
    }

    fn keep_open(&mut self, file: File) -> u64 {
        self.last_handle += 1;
        self.open.insert(self.last_handle, Arc::new(file));
        self.last_handle
    }
}

/// Carries a request out. `None`: it wants no answer.
fn answer(disk: &Disk, message: &Message, operation: &str, path: &Path) -> Result<Option<Vec<u8>>> {
    let file = |offset: usize| {
        let files = disk.files.lock().unwrap();
        files.open.get(&message.u64(offset)).cloned().ok_or(Error::from_raw_os_error(libc::EBADF))
    };
    let body = match operation {
        "FORGET" | "INTERRUPT" => return Ok(None),
        "INIT" => init(),
        "LOOKUP" => entry(disk, path.join(message.name(40)))?,
        "GETATTR" => attributes(&fs::symlink_metadata(path)?),
        "SETATTR" => {
            let valid = message.u32(40);
            if valid & 8 != 0 {
                File::options().write(true).open(path)?.set_len(message.u64(56))?;
            }
            if valid & 1 != 0 {
                fs::set_permissions(path, fs::Permissions::from_mode(message.u32(108)))?;
            }
            attributes(&fs::symlink_metadata(path)?)
        }
        "MKDIR" => {
            let path = path.join(message.name(48));
            fs::DirBuilder::new().mode(message.u32(40)).create(&path)?;
            entry(disk, path)?
        }
        "UNLINK" => fs::remove_file(path.join(message.name(40))).map(|()| Vec::new())?,
        "RMDIR" => fs::remove_dir(path.join(message.name(40))).map(|()| Vec::new())?,
        "RENAME" | "RENAME2" => {
            let offset = if operation == "RENAME" { 48 } else { 56 };
            let name = message.name(offset);
            let mut files = disk.files.lock().unwrap();
            let to = files.path(message.u64(40)).join(message.name(offset + name.len() + 1));
            fs::rename(path.join(name), &to)?;
            files.rename(&path.join(name), &to);
            Vec::new()
        }
        "OPEN" | "OPENDIR" => opened(disk, open(path, message.u32(40), 0)?),
        "CREATE" => {
            let path = path.join(message.name(56));
            let file =
                open(&path, message.u32(40) | libc::O_CREAT.unsigned_abs(), message.u32(44))?;
            let mut body = entry(disk, path)?;
            body.extend(opened(disk, file));
            body
        }
        "READ" => {
            let mut bytes = vec![0; message.u32(56) as usize];
            let len = file(40)?.read_at(&mut bytes, message.u64(48))?;
            bytes.truncate(len);
            bytes
        }
        "WRITE" => {
            let bytes = &message.bytes[80..80 + message.u32(56) as usize];
            file(40)?.write_all_at(bytes, message.u64(48))?;
            [message.u32(56), 0].iter().flat_map(|word| word.to_ne_bytes()).collect()
        }
        "READDIR" => listing(path, message.u64(48), message.u32(56) as usize)?,
        "RELEASE" | "RELEASEDIR" => {
            disk.files.lock().unwrap().open.remove(&message.u64(40));
            Vec::new()
        }
        "FSYNC" | "FSYNCDIR" => file(40)?.sync_all().map(|()| Vec::new())?,
        // Much room.
        "STATFS" => {
            let numbers = [1u64 << 40, 1 << 40, 1 << 40, 1 << 20, 1 << 20];
            let words = [4096u32, 255, 4096, 0, 0, 0, 0, 0, 0, 0];
            let numbers = numbers.iter().flat_map(|number| number.to_ne_bytes());
            numbers.chain(words.iter().flat_map(|word| word.to_ne_bytes())).collect()
        }
        "FALLOCATE" => {
            let end = (message.u64(48) + message.u64(56)).try_into().unwrap();
            // SAFETY: an open descriptor.
            let errno = unsafe { libc::posix_fallocate(file(40)?.as_raw_fd(), 0, end) };
            if errno != 0 {
                return Err(Error::from_raw_os_error(errno));
            }
            Vec::new()
        }
        // The kernel does without.
        _ => return Err(Error::from_raw_os_error(libc::ENOSYS)),
    };
    Ok(Some(body))
}

/// Protocol 7.31, no optional features, writes of up to 128 KiB.
fn init() -> Vec<u8> {
    let words = [7u32, 31, 0, 0, 0, 128 * 1024, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

fn open(path: &Path, flags: u32, mode: u32) -> Result<File> {
    let flags = flags.cast_signed();
    let access = flags & libc::O_ACCMODE;
    let mut options = File::options();
    options.read(access != libc::O_WRONLY).write(access != libc::O_RDONLY).mode(mode);
    let more = flags & !(libc::O_ACCMODE | libc::O_APPEND | libc::O_DIRECT);
    options.custom_flags(more).open(path)
}

fn opened(disk: &Disk, file: File) -> Vec<u8> {
    let handle = disk.files.lock().unwrap().keep_open(file);
    [handle, 0].iter().flat_map(|number| number.to_ne_bytes()).collect()
}

/// An entry that is looked up again each time.
fn entry(disk: &Disk, path: PathBuf) -> Result<Vec<u8>> {
    let metadata = fs::symlink_metadata(&path)?;
    let node = disk.files.lock().unwrap().node(path);
    let mut body: Vec<u8> = [node, 0, 0, 0, 0].iter().flat_map(|word| word.to_ne_bytes()).collect();
    body.extend(&attributes(&metadata)[16..]);
    Ok(body)
}

/// Attributes that are requested again each time.
fn attributes(metadata: &Metadata) -> Vec<u8> {
    let times = [metadata.atime(), metadata.mtime(), metadata.ctime()].map(i64::cast_unsigned);
    let numbers =
        [0, 0, metadata.ino(), metadata.size(), metadata.blocks(), times[0], times[1], times[2]];
    let low = |number: i64| u32::try_from(number).unwrap();
    let words = [
        low(metadata.atime_nsec()),
        low(metadata.mtime_nsec()),
        low(metadata.ctime_nsec()),
        metadata.mode(),
        u32::try_from(metadata.nlink()).unwrap(),
        metadata.uid(),
        metadata.gid(),
        0,
        4096,
        0,
    ];
    let numbers = numbers.iter().flat_map(|number| number.to_ne_bytes());
    numbers.chain(words.iter().flat_map(|word| word.to_ne_bytes())).collect()
}

/// Entries of a directory from `offset` on, in at most `room` bytes.
fn listing(path: &Path, offset: u64, room: usize) -> Result<Vec<u8>> {
    let mut names: Vec<_> = fs::read_dir(path)?
        .map(|entry| entry.map(|entry| entry.file_name()))
        .collect::<Result<_>>()?;
    names.sort();
    let mut body = Vec::new();
    for (index, name) in names.iter().enumerate().skip(usize::try_from(offset).unwrap()) {
        let len = 24 + name.len().next_multiple_of(8);
        if body.len() + len > room {
            break;
        }
        let end = body.len() + len;
        // Inode and kind are unknown until it is looked up.
        body.extend([u64::MAX, index as u64 + 1].iter().flat_map(|number| number.to_ne_bytes()));
        body.extend(u32::try_from(name.len()).unwrap().to_ne_bytes());
        body.extend(0u32.to_ne_bytes());
        body.extend(name.as_bytes());
        body.resize(end, 0);
    }
    Ok(body)
}
