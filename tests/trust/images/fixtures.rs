//! Layers, streams and images that no builder makes, and a registry that serves them.

use std::collections::HashMap;
use std::io::Write as _;
use std::process::Command;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use platform::{Algorithm, Digest, Hasher};
use serde_json::{Value, json};
use testkit::{FaultyServer, ScriptedResponse};

pub(crate) const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";

/// A stored layer, and the digest of its uncompressed content.
#[derive(Clone)]
pub(crate) struct Blob {
    pub(crate) bytes: Bytes,
    pub(crate) diff_id: Digest,
}

/// A layer under construction, compressed as it grows.
pub(crate) struct Layer {
    out: GzEncoder<Vec<u8>>,
    hasher: Hasher,
}

pub(crate) fn header(flag: u8, name: &str, link: &str, size: [u8; 12]) -> Vec<u8> {
    let mut block = vec![0; 512];
    let mut set = |at: usize, bytes: &[u8]| block[at..at + bytes.len()].copy_from_slice(bytes);
    set(0, name.as_bytes());
    set(100, b"0000755\0");
    set(108, b"0000000\0");
    set(116, b"0000000\0");
    set(124, &size);
    set(136, b"14524770400\0");
    set(148, b"        ");
    set(156, &[flag]);
    set(157, link.as_bytes());
    set(257, b"ustar\x0000");
    let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
    block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    block
}

pub(crate) fn octal(size: usize) -> [u8; 12] {
    format!("{size:011o}\0").into_bytes().try_into().unwrap()
}

impl Layer {
    pub(crate) fn new() -> Self {
        Self {
            out: GzEncoder::new(Vec::new(), Compression::fast()),
            hasher: Hasher::new(Algorithm::Sha256),
        }
    }

    pub(crate) fn raw(&mut self, bytes: &[u8]) {
        self.hasher.update(bytes);
        self.out.write_all(bytes).unwrap();
    }

    pub(crate) fn entry(&mut self, flag: u8, name: &str, link: &str, content: &[u8]) {
        self.raw(&header(flag, name, link, octal(content.len())));
        self.raw(content);
        self.raw(&vec![
            0;
            content.len().next_multiple_of(512) - content.len()
        ]);
    }

    /// Records of an extended header for the next entry.
    pub(crate) fn pax(&mut self, records: &[(&str, &[u8])]) {
        let mut all = Vec::new();
        for (key, value) in records {
            let rest = key.len() + value.len() + 3;
            let digits = (1..10).find(|digits| (rest + digits).to_string().len() == *digits);
            all.extend(format!("{} {key}=", rest + digits.unwrap()).into_bytes());
            all.extend(*value);
            all.push(b'\n');
        }
        self.entry(b'x', "pax", "", &all);
    }

    pub(crate) fn path(&mut self, flag: u8, path: &str, link: &str) {
        self.pax(&[("path", path.as_bytes()), ("linkpath", link.as_bytes())]);
        self.entry(flag, "x", "", b"");
    }

    pub(crate) fn finish(mut self) -> Blob {
        self.raw(&[0; 1024]);
        Blob {
            bytes: self.out.finish().unwrap().into(),
            diff_id: self.hasher.finish(),
        }
    }
}

pub(crate) fn layer(make: impl FnOnce(&mut Layer)) -> Blob {
    let mut layer = Layer::new();
    make(&mut layer);
    layer.finish()
}

/// A zstd stream with any window size, of headers and zeros: four bytes for each 128 KiB.
pub(crate) fn zstd(window_log: u8, head: &[u8], zeros: usize) -> Bytes {
    let mut bytes = vec![0x28, 0xb5, 0x2f, 0xfd, 0, (window_log - 10) << 3];
    let mut block = |kind: usize, length: usize, is_last: bool, data: &[u8]| {
        let header = usize::from(is_last) | kind << 1 | length << 3;
        bytes.extend(&header.to_le_bytes()[..3]);
        bytes.extend(data);
    };
    block(0, head.len(), false, head);
    let pieces = zeros.div_ceil(128 << 10);
    for piece in 0..pieces {
        block(1, 128 << 10, piece + 1 == pieces, &[0]);
    }
    bytes.into()
}

/// Images that a hostile registry serves.
#[derive(Default)]
pub(crate) struct Images {
    blobs: HashMap<String, Bytes>,
    names: HashMap<String, Bytes>,
}

impl Images {
    pub(crate) fn blob(&mut self, bytes: impl Into<Bytes>) -> Value {
        let bytes = bytes.into();
        let digest = Digest::sha256(&bytes);
        let described = json!({"digest": digest, "size": bytes.len()});
        self.blobs.insert(digest.hash().to_owned(), bytes);
        described
    }

    pub(crate) fn add(&mut self, name: &str, layers: &[Blob]) {
        self.add_with(name, layers, json!({}), json!({}));
    }

    /// Adds an image with additional fields in manifest and config.
    pub(crate) fn add_with(
        &mut self,
        name: &str,
        layers: &[Blob],
        mut manifest: Value,
        mut config: Value,
    ) {
        let diff_ids: Vec<&Digest> = layers.iter().map(|layer| &layer.diff_id).collect();
        config["os"] = json!("linux");
        config["architecture"] = json!(oci::resolve::own_architecture());
        config["rootfs"] = json!({"type": "layers", "diff_ids": diff_ids});
        let mut config = self.blob(config.to_string());
        config["mediaType"] = json!("application/vnd.oci.image.config.v1+json");
        let layers: Vec<Value> = layers
            .iter()
            .map(|layer| {
                let mut layer = self.blob(layer.bytes.clone());
                layer["mediaType"] = json!("application/vnd.oci.image.layer.v1.tar+gzip");
                layer
            })
            .collect();
        manifest["schemaVersion"] = json!(2);
        manifest["mediaType"] = json!(MANIFEST);
        manifest["config"] = config;
        if manifest["layers"].is_null() {
            manifest["layers"] = json!(layers);
        }
        let manifest = Bytes::from(manifest.to_string());
        self.blob(manifest.clone());
        self.names.insert(name.to_owned(), manifest);
    }

    pub(crate) async fn serve(self) -> FaultyServer {
        let server = FaultyServer::start(move |asked| {
            let parts: Vec<&str> = asked.path.split('/').collect();
            let [.., name, kind, wanted] = parts.as_slice() else {
                return ScriptedResponse::answer(200, "{}");
            };
            let found = match wanted.strip_prefix("sha256:") {
                Some(hash) => self.blobs.get(hash),
                None => self.names.get(*name),
            };
            let Some(bytes) = found else {
                return ScriptedResponse::answer(404, "");
            };
            let answer = ScriptedResponse::answer(200, bytes.clone());
            if *kind == "manifests" {
                return answer.with("Content-Type", MANIFEST);
            }
            answer
        });
        server.await.unwrap()
    }
}

pub(crate) fn good() -> Blob {
    layer(|layer| layer.entry(b'0', "etc/which", "", b"good"))
}

/// A base layer for others.
pub(crate) fn base() -> Blob {
    layer(|layer| layer.entry(b'0', "base", "", b"base"))
}

/// Zeros, compressed by xz with a window of any size.
pub(crate) fn xz(window: u64, zeros: u64) -> Vec<u8> {
    const PACK: &str = "
import lzma, sys
filters = [{'id': lzma.FILTER_LZMA2, 'preset': 1, 'dict_size': int(sys.argv[1])}]
packer = lzma.LZMACompressor(filters=filters)
for _ in range(int(sys.argv[2]) >> 20):
    sys.stdout.buffer.write(packer.compress(bytes(1 << 20)))
sys.stdout.buffer.write(packer.flush())
";
    let (window, zeros) = (window.to_string(), zeros.to_string());
    let output = Command::new("python3")
        .args(["-c", PACK, &window, &zeros])
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    output.stdout
}

/// A zstd layer with the largest accepted window, of one file and zeros behind it.
pub(crate) fn in_largest_window(name: &str, content: &[u8]) -> Blob {
    let mut head = header(b'0', name, "", octal(content.len()));
    head.extend(content);
    head.resize(head.len().next_multiple_of(512), 0);
    let zeros = 64 << 20;
    let mut hasher = Hasher::new(Algorithm::Sha256);
    hasher.update(&head);
    for _ in 0..64 {
        hasher.update(&vec![0; 1 << 20]);
    }
    Blob {
        bytes: zstd(25, &head, zeros),
        diff_id: hasher.finish(),
    }
}

/// A qcow2 image of small clusters whose L1 table references half a million missing L2 tables.
pub(crate) fn many_tables() -> Vec<u8> {
    let mut image = vec![0; 512];
    let mut set = |at: usize, bytes: &[u8]| image[at..at + bytes.len()].copy_from_slice(bytes);
    let tables = 1_u32 << 19;
    set(0, b"QFI\xfb\0\0\0\x02");
    set(20, &9_u32.to_be_bytes());
    set(24, &(u64::from(tables) << 15).to_be_bytes());
    set(36, &tables.to_be_bytes());
    set(40, &512_u64.to_be_bytes());
    for table in 0..u64::from(tables) {
        image.extend(((1 << 40) + (table << 9)).to_be_bytes());
    }
    image
}
