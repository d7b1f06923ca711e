//! Prints every file of `deploy`; `cargo xtask generate` writes them there.
//!
//! Every file begins with a line `# file: PATH`.

use std::io::Write as _;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut out = std::io::stdout().lock();
    for (path, text) in manifests::files()? {
        write!(out, "{}deploy/{path}\n{text}", manifests::FILE)?;
    }
    Ok(())
}
