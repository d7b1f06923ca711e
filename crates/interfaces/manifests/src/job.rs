//! Jobs: the controllers that can be enabled.

use std::fmt;
use std::str::FromStr;

use governance::Registry;
use k8s_openapi::api::rbac::v1::PolicyRule;

use crate::entry::by_name;

/// A job of Medley. A new one needs a variant, a name, RBAC rules, and the line in the operator
/// that starts it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Job {
    /// Plans, applies and watches the configuration of third-party operators.
    Governance,
    /// Golden images, from nodes and a HyperConverged to an SSP.
    ImagesHco,
    /// Golden images, from an SSP to DataImportCrons, DataSources and templates.
    ImagesSsp,
    /// Golden images, from DataImportCrons to disks.
    ImagesCdi,
    /// The architecture of virtual machines, from their boot sources.
    ImagesVm,
    /// Reports on virtual machines with chosen CPU models, and those that bypassed admission.
    CpuModels,
    /// Verifies that the cluster has completed its release.
    Release,
    /// Holds pods at a scheduling gate until the platforms of their images are known.
    Placement,
    /// RuntimeClasses for the Windows builds of the nodes.
    RuntimeClasses,
}

impl Job {
    /// All jobs.
    pub const ALL: &[Self] = &[
        Self::Governance,
        Self::ImagesHco,
        Self::ImagesSsp,
        Self::ImagesCdi,
        Self::ImagesVm,
        Self::CpuModels,
        Self::Release,
        Self::Placement,
        Self::RuntimeClasses,
    ];

    /// The layers of golden images.
    pub const IMAGES: &[Self] = &[
        Self::ImagesHco,
        Self::ImagesSsp,
        Self::ImagesCdi,
        Self::ImagesVm,
    ];

    /// Jobs with admission webhooks.
    pub const CHECKED: &[Self] = &[
        Self::Governance,
        Self::ImagesHco,
        Self::ImagesSsp,
        Self::ImagesCdi,
        Self::ImagesVm,
        Self::CpuModels,
        Self::Placement,
    ];

    /// The default jobs. The image layers replace operators that most clusters already run, and two
    /// would conflict. Placement concerns every pod and reads pull secrets. Labelling nodes is a
    /// permission that only clusters with Windows nodes need to grant.
    pub const STANDARD: &[Self] = &[Self::Governance, Self::CpuModels, Self::Release];

    /// The jobs that read images from registries, and so follow the network of the cluster.
    pub const REGISTRIES: &[Self] = &[Self::ImagesCdi, Self::Release, Self::Placement];

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Governance => "governance",
            Self::ImagesHco => "images-hco",
            Self::ImagesSsp => "images-ssp",
            Self::ImagesCdi => "images-cdi",
            Self::ImagesVm => "images-vm",
            Self::CpuModels => "cpu-models",
            Self::Release => "release",
            Self::Placement => "placement",
            Self::RuntimeClasses => "runtime-classes",
        }
    }

    /// Its cluster-wide rules, with these governance profiles.
    pub fn rules(self, registry: &Registry) -> Vec<PolicyRule> {
        match self {
            Self::Governance => governance::roles::operator_rules(registry),
            Self::ImagesHco => golden_images::roles::hco_rules(),
            Self::ImagesSsp => golden_images::roles::ssp_rules(),
            Self::ImagesCdi => golden_images::cdi::roles::rules(),
            Self::ImagesVm => golden_images::roles::vm_rules(),
            Self::CpuModels => cpu_models::roles::operator_rules(),
            Self::Release => release_migration::roles::operator_rules(),
            Self::Placement => placement::roles::operator_rules(),
            Self::RuntimeClasses => placement::runtime_classes::roles::operator_rules(),
        }
    }

    /// Its rules in namespaces other than that of the installation, granted by a Role there.
    pub fn namespaced_rules(self) -> Vec<(&'static str, Vec<PolicyRule>)> {
        match self {
            Self::Release => vec![(
                api::openshift::payloads::NAMESPACE,
                release_migration::roles::payload_rules(),
            )],
            _ => Vec::new(),
        }
    }

    /// Its cluster-wide rules to read pull secrets, which an installation can leave out.
    pub fn pull_secret_rules(self) -> Vec<PolicyRule> {
        match self {
            Self::Placement => placement::roles::pull_secret_rules(),
            _ => Vec::new(),
        }
    }
}

impl fmt::Display for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Job {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        by_name(Self::ALL, Self::name, text, "controller")
    }
}
