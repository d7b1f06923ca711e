//! The words of imports. Those of upstream are kept where it has any.

use api::words::{ANY, Conditions, Event, Reason, fine, normal, reason, warning};

const CRON: &str = "DataImportCron";
const VOLUME: &str = "DataVolume";
const EITHER: &str = "DataImportCron, DataVolume";

/// What events say.
pub const CDI_EVENTS: &[Event] = &[
    normal("ImportScheduled", VOLUME, "an import waits for its pod"),
    normal("ImportInProgress", VOLUME, "an import runs"),
    normal("ImportSucceeded", VOLUME, "the disk is there"),
    normal(
        "ContentUnchanged",
        CRON,
        "a new image holds the disk that is there already: it is not imported",
    ),
    warning(
        "ErrDataSourceAlreadyManaged",
        CRON,
        "two crons look after the same data source",
    ),
    warning(
        "ErrResourceExists",
        VOLUME,
        "a claim of the name is somebody else's",
    ),
    warning(
        "UnsupportedContentType",
        VOLUME,
        "something else than a disk was asked for",
    ),
    warning(
        "ArchitectureNotFound",
        EITHER,
        "the image is not there for the architecture",
    ),
    warning(
        "NotAnIndex",
        EITHER,
        "the image is for one architecture, and it is another one",
    ),
    warning(
        "NoMatchingNode",
        EITHER,
        "no node has the architecture, and a node has to pull",
    ),
    warning(
        "PullUnauthorized",
        EITHER,
        "the registry wants other credentials",
    ),
    warning("ImageNotFound", EITHER, "there is no such image"),
    warning("RateLimited", EITHER, "the registry has had enough"),
    warning(
        "RegistryUnavailable",
        EITHER,
        "the registry cannot be reached, or does not work",
    ),
    warning(
        "DigestMismatch",
        EITHER,
        "what came is not what was asked for",
    ),
    warning("TooSmall", EITHER, "the volume is too small for the disk"),
    warning("NoDisk", EITHER, "there is no disk in the image"),
    warning("InvalidDisk", EITHER, "the disk cannot be read"),
    warning(
        "BootableContainer",
        EITHER,
        "a disk has to be made from the image first",
    ),
    warning(
        "ArchitectureMismatch",
        EITHER,
        "the disk is for another architecture",
    ),
    warning(
        "Unschedulable",
        EITHER,
        "the pod that imports cannot be scheduled",
    ),
    warning("InvalidDigest", EITHER, "the digest cannot name a volume"),
    warning("NotAuthorized", EITHER, "nobody allows that to be copied"),
    warning(
        "KindNotInstalled",
        EITHER,
        "the cluster does not know the kind of the source",
    ),
    warning(
        "ImportFailed",
        EITHER,
        "something else went wrong; the message says what",
    ),
];

/// What conditions say.
pub const CDI_CONDITIONS: &[Conditions] = &[
    Conditions {
        of: CRON,
        types: &[("UpToDate", "The newest image is imported.")],
        reasons: &[
            FAILURES,
            &[
                fine("True", "UpToDate", "It is."),
                fine("False", "NoDigest", "No registry was asked yet."),
                fine(
                    "False",
                    "Outdated",
                    "There is a newer one; what has begun is finished first.",
                ),
                fine("False", "ImportProgressing", "It is being imported."),
                reason(
                    "False",
                    "ErrDataSourceAlreadyManaged",
                    "Another cron looks after the same data source.",
                    "Delete one of the two.",
                ),
            ],
        ],
    },
    Conditions {
        of: CRON,
        types: &[("Progressing", "An import runs.")],
        reasons: &[
            FAILURES,
            &[
                fine("True", "ImportProgressing", "It does."),
                fine("False", "ImportScheduled", "It is about to."),
                fine("False", "NoImport", "There is none."),
                fine(
                    "False",
                    ANY,
                    "The phase of the DataVolume, such as WaitForFirstConsumer.",
                ),
            ],
        ],
    },
    Conditions {
        of: "DataSource",
        types: &[("Ready", "It can be cloned.")],
        reasons: &[&[
            fine("True", "Ready", "It can."),
            reason(
                "False",
                "CrossNamespaceReference",
                "It points to one of another namespace.",
                "Point to one of its own.",
            ),
            reason(
                "False",
                "SelfReference",
                "It points to itself.",
                "Point to something else.",
            ),
            reason(
                "False",
                "NotFound",
                "What it points to is not there.",
                "The message names it; an import may not have begun yet.",
            ),
            reason(
                "False",
                "MaxReferenceDepthReached",
                "It points to one that points to another.",
                "Point to the last one.",
            ),
            reason(
                "False",
                "NoSource",
                "It points to nothing.",
                "Set spec.source.",
            ),
            fine("False", "SnapshotNotReady", "The snapshot is on its way."),
            fine(
                "False",
                ANY,
                "The phase of the DataVolume that is imported into.",
            ),
        ]],
    },
    Conditions {
        of: VOLUME,
        types: &[
            ("Running", "An import or a copy runs."),
            ("Ready", "The disk is there."),
            ("Bound", "The claim has a volume."),
        ],
        reasons: &[
            FAILURES,
            &[
                fine("True, False", "Pending", "It waits."),
                fine("True", "Pod is running", "The importer runs."),
                fine("False", "Completed", "It is done."),
                fine("True", "Ready", "It is there."),
                fine("True", "Bound", "It has."),
                fine("True, False", "ImportScheduled", "The importer waits."),
                fine("True, False", "ImportInProgress", "The importer runs."),
                fine(
                    "False",
                    "WaitForFirstConsumer",
                    "The storage waits for somebody who uses it.",
                ),
                fine(
                    "False",
                    "CloneScheduled",
                    "The original is not ready to be copied; the message says why.",
                ),
                fine("True, False", "CSICloneInProgress", "The storage copies."),
                fine(
                    "True, False",
                    "CloneFromSnapshotSourceInProgress",
                    "The storage copies from a snapshot.",
                ),
                fine(
                    "True, False",
                    "NamespaceTransferInProgress",
                    "The copy is handed over to its namespace.",
                ),
                reason(
                    "False",
                    "Failed",
                    "The last try failed.",
                    "Running says why.",
                ),
            ],
        ],
    },
];

/// Why an import failed; see [`crate::cdi::failure::Reason`].
const FAILURES: &[Reason] = &[
    reason(
        "False",
        "ArchitectureNotFound",
        "The image is not there for the architecture.",
        "`medley image inspect` says which it has; correct the template.",
    ),
    reason(
        "False",
        "NotAnIndex",
        "The image is for one architecture, and it is another one.",
        "Name an image that is for several.",
    ),
    reason(
        "False",
        "NoMatchingNode",
        "A node has to pull, and none has the architecture.",
        "Add a node, or let pods pull (pullMethod: pod).",
    ),
    reason(
        "False",
        "PullUnauthorized",
        "The registry wants other credentials.",
        "Correct the secret that the source names.",
    ),
    reason(
        "False",
        "ImageNotFound",
        "There is no such image.",
        "Correct the address.",
    ),
    reason(
        "False",
        "RateLimited",
        "The registry has had enough.",
        "It is tried again; credentials or a mirror raise the limit.",
    ),
    reason(
        "False",
        "RegistryUnavailable",
        "The registry cannot be reached, or does not work.",
        "It is tried again; look at network, proxy and certificates.",
    ),
    reason(
        "False",
        "DigestMismatch",
        "What came is not what was asked for.",
        "It is tried again; if it stays, the registry or a proxy is broken.",
    ),
    reason(
        "False",
        "TooSmall",
        "The volume is too small for the disk.",
        "Ask for more storage in the template.",
    ),
    reason(
        "False",
        "NoDisk",
        "There is no disk in the image.",
        "It has to be a file in /disk.",
    ),
    reason(
        "False",
        "InvalidDisk",
        "The disk cannot be read.",
        "It has to be raw or qcow2, without a backing file.",
    ),
    reason(
        "False",
        "BootableContainer",
        "A disk has to be made from the image first.",
        "Make one with bootc-image-builder.",
    ),
    reason(
        "False",
        "ArchitectureMismatch",
        "The disk is for another architecture.",
        "Correct the image; the policy says whether this is refused.",
    ),
    reason(
        "False",
        "Unschedulable",
        "The pod that imports cannot be scheduled.",
        "The message says what is missing.",
    ),
    reason(
        "False",
        "InvalidDigest",
        "The digest cannot name a volume.",
        "It has to be sha256.",
    ),
    reason(
        "False",
        "NotAuthorized",
        "Nobody allows that to be copied.",
        "Give the right to datavolumes/source in the namespace of the source.",
    ),
    reason(
        "False",
        "KindNotInstalled",
        "The cluster does not know the kind of the source.",
        "Install it.",
    ),
    reason(
        "False",
        "ImportFailed",
        "Something else went wrong.",
        "The message says what; it is tried again.",
    ),
];

#[cfg(test)]
mod tests {
    use api::words::tells;

    use super::{CDI_EVENTS, FAILURES};
    use crate::cdi::failure::Reason;

    #[test]
    fn every_failure_is_explained() {
        for reason in Reason::ALL {
            let word = reason.as_str();
            assert!(FAILURES.iter().any(|it| it.word == word), "{word}");
            assert!(tells(CDI_EVENTS, word, true), "{word}");
        }
        assert_eq!(FAILURES.len(), Reason::ALL.len());
    }
}
