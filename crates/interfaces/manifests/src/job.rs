//! What can be switched on and off.

use std::fmt;
use std::str::FromStr;

use governance::Registry;
use k8s_openapi::api::rbac::v1::PolicyRule;

/// One thing Medley does. A new one is a variant, its name, its rights, and the line in the operator that
/// starts it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Job {
    /// Plans, applies and watches the tuning of other people's operators.
    Governance,
    /// Golden images, from nodes and a HyperConverged to an SSP.
    ImagesHco,
    /// Golden images, from an SSP to DataImportCrons, DataSources and templates.
    ImagesSsp,
    /// Golden images, from DataImportCrons to disks.
    ImagesCdi,
    /// The architecture of virtual machines, from what they start from.
    ImagesVm,
    /// How virtual machines fare whose CPU models are chosen, and what slipped through.
    CpuModels,
    /// Whether the cluster has truly arrived at its release.
    Release,
    /// Pods at the gate, until somebody knows where their images run.
    Placement,
    /// RuntimeClasses for the builds of Windows that nodes have.
    RuntimeClasses,
}

impl Job {
    /// All there are.
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

    /// Those of which admission is asked.
    pub const CHECKED: &[Self] = &[
        Self::Governance,
        Self::ImagesHco,
        Self::ImagesSsp,
        Self::ImagesCdi,
        Self::ImagesVm,
        Self::CpuModels,
        Self::Placement,
    ];

    /// Those that are on unless somebody names others. The layers of images do what operators do that
    /// most clusters have: two would fight. Placement is about every pod, and reads pull secrets. Labelling
    /// nodes is a right that only clusters with Windows need to give.
    pub const STANDARD: &[Self] = &[Self::Governance, Self::CpuModels, Self::Release];

    /// How it is called on the command line.
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

    /// What it may do in the whole cluster, with these profiles of governance.
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

    /// What it may do in namespaces other than that of the installation, which a Role there grants.
    pub fn namespaced_rules(self) -> Vec<(&'static str, Vec<PolicyRule>)> {
        match self {
            Self::Release => vec![(
                api::openshift::payloads::NAMESPACE,
                release_migration::roles::payload_rules(),
            )],
            _ => Vec::new(),
        }
    }

    /// What it may do in the whole cluster where the installation does not leave it out: reading pull secrets.
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
        let known = Self::ALL.iter().find(|job| job.name() == text).copied();
        known.ok_or_else(|| {
            let names: Vec<&str> = Self::ALL.iter().map(|job| job.name()).collect();
            format!("no such controller; there are: {}", names.join(", "))
        })
    }
}
