//! Go tests of other projects on Medley's API server: envtest suites on `medley envtest`, and integration tests of
//! Kubernetes on `medley apiserver`.

mod expectation;
mod output;

use std::fs;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use anyhow::{Context as _, bail};

use crate::{peers, shell};
use expectation::{Expectation, Mismatch};
use output::Count;

/// A test binary that starts its API servers by envtest.
struct EnvtestSuite {
    peer: &'static str,
    /// Whether it is part of `--smoke`.
    smoke: bool,
}

const fn envtest(peer: &'static str) -> EnvtestSuite {
    EnvtestSuite { peer, smoke: false }
}

const ENVTEST_SUITES: [EnvtestSuite; 5] = [
    EnvtestSuite {
        smoke: true,
        ..envtest("multiarch-podplacementconfig.test")
    },
    envtest("multiarch-podplacement.test"),
    envtest("multiarch-operator.test"),
    envtest("multiarch-enoexecevent.test"),
    envtest("controller-runtime-webhook.test"),
];

/// Test binaries that start `medley apiserver`. `peers/kubernetes/expected` has a file for each, with the expected
/// outcome of each test.
const INTEGRATION_SUITES: [&str; 2] = ["integration-apply.test", "integration-apiextensions.test"];

/// Specs wait a few seconds for what a controller does, which is not enough on a busy host.
const RETRIES: &str = "-ginkgo.flake-attempts=3";
/// Longest run of one suite, and of one integration test.
const SUITE_TIMEOUT: &str = "-test.timeout=20m";
const TEST_TIMEOUT: &str = "-test.timeout=5m";

/// The test binaries to build.
pub(super) fn peers(smoke: bool) -> Vec<&'static str> {
    let suites = ENVTEST_SUITES.iter().filter(|suite| suite.smoke || !smoke);
    let mut peers: Vec<&str> = suites.map(|suite| suite.peer).collect();
    if !smoke {
        peers.extend(INTEGRATION_SUITES);
    }
    peers
}

/// Runs the suites, and returns a line for each. `assets` has the genuine programs.
pub(super) fn run(assets: &Path, smoke: bool) -> (Vec<String>, anyhow::Result<()>) {
    let mut lines = Vec::new();
    let outcome = run_into(assets, smoke, &mut lines);
    (lines, outcome)
}

fn run_into(assets: &Path, smoke: bool, lines: &mut Vec<String>) -> anyhow::Result<()> {
    let medley = medley()?;
    let embedded = shell::target().join("upstream/assets");
    shell::run(
        shell::command(&medley)
            .arg("envtest")
            .arg(&embedded)
            .stdout(Stdio::null()),
    )?;
    let mut failed = Vec::new();
    let mut report = |name: &str, outcome: anyhow::Result<String>| match outcome {
        Ok(line) => {
            shell::say(&line);
            lines.push(line);
        }
        Err(error) => {
            let line = format!("{name}: FAILED: {error:#}");
            shell::say(&line);
            lines.push(line);
            failed.push(name.to_owned());
        }
    };
    for suite in ENVTEST_SUITES.iter().filter(|suite| suite.smoke || !smoke) {
        report(suite.peer, run_envtest(suite, assets, &embedded, smoke));
    }
    if !smoke {
        for name in INTEGRATION_SUITES {
            report(name, run_integration(name, assets, &medley));
        }
    }
    if !failed.is_empty() {
        bail!("suites of other projects failed: {}", failed.join(", "));
    }
    Ok(())
}

/// Builds the program, with the features that the suites of the workspace have built it with.
fn medley() -> anyhow::Result<PathBuf> {
    shell::run(shell::cargo().args(["build", "--workspace", "--bin", "medley"]))?;
    Ok(shell::target().join("debug/medley"))
}

/// Runs an envtest suite on the embedded server, and on the genuine one, whose outcome is the expected one. The smoke
/// run leaves out the genuine one.
fn run_envtest(
    suite: &EnvtestSuite,
    assets: &Path,
    embedded: &Path,
    smoke: bool,
) -> anyhow::Result<String> {
    let (count, took) = run_suite(suite, assets, embedded, "medley envtest")?;
    let mut line = format!("{} on medley envtest: {count} in {took} s", suite.peer);
    if !smoke {
        let (genuine, took) = run_suite(suite, assets, assets, "etcd + kube-apiserver")?;
        if genuine != count {
            bail!("on medley envtest: {count}; on etcd + kube-apiserver: {genuine}");
        }
        line = format!("{line}; on etcd + kube-apiserver: {genuine} in {took} s");
    }
    Ok(line)
}

/// Runs all tests of a suite in one process.
fn run_suite(
    suite: &EnvtestSuite,
    assets: &Path,
    server: &Path,
    server_name: &str,
) -> anyhow::Result<(Count, u64)> {
    let begin = Instant::now();
    let mut command = Command::new(assets.join(suite.peer));
    command
        .args(["-test.v", SUITE_TIMEOUT, "-ginkgo.no-color", RETRIES])
        .current_dir(peers::package_folder(suite.peer)?)
        .env("KUBEBUILDER_ASSETS", server);
    let output = output_of(&mut command)?;
    let took = begin.elapsed().as_secs();
    let count = Count::of(&output.text);
    if !output.success || count.failed > 0 || count.passed == 0 {
        let name = format!("{} on {server_name}", suite.peer);
        let log = keep(&name.replace([' ', '+'], "-"), &output.text)?;
        bail!(
            "on {server_name}: {count}; its output is in {}",
            log.display()
        );
    }
    Ok((count, took))
}

/// Runs each test of a suite in a process of its own, and compares the outcomes with the expected ones.
fn run_integration(name: &str, assets: &Path, medley: &Path) -> anyhow::Result<String> {
    let begin = Instant::now();
    let path = shell::root().join(format!(
        "peers/kubernetes/expected/{}.txt",
        name.trim_end_matches(".test")
    ));
    let text = fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
    let expectation = Expectation::parse(&text).with_context(|| path.display().to_string())?;
    let folder = peers::package_folder(name)?;
    // `TestMain` starts an etcd unless something listens here. Nothing reads it: objects are in `medley apiserver`.
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("listening")?;
    let etcd = listener.local_addr().context("reading a local address")?;
    let command = || {
        let mut command = Command::new(assets.join(name));
        command
            .current_dir(&folder)
            .env("KUBE_INTEGRATION_ETCD_URL", format!("http://{etcd}"))
            .env("MEDLEY", medley);
        command
    };
    let list = output_of(command().args(["-test.list", "."]))?;
    let tests: Vec<&str> = list
        .text
        .lines()
        .filter(|line| line.starts_with("Test"))
        .collect();
    if tests.is_empty() {
        bail!("it lists no tests: {}", list.text);
    }
    let outcomes = Mutex::new(Vec::new());
    let next = AtomicUsize::new(0);
    let work = || {
        while let Some(test) = tests.get(next.fetch_add(1, Ordering::Relaxed)) {
            let outcome = run_test(command(), name, test);
            let mut outcomes = outcomes.lock().unwrap_or_else(PoisonError::into_inner);
            outcomes.push((*test, outcome));
        }
    };
    let workers = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(work);
        }
    });
    let outcomes = outcomes
        .into_inner()
        .unwrap_or_else(PoisonError::into_inner);
    let outcomes = outcomes
        .into_iter()
        .map(|(test, outcome)| anyhow::Ok((test, outcome?)))
        .collect::<Result<Vec<_>, _>>()?;
    let passed = outcomes.iter().filter(|(_, passed)| *passed).count();
    let count = Count {
        passed,
        failed: outcomes.len() - passed,
    };
    let mismatches: Vec<String> = expectation
        .compare(&outcomes)
        .iter()
        .map(Mismatch::to_string)
        .collect();
    if !mismatches.is_empty() {
        bail!(
            "{count}, not as in {}: {}; the output of failed tests is in {}",
            path.display(),
            mismatches.join(", "),
            logs().display()
        );
    }
    Ok(format!(
        "{name} on medley apiserver: {count}, as expected, in {} s",
        begin.elapsed().as_secs()
    ))
}

/// Runs one test; whether it passed.
fn run_test(mut command: Command, suite: &str, test: &str) -> anyhow::Result<bool> {
    let output =
        output_of(command.args(["-test.v", TEST_TIMEOUT, "-test.run", &format!("^{test}$")]))?;
    let passed = output.success && output::passes(&output.text, test);
    if !passed {
        keep(&format!("{suite}-{test}"), &output.text)?;
    }
    Ok(passed)
}

struct Output {
    success: bool,
    text: String,
}

/// Runs a program; standard output, then errors.
fn output_of(command: &mut Command) -> anyhow::Result<Output> {
    let output = command
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("starting {}", command.get_program().display()))?;
    let text = [&output.stdout[..], &output.stderr[..]].concat();
    Ok(Output {
        success: output.status.success(),
        text: String::from_utf8_lossy(&text).into_owned(),
    })
}

fn logs() -> PathBuf {
    shell::target().join("upstream/logs")
}

/// Keeps the output of a failed run.
fn keep(name: &str, text: &str) -> anyhow::Result<PathBuf> {
    let path = logs().join(format!("{name}.log"));
    fs::create_dir_all(logs())
        .and_then(|()| fs::write(&path, text))
        .with_context(|| format!("writing {}", path.display()))?;
    Ok(path)
}
