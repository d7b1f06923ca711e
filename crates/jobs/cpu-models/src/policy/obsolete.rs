//! Models that KubeVirt considers obsolete.

use std::collections::BTreeSet;

/// KubeVirt's built-in list, used while `obsoleteCPUModels` is unset; each also as `-v1`.
pub const BUILT_IN_OBSOLETE: [&str; 17] = [
    "486",
    "Conroe",
    "Opteron_G1",
    "Opteron_G2",
    "athlon",
    "core2duo",
    "coreduo",
    "kvm32",
    "kvm64",
    "n270",
    "pentium",
    "pentium2",
    "pentium3",
    "pentiumpro",
    "phenom",
    "qemu32",
    "qemu64",
];

/// `spec.configuration.obsoleteCPUModels` of a KubeVirt.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Obsolete {
    /// The field is unset: the built-in list applies.
    #[default]
    BuiltIn,
    /// The field is set, and replaces the built-in list.
    Listed(BTreeSet<String>),
}

impl Obsolete {
    /// Reads the field. As in the node labeller, only the keys count: `Haswell: false` makes
    /// Haswell obsolete too, and an empty map makes nothing obsolete.
    pub fn from_configuration<'a, K>(models: Option<K>) -> Self
    where
        K: IntoIterator<Item = &'a String>,
    {
        models.map_or(Self::BuiltIn, |models| {
            Self::Listed(models.into_iter().cloned().collect())
        })
    }

    /// Whether the list has this model.
    pub fn contains(&self, model: &str) -> bool {
        match self {
            Self::BuiltIn => {
                // `DefaultObsoleteCPUModels` (pkg/virt-handler/node-labeller/util/util.go) lists
                // both forms, since libvirt began to report versioned names. A configured list is
                // taken literally, as `filterCpuModels` does.
                let plain = model.strip_suffix("-v1").unwrap_or(model);
                BUILT_IN_OBSOLETE.contains(&plain)
            }
            Self::Listed(models) => models.contains(model),
        }
    }
}
