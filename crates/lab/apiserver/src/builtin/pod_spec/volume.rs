//! Volumes and references to them (`ValidateVolumes`, `ValidateVolumeMounts`).

use std::collections::BTreeMap;

use machinery::field::{FieldError, Path};
use serde_json::Value;

use crate::builtin::check;
use crate::builtin::core::volumes;
use crate::builtin::entry::Errors;
use crate::builtin::resources;
use crate::builtin::value::{Read, indexed};

/// Sources in the order they are checked, which determines which of two is reported.
const SOURCES: &str = "emptyDir hostPath gitRepo gcePersistentDisk awsElasticBlockStore secret nfs iscsi glusterfs \
     flocker persistentVolumeClaim rbd cinder cephfs quobyte downwardAPI fc flexVolume configMap \
     azureFile vsphereVolume photonPersistentDisk portworxVolume azureDisk storageos projected \
     scaleIO csi ephemeral image";

/// Checks the volumes; returns the valid ones by name.
pub(crate) fn check_volumes<'a>(
    path: &Path,
    volumes: &'a [Value],
    pod_name: Option<&str>,
) -> (BTreeMap<&'a str, &'a Value>, Errors) {
    let mut errors = Errors::new();
    let mut good = BTreeMap::new();
    let created: Vec<String> = match pod_name {
        Some(pod) if !pod.is_empty() => volumes
            .iter()
            .filter(|volume| volume.has("ephemeral"))
            .map(|volume| format!("{pod}-{}", volume.text("name")))
            .collect(),
        _ => Vec::new(),
    };
    for (path, volume) in indexed(path, volumes) {
        let mut wrong = check_source(&path, volume);
        let name = volume.text("name");
        if name.is_empty() {
            wrong.required(&path.child("name"), "");
        } else {
            wrong += check::label(&path.child("name"), name);
        }
        if good.contains_key(name) {
            wrong.duplicate(&path.child("name"), name);
        }
        // Only sound volumes can be mounted: a mount of a broken one is reported as not found, as
        // upstream does.
        if wrong.is_empty() {
            good.insert(name, volume);
        }
        errors += wrong;
        let claim = volume.text("persistentVolumeClaim.claimName");
        if volume.has("persistentVolumeClaim") && created.iter().any(|name| name == claim) {
            errors.invalid(
                &path.child("persistentVolumeClaim").child("claimName"),
                claim,
                "must not reference a PVC that gets created for an ephemeral volume",
            );
        }
    }
    (good, errors)
}

fn check_source(path: &Path, volume: &Value) -> Errors {
    let mut errors = Errors::new();
    let mut found = false;
    for sort in SOURCES.split(' ') {
        let source = volume.at(sort);
        if source.is_null() {
            continue;
        }
        let path = path.child(sort);
        // The first source of the list is checked, every further one is only reported.
        if found {
            errors.forbidden(&path, "may not specify more than 1 volume type");
            continue;
        }
        found = true;
        errors += check_one_source(&path, sort, source);
    }
    if !found {
        errors.required(path, "must specify a volume type");
    }
    errors
}

fn check_one_source(path: &Path, sort: &str, source: &Value) -> Errors {
    match sort {
        "emptyDir" => match source.maybe_text("sizeLimit") {
            Some(limit) if limit.starts_with('-') => FieldError::forbidden(
                &path.child("sizeLimit"),
                "SizeLimit field must be a valid resource quantity",
            )
            .into(),
            _ => Errors::new(),
        },
        "hostPath" => check_host_path(path, source),
        "gitRepo" => check::required(&path.child("repository"), source.text("repository")),
        "secret" => check_keys(path, source, "secretName"),
        "configMap" => check_keys(path, source, "name"),
        "persistentVolumeClaim" => {
            check::required(&path.child("claimName"), source.text("claimName"))
        }
        "nfs" => check_nfs(path, source),
        "downwardAPI" => {
            let mut errors =
                check::file_mode(&path.child("defaultMode"), source.int("defaultMode"));
            for file in source.items("items") {
                errors += check_downward_file(path, file);
            }
            errors
        }
        "projected" => check_projected(path, source),
        "csi" => volumes::check_driver_name(&path.child("driver"), source.text("driver")),
        "ephemeral" => check_ephemeral(path, source),
        "image" => check::required(&path.child("reference"), source.text("reference")),
        // Upstream also checks iscsi, fc, rbd and the drivers that CSI replaced. Here no kubelet
        // mounts volumes, and their fields are accepted as they are.
        _ => Errors::new(),
    }
}

/// A path on the node.
pub(crate) fn check_host_path(path: &Path, source: &Value) -> Errors {
    let value = source.text("path");
    if value.is_empty() {
        return FieldError::required(&path.child("path"), "").into();
    }
    let mut errors = check::no_backsteps(&path.child("path"), value);
    errors += check::maybe_one_of(
        &path.child("type"),
        source.maybe_text("type"),
        &[
            "",
            "BlockDevice",
            "CharDevice",
            "Directory",
            "DirectoryOrCreate",
            "File",
            "FileOrCreate",
            "Socket",
        ],
    );
    errors
}

/// A share on a server.
pub(crate) fn check_nfs(path: &Path, source: &Value) -> Errors {
    let mut errors = check::required(&path.child("server"), source.text("server"));
    let value = source.text("path");
    errors += check::required(&path.child("path"), value);
    if !value.starts_with('/') {
        errors.invalid(&path.child("path"), value, "must be an absolute path");
    }
    errors
}

fn check_keys(path: &Path, source: &Value, name: &str) -> Errors {
    let mut errors = check::required(&path.child(name), source.text(name));
    errors += check::file_mode(&path.child("defaultMode"), source.int("defaultMode"));
    errors += check_items(path, source);
    errors
}

fn check_items(path: &Path, source: &Value) -> Errors {
    let mut errors = Errors::new();
    for (path, item) in source.each(path, "items") {
        errors += check::required(&path.child("key"), item.text("key"));
        errors += check::required(&path.child("path"), item.text("path"));
        errors += check_file_path(&path.child("path"), item.text("path"));
        errors += check::file_mode(&path.child("mode"), item.int("mode"));
    }
    errors
}

/// The path of a file in a volume; names that start with two dots are reserved for the kubelet.
fn check_file_path(path: &Path, value: &str) -> Errors {
    let mut errors = check::descending_path(path, value);
    if value.starts_with("..") && !value.starts_with("../") {
        errors.invalid(path, value, "must not start with '..'");
    }
    errors
}

const VOLUME_FIELDS: &[&str] = &["metadata.name", "metadata.namespace", "metadata.uid"];

fn check_downward_file(path: &Path, file: &Value) -> Errors {
    let mut errors = check::required(&path.child("path"), file.text("path"));
    errors += check_file_path(&path.child("path"), file.text("path"));
    if file.has("fieldRef") {
        let reference = file.at("fieldRef");
        let fields: Vec<&str> = ["metadata.annotations", "metadata.labels"]
            .iter()
            .chain(VOLUME_FIELDS)
            .copied()
            .collect();
        errors += check_field_ref(&path.child("fieldRef"), reference, &fields);
        if file.has("resourceFieldRef") {
            errors.invalid(
                path,
                "resource",
                "fieldRef and resourceFieldRef can not be specified simultaneously",
            );
        }
    } else if file.has("resourceFieldRef") {
        let reference = file.at("resourceFieldRef");
        errors += check_resource_ref(&path.child("resourceFieldRef"), reference, true);
    } else {
        errors.required(path, "one of fieldRef and resourceFieldRef is required");
    }
    errors += check::file_mode(&path.child("mode"), file.int("mode"));
    errors
}

/// Fields of a pod that can be referenced.
const POD_FIELDS: &[&str] = &[
    "metadata.annotations",
    "metadata.labels",
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.restartPolicy",
    "spec.serviceAccountName",
    "spec.schedulerName",
    "status.phase",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];

/// A reference to a field of the pod.
pub(crate) fn check_field_ref(path: &Path, reference: &Value, fields: &[&str]) -> Errors {
    if reference.text("apiVersion").is_empty() {
        return FieldError::required(&path.child("apiVersion"), "").into();
    }
    let field = reference.text("fieldPath");
    if field.is_empty() {
        return FieldError::required(&path.child("fieldPath"), "").into();
    }
    if let Some((outer, subscript)) = field
        .strip_suffix("']")
        .and_then(|field| field.split_once("['"))
    {
        return match outer {
            "metadata.annotations" => check::qualified(path, &subscript.to_lowercase()),
            "metadata.labels" => check::qualified(path, subscript),
            _ => conversion_error(path, field).into(),
        };
    }
    match field {
        "spec.host" => Errors::new(),
        _ if !POD_FIELDS.contains(&field) => conversion_error(path, field).into(),
        _ => check::supported(&path.child("fieldPath"), field, fields),
    }
}

fn conversion_error(path: &Path, field: &str) -> FieldError {
    let detail = format!("error converting fieldPath: field label not supported: {field}");
    FieldError::invalid(&path.child("fieldPath"), field, detail)
}

const RESOURCE_FIELDS: &[&str] = &[
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
];

/// A reference to a resource of a container.
pub(crate) fn check_resource_ref(path: &Path, reference: &Value, in_volume: bool) -> Errors {
    let mut errors = Errors::new();
    let name = reference.text("resource");
    if in_volume && reference.text("containerName").is_empty() {
        errors.required(&path.child("containerName"), "");
    } else if name.is_empty() {
        errors.required(&path.child("resource"), "");
    } else if !name.starts_with("limits.hugepages-") && !name.starts_with("requests.hugepages-") {
        errors += check::supported(&path.child("resource"), name, RESOURCE_FIELDS);
    }
    let divisor = reference.text("divisor");
    if divisor.is_empty() || divisor == "0" {
        return errors;
    }
    let units = [
        "1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei",
    ];
    let what = match name
        .split_once('.')
        .map(|(_, resource)| resource)
        .unwrap_or_default()
    {
        "cpu" if !matches!(divisor, "1m" | "1") => {
            let detail = "only divisor's values 1m and 1 are supported with the cpu resource";
            errors.invalid(&path.child("divisor"), name, detail);
            return errors;
        }
        "cpu" => return errors,
        "memory" => "memory",
        "ephemeral-storage" => "local ephemeral storage",
        other if resources::is_huge_page(other) => "hugepages",
        _ => return errors,
    };
    if !units.contains(&divisor) {
        let detail = format!(
            "only divisor's values {} are supported with the {what} resource",
            units.join(", ")
        );
        errors.invalid(&path.child("divisor"), name, detail);
    }
    errors
}

fn check_projected(path: &Path, source: &Value) -> Errors {
    let mut errors = check::file_mode(&path.child("defaultMode"), source.int("defaultMode"));
    for (here, projection) in source.each(path, "sources") {
        let mut count = 0;
        for field in ["secret", "configMap"] {
            if projection.has(field) {
                count += 1;
                let inner = projection.at(field);
                let here = here.child(field);
                errors += check::required(&here.child("name"), inner.text("name"));
                errors += check_items(&here, inner);
            }
        }
        if projection.has("downwardAPI") {
            count += 1;
            for file in projection.items("downwardAPI.items") {
                errors += check_downward_file(&here.child("downwardAPI"), file);
            }
        }
        if projection.has("serviceAccountToken") {
            count += 1;
            let token = projection.at("serviceAccountToken");
            errors += check_token(&here.child("serviceAccountToken"), token);
        }
        count += ["clusterTrustBundle", "podCertificate"]
            .iter()
            .filter(|field| projection.has(field))
            .count();
        match count {
            0 => errors.required(&here, "must specify a projection source"),
            1 => {}
            _ => errors.forbidden(&here, "may not specify more than 1 volume type"),
        }
    }
    errors
}

fn check_token(path: &Path, token: &Value) -> Errors {
    let mut errors = Errors::new();
    let seconds = token.number("expirationSeconds");
    let here = path.child("expirationSeconds");
    if seconds < 600 {
        let detail = "may not specify a duration less than 10 minutes";
        errors.invalid(&here, seconds, detail);
    }
    if seconds > 1 << 32 {
        let detail = "may not specify a duration larger than 2^32 seconds";
        errors.invalid(&here, seconds, detail);
    }
    match token.text("path") {
        "" => errors.required(&path.child("path"), ""),
        file => errors += check_file_path(&path.child("path"), file),
    }
    errors
}

fn check_ephemeral(path: &Path, source: &Value) -> Errors {
    let path = path.child("volumeClaimTemplate");
    let template = source.at("volumeClaimTemplate");
    if template.is_null() {
        return FieldError::required(&path, "").into();
    }
    let mut errors = check::annotations(
        &path.child("metadata").child("annotations"),
        template.at("metadata.annotations"),
    );
    let labels = template.at("metadata.labels");
    errors += crate::builtin::labels::check(&path.child("metadata").child("labels"), labels);
    errors += volumes::check_claim_spec(&path.child("spec"), template.at("spec"));
    errors
}

/// Mounts and block devices of a container.
pub(crate) fn check_mounts(
    path: &Path,
    container: &Value,
    volumes: &BTreeMap<&str, &Value>,
) -> Errors {
    let mut errors = Errors::new();
    let mounts = container.items("volumeMounts");
    let devices = container.items("volumeDevices");
    let mut seen = Vec::new();
    let list = path.child("volumeMounts");
    for (path, mount) in indexed(&list, mounts) {
        let (name, at) = (mount.text("name"), mount.text("mountPath"));
        errors += check::required(&path.child("name"), name);
        if !volumes.contains_key(name) {
            errors.not_found(&path.child("name"), name);
        }
        errors += check::required(&path.child("mountPath"), at);
        if seen.contains(&at) {
            errors.invalid(&path.child("mountPath"), at, "must be unique");
        }
        seen.push(at);
        if devices.iter().any(|device| device.text("name") == name) {
            let detail = "must not already exist in volumeDevices";
            errors.invalid(&path.child("name"), name, detail);
        }
        if devices.iter().any(|device| device.text("devicePath") == at) {
            let detail = "must not already exist as a path in volumeDevices";
            errors.invalid(&path.child("mountPath"), at, detail);
        }
        errors += check_mount_options(&list, &path, container, mount);
    }
    errors += check_devices(&path.child("volumeDevices"), devices, mounts, volumes);
    errors
}

fn check_mount_options(list: &Path, path: &Path, container: &Value, mount: &Value) -> Errors {
    let mut errors = Errors::new();
    let (sub, expression) = (mount.text("subPath"), mount.text("subPathExpr"));
    if !sub.is_empty() {
        errors += check::descending_path(&list.child("subPath"), sub);
    }
    if !expression.is_empty() {
        if !sub.is_empty() {
            let detail = "subPathExpr and subPath are mutually exclusive";
            errors.invalid(&path.child("subPathExpr"), expression, detail);
        }
        errors += check::descending_path(&list.child("subPathExpr"), expression);
    }
    let propagation = mount.maybe_text("mountPropagation");
    if let Some(propagation) = propagation {
        let path = list.child("mountPropagation");
        let accepted = ["Bidirectional", "HostToContainer", "None"];
        errors += check::supported(&path, propagation, &accepted);
        if propagation == "Bidirectional" && !container.is_true("securityContext.privileged") {
            errors.forbidden(
                &path,
                "Bidirectional mount propagation is available only to privileged containers",
            );
        }
    }
    let path = list.child("recursiveReadOnly");
    match mount.maybe_text("recursiveReadOnly") {
        None | Some("Disabled") => {}
        Some("Enabled" | "IfPossible") => {
            if !mount.is_true("readOnly") {
                errors.forbidden(&path, "may only be specified when readOnly is true");
            }
            if propagation.is_some_and(|propagation| propagation != "None") {
                let detail = "may only be specified when mountPropagation is None or not specified";
                errors.forbidden(&path, detail);
            }
        }
        Some(other) => {
            errors.not_supported(&path, other, ["Disabled", "Enabled", "IfPossible"]);
        }
    }
    errors
}

fn check_devices(
    path: &Path,
    devices: &[Value],
    mounts: &[Value],
    volumes: &BTreeMap<&str, &Value>,
) -> Errors {
    let mut errors = Errors::new();
    let (mut names, mut paths) = (Vec::new(), Vec::new());
    for (path, device) in indexed(path, devices) {
        let (name, at) = (device.text("name"), device.text("devicePath"));
        errors += check::required(&path.child("name"), name);
        let mut wrong_name = |detail: &str| {
            errors.invalid(&path.child("name"), name, detail);
        };
        if names.contains(&name) {
            wrong_name("must be unique");
        }
        match volumes.get(name) {
            Some(volume) if !volume.has("persistentVolumeClaim") && !volume.has("ephemeral") => {
                wrong_name(
                    "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode",
                );
            }
            Some(_) => {}
            None => errors.not_found(&path.child("name"), name),
        }
        errors += check::required(&path.child("devicePath"), at);
        let mut wrong_path = |detail: &str| {
            errors.invalid(&path.child("devicePath"), at, detail);
        };
        if paths.contains(&at) {
            wrong_path("must be unique");
        }
        if at.split('/').any(|part| part == "..") {
            wrong_path("can not contain backsteps ('..')");
        } else {
            paths.push(at);
        }
        if mounts.iter().any(|mount| mount.text("name") == name) {
            let detail = "must not already exist in volumeMounts";
            errors.invalid(&path.child("name"), name, detail);
        }
        if mounts.iter().any(|mount| mount.text("mountPath") == at) {
            let detail = "must not already exist as a path in volumeMounts";
            errors.invalid(&path.child("devicePath"), at, detail);
        }
        names.push(name);
    }
    errors
}
