//! `cargo xtask test`.

mod genuine;
mod upstream;

use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;

use anyhow::bail;
use clap::Args;

use crate::shell;

/// Programs that the suites call, and their Debian packages.
const PROGRAMS: [(&str, &str); 18] = [
    ("bash", "bash"),
    ("c++", "g++"),
    ("chromedriver", "chromium-driver"),
    ("chromium", "chromium"),
    ("diff", "diffutils"),
    ("docker-registry", "docker-registry"),
    ("git", "git"),
    ("jq", "jq"),
    ("kill", "procps"),
    ("kubectl", "kubernetes-client"),
    ("lua5.4", "lua5.4"),
    ("openssl", "openssl"),
    ("python3", "python3"),
    ("qemu-img", "qemu-utils"),
    ("qemu-io", "qemu-utils"),
    ("skopeo", "skopeo"),
    // Not on the PATH of users.
    ("/usr/sbin/squid", "squid"),
    ("tar", "tar"),
];

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Run suites on etcd and kube-apiserver, and beside the genuine operators; missing programs are built with Go.
    #[arg(long)]
    genuine: bool,
    /// With --genuine: only the API suites, and the suites beside other operators.
    #[arg(long, requires = "genuine")]
    smoke: bool,
    /// With --genuine: only build the programs.
    #[arg(long, requires = "genuine")]
    build_only: bool,
    /// Arguments for the test runner, such as a filter.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    rest: Vec<OsString>,
}

/// Version to install if cargo-nextest is missing. It can retry failed tests and reports them as flaky, unlike
/// `cargo test`: suites that start servers on a busy host need it.
const NEXTEST_VERSION: &str = "0.9.151";

/// Runs all tests.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    if arguments.build_only {
        return genuine::build(arguments.smoke).map(drop);
    }
    provide_programs(&PROGRAMS)?;
    shell::provide_subcommand("nextest", NEXTEST_VERSION)?;
    if arguments.genuine {
        provide_programs(&genuine::PROGRAMS)?;
        return genuine::run(arguments.smoke, &arguments.rest);
    }
    let mut tests = shell::cargo();
    tests.args(["nextest", "run", "--workspace"]);
    if !has_loop_devices() {
        shell::say(
            "loop devices are not available (they need root): tests of block devices use files instead",
        );
        tests.env("MEDLEY_TEST_WITHOUT_DEVICES", "1");
    }
    shell::run(tests.args(&arguments.rest))?;
    if arguments.rest.is_empty() {
        shell::run(shell::cargo().args(["test", "--workspace", "--doc"]))?;
    }
    Ok(())
}

/// Whether loop devices can be created. Root can, except in most containers.
fn has_loop_devices() -> bool {
    // A predictable name could be replaced by a link of another user.
    let mut make = shell::command("mktemp");
    let Ok(file) = shell::read(make.args(["--tmpdir", "medley-device-XXXXXXXX"])) else {
        return false;
    };
    let file = PathBuf::from(file.trim());
    let made = fs::write(&file, [0; 512]).is_ok();
    let mut attach = shell::command("losetup");
    let device = shell::read(attach.args(["--find", "--show"]).arg(&file));
    let detached = device.is_ok_and(|device| {
        let mut detach = shell::command("losetup");
        shell::read(detach.args(["--detach", device.trim()])).is_ok()
    });
    // A leftover temporary file does no harm.
    let _ = fs::remove_file(&file);
    made && detached
}

/// Installs missing programs as root with apt, otherwise fails with their packages; a test never skips silently.
pub(crate) fn provide_programs(programs: &[(&str, &'static str)]) -> anyhow::Result<()> {
    let missing = || -> Vec<&str> {
        let mut packages: Vec<_> = programs
            .iter()
            .filter(|(name, _)| shell::find(name).is_none())
            .map(|(_, package)| *package)
            .collect();
        // Programs of one package are adjacent in the list.
        packages.dedup();
        packages
    };
    let packages = missing();
    if packages.is_empty() {
        return Ok(());
    }
    let advice = format!(
        "programs are missing from the packages: {}",
        packages.join(" ")
    );
    let root = shell::read(shell::command("id").arg("-u")).is_ok_and(|id| id.trim() == "0");
    if !root || shell::find("apt-get").is_none() {
        bail!(advice);
    }
    shell::run(shell::command("apt-get").args(["update", "--quiet"]))?;
    shell::run(
        shell::command("apt-get")
            .args(["install", "--quiet", "--yes", "--no-install-recommends"])
            .args(&packages)
            .env("DEBIAN_FRONTEND", "noninteractive"),
    )?;
    match missing().as_slice() {
        [] => Ok(()),
        left => bail!(
            "installed the packages, but programs of these are still missing: {}",
            left.join(" ")
        ),
    }
}
