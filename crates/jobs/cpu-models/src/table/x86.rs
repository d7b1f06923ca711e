//! Models of x86. Years are those documented by QEMU (docs/system/cpu-models-x86.rst.inc), else
//! those of the launch.

use super::family::{Family, Version};

const INTEL: &str = "Intel";
const AMD: &str = "AMD";

const fn has(mitigated: bool, tsx: bool) -> Version {
    Version { mitigated, tsx }
}

/// Plain, then with IBRS.
const IBRS: &[Version] = &[has(false, false), has(true, false)];
/// Plain, without TSX, with IBRS, with IBRS and without TSX.
const HASWELL: &[Version] = &[
    has(false, true),
    has(false, false),
    has(true, true),
    has(true, false),
];
/// Plain, with IBRS, and from then on without TSX.
const SKYLAKE: &[Version] = &[has(false, true), has(true, true), has(true, false)];
/// Mitigated from the start; from the third version on without TSX.
const CASCADE_LAKE: &[Version] = &[has(true, true), has(true, true), has(true, false)];
/// Mitigated from the start; from the second version on without TSX.
const ICE_LAKE: &[Version] = &[has(true, true), has(true, false)];
/// Mitigated from the start, with TSX.
const WITH_TSX: &[Version] = &[has(true, true)];
/// Mitigated from the start, without TSX.
const MITIGATED: &[Version] = &[has(true, false)];
/// Plain, and from the second version on with IBPB.
const IBPB: &[Version] = &[has(false, false), has(true, false)];

/// The generation orders models of the same launch year: the larger feature set ranks higher, small
/// cores below large ones.
pub(super) const FAMILIES: &[Family] = &[
    Family::unbranded("486", 1989, 0),
    Family::unbranded("pentium", 1993, 1),
    Family::unbranded("pentiumpro", 1995, 2),
    Family::unbranded("pentium2", 1997, 3),
    Family::unbranded("pentium3", 1999, 4),
    Family::generic("qemu32"),
    Family::generic("qemu64"),
    Family::generic("kvm32"),
    Family::generic("kvm64"),
    Family::generic("cpu64-rhel5"),
    Family::generic("cpu64-rhel6"),
    Family::new("coreduo", INTEL, 2006, 5),
    Family::new("core2duo", INTEL, 2006, 6),
    Family::new("n270", INTEL, 2008, 7),
    Family::new("Conroe", INTEL, 2006, 10),
    Family::new("Penryn", INTEL, 2007, 20),
    Family::new("Nehalem", INTEL, 2008, 30).versions(IBRS),
    Family::new("Westmere", INTEL, 2010, 40).versions(IBRS),
    Family::new("SandyBridge", INTEL, 2011, 50).versions(IBRS),
    Family::new("IvyBridge", INTEL, 2012, 60).versions(IBRS),
    Family::new("Haswell", INTEL, 2013, 70).versions(HASWELL),
    Family::new("Broadwell", INTEL, 2014, 80).versions(HASWELL),
    Family::new("Skylake-Client", INTEL, 2015, 90).versions(SKYLAKE),
    Family::new("Skylake-Server", INTEL, 2016, 100).versions(SKYLAKE),
    Family::new("Denverton", INTEL, 2017, 62).versions(MITIGATED),
    Family::new("KnightsMill", INTEL, 2017, 95),
    Family::new("Cascadelake-Server", INTEL, 2019, 110).versions(CASCADE_LAKE),
    Family::new("Icelake-Client", INTEL, 2019, 105).versions(ICE_LAKE),
    Family::new("Snowridge", INTEL, 2019, 64).versions(MITIGATED),
    Family::new("Cooperlake", INTEL, 2020, 120).versions(WITH_TSX),
    Family::new("Icelake-Server", INTEL, 2021, 130).versions(ICE_LAKE),
    Family::new("SapphireRapids", INTEL, 2023, 140).versions(WITH_TSX),
    Family::new("SierraForest", INTEL, 2024, 136).versions(MITIGATED),
    Family::new("GraniteRapids", INTEL, 2024, 150).versions(WITH_TSX),
    Family::new("ClearwaterForest", INTEL, 2025, 138).versions(MITIGATED),
    Family::new("DiamondRapids", INTEL, 2026, 160).versions(MITIGATED),
    Family::new("athlon", AMD, 1999, 5),
    Family::new("phenom", AMD, 2007, 25),
    Family::new("Opteron_G1", AMD, 2004, 10),
    Family::new("Opteron_G2", AMD, 2006, 20),
    Family::new("Opteron_G3", AMD, 2009, 30),
    Family::new("Opteron_G4", AMD, 2011, 40),
    Family::new("Opteron_G5", AMD, 2012, 50),
    Family::new("EPYC", AMD, 2017, 60).versions(IBPB),
    Family::new("EPYC-Rome", AMD, 2019, 70).versions(MITIGATED),
    Family::new("EPYC-Milan", AMD, 2021, 80).versions(MITIGATED),
    Family::new("EPYC-Genoa", AMD, 2022, 90).versions(MITIGATED),
    Family::new("EPYC-Turin", AMD, 2024, 100).versions(MITIGATED),
    Family::new("Dhyana", "Hygon", 2018, 60).versions(MITIGATED),
    Family::new("YongFeng", "Zhaoxin", 2022, 60),
];
