//! The host of a test node: namespaces in which containerd, its shims and a kubelet run, and with which all of their
//! processes and mounts end.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use tempfile::TempDir;
use testkit::{Process, wait_until};

use crate::fixture::WAIT_TIMEOUT;

/// The first process of the namespaces.
const INIT: &str = include_str!("machine.sh");

/// Where hierarchies of cgroups are mounted.
const CGROUPS: &str = "/sys/fs/cgroup";

/// How often, and how long, cgroups are tried to be removed.
const REMOVAL_INTERVAL: Duration = Duration::from_millis(50);
const REMOVAL_ATTEMPTS: u32 = 100;

/// Namespaces for mounts and processes. Folders of the host are visible in them, with the same paths.
pub(crate) struct Machine {
    unshare: Process,
    init: u32,
    cgroup: String,
    folder: TempDir,
}

impl Machine {
    pub(crate) async fn start() -> anyhow::Result<Self> {
        let id = Command::new("id").arg("-u").output();
        let id = id.context("running id")?.stdout;
        ensure!(
            id == b"0\n",
            "this suite runs containers with containerd and runc: it needs root"
        );
        let folder = tempfile::Builder::new()
            .prefix("medley-node-")
            .tempdir()
            .context("creating a folder for a node")?;
        let cgroup = folder.path().file_name().context("a folder has a name")?;
        let cgroup = cgroup.to_string_lossy().into_owned();
        // The namespaces end with their first process, that with unshare, and unshare with the test, even if it is killed.
        let mut command = Command::new("setpriv");
        command
            .args([
                "--pdeathsig",
                "KILL",
                "unshare",
                "--mount",
                "--pid",
                "--fork",
                "--kill-child",
                "--mount-proc",
            ])
            .args(["bash", "-c", INIT, "machine"])
            .arg(folder.path())
            .arg(&cgroup);
        let unshare = Process::spawn(&mut command, folder.path())?;
        let mut machine = Self {
            unshare,
            init: 0,
            cgroup,
            folder,
        };
        machine.init = wait_until("the namespaces of a node", WAIT_TIMEOUT, || {
            let init = machine.ready();
            async { init }
        })
        .await?;
        Ok(machine)
    }

    /// The id of the first process, when it is ready.
    fn ready(&mut self) -> anyhow::Result<Option<u32>> {
        self.unshare.check()?;
        if !self.unshare.output().lines().any(|line| line == "ready") {
            return Ok(None);
        }
        let id = self.unshare.id();
        let children = fs::read_to_string(format!("/proc/{id}/task/{id}/children"))
            .context("reading the children of unshare")?;
        let child = children.split_whitespace().next();
        let child = child.with_context(|| format!("unshare {id} has no child"))?;
        Ok(Some(child.parse().context("a process id")?))
    }

    /// A folder for files of the node; it ends with it.
    pub(crate) fn folder(&self, name: &str) -> anyhow::Result<PathBuf> {
        let folder = self.folder.path().join(name);
        fs::create_dir_all(&folder).with_context(|| format!("creating {}", folder.display()))?;
        Ok(folder)
    }

    /// A command that runs a program on the node. Paths have to be absolute.
    pub(crate) fn command(&self, program: &Path) -> Command {
        let mut command = Command::new("nsenter");
        command
            .arg(format!("--target={}", self.init))
            .args(["--mount", "--pid", "--cgroup", "--"])
            .arg(program);
        command
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        // Cgroups can be removed when their processes have ended, which is soon after unshare.
        let _ = Command::new("kill")
            .args(["-KILL", &self.unshare.id().to_string()])
            .status();
        for _ in 0..REMOVAL_ATTEMPTS {
            if remove_cgroups(Path::new(CGROUPS), &self.cgroup) {
                return;
            }
            std::thread::sleep(REMOVAL_INTERVAL);
        }
        // Empty cgroups that stay do no harm, and a test that has ended cannot fail.
    }
}

/// Removes a cgroup with its children in all hierarchies; whether none is left.
fn remove_cgroups(mounts: &Path, name: &str) -> bool {
    let hierarchies = fs::read_dir(mounts).into_iter().flatten().flatten();
    let hierarchies = hierarchies.map(|hierarchy| hierarchy.path());
    // With version 2 alone, the folder is the only hierarchy.
    let all = hierarchies.chain([mounts.to_owned()]);
    // Not `all`: the rest is removed, even if one is busy.
    let kept = all.filter(|hierarchy| !remove_cgroup(&hierarchy.join(name)));
    kept.count() == 0
}

fn remove_cgroup(cgroup: &Path) -> bool {
    for entry in fs::read_dir(cgroup).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            remove_cgroup(&entry.path());
        }
    }
    // Its files cannot be removed, and end with it.
    fs::remove_dir(cgroup).is_ok() || !cgroup.exists()
}
