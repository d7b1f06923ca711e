//! Runs the `medley` binary and the clusters it starts, for the suites that test it end to end.
#![allow(dead_code, reason = "no suite uses all of it")]

use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Output};
use std::time::{Duration, Instant};

use testkit::Process;

pub(crate) const MEDLEY: &str = env!("CARGO_BIN_EXE_medley");
const WAIT_TIMEOUT: Duration = Duration::from_mins(1);

pub(crate) fn medley(arguments: &[&str]) -> Output {
    Command::new(MEDLEY).args(arguments).output().unwrap()
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Polls until the closure returns a value.
pub(crate) fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let started = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(
            started.elapsed() < WAIT_TIMEOUT,
            "timed out waiting: {what}"
        );
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// An API server, or a whole cluster, with a data folder of its own.
pub(crate) struct Server {
    pub(crate) process: Process,
    pub(crate) kubeconfig: PathBuf,
    pub(crate) home: PathBuf,
}

impl Server {
    pub(crate) fn start(folder: &Path, arguments: &[&str]) -> Self {
        let listen = ["apiserver", "--listen", "127.0.0.1:0"];
        let arguments = listen.iter().chain(arguments);
        let mut process = Process::start(Path::new(MEDLEY), arguments, folder).unwrap();
        let line = until("the server is ready", || {
            let output = process.output();
            assert!(process.ended().unwrap().is_none(), "{output}");
            output
                .lines()
                .find(|line| line.starts_with("ready: "))
                .map(str::to_owned)
        });
        let path = line
            .split("(kubeconfig: ")
            .nth(1)
            .unwrap()
            .trim_end_matches(')');
        Self {
            process,
            kubeconfig: folder.join(path),
            home: folder.to_owned(),
        }
    }

    /// Starts `medley up` with these arguments.
    pub(crate) fn up(folder: &Path, arguments: &[&str]) -> Self {
        let listen = ["up", "--listen", "127.0.0.1:0"];
        // The default console port is free for one cluster on a host only.
        let console: &[&str] = if arguments.contains(&"--console") {
            &[]
        } else {
            &["--console", "none"]
        };
        let arguments = listen.iter().chain(console).chain(arguments);
        let mut process = Process::start(Path::new(MEDLEY), arguments, folder).unwrap();
        let output = until("the cluster is ready", || {
            let output = process.output();
            assert!(process.ended().unwrap().is_none(), "{output}");
            output.lines().any(|line| line == "ready").then_some(output)
        });
        let kubeconfig = output
            .lines()
            .find_map(|line| line.trim().strip_prefix("export KUBECONFIG="))
            .unwrap();
        Self {
            process,
            kubeconfig: PathBuf::from(kubeconfig),
            home: folder.to_owned(),
        }
    }

    pub(crate) fn kubectl(&self, arguments: &[&str]) -> Output {
        Command::new("kubectl")
            .args(arguments)
            .env("KUBECONFIG", &self.kubeconfig)
            .env("HOME", &self.home)
            .output()
            .unwrap()
    }

    /// Output of a kubectl command that has to succeed.
    pub(crate) fn ask(&self, arguments: &[&str]) -> String {
        let output = self.kubectl(arguments);
        assert!(
            output.status.success(),
            "{arguments:?}: {}",
            text(&output.stderr)
        );
        text(&output.stdout)
    }

    pub(crate) fn stop(&mut self, signal: &str) -> ExitStatus {
        stop(&mut self.process, signal)
    }
}

/// Sends a signal.
pub(crate) fn send(process: &Process, signal: &str) {
    let sent = Command::new("kill")
        .args([signal, &process.id().to_string()])
        .status()
        .unwrap();
    assert!(sent.success());
}

pub(crate) fn stop(process: &mut Process, signal: &str) -> ExitStatus {
    send(process, signal);
    until("the process ends", || process.ended().unwrap())
}
