//! Archives, streams and disk images: small, so that a mutation likely hits a significant byte.

use std::io::Write as _;

use super::Seeds;

/// One header of an archive.
fn header(path: &[u8], kind: u8, size: usize, link: &[u8]) -> Vec<u8> {
    let mut block = vec![0; 512];
    let mut put = |at: usize, bytes: &[u8]| {
        if let Some(place) = block.get_mut(at..at + bytes.len()) {
            place.copy_from_slice(bytes);
        }
    };
    put(0, path);
    put(124, format!("{size:011o}").as_bytes());
    put(148, b"        ");
    put(156, &[kind]);
    put(157, link);
    put(257, b"ustar\x0000");
    let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
    if let Some(place) = block.get_mut(148..156) {
        place.copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    }
    block
}

fn entry(path: &[u8], kind: u8, data: &[u8], link: &[u8]) -> Vec<u8> {
    let mut all = header(path, kind, data.len(), link);
    all.extend_from_slice(data);
    all.resize(all.len().next_multiple_of(512), 0);
    all
}

fn archive(entries: &[Vec<u8>]) -> Vec<u8> {
    let mut all = entries.concat();
    all.resize(all.len() + 1024, 0);
    all
}

/// The header of an old GNU sparse file of two regions, with a block behind it.
fn old_sparse() -> Vec<u8> {
    let mut all = header(b"disk/s", b'S', 1024, b"");
    let mut put = |at: usize, bytes: &[u8]| {
        if let Some(place) = all.get_mut(at..at + bytes.len()) {
            place.copy_from_slice(bytes);
        }
    };
    put(386, b"00000001000\x0000000001000\0");
    put(482, b"\x0100000010000\0");
    put(148, b"        ");
    let sum: u32 = all.iter().map(|byte| u32::from(*byte)).sum();
    if let Some(place) = all.get_mut(148..156) {
        place.copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    }
    all.extend(b"00000004000\x0000000001000\0");
    all.resize(1024, 0);
    all
}

/// For `snapshot`: layers with their lengths.
pub fn snapshots() -> Seeds {
    let images = [
        vec![
            archive(&[
                entry(b"a/", b'5', b"", b""),
                entry(b"a/file", b'0', b"below", b""),
                entry(b"a/deep/er/file", b'0', b"below", b""),
                entry(b"link", b'2', b"", b"/a"),
            ]),
            archive(&[
                entry(b"link/more", b'0', b"above", b""),
                entry(b"a/hard", b'1', b"", b"a/file"),
                entry(b"a/deep/.wh..wh..opq", b'0', b"", b""),
                entry(b"a/.wh.file", b'0', b"", b""),
                entry(b"up", b'2', b"", b"../../../up"),
                entry(b"up/x", b'0', b"x", b""),
            ]),
        ],
        vec![
            archive(&[old_sparse(), vec![5; 1024]]),
            pack(
                "gzip",
                &archive(&[entry(b"disk", b'0', b"file", b"")]),
                1 << 20,
            ),
        ],
        vec![archive(&[
            entry(b"pax", b'x', b"33 SCHILY.xattr.user.colour=blue\n", b""),
            entry(b"pipe", b'6', b"", b""),
            entry(b"../out", b'0', b"x", b""),
        ])],
    ];
    let with_length = |layer: &Vec<u8>| {
        let length = u16::try_from(layer.len()).expect("seeds are small");
        [&length.to_le_bytes()[..], layer].concat()
    };
    let image = |layers: &Vec<Vec<u8>>| layers.iter().flat_map(with_length).collect();
    images.iter().map(image).collect()
}

/// For `tar`.
pub fn archives() -> Seeds {
    let folder = entry(b"./disk/", b'5', b"", b"");
    let file = entry(b"disk/disk.img", b'0', &[7; 700], b"");
    let pax = entry(b"pax", b'x', b"19 path=disk/a.img\n12 size=512\n", b"");
    let file_of = |size: usize| header(b"disk/s", b'0', size, b"");
    let listed = b"33 GNU.sparse.map=512,512,4096,0\n24 GNU.sparse.size=4096\n";
    let in_data = b"22 GNU.sparse.major=1\n22 GNU.sparse.minor=0\n28 GNU.sparse.realsize=4096\n";
    let mut map = b"1\n1024\n512\n".to_vec();
    map.resize(512, 0);
    let mut base256 = header(b"disk/large", b'0', 0, b"");
    if let Some(size) = base256.get_mut(124..136) {
        size.copy_from_slice(&[0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0]);
    }
    // The largest size that the field can hold.
    let mut longest = base256.clone();
    if let Some(size) = longest.get_mut(128..136) {
        size.fill(0xff);
    }
    vec![
        [longest, vec![4; 1024]].concat(),
        archive(&[folder.clone(), file.clone()]),
        archive(&[
            folder.clone(),
            entry(b"disk/link", b'2', b"", b"disk.img"),
            entry(b"disk/hard", b'1', b"", b"disk/disk.img"),
            file.clone(),
        ]),
        archive(&[pax, header(b"short", b'0', 512, b""), vec![1; 512]]),
        archive(&[entry(b"pax", b'x', listed, b""), file_of(512), vec![5; 512]]),
        archive(&[
            entry(b"pax", b'x', in_data, b""),
            file_of(1024),
            map,
            vec![5; 512],
        ]),
        archive(&[old_sparse(), vec![5; 1024]]),
        archive(&[
            entry(b"././@LongLink", b'L', b"disk/long name.img\0", b""),
            file.clone(),
        ]),
        archive(&[
            entry(b"disk/.wh.old", b'0', b"", b""),
            entry(b"disk/.wh..wh..opq", b'0', b"", b""),
            entry(b"../disk/x", b'0', b"x", b""),
        ]),
        archive(&[base256, vec![3; 512]]),
        // Truncated.
        file,
    ]
}

/// Compressed in members or frames of this many bytes.
fn pack(kind: &str, data: &[u8], part: usize) -> Vec<u8> {
    let one = |part: &[u8]| match kind {
        "gzip" => {
            let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            out.write_all(part).and_then(|()| out.finish())
        }
        "zstd" => zstd::stream::encode_all(part, 1),
        _ => {
            let mut out = liblzma::write::XzEncoder::new(Vec::new(), 1);
            out.write_all(part).and_then(|()| out.finish())
        }
    };
    data.chunks(part)
        .flat_map(|part| one(part).expect("memory can be written"))
        .collect()
}

/// For `unpack`.
pub fn streams() -> Seeds {
    let data: Vec<u8> = (0..3000_u32).flat_map(|n| (n / 7).to_le_bytes()).collect();
    let mut all = vec![b"plain".to_vec(), Vec::new()];
    for kind in ["gzip", "zstd", "xz"] {
        all.push(pack(kind, &data, data.len()));
        all.push(pack(kind, &data, 1000));
    }
    // gzip allows zeros after the last member, zstd skippable frames.
    let mut padded = pack("gzip", b"x", 1);
    padded.resize(padded.len() + 20, 0);
    all.push(padded);
    all.push(
        [
            b"\x50\x2a\x4d\x18\x02\0\0\0ab".to_vec(),
            pack("zstd", b"x", 1),
        ]
        .concat(),
    );
    all
}

/// Layout options of a qcow2 image.
#[derive(Debug, Clone, Copy)]
struct Shape {
    version: u32,
    bits: u32,
    extended: bool,
    zstd: bool,
    tables_first: bool,
}

const PLAIN: Shape = Shape {
    version: 3,
    bits: 9,
    extended: false,
    zstd: false,
    tables_first: true,
};

/// A qcow2 image under construction.
struct Image {
    bytes: Vec<u8>,
    shape: Shape,
    cluster: u64,
    /// The clusters of its two L2 tables.
    l2: [u64; 2],
}

impl Image {
    fn put(&mut self, at: u64, bytes: &[u8]) {
        let at = usize::try_from(at).unwrap_or(usize::MAX);
        self.bytes
            .get_mut(at..at.saturating_add(bytes.len()))
            .expect("it is inside the image")
            .copy_from_slice(bytes);
    }

    /// Writes an L2 table entry, and its subcluster bits if it has any.
    fn map(&mut self, table: usize, number: u64, entry: u64, parts: u64) {
        let width = if self.shape.extended { 16 } else { 8 };
        let at = self.l2[table] * self.cluster + number * width;
        self.put(at, &entry.to_be_bytes());
        if self.shape.extended {
            self.put(at + 8, &parts.to_be_bytes());
        }
    }

    fn fill(&self, byte: u8) -> Vec<u8> {
        vec![byte; usize::try_from(self.cluster).unwrap_or(0)]
    }
}

/// An image with two L2 tables, a run, lone clusters, zeros, and two compressed clusters side by side.
fn image(shape: Shape) -> Vec<u8> {
    let cluster = 1_u64 << shape.bits;
    // The first cluster mapped by the second table; with large clusters, one table maps more than is needed.
    let (second, first, size) = if shape.extended {
        (0, 8, 16 * cluster)
    } else {
        (1, 0, (cluster / 8 + 5) * cluster)
    };
    // The header, then tables and data in either order, then reference counts.
    let (l1, data) = if shape.tables_first { (1, 4) } else { (7, 1) };
    let counts = 10;
    let mut image = Image {
        bytes: vec![0; usize::try_from((counts + 1) * cluster).unwrap_or(0)],
        shape,
        cluster,
        l2: [l1 + 1, l1 + 2],
    };
    image.put(0, b"QFI\xfb");
    image.put(4, &shape.version.to_be_bytes());
    image.put(20, &shape.bits.to_be_bytes());
    image.put(24, &size.to_be_bytes());
    image.put(36, &2_u32.to_be_bytes());
    image.put(40, &(l1 * cluster).to_be_bytes());
    image.put(48, &(counts * cluster).to_be_bytes());
    image.put(56, &1_u32.to_be_bytes());
    if shape.version == 3 {
        let features = u64::from(shape.zstd) << 3 | u64::from(shape.extended) << 4;
        image.put(72, &features.to_be_bytes());
        image.put(96, &4_u32.to_be_bytes());
        image.put(100, &112_u32.to_be_bytes());
        image.put(104, &[u8::from(shape.zstd)]);
    }
    for (number, table) in image.l2.into_iter().enumerate() {
        image.put(
            l1 * cluster + number as u64 * 8,
            &(table * cluster).to_be_bytes(),
        );
    }
    let all = u64::from(u32::MAX);
    for (number, place) in [(0, 0), (1, 1), (2, 2), (5, 3)] {
        let parts = if number == 5 {
            0x00ff_0000_0000_0f0f
        } else {
            all
        };
        image.map(0, number, (data + place) * cluster, parts);
    }
    if shape.version == 3 && !shape.extended {
        image.map(0, 7, 1, 0);
    }
    image.map(second, first + 2, (data + 4) * cluster, all);
    for number in 0..5_u8 {
        let filled = image.fill(number + 1);
        image.put((data + u64::from(number)) * cluster, &filled);
    }
    let mut host = (data + 5) * cluster;
    for (number, byte) in [(3, 0x55), (4, 0x66)] {
        let packed = compressed(shape.zstd, &image.fill(byte));
        let ends = host + packed.len() as u64;
        let sectors = ((ends - 1) >> 9) - (host >> 9);
        let shift = 62 - (shape.bits - 8);
        image.map(second, first + number, 1 << 62 | sectors << shift | host, 0);
        image.put(host, &packed);
        host = ends;
    }
    image.bytes
}

fn compressed(zstd: bool, data: &[u8]) -> Vec<u8> {
    if zstd {
        return zstd::stream::encode_all(data, 1).expect("memory can be written");
    }
    let mut out = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::fast());
    out.write_all(data)
        .and_then(|()| out.finish())
        .expect("memory can be written")
}

/// For `qcow2`.
pub fn qcow2_images() -> Seeds {
    [
        PLAIN,
        Shape {
            version: 2,
            ..PLAIN
        },
        Shape {
            zstd: true,
            ..PLAIN
        },
        Shape {
            tables_first: false,
            ..PLAIN
        },
        Shape {
            bits: 14,
            extended: true,
            ..PLAIN
        },
    ]
    .into_iter()
    .map(image)
    .collect()
}

/// For `layer`.
pub fn layers() -> Seeds {
    let folder = entry(b"disk/", b'5', b"", b"");
    let mut all = archives();
    for disk in [
        image(PLAIN),
        pack("gzip", &image(PLAIN), 9000),
        vec![7; 1500],
    ] {
        let layer = archive(&[folder.clone(), entry(b"disk/disk.img", b'0', &disk, b"")]);
        for kind in ["gzip", "zstd", "xz"] {
            all.push(pack(kind, &layer, 4000));
        }
        all.push(layer);
        // A bare disk without an archive, as in OCI artifacts.
        all.push([b"D".to_vec(), disk].concat());
    }
    all
}
