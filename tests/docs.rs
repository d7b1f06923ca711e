//! The documentation is correct: bash and the real kubectl run every command block and the output is compared. Blocks
//! that cannot be run have a reason, and their `medley` command lines still have to parse.
//!
//! A tour is a list of pages that run one after the other on one cluster.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "test helpers may panic like tests"
)]

mod docs_support;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use clap::error::ErrorKind;
use docs_support::page::{Page, RunMode, pages};
use docs_support::reader::Reader;
use docs_support::shell;
use regex::Regex;

/// Flags of the cluster for pages that do not start one; only its speed differs from the default.
const CLUSTER: Option<&str> = Some("--speed 30");
/// For pages that start a cluster themselves.
const NONE: Option<&str> = None;

macro_rules! tours {
    ($($name:ident, $cluster:expr, [$($page:literal),* $(,)?];)*) => {
        $(
            #[test]
            fn $name() {
                follow($cluster, &[$($page),*]);
            }
        )*

        const TESTED_PAGES: &[&str] = &[$($($page),*),*];
    };
}

tours! {
    the_quickstart, NONE, ["docs/quickstart.md"];
    the_readme, NONE, ["README.md"];
    governance, NONE, ["docs/governance.md"];
    releases, NONE, ["docs/release-migration.md"];
    guides, CLUSTER, [
        "docs/cpu-choice.md",
        "docs/images.md",
        "docs/placement.md",
        "docs/fleet.md",
    ];
    operations, CLUSTER, [
        "docs/status-and-support.md",
        "docs/machine-output.md",
        "docs/troubleshooting.md",
        "docs/security.md",
        "docs/upgrade.md",
        "docs/scale.md",
    ];
    installing, CLUSTER, ["docs/install.md"];
    commands_of_governance, CLUSTER, ["docs/governance-cli.md"];
    profiles_as_data, CLUSTER, ["docs/platform-profiles.md"];
    runbooks, CLUSTER, [
        "docs/runbooks/CDIDataImportCronOutdated.md",
        "docs/runbooks/HCOGoldenImageWithNoArchitectureAnnotation.md",
        "docs/runbooks/HCOGoldenImageWithNoSupportedArchitecture.md",
        "docs/runbooks/HCOMultiArchGoldenImagesDisabled.md",
        "docs/runbooks/MedleyCpuAdmissionMissing.md",
        "docs/runbooks/MedleyCpuNoMigrationTarget.md",
        "docs/runbooks/MedleyCpuStranded.md",
        "docs/runbooks/MedleyCpuUndecided.md",
        "docs/runbooks/MedleyGovernanceDrift.md",
        "docs/runbooks/MedleyGovernanceEnforcementPaused.md",
        "docs/runbooks/MedleyGovernanceFailed.md",
        "docs/runbooks/MedleyGovernancePlanWaiting.md",
        "docs/runbooks/MedleyGovernanceUnhealthy.md",
        "docs/runbooks/MedleyPlacementAdmissionMissing.md",
        "docs/runbooks/MedleyPlacementHeld.md",
        "docs/runbooks/MedleyPlacementNotInspected.md",
        "docs/runbooks/MedleyReconcileErrors.md",
        "docs/runbooks/MedleyReleaseClaimedEarly.md",
        "docs/runbooks/MedleyReleaseFailing.md",
        "docs/runbooks/MedleyReleaseNeverArrives.md",
        "docs/runbooks/MedleyReleaseNotOwned.md",
        "docs/runbooks/MedleyReleasePayloadNotReady.md",
    ];
}

fn root() -> PathBuf {
    // Cargo runs the tests of this package in its own folder.
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    root.canonicalize().unwrap()
}

fn follow(cluster: Option<&str>, pages: &[&str]) {
    let root = root();
    let mut reader = Reader::new(&root, env!("CARGO_BIN_EXE_medley"));
    if let Some(arguments) = cluster {
        reader.has_cluster(arguments);
    }
    let mut problems = Vec::new();
    for path in pages {
        problems.extend(reader.follow(&Page::open(&root, path)));
    }
    assert!(problems.is_empty(), "{}", problems.join("\n\n"));
}

/// All pages for users.
fn all() -> Vec<Page> {
    let root = root();
    let mut paths = pages(&root, "docs");
    paths.extend(["README.md", "CONTRIBUTING.md", "CHANGELOG.md"].map(str::to_owned));
    paths.iter().map(|path| Page::open(&root, path)).collect()
}

#[test]
fn every_page_with_commands_is_in_a_tour() {
    let runs = all().into_iter().filter(Page::runs);
    let runs: BTreeSet<String> = runs.map(|page| page.path).collect();
    let followed: BTreeSet<String> = TESTED_PAGES.iter().map(|&path| path.to_owned()).collect();
    assert_eq!(followed.len(), TESTED_PAGES.len(), "a page is in two tours");
    assert_eq!(
        runs, followed,
        "on the left are the pages that have something to run: add them to a tour, or say in the page why not \
         (`<!-- not run: REASON -->` before a block)"
    );
}

#[test]
fn every_medley_command_line_parses() {
    let mut problems = Vec::new();
    let mut count = 0;
    for page in all() {
        for step in page.blocks.iter().flat_map(|block| &block.steps) {
            for words in shell::medley(&step.command) {
                count += 1;
                let parsed = medley::command("medley").try_get_matches_from(&words);
                if let Err(refused) = parsed
                    && refused.kind() != ErrorKind::DisplayHelp
                {
                    problems.push(format!("{}:{}: {refused}", page.path, step.line));
                }
            }
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
    assert!(count > 100, "only {count} were found");
}

/// Inline code is often a part of a command line: its subcommands and flags have to exist.
#[test]
fn commands_and_flags_in_inline_code_exist() {
    let mut problems = BTreeSet::new();
    for page in all() {
        for span in &page.spans {
            for words in shell::medley(span) {
                if let Some(problem) = unknown(&words) {
                    problems.insert(format!("{}: `{span}`: {problem}", page.path));
                }
            }
        }
    }
    let problems: Vec<String> = problems.into_iter().collect();
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

/// The first unknown subcommand or flag of a command line.
fn unknown(words: &[String]) -> Option<String> {
    let mut command = medley::command("medley");
    command.build();
    let mut command = &command;
    let mut words = words.iter().skip(1).peekable();
    while let Some(word) = words.peek() {
        let Some(inner) = command.find_subcommand(word) else {
            break;
        };
        command = inner;
        words.next();
    }
    let is_path = command.get_subcommands().next().is_some();
    if let Some(word) = words.peek()
        && is_path
        && word.chars().all(|c| c.is_ascii_lowercase())
        && command.get_positionals().next().is_none()
    {
        return Some(format!("there is no command `{word}`"));
    }
    let known: BTreeSet<&str> = command
        .get_arguments()
        .filter_map(clap::Arg::get_long)
        .collect();
    words
        .filter_map(|word| word.strip_prefix("--"))
        .map(|flag| flag.split('=').next().unwrap_or_default())
        .find(|flag| !flag.is_empty() && !known.contains(flag))
        .map(|flag| format!("`{}` has no flag --{flag}", command.get_name()))
}

#[test]
fn skipped_blocks_have_a_reason() {
    for page in all() {
        for block in &page.blocks {
            if let RunMode::NotRun(reason) = &block.how {
                let words = reason.split_whitespace().count();
                assert!(words >= 2, "{}:{}: {reason}", page.path, block.line);
            }
        }
    }
}

/// Links within the repository point to existing files and headings.
#[test]
fn links_resolve() {
    static LINK: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\]\(([^)\s]+)\)").unwrap());
    let root = root();
    let mut problems = Vec::new();
    for page in all() {
        let text = std::fs::read_to_string(root.join(&page.path)).unwrap();
        for link in LINK.captures_iter(&text).filter_map(|found| found.get(1)) {
            let link = link.as_str();
            if link.contains("://") || link.starts_with("mailto:") {
                continue;
            }
            let (file, heading) = link.split_once('#').unwrap_or((link, ""));
            let target = match file {
                "" => root.join(&page.path),
                _ => root.join(&page.path).parent().unwrap().join(file),
            };
            let leads = target.exists() && (heading.is_empty() || has_heading(&target, heading));
            if !leads {
                problems.push(format!("{}: {link}", page.path));
            }
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

fn has_heading(file: &Path, heading: &str) -> bool {
    let text = std::fs::read_to_string(file).unwrap();
    let anchor = |line: &str| {
        let title = line.trim_start_matches('#').trim().to_lowercase();
        let kept = title.chars().filter_map(|c| match c {
            ' ' => Some('-'),
            '-' | '_' => Some(c),
            _ => c.is_alphanumeric().then_some(c),
        });
        kept.collect::<String>()
    };
    let mut headings = text.lines().filter(|line| line.starts_with('#'));
    headings.any(|line| anchor(line) == heading)
}
