//! A disk image of any format, streamed to the target.

use serde::{Deserialize, Serialize};

use crate::canvas::{Canvas, Finished};
use crate::content::BLOCK;
use crate::error::Error;
use crate::qcow2::{self, Ended, HEADER, Header, MAGIC, Stream};
use crate::sink::Sink;
use crate::unpack::{Limits, Packing, UnpackError, Unpacker, Windows};

/// The number of bytes that identify a format.
const HEAD: usize = 512;

/// The maximum nesting of compression around a disk.
// `disk.img.xz` inside a gzip layer counts once here, as the layer was unpacked before; `disk.img.gz.xz` exists by
// mistake. A third level is a bomb.
const MAX_NESTING: usize = 2;

/// The zeros of holes, for formats that read every byte.
static ZEROS: [u8; 64 << 10] = [0; 64 << 10];

/// The format of an image.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// The bytes of the disk.
    Raw,
    /// QEMU's.
    Qcow2(Header),
}

/// Unsupported formats, by their first bytes.
fn foreign(head: &[u8]) -> Option<&'static str> {
    let at = |offset: usize, magic: &[u8]| {
        head.get(offset..)
            .is_some_and(|rest| rest.starts_with(magic))
    };
    if at(0, b"KDMV") || at(0, b"COWD") || at(0, b"# Disk DescriptorFile") {
        Some("vmdk")
    } else if at(0, b"vhdxfile") {
        Some("vhdx")
    } else if at(0, b"conectix") {
        Some("vpc")
    } else if at(64, &[0x7f, 0x10, 0xda, 0xbe]) {
        Some("vdi")
    } else if at(0, b"QED\0") {
        Some("qed")
    } else if at(0, b"WithoutFreeSpace") || at(0, b"WithouFreSpacExt") {
        Some("parallels")
    } else {
        None
    }
}

/// The state of an image, to resume from.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct State {
    path: String,
    size: Option<u64>,
    head: Vec<u8>,
    body: BodyState,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
enum BodyState {
    Unknown,
    Raw { size: u64, at: u64, known: bool },
    Qcow2(Box<qcow2::State>),
}

enum Body<'a> {
    Unknown(&'a mut dyn Sink),
    Raw(RawDisk<'a>),
    Qcow2 {
        canvas: Canvas<'a>,
        stream: Box<Stream>,
    },
    /// Temporary, while the variant is replaced.
    Gone,
}

/// A raw disk being written.
struct RawDisk<'a> {
    canvas: Canvas<'a>,
    at: u64,
    /// Whether the size was known at the beginning.
    known: bool,
    /// The incomplete last block: only whole blocks are hashed.
    rest: Vec<u8>,
}

/// An image being read.
pub(crate) struct Image<'a> {
    limits: Limits,
    windows: Windows,
    /// Zeros generated for holes in formats that read every byte.
    zeros: u64,
    threads: usize,
    path: String,
    /// The size of the file, if known.
    size: Option<u64>,
    packs: Vec<Option<Unpacker>>,
    head: Vec<u8>,
    /// Whether the format has been detected in this pass.
    decided: bool,
    body: Body<'a>,
}

impl std::fmt::Debug for Image<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Image")
            .field("path", &self.path)
            .field("size", &self.size)
            .finish_non_exhaustive()
    }
}

impl<'a> Image<'a> {
    /// The target is not changed before it is known that the disk fits.
    pub(crate) fn new(
        sink: &'a mut dyn Sink,
        limits: Limits,
        windows: &Windows,
        threads: usize,
    ) -> Self {
        Self {
            limits,
            windows: windows.clone(),
            zeros: 0,
            threads,
            path: String::new(),
            size: None,
            packs: Vec::new(),
            head: Vec::new(),
            decided: false,
            body: Body::Unknown(sink),
        }
    }

    /// Resumes from a state.
    pub(crate) fn resume(
        sink: &'a mut dyn Sink,
        limits: Limits,
        windows: &Windows,
        threads: usize,
        state: State,
    ) -> Result<Self, Error> {
        let mut image = Self::new(sink, limits, windows, threads);
        image.path = state.path;
        image.size = state.size;
        image.head = state.head;
        let Body::Unknown(sink) = std::mem::replace(&mut image.body, Body::Gone) else {
            return Ok(image);
        };
        image.body = match state.body {
            BodyState::Unknown => Body::Unknown(sink),
            BodyState::Raw { size, at, known } => Body::Raw(RawDisk {
                canvas: Canvas::resume(sink, size)?,
                at,
                known,
                rest: Vec::new(),
            }),
            BodyState::Qcow2(stream) => {
                let stream = Box::new(Stream::resume(*stream, threads));
                Body::Qcow2 {
                    canvas: Canvas::resume(sink, stream.header().size)?,
                    stream,
                }
            }
        };
        image.decided = !matches!(image.body, Body::Unknown(_));
        Ok(image)
    }

    /// The state, with the data synced to the target; `None` where a decoder has state that cannot be
    /// stored.
    pub(crate) fn state(&mut self) -> Result<Option<State>, Error> {
        if !self.packs.is_empty() {
            return Ok(None);
        }
        let body = match &mut self.body {
            Body::Unknown(_) => BodyState::Unknown,
            Body::Gone => return Ok(None),
            Body::Raw(disk) => {
                disk.flush()?;
                disk.canvas.sync()?;
                BodyState::Raw {
                    size: disk.canvas.size(),
                    at: disk.at,
                    known: disk.known,
                }
            }
            Body::Qcow2 { canvas, stream } => {
                let Some(state) = stream.state(canvas)? else {
                    return Ok(None);
                };
                canvas.sync()?;
                BodyState::Qcow2(Box::new(state))
            }
        };
        Ok(Some(State {
            path: self.path.clone(),
            size: self.size,
            head: self.head.clone(),
            body,
        }))
    }

    /// Begins the file: its name, and its size if known.
    pub(crate) fn begin(&mut self, path: String, size: Option<u64>) {
        self.path = path;
        self.size = size;
    }

    /// Prepares to read the file again from its beginning.
    pub(crate) fn rewind(&mut self) {
        self.packs.clear();
        self.head.clear();
        self.decided = false;
    }

    /// The next bytes of the file.
    pub(crate) fn feed(&mut self, data: &[u8]) -> Result<(), Error> {
        self.push(0, data)
    }

    /// Zeros of the file that the archive does not store. A raw disk skips them: the target is blank,
    /// and the size was checked against it. Other formats get real bytes, bounded by the free output of
    /// decompression.
    pub(crate) fn hole(&mut self, mut length: u64) -> Result<(), Error> {
        while length > 0 {
            if let (true, Body::Raw(disk)) = (self.decided && self.packs.is_empty(), &mut self.body)
            {
                return disk.hole(length);
            }
            let piece = length.min(ZEROS.len() as u64);
            self.zeros = self.zeros.saturating_add(piece);
            // A sparse entry of 8 EiB costs an archive a few bytes; for qcow2 each zero would be parsed. Raw disks
            // skip holes and are bounded by the size of the target instead.
            if self.zeros > self.limits.free {
                return Err(UnpackError::Bomb {
                    packed: 0,
                    unpacked: self.zeros,
                    limit: self.limits.free,
                }
                .into());
            }
            let piece = usize::try_from(piece).unwrap_or(ZEROS.len());
            self.feed(ZEROS.get(..piece).unwrap_or(&ZEROS))?;
            length -= piece as u64;
        }
        Ok(())
    }

    fn push(&mut self, depth: usize, mut data: &[u8]) -> Result<(), Error> {
        if let Some(pack) = self.packs.get_mut(depth) {
            let Some(mut unpacker) = pack.take() else {
                return Ok(());
            };
            while !data.is_empty() {
                unpacker.feed(&mut data, &mut |out: &[u8]| self.push(depth + 1, out))?;
            }
            if let Some(pack) = self.packs.get_mut(depth) {
                *pack = Some(unpacker);
            }
            return Ok(());
        }
        if self.decided {
            return self.write(data);
        }
        self.head.extend_from_slice(data);
        if self.head.len() < HEAD {
            return Ok(());
        }
        self.decide()
    }

    /// Detects the format and continues with it.
    fn decide(&mut self) -> Result<(), Error> {
        let head = std::mem::take(&mut self.head);
        if Packing::of(&head) != Packing::Plain {
            if self.packs.len() >= MAX_NESTING {
                return Err(UnpackError::TooDeep { most: MAX_NESTING }.into());
            }
            let unpacker = Unpacker::sharing(self.limits, &self.windows);
            self.packs.push(Some(unpacker));
            return self.push(self.packs.len() - 1, &head);
        }
        self.decided = true;
        if let Body::Unknown(_) = self.body {
            self.open(&head)?;
        }
        // In a later pass the body exists already.
        if let Body::Raw(disk) = &mut self.body {
            disk.at = 0;
            disk.rest.clear();
        }
        self.write(&head)
    }

    fn open(&mut self, head: &[u8]) -> Result<(), Error> {
        let Body::Unknown(sink) = std::mem::replace(&mut self.body, Body::Gone) else {
            return Ok(());
        };
        // Refused by name rather than written as raw: a VMDK that is copied byte by byte gives a VM that does not
        // boot, and no message anywhere.
        if let Some(format) = foreign(head) {
            return Err(Error::UnsupportedFormat {
                format,
                path: self.path.clone(),
            });
        }
        self.body = if head.starts_with(&MAGIC) {
            // The rest of a name does not matter, the numbers do.
            const { assert!(HEADER <= HEAD) };
            let header = Header::parse(head)?;
            Body::Qcow2 {
                canvas: Canvas::new(sink, header.size)?,
                stream: Box::new(Stream::new(header, self.threads)),
            }
        } else {
            let size = self.size.filter(|_| self.packs.is_empty());
            let known = size.is_some();
            let size = match size {
                // QEMU rounds up to whole sectors.
                Some(size) => {
                    size.checked_next_multiple_of(512)
                        .ok_or_else(|| Error::TooSmall {
                            need: size,
                            have: sink.capacity().unwrap_or(1 << 63),
                        })?
                }
                // A device is blank from end to end; a file grows.
                None if !sink.has_tail() => sink.capacity().unwrap_or(0),
                None => 0,
            };
            Body::Raw(RawDisk {
                canvas: Canvas::new(sink, size)?,
                at: 0,
                known,
                rest: Vec::new(),
            })
        };
        Ok(())
    }

    fn write(&mut self, data: &[u8]) -> Result<(), Error> {
        match &mut self.body {
            Body::Raw(disk) => disk.put(data),
            Body::Qcow2 { canvas, stream } => stream.feed(data, canvas),
            Body::Unknown(_) | Body::Gone => Ok(()),
        }
    }

    /// Ends the file.
    pub(crate) fn end(&mut self) -> Result<Ended, Error> {
        let mut depth = 0;
        loop {
            if let Some(pack) = self.packs.get_mut(depth) {
                if let Some(mut unpacker) = pack.take() {
                    unpacker.end(&mut |out: &[u8]| self.push(depth + 1, out))?;
                }
                depth += 1;
            } else if self.decided {
                break;
            } else {
                // The file is shorter than a sector; detect by what there is.
                self.decide()?;
            }
        }
        match &mut self.body {
            Body::Qcow2 { canvas, stream } => stream.end(canvas),
            Body::Raw(disk) => {
                disk.flush()?;
                if !disk.known {
                    let size = disk.at.checked_next_multiple_of(512);
                    disk.canvas.resize(size.unwrap_or(u64::MAX))?;
                }
                Ok(Ended::Done)
            }
            Body::Unknown(_) | Body::Gone => Ok(Ended::Done),
        }
    }

    /// The size of the disk if known, bytes written, bytes parked.
    pub(crate) fn counts(&self) -> (Option<u64>, u64, u64) {
        let (canvas, known) = match &self.body {
            Body::Raw(disk) => (&disk.canvas, disk.known),
            Body::Qcow2 { canvas, .. } => (canvas, true),
            Body::Unknown(_) | Body::Gone => return (None, 0, 0),
        };
        let size = known.then(|| canvas.size());
        (size, canvas.written(), canvas.parked())
    }

    /// Completes and syncs the disk.
    pub(crate) fn finish(self) -> Result<Option<(Format, Finished)>, Error> {
        Ok(match self.body {
            Body::Raw(disk) => Some((Format::Raw, disk.canvas.finish()?)),
            Body::Qcow2 { canvas, stream } => {
                Some((Format::Qcow2(stream.header().clone()), canvas.finish()?))
            }
            Body::Unknown(_) | Body::Gone => None,
        })
    }
}

impl RawDisk<'_> {
    /// The next bytes, in whole blocks.
    fn put(&mut self, mut data: &[u8]) -> Result<(), Error> {
        let end = self
            .at
            .saturating_add((self.rest.len() + data.len()) as u64);
        self.canvas.grow(end)?;
        // After resuming, it may begin inside a block.
        let inside = usize::try_from(self.at % BLOCK as u64).unwrap_or(0) + self.rest.len();
        if inside > 0 {
            let (head, tail) = data.split_at((BLOCK - inside).min(data.len()));
            self.rest.extend_from_slice(head);
            data = tail;
            if inside + head.len() < BLOCK {
                return Ok(());
            }
            self.flush()?;
        }
        let (whole, tail) = data.split_at(data.len() - data.len() % BLOCK);
        self.canvas.put(self.at, whole)?;
        self.at += whole.len() as u64;
        self.rest.extend_from_slice(tail);
        Ok(())
    }

    /// Like [`Self::put`] for zeros: only those that complete a block are bytes.
    fn hole(&mut self, length: u64) -> Result<(), Error> {
        let begun = self.at.saturating_add(self.rest.len() as u64);
        self.canvas.grow(begun.saturating_add(length))?;
        let block = BLOCK as u64;
        let head = length.min((block - begun % block) % block);
        let zeros = |count: u64| {
            let count = usize::try_from(count).ok();
            count
                .and_then(|count| ZEROS.get(..count))
                .unwrap_or_default()
        };
        self.put(zeros(head))?;
        let tail = (length - head) % block;
        let whole = length - head - tail;
        self.at = self.at.saturating_add(whole);
        self.put(zeros(tail))
    }

    fn flush(&mut self) -> Result<(), Error> {
        self.canvas.put(self.at, &self.rest)?;
        self.at += self.rest.len() as u64;
        self.rest.clear();
        Ok(())
    }
}
