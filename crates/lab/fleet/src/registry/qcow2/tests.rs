//! QEMU reads the generated images.

use std::process::Command;

use rstest::rstest;

use super::*;
use crate::registry::catalog::Architecture;
use crate::registry::disk::disk;

/// Runs qemu-img, which has to succeed.
fn qemu_img(arguments: &[&str]) -> String {
    let output = Command::new("qemu-img").args(arguments).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    text
}

fn read_back(image: &[u8]) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (from, to) = (path("disk.qcow2"), path("disk.raw"));
    std::fs::write(&from, image).unwrap();
    let text = qemu_img(&["check", "-f", "qcow2", &from]);
    assert!(text.contains("No errors were found"), "{text}");
    qemu_img(&["convert", "-f", "qcow2", "-O", "raw", &from, &to]);
    std::fs::read(&to).unwrap()
}

#[rstest]
fn qemu_reads_the_disks_of_the_demo(
    #[values(Architecture::Amd64, Architecture::Arm64, Architecture::S390x)]
    architecture: Architecture,
) {
    let disk = disk(architecture, "fedora 1");
    assert!(read_back(&write(&disk)) == disk.raw());
}

#[rstest]
#[case::empty(1 << 20, &[])]
#[case::odd_size((1 << 20) + 512, &[(1 << 20, "at the end")])]
#[case::across_clusters(1 << 20, &[(65_530, "over the border")])]
#[case::two_tables(600 << 20, &[(5, "first"), (599 << 20, "second")])]
fn qemu_reads_other_disks(#[case] size: u64, #[case] parts: &[(u64, &str)]) {
    let mut disk = Canvas::new(size);
    for (at, bytes) in parts {
        disk.write(*at, bytes.as_bytes());
    }
    assert!(read_back(&write(&disk)) == disk.raw());
}
