//! `cargo xtask fuzz`: libFuzzer on every target, for a bounded time.
//!
//! Coverage is LLVM's, switched on by flags that every toolchain has: no nightly is needed. Only the crates of
//! the workspace get it, by a wrapper around the compiler, which is this program once more; what
//! they depend on is built as for tests. A target that was built without it, or did not run, is an error.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context as _, bail};
use clap::Args;

use crate::{shell, test};

/// Set where this program is called in place of the compiler.
const WRAPPER: &str = "XTASK_FUZZ_COMPILE";

/// What the compiler is asked for besides.
const FLAGS: [&str; 6] = [
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
    // A fuzzer lives on speed; checks for overflow stay.
    "-Copt-level=1",
];

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// What to fuzz; everything if absent.
    #[arg(value_name = "TARGET")]
    targets: Vec<String>,
    /// Seconds for each.
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// Where chance begins; anywhere if 0.
    #[arg(long, default_value_t = 0)]
    seed: u32,
    /// Run this one input and stop: to see again what was found.
    #[arg(long, value_name = "FILE")]
    input: Option<PathBuf>,
}

/// Fuzzes, and fails if anything was found.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    test::provide(&[("c++", "g++")])?;
    let targets = chosen(&arguments.targets)?;
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
            Ok(told) => shell::say(&format!("{target:<12} {told}")),
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

/// The targets that were named, or all.
fn chosen(named: &[String]) -> anyhow::Result<Vec<String>> {
    let folder = shell::root().join("fuzz/fuzz_targets");
    let mut all = Vec::new();
    for entry in fs::read_dir(&folder).context("reading fuzz/fuzz_targets")? {
        let path = entry.context("reading fuzz/fuzz_targets")?.path();
        all.extend(path.file_stem().map(|name| name.display().to_string()));
    }
    all.sort_unstable();
    if let Some(unknown) = named.iter().find(|name| !all.contains(name)) {
        bail!(
            "there is no target {unknown:?}; there are: {}",
            all.join(", ")
        );
    }
    Ok(if named.is_empty() {
        all
    } else {
        named.to_vec()
    })
}

/// Builds the programs, with coverage.
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

/// Runs one target; what was found on the way is kept for the next time.
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
        match kept(&log) {
            Some(input) => bail!(
                "FOUND; see it again with: cargo xtask fuzz {target} --input {}",
                input
                    .strip_prefix(shell::root())
                    .unwrap_or(&input)
                    .display()
            ),
            None => bail!("ended with {}", output.status),
        }
    }
    let runs = Told::read(&log);
    match runs {
        Some(told) if told.counters > 0 && told.runs > 0 => Ok(format!(
            "{:>9} runs, {:>5} of {} places reached",
            told.runs, told.reached, told.counters
        )),
        _ => {
            shell::say(&last(&log, 20));
            bail!("did not run, or without coverage: {runs:?}");
        }
    }
}

/// What libFuzzer tells of a run.
#[derive(Debug, PartialEq, Eq)]
struct Told {
    /// Places in the program that are counted.
    counters: u64,
    /// Those that were reached.
    reached: u64,
    /// Inputs that were run.
    runs: u64,
}

impl Told {
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

/// The input that libFuzzer kept, if it did.
fn kept(log: &str) -> Option<PathBuf> {
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

/// Compiles, if that is what this program was called for: the compiler and its arguments follow.
pub(crate) fn compile() -> Option<ExitCode> {
    std::env::var_os(WRAPPER)?;
    let mut arguments = std::env::args_os().skip(1);
    let mut compiler = Command::new(arguments.next()?);
    let arguments: Vec<OsString> = arguments.collect();
    compiler.args(&arguments);
    // Cargo asks what the compiler is, too; programs that build others are not fuzzed.
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
    fn what_was_done_is_read_from_what_is_told() {
        let told = Told {
            counters: 3801,
            reached: 112,
            runs: 8,
        };
        assert_eq!(Told::read(LOG), Some(told));
        // A program without coverage does not say how much of it there is.
        let without = LOG.replace("inline 8-bit counters", "");
        assert_eq!(Told::read(&without), None);
    }

    #[test]
    fn the_input_that_was_kept_is_found() {
        let log =
            format!("{LOG}artifact_prefix='a/'; Test unit written to a/crash-1234\nBase64: AA==\n");
        assert_eq!(kept(&log), Some(PathBuf::from("a/crash-1234")));
        assert_eq!(kept(LOG), None);
    }
}
