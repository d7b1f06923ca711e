//! Every way a disk can be packed, against qemu-img.

use std::os::unix::fs::MetadataExt as _;

use platform::Digest;
use rstest::rstest;

use super::fixture::{Log, Registry, archive, pack, pack_parts};
use crate::image::Format;
use crate::import::{Contents, Options};
use crate::qcow2::tests::fixture::{Folder, run, text};
use crate::sink::{FileSink, MemorySink};
use crate::unpack::Packing;

#[rstest]
fn all_layer_and_disk_formats_give_the_same_disk(
    #[values(Packing::Plain, Packing::Gzip, Packing::Zstd, Packing::Xz)] packing: Packing,
    #[values(
        "raw",
        "qcow2",
        "qcow2 -c",
        "raw.gz",
        "raw.xz",
        "qcow2.zst",
        "qcow2.gz.xz"
    )]
    format: &str,
) {
    let folder = Folder::new();
    let raw = folder.raw("disk.raw", 3_000_320, 77);
    let expected = std::fs::read(&raw).unwrap();
    let image = match format.split('.').next().unwrap() {
        "raw" => raw,
        "qcow2" => folder.convert(&raw, "disk.qcow2", &[]),
        _ => folder.convert(&raw, "disk.qcow2", &["-c"]),
    };
    let mut file = std::fs::read(image).unwrap();
    for suffix in format.split('.').skip(1) {
        file = match suffix {
            "gz" => pack(Packing::Gzip, &file),
            "xz" => pack(Packing::Xz, &file),
            _ => pack(Packing::Zstd, &file),
        };
    }
    let mut registry = Registry::with(&[("disk/", b""), ("disk/disk.img", &file)], packing);
    let mut sink = MemorySink::new(Some(expected.len() as u64));
    let imported = registry.import(&mut sink).unwrap();
    assert!(sink.to_vec() == expected);
    assert_eq!(imported.path.as_deref(), Some("disk.img"));
    assert_eq!(imported.size, expected.len() as u64);
    assert_eq!(imported.passes, 1);
    assert_eq!(
        matches!(imported.format, Format::Qcow2(_)),
        format.starts_with("qcow2")
    );
    assert_eq!(Some(imported.diff_id), registry.layers[0].diff_id);
    assert_eq!(imported.fetched, registry.layers[0].size.unwrap());

    // The name of the content is that of a plain import.
    let mut plain = Registry::with(&[("disk/x", &expected)], Packing::Plain);
    let other = plain.import(&mut MemorySink::new(None)).unwrap();
    assert_eq!(imported.content, other.content);
    // A device gets the same.
    let mut device = MemorySink::device(4 << 20);
    assert_eq!(registry.import(&mut device).unwrap().content, other.content);
    assert!(device.to_vec() == expected);
}

#[rstest]
#[case::one_byte(1)]
#[case::a_sector_and_a_byte(513)]
#[case::odd(99_999)]
fn raw_disks_are_filled_up_to_a_sector_as_qemu_does(#[case] size: usize) {
    let folder = Folder::new();
    let raw = folder.raw("disk.raw", size, 3);
    let oracle = folder.path("oracle.raw");
    run(
        "qemu-img",
        &[
            "convert",
            "-f",
            "raw",
            "-O",
            "raw",
            text(&raw),
            text(&oracle),
        ],
    );
    for file in ["disk/a", "disk/a.gz"] {
        let mut data = std::fs::read(&raw).unwrap();
        if file.ends_with("gz") {
            data = pack(Packing::Gzip, &data);
        }
        let mut registry = Registry::with(&[(file, &data)], Packing::Gzip);
        let mut sink = MemorySink::new(None);
        registry.import(&mut sink).unwrap();
        assert!(sink.to_vec() == std::fs::read(&oracle).unwrap());
    }
}

#[test]
fn layer_below_512_bytes_is_accepted() {
    let mut registry = Registry::with(&[("disk/disk.img", &vec![0; 100_000])], Packing::Zstd);
    assert!(registry.layers[0].size.unwrap() < 512);
    let mut sink = MemorySink::new(None);
    let imported = registry.import(&mut sink).unwrap();
    assert_eq!(
        (imported.size, imported.written, sink.kept()),
        (100_352, 0, 0)
    );
}

#[test]
fn upper_layer_wins_and_lower_ones_are_not_fetched() {
    let mut registry = Registry::with(&[("disk/disk.img", b"old")], Packing::Gzip);
    let upper = archive(&[("./disk/disk.img", b"new")]);
    registry.push(pack(Packing::Zstd, &upper), &upper);
    let top = archive(&[("etc/motd", b"hello")]);
    registry.push(pack(Packing::Gzip, &top), &top);
    let mut sink = MemorySink::new(None);
    let imported = registry.import(&mut sink).unwrap();
    assert_eq!(&sink.to_vec()[..3], b"new");
    assert_eq!(imported.layer, registry.layers[1].digest);
    let opened: Vec<_> = registry
        .opened
        .iter()
        .map(|(digest, _)| digest.clone())
        .collect();
    assert_eq!(
        opened,
        [
            registry.layers[2].digest.clone(),
            registry.layers[1].digest.clone()
        ]
    );
}

#[test]
fn a_whiteout_hides_the_disk_below() {
    let mut registry = Registry::with(&[("disk/disk.img", b"old")], Packing::Gzip);
    let upper = archive(&[("disk/.wh.disk.img", b"")]);
    registry.push(pack(Packing::Gzip, &upper), &upper);
    let error = registry.import(&mut MemorySink::new(None)).unwrap_err();
    assert_eq!(error.reason(), "NoDisk");
}

#[test]
fn an_artifact_is_the_disk_itself() {
    let folder = Folder::new();
    let raw = std::fs::read(folder.raw("disk.raw", 2 << 20, 9)).unwrap();
    let mut registry = Registry::default();
    registry.push(pack(Packing::Zstd, &raw), &raw);
    registry.layers[0].contents = Contents::of_media_type("application/vnd.kubevirt.disk.raw+zstd");
    let mut sink = MemorySink::new(None);
    let imported = registry.import(&mut sink).unwrap();
    assert!(sink.to_vec() == raw);
    assert_eq!(imported.path, None);
}

#[test]
fn digest_of_an_unverified_file_is_computed() {
    let folder = Folder::new();
    let raw = std::fs::read(folder.raw("disk.raw", 2 << 20, 9)).unwrap();
    let mut registry = Registry::default();
    registry.push(pack(Packing::Xz, &raw), &raw);
    let layer = &mut registry.layers[0];
    let real = layer.digest.clone();
    let blob = registry.blobs.remove(&real.to_string()).unwrap();
    layer.contents = Contents::Disk;
    layer.diff_id = None;
    layer.size = None;
    layer.digest = Digest::sha256(b"a name");
    registry.blobs.insert(layer.digest.to_string(), blob);
    // A stated digest has to match.
    let error = registry.import(&mut MemorySink::new(None)).unwrap_err();
    assert_eq!(error.reason(), "DigestMismatch");
    registry.layers[0].is_verified = false;
    let mut sink = MemorySink::new(None);
    let imported = registry.import(&mut sink).unwrap();
    assert!(sink.to_vec() == raw);
    assert_eq!(imported.layer, real);
}

#[rstest]
#[case("vmdk")]
#[case("vdi")]
#[case("vhdx")]
#[case("vpc")]
#[case("qed")]
#[case("parallels")]
fn other_formats_are_named(#[case] format: &str) {
    let folder = Folder::new();
    let raw = folder.raw("disk.raw", 1 << 20, 9);
    let image = folder.convert_to(format, &raw, "disk.img", &[]);
    let file = std::fs::read(image).unwrap();
    let mut registry = Registry::with(&[("disk/disk.img", &file)], Packing::Gzip);
    let mut sink = MemorySink::new(None);
    let error = registry.import(&mut sink).unwrap_err();
    assert_eq!(error.reason(), "UnsupportedFormat");
    assert!(error.to_string().contains(format), "{error}");
    assert_eq!(sink.highest(), 0);
}

#[test]
fn file_is_sparse_and_progress_is_reported() {
    let folder = Folder::new();
    let image = folder.create("disk.qcow2", "", "300M");
    crate::qcow2::tests::fixture::qemu_io(
        &image,
        &[
            "write -P 3 100M 20M".to_owned(),
            "write -P 4 290M 64k".to_owned(),
        ],
    );
    let file = std::fs::read(&image).unwrap();
    let mut registry = Registry::with(&[("disk/disk.img", &file)], Packing::Plain);
    let path = folder.path("target.raw");
    let target = std::fs::File::options()
        .read(true)
        .write(true)
        .create_new(true)
        .open(&path)
        .unwrap();
    let mut sink = FileSink::new(target, Some(300 << 20)).unwrap();
    let mut log = Log::default();
    let imported = registry
        .import_with(&mut sink, &Options::default(), None, &mut log)
        .unwrap();
    let about = sink.into_inner().metadata().unwrap();
    assert_eq!(about.len(), 300 << 20);
    assert!(about.blocks() * 512 < 22 << 20);
    assert_eq!(imported.written, (20 << 20) + (64 << 10));
    run(
        "qemu-img",
        &[
            "compare",
            "-f",
            "qcow2",
            "-F",
            "raw",
            text(&image),
            text(&path),
        ],
    );

    assert!(log.reports.len() > 5);
    let total = registry.layers[0].size;
    for pair in log.reports.windows(2) {
        assert!(pair[0].fetched <= pair[1].fetched && pair[0].written <= pair[1].written);
    }
    let last = log.reports.last().unwrap();
    assert_eq!((last.total, last.disk), (total, Some(300 << 20)));
    assert!(last.rate > 0 && last.eta.is_some() && last.percent().unwrap() > 90.0);
}

#[test]
fn members_of_gzip_are_one_stream() {
    let tar = archive(&[("disk/disk.img", &vec![5; 200_000])]);
    let mut registry = Registry::default();
    registry.push(pack_parts(Packing::Gzip, &tar, 70_000), &tar);
    let mut sink = MemorySink::new(None);
    registry.import(&mut sink).unwrap();
    assert_eq!(
        Digest::sha256(&sink.to_vec()[..200_000]),
        Digest::sha256(&vec![5; 200_000])
    );
}
