//! `cargo xtask test`.

use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;

use anyhow::bail;
use clap::Args;

use crate::shell;

/// Programs the suites call, and the Debian packages they come from.
const PROGRAMS: [(&str, &str); 15] = [
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
    ("python3", "python3"),
    ("qemu-img", "qemu-utils"),
    ("qemu-io", "qemu-utils"),
    ("skopeo", "skopeo"),
    ("tar", "tar"),
];

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// More arguments for the test runner, such as a filter.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    rest: Vec<OsString>,
}

/// Installed where there is no cargo-nextest. It tries a test that failed once more and says so, which `cargo test` does
/// not: suites that start servers on a busy machine need it.
const NEXTEST: &str = "0.9.151";

/// Runs all tests.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    provide(&PROGRAMS)?;
    shell::provide_subcommand("nextest", NEXTEST)?;
    let mut tests = shell::cargo();
    tests.args(["nextest", "run", "--workspace"]);
    if !has_loop_devices() {
        shell::say(
            "no loop device can be made here, which takes root: tests of block devices take files for them",
        );
        tests.env("MEDLEY_TEST_WITHOUT_DEVICES", "1");
    }
    shell::run(tests.args(&arguments.rest))?;
    if arguments.rest.is_empty() {
        shell::run(shell::cargo().args(["test", "--workspace", "--doc"]))?;
    }
    Ok(())
}

/// Whether files can be made block devices. Root can, unless it is that of a container.
fn has_loop_devices() -> bool {
    // A name that others could foresee, they could make a link of.
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
    // It is in a folder for what nobody misses.
    let _ = fs::remove_file(&file);
    made && detached
}

/// Installs what is missing if that is possible without asking; a test never skips in silence.
pub(crate) fn provide(programs: &[(&str, &'static str)]) -> anyhow::Result<()> {
    let missing = || -> Vec<&str> {
        let mut packages: Vec<_> = programs
            .iter()
            .filter(|(name, _)| shell::find(name).is_none())
            .map(|(_, package)| *package)
            .collect();
        // Programs of one package are beside each other.
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
