use std::collections::BTreeSet;

use super::TARGETS;

/// What fuzzing starts from gets through: nothing is found before anything was changed.
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

/// Seeds of images are images: some get to a disk, and not only to an error.
#[test]
fn seeds_get_far() {
    for seed in super::seeds::qcow2_images() {
        disk::Header::parse(&seed).unwrap();
    }
    for seed in super::seeds::documents().iter().take(4) {
        platform::document::read(seed, None).unwrap();
    }
}
