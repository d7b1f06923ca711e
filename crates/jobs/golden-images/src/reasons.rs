//! Reasons of events about golden images, and of conditions on the HCO, SSP and CDI kinds that
//! Medley reconciles.

mod cdi;

pub use cdi::{CDI_CONDITIONS, CDI_EVENTS};

use api::reasons::{Conditions, Event, Reason, fine, normal, reason, says, warning};

const HCO: &str = "HyperConverged";
const SSP: &str = "SSP";
const VM: &str = "VirtualMachine";

/// The event reasons of a HyperConverged.
pub const HCO_EVENTS: &[Event] = &[
    normal(
        "GoldenImagesAccepted",
        HCO,
        "the image settings are valid again",
    ),
    warning("TemplateWithoutName", HCO, "a template has no name"),
    warning(
        "TemplateWithoutSpec",
        HCO,
        "a template has no spec, and does not override a built-in one",
    ),
    warning("DuplicateTemplate", HCO, "two templates have the same name"),
    warning(
        "UnknownArchitectures",
        HCO,
        "a template lists unsupported architectures",
    ),
    warning(
        "UnsupportedNodeArchitectures",
        HCO,
        "nodes have unsupported architectures",
    ),
    warning(
        "InvalidPlacement",
        HCO,
        "the node placement of workloads is invalid",
    ),
    warning(
        "SingleNode",
        HCO,
        "multi-architecture images are enabled in a cluster with a single node",
    ),
    warning("NotInstalled", HCO, "the SSP CRD is not installed"),
];

/// The event reasons of an SSP.
pub const SSP_EVENTS: &[Event] = &[
    normal("Created", SSP, "an object was created for an image"),
    normal(
        "Deleted",
        SSP,
        "an object was deleted; the message has the cause",
    ),
    normal("Moved", SSP, "a stable name points to another image"),
    warning("TemplateWithoutName", SSP, "a template has no name"),
    warning(
        "TemplateWithoutDataSource",
        SSP,
        "a template has no managedDataSource",
    ),
    warning(
        "DataSourceTaken",
        SSP,
        "two templates manage the same DataSource",
    ),
    warning(
        "UnknownArchitectures",
        SSP,
        "a template lists unsupported architectures",
    ),
    warning(
        "UnsupportedNodeArchitectures",
        SSP,
        "nodes have unsupported architectures",
    ),
    warning("NotOurs", SSP, "an object of that name has another owner"),
    warning("NotInstalled", SSP, "a required CRD is not installed"),
    warning(
        "DefaultArchitectureRefused",
        SSP,
        "the requested default architecture is not supported",
    ),
];

/// The event reasons of a VirtualMachine.
pub const VM_EVENTS: &[Event] = &[
    normal(
        "ArchitectureSet",
        VM,
        "a VM got the architecture of its disk",
    ),
    warning(
        "ArchitectureMismatch",
        VM,
        "a VM and its disk have different architectures",
    ),
    warning(
        "UnknownArchitecture",
        VM,
        "the architecture of a disk is not supported",
    ),
    warning(
        "DataSourceNotFound",
        VM,
        "the DataSource of a VM does not exist",
    ),
    warning("NoMatchingNode", VM, "no node has the architecture of a VM"),
];

/// The conditions of a HyperConverged, an SSP and a GoldenImagePolicy.
pub const CONDITIONS: &[Conditions] = &[
    Conditions {
        of: "GoldenImagePolicy",
        types: &[("Accepted", "All settings are valid.")],
        reasons: &[&[
            fine("True", "Accepted", "All settings are valid."),
            reason(
                "False",
                "InvalidSettings",
                "A field is invalid; a built-in value is used instead.",
                "Correct the fields that the message names.",
            ),
        ]],
    },
    Conditions {
        of: HCO,
        types: &[("GoldenImagesAccepted", "The image settings are valid.")],
        reasons: &[
            TEMPLATES,
            &[
                fine("True", "Accepted", "The image settings are valid."),
                reason(
                    "False",
                    "TemplateWithoutSpec",
                    "A template has no spec, and does not override a built-in one.",
                    "Give it a spec, or correct its name.",
                ),
                reason(
                    "False",
                    "DuplicateTemplate",
                    "Two templates have the same name.",
                    "Rename one.",
                ),
                reason(
                    "False",
                    "InvalidPlacement",
                    "The node placement of workloads is invalid.",
                    "Correct spec.workloads.",
                ),
                reason(
                    "False",
                    "SingleNode",
                    "Multi-architecture images are enabled in a cluster with a single node.",
                    "Switch enableMultiArchBootImageImport off.",
                ),
            ],
        ],
    },
    Conditions {
        of: HCO,
        types: &[(
            "Deployed",
            "A template is deployed; present only if it is not.",
        )],
        reasons: &[&[reason(
            "False",
            "UnsupportedArchitectures",
            "It lists no architecture of any workload node.",
            "Correct its annotation, or add nodes.",
        )]],
    },
    Conditions {
        of: HCO,
        types: &[(
            "ArchitecturesMatch",
            "The annotation of a template matches the architectures of its image.",
        )],
        reasons: &[&[
            fine(
                "False",
                "ArchitecturesUnused",
                "The image and the cluster have an architecture that the template does not list.",
            ),
            reason(
                "False",
                "ArchitecturesMissing",
                "The template lists an architecture that the image does not have.",
                "Correct the annotation, or use another image.",
            ),
        ]],
    },
    Conditions {
        of: SSP,
        types: &[
            ("Available", "Images are kept up to date."),
            ("Degraded", "The SSP has problems."),
        ],
        reasons: &[
            TEMPLATES,
            &[
                fine("True", "Available", "Images are kept up to date."),
                fine("False", "NoProblem", "There are no problems."),
                reason(
                    "True, False",
                    "TemplateWithoutDataSource",
                    "A template has no managedDataSource.",
                    "Set spec.managedDataSource.",
                ),
                reason(
                    "True, False",
                    "DataSourceTaken",
                    "Two templates manage the same DataSource.",
                    "Change spec.managedDataSource of one.",
                ),
                reason(
                    "True, False",
                    "NotOurs",
                    "An object of that name has another owner.",
                    "Rename it, or the template.",
                ),
                reason(
                    "True, False",
                    "DefaultArchitectureRefused",
                    "The requested default architecture is not supported.",
                    "Set one that both the nodes and the image have.",
                ),
            ],
        ],
    },
    Conditions {
        of: SSP,
        types: &[(
            "Progressing",
            "Objects are being created, moved or deleted.",
        )],
        reasons: &[&[
            fine(
                "True",
                "Deleting",
                "The objects of the SSP are being deleted.",
            ),
            fine("True", "Waiting", "An import or a deletion is pending."),
            fine("False", "Paused", "Reconciliation is paused."),
            fine("False", "Deployed", "All objects are up to date."),
        ]],
    },
];

/// Whether a condition with this status and reason is documented.
pub(crate) fn knows(kind: &str, status: &str, word: &str) -> bool {
    [CONDITIONS, CDI_CONDITIONS]
        .iter()
        .any(|groups| says(groups, kind, status, word))
}

const TEMPLATES: &[Reason] = &[
    reason(
        "True, False",
        "TemplateWithoutName",
        "A template has no name.",
        "Give it one.",
    ),
    reason(
        "True, False",
        "UnknownArchitectures",
        "A template lists unsupported architectures.",
        "Correct its annotation ssp.kubevirt.io/dict.architectures.",
    ),
    reason(
        "True, False",
        "UnsupportedNodeArchitectures",
        "Nodes have unsupported architectures.",
        "No action is needed unless they should run VMs.",
    ),
    reason(
        "True, False",
        "NotInstalled",
        "A required CRD is not installed.",
        "Install the CRD that the message names; it is detected automatically.",
    ),
];
