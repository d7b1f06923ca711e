//! The `medley` binary.

use std::process::ExitCode;

/// Objects are trees of small values: most of the time of a large one goes into making and dropping
/// them. It is also the same everywhere, which the allocators of C libraries are not.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let line: Vec<_> = std::env::args_os().collect();
    medley::run(&line)
}
