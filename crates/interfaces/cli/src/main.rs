//! The `medley` binary.

use std::process::ExitCode;

/// Objects are trees of small values, so allocation dominates the cost of large ones. mimalloc also
/// behaves the same on glibc and musl.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let line: Vec<_> = std::env::args_os().collect();
    medley::run(&line)
}
