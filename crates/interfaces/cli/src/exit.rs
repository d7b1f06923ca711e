//! How the program ends, and the only places it writes to.

use std::ffi::OsString;
use std::io::{self, Write as _};
use std::process::ExitCode;

/// Writes a result to standard output. A reader that has seen enough is no error.
pub(crate) fn print(text: &str) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(anyhow::Error::new(error).context("writing to standard output"))
        }
        _ => Ok(()),
    }
}

/// 0, or 1 and one line that says what was tried and why it did not work.
pub(crate) fn outcome(outcome: anyhow::Result<()>) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failure(&error, 1),
    }
}

/// A line that says what was tried and why it did not work, and a code.
pub(crate) fn failure(error: &anyhow::Error, code: u8) -> ExitCode {
    // Nothing is left to be done when even this cannot be written.
    let _ = writeln!(io::stderr(), "error: {error:#}");
    ExitCode::from(code)
}

/// A command line that asks for help, or makes no sense; the latter is 1, as kubectl has it, but for
/// `diff`, where 1 means that there are differences.
pub(crate) fn usage(error: &clap::Error, line: &[OsString]) -> ExitCode {
    let _ = error.print();
    let mut words = line.iter().skip(1).filter_map(|word| word.to_str());
    let is_diff = words.find(|word| !word.starts_with('-')) == Some("diff");
    if error.use_stderr() {
        ExitCode::from(if is_diff { 2 } else { 1 })
    } else {
        ExitCode::SUCCESS
    }
}
