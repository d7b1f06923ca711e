//! The words of CPU models: reasons of events, and of conditions of a CpuModelPolicy.

use api::words::{Conditions, Event, fine, normal, reason, warning};

const INSTANCE: &str = "VirtualMachineInstance";
const POLICY: &str = "CpuModelPolicy";

/// What events say.
pub const EVENTS: &[Event] = &[
    normal(
        "CpuModelChosen",
        INSTANCE,
        "a model was chosen for a machine that starts",
    ),
    warning(
        "NoMigrationTarget",
        INSTANCE,
        "no other node supports the model of a machine: it cannot migrate",
    ),
    warning(
        "CpuModelStranded",
        INSTANCE,
        "fewer nodes support the model of a machine than the policy asks for",
    ),
    normal(
        "MigrationTargetsBack",
        INSTANCE,
        "enough nodes support the model of a machine again",
    ),
    normal(
        "CpuModelStale",
        INSTANCE,
        "a restart would give a machine a newer model",
    ),
    normal(
        "CpuModelRepaired",
        INSTANCE,
        "a machine that was made while nobody checked gets its model",
    ),
    warning(
        "LauncherRemoved",
        INSTANCE,
        "a pod that no node could run is made anew, with a model",
    ),
];

/// What conditions say.
pub const CONDITIONS: &[Conditions] = &[
    Conditions {
        of: POLICY,
        types: &[("Ready", "Models are chosen as the policy says.")],
        reasons: &[&[
            fine("True", "Choosing", "Models are chosen."),
            fine(
                "False",
                "KubeVirtNotInstalled",
                "There are no virtual machines in this cluster. They are picked up when they come.",
            ),
            reason(
                "False",
                "InvalidPolicy",
                "The policy makes no sense; built-in values are used.",
                "Correct what the message names.",
            ),
        ]],
    },
    Conditions {
        of: POLICY,
        types: &[(
            "AdmissionReady",
            "The API server asks before machines start.",
        )],
        reasons: &[&[
            fine("True", "Registered", "It asks."),
            reason(
                "False",
                "NotRegistered",
                "It does not ask: machines that leave the choice to Medley do not start.",
                "Run `medley webhook --register`.",
            ),
        ]],
    },
    Conditions {
        of: POLICY,
        types: &[(
            "TargetsRemain",
            "Every machine has a node that it could migrate to.",
        )],
        reasons: &[&[
            fine("True", "EveryMachineCanMove", "It is so."),
            reason(
                "False",
                "NoMigrationTarget",
                "Some machines cannot migrate.",
                "`medley cpu vms` names them; restart them with an older model, or add nodes.",
            ),
        ]],
    },
];
