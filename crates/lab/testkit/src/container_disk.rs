//! Container disks, built with `qemu-img` and `tar`.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, ensure};

/// Size of a disk in bytes.
const SIZE: usize = 8 << 20;
/// The written range of the disk.
const WRITTEN: std::ops::Range<usize> = 1 << 20..4 << 20;

/// A disk in a layer, and the expected result of its import.
#[derive(Debug, Clone)]
pub struct ContainerDisk {
    /// A plain tar file with a qcow2 of 8 MiB in `/disk`.
    pub layer: Vec<u8>,
    /// The raw disk that `qemu-img` converts the qcow2 to.
    pub raw: PathBuf,
}

impl ContainerDisk {
    /// Builds a disk in a folder, under a name. The seed determines its content.
    pub fn make(folder: &Path, name: &str, seed: u64) -> anyhow::Result<Self> {
        let own = folder.join(name);
        std::fs::create_dir_all(own.join("disk"))
            .with_context(|| format!("making {}", own.display()))?;
        let mut bytes = vec![0; SIZE];
        if let Some(part) = bytes.get_mut(WRITTEN) {
            part.copy_from_slice(&noise(seed, WRITTEN.len()));
        }
        let source = own.join("source.raw");
        std::fs::write(&source, bytes)?;
        let (qcow2, raw) = (own.join("disk/disk.img"), own.join("expected.raw"));
        convert("raw", "qcow2", &source, &qcow2)?;
        convert("qcow2", "raw", &qcow2, &raw)?;
        let tar = own.join("layer.tar");
        let mut command = Command::new("tar");
        run(command.arg("-C").arg(&own).arg("-cf").arg(&tar).arg("disk"))?;
        Ok(Self {
            layer: std::fs::read(tar)?,
            raw,
        })
    }
}

fn convert(from: &str, to: &str, source: &Path, target: &Path) -> anyhow::Result<()> {
    let mut command = Command::new("qemu-img");
    command.args(["convert", "-f", from, "-O", to]);
    run(command.arg(source).arg(target))
}

fn run(command: &mut Command) -> anyhow::Result<()> {
    let output = command
        .output()
        .with_context(|| format!("the tests need {}", command.get_program().display()))?;
    let error_output = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?}: {error_output}");
    Ok(())
}

/// Non-repeating bytes that differ for every seed.
fn noise(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed;
    let mut next = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        state.to_be_bytes()[0]
    };
    (0..length).map(|_| next()).collect()
}

/// Compares two files; the error names the first difference.
pub fn same_bytes(found: &Path, expected: &Path) -> anyhow::Result<()> {
    let read =
        |path: &Path| std::fs::read(path).with_context(|| format!("reading {}", path.display()));
    let (found, expected) = (read(found)?, read(expected)?);
    ensure!(
        found.len() == expected.len(),
        "{} bytes instead of {}",
        found.len(),
        expected.len()
    );
    let differs = found.iter().zip(&expected).position(|(a, b)| a != b);
    ensure!(differs.is_none(), "they differ at {differs:?}");
    Ok(())
}
