//! What a program costs: time, memory, and files on its way.

use std::fs::File;
use std::io::{Read as _, Seek as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};

/// How often is looked.
const EVERY: Duration = Duration::from_millis(10);

const MIB: f64 = 1_048_576.0;

/// What some programs cost, one after the other.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Cost {
    /// From the start of the first to the end of the last.
    pub(super) seconds: f64,
    /// The most memory of any, in MiB.
    pub(super) memory: f64,
    /// The most that was in the folder besides the result, in MiB.
    pub(super) scratch: f64,
}

impl Cost {
    /// Runs a program on the way to a result; it may use the folder that it is in.
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

    /// The shortest time and the most of everything else.
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

/// How long a program runs.
pub(super) fn time(command: &mut Command) -> anyhow::Result<Duration> {
    let started = Instant::now();
    let (mut child, log) = start(command)?;
    let status = child.wait().context("waiting for a program")?;
    let time = started.elapsed();
    ensure!(status.success(), "{}", failed(command, status, log));
    Ok(time)
}

/// Starts a program; what it complains of goes to a file that nobody sees.
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
    // Without its words, there is still how it ended.
    let _ = log.rewind().and_then(|()| log.read_to_string(&mut text));
    let last = text.lines().last().unwrap_or_default();
    format!("{command:?} ended with {status}: {last}")
}

/// The most resident memory that a process had so far, in MiB; nothing of one that has ended.
fn highest(id: u32) -> f64 {
    let status = std::fs::read_to_string(format!("/proc/{id}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let number = line.and_then(|line| line.split_whitespace().next());
    number.and_then(|it| it.parse().ok()).unwrap_or(0.0) / 1024.0
}

/// What files beside a result and below take, in MiB. Files may go while it is looked. The result is left
/// out, whether finished or not: how much room it has while it is written is up to the file system.
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

/// Whether a file is the result, or what there is of it so far.
fn is_of(result: &Path, path: &Path) -> bool {
    path == result || path.with_extension("") == result
}

/// Exact for less than 4 TiB, which nothing here is.
fn mebibytes(bytes: u64) -> f64 {
    f64::from(u32::try_from(bytes / 1024).unwrap_or(u32::MAX)) * 1024.0 / MIB
}
