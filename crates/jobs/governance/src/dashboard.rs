//! What Grafana shows of governance.

use api::monitoring::dashboard::{Dashboard, Panel, Shape, Unit};

/// The page.
pub const DASHBOARD: Dashboard = Dashboard {
    name: "governance",
    title: "Medley: governance",
    about: "Configurations: where they are, what drifts, what waits.",
    panels: &[
        Panel {
            title: "In force",
            about: "Configurations that are applied and as they were applied.",
            shape: Shape::Number,
            unit: Unit::Count,
            queries: &[(
                "sum(medley_governance_phase{phase=~\"Completed|CompletedWithUpgrade\"})",
                "in force",
            )],
        },
        Panel {
            title: "Waiting for approval",
            about: "Plans that wait for somebody.",
            shape: Shape::Number,
            unit: Unit::Count,
            queries: &[(
                "sum(medley_governance_phase{phase=\"ReviewRequired\"})",
                "waiting",
            )],
        },
        Panel {
            title: "Drifted fields",
            about: "Fields of targets that are not what was applied.",
            shape: Shape::Number,
            unit: Unit::Count,
            queries: &[("sum(medley_governance_drift)", "fields")],
        },
        Panel {
            title: "Not corrected any more",
            about: "Configurations that somebody always changes back.",
            shape: Shape::Number,
            unit: Unit::Count,
            queries: &[("sum(medley_governance_enforcement_paused)", "paused")],
        },
        Panel {
            title: "Phases",
            about: "How many configurations are in each phase.",
            shape: Shape::Lines,
            unit: Unit::Count,
            queries: &[("sum by (phase) (medley_governance_phase)", "{{phase}}")],
        },
        Panel {
            title: "Drift",
            about: "Fields that differ, by configuration.",
            shape: Shape::Lines,
            unit: Unit::Count,
            queries: &[("medley_governance_drift", "{{config}}")],
        },
        Panel {
            title: "Age of plans",
            about: "How long plans have been waiting or carried out.",
            shape: Shape::Lines,
            unit: Unit::Seconds,
            queries: &[(
                "time() - medley_governance_plan_timestamp_seconds",
                "{{config}}",
            )],
        },
        Panel {
            title: "Time to apply an item",
            about: "Half of the items, and 99 of 100, take no longer.",
            shape: Shape::Lines,
            unit: Unit::Seconds,
            queries: &[
                (
                    "histogram_quantile(0.5, sum by (le) (rate(medley_governance_apply_duration_seconds_bucket[15m])))",
                    "half",
                ),
                (
                    "histogram_quantile(0.99, sum by (le) (rate(medley_governance_apply_duration_seconds_bucket[15m])))",
                    "99 of 100",
                ),
            ],
        },
        Panel {
            title: "Fields taken from others",
            about: "What plans take from other managers.",
            shape: Shape::Table,
            unit: Unit::Count,
            queries: &[("medley_governance_takeovers > 0", "{{config}}")],
        },
    ],
};
