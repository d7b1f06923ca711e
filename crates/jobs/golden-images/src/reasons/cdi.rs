//! Reasons of events and conditions about imports. Upstream's are kept where they exist.

use api::reasons::{ANY, Conditions, Event, Reason, fine, normal, reason, warning};

const CRON: &str = "DataImportCron";
const VOLUME: &str = "DataVolume";
const EITHER: &str = "DataImportCron, DataVolume";

/// The event reasons of DataImportCrons and DataVolumes.
pub const CDI_EVENTS: &[Event] = &[
    normal(
        "ImportScheduled",
        VOLUME,
        "an import is waiting for its pod",
    ),
    normal("ImportInProgress", VOLUME, "an import is running"),
    normal("ImportSucceeded", VOLUME, "the disk is imported"),
    normal(
        "ContentUnchanged",
        CRON,
        "a new image has unchanged disk content, and is not imported",
    ),
    warning(
        "ErrDataSourceAlreadyManaged",
        CRON,
        "two DataImportCrons manage the same DataSource",
    ),
    warning(
        "ErrResourceExists",
        VOLUME,
        "a PVC of that name has another owner",
    ),
    warning(
        "UnsupportedContentType",
        VOLUME,
        "the content type is not a disk",
    ),
    warning(
        "ArchitectureNotFound",
        EITHER,
        "the image index does not have the architecture",
    ),
    warning(
        "NotAnIndex",
        EITHER,
        "the image is not an index, and is for another architecture",
    ),
    warning(
        "NoMatchingNode",
        EITHER,
        "no node has the architecture, and pullMethod is node",
    ),
    warning(
        "PullUnauthorized",
        EITHER,
        "the registry rejects the credentials",
    ),
    warning("ImageNotFound", EITHER, "the image does not exist"),
    warning(
        "RateLimited",
        EITHER,
        "the registry limits the rate of requests",
    ),
    warning(
        "RegistryUnavailable",
        EITHER,
        "the registry is unreachable or returns errors",
    ),
    warning(
        "DigestMismatch",
        EITHER,
        "the content does not match its digest or checksum",
    ),
    warning("TooSmall", EITHER, "the PVC is too small for the disk"),
    warning("NoDisk", EITHER, "the image contains no disk"),
    warning("InvalidDisk", EITHER, "the disk cannot be read"),
    warning(
        "BootableContainer",
        EITHER,
        "the image is a bootable container and not a disk",
    ),
    warning(
        "ArchitectureMismatch",
        EITHER,
        "the disk is for another architecture",
    ),
    warning(
        "Unschedulable",
        EITHER,
        "the importer pod cannot be scheduled",
    ),
    warning(
        "InvalidDigest",
        EITHER,
        "no PVC name can be derived from the digest",
    ),
    warning(
        "NotAuthorized",
        EITHER,
        "cloning the source is not permitted",
    ),
    warning(
        "KindNotInstalled",
        EITHER,
        "the CRD of the source is not installed",
    ),
    warning("ImportFailed", EITHER, "any other failure; see the message"),
];

/// The conditions of DataImportCrons, DataSources and DataVolumes.
pub const CDI_CONDITIONS: &[Conditions] = &[
    Conditions {
        of: CRON,
        types: &[("UpToDate", "The newest image is imported.")],
        reasons: &[
            FAILURES,
            &[
                fine("True", "UpToDate", "The newest image is imported."),
                fine("False", "NoDigest", "The source has not been polled yet."),
                fine(
                    "False",
                    "Outdated",
                    "There is a newer version; the running import is completed first.",
                ),
                fine(
                    "False",
                    "ImportProgressing",
                    "The newest image is being imported.",
                ),
                reason(
                    "False",
                    "ErrDataSourceAlreadyManaged",
                    "Another DataImportCron manages the same DataSource.",
                    "Delete one of the two.",
                ),
            ],
        ],
    },
    Conditions {
        of: CRON,
        types: &[("Progressing", "An import is running.")],
        reasons: &[
            FAILURES,
            &[
                fine("True", "ImportProgressing", "The import is running."),
                fine("False", "ImportScheduled", "The import is scheduled."),
                fine("False", "NoImport", "There is no import."),
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
            fine("True", "Ready", "It can be cloned."),
            reason(
                "False",
                "CrossNamespaceReference",
                "It points to a DataSource in another namespace.",
                "Point it to a DataSource in its own namespace.",
            ),
            reason(
                "False",
                "SelfReference",
                "It points to itself.",
                "Point it to another DataSource.",
            ),
            reason(
                "False",
                "NotFound",
                "Its source does not exist.",
                "See the message; the import may not have started yet.",
            ),
            reason(
                "False",
                "MaxReferenceDepthReached",
                "It points to a DataSource that is a pointer itself.",
                "Point it to the last one.",
            ),
            reason("False", "NoSource", "It has no source.", "Set spec.source."),
            fine(
                "False",
                "SnapshotNotReady",
                "The snapshot is not ready to use yet.",
            ),
            fine(
                "False",
                ANY,
                "The phase of the DataVolume that is being imported.",
            ),
        ]],
    },
    Conditions {
        of: VOLUME,
        types: &[
            ("Running", "An import or a clone is running."),
            ("Ready", "The disk is complete."),
            ("Bound", "The PVC is bound."),
        ],
        reasons: &[
            FAILURES,
            &[
                fine("True, False", "Pending", "It is pending."),
                fine("True", "Pod is running", "The importer is running."),
                fine("False", "Completed", "The import is complete."),
                fine("True", "Ready", "The disk is complete."),
                fine("True", "Bound", "The PVC is bound."),
                fine(
                    "True, False",
                    "ImportScheduled",
                    "The importer is scheduled.",
                ),
                fine(
                    "True, False",
                    "ImportInProgress",
                    "The importer is running.",
                ),
                fine(
                    "False",
                    "WaitForFirstConsumer",
                    "The PVC is bound when a pod uses it.",
                ),
                fine(
                    "False",
                    "CloneScheduled",
                    "The source is not ready to be cloned; see the message.",
                ),
                fine(
                    "True, False",
                    "CSICloneInProgress",
                    "The storage provisioner is cloning.",
                ),
                fine(
                    "True, False",
                    "CloneFromSnapshotSourceInProgress",
                    "The storage provisioner is cloning from a snapshot.",
                ),
                fine(
                    "True, False",
                    "NamespaceTransferInProgress",
                    "The clone is being transferred to its namespace.",
                ),
                reason(
                    "False",
                    "Failed",
                    "The import failed.",
                    "See the condition Running.",
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
        "The image index does not have the architecture.",
        "`medley image inspect` lists its platforms; correct the template.",
    ),
    reason(
        "False",
        "NotAnIndex",
        "The image is not an index, and is for another architecture.",
        "Use a multi-architecture image.",
    ),
    reason(
        "False",
        "NoMatchingNode",
        "No node has the architecture, and pullMethod is node.",
        "Add a node, or set pullMethod: pod.",
    ),
    reason(
        "False",
        "PullUnauthorized",
        "The registry rejects the credentials.",
        "Correct the secret that the source names.",
    ),
    reason(
        "False",
        "ImageNotFound",
        "The image does not exist.",
        "Correct the URL.",
    ),
    reason(
        "False",
        "RateLimited",
        "The registry limits the rate of requests.",
        "It is retried; credentials or a mirror raise the limit.",
    ),
    reason(
        "False",
        "RegistryUnavailable",
        "The registry is unreachable or returns errors.",
        "It is retried; check network, proxy and certificates.",
    ),
    reason(
        "False",
        "DigestMismatch",
        "The content does not match its digest or checksum.",
        "It is retried; if it persists, check the registry and proxies.",
    ),
    reason(
        "False",
        "TooSmall",
        "The PVC is too small for the disk.",
        "Request more storage in the template.",
    ),
    reason(
        "False",
        "NoDisk",
        "The image contains no disk.",
        "The disk must be a file in /disk.",
    ),
    reason(
        "False",
        "InvalidDisk",
        "The disk cannot be read.",
        "It must be raw or qcow2, without a backing file.",
    ),
    reason(
        "False",
        "BootableContainer",
        "The image is a bootable container and not a disk.",
        "Convert it with bootc-image-builder.",
    ),
    reason(
        "False",
        "ArchitectureMismatch",
        "The disk is for another architecture.",
        "Correct the image; spec.sniffing of the GoldenImagePolicy decides whether it is rejected.",
    ),
    reason(
        "False",
        "Unschedulable",
        "The importer pod cannot be scheduled.",
        "See the message of the scheduler.",
    ),
    reason(
        "False",
        "InvalidDigest",
        "No PVC name can be derived from the digest.",
        "It must begin with sha256:.",
    ),
    reason(
        "False",
        "NotAuthorized",
        "Cloning the source is not permitted.",
        "Grant create on datavolumes/source in the namespace of the source.",
    ),
    reason(
        "False",
        "KindNotInstalled",
        "The CRD of the source is not installed.",
        "Install it.",
    ),
    reason(
        "False",
        "ImportFailed",
        "Any other failure.",
        "See the message; it is retried.",
    ),
];

#[cfg(test)]
mod tests {
    use api::reasons::tells;

    use super::{CDI_EVENTS, FAILURES};
    use crate::cdi::failure::Reason;

    #[test]
    fn every_failure_is_documented() {
        for reason in Reason::ALL {
            let word = reason.as_str();
            assert!(FAILURES.iter().any(|it| it.word == word), "{word}");
            assert!(tells(CDI_EVENTS, word, true), "{word}");
        }
        assert_eq!(FAILURES.len(), Reason::ALL.len());
    }
}
