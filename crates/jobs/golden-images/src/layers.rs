//! The layers of golden images, and the genuine operators that they are instead of.
//!
//! While the genuine operator of a layer runs, the layer writes none of its objects: it assists. See `api::operators` for
//! when one counts as running, and `api::mode` for what the modes mean.

#[cfg(test)]
mod tests;

use std::fmt;
use std::str::FromStr;

use api::golden::NAME;
use api::mode::{ModeInputs, ModeSetting, Ownership, decide, reasons};
use api::operators::{GenuineOperator, RunningOperator};
use serde::{Serialize, Serializer};

use crate::conditions::ConditionUpdate;

/// The SSP operator (`main.go` and the manifests of kubevirt/ssp-operator).
pub const SSP: GenuineOperator = GenuineOperator {
    title: "the SSP operator",
    deployment: "ssp-operator",
    lease: Some("734f7229.kubevirt.io"),
    namespaces: &[],
};

/// The HyperConverged cluster operator (`cmd/hyperconverged-cluster-operator` of
/// kubevirt/hyperconverged-cluster-operator).
pub const HCO: GenuineOperator = GenuineOperator {
    title: "the HyperConverged cluster operator",
    deployment: "hco-operator",
    lease: Some("hyperconverged-cluster-operator-lock"),
    namespaces: &[],
};

/// CDI's controller (`cmd/cdi-controller/controller.go` of kubevirt/containerized-data-importer). It does not release its
/// Lease when it ends.
pub const CDI: GenuineOperator = GenuineOperator {
    title: "CDI",
    deployment: "cdi-deployment",
    lease: Some("cdi-controller-leader-election-helper"),
    namespaces: &[],
};

/// The operator that installs CDI, and restores the Deployment of its controller.
pub const CDI_OPERATOR: GenuineOperator = GenuineOperator {
    title: "the CDI operator",
    deployment: "cdi-operator",
    lease: Some("cdi-operator-leader-election-helper"),
    namespaces: &[],
};

/// A layer: a controller of its own, so that it can run beside genuine operators of the other layers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Layer {
    /// From nodes and the HyperConverged to the SSP.
    Hco,
    /// From the SSP to DataImportCrons and DataSources.
    Ssp,
    /// From DataImportCrons to disks.
    Cdi,
    /// Virtual machines.
    Vm,
}

impl Layer {
    /// All layers, in the order of their objects.
    pub const ALL: [Self; 4] = [Self::Hco, Self::Ssp, Self::Cdi, Self::Vm];

    /// The controller, as in `medley run --controllers`.
    pub fn component(self) -> &'static str {
        match self {
            Self::Hco => "images-hco",
            Self::Ssp => "images-ssp",
            Self::Cdi => "images-cdi",
            Self::Vm => "images-vm",
        }
    }

    /// The genuine operator that reconciles the same objects; `None` if none does.
    pub fn operator(self) -> Option<GenuineOperator> {
        match self {
            Self::Hco => Some(HCO),
            Self::Ssp => Some(SSP),
            Self::Cdi => Some(CDI),
            // KubeVirt sets the architecture of a VM in admission only.
            Self::Vm => None,
        }
    }

    /// The operator that restores the Deployment of [`Self::operator`], and has to stop before it.
    pub fn restorer(self) -> Option<GenuineOperator> {
        match self {
            Self::Cdi => Some(CDI_OPERATOR),
            // The Deployments of both come from OLM or from a manifest.
            Self::Hco | Self::Ssp | Self::Vm => None,
        }
    }

    /// The group and kind without which the layer has nothing to do.
    pub fn kind(self) -> (&'static str, &'static str) {
        match self {
            Self::Hco => (api::hco::GROUP, "HyperConverged"),
            Self::Ssp => ("ssp.kubevirt.io", "SSP"),
            Self::Cdi => (api::cdi::GROUP, "DataImportCron"),
            Self::Vm => ("kubevirt.io", "VirtualMachine"),
        }
    }

    /// The CustomResourceDefinition of [`Self::kind`].
    pub fn definition(self) -> &'static str {
        match self {
            Self::Hco => "hyperconvergeds.hco.kubevirt.io",
            Self::Ssp => "ssps.ssp.kubevirt.io",
            Self::Cdi => "dataimportcrons.cdi.kubevirt.io",
            Self::Vm => "virtualmachines.kubevirt.io",
        }
    }

    /// The condition of the GoldenImagePolicy that reports whether Medley manages the layer.
    pub fn condition(self) -> &'static str {
        match self {
            Self::Hco => "ManagingTemplates",
            Self::Ssp => "Managing",
            Self::Cdi => "ManagingImports",
            Self::Vm => "ManagingMachines",
        }
    }

    /// Its mode.
    pub fn mode(self, observed: &LayerState<'_>) -> Ownership {
        decide(&ModeInputs {
            component: self.component(),
            setting: observed.setting,
            policy: &format!("GoldenImagePolicy {NAME}"),
            enabled: observed.enabled,
            missing: (!observed.installed).then_some(self.kind().1),
            running: observed.running,
        })
    }

    /// The condition of the GoldenImagePolicy.
    pub fn managing(self, ownership: &Ownership) -> ConditionUpdate {
        ConditionUpdate::new(
            self.condition(),
            ownership.manages(),
            ownership.reason,
            ownership.message.clone(),
        )
    }
}

impl fmt::Display for Layer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.component())
    }
}

/// As its component.
impl Serialize for Layer {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// By its component, with or without `images-`.
impl FromStr for Layer {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let named = |it: &Self| {
            let name = it.component();
            name == text || name.strip_prefix("images-") == Some(text)
        };
        Self::ALL.into_iter().find(named).ok_or_else(|| {
            let names = Self::ALL.map(Self::component);
            format!(
                "{text:?} is not a layer of golden images; must be one of {}",
                names.join(", ")
            )
        })
    }
}

/// What decides the mode of a layer.
#[derive(Debug, Clone, Copy)]
pub struct LayerState<'a> {
    /// `spec.mode` of the policy.
    pub setting: ModeSetting,
    /// Whether a replica of Medley runs the layer.
    pub enabled: bool,
    /// Whether [`Layer::kind`] is installed.
    pub installed: bool,
    /// The genuine operator, if it runs.
    pub running: Option<&'a RunningOperator>,
}

/// Whether an ownership comes from a genuine operator that runs, and not from a setting.
pub fn steps_back(ownership: &Ownership) -> bool {
    ownership.reason == reasons::UPSTREAM_RUNS
}
