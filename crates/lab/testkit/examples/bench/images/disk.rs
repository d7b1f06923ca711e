//! The imported disk: generated, the same every time.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{BufReader, BufWriter, Read, Seek as _, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, ensure};
use sha2::{Digest as _, Sha256};

/// Bytes generated at once.
const CHUNK: usize = 1 << 20;

/// Compression of the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Layer {
    /// As `docker build` does.
    Gzip,
    /// As `buildah` can.
    Zstd,
    /// Compressed clusters, as in images for download.
    Clusters,
}

impl Layer {
    pub(super) const ALL: [Self; 3] = [Self::Gzip, Self::Zstd, Self::Clusters];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Gzip => "gzip",
            Self::Zstd => "zstd",
            Self::Clusters => "clusters",
        }
    }

    pub(super) fn media_type(self) -> &'static str {
        match self {
            Self::Gzip | Self::Clusters => "application/vnd.oci.image.layer.v1.tar+gzip",
            Self::Zstd => "application/vnd.oci.image.layer.v1.tar+zstd",
        }
    }
}

/// Creates a raw disk: a quarter empty, a quarter incompressible, the rest compressible.
pub(super) fn raw(path: &Path, size: u64) -> anyhow::Result<PathBuf> {
    let mut file = File::create(path).context("making a disk")?;
    let mut dice = 0x2545_f491_4f6c_dd1d_u64;
    let mut roll = move || {
        dice ^= dice << 13;
        dice ^= dice >> 7;
        dice ^= dice << 17;
        dice
    };
    let mut chunk = vec![0; CHUNK];
    for number in 0..size / CHUNK as u64 {
        match number % 4 {
            0 => {
                file.seek_relative(i64::try_from(CHUNK)?)?;
                continue;
            }
            1 => {
                for word in chunk.chunks_exact_mut(8) {
                    word.copy_from_slice(&roll().to_le_bytes());
                }
            }
            // Words of a small vocabulary, which compress to a third, as programs and texts do.
            _ => {
                for word in chunk.chunks_exact_mut(8) {
                    let number = roll() % 4096;
                    let word_of = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
                    word.copy_from_slice(&word_of.to_le_bytes());
                }
            }
        }
        file.write_all(&chunk)?;
    }
    file.set_len(size).context("making a disk")?;
    Ok(path.to_owned())
}

/// A layer in a file.
#[derive(Debug)]
pub(super) struct Packed {
    pub(super) file: PathBuf,
    pub(super) diff_id: String,
}

/// Packs a disk as a layer: qcow2, in an archive, compressed.
pub(super) fn layer(raw: &Path, layer: Layer, folder: &Path) -> anyhow::Result<Packed> {
    let image = folder.join("disk.qcow2");
    let mut convert = Command::new("qemu-img");
    convert.args(["convert", "-f", "raw", "-O", "qcow2"]);
    if layer == Layer::Clusters {
        convert.args(["-c", "-m", "4"]);
    }
    let status = convert.arg(raw).arg(&image).status();
    let status = status.context("starting qemu-img")?;
    ensure!(status.success(), "qemu-img ended with {status}");

    let file = folder.join("layer");
    let out = BufWriter::new(File::create(&file).context("making a layer")?);
    let hash = match layer {
        Layer::Gzip | Layer::Clusters => {
            let mut out = flate2::write::GzEncoder::new(out, flate2::Compression::new(5));
            let hash = archive(&image, &mut out)?;
            out.finish().and_then(|mut out| out.flush()).map(|()| hash)
        }
        Layer::Zstd => {
            let mut out = zstd::Encoder::new(out, 3).context("making a layer")?;
            let hash = archive(&image, &mut out)?;
            out.finish().and_then(|mut out| out.flush()).map(|()| hash)
        }
    };
    let hash = hash.context("writing a layer")?;
    let mut diff_id = "sha256:".to_owned();
    for byte in hash.finalize() {
        write!(diff_id, "{byte:02x}")?;
    }
    Ok(Packed { file, diff_id })
}

/// Writes an archive with the disk, and returns its hash.
fn archive(image: &Path, out: &mut impl Write) -> anyhow::Result<Sha256> {
    let mut file = File::open(image).context("reading the image")?;
    let size = file.seek(SeekFrom::End(0)).context("reading the image")?;
    file.rewind().context("reading the image")?;
    let mut hash = Sha256::new();
    let mut write = |part: &[u8]| {
        hash.update(part);
        out.write_all(part).context("writing a layer")
    };
    write(&header("disk/", b'5', 0))?;
    write(&header("disk/disk.img", b'0', size))?;
    let mut file = BufReader::new(file);
    let mut chunk = vec![0; CHUNK];
    loop {
        let count = file.read(&mut chunk).context("reading the image")?;
        if count == 0 {
            break;
        }
        write(chunk.get(..count).unwrap_or_default())?;
    }
    let end = size.next_multiple_of(512) - size + 1024;
    write(&vec![0; usize::try_from(end)?])?;
    Ok(hash)
}

fn header(path: &str, kind: u8, size: u64) -> [u8; 512] {
    let mut block = [0; 512];
    let mut put = |at: usize, bytes: &[u8]| {
        if let Some(place) = block.get_mut(at..at + bytes.len()) {
            place.copy_from_slice(bytes);
        }
    };
    put(0, path.as_bytes());
    put(100, b"0000755\0");
    put(124, format!("{size:011o}\0").as_bytes());
    put(136, b"00000000000\0");
    put(148, b"        ");
    put(156, &[kind]);
    put(257, b"ustar\x0000");
    let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
    if let Some(place) = block.get_mut(148..156) {
        place.copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    }
    block
}
