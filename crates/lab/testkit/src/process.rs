//! Child processes that end with the test.

use std::ffi::OsStr;
use std::fs::File;
use std::hash::{BuildHasher as _, RandomState};
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

use anyhow::Context as _;

/// A running program, killed when dropped. Its output goes to a file.
#[derive(Debug)]
pub struct Process {
    name: String,
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Starts a program in a folder; its output is in a file there that is named after it.
    pub fn start<A: AsRef<OsStr>>(
        program: &Path,
        arguments: impl IntoIterator<Item = A>,
        folder: &Path,
    ) -> anyhow::Result<Self> {
        Self::spawn(Command::new(program).args(arguments), folder)
    }

    /// Like [`Self::start`], for a command with an environment of its own.
    pub fn spawn(command: &mut Command, folder: &Path) -> anyhow::Result<Self> {
        let program = PathBuf::from(command.get_program());
        let name = program
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let log = folder.join(format!("{name}.log"));
        let file = File::create(&log).with_context(|| format!("creating {}", log.display()))?;
        let errors = file.try_clone().context("sharing a log file")?;
        let child = command
            .current_dir(folder)
            .stdin(Stdio::null())
            .stdout(file)
            .stderr(errors)
            .spawn()
            .with_context(|| format!("starting {}", program.display()))?;
        Ok(Self { name, child, log })
    }

    /// The id of the process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// The exit status of the program, if it has ended.
    pub fn ended(&mut self) -> anyhow::Result<Option<ExitStatus>> {
        self.child
            .try_wait()
            .with_context(|| format!("asking for the state of {}", self.name))
    }

    /// The output of the program so far.
    pub fn output(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// An error if the program has ended, with the end of its output.
    pub fn check(&mut self) -> anyhow::Result<()> {
        let Some(status) = self.ended()? else {
            return Ok(());
        };
        let output = self.output();
        let last: Vec<&str> = output.lines().rev().take(5).collect();
        let last: Vec<&str> = last.into_iter().rev().collect();
        anyhow::bail!("{} ended with {status}: {}", self.name, last.join("\n"));
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Fails for a process that has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Below the range that the kernel takes the ports of outgoing connections from.
const PORTS: std::ops::Range<u16> = 10_000..32_768;

/// A free port on the loopback address. A connection of another test cannot take it before the program listens, as it
/// could with a port that the kernel chooses.
pub fn free_port() -> anyhow::Result<u16> {
    let hash = RandomState::new().hash_one(std::process::id());
    let start = u16::try_from(hash % PORTS.len() as u64).unwrap_or_default();
    let is_free = |port: &u16| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok();
    // Tests ask for ports at the same time: each begins elsewhere.
    (PORTS.start + start..PORTS.end)
        .chain(PORTS)
        .find(is_free)
        .with_context(|| format!("no free port in {PORTS:?}"))
}
