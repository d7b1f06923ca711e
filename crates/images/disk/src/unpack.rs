//! Decompression of a stream in a format detected from its first bytes.
//!
//! The bytes decide, not the media type: registries have layers with wrong ones, and files inside
//! layers have none. The media type only tells whether a layer is an archive at all
//! ([`Packing::of_media_type`]).
//!
//! Decompression bombs: output is limited, absolutely and relative to the input ([`Limits`]). Memory: a
//! gzip window has 32 KiB; zstd and xz streams state how much they need, and more than the limit is
//! rejected. Streams of usual levels need 8 MiB, the highest of Go's encoder 32 MiB; `zstd --long`,
//! `zstd --ultra -20` and `xz -9` need more than an importer or an image service may use. A stream
//! inside a stream shares the memory of the outer one ([`Windows`]).
//!
//! A decoder cannot be stored in the middle of a stream. Between two gzip members or zstd frames it has
//! no state: these places are reported ([`UnpackStep::Boundary`]), and an import can be resumed there.

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use flate2::{Decompress, FlushDecompress, Status};
use liblzma::stream::{Action, Stream as Xz};
use zstd::stream::raw::{DParameter, InBuffer, Operation as _, OutBuffer};

use crate::error::Error;

/// The chunk size of the output.
pub(crate) const CHUNK: usize = 256 << 10;

/// The number of bytes that identify the format.
const MAGIC: usize = 6;

/// The limits of decompression.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Maximum output of one stream in bytes.
    pub unpacked: u64,
    /// Maximum output per input byte, once `free` is used up.
    pub ratio: u64,
    /// Output allowed for any input: empty disks compress very well.
    pub free: u64,
    /// Maximum window of a stream, as a power of two.
    pub window_log: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            unpacked: 64 << 40,
            // deflate reaches 1032 at most; zstd and xz compress zeros far better, which is what `free` is for.
            ratio: 2_000,
            free: 16 << 30,
            // 32 MiB: half of an importer's memory, and the most that Go's zstd encoder asks for. zstd's own default
            // limit is 2^27, which the pod could not hold.
            window_log: 25,
        }
    }
}

impl Limits {
    /// Checks the output against the input.
    fn check(&self, packed: u64, unpacked: u64) -> Result<(), UnpackError> {
        let by_ratio = self.free.saturating_add(packed.saturating_mul(self.ratio));
        let limit = self.unpacked.min(by_ratio);
        if unpacked > limit {
            return Err(UnpackError::Bomb {
                packed,
                unpacked,
                limit,
            });
        }
        Ok(())
    }
}

/// The largest windows of streams nested in a stream with a window, from the outside in: that of usual
/// xz and zstd levels, and that of a disk compressed twice by mistake.
const INNER_WINDOW_LOGS: [u32; 2] = [23, 20];

/// The number of decoders with a window in one import; clones share it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Windows(Arc<AtomicUsize>);

/// Counts a decoder while it exists.
#[derive(Debug)]
struct Window {
    log: u32,
    windows: Windows,
}

impl Windows {
    fn open(&self, limit: u32) -> Window {
        let before = self.0.fetch_add(1, Ordering::Relaxed);
        let inner = before.checked_sub(1).map(|at| {
            let log = INNER_WINDOW_LOGS.get(at).or(INNER_WINDOW_LOGS.last());
            log.copied().unwrap_or(limit)
        });
        Window {
            log: inner.map_or(limit, |inner| inner.min(limit)),
            windows: self.clone(),
        }
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        self.windows.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Why a stream cannot be unpacked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UnpackError {
    /// It is damaged.
    #[error("the {packing} stream is broken after {offset} bytes: {why}")]
    Broken {
        /// The format.
        packing: Packing,
        /// Input bytes so far.
        offset: u64,
        /// The decoder's error.
        why: String,
    },
    /// It is truncated.
    #[error("the {packing} stream is cut off after {offset} bytes")]
    Truncated {
        /// The format.
        packing: Packing,
        /// Input bytes so far.
        offset: u64,
    },
    /// It needs more memory than the limit.
    #[error(
        "the {packing} stream needs a window of more than {limit} bytes; compress it at a usual level, without --long or --ultra"
    )]
    Window {
        /// The format.
        packing: Packing,
        /// The limit in bytes.
        limit: u64,
    },
    /// Its output exceeds the limit.
    #[error("{unpacked} bytes came out of {packed}; that is more than the limit of {limit}")]
    Bomb {
        /// Input bytes so far.
        packed: u64,
        /// Output bytes so far.
        unpacked: u64,
        /// The limit in bytes.
        limit: u64,
    },
    /// It is compressed repeatedly beyond the limit.
    #[error("the disk is compressed more than {most} times over")]
    TooDeep {
        /// The limit.
        most: usize,
    },
}

impl UnpackError {
    /// The reason, from a fixed set.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Bomb { .. } | Self::TooDeep { .. } | Self::Window { .. } => "Bomb",
            _ => "BadLayer",
        }
    }
}

/// The compression format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Packing {
    /// Not compressed.
    Plain,
    /// gzip, one or more members.
    Gzip,
    /// Zstandard, one or more frames.
    Zstd,
    /// xz.
    Xz,
}

impl std::fmt::Display for Packing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Plain => "plain",
            Self::Gzip => "gzip",
            Self::Zstd => "zstd",
            Self::Xz => "xz",
        })
    }
}

impl Packing {
    /// By the first bytes.
    pub fn of(head: &[u8]) -> Self {
        match head {
            [0x1f, 0x8b, ..] => Self::Gzip,
            // A frame, or a skippable frame.
            [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Self::Zstd,
            [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => Self::Xz,
            _ => Self::Plain,
        }
    }

    /// The format stated by the media type of a layer; `None` if it states none.
    pub fn of_media_type(media_type: &str) -> Option<Self> {
        let plain = media_type.split(';').next().unwrap_or_default().trim();
        let suffix = plain.rsplit(['+', '.']).next().unwrap_or_default();
        match suffix {
            "gzip" | "gz" => Some(Self::Gzip),
            "zstd" => Some(Self::Zstd),
            "xz" => Some(Self::Xz),
            "tar" => Some(Self::Plain),
            _ => None,
        }
    }
}

/// The state of a stream after some input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum UnpackStep {
    /// All input was consumed.
    More,
    /// The decoder has no state: another one could resume here.
    Boundary,
}

/// The receiver of the output.
pub(crate) trait Out {
    /// Takes the first bytes of a chunk. It may keep the chunk if it leaves another one of [`CHUNK`]
    /// bytes in its place, which avoids a copy.
    fn give(&mut self, chunk: &mut Vec<u8>, made: usize) -> Result<(), Error>;
}

impl<F: FnMut(&[u8]) -> Result<(), Error>> Out for F {
    fn give(&mut self, chunk: &mut Vec<u8>, made: usize) -> Result<(), Error> {
        self(chunk.get(..made).unwrap_or_default())
    }
}

enum Decoder {
    /// Too few bytes to detect the format.
    Unknown(Vec<u8>),
    Plain,
    Gzip {
        member: Decompress,
        inside: bool,
        members: u64,
    },
    Zstd {
        frames: Box<zstd::stream::raw::Decoder<'static>>,
        inside: bool,
        window: Window,
    },
    Xz {
        stream: Box<Xz>,
        over: bool,
        window: Window,
    },
}

/// Unpacks one stream.
pub(crate) struct Unpacker {
    decoder: Decoder,
    limits: Limits,
    windows: Windows,
    packed: u64,
    unpacked: u64,
    chunk: Vec<u8>,
}

impl std::fmt::Debug for Unpacker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Unpacker")
            .field("packing", &self.packing())
            .field("packed", &self.packed)
            .field("unpacked", &self.unpacked)
            .finish_non_exhaustive()
    }
}

impl Unpacker {
    /// For a stream that is not nested.
    pub(crate) fn new(limits: Limits) -> Self {
        Self::sharing(limits, &Windows::default())
    }

    /// For a stream that contains others or is nested.
    pub(crate) fn sharing(limits: Limits, windows: &Windows) -> Self {
        Self {
            decoder: Decoder::Unknown(Vec::new()),
            limits,
            windows: windows.clone(),
            packed: 0,
            unpacked: 0,
            chunk: Vec::new(),
        }
    }

    /// Resumes at a boundary, after this much input and output.
    pub(crate) fn resume(
        limits: Limits,
        windows: &Windows,
        packing: Packing,
        packed: u64,
        unpacked: u64,
    ) -> Result<Self, Error> {
        let mut unpacker = Self::sharing(limits, windows);
        unpacker.packed = packed;
        unpacker.unpacked = unpacked;
        unpacker.start(packing)?;
        if let Decoder::Gzip { members, .. } = &mut unpacker.decoder {
            // Resumed behind a member: zeros that follow are padding, not a broken header.
            *members = 1;
        }
        Ok(unpacker)
    }

    /// The format, once detected.
    pub(crate) fn packing(&self) -> Option<Packing> {
        match self.decoder {
            Decoder::Unknown(_) => None,
            Decoder::Plain => Some(Packing::Plain),
            Decoder::Gzip { .. } => Some(Packing::Gzip),
            Decoder::Zstd { .. } => Some(Packing::Zstd),
            Decoder::Xz { .. } => Some(Packing::Xz),
        }
    }

    /// Input bytes so far.
    pub(crate) fn packed(&self) -> u64 {
        self.packed
    }

    /// Output bytes so far.
    pub(crate) fn unpacked(&self) -> u64 {
        self.unpacked
    }

    fn start(&mut self, packing: Packing) -> Result<(), Error> {
        let broken = |why: String| UnpackError::Broken {
            packing,
            offset: 0,
            why,
        };
        self.decoder = match packing {
            Packing::Plain => Decoder::Plain,
            Packing::Gzip => Decoder::Gzip {
                member: Decompress::new_gzip(15),
                inside: false,
                members: 0,
            },
            Packing::Zstd => {
                let mut frames =
                    zstd::stream::raw::Decoder::new().map_err(|error| broken(error.to_string()))?;
                let window = self.windows.open(self.limits.window_log);
                frames
                    .set_parameter(DParameter::WindowLogMax(window.log))
                    .map_err(|error| broken(error.to_string()))?;
                Decoder::Zstd {
                    frames: Box::new(frames),
                    inside: false,
                    window,
                }
            }
            Packing::Xz => {
                // The decoder needs slightly more than the window.
                let window = self.windows.open(self.limits.window_log);
                let memory = window_bytes(window.log).saturating_add(1 << 20);
                let stream = Xz::new_stream_decoder(memory, liblzma::stream::CONCATENATED)
                    .map_err(|error| broken(error.to_string()))?;
                Decoder::Xz {
                    stream: Box::new(stream),
                    over: false,
                    window,
                }
            }
        };
        Ok(())
    }

    /// Processes input, which is advanced by the consumed bytes, and passes the output to `out`.
    pub(crate) fn feed(
        &mut self,
        input: &mut &[u8],
        out: &mut dyn Out,
    ) -> Result<UnpackStep, Error> {
        if let Decoder::Unknown(head) = &mut self.decoder {
            let missing = MAGIC.saturating_sub(head.len()).min(input.len());
            let (part, rest) = input.split_at(missing);
            head.extend_from_slice(part);
            *input = rest;
            if head.len() < MAGIC {
                return Ok(UnpackStep::More);
            }
            let head = std::mem::take(head);
            self.start(Packing::of(&head))?;
            // Six bytes are less than any member or frame.
            self.decode(&mut head.as_slice(), out)?;
        }
        self.decode(input, out)
    }

    fn decode(&mut self, input: &mut &[u8], out: &mut dyn Out) -> Result<UnpackStep, Error> {
        if self.chunk.is_empty() {
            self.chunk = vec![0; CHUNK];
        }
        if matches!(self.decoder, Decoder::Plain) {
            for part in std::mem::take(input).chunks(CHUNK) {
                self.packed += part.len() as u64;
                self.unpacked += part.len() as u64;
                self.check()?;
                if let Some(place) = self.chunk.get_mut(..part.len()) {
                    place.copy_from_slice(part);
                }
                out.give(&mut self.chunk, part.len())?;
            }
            return Ok(UnpackStep::Boundary);
        }
        loop {
            let (used, made, boundary) = self.step(input)?;
            *input = input.get(used..).unwrap_or_default();
            self.packed += used as u64;
            self.unpacked += made as u64;
            self.check()?;
            if made > 0 {
                out.give(&mut self.chunk, made)?;
            }
            if boundary {
                return Ok(UnpackStep::Boundary);
            }
            // After a full chunk the decoder may have more output.
            if input.is_empty() && made < CHUNK {
                return Ok(UnpackStep::More);
            }
            // Neither input nor output: the decoder would be called with the same arguments for ever.
            if used == 0 && made == 0 {
                return Err(self.broken("it does not go on").into());
            }
        }
    }

    fn broken(&self, why: &str) -> UnpackError {
        UnpackError::Broken {
            packing: self.packing().unwrap_or(Packing::Plain),
            offset: self.packed,
            why: why.to_owned(),
        }
    }

    /// One call of the decoder: bytes consumed, bytes produced, whether it has no state now.
    fn step(&mut self, input: &[u8]) -> Result<(usize, usize, bool), UnpackError> {
        let (packed, packing) = (self.packed, self.packing());
        let broken = |why: String| UnpackError::Broken {
            packing: packing.unwrap_or(Packing::Plain),
            offset: packed,
            why,
        };
        match &mut self.decoder {
            // Handled by `decode` and `feed`.
            Decoder::Unknown(_) | Decoder::Plain => Ok((0, 0, false)),
            Decoder::Gzip {
                member,
                inside,
                members,
            } => {
                if !*inside {
                    let Some(first) = input.first() else {
                        return Ok((0, 0, false));
                    };
                    // Trailing zero padding is allowed, as by gzip.
                    if *members > 0 && *first == 0 {
                        let zeros = input.iter().take_while(|byte| **byte == 0).count();
                        return Ok((zeros, 0, false));
                    }
                    *member = Decompress::new_gzip(15);
                    *inside = true;
                }
                let (before_in, before_out) = (member.total_in(), member.total_out());
                let status = member
                    .decompress(input, &mut self.chunk, FlushDecompress::None)
                    .map_err(|error| broken(error.to_string()))?;
                let used = usize::try_from(member.total_in() - before_in).unwrap_or(0);
                let made = usize::try_from(member.total_out() - before_out).unwrap_or(0);
                let end = status == Status::StreamEnd;
                if end {
                    *inside = false;
                    *members += 1;
                }
                Ok((used, made, end))
            }
            Decoder::Zstd {
                frames,
                inside,
                window,
            } => {
                let mut source = InBuffer::around(input);
                let mut target = OutBuffer::around(self.chunk.as_mut_slice());
                let hint = frames.run(&mut source, &mut target).map_err(|error| {
                    // The library has no error code for this, only the text (ZSTD_getErrorString).
                    let why = error.to_string();
                    if why.contains("too much memory") {
                        too_large(Packing::Zstd, window)
                    } else {
                        broken(why)
                    }
                })?;
                let (used, made) = (source.pos(), target.pos());
                if used > 0 || made > 0 {
                    *inside = hint != 0;
                }
                Ok((used, made, used > 0 && hint == 0))
            }
            Decoder::Xz {
                stream,
                over,
                window,
            } => {
                let (before_in, before_out) = (stream.total_in(), stream.total_out());
                let done = stream.process(input, &mut self.chunk, Action::Run);
                let status = done.map_err(|error| match error {
                    liblzma::stream::Error::MemLimit => too_large(Packing::Xz, window),
                    error => broken(error.to_string()),
                })?;
                *over = status == liblzma::stream::Status::StreamEnd;
                let used = usize::try_from(stream.total_in() - before_in).unwrap_or(0);
                let made = usize::try_from(stream.total_out() - before_out).unwrap_or(0);
                Ok((used, made, false))
            }
        }
    }

    fn check(&self) -> Result<(), UnpackError> {
        self.limits.check(self.packed, self.unpacked)
    }

    /// The end of the input.
    pub(crate) fn end(&mut self, out: &mut dyn Out) -> Result<(), Error> {
        if let Decoder::Unknown(head) = &mut self.decoder {
            let head = std::mem::take(head);
            self.start(Packing::of(&head))?;
            if !head.is_empty() {
                self.decode(&mut head.as_slice(), out)?;
            }
        }
        let offset = self.packed;
        let cut = |packing| Err(UnpackError::Truncated { packing, offset }.into());
        match &mut self.decoder {
            Decoder::Gzip { inside: true, .. } => cut(Packing::Gzip),
            Decoder::Zstd { inside: true, .. } => cut(Packing::Zstd),
            Decoder::Xz { stream, over, .. } => {
                // xz only learns from its caller that the last of several concatenated streams has ended.
                if !*over {
                    *over = matches!(
                        stream.process(&[], &mut self.chunk, Action::Finish),
                        Ok(liblzma::stream::Status::StreamEnd)
                    );
                }
                if *over { Ok(()) } else { cut(Packing::Xz) }
            }
            _ => Ok(()),
        }
    }
}

fn window_bytes(log: u32) -> u64 {
    1_u64.checked_shl(log).unwrap_or(u64::MAX)
}

fn too_large(packing: Packing, window: &Window) -> UnpackError {
    UnpackError::Window {
        packing,
        limit: window_bytes(window.log),
    }
}
