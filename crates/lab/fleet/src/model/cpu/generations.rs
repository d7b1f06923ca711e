//! Generations of CPUs by name, and what libvirt says on them.
//!
//! What is usable follows from what a host has, and hosts are not always what their model promises:
//! Linux switches `xsaves` off on Naples and Rome, and `rdseed`, `pcid` and `la57` were seen off on Turin;
//! microcode took transactions from Intel's. So Rome does not run `EPYC-Rome`, and Turin no EPYC at all.

use super::Cpu;
use super::models::{MAINFRAMES, features, split, split_mainframes};

/// A generation of CPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Generation {
    /// What a fleet calls it.
    pub name: &'static str,
    /// The architecture its nodes have.
    pub arch: &'static str,
    vendor: &'static str,
    host_model: &'static str,
    /// What hosts lack although their model has it.
    without: &'static [&'static str],
    /// What they have beyond it.
    beyond: &'static [&'static str],
    tsc_frequency: Option<u64>,
}

/// Features KVM gives to every guest of x86.
const EMULATED: &[&str] = &[
    "arch-capabilities",
    "hypervisor",
    "tsc-deadline",
    "tsc_adjust",
    "x2apic",
];

const INTEL: Generation = Generation {
    name: "",
    arch: "amd64",
    vendor: "Intel",
    host_model: "",
    without: &[],
    beyond: &["md-clear", "spec-ctrl", "ss", "ssbd", "stibp", "vmx"],
    tsc_frequency: None,
};

const AMD: Generation = Generation {
    vendor: "AMD",
    beyond: &["amd-ssbd", "ibpb", "svm", "topoext"],
    ..INTEL
};

const IBM: Generation = Generation {
    arch: "s390x",
    vendor: "IBM",
    beyond: &["aen", "cmmnt", "edat", "vx", "vxeh", "vxeh2", "zpci"],
    ..INTEL
};

/// All of them.
pub const GENERATIONS: [Generation; 13] = [
    Generation {
        name: "haswell",
        host_model: "Haswell-noTSX-IBRS",
        tsc_frequency: Some(2_600_000_000),
        ..INTEL
    },
    Generation {
        name: "broadwell",
        host_model: "Broadwell-noTSX-IBRS",
        tsc_frequency: Some(2_200_000_000),
        ..INTEL
    },
    // Xeons of this generation and the next keep transactions unless they are told not to.
    Generation {
        name: "skylake",
        host_model: "Skylake-Server-IBRS",
        tsc_frequency: Some(2_100_000_000),
        ..INTEL
    },
    Generation {
        name: "cascadelake",
        host_model: "Cascadelake-Server-noTSX",
        tsc_frequency: Some(2_500_000_000),
        ..INTEL
    },
    Generation {
        name: "icelake",
        host_model: "Icelake-Server-noTSX",
        beyond: &[
            "avx512ifma",
            "md-clear",
            "rdpid",
            "sha-ni",
            "spec-ctrl",
            "ss",
            "ssbd",
            "stibp",
            "vmx",
            "xsaves",
        ],
        tsc_frequency: Some(2_400_000_000),
        ..INTEL
    },
    Generation {
        name: "sapphirerapids",
        host_model: "SapphireRapids",
        tsc_frequency: Some(2_000_000_000),
        ..INTEL
    },
    Generation {
        name: "naples",
        host_model: "EPYC-IBPB",
        tsc_frequency: Some(2_200_000_000),
        ..AMD
    },
    Generation {
        name: "rome",
        host_model: "EPYC-Rome",
        without: &["xsaves"],
        tsc_frequency: Some(2_250_000_000),
        ..AMD
    },
    Generation {
        name: "milan",
        host_model: "EPYC-Milan",
        beyond: &[
            "amd-ssbd",
            "ibpb",
            "spec-ctrl",
            "stibp",
            "svm",
            "topoext",
            "vaes",
            "vpclmulqdq",
        ],
        tsc_frequency: Some(2_450_000_000),
        ..AMD
    },
    Generation {
        name: "genoa",
        host_model: "EPYC-Genoa",
        beyond: &["amd-ssbd", "ibpb", "spec-ctrl", "stibp", "svm", "topoext"],
        tsc_frequency: Some(2_400_000_000),
        ..AMD
    },
    Generation {
        name: "turin",
        host_model: "EPYC-Turin",
        without: &["la57", "pcid", "rdseed"],
        beyond: &["amd-ssbd", "ibpb", "spec-ctrl", "stibp", "svm", "topoext"],
        tsc_frequency: Some(2_600_000_000),
        ..AMD
    },
    Generation {
        name: "z15",
        host_model: "gen15a",
        ..IBM
    },
    Generation {
        name: "z16",
        host_model: "gen16a",
        ..IBM
    },
];

impl Generation {
    /// The generation of this name.
    pub fn named(name: &str) -> Option<&'static Self> {
        static ALL: [Generation; 13] = GENERATIONS;
        ALL.iter().find(|generation| generation.name == name)
    }

    /// What libvirt says on hosts of it.
    pub fn describe(&self) -> Cpu {
        let owned = |list: &[&str]| list.iter().map(|name| (*name).to_owned()).collect();
        let whole = Cpu {
            vendor: self.vendor.to_owned(),
            ..Cpu::default()
        };
        if MAINFRAMES.contains(&self.host_model) {
            let (models, known_models) = split_mainframes(self.host_model);
            return Cpu {
                // There the host model is what all machines of the generation have.
                model: format!("{}-base", self.host_model),
                models,
                known_models,
                features: owned(self.beyond),
                required_features: owned(self.beyond),
                machine_types: owned(&["s390-ccw-virtio"]),
                ..whole
            };
        }
        let promised = features(self.host_model);
        let mut has = promised.clone();
        has.extend(self.beyond.iter().chain(EMULATED).copied());
        has.retain(|feature| !self.without.contains(feature));
        let (models, known_models) = split(&has);
        // What a guest with the model of its host has although the model does not say so.
        let required = has.difference(&promised).map(|name| (*name).to_owned());
        let required_features = required.collect();
        Cpu {
            model: self.host_model.to_owned(),
            models,
            known_models,
            features: has.into_iter().map(str::to_owned).collect(),
            required_features,
            machine_types: owned(&["pc-q35-rhel9.6.0", "q35"]),
            tsc_frequency: self.tsc_frequency,
            tsc_scalable: Some(true),
            ..whole
        }
    }
}
