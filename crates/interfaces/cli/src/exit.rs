//! Exit codes, and the only writes to standard output and standard error.

use std::ffi::OsString;
use std::io::{self, Write as _};
use std::process::ExitCode;

/// Writes a result to standard output. A closed pipe is no error.
pub(crate) fn print(text: &str) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        // `medley images | head` ends the pipe early; like other Unix tools this is success.
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(anyhow::Error::new(error).context("writing to standard output"))
        }
        _ => Ok(()),
    }
}

/// 0, or 1 with the error on one line.
pub(crate) fn outcome(outcome: anyhow::Result<()>) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failure(&error, 1),
    }
}

/// Prints the error on one line, and returns the code.
pub(crate) fn failure(error: &anyhow::Error, code: u8) -> ExitCode {
    // There is no fallback when standard error cannot be written.
    let _ = writeln!(io::stderr(), "error: {error:#}");
    ExitCode::from(code)
}

/// Help, or a usage error. Usage errors exit with 1, as in kubectl, except for `diff`, where 1
/// means that there are differences.
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
