//! Grafana dashboards: an overview, and one for each job.

use api::monitoring::dashboard::{Dashboard, Panel, Shape, Unit};

use crate::Job;
use crate::entry::When;

/// All dashboards.
pub const DASHBOARDS: [&Dashboard; 6] = [
    &OVERVIEW,
    &governance::dashboard::DASHBOARD,
    &golden_images::dashboard::DASHBOARD,
    &cpu_models::dashboard::DASHBOARD,
    &release_migration::dashboard::DASHBOARD,
    &placement::dashboard::DASHBOARD,
];

/// Conditions under which each is installed, in the same order.
pub(crate) const WHEN: [When; 6] = [
    When::Always,
    When::Any(&[Job::Governance]),
    When::Any(Job::IMAGES),
    When::Any(&[Job::CpuModels]),
    When::Any(&[Job::Release]),
    When::Any(&[Job::Placement]),
];

/// The overview.
const OVERVIEW: Dashboard = Dashboard {
    name: "overview",
    title: "Medley: overview",
    about: "What needs attention, and the state of the operator.",
    panels: &[
        Panel {
            title: "Leaders",
            about: "One replica leads; the others stand by.",
            shape: Shape::Number,
            unit: Unit::Count,
            queries: &[("sum(medley_leader)", "working")],
        },
        Panel {
            title: "Drifted configurations",
            about: "Configurations with drift.",
            shape: Shape::Number,
            unit: Unit::Count,
            queries: &[("sum(medley_governance_drift) or vector(0)", "drifted")],
        },
        Panel {
            title: "Plans under review",
            about: "Plans that wait for approval.",
            shape: Shape::Number,
            unit: Unit::Count,
            queries: &[(
                "sum(medley_governance_phase{phase=\"ReviewRequired\"}) or vector(0)",
                "waiting",
            )],
        },
        Panel {
            title: "Images behind",
            about: "Boot images that are not the newest.",
            shape: Shape::Number,
            unit: Unit::Count,
            queries: &[(
                "sum(kubevirt_cdi_dataimportcron_outdated) or vector(0)",
                "behind",
            )],
        },
        Panel {
            title: "VMs that cannot migrate",
            about: "Virtual machines that no other node could run.",
            shape: Shape::Number,
            unit: Unit::Count,
            queries: &[(
                "sum(medley_cpu_machines{state=\"no_target\"}) or vector(0)",
                "machines",
            )],
        },
        Panel {
            title: "Release complete",
            about: "Whether the cluster has completed its release.",
            shape: Shape::Number,
            unit: Unit::Truth,
            queries: &[("min(medley_release_complete)", "arrived")],
        },
        Panel {
            title: "Pods held",
            about: "Pods that no node can run.",
            shape: Shape::Number,
            unit: Unit::Count,
            queries: &[("sum(medley_placement_held_pods) or vector(0)", "held")],
        },
        Panel {
            title: "Failing controllers",
            about: "Controllers that failed in the last five minutes.",
            shape: Shape::Number,
            unit: Unit::Count,
            queries: &[(
                "count(sum by (controller) (rate(medley_reconcile_total{result=~\"error|panic\"}[5m])) > 0) or vector(0)",
                "controllers",
            )],
        },
        Panel {
            title: "Reconciles",
            about: "Rate of reconciles, by result.",
            shape: Shape::Lines,
            unit: Unit::Rate,
            queries: &[(
                "sum by (result) (rate(medley_reconcile_total[5m]))",
                "{{result}}",
            )],
        },
        Panel {
            title: "Duration of a reconcile",
            about: "99th percentile.",
            shape: Shape::Lines,
            unit: Unit::Seconds,
            queries: &[(
                "histogram_quantile(0.99, sum by (le, controller) (rate(medley_reconcile_duration_seconds_bucket[5m])))",
                "{{controller}}",
            )],
        },
        Panel {
            title: "Queues",
            about: "Objects in the work queue.",
            shape: Shape::Lines,
            unit: Unit::Count,
            queries: &[(
                "sum by (controller) (medley_queue_length * on (instance, pod) group_left () (medley_leader == 1))",
                "{{controller}}",
            )],
        },
        Panel {
            title: "Errors",
            about: "Reconciles that failed, by controller.",
            shape: Shape::Lines,
            unit: Unit::Rate,
            queries: &[(
                "sum by (controller) (rate(medley_reconcile_total{result=~\"error|panic\"}[5m]))",
                "{{controller}}",
            )],
        },
    ],
};
