//! Reasons of events about CPU models, and of conditions of a CpuModelPolicy.

use api::reasons::{Conditions, Event};
use api::{conditions, events};

const INSTANCE: &str = "VirtualMachineInstance";
const POLICY: &str = "CpuModelPolicy";

/// The event reasons.
pub const EVENTS: &[Event] = events! {
    Normal "CpuModelChosen" INSTANCE => "a CPU model was chosen for a VM that starts";
    Warning "NoEligibleNode" INSTANCE
        => "no node of the cluster can run a VM that waits for its CPU model";
    Warning "NoMigrationTarget" INSTANCE => "no other node supports the CPU model of a VM: it cannot migrate";
    Warning "CpuModelStranded" INSTANCE => "fewer nodes support the CPU model of a VM than the policy requires";
    Normal "MigrationTargetsBack" INSTANCE => "enough nodes support the CPU model of a VM again";
    Normal "CpuModelStale" INSTANCE => "a restart would give a VM a newer CPU model";
    Normal "CpuModelRepaired" INSTANCE => "a VM that was admitted without the webhook gets its CPU model";
    Warning "LauncherRemoved" INSTANCE
        => "a virt-launcher pod that no node matches is deleted, to be created again with a CPU model";
};

/// The condition types and their reasons.
pub const CONDITIONS: &[Conditions] = conditions! {
    of POLICY, "Ready": "CPU models are chosen according to the policy." {
        "True" "Choosing": "CPU models are chosen.";
        "False" "KubeVirtNotInstalled":
            "The CRDs of kubevirt.io are not installed. CPU models are chosen once they are.";
        "False" "InvalidPolicy": "The policy has invalid fields; built-in values are used instead."
            => "Correct the fields that the message names.";
    }
    of POLICY, "AdmissionReady": "The admission webhook for CPU models is registered." {
        "True" "Registered": "The MutatingWebhookConfiguration exists.";
        "False" "NotRegistered": "The MutatingWebhookConfiguration is missing: VMs that request best-match-model do not start."
            => "Run `medley webhook --register`.";
    }
    of POLICY, "TargetsRemain": "Every VM has a migration target." {
        "True" "EveryMachineCanMove": "Every VM has a migration target.";
        "False" "NoMigrationTarget": "Some VMs have no migration target."
            => "List them with `medley cpu vms --stranded`; restart them with an older model, or add nodes.";
    }
};
