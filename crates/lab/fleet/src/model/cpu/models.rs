//! CPU models of libvirt and the features each requires.
//!
//! A host can run a model if it has all features of the model, regardless of vendor: that is why
//! QEMU finds Intel models usable on AMD hosts. Versions (`-v2`) are left out; their aliases
//! (`-IBRS`, `-noTSX`, `-IBPB`) are included. Only features that distinguish models are listed.

use std::collections::BTreeSet;

/// A model: its name, its base model, and the features it adds.
type Model = (&'static str, &'static str, &'static [&'static str]);

/// No base model.
const NONE: &str = "";
/// Transactional memory, which microcode disabled on many hosts.
const TSX: &[&str] = &["hle", "rtm"];
/// Speculation control.
const IBRS: &[&str] = &["spec-ctrl"];

/// x86 models.
#[rustfmt::skip]
const X86: &[Model] = &[
    ("486", NONE, &[]),
    ("pentium", NONE, &[]),
    ("pentiumpro", NONE, &[]),
    ("pentium2", NONE, &[]),
    ("pentium3", NONE, &[]),
    ("coreduo", NONE, &[]),
    ("athlon", NONE, &["3dnow"]),
    ("qemu32", NONE, &[]),
    ("kvm32", NONE, &[]),
    ("qemu64", NONE, &[]),
    ("kvm64", NONE, &[]),
    ("n270", NONE, &["ssse3"]),
    ("core2duo", NONE, &["pni", "ssse3"]),
    ("phenom", NONE, &["3dnow", "abm", "popcnt", "sse4a"]),
    ("Conroe", "core2duo", &["lahf_lm"]),
    ("Penryn", "Conroe", &["cx16", "sse4.1"]),
    ("Nehalem", "Penryn", &["popcnt", "sse4.2"]),
    ("Nehalem-IBRS", "Nehalem", IBRS),
    ("Westmere", "Nehalem", &["aes"]),
    ("Westmere-IBRS", "Westmere", IBRS),
    ("SandyBridge", "Westmere", &["avx", "pclmuldq", "rdtscp", "tsc-deadline", "x2apic", "xsave"]),
    ("SandyBridge-IBRS", "SandyBridge", IBRS),
    ("IvyBridge", "SandyBridge", &["erms", "f16c", "fsgsbase", "rdrand", "smep"]),
    ("IvyBridge-IBRS", "IvyBridge", IBRS),
    ("Haswell-noTSX", "IvyBridge", &["avx2", "bmi1", "bmi2", "fma", "invpcid", "movbe", "pcid"]),
    ("Haswell-noTSX-IBRS", "Haswell-noTSX", IBRS),
    ("Haswell", "Haswell-noTSX", TSX),
    ("Haswell-IBRS", "Haswell", IBRS),
    ("Broadwell-noTSX", "Haswell-noTSX", &["3dnowprefetch", "adx", "rdseed", "smap"]),
    ("Broadwell-noTSX-IBRS", "Broadwell-noTSX", IBRS),
    ("Broadwell", "Broadwell-noTSX", TSX),
    ("Broadwell-IBRS", "Broadwell", IBRS),
    ("Skylake-Client", "Broadwell", &["abm", "xgetbv1", "xsavec", "xsaveopt"]),
    ("Skylake-Client-IBRS", "Skylake-Client", IBRS),
    ("Skylake-Client-noTSX-IBRS", "Broadwell-noTSX-IBRS", &["abm", "xgetbv1", "xsavec", "xsaveopt"]),
    ("Skylake-Server-noTSX-IBRS", "Skylake-Client-noTSX-IBRS", &[
        "avx512bw", "avx512cd", "avx512dq", "avx512f", "avx512vl", "clwb", "pdpe1gb", "pku",
    ]),
    ("Skylake-Server", "Skylake-Client", &[
        "avx512bw", "avx512cd", "avx512dq", "avx512f", "avx512vl", "clwb", "pdpe1gb", "pku",
    ]),
    ("Skylake-Server-IBRS", "Skylake-Server", IBRS),
    ("Cascadelake-Server-noTSX", "Skylake-Server-noTSX-IBRS", &["avx512vnni", "ssbd"]),
    ("Cascadelake-Server", "Cascadelake-Server-noTSX", TSX),
    ("Cooperlake", "Cascadelake-Server", &["avx512-bf16", "stibp"]),
    ("Icelake-Server-noTSX", "Skylake-Server-noTSX-IBRS", &[
        "avx512-vpopcntdq", "avx512bitalg", "avx512vbmi", "avx512vbmi2", "avx512vnni", "gfni", "la57",
        "umip", "vaes", "vpclmulqdq", "wbnoinvd",
    ]),
    ("Icelake-Server", "Icelake-Server-noTSX", TSX),
    ("SapphireRapids", "Icelake-Server", &[
        "amx-bf16", "amx-int8", "amx-tile", "avx-vnni", "avx512-bf16", "avx512-fp16", "avx512ifma",
        "fsrm", "rdpid", "serialize", "sha-ni", "ssbd", "tsx-ldtrk", "xfd", "xsaves",
    ]),
    ("GraniteRapids", "SapphireRapids", &["amx-fp16", "prefetchiti"]),
    ("Opteron_G1", NONE, &["pni"]),
    ("Opteron_G2", "Opteron_G1", &["cx16", "lahf_lm", "rdtscp"]),
    ("Opteron_G3", "Opteron_G2", &["abm", "misalignsse", "popcnt", "sse4a"]),
    ("Opteron_G4", "Opteron_G3", &[
        "3dnowprefetch", "aes", "avx", "fma4", "pclmuldq", "sse4.1", "sse4.2", "ssse3", "xop", "xsave",
    ]),
    ("Opteron_G5", "Opteron_G4", &["f16c", "fma", "tbm"]),
    ("Dhyana", "Opteron_G3", &[
        "3dnowprefetch", "adx", "avx", "avx2", "bmi1", "bmi2", "clflushopt", "f16c", "fma", "fsgsbase",
        "ibpb", "movbe", "pdpe1gb", "rdrand", "rdseed", "smap", "smep", "sse4.1", "sse4.2", "ssse3",
        "xgetbv1", "xsave", "xsavec", "xsaveopt",
    ]),
    ("EPYC", "Opteron_G3", &[
        "3dnowprefetch", "adx", "aes", "avx", "avx2", "bmi1", "bmi2", "clflushopt", "f16c", "fma",
        "fsgsbase", "movbe", "pclmuldq", "pdpe1gb", "rdrand", "rdseed", "sha-ni", "smap", "smep",
        "sse4.1", "sse4.2", "ssse3", "xgetbv1", "xsave", "xsavec", "xsaveopt",
    ]),
    ("EPYC-IBPB", "EPYC", &["ibpb"]),
    ("EPYC-Rome", "EPYC-IBPB", &["amd-stibp", "clwb", "rdpid", "umip", "wbnoinvd", "xsaves"]),
    ("EPYC-Milan", "EPYC-Rome", &["amd-ssbd", "erms", "fsrm", "ibrs", "invpcid", "pcid", "pku"]),
    ("EPYC-Genoa", "EPYC-Milan", &[
        "auto-ibrs", "avx512-bf16", "avx512-vpopcntdq", "avx512bitalg", "avx512bw", "avx512cd",
        "avx512dq", "avx512f", "avx512ifma", "avx512vbmi", "avx512vbmi2", "avx512vl", "avx512vnni",
        "gfni", "la57", "vaes", "vpclmulqdq",
    ]),
    ("EPYC-Turin", "EPYC-Genoa", &["avx-vnni", "avx512-vp2intersect", "movdir64b", "movdiri"]),
];

/// s390x models that every CPU since the z15 can run. Each has a `-base` variant as well.
const OLD_MAINFRAMES: &[&str] = &["z900", "z800", "z990", "z890", "z9EC", "z9BC"];
/// s390x models with features that the z15 dropped.
const DROPPED_MAINFRAMES: &[&str] = &[
    "z10EC", "z10BC", "z196", "z114", "zEC12", "zBC12", "z13", "z13s", "z14", "z14ZR1",
];
/// s390x models since then.
pub(super) const MAINFRAMES: &[&str] =
    &["gen15a", "gen15b", "gen16a", "gen16b", "gen17a", "gen17b"];

/// Whether libvirt knows this x86 or s390x model.
pub(crate) fn is_known(model: &str) -> bool {
    let plain = model.strip_suffix("-base").unwrap_or(model);
    let mut mainframes = [OLD_MAINFRAMES, DROPPED_MAINFRAMES, MAINFRAMES]
        .into_iter()
        .flatten();
    X86.iter().any(|(name, _, _)| *name == model) || mainframes.any(|name| *name == plain)
}

/// Features of an x86 model.
pub(super) fn features(model: &str) -> BTreeSet<&'static str> {
    let mut all = BTreeSet::new();
    let mut next = model;
    while let Some((_, less, adds)) = X86.iter().find(|(name, _, _)| *name == next) {
        all.extend(adds.iter().copied());
        next = less;
    }
    all
}

/// The x86 models that a host with these features can run, and those it cannot.
pub(super) fn split(has: &BTreeSet<&str>) -> (Vec<String>, Vec<String>) {
    let names = X86.iter().map(|(name, _, _)| *name);
    let (usable, rest): (Vec<_>, Vec<_>) = names.partition(|name| features(name).is_subset(has));
    let owned = |names: Vec<&str>| names.into_iter().map(str::to_owned).collect();
    (owned(usable), owned(rest))
}

/// The same for s390x: a host runs the models before the z10, its own, and those in between.
pub(super) fn split_mainframes(host: &str) -> (Vec<String>, Vec<String>) {
    let own = MAINFRAMES.iter().position(|name| *name == host);
    // The two models of a generation have the same features.
    let reach = own.map_or(0, |own| (own / 2 + 1) * 2);
    let (before, after) = MAINFRAMES.split_at(reach.min(MAINFRAMES.len()));
    let both = |names: &[&str]| -> Vec<String> {
        let names = names.iter();
        names
            .flat_map(|name| [(*name).to_owned(), format!("{name}-base")])
            .collect()
    };
    let usable = [both(OLD_MAINFRAMES), both(before)].concat();
    (usable, [both(DROPPED_MAINFRAMES), both(after)].concat())
}
