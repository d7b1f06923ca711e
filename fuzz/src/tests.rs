use std::collections::BTreeSet;
use std::io;
use std::ops::ControlFlow;
use std::time::Duration;

use super::TARGETS;

/// Seeds violate no invariant: findings come from mutations only.
#[test]
fn every_seed_passes() {
    for target in TARGETS {
        let seeds = (target.seeds)();
        assert!(!seeds.is_empty(), "{} has no seeds", target.name);
        for seed in seeds {
            (target.run)(&seed);
        }
    }
}

/// The list, the programs and the manifest name the same targets.
#[test]
fn every_target_has_a_program() {
    let root = env!("CARGO_MANIFEST_DIR");
    let programs: BTreeSet<String> = std::fs::read_dir(format!("{root}/fuzz_targets"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned())
        .collect();
    let listed: BTreeSet<String> = TARGETS.map(|target| target.name.to_owned()).into();
    assert_eq!(programs, listed);
    let manifest = std::fs::read_to_string(format!("{root}/Cargo.toml")).unwrap();
    for target in TARGETS {
        assert!(
            manifest.contains(&format!("path = \"fuzz_targets/{}.rs\"", target.name)),
            "{} is not in Cargo.toml",
            target.name
        );
    }
}

/// Seeds of images are valid: they are imported as disks, not rejected.
#[test]
fn image_seeds_are_valid() {
    for seed in super::seeds::qcow2_images() {
        let digest = platform::Digest::sha256(&seed).to_string().parse().unwrap();
        let layer = disk::Layer {
            digest,
            is_verified: true,
            size: None,
            diff_id: None,
            contents: disk::Contents::Disk,
        };
        let mut sink = disk::MemorySink::new(Some(4 << 20));
        let options = disk::Options::default();
        let imported = disk::import(
            &[layer],
            &mut Blob(seed),
            &mut sink,
            &options,
            None,
            &mut NoWatch,
        );
        // The first cluster consists of ones, and the compressed clusters are there.
        let disk = sink.to_vec();
        assert!(disk.starts_with(&[1; 512]) && disk.contains(&0x55) && disk.contains(&0x66));
        assert_eq!(imported.unwrap().size, disk.len() as u64);
    }
    for seed in super::seeds::documents().iter().take(4) {
        platform::document::read(seed, None).unwrap();
    }
}

struct Blob(Vec<u8>);

impl disk::Source for Blob {
    fn open(&mut self, _: &disk::Layer, offset: u64) -> io::Result<Box<dyn io::Read + Send>> {
        let rest = self
            .0
            .split_off(usize::try_from(offset).unwrap_or(usize::MAX));
        Ok(Box::new(io::Cursor::new(rest)))
    }
}

struct NoWatch;

impl disk::Watch for NoWatch {
    fn now(&mut self) -> Duration {
        Duration::ZERO
    }

    fn progress(&mut self, _: &disk::Progress) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }

    fn checkpoint(&mut self, _: disk::Checkpoint) {}
}
