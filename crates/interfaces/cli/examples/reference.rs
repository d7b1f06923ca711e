//! Prints the reference pages; `cargo xtask generate` writes them to `docs`.
//!
//! Every page begins with a line `# file: PATH`.

use std::io::Write as _;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut out = std::io::stdout().lock();
    for (path, page) in medley::references()? {
        write!(out, "# file: {path}\n{page}")?;
    }
    Ok(())
}
