//! Fuzzing entry points: each takes arbitrary bytes and panics if an invariant is violated.
//!
//! All of them process the same bytes in several ways (at once and in chunks, with a stored state in
//! between, to a file and to a device) and compare the results.

use std::io::{self, Cursor, Read};
use std::ops::ControlFlow;
use std::time::Duration;

use platform::Digest;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::canvas::Canvas;
use crate::error::Error;
use crate::import::{Checkpoint, Contents, Layer, Options, Source, Watch, import};
use crate::overlay::Overlay;
use crate::progress::Progress;
use crate::qcow2::{Ended, Header, Stream};
use crate::sink::{MemorySink, Sink};
use crate::sniff::sniff;
use crate::tar::{Entry, Event, Reader, TarError};
use crate::unpack::{Limits, Packing, UnpackError, UnpackStep, Unpacker, Windows};

/// The size of the targets in bytes.
const CAPACITY: u64 = 4 << 20;

/// Small limits, so that decompression bombs end soon.
const LIMITS: Limits = Limits {
    unpacked: 8 << 20,
    ratio: 200,
    free: 1 << 20,
    window_log: 20,
};

/// The chunk length of an input: arbitrary, but the same for the same input.
fn piece(data: &[u8]) -> usize {
    let sum = data.iter().fold(data.len(), |sum, byte| {
        sum.wrapping_mul(31) ^ usize::from(*byte)
    });
    1 + sum % 1500
}

/// The round trip of a state through a checkpoint.
fn stored<T: Serialize + DeserializeOwned>(state: &T) -> T {
    let text = serde_json::to_string(state).expect("a state can be written");
    serde_json::from_str(&text).expect("what was written can be read")
}

/// An archive with corrected header checksums: otherwise a mutation only ever gives a wrong checksum.
pub fn mended(data: &[u8]) -> Vec<u8> {
    let mut data = data.to_vec();
    for block in data.chunks_exact_mut(512) {
        if block.get(257..262) == Some(b"ustar") {
            block[148..156].fill(b' ');
            let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
            block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        }
    }
    data
}

/// An archive is read the same for any chunk length and number of stored states; whatever its names,
/// they lead only to one file of `/disk`.
pub fn tar(data: &[u8]) {
    archive(data);
    archive(&mended(data));
}

fn archive(data: &[u8]) {
    /// Holes are counted and not filled: the archive decides how large they are.
    #[derive(PartialEq, Debug)]
    struct Content {
        stored: Vec<u8>,
        holes: u64,
    }
    type Read = (Vec<(Entry, Content)>, Result<(), TarError>);
    let read = |piece: usize, store: bool| -> Read {
        let mut reader = Reader::default();
        let mut entries: Vec<(Entry, Content)> = Vec::new();
        let outcome = data.chunks(piece).try_for_each(|mut input| {
            while let Some(event) = reader.next(&mut input)? {
                match event {
                    Event::Entry(entry) => {
                        assert!(entry.path.len() <= 4096 && entry.link.len() <= 4096);
                        let (stored, holes) = (Vec::new(), 0);
                        entries.push((entry, Content { stored, holes }));
                    }
                    Event::Data(data) => {
                        let (entry, all) = entries.last_mut().expect("data has an entry");
                        all.stored.extend_from_slice(data);
                        let found = all.stored.len() as u64 + all.holes;
                        assert!(found <= entry.size, "more data than announced");
                    }
                    Event::Hole(length) => {
                        let (entry, all) = entries.last_mut().expect("a hole has an entry");
                        all.holes = all.holes.checked_add(length).expect("it is in a file");
                        assert!(all.holes <= entry.size, "more holes than announced");
                    }
                    Event::End => {
                        let (entry, all) = entries.last().expect("an end has an entry");
                        let found = all.stored.len() as u64 + all.holes;
                        assert_eq!(found, entry.size, "it ended early or late");
                    }
                }
            }
            assert!(input.is_empty(), "bytes were left");
            if store {
                reader = stored(&reader);
            }
            Ok(())
        });
        (entries, outcome.and_then(|()| reader.end()))
    };
    let whole = read(data.len().max(1), false);
    assert_eq!(whole, read(piece(data), false), "in pieces");
    assert_eq!(whole, read(1 + data.len() / 3, true), "stored in between");

    let mut overlay = Overlay::default();
    for (at, (entry, _)) in whole.0.iter().enumerate() {
        // Layers end somewhere.
        let go_on = overlay.entry(entry).is_ok() && (at % 5 != 4 || overlay.end_layer().is_ok());
        if !go_on {
            return;
        }
    }
    let _ = overlay.end_layer();
    let _ = overlay.nothing().to_string();
}

/// The output of a stream, and the first boundary at which another decoder could resume.
struct Unpacked {
    bytes: Vec<u8>,
    boundary: Option<Boundary>,
}

struct Boundary {
    packing: Packing,
    packed: u64,
    unpacked: u64,
}

fn unpacked(mut unpacker: Unpacker, data: &[u8], piece: usize) -> Result<Unpacked, Error> {
    let mut bytes = Vec::new();
    let mut boundary = None;
    for mut input in data.chunks(piece) {
        while !input.is_empty() {
            let step = unpacker.feed(&mut input, &mut |out: &[u8]| {
                bytes.extend_from_slice(out);
                Ok(())
            })?;
            if let (UnpackStep::Boundary, Some(packing)) = (step, unpacker.packing()) {
                boundary.get_or_insert_with(|| Boundary {
                    packing,
                    packed: unpacker.packed(),
                    unpacked: unpacker.unpacked(),
                });
            }
        }
    }
    unpacker.end(&mut |out: &[u8]| {
        bytes.extend_from_slice(out);
        Ok(())
    })?;
    Ok(Unpacked { bytes, boundary })
}

/// A stream is unpacked the same for any chunk length, and from the first boundary on by another
/// decoder; never beyond the limit.
pub fn unpack(data: &[u8]) {
    let bomb = |error: &Error| matches!(error, Error::Unpack(UnpackError::Bomb { .. }));
    let whole = unpacked(Unpacker::new(LIMITS), data, data.len().max(1));
    let pieces = unpacked(Unpacker::new(LIMITS), data, piece(data));
    let whole = match (whole, pieces) {
        (Ok(whole), Ok(pieces)) => {
            assert!(
                whole.bytes == pieces.bytes,
                "in pieces it is something else"
            );
            whole
        }
        // How much input precedes the limit depends on the chunks.
        (Err(error), _) | (_, Err(error)) if bomb(&error) => return,
        (Err(_), Err(_)) => return,
        (Ok(_), Err(error)) => panic!("only in pieces: {error}"),
        (Err(error), Ok(_)) => panic!("only as a whole: {error}"),
    };
    assert!(whole.bytes.len() as u64 <= LIMITS.unpacked);
    let Some(at) = whole.boundary else {
        return;
    };
    let rest = usize::try_from(at.packed).expect("it is inside");
    let start = usize::try_from(at.unpacked).expect("it is inside");
    let unpacker = Unpacker::resume(
        LIMITS,
        &Windows::default(),
        at.packing,
        at.packed,
        at.unpacked,
    )
    .expect("a decoder can be made");
    let rest = unpacked(unpacker, data.get(rest..).expect("it is inside"), 4096)
        .expect("another decoder goes on");
    assert!(
        whole.bytes.get(start..) == Some(&rest.bytes),
        "another rest"
    );
}

/// A decoded image.
#[derive(PartialEq)]
struct Disk {
    bytes: Vec<u8>,
    content: String,
}

fn decoded(
    data: &[u8],
    sink: &mut MemorySink,
    piece: usize,
    store: Option<usize>,
) -> Result<Disk, Error> {
    let header = Header::parse(data)?;
    let size = header.size;
    let mut canvas = Canvas::new(&mut *sink as &mut dyn Sink, size)?;
    let mut stream = Stream::new(header, 0);
    loop {
        for (number, part) in data.chunks(piece).enumerate() {
            stream.feed(part, &mut canvas)?;
            if store == Some(number)
                && let Some(state) = stream.state(&mut canvas)?
            {
                stream = Stream::resume(stored(&state), 0);
                drop(canvas);
                canvas = Canvas::resume(&mut *sink as &mut dyn Sink, size)?;
            }
        }
        if stream.end(&mut canvas)? == Ended::Done {
            break;
        }
    }
    let content = canvas.finish()?.content.to_string();
    Ok(Disk {
        bytes: sink.to_vec(),
        content,
    })
}

/// An image becomes the same disk on a file and on a device, whole and in chunks, with and without
/// stored states; and nothing is written outside.
pub fn qcow2(data: &[u8]) {
    let mut sink = MemorySink::new(Some(CAPACITY));
    let file = decoded(data, &mut sink, data.len().max(1), None);
    // The tail begins at the next megabyte, and holds no more than the image.
    let end = CAPACITY + data.len() as u64 + (3 << 20);
    assert!(sink.highest() <= end, "outside: {}", sink.highest());

    let piece = piece(data).max(64);
    let mut sink = MemorySink::new(Some(CAPACITY));
    let pieces = decoded(data, &mut sink, piece, None);
    assert!(sink.highest() <= end, "outside: {}", sink.highest());
    let mut sink = MemorySink::new(Some(CAPACITY));
    let resumed = decoded(data, &mut sink, piece, Some(piece % 7));
    assert!(sink.highest() <= end, "outside: {}", sink.highest());
    let mut sink = MemorySink::device(CAPACITY);
    let device = decoded(data, &mut sink, 4096, None);
    assert!(sink.highest() <= CAPACITY, "outside: {}", sink.highest());

    match (file, pieces, resumed) {
        (Ok(file), Ok(pieces), Ok(resumed)) => {
            assert!(file == pieces, "in pieces it is another disk");
            assert!(file == resumed, "resumed it is another disk");
            if let Ok(device) = device {
                assert!(file == device, "on a device it is another disk");
            }
        }
        (Err(_), Err(_), Err(_)) => {}
        (file, pieces, resumed) => panic!(
            "only one way: {:?}, {:?}, {:?}",
            file.err(),
            pieces.err(),
            resumed.err()
        ),
    }
}

/// One blob, which can be read as often as it is asked for.
struct Blob(Vec<u8>);

impl Source for Blob {
    fn open(&mut self, _layer: &Layer, offset: u64) -> io::Result<Box<dyn Read + Send>> {
        let rest = self.0.get(usize::try_from(offset).unwrap_or(usize::MAX)..);
        Ok(Box::new(Cursor::new(rest.unwrap_or_default().to_vec())))
    }
}

/// An observer that only checks that checkpoints can be stored.
struct CheckpointObserver;

impl Watch for CheckpointObserver {
    fn now(&mut self) -> Duration {
        Duration::ZERO
    }

    fn progress(&mut self, _progress: &Progress) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }

    fn checkpoint(&mut self, checkpoint: Checkpoint) {
        assert_eq!(stored(&checkpoint).place(), checkpoint.place());
    }
}

/// A layer of any content becomes a disk that fits and can be sniffed, the same on a file and on a
/// device; or an error with a reason.
pub fn layer(data: &[u8]) {
    let (contents, data) = match data.split_first() {
        Some((b'D', rest)) => (Contents::Disk, rest.to_vec()),
        _ if Packing::of(data) == Packing::Plain => (Contents::Archive, mended(data)),
        _ => (Contents::Archive, data.to_vec()),
    };
    let data = data.as_slice();
    // Without a diff-id there are no checkpoints.
    let diff_id = unpacked(Unpacker::new(LIMITS), data, 4096)
        .ok()
        .map(|whole| Digest::sha256(&whole.bytes));
    let layers = [Layer {
        digest: Digest::sha256(data),
        is_verified: true,
        size: Some(data.len() as u64),
        diff_id,
        contents,
    }];
    let options = Options {
        limits: LIMITS,
        threads: 0,
        checkpoint_every: 1000,
    };
    let mut blob = Blob(data.to_vec());
    let mut to = |sink: &mut MemorySink| {
        import(
            &layers,
            &mut blob,
            sink,
            &options,
            None,
            &mut CheckpointObserver,
        )
        .inspect_err(|error| assert!(!error.reason().is_empty()))
    };
    let mut file = MemorySink::new(Some(CAPACITY));
    let Ok(imported) = to(&mut file) else {
        return;
    };
    assert!(imported.size <= CAPACITY, "{} bytes", imported.size);
    sniff(&mut file, imported.size).expect("a disk in memory can be read");
    let mut device = MemorySink::device(CAPACITY);
    if let Ok(again) = to(&mut device) {
        assert_eq!(again.content, imported.content);
        assert!(
            device.to_vec() == file.to_vec(),
            "on a device it is another disk"
        );
    }
}
