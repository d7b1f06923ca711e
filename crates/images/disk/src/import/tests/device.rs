//! Block devices: real ones, as loop devices.
//!
//! They need root and loop devices. With `MEDLEY_TEST_WITHOUT_DEVICES=1`, which `cargo xtask test` sets where there are none,
//! the tests use a file instead: that shows the decisions, but not the behaviour of the kernel.

use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use rstest::rstest;

use super::fixture::{Registry, pack};
use crate::qcow2::tests::fixture::{Folder, run, text};
use crate::sink::{FileSink, MemorySink, Sink as _};
use crate::unpack::Packing;

const MIB: usize = 1 << 20;

/// A device that ends with the test. It has been used before: there is something on it.
struct Device {
    path: PathBuf,
    is_loop: bool,
}

impl Device {
    fn new(folder: &Folder, size: usize) -> Self {
        let path = folder.path("device");
        std::fs::write(&path, vec![0xa5; size]).unwrap();
        if std::env::var_os("MEDLEY_TEST_WITHOUT_DEVICES").is_some() {
            return Self {
                path,
                is_loop: false,
            };
        }
        let output = Command::new("losetup")
            .args(["--find", "--show"])
            .arg(&path)
            .output()
            .expect("losetup (mount) is needed");
        assert!(
            output.status.success(),
            "a loop device needs root; MEDLEY_TEST_WITHOUT_DEVICES=1 does without: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        let path = String::from_utf8(output.stdout).unwrap();
        Self {
            path: PathBuf::from(path.trim()),
            is_loop: true,
        }
    }

    fn sink(&self, limit: Option<u64>) -> FileSink {
        let file = File::options().read(true).write(true).open(&self.path);
        let file = file.unwrap();
        if self.is_loop {
            FileSink::new(file, limit).unwrap()
        } else {
            FileSink::of_device(file, limit).unwrap()
        }
    }

    fn read(&self) -> Vec<u8> {
        let mut all = Vec::new();
        let mut file = File::open(&self.path).unwrap();
        file.read_to_end(&mut all).unwrap();
        all
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        if self.is_loop {
            run("losetup", &["--detach", text(&self.path)]);
        }
    }
}

/// A grown image has its L1 table behind everything: a device has no room to park what comes before.
fn image(folder: &Folder, raw: &Path, format: &str) -> Vec<u8> {
    let image = match format {
        "raw" | "raw.gz" => raw.to_owned(),
        "grown" => {
            let image = folder.convert(raw, "disk.qcow2", &["-o", "cluster_size=8k"]);
            run("qemu-img", &["resize", "-q", text(&image), "30M"]);
            image
        }
        "qcow2" => folder.convert(raw, "disk.qcow2", &["-o", "cluster_size=16k"]),
        _ => folder.convert(raw, "disk.qcow2", &["-c"]),
    };
    let bytes = std::fs::read(image).unwrap();
    match format {
        "raw.gz" => pack(Packing::Gzip, &bytes),
        _ => bytes,
    }
}

#[rstest]
#[case::raw("raw", 20 * MIB, 1)]
#[case::size_not_known("raw.gz", 20 * MIB, 1)]
#[case::qcow2("qcow2", 20 * MIB, 1)]
#[case::compressed("qcow2 -c", 20 * MIB, 1)]
#[case::grown("grown", 30 * MIB, 2)]
fn device_keeps_bytes_behind_the_disk(
    #[case] format: &str,
    #[case] size: usize,
    #[case] passes: u32,
) {
    let folder = Folder::new();
    let raw = folder.raw("disk.raw", 20 * MIB, 31);
    let file = image(&folder, &raw, format);
    let mut expected = std::fs::read(&raw).unwrap();
    expected.resize(size, 0);
    let mut registry = Registry::with(&[("disk/disk.img", &file)], Packing::Gzip);

    let device = Device::new(&folder, 40 * MIB);
    let imported = registry.import(&mut device.sink(None)).unwrap();
    let found = device.read();
    assert!(found[..size] == expected, "another disk");
    // How much of the device a compressed disk takes is not known beforehand: all of it is blank.
    let behind = if format == "raw.gz" { 0 } else { 0xa5 };
    assert!(found[size..].iter().all(|byte| *byte == behind));
    assert_eq!(found.len(), 40 * MIB);
    assert_eq!(imported.size, size as u64);
    assert_eq!((imported.passes, imported.parked), (passes, 0));

    let other = registry.import(&mut MemorySink::new(None)).unwrap();
    assert_eq!(imported.content, other.content);
}

#[rstest]
#[case::the_device_is_too_small(10 * MIB, None)]
#[case::less_is_wanted(40 * MIB, Some(10 << 20))]
fn too_large_disk_does_not_touch_the_device(#[case] size: usize, #[case] limit: Option<u64>) {
    let folder = Folder::new();
    let raw = folder.raw("disk.raw", 20 * MIB, 31);
    let file = image(&folder, &raw, "qcow2");
    let mut registry = Registry::with(&[("disk/disk.img", &file)], Packing::Zstd);
    let device = Device::new(&folder, size);
    let error = registry.import(&mut device.sink(limit)).unwrap_err();
    assert_eq!(error.reason(), "TooSmall");
    assert!(error.to_string().contains(" 10485760;"), "{error}");
    assert!(device.read().iter().all(|byte| *byte == 0xa5));
}

#[test]
fn ranges_of_any_length_become_zeros() {
    let folder = Folder::new();
    let device = Device::new(&folder, 8 * MIB);
    let mut sink = device.sink(None);
    assert_eq!(sink.capacity(), Some(8 << 20));
    assert!(!sink.has_tail());
    // Whole sectors, and not.
    for (offset, length) in [(0, 512), (4096, 8192), (20_000, 3), (30_001, 70_000)] {
        sink.zero(offset, length).unwrap();
    }
    sink.finish(8 << 20).unwrap();
    let mut expected = vec![0xa5; 8 * MIB];
    for (offset, length) in [(0, 512), (4096, 8192), (20_000, 3), (30_001, 70_000)] {
        expected[offset..offset + length].fill(0);
    }
    assert!(device.read() == expected);
    let mut byte = [0];
    sink.into_inner().read_exact_at(&mut byte, 0).unwrap();
    assert_eq!(byte, [0]);
}
