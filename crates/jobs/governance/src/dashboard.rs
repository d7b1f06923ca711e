//! The Grafana dashboard of governance.

use api::monitoring::dashboard::{Dashboard, Panel, Shape, Unit};

/// The dashboard.
pub const DASHBOARD: Dashboard = Dashboard {
    name: "governance",
    title: "Medley: governance",
    about: "Configurations: phases, drift and waiting plans.",
    panels: &[
        Panel {
            title: "In force",
            about: "Configurations that are applied and in sync.",
            shape: Shape::Number,
            unit: Unit::Count,
            queries: &[(
                "sum(medley_governance_phase{phase=~\"Completed|CompletedWithUpgrade\"})",
                "in force",
            )],
        },
        Panel {
            title: "Waiting for approval",
            about: "Plans that wait for approval.",
            shape: Shape::Number,
            unit: Unit::Count,
            queries: &[(
                "sum(medley_governance_phase{phase=\"ReviewRequired\"})",
                "waiting",
            )],
        },
        Panel {
            title: "Drifted fields",
            about: "Fields of targets that differ from the applied state.",
            shape: Shape::Number,
            unit: Unit::Count,
            queries: &[("sum(medley_governance_drift_fields)", "fields")],
        },
        Panel {
            title: "Correction paused",
            about: "Configurations that another manager keeps reverting.",
            shape: Shape::Number,
            unit: Unit::Count,
            queries: &[("sum(medley_governance_enforcement_paused)", "paused")],
        },
        Panel {
            title: "Unhealthy",
            about: "Configurations with a target whose operator reports a fault.",
            shape: Shape::Number,
            unit: Unit::Count,
            queries: &[(
                "sum(medley_governance_health{status=\"False\"})",
                "unhealthy",
            )],
        },
        Panel {
            title: "Phases",
            about: "Number of configurations per phase.",
            shape: Shape::Lines,
            unit: Unit::Count,
            queries: &[("sum by (phase) (medley_governance_phase)", "{{phase}}")],
        },
        Panel {
            title: "Drift",
            about: "Fields that differ, by configuration.",
            shape: Shape::Lines,
            unit: Unit::Count,
            queries: &[("medley_governance_drift_fields", "{{config}}")],
        },
        Panel {
            title: "Age of plans",
            about: "Time since each plan was generated.",
            shape: Shape::Lines,
            unit: Unit::Seconds,
            queries: &[(
                "time() - medley_governance_plan_timestamp_seconds",
                "{{config}}",
            )],
        },
        Panel {
            title: "Time to apply an item",
            about: "Median and 99th percentile.",
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
            title: "Takeovers",
            about: "Fields that plans take from other managers.",
            shape: Shape::Table,
            unit: Unit::Count,
            queries: &[("medley_governance_takeovers > 0", "{{config}}")],
        },
    ],
};
