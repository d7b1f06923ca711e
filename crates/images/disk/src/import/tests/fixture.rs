//! Layers, sources and watchers.

use std::collections::BTreeMap;
use std::io::{self, Cursor, Read, Write as _};
use std::ops::ControlFlow;
use std::time::Duration;

use platform::Digest;

use crate::Error;
use crate::import::{Checkpoint, Contents, Imported, Layer, Options, Source, Watch, import};
use crate::progress::Progress;
use crate::sink::Sink;
use crate::unpack::Packing;

/// An archive with these files.
pub(super) fn archive(files: &[(&str, &[u8])]) -> Vec<u8> {
    let mut all = Vec::new();
    for (path, data) in files {
        let mut block = [0_u8; 512];
        block[..path.len()].copy_from_slice(path.as_bytes());
        block[124..136].copy_from_slice(format!("{:011o}\0", data.len()).as_bytes());
        block[148..156].fill(b' ');
        block[156] = if path.ends_with('/') { b'5' } else { b'0' };
        block[257..265].copy_from_slice(b"ustar\x0000");
        let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
        block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        all.extend_from_slice(&block);
        all.extend_from_slice(data);
        all.resize(all.len().next_multiple_of(512), 0);
    }
    all.resize(all.len() + 1024, 0);
    all
}

pub(super) fn pack(packing: Packing, data: &[u8]) -> Vec<u8> {
    match packing {
        Packing::Plain => data.to_vec(),
        Packing::Gzip => {
            let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            out.write_all(data).unwrap();
            out.finish().unwrap()
        }
        Packing::Zstd => zstd::stream::encode_all(data, 1).unwrap(),
        Packing::Xz => {
            let mut out = liblzma::write::XzEncoder::new(Vec::new(), 1);
            out.write_all(data).unwrap();
            out.finish().unwrap()
        }
    }
}

/// Packed in parts of this many bytes, one after the other.
pub(super) fn pack_parts(packing: Packing, data: &[u8], part: usize) -> Vec<u8> {
    data.chunks(part)
        .flat_map(|part| pack(packing, part))
        .collect()
}

/// A registry in memory.
#[derive(Default)]
pub(super) struct Registry {
    pub(super) layers: Vec<Layer>,
    pub(super) blobs: BTreeMap<String, Vec<u8>>,
    /// Every request: digest and offset.
    pub(super) opened: Vec<(Digest, u64)>,
    /// The connection breaks after this many bytes of a blob.
    pub(super) breaks_at: Option<u64>,
    /// A blob can be had once.
    pub(super) once: bool,
}

impl Registry {
    /// Adds a layer above the others.
    pub(super) fn push(&mut self, blob: Vec<u8>, unpacked: &[u8]) -> &mut Self {
        self.layers.push(Layer {
            digest: Digest::sha256(&blob),
            is_verified: true,
            size: Some(blob.len() as u64),
            diff_id: Some(Digest::sha256(unpacked)),
            contents: Contents::Archive,
        });
        self.blobs.insert(Digest::sha256(&blob).to_string(), blob);
        self
    }

    pub(super) fn with(files: &[(&str, &[u8])], packing: Packing) -> Self {
        let mut registry = Self::default();
        let tar = archive(files);
        registry.push(pack(packing, &tar), &tar);
        registry
    }

    pub(super) fn import(&mut self, sink: &mut dyn Sink) -> Result<Imported, Error> {
        self.import_with(sink, &Options::default(), None, &mut Log::default())
    }

    pub(super) fn import_with(
        &mut self,
        sink: &mut dyn Sink,
        options: &Options,
        resume: Option<Checkpoint>,
        log: &mut Log,
    ) -> Result<Imported, Error> {
        let layers = self.layers.clone();
        import(&layers, self, sink, options, resume, log)
    }
}

/// Gives few bytes at once, and an error in the end.
struct Slow {
    from: Cursor<Vec<u8>>,
    left: Option<u64>,
}

impl Read for Slow {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut most = buffer.len().min(10_007);
        if let Some(left) = &mut self.left {
            if *left == 0 {
                return Err(io::ErrorKind::ConnectionReset.into());
            }
            most = most.min(usize::try_from(*left).unwrap_or(usize::MAX));
            *left -= most as u64;
        }
        self.from.read(&mut buffer[..most])
    }
}

impl Source for Registry {
    fn open(&mut self, layer: &Layer, offset: u64) -> io::Result<Box<dyn Read + Send>> {
        if self.once
            && self
                .opened
                .iter()
                .any(|(digest, _)| *digest == layer.digest)
        {
            return Err(io::ErrorKind::Unsupported.into());
        }
        self.opened.push((layer.digest.clone(), offset));
        let blob = self
            .blobs
            .get(&layer.digest.to_string())
            .ok_or(io::ErrorKind::NotFound)?;
        Ok(Box::new(Slow {
            from: Cursor::new(blob[usize::try_from(offset).unwrap_or(usize::MAX)..].to_vec()),
            left: self.breaks_at.map(|at| at.saturating_sub(offset)),
        }))
    }
}

/// Records notifications; every reading of its clock is 50 ms later.
#[derive(Default)]
pub(super) struct Log {
    pub(super) clock: Duration,
    pub(super) reports: Vec<Progress>,
    pub(super) checkpoints: Vec<Checkpoint>,
    /// Ends the import with this report.
    pub(super) enough: Option<usize>,
}

impl Watch for Log {
    fn now(&mut self) -> Duration {
        self.clock += Duration::from_millis(50);
        self.clock
    }

    fn progress(&mut self, progress: &Progress) -> ControlFlow<()> {
        self.reports.push(progress.clone());
        match self.enough {
            Some(enough) if self.reports.len() >= enough => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        }
    }

    fn checkpoint(&mut self, checkpoint: Checkpoint) {
        self.checkpoints.push(checkpoint);
    }
}
