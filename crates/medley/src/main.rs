//! The `medley` binary.

use std::process::ExitCode;

fn main() -> ExitCode {
    medley::run(std::env::args_os().collect())
}
