//! Reasons of events about CPU models, and of conditions of a CpuModelPolicy.

use api::reasons::{Conditions, Event, fine, normal, reason, warning};

const INSTANCE: &str = "VirtualMachineInstance";
const POLICY: &str = "CpuModelPolicy";

/// The event reasons.
pub const EVENTS: &[Event] = &[
    normal(
        "CpuModelChosen",
        INSTANCE,
        "a CPU model was chosen for a VM that starts",
    ),
    warning(
        "NoMigrationTarget",
        INSTANCE,
        "no other node supports the CPU model of a VM: it cannot migrate",
    ),
    warning(
        "CpuModelStranded",
        INSTANCE,
        "fewer nodes support the CPU model of a VM than the policy requires",
    ),
    normal(
        "MigrationTargetsBack",
        INSTANCE,
        "enough nodes support the CPU model of a VM again",
    ),
    normal(
        "CpuModelStale",
        INSTANCE,
        "a restart would give a VM a newer CPU model",
    ),
    normal(
        "CpuModelRepaired",
        INSTANCE,
        "a VM that was admitted without the webhook gets its CPU model",
    ),
    warning(
        "LauncherRemoved",
        INSTANCE,
        "a virt-launcher pod that no node matches is deleted, to be created again with a CPU model",
    ),
];

/// The condition types and their reasons.
pub const CONDITIONS: &[Conditions] = &[
    Conditions {
        of: POLICY,
        types: &[("Ready", "CPU models are chosen according to the policy.")],
        reasons: &[&[
            fine("True", "Choosing", "CPU models are chosen."),
            fine(
                "False",
                "KubeVirtNotInstalled",
                "The CRDs of kubevirt.io are not installed. CPU models are chosen once they are.",
            ),
            reason(
                "False",
                "InvalidPolicy",
                "The policy has invalid fields; built-in values are used instead.",
                "Correct the fields that the message names.",
            ),
        ]],
    },
    Conditions {
        of: POLICY,
        types: &[(
            "AdmissionReady",
            "The admission webhook for CPU models is registered.",
        )],
        reasons: &[&[
            fine(
                "True",
                "Registered",
                "The MutatingWebhookConfiguration exists.",
            ),
            reason(
                "False",
                "NotRegistered",
                "The MutatingWebhookConfiguration is missing: VMs that request best-match-model do not start.",
                "Run `medley webhook --register`.",
            ),
        ]],
    },
    Conditions {
        of: POLICY,
        types: &[("TargetsRemain", "Every VM has a migration target.")],
        reasons: &[&[
            fine(
                "True",
                "EveryMachineCanMove",
                "Every VM has a migration target.",
            ),
            reason(
                "False",
                "NoMigrationTarget",
                "Some VMs have no migration target.",
                "List them with `medley cpu vms --stranded`; restart them with an older model, or add nodes.",
            ),
        ]],
    },
];
