//! Cost of a program: time, memory and temporary files.

use std::fs::File;
use std::io::{Read as _, Seek as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};

/// Sampling interval.
const EVERY: Duration = Duration::from_millis(10);

const MIB: f64 = 1_048_576.0;

/// Cost of programs run in sequence.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Cost {
    /// From the start of the first to the end of the last, in seconds.
    pub(super) seconds: f64,
    /// Maximum memory of any program, in MiB.
    pub(super) memory: f64,
    /// Maximum size of files besides the result, in MiB.
    pub(super) scratch: f64,
}

impl Cost {
    /// Runs a program that contributes to a result; it may use the result's directory.
    pub(super) fn add(&mut self, command: &mut Command, result: &Path) -> anyhow::Result<()> {
        let started = Instant::now();
        let (mut child, log) = start(command)?;
        loop {
            let ended = child.try_wait().context("waiting for a program")?;
            if let Some(status) = ended {
                self.seconds += started.elapsed().as_secs_f64();
                ensure!(status.success(), "{}", failed(command, status, log));
                self.scratch = self.scratch.max(beside(result));
                return Ok(());
            }
            self.memory = self.memory.max(highest(child.id()));
            self.scratch = self.scratch.max(beside(result));
            std::thread::sleep(EVERY);
        }
    }

    /// The shortest time, and the maximum of the other values.
    pub(super) fn best(all: &[Self]) -> Self {
        let start = Self {
            seconds: f64::INFINITY,
            ..Self::default()
        };
        all.iter().fold(start, |best, one| Self {
            seconds: best.seconds.min(one.seconds),
            memory: best.memory.max(one.memory),
            scratch: best.scratch.max(one.scratch),
        })
    }
}

/// Run time of a program.
pub(super) fn time(command: &mut Command) -> anyhow::Result<Duration> {
    let started = Instant::now();
    let (mut child, log) = start(command)?;
    let status = child.wait().context("waiting for a program")?;
    let time = started.elapsed();
    ensure!(status.success(), "{}", failed(command, status, log));
    Ok(time)
}

/// Starts a program with its standard error in an unnamed file.
fn start(command: &mut Command) -> anyhow::Result<(Child, File)> {
    let log = tempfile::tempfile().context("making a log")?;
    let child = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log.try_clone().context("making a log")?)
        .spawn()
        .with_context(|| format!("starting {command:?}"))?;
    Ok((child, log))
}

fn failed(command: &Command, status: ExitStatus, mut log: File) -> String {
    let mut text = String::new();
    // Without the log there is still the exit status.
    let _ = log.rewind().and_then(|()| log.read_to_string(&mut text));
    let last = text.lines().last().unwrap_or_default();
    format!("{command:?} ended with {status}: {last}")
}

/// Peak resident memory of a process, in MiB; 0 if it has ended.
fn highest(id: u32) -> f64 {
    let status = std::fs::read_to_string(format!("/proc/{id}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let number = line.and_then(|line| line.split_whitespace().next());
    number.and_then(|it| it.parse().ok()).unwrap_or(0.0) / 1024.0
}

/// Size of files next to a result and below, in MiB. Files may disappear while they are counted.
/// The result is excluded, finished or not: its allocation while it is written is up to the file
/// system.
fn beside(result: &Path) -> f64 {
    let mut bytes = 0;
    let mut folders: Vec<PathBuf> = result.parent().map(Path::to_owned).into_iter().collect();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            match entry.metadata() {
                _ if is_of(result, &entry.path()) => {}
                Ok(about) if about.is_dir() => folders.push(entry.path()),
                Ok(about) => bytes += about.blocks() * 512,
                Err(_) => {}
            }
        }
    }
    mebibytes(bytes)
}

/// Whether a file is the result, or its unfinished form.
fn is_of(result: &Path, path: &Path) -> bool {
    path == result || path.with_extension("") == result
}

/// Exact below 4 TiB, which all sizes here are.
fn mebibytes(bytes: u64) -> f64 {
    f64::from(u32::try_from(bytes / 1024).unwrap_or(u32::MAX)) * 1024.0 / MIB
}
