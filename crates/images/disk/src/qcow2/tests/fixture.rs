//! Images of qemu-img, and ways to decode them.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::super::{Ended, Header, Stream};
use crate::canvas::Canvas;
use crate::error::Error;
use crate::sink::{MemorySink, Sink};

/// Runs a program to its successful end.
pub(crate) fn run(program: &str, arguments: &[&str]) {
    let output = Command::new(program)
        .args(arguments)
        .output()
        .unwrap_or_else(|error| panic!("{program} (qemu-utils): {error}"));
    assert!(
        output.status.success(),
        "{program} {arguments:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
}

pub(crate) fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Numbers that look random and are the same every time.
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % sides
    }
}

/// A folder with images.
pub(crate) struct Folder(tempfile::TempDir);

impl Folder {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// A raw disk with islands of data: text-like, random, zeros.
    pub(crate) fn raw(&self, name: &str, size: usize, seed: u64) -> PathBuf {
        let mut dice = Dice(seed | 1);
        let mut disk = vec![0; size];
        let mut at = 0;
        while at < size {
            let length = usize::try_from(dice.roll(300_000)).unwrap().min(size - at);
            match dice.roll(4) {
                0 => disk[at..at + length]
                    .iter_mut()
                    .for_each(|byte| *byte = u8::try_from(dice.roll(256)).unwrap()),
                1 => disk[at..at + length]
                    .iter_mut()
                    .for_each(|byte| *byte = b"abcdefgh"[usize::try_from(dice.roll(8)).unwrap()]),
                _ => {}
            }
            at += length.max(1);
        }
        let path = self.path(name);
        std::fs::write(&path, disk).unwrap();
        path
    }

    /// `qemu-img convert` to qcow2.
    pub(crate) fn convert(&self, raw: &Path, name: &str, arguments: &[&str]) -> PathBuf {
        self.convert_to("qcow2", raw, name, arguments)
    }

    /// `qemu-img convert` to a format.
    pub(crate) fn convert_to(
        &self,
        format: &str,
        raw: &Path,
        name: &str,
        arguments: &[&str],
    ) -> PathBuf {
        let path = self.path(name);
        let mut all = vec!["convert", "-f", "raw", "-O", format];
        all.extend(arguments);
        all.extend([text(raw), text(&path)]);
        run("qemu-img", &all);
        path
    }

    /// An empty image.
    pub(crate) fn create(&self, name: &str, options: &str, size: &str) -> PathBuf {
        let path = self.path(name);
        let mut all = vec!["create", "-q", "-f", "qcow2"];
        if !options.is_empty() {
            all.extend(["-o", options]);
        }
        all.extend([text(&path), size]);
        run("qemu-img", &all);
        path
    }

    /// What qemu-img makes of an image.
    pub(crate) fn oracle(&self, image: &Path) -> Vec<u8> {
        let path = self.path("oracle.raw");
        run(
            "qemu-img",
            &[
                "convert",
                "-f",
                "qcow2",
                "-O",
                "raw",
                text(image),
                text(&path),
            ],
        );
        std::fs::read(path).unwrap()
    }
}

/// An image of version 3 with clusters of 512 bytes, all in disorder; the cluster at `n` of the disk is
/// filled with numbers that follow from n. Tables come first, or last.
pub(crate) fn shuffled(clusters: u64, tables_first: bool) -> Vec<u8> {
    let mut dice = Dice(4711);
    let tables = clusters.div_ceil(64);
    let l1_clusters = (tables * 8).div_ceil(512);
    let data = if tables_first {
        1 + l1_clusters + tables
    } else {
        1
    };
    let l1 = if tables_first { 1 } else { 1 + clusters };
    let l2 = l1 + l1_clusters;
    let mut order: Vec<u64> = (0..clusters).collect();
    for at in (1..order.len()).rev() {
        order.swap(at, usize::try_from(dice.roll(at as u64 + 1)).unwrap());
    }
    let mut image = vec![0; usize::try_from((2 + l1_clusters + tables + clusters) * 512).unwrap()];
    let mut put = |at: u64, bytes: &[u8]| {
        let at = usize::try_from(at).unwrap();
        image[at..at + bytes.len()].copy_from_slice(bytes);
    };
    put(0, b"QFI\xfb\0\0\0\x03");
    put(20, &9_u32.to_be_bytes());
    put(24, &(clusters * 512).to_be_bytes());
    put(36, &u32::try_from(tables).unwrap().to_be_bytes());
    put(40, &(l1 * 512).to_be_bytes());
    // QEMU wants a table of reference counts, and does not look into it for reading.
    put(
        48,
        &((1 + l1_clusters + tables + clusters) * 512).to_be_bytes(),
    );
    put(56, &1_u32.to_be_bytes());
    put(96, &4_u32.to_be_bytes());
    put(100, &104_u32.to_be_bytes());
    for table in 0..tables {
        put(
            l1 * 512 + table * 8,
            &(((l2 + table) * 512) | (1 << 63)).to_be_bytes(),
        );
    }
    for (guest, place) in order.iter().enumerate() {
        let host = (data + place) * 512;
        put(
            l2 * 512 + guest as u64 * 8,
            &(host | (1 << 63)).to_be_bytes(),
        );
        let number = u32::try_from(guest).unwrap() + 1;
        put(host, &number.to_be_bytes().repeat(128));
    }
    image
}

/// Runs commands of qemu-io on an image.
pub(crate) fn qemu_io(image: &Path, commands: &[String]) {
    let mut all = vec!["-f", "qcow2"];
    for command in commands {
        all.extend(["-c", command]);
    }
    all.push(text(image));
    run("qemu-io", &all);
}

/// A decoded image, and what it took.
pub(crate) struct Decoded {
    pub(crate) disk: Vec<u8>,
    pub(crate) content: String,
    pub(crate) passes: u32,
    pub(crate) parked: u64,
}

/// Decodes an image that comes in pieces of this length.
pub(crate) fn decode(
    image: &[u8],
    sink: &mut MemorySink,
    piece: usize,
    threads: usize,
) -> Result<Decoded, Error> {
    let header = Header::parse(image)?;
    let mut canvas = Canvas::new(sink as &mut dyn Sink, header.size)?;
    let mut stream = Stream::new(header, threads);
    let mut passes = 0;
    loop {
        passes += 1;
        for part in image.chunks(piece) {
            stream.feed(part, &mut canvas)?;
        }
        if stream.end(&mut canvas)? == Ended::Done {
            break;
        }
    }
    let parked = canvas.parked();
    let finished = canvas.finish()?;
    Ok(Decoded {
        disk: sink.to_vec(),
        content: finished.content.to_string(),
        passes,
        parked,
    })
}

/// Decodes to a file-like and a device-like target and asks that both are as the oracle's.
pub(crate) fn agrees(folder: &Folder, image: &Path) -> (Decoded, Decoded) {
    let bytes = std::fs::read(image).unwrap();
    let expected = folder.oracle(image);
    let file = decode(&bytes, &mut MemorySink::new(None), 100_003, 2).unwrap();
    assert!(file.disk == expected, "file: {}", image.display());
    let mut device = MemorySink::device(expected.len() as u64);
    let device = decode(&bytes, &mut device, 1 << 20, 0).unwrap();
    assert!(device.disk == expected, "device: {}", image.display());
    assert_eq!(file.content, device.content);
    (file, device)
}
