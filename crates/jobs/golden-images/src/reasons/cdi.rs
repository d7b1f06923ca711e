//! Reasons of events and conditions about imports. Upstream's are kept where they exist.

use api::reasons::{ANY, Conditions, Event, Reason};
use api::{condition_reasons, conditions, events};

const CRON: &str = "DataImportCron";
const VOLUME: &str = "DataVolume";
const EITHER: &str = "DataImportCron, DataVolume";

/// The event reasons of DataImportCrons and DataVolumes.
pub const CDI_EVENTS: &[Event] = events! {
    Normal "ImportScheduled" VOLUME => "an import is waiting for its pod";
    Normal "ImportInProgress" VOLUME => "an import is running";
    Normal "ImportSucceeded" VOLUME => "the disk is imported";
    Normal "ContentUnchanged" CRON => "a new image has unchanged disk content, and is not imported";
    Warning "ErrDataSourceAlreadyManaged" CRON => "two DataImportCrons manage the same DataSource";
    Warning "ErrResourceExists" VOLUME => "a PVC of that name has another owner";
    Warning "UnsupportedContentType" VOLUME => "the content type is not a disk";
    Warning "ArchitectureNotFound" EITHER => "the image index does not have the architecture";
    Warning "NotAnIndex" EITHER => "the image is not an index, and is for another architecture";
    Warning "NoMatchingNode" EITHER => "no node has the architecture, and pullMethod is node";
    Warning "PullUnauthorized" EITHER => "the registry rejects the credentials";
    Warning "ImageNotFound" EITHER => "the image does not exist";
    Warning "RateLimited" EITHER => "the registry limits the rate of requests";
    Warning "RegistryUnavailable" EITHER => "the registry is unreachable or returns errors";
    Warning "DigestMismatch" EITHER => "the content does not match its digest or checksum";
    Warning "TooSmall" EITHER => "the PVC is too small for the disk";
    Warning "NoDisk" EITHER => "the image contains no disk";
    Warning "InvalidDisk" EITHER => "the disk cannot be read";
    Warning "BootableContainer" EITHER => "the image is a bootable container and not a disk";
    Warning "ArchitectureMismatch" EITHER => "the disk is for another architecture";
    Warning "Unschedulable" EITHER => "the importer pod cannot be scheduled";
    Warning "InvalidDigest" EITHER => "no PVC name can be derived from the digest";
    Warning "NotAuthorized" EITHER => "cloning the source is not permitted";
    Warning "KindNotInstalled" EITHER => "the CRD of the source is not installed";
    Warning "ImportFailed" EITHER => "any other failure; see the message";
};

/// The conditions of DataImportCrons, DataSources and DataVolumes.
pub const CDI_CONDITIONS: &[Conditions] = conditions! {
    of CRON, "UpToDate": "The newest image is imported." with [FAILURES] {
        "True" "UpToDate": "The newest image is imported.";
        "False" "NoDigest": "The source has not been polled yet.";
        "False" "Outdated": "There is a newer version; the running import is completed first.";
        "False" "ImportProgressing": "The newest image is being imported.";
        "False" "ErrDataSourceAlreadyManaged": "Another DataImportCron manages the same DataSource."
            => "Delete one of the two.";
    }
    of CRON, "Progressing": "An import is running." with [FAILURES] {
        "True" "ImportProgressing": "The import is running.";
        "False" "ImportScheduled": "The import is scheduled.";
        "False" "NoImport": "There is no import.";
        "False" ANY: "The phase of the DataVolume, such as WaitForFirstConsumer.";
    }
    of "DataSource", "Ready": "It can be cloned." {
        "True" "Ready": "It can be cloned.";
        "False" "CrossNamespaceReference": "It points to a DataSource in another namespace."
            => "Point it to a DataSource in its own namespace.";
        "False" "SelfReference": "It points to itself." => "Point it to another DataSource.";
        "False" "NotFound": "Its source does not exist." => "See the message; the import may not have started yet.";
        "False" "MaxReferenceDepthReached": "It points to a DataSource that is a pointer itself."
            => "Point it to the last one.";
        "False" "NoSource": "It has no source." => "Set spec.source.";
        "False" "SnapshotNotReady": "The snapshot is not ready to use yet.";
        "False" ANY: "The phase of the DataVolume that is being imported.";
    }
    of VOLUME,
        "Running": "An import or a clone is running.",
        "Ready": "The disk is complete.",
        "Bound": "The PVC is bound."
    with [FAILURES] {
        "True, False" "Pending": "It is pending.";
        "True" "Pod is running": "The importer is running.";
        "False" "Completed": "The import is complete.";
        "True" "Ready": "The disk is complete.";
        "True" "Bound": "The PVC is bound.";
        "True, False" "ImportScheduled": "The importer is scheduled.";
        "True, False" "ImportInProgress": "The importer is running.";
        "False" "WaitForFirstConsumer": "The PVC is bound when a pod uses it.";
        "False" "CloneScheduled": "The source is not ready to be cloned; see the message.";
        "True, False" "CSICloneInProgress": "The storage provisioner is cloning.";
        "True, False" "CloneFromSnapshotSourceInProgress": "The storage provisioner is cloning from a snapshot.";
        "True, False" "NamespaceTransferInProgress": "The clone is being transferred to its namespace.";
        "False" "Failed": "The import failed." => "See the condition Running.";
    }
};

/// Why an import failed; see [`crate::cdi::failure::Reason`].
const FAILURES: &[Reason] = condition_reasons! {
    "False" "ArchitectureNotFound": "The image index does not have the architecture."
        => "`medley image inspect` lists its platforms; correct the template.";
    "False" "NotAnIndex": "The image is not an index, and is for another architecture."
        => "Use a multi-architecture image.";
    "False" "NoMatchingNode": "No node has the architecture, and pullMethod is node."
        => "Add a node, or set pullMethod: pod.";
    "False" "PullUnauthorized": "The registry rejects the credentials." => "Correct the secret that the source names.";
    "False" "ImageNotFound": "The image does not exist." => "Correct the URL.";
    "False" "RateLimited": "The registry limits the rate of requests."
        => "It is retried; credentials or a mirror raise the limit.";
    "False" "RegistryUnavailable": "The registry is unreachable or returns errors."
        => "It is retried; check network, proxy and certificates.";
    "False" "DigestMismatch": "The content does not match its digest or checksum."
        => "It is retried; if it persists, check the registry and proxies.";
    "False" "TooSmall": "The PVC is too small for the disk." => "Request more storage in the template.";
    "False" "NoDisk": "The image contains no disk." => "The disk must be a file in /disk.";
    "False" "InvalidDisk": "The disk cannot be read." => "It must be raw or qcow2, without a backing file.";
    "False" "BootableContainer": "The image is a bootable container and not a disk."
        => "Convert it with bootc-image-builder.";
    "False" "ArchitectureMismatch": "The disk is for another architecture."
        => "Correct the image; spec.sniffing of the GoldenImagePolicy decides whether it is rejected.";
    "False" "Unschedulable": "The importer pod cannot be scheduled." => "See the message of the scheduler.";
    "False" "InvalidDigest": "No PVC name can be derived from the digest." => "It must begin with sha256:.";
    "False" "NotAuthorized": "Cloning the source is not permitted."
        => "Grant create on datavolumes/source in the namespace of the source.";
    "False" "KindNotInstalled": "The CRD of the source is not installed." => "Install it.";
    "False" "ImportFailed": "Any other failure." => "See the message; it is retried.";
};

#[cfg(test)]
mod tests {
    use api::reasons::has_event;

    use super::{CDI_EVENTS, FAILURES};
    use crate::cdi::failure::Reason;

    #[test]
    fn every_failure_is_documented() {
        for reason in Reason::ALL {
            let word = reason.as_str();
            assert!(FAILURES.iter().any(|it| it.name == word), "{word}");
            assert!(has_event(CDI_EVENTS, word, true), "{word}");
        }
        assert_eq!(FAILURES.len(), Reason::ALL.len());
    }
}
