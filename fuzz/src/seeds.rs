//! Inputs that get far: what fuzzing starts from, made here and kept nowhere.

mod disks;
mod texts;

use std::path::PathBuf;

pub use disks::{archives, layers, qcow2_images, snapshots, streams};
pub use texts::{challenges, credentials, documents, mirrors, references, tokens};

/// Inputs of one target.
pub type Seeds = Vec<Vec<u8>>;

/// Names the folder that a target writes its seeds to before it starts.
pub const FOLDER: &str = "FUZZ_SEEDS";

/// Writes the seeds of a target where [`FOLDER`] says, if it says so.
pub fn write(name: &str) {
    let Some(folder) = std::env::var_os(FOLDER).map(PathBuf::from) else {
        return;
    };
    std::fs::create_dir_all(&folder).expect("the folder of the seeds can be made");
    let target = crate::TARGETS.iter().find(|target| target.name == name);
    let seeds = target.expect("every target is in the list").seeds;
    for (number, seed) in seeds().iter().enumerate() {
        let file = folder.join(format!("seed-{number}"));
        std::fs::write(file, seed).expect("a seed can be written");
    }
}
