//! How the source of a DataImportCron is polled, and the versions of image streams and PVCs.

use api::cdi::{DataImportCron, Named};
use serde_json::Value;

use super::PolledVersion;
use crate::action::named;
use crate::cdi::failure::{Failure, Reason};

/// How the source of a DataImportCron is polled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PollMethod {
    /// Over the network, from a registry or a web server.
    Server,
    /// Through a pod, by the container runtime of a node.
    Node,
    /// From the status of an ImageStream.
    Stream(Stream),
    /// From the uid of a PVC.
    Claim(Named),
    /// The source cannot be polled.
    Unsupported,
}

/// A tag of an ImageStream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stream {
    /// The ImageStream.
    pub of: Named,
    /// The tag; the first one if unset.
    pub tag: Option<String>,
}

/// How the source of a DataImportCron is polled. Only PVCs can be in another namespace.
pub fn way(cron: &DataImportCron) -> PollMethod {
    let home = cron.metadata.namespace.as_deref().unwrap_or_default();
    let Some(source) = &cron.spec.template.spec.source else {
        return PollMethod::Unsupported;
    };
    if let Some(of) = &source.pvc {
        let namespace = Some(of.namespace.as_str()).filter(|it| !it.is_empty());
        return PollMethod::Claim(named(namespace.unwrap_or(home), &of.name));
    }
    if source.http.is_some() {
        return PollMethod::Server;
    }
    let Some(registry) = &source.registry else {
        return PollMethod::Unsupported;
    };
    if let Some(stream) = registry.image_stream.as_ref().filter(|it| !it.is_empty()) {
        let (name, tag) = match stream.split_once(':') {
            Some((name, tag)) => (name, Some(tag.to_owned())),
            None => (stream.as_str(), None),
        };
        return PollMethod::Stream(Stream {
            of: named(home, name),
            tag,
        });
    }
    if registry.pulled_by_node().is_some() {
        PollMethod::Node
    } else {
        PollMethod::Server
    }
}

/// The PVC in another namespace that a DataImportCron imports, which needs permission.
pub fn elsewhere(cron: &DataImportCron) -> Option<Named> {
    match way(cron) {
        PollMethod::Claim(of) if Some(&of.namespace) != cron.metadata.namespace.as_ref() => {
            Some(of)
        }
        _ => None,
    }
}

impl Stream {
    /// The newest image of the tag, with its pull reference.
    pub fn found(&self, stream: Option<&Value>) -> Result<PolledVersion, Failure> {
        let Named { namespace, name } = &self.of;
        let missing = |what: &str| {
            let message = format!("ImageStream {namespace}/{name} {what}");
            Failure::new(Reason::ImageNotFound, message)
        };
        let stream = stream.ok_or_else(|| missing("not found"))?;
        let tags = stream.pointer("/status/tags").and_then(Value::as_array);
        let mut tags = tags.into_iter().flatten();
        let found = match &self.tag {
            Some(wanted) => tags.find(|it| it["tag"] == **wanted),
            None => tags.next(),
        };
        let tag = found.ok_or_else(|| match &self.tag {
            Some(wanted) => missing(&format!("has no tag {wanted:?}")),
            None => missing("has no tag"),
        })?;
        let newest = &tag["items"][0];
        let text = |name: &str| newest[name].as_str().filter(|text| !text.is_empty());
        let (Some(digest), Some(reference)) = (text("image"), text("dockerImageReference")) else {
            return Err(missing(&format!("has no image under {}", tag["tag"])));
        };
        Ok(PolledVersion {
            digest: digest.to_owned(),
            reference: Some(reference.to_owned()),
            ..PolledVersion::default()
        })
    }

    /// The failure if the cluster has no ImageStreams.
    pub fn unknown(&self) -> Failure {
        let Named { namespace, name } = &self.of;
        Failure::new(
            Reason::KindNotInstalled,
            format!(
                "cannot get ImageStream {namespace}/{name}: kind ImageStream of image.openshift.io is not installed"
            ),
        )
    }
}

/// The version of a PVC: its uid, so that another PVC of the same name is another version, as in
/// CDI.
pub fn of_claim(of: &Named, uid: Option<&str>) -> Result<PolledVersion, Failure> {
    let Some(uid) = uid else {
        let message = format!(
            "PersistentVolumeClaim {}/{} not found",
            of.namespace, of.name
        );
        return Err(Failure::new(Reason::ImageNotFound, message));
    };
    Ok(PolledVersion {
        digest: format!("uid:{uid}"),
        ..PolledVersion::default()
    })
}

/// The failure if a service account may not clone a PVC of another namespace.
pub fn not_allowed(account: &str, of: &Named) -> Failure {
    Failure::new(
        Reason::NotAuthorized,
        format!(
            "Not authorized to create DataVolume: user {account} may not create datavolumes/source of cdi.kubevirt.io in namespace {}, where PersistentVolumeClaim {} is",
            of.namespace, of.name
        ),
    )
}
