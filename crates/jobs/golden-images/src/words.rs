//! The words of golden images: reasons of events, and of conditions of the kinds of HCO, SSP and CDI that
//! Medley keeps.

mod cdi;

pub use cdi::{CDI_CONDITIONS, CDI_EVENTS};

use api::words::{Conditions, Event, Reason, fine, normal, reason, says, warning};

const HCO: &str = "HyperConverged";
const SSP: &str = "SSP";
const VM: &str = "VirtualMachine";

/// What events say of a HyperConverged.
pub const HCO_EVENTS: &[Event] = &[
    normal(
        "GoldenImagesAccepted",
        HCO,
        "everything about images makes sense again",
    ),
    warning("TemplateWithoutName", HCO, "a template has no name"),
    warning(
        "TemplateWithoutSpec",
        HCO,
        "a template says nothing but its name, and is none of the built-in ones",
    ),
    warning("DuplicateTemplate", HCO, "two templates have the same name"),
    warning(
        "UnknownArchitectures",
        HCO,
        "a template names architectures that nobody knows",
    ),
    warning(
        "UnsupportedNodeArchitectures",
        HCO,
        "nodes have architectures that images are not kept for",
    ),
    warning(
        "InvalidPlacement",
        HCO,
        "the node placement of workloads makes no sense",
    ),
    warning(
        "SingleNode",
        HCO,
        "images for every architecture were asked for, and there is one node",
    ),
    warning("NotInstalled", HCO, "the kind SSP is not installed"),
];

/// What events say of an SSP.
pub const SSP_EVENTS: &[Event] = &[
    normal("Created", SSP, "an object was made for an image"),
    normal("Deleted", SSP, "an object was deleted, and why"),
    normal("Moved", SSP, "a stable name points to another image"),
    warning("TemplateWithoutName", SSP, "a template has no name"),
    warning(
        "TemplateWithoutDataSource",
        SSP,
        "a template does not name its data source",
    ),
    warning(
        "DataSourceTaken",
        SSP,
        "two templates want the same data source",
    ),
    warning(
        "UnknownArchitectures",
        SSP,
        "a template names architectures that nobody knows",
    ),
    warning(
        "UnsupportedNodeArchitectures",
        SSP,
        "nodes have architectures that images are not kept for",
    ),
    warning("NotOurs", SSP, "an object of that name is somebody else's"),
    warning(
        "NotInstalled",
        SSP,
        "a kind is not installed that images need",
    ),
    warning(
        "DefaultArchitectureRefused",
        SSP,
        "the default architecture that was asked for cannot be had",
    ),
];

/// What events say of virtual machines.
pub const VM_EVENTS: &[Event] = &[
    normal(
        "ArchitectureSet",
        VM,
        "a machine got the architecture of what it starts from",
    ),
    warning(
        "ArchitectureMismatch",
        VM,
        "a machine is for another architecture than what it starts from",
    ),
    warning(
        "UnknownArchitecture",
        VM,
        "nobody knows the architecture of a machine",
    ),
    warning(
        "DataSourceNotFound",
        VM,
        "what a machine starts from is not there",
    ),
    warning(
        "NoMatchingNode",
        VM,
        "no node has the architecture of a machine",
    ),
];

/// What conditions say of a HyperConverged, an SSP and a GoldenImagePolicy.
pub const CONDITIONS: &[Conditions] = &[
    Conditions {
        of: "GoldenImagePolicy",
        types: &[("Accepted", "Everything in it counts.")],
        reasons: &[&[
            fine("True", "Accepted", "It does."),
            reason(
                "False",
                "InvalidSettings",
                "Something makes no sense, and a built-in value is used.",
                "Correct what the message names.",
            ),
        ]],
    },
    Conditions {
        of: HCO,
        types: &[(
            "GoldenImagesAccepted",
            "Everything about images makes sense.",
        )],
        reasons: &[
            TEMPLATES,
            &[
                fine("True", "Accepted", "It does."),
                reason(
                    "False",
                    "TemplateWithoutSpec",
                    "A template says nothing but its name, and is none of the built-in ones.",
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
                    "The node placement of workloads makes no sense.",
                    "Correct spec.workloads.",
                ),
                reason(
                    "False",
                    "SingleNode",
                    "Images for every architecture were asked for, and there is one node.",
                    "Switch enableMultiArchBootImageImport off.",
                ),
            ],
        ],
    },
    Conditions {
        of: HCO,
        types: &[(
            "Deployed",
            "A template is handed on; said only if it is not.",
        )],
        reasons: &[&[reason(
            "False",
            "UnsupportedArchitectures",
            "It names no architecture that a node has.",
            "Correct its annotation, or add nodes.",
        )]],
    },
    Conditions {
        of: HCO,
        types: &[(
            "ArchitecturesMatch",
            "A template names the architectures that its image has.",
        )],
        reasons: &[&[
            fine(
                "False",
                "ArchitecturesUnused",
                "The image has an architecture that the cluster has and the template does not name.",
            ),
            reason(
                "False",
                "ArchitecturesMissing",
                "The template names an architecture that the image does not have.",
                "Correct the annotation, or use another image.",
            ),
        ]],
    },
    Conditions {
        of: SSP,
        types: &[
            ("Available", "Images are kept current."),
            ("Degraded", "Something is wrong."),
        ],
        reasons: &[
            TEMPLATES,
            &[
                fine("True", "Available", "They are."),
                fine("False", "NoProblem", "Nothing is wrong."),
                reason(
                    "True, False",
                    "TemplateWithoutDataSource",
                    "A template does not name its data source.",
                    "Set spec.managedDataSource.",
                ),
                reason(
                    "True, False",
                    "DataSourceTaken",
                    "Two templates want the same data source.",
                    "Rename that of one.",
                ),
                reason(
                    "True, False",
                    "NotOurs",
                    "An object of that name is somebody else's.",
                    "Rename it, or the template.",
                ),
                reason(
                    "True, False",
                    "DefaultArchitectureRefused",
                    "The default architecture that was asked for cannot be had.",
                    "Name one that nodes and image have.",
                ),
            ],
        ],
    },
    Conditions {
        of: SSP,
        types: &[("Progressing", "Something is on its way.")],
        reasons: &[&[
            fine("True", "Deleting", "What was made is being deleted."),
            fine("True", "Waiting", "An import or a deletion is waited for."),
            fine("False", "Paused", "It is left alone."),
            fine("False", "Deployed", "Everything is as it has to be."),
        ]],
    },
];

/// Whether a condition may say this.
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
        "A template names architectures that nobody knows.",
        "Correct its annotation ssp.kubevirt.io/dict.architectures.",
    ),
    reason(
        "True, False",
        "UnsupportedNodeArchitectures",
        "Nodes have architectures that images are not kept for.",
        "It matters only if they are to run virtual machines.",
    ),
    reason(
        "True, False",
        "NotInstalled",
        "A kind is not installed that images need.",
        "Install what the message names; it is picked up by itself.",
    ),
];
