//! CPU generations by name, and what libvirt reports on them.
//!
//! Usable models follow from the features of a host, and hosts may lack features of their nominal
//! model: Linux disables `xsaves` on Naples and Rome, `rdseed`, `pcid` and `la57` were observed off
//! on Turin, and microcode removed TSX from Intel CPUs. So Rome does not run `EPYC-Rome`, and Turin
//! no EPYC model at all.

use super::Cpu;
use super::models::{MAINFRAMES, features, split, split_mainframes};

/// A generation of CPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Generation {
    /// Name used in fleet files.
    pub name: &'static str,
    /// Architecture of its nodes.
    pub arch: &'static str,
    vendor: &'static str,
    host_model: &'static str,
    /// Features of the nominal model that hosts lack.
    without: &'static [&'static str],
    /// Features of hosts beyond the nominal model.
    beyond: &'static [&'static str],
    tsc_frequency: Option<u64>,
}

/// Features KVM emulates for every x86 guest.
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

/// All known generations.
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
    // Xeons of this generation and the next keep TSX unless it is disabled.
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

    /// Host capabilities as libvirt reports them.
    pub fn describe(&self) -> Cpu {
        let owned = |list: &[&str]| list.iter().map(|name| (*name).to_owned()).collect();
        let whole = Cpu {
            vendor: self.vendor.to_owned(),
            ..Cpu::default()
        };
        if MAINFRAMES.contains(&self.host_model) {
            let (models, known_models) = split_mainframes(self.host_model);
            return Cpu {
                // On this architecture the host model is the base model of the generation.
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
        // Features of a host-model guest that the named model does not include.
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
