//! What Grafana shows of golden images.

use api::monitoring::dashboard::{Dashboard, Panel, Shape, Unit};

/// The page.
pub const DASHBOARD: Dashboard = Dashboard {
    name: "golden-images",
    title: "Medley: golden images",
    about: "Boot images: which are current, what is imported, what goes wrong.",
    panels: &[
        Panel {
            title: "Not the newest",
            about: "DataImportCrons whose last import is not the newest image.",
            shape: Shape::Number,
            unit: Unit::Count,
            queries: &[("sum(kubevirt_cdi_dataimportcron_outdated)", "outdated")],
        },
        Panel {
            title: "Imports that run",
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
            about: "Templates that name no architecture that a node has.",
            shape: Shape::Number,
            unit: Unit::Count,
            queries: &[(
                "count(kubevirt_hco_dataimportcrontemplate_with_supported_architectures == 0) or vector(0)",
                "templates",
            )],
        },
        Panel {
            title: "Images for every architecture",
            about: "Whether they are kept, where nodes have several architectures.",
            shape: Shape::Number,
            unit: Unit::Truth,
            queries: &[("min(kubevirt_hco_multi_arch_boot_images_enabled)", "on")],
        },
        Panel {
            title: "Progress",
            about: "How far imports are.",
            shape: Shape::Lines,
            unit: Unit::Percent,
            queries: &[(
                "medley_images_import_progress_percent",
                "{{namespace}}/{{name}}",
            )],
        },
        Panel {
            title: "Imports",
            about: "How imports end.",
            shape: Shape::Lines,
            unit: Unit::Rate,
            queries: &[(
                "sum by (result) (rate(medley_images_imports_total[15m]))",
                "{{result}}",
            )],
        },
        Panel {
            title: "Polls of registries",
            about: "What comes of asking for images.",
            shape: Shape::Lines,
            unit: Unit::Rate,
            queries: &[(
                "sum by (result) (rate(medley_images_polls_total[15m]))",
                "{{result}}",
            )],
        },
        Panel {
            title: "Crons that are behind",
            about: "Which they are; pending are those without a storage class.",
            shape: Shape::Table,
            unit: Unit::Count,
            queries: &[(
                "kubevirt_cdi_dataimportcron_outdated > 0",
                "{{namespace}}/{{cron_name}}",
            )],
        },
    ],
};
