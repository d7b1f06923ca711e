//! `cargo xtask fuzz`: libFuzzer on every target, for a bounded time.
//!
//! Coverage is LLVM's, enabled by flags that every toolchain has: no nightly is needed. Only the crates of
//! the workspace get it, by a compiler wrapper, which is this program again; their
//! dependencies are built as for tests. A target that was built without coverage, or did not run, is an error.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context as _, bail};
use clap::Args;

use crate::{shell, test};

/// Set when this program is called as compiler wrapper.
const WRAPPER: &str = "XTASK_FUZZ_COMPILE";

/// Additional compiler flags.
const FLAGS: [&str; 6] = [
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
    // Fuzzing needs speed; overflow checks stay enabled.
    "-Copt-level=1",
];

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Targets to fuzz; all if absent.
    #[arg(value_name = "TARGET")]
    targets: Vec<String>,
    /// Seconds per target.
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// Random seed; 0 selects one at random.
    #[arg(long, default_value_t = 0)]
    seed: u32,
    /// Run this one input and exit: reproduces a finding.
    #[arg(long, value_name = "FILE")]
    input: Option<PathBuf>,
}

/// Fuzzes the targets, and fails if any of them does.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    test::provide_programs(&[("c++", "g++")])?;
    let targets = select_targets(&arguments.targets)?;
    build(&targets)?;
    if let Some(input) = &arguments.input {
        let [target] = targets.as_slice() else {
            bail!("--input is for one target: cargo xtask fuzz TARGET --input FILE");
        };
        let input = fs::canonicalize(input)
            .with_context(|| format!("reading the input {}", input.display()))?;
        return shell::run(shell::command(program(target)).args(["-timeout=10".into(), input]));
    }
    let mut found = Vec::new();
    for target in &targets {
        match fuzz(target, arguments) {
            Ok(stats) => shell::say(&format!("{target:<12} {stats}")),
            Err(error) => {
                shell::say(&format!("{target:<12} {error:#}"));
                found.push(target.as_str());
            }
        }
    }
    shell::say(&format!(
        "fuzz: {} passed, {} failed",
        targets.len() - found.len(),
        found.len()
    ));
    if found.is_empty() {
        return Ok(());
    }
    bail!("fuzzing failed: {}", found.join(", "));
}

/// The given targets, or all.
fn select_targets(named: &[String]) -> anyhow::Result<Vec<String>> {
    let folder = shell::root().join("fuzz/fuzz_targets");
    let mut all = Vec::new();
    for entry in fs::read_dir(&folder).context("reading fuzz/fuzz_targets")? {
        let path = entry.context("reading fuzz/fuzz_targets")?.path();
        all.extend(path.file_stem().map(|name| name.display().to_string()));
    }
    all.sort_unstable();
    if let Some(unknown) = named.iter().find(|name| !all.contains(name)) {
        bail!("unknown target {unknown:?}; available: {}", all.join(", "));
    }
    Ok(if named.is_empty() {
        all
    } else {
        named.to_vec()
    })
}

/// Builds the targets, with coverage.
fn build(targets: &[String]) -> anyhow::Result<()> {
    let wrapper = std::env::current_exe().context("finding this program")?;
    let mut cargo = shell::cargo();
    cargo.args(["build", "--locked", "--package", "fuzz"]);
    for target in targets {
        cargo.args(["--bin", target]);
    }
    shell::run(
        cargo
            .env("RUSTC_WORKSPACE_WRAPPER", wrapper)
            .env(WRAPPER, "1"),
    )
}

fn program(target: &str) -> PathBuf {
    shell::target().join("debug").join(target)
}

/// Runs one target; its corpus is kept for the next run.
fn fuzz(target: &str, arguments: &Arguments) -> anyhow::Result<String> {
    let place = |what: &str| shell::target().join("fuzz").join(what).join(target);
    let (corpus, seeds, artifacts) = (place("corpus"), place("seeds"), place("artifacts"));
    for folder in [&corpus, &seeds, &artifacts] {
        fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
    }
    let output = shell::command(program(target))
        .arg(format!("-max_total_time={}", arguments.seconds))
        .arg(format!("-seed={}", arguments.seed))
        .arg(format!("-artifact_prefix={}/", artifacts.display()))
        .args(["-timeout=10", "-rss_limit_mb=1024", "-print_final_stats=1"])
        .args([&corpus, &seeds])
        .env("FUZZ_SEEDS", &seeds)
        .output()
        .with_context(|| format!("starting the target {target}"))?;
    let log = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        shell::say(&last(&log, 60));
        match artifact_path(&log) {
            Some(input) => bail!(
                "FOUND; reproduce it with: cargo xtask fuzz {target} --input {}",
                input
                    .strip_prefix(shell::root())
                    .unwrap_or(&input)
                    .display()
            ),
            None => bail!("ended with {}", output.status),
        }
    }
    let runs = RunStats::read(&log);
    match runs {
        Some(stats) if stats.counters > 0 && stats.runs > 0 => Ok(format!(
            "{:>9} runs, {:>5} of {} counters reached",
            stats.runs, stats.reached, stats.counters
        )),
        _ => {
            shell::say(&last(&log, 20));
            bail!("did not run, or without coverage: {runs:?}");
        }
    }
}

/// Statistics of a libFuzzer run.
#[derive(Debug, PartialEq, Eq)]
struct RunStats {
    /// Coverage counters in the program.
    counters: u64,
    /// Counters that were reached.
    reached: u64,
    /// Inputs that were run.
    runs: u64,
}

impl RunStats {
    fn read(log: &str) -> Option<Self> {
        let after = |line: &str, mark: &str| -> Option<u64> {
            let rest = line.split_once(mark)?.1.trim_start();
            let end = rest
                .find(|c: char| !c.is_ascii_digit())
                .unwrap_or(rest.len());
            rest.get(..end)?.parse().ok()
        };
        let last = |mark: &str| log.lines().rev().find_map(|line| after(line, mark));
        Some(Self {
            counters: log
                .lines()
                .find(|line| line.contains("inline 8-bit counters"))
                .and_then(|line| after(line, "("))?,
            reached: last(" cov:")?,
            runs: last("stat::number_of_executed_units:")?,
        })
    }
}

/// The failing input that libFuzzer wrote, if any.
fn artifact_path(log: &str) -> Option<PathBuf> {
    let mark = "Test unit written to ";
    let line = log.lines().rev().find(|line| line.contains(mark))?;
    Some(Path::new(line.split_once(mark)?.1.trim()).to_owned())
}

/// The last lines.
fn last(log: &str, lines: usize) -> String {
    let all: Vec<&str> = log.lines().collect();
    all.get(all.len().saturating_sub(lines)..)
        .unwrap_or_default()
        .join("\n")
}

/// Runs the compiler, if this program was called as its wrapper: the compiler and its arguments follow.
pub(crate) fn compile() -> Option<ExitCode> {
    std::env::var_os(WRAPPER)?;
    let mut arguments = std::env::args_os().skip(1);
    let mut compiler = Command::new(arguments.next()?);
    let arguments: Vec<OsString> = arguments.collect();
    compiler.args(&arguments);
    // Cargo also probes the compiler version; build scripts are not fuzzed.
    let mut pairs = arguments.iter().zip(arguments.iter().skip(1));
    let instrumented = pairs.any(|(name, value)| {
        name == "--crate-name" && value != "build_script_build" && value != "___"
    });
    if instrumented {
        compiler.args(FLAGS);
    }
    Some(match compiler.status() {
        Ok(status) if status.success() => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = "INFO: Seed: 1
INFO: Loaded 1 modules   (3801 inline 8-bit counters): 3801 [0x1, 0x2),
#2	INITED cov: 11 ft: 12 corp: 1/1b exec/s: 0 rss: 30Mb
#8	DONE   cov: 112 ft: 240 corp: 9/80b lim: 4 exec/s: 4 rss: 31Mb
stat::number_of_executed_units: 8
";

    #[test]
    fn run_statistics_are_parsed() {
        let stats = RunStats {
            counters: 3801,
            reached: 112,
            runs: 8,
        };
        assert_eq!(RunStats::read(LOG), Some(stats));
        // A program without coverage prints no counters.
        let without = LOG.replace("inline 8-bit counters", "");
        assert_eq!(RunStats::read(&without), None);
    }

    #[test]
    fn artifact_path_is_parsed() {
        let log =
            format!("{LOG}artifact_prefix='a/'; Test unit written to a/crash-1234\nBase64: AA==\n");
        assert_eq!(artifact_path(&log), Some(PathBuf::from("a/crash-1234")));
        assert_eq!(artifact_path(LOG), None);
    }
}
