//! The Grafana dashboard of golden images.

use api::monitoring::dashboard::{Dashboard, Panel, Shape, Unit};

/// The dashboard.
pub const DASHBOARD: Dashboard = Dashboard {
    name: "golden-images",
    title: "Medley: golden images",
    about: "Boot images: outdated images, imports and failures.",
    panels: &[
        Panel {
            title: "Not the newest",
            about: "DataImportCrons whose last import is not the newest image.",
            shape: Shape::Number,
            unit: Unit::Count,
            queries: &[("sum(kubevirt_cdi_dataimportcron_outdated)", "outdated")],
        },
        Panel {
            title: "Running imports",
            about: "Imports under way.",
            shape: Shape::Number,
            unit: Unit::Count,
            queries: &[(
                "count(medley_images_import_progress_percent) or vector(0)",
                "running",
            )],
        },
        Panel {
            title: "Templates without an architecture",
            about: "Templates that list no architecture of any workload node.",
            shape: Shape::Number,
            unit: Unit::Count,
            queries: &[(
                "count(kubevirt_hco_dataimportcrontemplate_with_supported_architectures == 0) or vector(0)",
                "templates",
            )],
        },
        Panel {
            title: "Multi-architecture images",
            about: "Whether they are enabled, in clusters with several architectures.",
            shape: Shape::Number,
            unit: Unit::Truth,
            queries: &[("min(kubevirt_hco_multi_arch_boot_images_enabled)", "on")],
        },
        Panel {
            title: "Progress",
            about: "Progress of running imports.",
            shape: Shape::Lines,
            unit: Unit::Percent,
            queries: &[(
                "medley_images_import_progress_percent",
                "{{namespace}}/{{name}}",
            )],
        },
        Panel {
            title: "Imports",
            about: "Finished imports by result.",
            shape: Shape::Lines,
            unit: Unit::Rate,
            queries: &[(
                "sum by (result) (rate(medley_images_imports_total[15m]))",
                "{{result}}",
            )],
        },
        Panel {
            title: "Polls of registries",
            about: "Polls by result.",
            shape: Shape::Lines,
            unit: Unit::Rate,
            queries: &[(
                "sum by (result) (rate(medley_images_polls_total[15m]))",
                "{{result}}",
            )],
        },
        Panel {
            title: "Outdated DataImportCrons",
            about: "Those without a storage class are pending.",
            shape: Shape::Table,
            unit: Unit::Count,
            queries: &[(
                "kubevirt_cdi_dataimportcron_outdated > 0",
                "{{namespace}}/{{cron_name}}",
            )],
        },
    ],
};
