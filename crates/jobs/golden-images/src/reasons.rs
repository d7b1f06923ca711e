//! Reasons of events about golden images, and of conditions on the HCO, SSP and CDI kinds that
//! Medley reconciles.

mod cdi;

pub use cdi::{CDI_CONDITIONS, CDI_EVENTS};

use api::reasons::{Conditions, Event, Reason, has_condition};
use api::{condition_reasons, conditions, events};

const HCO: &str = "HyperConverged";
const SSP: &str = "SSP";
const VM: &str = "VirtualMachine";

/// The event reasons of a HyperConverged.
pub const HCO_EVENTS: &[Event] = events! {
    Normal "GoldenImagesAccepted" HCO => "the image settings are valid again";
    Warning "TemplateWithoutName" HCO => "a template has no name";
    Warning "TemplateWithoutSpec" HCO => "a template has no spec, and does not override a built-in one";
    Warning "DuplicateTemplate" HCO => "two templates have the same name";
    Warning "UnknownArchitectures" HCO => "a template lists unsupported architectures";
    Warning "UnsupportedNodeArchitectures" HCO => "nodes have unsupported architectures";
    Warning "InvalidPlacement" HCO => "the node placement of workloads is invalid";
    Warning "SingleNode" HCO => "multi-architecture images are enabled in a cluster with a single node";
    Warning "NotInstalled" HCO => "the SSP CRD is not installed";
    Warning "UpstreamOperatorRuns" HCO => "the HyperConverged cluster operator runs, so images-hco writes nothing";
};

/// The event reasons of an SSP.
pub const SSP_EVENTS: &[Event] = events! {
    Normal "Created" SSP => "an object was created for an image";
    Normal "Deleted" SSP => "an object was deleted; the message has the cause";
    Normal "Moved" SSP => "a stable name points to another image";
    Warning "TemplateWithoutName" SSP => "a template has no name";
    Warning "TemplateWithoutDataSource" SSP => "a template has no managedDataSource";
    Warning "DataSourceTaken" SSP => "two templates manage the same DataSource";
    Warning "UnknownArchitectures" SSP => "a template lists unsupported architectures";
    Warning "UnsupportedNodeArchitectures" SSP => "nodes have unsupported architectures";
    Warning "NotOurs" SSP => "an object of that name has another owner";
    Warning "NotInstalled" SSP => "a required CRD is not installed";
    Warning "UpstreamOperatorRuns" SSP => "the SSP operator runs, so images-ssp writes nothing";
    Warning "DefaultArchitectureRefused" SSP => "the requested default architecture is not supported";
};

/// The event reasons of a VirtualMachine.
pub const VM_EVENTS: &[Event] = events! {
    Normal "ArchitectureSet" VM => "a VM got the architecture of its disk";
    Warning "ArchitectureMismatch" VM => "a VM and its disk have different architectures";
    Warning "UnknownArchitecture" VM => "the architecture of a disk is not supported";
    Warning "DataSourceNotFound" VM => "the DataSource of a VM does not exist";
    Warning "NoMatchingNode" VM => "no node has the architecture of a VM";
};

/// The conditions of a HyperConverged, an SSP and a GoldenImagePolicy.
pub const CONDITIONS: &[Conditions] = conditions! {
    of "GoldenImagePolicy", "Accepted": "All settings are valid." {
        "True" "Accepted": "All settings are valid.";
        "False" "InvalidSettings": "A field is invalid; a built-in value is used instead."
            => "Correct the fields that the message names.";
    }
    of "GoldenImagePolicy", "Managing": "images-ssp creates the DataImportCrons and DataSources of images." with [NO_MODE] {
        "True" "Managing": "No other operator does.";
        "False" "UpstreamOperatorRuns": "The SSP operator runs, so Medley writes none of its objects."
            => "None, unless Medley should: see `medley images take-over images-ssp`.";
    }
    of "GoldenImagePolicy", "ManagingTemplates": "images-hco writes the SSP." with [NO_MODE] {
        "True" "Managing": "No other operator does.";
        "False" "UpstreamOperatorRuns": "The HyperConverged cluster operator runs, so Medley writes none of its objects."
            => "None, unless Medley should: see `medley images take-over images-hco`.";
    }
    of "GoldenImagePolicy", "ManagingImports": "images-cdi imports disks." with [NO_MODE] {
        "True" "Managing": "No other operator does.";
        "False" "UpstreamOperatorRuns": "CDI runs, so Medley writes none of its objects."
            => "None, unless Medley should: see `medley images take-over images-cdi`.";
    }
    of "GoldenImagePolicy", "ManagingMachines": "images-vm sets the architecture of VMs." with [NO_MODE] {
        "True" "Managing": "No other operator does.";
    }
    of "GoldenImagePolicy", "Covered": "Every image has a disk for every architecture of nodes." {
        "True" "Covered": "Every image has a disk for every architecture of nodes.";
        "False" "ArchitecturesMissing": "An image has no disk for an architecture that nodes have."
            => "Enable multi-architecture images, or use an image that has the architecture.";
    }
    of "GoldenImagePolicy", "SwitchFollowed": "SSP and DataImportCrons follow the switch for multi-architecture images." {
        "True" "SwitchFollowed": "SSP and DataImportCrons follow the switch for multi-architecture images.";
        "False" "SwitchDrift": "The HyperConverged, the SSP and the DataImportCrons contradict each other."
            => "Check the logs of the operator that should update the object that the message names.";
    }
    of "GoldenImagePolicy", "ArchitecturesVerified": "While CDI imports: every disk in use is for the architecture of its DataSource." {
        "True" "ArchitecturesVerified": "Every disk in use is for the architecture of its DataSource.";
        "False" "ArchitectureMismatch": "A disk in use is for another architecture."
            => "See the message and `medley images verify`; let the disk be imported again with the architecture selected.";
        "False" "NotVerifiable": "A disk cannot be verified; none is known to be wrong."
            => "See the message; `medley images verify` uses the credentials of the user.";
    }
    of HCO, "GoldenImagesAccepted": "The image settings are valid." with [TEMPLATES] {
        "True" "Accepted": "The image settings are valid.";
        "False" "TemplateWithoutSpec": "A template has no spec, and does not override a built-in one."
            => "Give it a spec, or correct its name.";
        "False" "DuplicateTemplate": "Two templates have the same name." => "Rename one.";
        "False" "InvalidPlacement": "The node placement of workloads is invalid." => "Correct spec.workloads.";
        "False" "SingleNode": "Multi-architecture images are enabled in a cluster with a single node."
            => "Switch enableMultiArchBootImageImport off.";
    }
    of HCO, "Deployed": "A template is deployed; present only if it is not." {
        "False" "UnsupportedArchitectures": "It lists no architecture of any workload node."
            => "Correct its annotation, or add nodes.";
    }
    of HCO, "ArchitecturesMatch": "The annotation of a template matches the architectures of its image." {
        "False" "ArchitecturesUnused":
            "The image and the cluster have an architecture that the template does not list.";
        "False" "ArchitecturesMissing": "The template lists an architecture that the image does not have."
            => "Correct the annotation, or use another image.";
    }
    of SSP, "Available": "Images are kept up to date.", "Degraded": "The SSP has problems." with [TEMPLATES] {
        "True" "Available": "Images are kept up to date.";
        "False" "NoProblem": "There are no problems.";
        "True, False" "TemplateWithoutDataSource": "A template has no managedDataSource."
            => "Set spec.managedDataSource.";
        "True, False" "DataSourceTaken": "Two templates manage the same DataSource."
            => "Change spec.managedDataSource of one.";
        "True, False" "NotOurs": "An object of that name has another owner." => "Rename it, or the template.";
        "True, False" "DefaultArchitectureRefused": "The requested default architecture is not supported."
            => "Set one that both the nodes and the image have.";
    }
    of SSP, "Progressing": "Objects are being created, moved or deleted." {
        "True" "Deleting": "The objects of the SSP are being deleted.";
        "True" "Waiting": "An import or a deletion is pending.";
        "False" "Paused": "Reconciliation is paused.";
        "False" "Deployed": "All objects are up to date.";
    }
};

/// Whether a condition with this status and reason is documented.
pub(crate) fn knows(kind: &str, status: &str, word: &str) -> bool {
    [CONDITIONS, CDI_CONDITIONS]
        .iter()
        .any(|groups| has_condition(groups, kind, status, word))
}

const TEMPLATES: &[Reason] = condition_reasons! {
    "True, False" "TemplateWithoutName": "A template has no name." => "Give it one.";
    "True, False" "UnknownArchitectures": "A template lists unsupported architectures."
        => "Correct its annotation ssp.kubevirt.io/dict.architectures.";
    "True, False" "UnsupportedNodeArchitectures": "Nodes have unsupported architectures."
        => "No action is needed unless they should run VMs.";
    "True, False" "NotInstalled": "A required CRD is not installed."
        => "Install the CRD that the message names; it is detected automatically.";
};

/// Of the conditions about the mode of a layer.
const NO_MODE: &[Reason] = condition_reasons! {
    "False" "SetByPolicy": "spec.mode of the policy is Assist or Off." => "Set it to Auto.";
    "False" "NotInstalled": "The kind that the layer reconciles is not installed."
        => "Install it; it is detected automatically.";
};
