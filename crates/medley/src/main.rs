//! The `medley` binary.

use std::process::ExitCode;

fn main() -> ExitCode {
    let line: Vec<_> = std::env::args_os().collect();
    medley::run(&line)
}
