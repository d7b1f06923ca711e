//! Normalisation of platforms: one spelling for each meaning.

use super::Platform;

/// The operating systems Go knows (GOOS).
const OSES: [&str; 17] = [
    "aix",
    "android",
    "darwin",
    "dragonfly",
    "freebsd",
    "hurd",
    "illumos",
    "ios",
    "js",
    "linux",
    "nacl",
    "netbsd",
    "openbsd",
    "plan9",
    "solaris",
    "windows",
    "zos",
];

/// The architectures Go knows (GOARCH).
const ARCHITECTURES: [&str; 24] = [
    "386",
    "amd64",
    "amd64p32",
    "arm",
    "arm64",
    "arm64be",
    "armbe",
    "loong64",
    "mips",
    "mips64",
    "mips64le",
    "mips64p32",
    "mips64p32le",
    "mipsle",
    "ppc",
    "ppc64",
    "ppc64le",
    "riscv",
    "riscv64",
    "s390",
    "s390x",
    "sparc",
    "sparc64",
    "wasm",
];

impl Platform {
    /// The normal form: lower case, aliases resolved, default variants removed (`v1` of `amd64`, `v8`
    /// of `arm64`), the default of `arm` added (`v7`), features sorted and unique.
    ///
    /// A missing operating system stays missing; the comparison decides what it means.
    #[must_use]
    pub fn normalised(&self) -> Self {
        let (architecture, variant) = architecture(&self.architecture, &self.variant);
        let mut os_features = self.os_features.clone();
        os_features.retain(|feature| !feature.is_empty());
        os_features.sort_unstable();
        os_features.dedup();
        Self {
            os: os(&self.os),
            architecture,
            variant,
            os_version: self.os_version.clone(),
            os_features,
        }
    }
}

/// The GOARCH of an architecture or alias: `x86_64` is `amd64`. `None` if Go does not know it.
pub fn known_architecture(name: &str) -> Option<&'static str> {
    let (name, _) = architecture(name, "");
    ARCHITECTURES.into_iter().find(|known| *known == name)
}

/// Whether Go knows a (normalised) operating system.
pub(super) fn is_known_os(name: &str) -> bool {
    OSES.contains(&name)
}

pub(super) fn os(name: &str) -> String {
    let name = name.to_lowercase();
    if name == "macos" {
        "darwin".to_owned()
    } else {
        name
    }
}

/// `normalizeArch` of containerd.
pub(super) fn architecture(name: &str, variant: &str) -> (String, String) {
    let (name, variant) = (name.to_lowercase(), variant.to_lowercase());
    let (name, variant) = match (name.as_str(), variant.as_str()) {
        ("i386", _) => ("386", ""),
        ("x86_64" | "x86-64" | "amd64", "v1") => ("amd64", ""),
        ("x86_64" | "x86-64", variant) => ("amd64", variant),
        ("aarch64" | "arm64", "8" | "v8" | "v8.0") => ("arm64", ""),
        ("aarch64" | "arm64", "9" | "9.0" | "v9.0") => ("arm64", "v9"),
        ("aarch64", variant) => ("arm64", variant),
        // containerd's default (`normalizeArch` in `database.go` of containerd/platforms). v6 would be safer on old
        // boards, but v7 nodes would then prefer the slower image.
        ("armhf", _) | ("arm", "" | "7") => ("arm", "v7"),
        ("armel", _) | ("arm", "6") => ("arm", "v6"),
        ("arm", "5") => ("arm", "v5"),
        ("arm", "8") => ("arm", "v8"),
        same => same,
    };
    (name.to_owned(), variant.to_owned())
}
