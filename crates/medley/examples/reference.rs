//! Prints the reference of the command line; `cargo xtask generate` keeps it in `docs`.

use std::io::Write as _;

fn main() -> std::io::Result<()> {
    std::io::stdout().write_all(medley::reference().as_bytes())
}
